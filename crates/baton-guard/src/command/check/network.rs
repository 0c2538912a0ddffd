//! Checks of what reaches other machines: data that would leave, programs that would come.

use super::super::expand::{Arg, Known};
use super::super::options::Words;
use super::super::table::Entry;
use super::super::walk::Walker;
use super::Call;
use crate::path::escaped;

/// Whether a program is told to reach this machine and no other: by names that mean it everywhere.
pub(in crate::command) fn stays_here(words: &Words<'_>) -> bool {
    let is_here = |arg: &Arg| {
        let rest = arg.text.strip_prefix("http://").or_else(|| arg.text.strip_prefix("https://")).unwrap_or(&arg.text);
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        arg.known == Known::Exactly && !arg.glob && matches!(host, "localhost" | "127.0.0.1" | "[::1]")
    };
    let is_port = |arg: &Arg| arg.known == Known::Exactly && arg.text.parse::<u16>().is_ok();
    // A value of an option may be an address as well.
    let is_plain = |arg: &Arg| arg.known != Known::Guess && !arg.text.contains("://") && !arg.text.contains('.');
    words.operands.iter().any(is_here)
        && words.operands.iter().all(|arg| is_here(arg) || is_port(arg))
        && words.values.iter().all(|arg| is_here(arg) || is_plain(arg))
}

/// Whether a program asks servers of the web and needs none of the person's keys for it: what fetches, and git where it
/// only takes.
pub(in crate::command) fn is_of_web(entry: &Entry, words: &Words<'_>) -> bool {
    let takes =
        || words.operands.first().is_some_and(|sub| matches!(sub.text.as_str(), "clone" | "fetch" | "ls-remote"));
    entry.id == "net.fetch" || entry.id == "git.network" && takes()
}

impl Walker<'_> {
    /// What every program that reaches the network is checked for.
    pub(super) fn network(&mut self, call: &Call<'_>) {
        let from_commands =
            call.args.iter().any(|arg| arg.is_output) && (self.substituted.reads || self.substituted.secret);
        if from_commands {
            self.deny("exfil.output", "it sends the output of a command to another machine");
        }
        if call.input.secret {
            self.deny("exfil.input", "it sends what may be secrets to another machine");
        }
    }

    pub(super) fn fetch(&mut self, call: &Call<'_>) {
        self.network(call);
        let sends = call.texts().any(|text| text.ends_with("@-") || text == "@/dev/stdin" || text.ends_with("=@-"))
            || call.has(&["-T", "--upload-file"]) && call.texts().any(|text| text == "-" || text == ".");
        if sends && call.input.any {
            self.deny("exfil.input", "it sends what another command prints to another machine");
        }
        let curl_to_file = call.has(&["-O", "--remote-name", "-J"]) || call.name == "wget" || call.name == "aria2c";
        if curl_to_file {
            for arg in call.words.operands.iter().filter(|arg| arg.text.contains('/')) {
                let name = arg
                    .text
                    .rsplit('/')
                    .next()
                    .unwrap_or_default()
                    .split(['?', '#'])
                    .next()
                    .unwrap_or_default()
                    .to_owned();
                let path = self.absolute(&name);
                self.fetched.push(path);
            }
        }
        if call.name == "wget" {
            for value in call.words.hits.iter().filter_map(|hit| hit.value.clone()) {
                let path = self.absolute(&value.text);
                self.fetched.push(path);
            }
            if let Some(at) = call.args.iter().position(|arg| arg.text == "-O")
                && let Some(target) = call.args.get(at + 1).filter(|arg| arg.text != "-").cloned()
            {
                self.file(&target, baton_core::Access::Write);
                let path = self.absolute(&target.text);
                self.fetched.push(path);
            }
        }
        if call.texts().any(|text| text.starts_with("file://")) {
            self.ask("net.file-url", "it reads a file of this machine");
        }
    }

    pub(super) fn netpipe(&mut self, call: &Call<'_>) {
        self.network(call);
        let sends = matches!(
            call.name,
            "nc" | "ncat"
                | "netcat"
                | "socat"
                | "telnet"
                | "nc.traditional"
                | "nc.openbsd"
                | "cryptcat"
                | "mail"
                | "mailx"
                | "sendmail"
                | "mutt"
                | "msmtp"
        ) || call.name == "openssl" && call.texts().any(|text| text == "s_client");
        if sends && call.input.any {
            self.deny("exfil.input", "it sends what another command prints or a file holds to another machine");
        }
        if call.name == "socat"
            && call.texts().any(|text| {
                let text = text.to_lowercase();
                ["exec:", "system:", "unix", "abstract", "shell:"].iter().any(|kind| text.contains(kind))
            })
        {
            self.deny("control.socat", "it connects a program or a socket of this machine");
        }
        if call.texts().any(|text| text.starts_with('!') || text.contains("; !")) {
            self.deny("code.net-shell", format!("`{}` is told to run a program", escaped(call.name)));
        }
    }

    pub(super) fn ssh(&mut self, call: &Call<'_>) {
        self.network(call);
        let runs = |text: &str| {
            let text = text.to_lowercase();
            [
                "proxycommand",
                "localcommand",
                "knownhostscommand",
                "proxyusefdpass",
                "pkcs11provider",
                "securitykeyprovider",
                "include",
                "identityagent",
                "controlpath",
                "matchexec",
            ]
            .iter()
            .any(|name| text.contains(name))
        };
        if call.args.iter().any(|arg| arg.text.starts_with("-o") && runs(&arg.text))
            || call.words.values.iter().any(|value| runs(&value.text))
        {
            self.deny("net.ssh-command", "the option makes ssh run a program");
        }
        if call.name == "rsync" {
            for (n, arg) in call.args.iter().enumerate() {
                let bundled = arg.text.starts_with('-') && !arg.text.starts_with("--") && arg.text.ends_with('e');
                if bundled && call.args.get(n + 1).is_none_or(|value| value.text != "ssh") {
                    self.deny("net.rsync-shell", "`rsync -e` runs a program");
                }
            }
        }
        if call.input.any && (call.input.reads || call.input.secret) && matches!(call.name, "ssh") {
            self.deny("exfil.input", "it sends what another command prints or a file holds to another machine");
        }
        if call.name == "ssh" {
            let command: Vec<&str> = call.words.operands.iter().skip(1).map(|arg| arg.text.as_str()).collect();
            self.text_for_denials(&command.join(" "));
        }
    }

    pub(super) fn cloud(&mut self, call: &Call<'_>) {
        self.network(call);
        let holds = |needles: &[&str]| call.texts().any(|text| needles.iter().any(|needle| text.starts_with(needle)));
        if matches!(call.name, "docker" | "podman" | "nerdctl" | "docker-compose") {
            if holds(&[
                "--privileged",
                "--pid=host",
                "--net=host",
                "--network=host",
                "--ipc=host",
                "--uts=host",
                "--userns=host",
                "--cap-add",
                "--device",
                "--security-opt",
                "--volumes-from",
            ]) {
                self.deny("control.container", "the container would have rights of the machine");
            }
            let mounts: Vec<String> = call.texts().map(str::to_owned).collect();
            for (n, text) in mounts.iter().enumerate() {
                let behind = mounts.get(n + 1).map_or("", String::as_str);
                let value = match text.as_str() {
                    "-v" | "--volume" | "--mount" => behind,
                    other => other
                        .strip_prefix("-v")
                        .or_else(|| other.strip_prefix("--volume="))
                        .or_else(|| other.strip_prefix("--mount="))
                        .unwrap_or_default(),
                };
                let source = value
                    .split(',')
                    .find_map(|item| item.strip_prefix("source=").or_else(|| item.strip_prefix("src=")));
                let source = source.unwrap_or_else(|| value.split(':').next().unwrap_or_default());
                if source.starts_with(['/', '~'])
                    && self.scope.place(&self.absolute(source)) != crate::path::Place::Inside
                {
                    self.deny("control.container", "the container would see files of the machine");
                }
            }
        }
        if matches!(call.name, "aws" | "gsutil" | "gcloud" | "rclone" | "s3cmd" | "gh" | "mc") && call.input.any {
            self.deny("exfil.input", "it sends what another command prints to another machine");
        }
    }
}
