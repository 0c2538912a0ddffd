//! The environment of commands: the person's, without secrets, and without anything that would wait for a person.

use std::ffi::OsString;

/// What commands find in place of the person's settings: no pager, editor or prompt ever waits for someone.
///
/// `NO_COLOR` is left alone on purpose: it changes what a project's own tests print, and colours are removed anyway.
const SETTINGS: [(&str, &str); 5] =
    [("TERM", "dumb"), ("PAGER", "cat"), ("GIT_PAGER", "cat"), ("GIT_EDITOR", "true"), ("GIT_TERMINAL_PROMPT", "0")];

/// The variables a command gets, made from those of Baton itself. The `hidden` ones are taken out, too.
pub(crate) fn child_environment(
    vars: impl IntoIterator<Item = (OsString, OsString)>,
    hidden: &[String],
) -> Vec<(OsString, OsString)> {
    vars.into_iter()
        .filter(|(name, _)| !is_withheld(&name.to_string_lossy()))
        .filter(|(name, _)| hidden.iter().all(|hidden| name != hidden.as_str()))
        .filter(|(name, _)| SETTINGS.iter().all(|(setting, _)| name != setting))
        .chain(SETTINGS.map(|(name, value)| (name.into(), value.into())))
        .collect()
}

/// Whether commands do not get a variable of this name: it may carry a secret, or belongs to providers or to Baton.
fn is_withheld(name: &str) -> bool {
    const FAMILIES: [&str; 6] = ["AWS", "ANTHROPIC", "OPENAI", "GEMINI", "BATON", "AZURE"];
    let first = name.split('_').next().unwrap_or_default().to_ascii_uppercase();
    FAMILIES.contains(&first.as_str()) || is_secret_name(name)
}

/// Whether a variable of this name carries a secret. Judges whole words, so that `TOKENIZERS_PARALLELISM` does not.
pub fn is_secret_name(name: &str) -> bool {
    /// Words that tell a secret wherever they stand, also as the end of a longer word (`PGPASSWORD`, `AUTHTOKEN`).
    const WORDS: [&str; 9] =
        ["SECRET", "SECRETS", "TOKEN", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS", "APIKEY"];
    /// Words that tell a secret at the end of a name: `STRIPE_KEY`, `GITHUB_PAT`, `MYSQL_PWD`.
    const LAST_WORDS: [&str; 4] = ["KEY", "KEYS", "PAT", "PWD"];

    let name = name.to_ascii_uppercase();
    let mut words = name.split('_');
    let last = words.next().and_then(|_| words.next_back());
    name.split('_').any(|word| WORDS.iter().any(|secret| word.ends_with(secret)))
        || last.is_some_and(|last| LAST_WORDS.contains(&last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(name: &str) -> bool {
        child_environment([(name.into(), "x".into())], &["BOXVAR".to_owned()]).contains(&(name.into(), "x".into()))
    }

    #[test]
    fn secrets_go() {
        for name in [
            "ANTHROPIC_API_KEY",
            "OPENAI_BASE_URL",
            "GEMINI_API_KEY",
            "GOOGLE_API_KEY",
            "AWS_SESSION_TOKEN",
            "AWS_PROFILE",
            "GITHUB_TOKEN",
            "GH_TOKEN",
            "NPM_TOKEN",
            "NODE_AUTH_TOKEN",
            "MY_SECRET_VALUE",
            "CLIENT_SECRET",
            "DB_PASSWORD",
            "PGPASSWORD",
            "MYSQL_PWD",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "STRIPE_KEY",
            "stripe_api_key",
            "GITHUB_PAT",
            "BATON_COMPAT_API_KEY",
            "BATON_CALL",
            "SIGNING_KEYS",
            "TOKEN",
            "BOXVAR",
        ] {
            assert!(!kept(name), "{name}");
        }
    }

    #[test]
    fn near_misses_stay() {
        for name in [
            "BOXVAR2",
            "TOKENIZERS_PARALLELISM",
            "KEYBOARD",
            "MAX_TOKENS",
            "PATH",
            "PWD",
            "OLDPWD",
            "HOME",
            "SSH_AUTH_SOCK",
            "KEY",
            "AWSOME",
            "SECRETARY",
            "XDG_CONFIG_HOME",
            "CARGO_HOME",
            "MONKEY",
            "LANG",
            "NO_COLOR",
            "PYTHONPATH",
        ] {
            assert!(kept(name), "{name}");
        }
    }

    #[test]
    fn nothing_waits_for_a_person() {
        let vars = child_environment([("PAGER".into(), "less".into())], &[]);
        let pagers: Vec<_> = vars.iter().filter(|(name, _)| name == "PAGER").collect();
        assert_eq!(pagers, [&("PAGER".into(), "cat".into())]);
    }
}
