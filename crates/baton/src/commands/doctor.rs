//! `baton doctor`: what works here, and what to do about the rest.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anstyle::{AnsiColor, Style};
use baton_core::Fault;
use baton_guard::program::find;
use baton_guard::sandbox::{Level, Sandbox};
use baton_llm::{Auth, Endpoint};
use serde::Serialize;

use crate::Global;
use crate::exit::Exit;
use crate::setup::Setup;

/// Check what Baton needs and finds on this machine
#[derive(clap::Args)]
#[command(after_help = "\
Looks only: calls nobody, writes nothing that stays. Exit code 3 if something essential is missing.
")]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Check {
    name: String,
    state: State,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Ok,
    /// Works without it.
    Absent,
    Failed,
}

impl Check {
    fn new(name: &str, state: State, detail: impl Into<String>) -> Self {
        Self { name: name.to_owned(), state, detail: detail.into(), hint: None }
    }

    fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<Exit, Fault> {
    let setup = Setup::new(global)?;
    let mut checks = vec![Check::new("baton", State::Ok, env!("CARGO_PKG_VERSION"))];
    checks.push(Check::new("project", State::Ok, setup.project.root.display().to_string()));
    checks.extend(settings(&setup));
    checks.push(state_dir(&setup.places.state_dir));
    checks.push(program("git", State::Failed, "the agent and `baton demo` use it"));
    checks.push(program("bash", State::Absent, "sh is used instead"));
    checks.push(program("sh", State::Failed, "the bash tool needs a shell"));
    checks.push(sandbox());
    checks.extend(providers(&setup));
    checks.extend(network());
    let written = if args.json { print_json(&checks) } else { print_text(&checks) };
    written.map_err(|error| Fault::internal(format!("cannot write the output: {error}")))?;
    Ok(if checks.iter().any(|check| check.state == State::Failed) { Exit::Failed } else { Exit::Done })
}

fn settings(setup: &Setup) -> Vec<Check> {
    let read = setup.files.iter().filter(|file| file.is_file()).map(|file| file.display().to_string());
    let read: Vec<String> = read.collect();
    let check = if read.is_empty() {
        Check::new("settings", State::Absent, "no file; defaults apply")
            .hint(format!("yours go to {}", setup.places.user_config().display()))
    } else {
        Check::new("settings", State::Ok, read.join(", "))
    };
    let warnings = setup.warnings.iter().map(|warning| Check::new("settings", State::Absent, warning.to_string()));
    std::iter::once(check).chain(warnings).collect()
}

fn state_dir(dir: &Path) -> Check {
    let existing = dir.ancestors().find(|dir| dir.is_dir()).unwrap_or(dir);
    match tempfile::NamedTempFile::new_in(existing) {
        Ok(_) => Check::new("state", State::Ok, dir.display().to_string()),
        Err(error) => Check::new("state", State::Failed, format!("{} cannot be written: {error}", dir.display()))
            .hint("make it writable, or set BATON_HOME to a directory that is"),
    }
}

fn program(name: &str, if_missing: State, why: &str) -> Check {
    let found = find(name, &std::env::var_os("PATH").unwrap_or_default());
    let version = |program| Command::new(program).arg("--version").stdin(Stdio::null()).stderr(Stdio::null()).output();
    match found.map(version) {
        Some(Ok(output)) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let version = text.lines().next().filter(|line| !line.is_empty()).unwrap_or("found");
            Check::new(name, State::Ok, version)
        }
        _ => Check::new(name, if_missing, format!("not found: {why}")),
    }
}

fn sandbox() -> Check {
    let sandbox = Sandbox::new();
    let found = sandbox.found();
    let missing: Vec<_> = found.missing.iter().map(|(level, why)| format!("; no {level}: {why}")).collect();
    match found.level {
        Level::None => {
            Check::new("sandbox", State::Absent, super::sandbox::unavailable(found)).hint(super::sandbox::HINT)
        }
        level => Check::new("sandbox", State::Ok, format!("{level}{}", missing.concat())),
    }
}

fn providers(setup: &Setup) -> Vec<Check> {
    let env = |name: &str| setup.env(name);
    let providers = &setup.llm.providers;
    providers
        .names()
        .map(|name| match Endpoint::resolve(name, &setup.llm.providers, &env) {
            Ok(endpoint) => {
                let key = if endpoint.auth == Auth::None { "no key needed" } else { "key found" };
                Check::new(name, State::Ok, format!("{key}, {}", endpoint.host()))
            }
            Err(error) => {
                let check = Check::new(name, State::Absent, error.message);
                match error.hint {
                    Some(hint) => check.hint(hint),
                    None => check,
                }
            }
        })
        .collect()
}

fn network() -> Vec<Check> {
    let names = [
        "HTTPS_PROXY",
        "https_proxy",
        "HTTP_PROXY",
        "http_proxy",
        "ALL_PROXY",
        "NO_PROXY",
        "SSL_CERT_FILE",
        "NODE_EXTRA_CA_CERTS",
    ];
    let set = names.iter().filter(|name| std::env::var_os(name).is_some());
    // Values may hold passwords, so only names are shown.
    set.map(|name| Check::new("network", State::Ok, format!("{name} is set"))).collect()
}

fn print_json(checks: &[Check]) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut stdout, checks)?;
    writeln!(stdout)
}

fn print_text(checks: &[Check]) -> std::io::Result<()> {
    let width = checks.iter().map(|check| check.name.len()).max().unwrap_or_default();
    let mut out = anstream::stdout().lock();
    for check in checks {
        let (style, mark) = match check.state {
            State::Ok => (AnsiColor::Green.on_default(), "ok"),
            State::Absent => (Style::new().dimmed(), "--"),
            State::Failed => (AnsiColor::Red.on_default(), "!!"),
        };
        writeln!(out, "{style}{mark}{style:#} {:width$}  {}", check.name, check.detail)?;
        if let (Some(hint), State::Failed) = (&check.hint, check.state) {
            writeln!(out, "   {:width$}  hint: {hint}", "")?;
        }
    }
    Ok(())
}
