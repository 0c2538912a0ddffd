//! `baton auth`: keys that Baton keeps for its person.

use std::io::{self, IsTerminal, Read, Write};

use baton_core::{Area, Fault, Tier};
use baton_guard::credentials::{Place, StoreError};
use baton_llm::{Endpoint, KeyVerdict, LlmError, probe_key};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use serde::Serialize;

use crate::Global;
use crate::exit::Exit;
use crate::setup::{Setup, block_on};

/// Keep, show and forget the keys of providers
#[derive(clap::Args)]
#[command(after_help = "\
A key in the environment counts first. Others are kept in the keyring of the desktop where there is one
(secret-tool), else in the file `credentials` of Baton's state directory, which only you can read.
Keys are never handed to a command that an agent runs.
")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Keep the key of a provider; it is read from stdin, or asked for
    Login {
        /// The provider: anthropic, openai, gemini, …
        provider: String,
        /// Do not ask the provider whether it takes the key
        #[arg(long)]
        no_verify: bool,
    },
    /// Show which provider has a key, and from where
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Forget the key of a provider
    Logout {
        /// The provider
        provider: String,
    },
}

/// The most that is read of a key.
const KEY_MAX: u64 = 64 * 1024;

/// Runs the command.
pub fn run(global: &Global, args: Args) -> Result<Exit, Fault> {
    let setup = Setup::new(global)?;
    match args.action {
        Action::Login { provider, no_verify } => login(&setup, &provider, no_verify),
        Action::Status { json } => status(&setup, json),
        Action::Logout { provider } => logout(&setup, &provider),
    }
}

fn login(setup: &Setup, provider: &str, no_verify: bool) -> Result<Exit, Fault> {
    let names = setup.llm.providers.key_variables(provider);
    let Some(variable) = names.first().copied() else {
        // Says which providers there are, where it is none at all.
        Endpoint::resolve(provider, &setup.llm.providers, &|_| None).map_err(|error| error.fault())?;
        return Err(Fault::input(format!("{provider} wants no key")));
    };
    let key = read_key(provider)?;
    let with_key = |name: &str| if name == variable { Some(key.clone()) } else { plain_env(&names, name) };
    let endpoint = Endpoint::resolve(provider, &setup.llm.providers, &with_key).map_err(|error| error.fault())?;
    if !no_verify {
        let verdict = block_on(async {
            probe_key(&endpoint, &setup.llm.network).await.map_err(|error| unverified(provider, &error))
        })?;
        if verdict == KeyVerdict::Unknown {
            say(&format!("{provider} has no list of models, so the key could not be verified"));
        }
    }
    let place = setup.keys.put(provider, &key).map_err(|error| unkept(&error))?;
    say(&format!("the key for {provider} is kept in {}", place_name(setup, place)));
    if let Some(name) = names.iter().find(|name| is_set(name)) {
        say(&format!("{name} is set and counts first"));
    }
    Ok(Exit::Done)
}

/// The environment without the keys of this provider: only the new one is tried.
fn plain_env(keys: &[&str], name: &str) -> Option<String> {
    if keys.contains(&name) { None } else { std::env::var(name).ok() }
}

fn is_set(name: &str) -> bool {
    std::env::var(name).is_ok_and(|value| !value.trim().is_empty())
}

fn unverified(provider: &str, error: &LlmError) -> Fault {
    let fault = error.fault();
    let message = match error.tier {
        Tier::UserFixable => format!("{provider} does not take this key, nothing was kept: {}", fault.message),
        _ => format!("the key could not be verified, nothing was kept: {}", fault.message),
    };
    let hint = match error.tier {
        Tier::UserFixable => "copy the key again from the provider's console".to_owned(),
        _ => "try again when the provider can be reached, or keep it as it is with --no-verify".to_owned(),
    };
    Fault { message, ..fault }.hint(hint)
}

fn unkept(error: &StoreError) -> Fault {
    let fault = Fault::new(Area::Workspace, Tier::UserFixable, error.to_string());
    match error {
        StoreError::Exposed { file, .. } => {
            fault.hint(format!("replace the keys at their providers, then: chmod 600 {}", file.display()))
        }
        StoreError::Damaged { file, .. } | StoreError::Foreign { file } => {
            fault.hint(format!("move {} away and log in again", file.display()))
        }
        StoreError::Io { .. } => fault.hint("make it writable, or set BATON_HOME to a directory that is"),
        StoreError::Keyring { .. } => fault.hint("unlock the keyring, or put the key into the environment"),
    }
}

fn status(setup: &Setup, json: bool) -> Result<Exit, Fault> {
    #[derive(Serialize)]
    struct Row {
        provider: String,
        /// `environment`, `keyring`, `file`, or nothing.
        source: Option<&'static str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        variable: Option<String>,
        /// The last characters, to tell two keys apart.
        #[serde(skip_serializing_if = "Option::is_none")]
        ends_with: Option<String>,
    }
    let kept = setup.keys.list().map_err(|error| unkept(&error))?;
    let providers = &setup.llm.providers;
    let mut rows = Vec::new();
    for provider in providers.names().filter(|provider| !providers.key_variables(provider).is_empty()) {
        let variable = providers.key_variables(provider).into_iter().find(|name| is_set(name)).map(str::to_owned);
        let place = kept.iter().find(|(name, _)| name == provider).map(|(_, place)| *place);
        let (source, key) = match (&variable, place) {
            (Some(name), _) => (Some("environment"), std::env::var(name).ok()),
            (None, Some(Place::File)) => (Some("file"), setup.keys.get(provider).ok().flatten().map(|(key, _)| key)),
            // Asking for the key itself could make a person unlock it.
            (None, Some(Place::Keyring)) => (Some("keyring"), None),
            (None, None) => (None, None),
        };
        rows.push(Row {
            provider: provider.to_owned(),
            source,
            variable,
            ends_with: key.as_deref().and_then(last_four),
        });
    }
    let mut out = io::stdout().lock();
    let written = if json {
        serde_json::to_writer_pretty(&mut out, &rows).map_err(io::Error::from).and_then(|()| writeln!(out))
    } else {
        rows.iter().try_for_each(|row| {
            let end = row.ends_with.as_ref().map(|end| format!(", …{end}")).unwrap_or_default();
            let from = match (&row.variable, row.source) {
                (Some(name), _) => format!("{name}{end}"),
                (None, Some(source)) => format!("{source}{end}"),
                (None, None) => "-".to_owned(),
            };
            writeln!(out, "{:12} {from}", row.provider)
        })
    };
    written.map_err(|error| Fault::internal(format!("cannot write the output: {error}")))?;
    Ok(Exit::Done)
}

/// The end of a key that is long enough to lose it.
fn last_four(key: &str) -> Option<String> {
    let key: Vec<char> = key.trim().chars().collect();
    (key.len() >= 20).then(|| key[key.len() - 4..].iter().collect())
}

fn logout(setup: &Setup, provider: &str) -> Result<Exit, Fault> {
    match setup.keys.remove(provider).map_err(|error| unkept(&error))? {
        Some(place) => say(&format!("the key for {provider} is gone from {}", place_name(setup, place))),
        None => say(&format!("no key for {provider} was kept")),
    }
    if let Some(name) = setup.llm.providers.key_variables(provider).into_iter().find(|name| is_set(name)) {
        say(&format!("{name} is still set in the environment"));
    }
    Ok(Exit::Done)
}

fn place_name(setup: &Setup, place: Place) -> String {
    match place {
        Place::Keyring => "the keyring".to_owned(),
        Place::File => setup.keys.file().display().to_string(),
    }
}

fn say(text: &str) {
    drop(writeln!(io::stderr(), "{text}"));
}

/// The key from stdin, or from a person who is not shown what they type.
fn read_key(provider: &str) -> Result<String, Fault> {
    let unreadable = |error: io::Error| Fault::input(format!("cannot read the key: {error}"));
    let mut text = String::new();
    let stdin = io::stdin();
    if stdin.is_terminal() {
        drop(write!(io::stderr(), "Key for {provider}: "));
        let shown = tcgetattr(&stdin).map_err(|error| unreadable(error.into()))?;
        let mut hidden = shown.clone();
        hidden.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&stdin, OptionalActions::Flush, &hidden).map_err(|error| unreadable(error.into()))?;
        let read = stdin.read_line(&mut text);
        tcsetattr(&stdin, OptionalActions::Flush, &shown).map_err(|error| unreadable(error.into()))?;
        drop(writeln!(io::stderr()));
        read.map_err(unreadable)?;
    } else {
        stdin.take(KEY_MAX).read_to_string(&mut text).map_err(unreadable)?;
    }
    let key = text.trim().to_owned();
    if key.is_empty() || key.chars().any(|c| c.is_whitespace() || c.is_control()) {
        let what = if key.is_empty() { "there is no key" } else { "this is no key: it has blanks or line ends inside" };
        return Err(Fault::input(what).hint(format!("for example: baton auth login {provider} <key.txt")));
    }
    Ok(key)
}
