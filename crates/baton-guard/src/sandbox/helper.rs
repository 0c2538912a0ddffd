//! The hidden mode of the binary that puts itself into namespaces and starts the command there.
//!
//! Namespaces are for the process that asks for them, and asking takes a process with one thread. So Baton starts itself
//! anew: `baton __sandbox LETTER [COMMAND...]`. Whatever fails, the command is not run.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;

use rustix::process::{getppid, set_parent_process_death_signal};

use super::letter::{Letter, Report, Request};
use super::{namespaces, network, rights};

/// The first argument of the outer process.
pub(super) const OUTER: &str = "__sandbox";
/// The first argument of the process that makes a network.
pub(super) const NETWORK: &str = "__sandbox-network";
/// The exit code if the sandbox cannot be made. The command may use it, too: the report tells which it was.
const UNAVAILABLE: i32 = 7;

/// If this process was started as a helper, does its work and says with which code to exit. To be called first thing in
/// `main`, while there is one thread.
pub fn helper_mode() -> Option<i32> {
    let mut args = std::env::args_os().skip(1);
    let mode = args.next()?;
    if mode == OUTER {
        Some(outer(&args.collect::<Vec<_>>()))
    } else if mode == NETWORK {
        Some(
            network::hold(args.next().is_some_and(|arg| arg == network::LISTEN))
                .map_or_else(|error| refuse(None, &error), |()| 0),
        )
    } else {
        None
    }
}

fn outer(args: &[OsString]) -> i32 {
    let number = args.first().and_then(|number| number.to_str()?.parse().ok());
    let Some((number, (_, command))) = number.zip(args.split_first()) else {
        return refuse(None, &io::Error::other("this mode is for Baton itself"));
    };
    // Number 0 means that the letter came in place of an input, so the command has none.
    let letter = if number == 0 { Letter::from_stdin() } else { Letter::from_number(number) };
    match letter {
        Ok(letter) => end(&letter, outer_with(&letter, command, number != 0)),
        Err(error) => refuse(None, &error),
    }
}

fn outer_with(letter: &Letter, command: &[OsString], stdin: bool) -> io::Result<i32> {
    let request: Request = letter.read()?;
    close_inherited(letter, &request.door.unwrap_or_default())?;
    set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    if getppid().map(|pid| pid.as_raw_nonzero().get().cast_unsigned()) != Some(request.parent) {
        return Err(io::Error::other("Baton has ended"));
    }
    rights::no_core_dumps();
    namespaces::run(letter, &request, command, stdin)
}

/// The code to exit with. An error is told by the letter.
pub(super) fn end(letter: &Letter, outcome: io::Result<i32>) -> i32 {
    outcome.unwrap_or_else(|error| refuse(Some(letter), &error))
}

fn refuse(letter: Option<&Letter>, error: &io::Error) -> i32 {
    if let Some(letter) = letter {
        // Standard error says it as well.
        let _ = letter.write(&Report { error: Some(error.to_string()), ..Report::default() });
    }
    eprintln!("baton: the sandbox cannot be made, so the command was not run: {error}");
    UNAVAILABLE
}

/// Says why a program does not run, with the codes that shells use.
pub(super) fn cannot_run(program: &OsStr, error: &io::Error) -> i32 {
    eprintln!("baton: cannot run {}: {error}", program.display());
    if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 }
}

/// Closes everything but the standard streams, the letter and these.
fn close_inherited(letter: &Letter, needed: &[i32]) -> io::Result<()> {
    let names: Vec<OsString> =
        fs::read_dir("/proc/self/fd")?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
    let numbers = names.iter().filter_map(|name| name.to_str()?.parse::<i32>().ok());
    for number in numbers.filter(|number| *number > 2 && *number != letter.number() && !needed.contains(number)) {
        // The one by which the directory was read is closed already.
        let _ = nix::unistd::close(number);
    }
    Ok(())
}
