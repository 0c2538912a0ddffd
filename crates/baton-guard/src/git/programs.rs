//! Which of git's settings name programs, and what to put in their place so that nothing is started.

use super::config::Setting;
use crate::path::wildcard;

/// Shows a difference as git's own would, for settings that put a program in its place. It is given the path, both
/// files, and their ids and modes.
const PLAIN_DIFF: &str = "f() { diff -u -L \"a/$1\" -L \"b/$1\" \"$2\" \"$5\"; true; }; f";

/// Settings that name programs, with a value under which git starts none of the repository's.
const PROGRAMS: &[(&str, &str)] = &[
    ("core.hookspath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.pager", "cat"),
    ("core.editor", "true"),
    ("core.sshcommand", "ssh"),
    ("core.gitproxy", ""),
    ("core.askpass", "true"),
    ("core.alternaterefscommand", "true"),
    ("core.virtualfilesystem", "true"),
    ("sequence.editor", "true"),
    ("diff.external", PLAIN_DIFF),
    ("diff.*.command", PLAIN_DIFF),
    ("diff.*.textconv", "cat"),
    ("merge.*.driver", "false"),
    ("filter.*.clean", ""),
    ("filter.*.smudge", ""),
    ("filter.*.process", ""),
    ("difftool.*.cmd", "false"),
    ("difftool.*.path", "false"),
    ("mergetool.*.cmd", "false"),
    ("mergetool.*.path", "false"),
    ("guitool.*.cmd", "false"),
    ("credential.helper", ""),
    ("credential.*.helper", ""),
    ("gpg.program", "gpg"),
    ("gpg.ssh.program", "ssh-keygen"),
    ("gpg.x509.program", "gpgsm"),
    ("gpg.*.program", "gpg"),
    ("gpg.ssh.defaultkeycommand", "true"),
    ("pager.*", "false"),
    ("browser.*.cmd", "false"),
    ("browser.*.path", "false"),
    ("man.*.cmd", "false"),
    ("man.*.path", "false"),
    ("gc.recentobjectshook", ""),
    ("uploadpack.packobjectshook", ""),
    ("remote.*.uploadpack", "git-upload-pack"),
    ("remote.*.receivepack", "git-receive-pack"),
    ("remote.*.vcs", ""),
    ("submodule.*.update", "checkout"),
    ("init.templatedir", ""),
    ("interactive.difffilter", "cat"),
    ("protocol.allow", "user"),
    ("protocol.*.allow", "user"),
    ("trailer.*.command", "true"),
    ("trailer.*.cmd", "true"),
    ("tar.*.command", "cat"),
    ("hook.*.command", "true"),
    ("instaweb.httpd", "false"),
    ("imap.tunnel", "false"),
    ("sendemail.*", "false"),
    ("lfs.customtransfer.*.path", "false"),
    ("lfs.standalonetransferagent", ""),
    ("lfs.extension.*.clean", "cat"),
    ("lfs.extension.*.smudge", "cat"),
    ("alias.*", ""),
];

/// Settings that count whatever a repository says: they switch off what needs no name.
pub(super) const ALWAYS: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("safe.bareRepository", "explicit"),
    ("protocol.ext.allow", "never"),
    ("protocol.fd.allow", "never"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
];

/// Whether a setting makes git start a program that the repository chose.
pub(super) fn names_program(setting: &Setting) -> bool {
    let value = setting.value.as_deref().unwrap_or("true");
    if neutral(&setting.key).is_none() {
        // An address of this form is handed to a program.
        return ["remote.*.url", "remote.*.pushurl", "submodule.*.url"].iter().any(|key| wildcard(key, &setting.key))
            && value.contains("::")
            || wildcard("url.*::*.*insteadof", &setting.key);
    }
    let starts_shell = value.trim_start().starts_with('!');
    match setting.key.split('.').next().unwrap_or_default() {
        // A word of git, as long as it does not begin so.
        "alias" | "submodule" => starts_shell,
        // Yes and no switch git's own; anything else is a program.
        "pager" => !is_bool(value),
        "core" if setting.key == "core.fsmonitor" => !is_bool(value),
        "protocol" => value == "always" || value == "user",
        _ => !value.is_empty(),
    }
}

/// What is to be set so that these settings start nothing.
pub(super) fn neutralised<'a>(settings: impl Iterator<Item = &'a Setting>) -> Vec<(String, String)> {
    let mut set: Vec<(String, String)> = Vec::new();
    let mut add = |key: String, value: &str| {
        if !set.iter().any(|(known, _)| *known == key) {
            set.push((key, value.to_owned()));
        }
    };
    for setting in settings.filter(|setting| names_program(setting)) {
        let Some(value) = neutral(&setting.key) else { continue };
        // A filter without a program fails where it is required.
        if let Some(name) = setting.key.strip_prefix("filter.").and_then(|rest| rest.rsplit_once('.')) {
            add(format!("filter.{}.required", name.0), "false");
        }
        // Of several, the first of these counts, so that it cannot be replaced; it is started here for files only.
        if setting.key.starts_with("remote.") {
            add("protocol.file.allow".to_owned(), "never");
        }
        add(setting.key.clone(), value);
    }
    // The last that is set counts, so what always holds comes last.
    for (key, value) in ALWAYS {
        set.retain(|(known, _)| !known.eq_ignore_ascii_case(key));
        set.push(((*key).to_owned(), (*value).to_owned()));
    }
    set
}

fn neutral(key: &str) -> Option<&'static str> {
    PROGRAMS.iter().find(|(pattern, _)| wildcard(pattern, key)).map(|(_, value)| *value)
}

fn is_bool(value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    matches!(value.as_str(), "true" | "false" | "yes" | "no" | "on" | "off" | "") || value.parse::<i64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::super::config::parse;
    use super::*;

    fn named(text: &str) -> Vec<String> {
        parse(text).into_iter().filter(names_program).map(|setting| setting.key).collect()
    }

    #[test]
    fn an_ordinary_clone_names_no_program() {
        let text = "[core]\nrepositoryformatversion = 0\nfilemode = true\nfsmonitor = true\n[remote \"origin\"]\n\
                    url = git@host:a/b.git\nfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\nremote = origin\n\
                    [submodule \"x\"]\nactive = true\nupdate = merge\nurl = https://h/x\n[pager]\nlog = false\n[alias]\nst = status\n[user]\nname = X\n";
        assert_eq!(named(text), Vec::<String>::new());
    }

    #[test]
    fn whatever_starts_a_program_is_named_and_has_something_harmless_instead() {
        let text = "[core]\nfsmonitor = ./e\nhooksPath = .h\nsshCommand = e\n[filter \"a.b\"]\nclean = e\nrequired\n\
                    [diff \"x\"]\ntextconv = e\n[alias]\nst = !e\n[submodule \"m\"]\nupdate = !e\n[protocol \"ext\"]\nallow = always\n\
                    [remote \"o\"]\nurl = ext::sh -c e\nuploadpack = ./e\n[url \"ext::sh -c e \"]\ninsteadOf = https://\n[pager]\nlog = ./e\n";
        let found = named(text);
        for key in [
            "core.fsmonitor",
            "core.hookspath",
            "core.sshcommand",
            "filter.a.b.clean",
            "diff.x.textconv",
            "alias.st",
            "submodule.m.update",
            "protocol.ext.allow",
            "remote.o.url",
            "remote.o.uploadpack",
            "url.ext::sh -c e .insteadof",
            "pager.log",
        ] {
            assert!(found.iter().any(|found| found == key), "{key}: {found:?}");
        }
        let set = neutralised(parse(text).iter());
        let value = |key: &str| set.iter().rfind(|(known, _)| known == key).map(|(_, value)| value.as_str());
        assert_eq!(value("filter.a.b.clean"), Some(""));
        assert_eq!(value("filter.a.b.required"), Some("false"));
        assert_eq!(value("diff.x.textconv"), Some("cat"));
        assert_eq!(value("protocol.ext.allow"), Some("never"));
        assert_eq!(value("core.fsmonitor"), Some("false"));
        assert!(set.iter().all(|(_, value)| !value.contains("./e")));
    }
}
