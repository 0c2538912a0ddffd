//! Endpoints: which server answers for a provider's name, in which wire format, with which key.

use std::collections::BTreeMap;
use std::fmt;

use baton_config::Section;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::LlmError;
use crate::wire::Wire;
use baton_core::Tier;

/// The setting `providers`: servers by name; fields that are left out come from the preset.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ProviderSettings(pub BTreeMap<String, ProviderSetting>);

impl Section for ProviderSettings {
    const KEY: &'static str = "providers";

    /// Keys go to the servers that are named here.
    fn allowed_when_trusted(_value: &Value) -> bool {
        false
    }

    /// A header may hold a key.
    fn is_secret(path: &[String]) -> bool {
        path.get(1).is_some_and(|field| field == "headers") && path.len() > 2
    }
}

/// One server.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ProviderSetting {
    /// `anthropic`, `responses`, `chat` or `gemini`; `chat` for a name that has no preset.
    pub wire: Option<Wire>,
    /// Where it is.
    pub base_url: Option<String>,
    /// The variable that holds its key; empty for a server that wants none.
    pub key_env: Option<String>,
    /// Headers to send with each request.
    pub headers: BTreeMap<String, String>,
}

/// A server, ready to be called.
#[derive(Debug, Clone, PartialEq)]
pub struct Endpoint {
    /// The provider's name.
    pub provider: String,
    /// The format it speaks.
    pub wire: Wire,
    /// Where it is, without a slash at its end.
    pub base_url: String,
    /// How it is told who calls.
    pub auth: Auth,
    /// Further headers.
    pub headers: BTreeMap<String, String>,
}

/// How a server is told who calls.
#[derive(Debug, Clone, PartialEq)]
pub enum Auth {
    /// Not at all.
    None,
    /// A header that holds the key.
    Header(&'static str, Secret),
    /// `authorization: Bearer`.
    Bearer(Secret),
}

/// A key. It shows itself to nobody but the request that needs it.
#[derive(Clone, PartialEq)]
pub struct Secret(String);

impl Secret {
    /// The key itself; only for the header of a request.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A provider that Baton knows by name.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// The name.
    pub name: &'static str,
    wire: Wire,
    base_url: &'static str,
    base_url_env: &'static str,
    /// The variables that may hold its key; none for a server that wants no key.
    pub key_env: &'static [&'static str],
    key_needed: bool,
}

const fn hosted(
    name: &'static str,
    wire: Wire,
    base_url: &'static str,
    base_url_env: &'static str,
    key_env: &'static [&'static str],
) -> Preset {
    Preset { name, wire, base_url, base_url_env, key_env, key_needed: true }
}

const fn local(
    name: &'static str,
    base_url: &'static str,
    base_url_env: &'static str,
    key_env: &'static [&'static str],
) -> Preset {
    Preset { name, wire: Wire::Chat, base_url, base_url_env, key_env, key_needed: false }
}

/// All presets, in the order in which a model is chosen by the keys that are there.
pub const PRESETS: [Preset; 11] = [
    hosted(
        "anthropic",
        Wire::Anthropic,
        "https://api.anthropic.com",
        "ANTHROPIC_BASE_URL",
        &["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"],
    ),
    hosted("openai", Wire::Responses, "https://api.openai.com/v1", "OPENAI_BASE_URL", &["OPENAI_API_KEY"]),
    hosted(
        "gemini",
        Wire::Gemini,
        "https://generativelanguage.googleapis.com",
        "GEMINI_BASE_URL",
        &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    ),
    hosted("openrouter", Wire::Chat, "https://openrouter.ai/api/v1", "OPENROUTER_BASE_URL", &["OPENROUTER_API_KEY"]),
    hosted("deepseek", Wire::Chat, "https://api.deepseek.com/v1", "DEEPSEEK_BASE_URL", &["DEEPSEEK_API_KEY"]),
    hosted("groq", Wire::Chat, "https://api.groq.com/openai/v1", "GROQ_BASE_URL", &["GROQ_API_KEY"]),
    hosted("mistral", Wire::Chat, "https://api.mistral.ai/v1", "MISTRAL_BASE_URL", &["MISTRAL_API_KEY"]),
    hosted("xai", Wire::Chat, "https://api.x.ai/v1", "XAI_BASE_URL", &["XAI_API_KEY"]),
    local("ollama", "http://127.0.0.1:11434/v1", "OLLAMA_BASE_URL", &[]),
    local("lmstudio", "http://127.0.0.1:1234/v1", "LMSTUDIO_BASE_URL", &[]),
    local("compat", "", "BATON_COMPAT_BASE_URL", &["BATON_COMPAT_API_KEY"]),
];

/// Looks up variables; a parameter so that tests need no real environment.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

impl ProviderSettings {
    /// Headers that say who calls, by a name for each.
    fn secret_headers(&self) -> impl Iterator<Item = (String, String)> {
        let is_secret = |name: &str| {
            let name = name.to_ascii_lowercase();
            ["auth", "key", "token", "secret", "cookie"].iter().any(|word| name.contains(word))
        };
        self.0.iter().flat_map(move |(provider, setting)| {
            let secret = setting.headers.iter().filter(move |(name, _)| is_secret(name));
            secret.map(move |(name, value)| (format!("{provider}:{name}"), value.clone()))
        })
    }

    /// Every key that these settings and the environment hold, by its variable's name.
    pub fn keys(&self, env: Env<'_>) -> Vec<(String, String)> {
        let presets = PRESETS.iter().flat_map(|preset| preset.key_env).map(|name| (*name).to_owned());
        let set = presets.chain(self.key_names()).filter_map(|name| {
            let value = env(&name)?.trim().to_owned();
            Some((name, value))
        });
        set.chain(self.secret_headers()).collect()
    }

    /// The variables that hold keys by these settings: commands must not inherit them.
    pub fn key_names(&self) -> impl Iterator<Item = String> {
        self.0.values().filter_map(|setting| setting.key_env.clone()).filter(|name| !name.is_empty())
    }

    /// The names of all providers: the presets, then those of the settings.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let own = self.0.keys().map(String::as_str).filter(|name| !PRESETS.iter().any(|preset| preset.name == *name));
        PRESETS.iter().map(|preset| preset.name).chain(own)
    }

    /// The variables that may hold the key of a provider, in the order in which they count.
    pub fn key_variables(&self, provider: &str) -> Vec<&str> {
        match self.0.get(provider).and_then(|setting| setting.key_env.as_deref()) {
            Some("") => Vec::new(),
            Some(name) => vec![name],
            None => {
                let preset = PRESETS.iter().find(|preset| preset.name == provider);
                preset.map(|preset| preset.key_env.to_vec()).unwrap_or_default()
            }
        }
    }
}

impl Endpoint {
    /// The server of a provider: settings over environment over preset.
    pub fn resolve(provider: &str, settings: &ProviderSettings, env: Env<'_>) -> Result<Self, LlmError> {
        let preset = PRESETS.iter().find(|preset| preset.name == provider);
        let setting = settings.0.get(provider);
        if preset.is_none() && setting.is_none() {
            return Err(unknown(provider, settings));
        }
        let setting = setting.cloned().unwrap_or_default();
        let wire = setting.wire.or(preset.map(|preset| preset.wire)).unwrap_or(Wire::Chat);
        let env_url_name = preset.map(|preset| preset.base_url_env);
        let base_url = setting
            .base_url
            .or_else(|| env_url_name.and_then(env).filter(|url| !url.trim().is_empty()))
            .or_else(|| preset.map(|preset| preset.base_url.to_owned()))
            .map(|url| url.trim_end_matches('/').to_owned())
            .filter(|url| !url.is_empty())
            .ok_or_else(|| {
                LlmError::input(format!("the provider {provider} has no address")).hint(match env_url_name {
                    Some(name) => format!("set {name}, for example to http://127.0.0.1:8000/v1"),
                    None => format!("set `providers.{provider}.base_url` in the settings"),
                })
            })?;
        let is_http = reqwest::Url::parse(&base_url).is_ok_and(|url| ["http", "https"].contains(&url.scheme()));
        if !is_http {
            return Err(LlmError::input(format!("the base URL of {provider} is no http or https address"))
                .hint("write it like https://host/v1"));
        }
        let names = settings.key_variables(provider);
        let needed = setting.key_env.is_some() || preset.is_some_and(|preset| preset.key_needed);
        let key = names.iter().find_map(|name| env(name).filter(|key| !key.trim().is_empty()).map(|key| (*name, key)));
        let auth = match key {
            Some((name, key)) => auth(wire, name, Secret(key.trim().to_owned())),
            None if needed && !names.is_empty() => return Err(missing_key(provider, &names)),
            None => Auth::None,
        };
        Ok(Self { provider: provider.to_owned(), wire, base_url, auth, headers: setting.headers })
    }

    /// The base URL without what might be secret in it: for messages.
    pub fn host(&self) -> String {
        match reqwest::Url::parse(&self.base_url) {
            Ok(url) => {
                let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
                format!(
                    "{}://{}{port}{}",
                    url.scheme(),
                    url.host_str().unwrap_or("?"),
                    url.path().trim_end_matches('/')
                )
            }
            Err(_) => "its base URL".to_owned(),
        }
    }
}

fn auth(wire: Wire, variable: &str, key: Secret) -> Auth {
    match wire {
        // Tokens of a gateway or a subscription go where OAuth tokens go.
        Wire::Anthropic if variable.ends_with("_AUTH_TOKEN") => Auth::Bearer(key),
        Wire::Anthropic => Auth::Header("x-api-key", key),
        Wire::Gemini => Auth::Header("x-goog-api-key", key),
        Wire::Responses | Wire::Chat => Auth::Bearer(key),
    }
}

fn unknown(provider: &str, settings: &ProviderSettings) -> LlmError {
    let mut names: Vec<&str> = settings.names().collect();
    names.extend(["script", "cassette"]);
    LlmError::input(format!("there is no provider `{provider}`"))
        .hint(format!("known are {}; add others under `providers` in the settings", names.join(", ")))
}

fn missing_key(provider: &str, names: &[&str]) -> LlmError {
    LlmError::provider(Tier::UserFixable, format!("no key for {provider}: {} is not set", names.join(" or ")))
        .hint(format!("`baton auth login {provider}`, or export {}=…; without a key: `baton demo`", names[0]))
}

/// The first provider whose key is in the environment.
pub fn first_with_key(env: Env<'_>) -> Option<&'static str> {
    let has_key = |preset: &&Preset| {
        preset.key_needed && preset.key_env.iter().any(|name| env(name).is_some_and(|key| !key.trim().is_empty()))
    };
    PRESETS.iter().find(has_key).map(|preset| preset.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(provider: &str, vars: &[(&str, &str)], settings: &str) -> Result<Endpoint, LlmError> {
        let env = |name: &str| vars.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        Endpoint::resolve(provider, &serde_json::from_str(settings).unwrap(), &env)
    }

    #[test]
    fn each_provider_is_told_who_calls_in_its_own_way() {
        let auth = |provider, key| resolve(provider, &[(key, "k")], "{}").unwrap().auth;
        assert_eq!(auth("anthropic", "ANTHROPIC_API_KEY"), Auth::Header("x-api-key", Secret("k".into())));
        assert_eq!(auth("anthropic", "ANTHROPIC_AUTH_TOKEN"), Auth::Bearer(Secret("k".into())));
        assert_eq!(auth("openai", "OPENAI_API_KEY"), Auth::Bearer(Secret("k".into())));
        assert_eq!(auth("gemini", "GOOGLE_API_KEY"), Auth::Header("x-goog-api-key", Secret("k".into())));
        assert_eq!(resolve("ollama", &[], "{}").unwrap().auth, Auth::None);
        assert!(!format!("{:?}", auth("openai", "OPENAI_API_KEY")).contains('k'));
    }

    #[test]
    fn settings_win_over_the_environment_over_presets() {
        let key = ("OPENAI_API_KEY", "k");
        assert_eq!(resolve("openai", &[key], "{}").unwrap().base_url, "https://api.openai.com/v1");
        let url = ("OPENAI_BASE_URL", "http://h/v1/");
        assert_eq!(resolve("openai", &[key, url], "{}").unwrap().base_url, "http://h/v1");
        assert_eq!(
            resolve("openai", &[key, ("OPENAI_BASE_URL", " ")], "{}").unwrap().host(),
            "https://api.openai.com/v1"
        );
        let mine = r#"{"openai":{"base_url":"http://mine","wire":"chat"}}"#;
        let endpoint = resolve("openai", &[key, url], mine).unwrap();
        assert_eq!((endpoint.base_url.as_str(), endpoint.wire), ("http://mine", Wire::Chat));
    }

    #[test]
    fn a_server_of_ones_own_needs_only_an_address() {
        let endpoint = resolve("box", &[], r#"{"box":{"base_url":"http://box/v1"}}"#).unwrap();
        assert_eq!((endpoint.wire, endpoint.auth), (Wire::Chat, Auth::None));
        let error = resolve("box", &[], r#"{"box":{"base_url":"http://box/v1","key_env":"BOX_KEY"}}"#).unwrap_err();
        assert!(error.message.contains("BOX_KEY"));
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = resolve("gemini", &[], "{}").unwrap_err();
        assert_eq!(error.message, "no key for gemini: GEMINI_API_KEY or GOOGLE_API_KEY is not set");
        for url in ["notaurl", "file:///etc/passwd", "ftp://h"] {
            let error = resolve("compat", &[("BATON_COMPAT_BASE_URL", url)], "{}").unwrap_err();
            assert_eq!(error.kind, crate::error::LlmErrorKind::Input);
        }
        assert!(resolve("compat", &[], "{}").unwrap_err().hint.unwrap().contains("BATON_COMPAT_BASE_URL"));
        let error = resolve("antropic", &[], "{}").unwrap_err();
        assert!(error.message.contains("antropic") && error.hint.unwrap().contains("anthropic, openai"));
    }
}
