//! A sandbox that is ready for one command: how the command gets in, and what is to be done when it has ended.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;

use super::letter::{Letter, Report, Request};
use super::network::Door;
use super::stand_in::Held;
use super::walls::Walls;
use super::watch::Watched;
use super::{Level, helper, namespaces};

/// A sandbox for one command.
#[derive(Debug)]
pub struct Prepared {
    way: Way,
    held: Vec<Held>,
    watched: Watched,
}

/// How a command gets into its sandbox.
#[derive(Debug)]
pub(super) enum Way {
    /// A helper starts it there: level [`Level::Namespaces`].
    Helped {
        helper: PathBuf,
        letter: Letter,
        request: Request,
        /// Held open until the helper has it.
        _door: Option<Door>,
    },
    /// Its process puts up the walls itself: level [`Level::Landlock`].
    Through(Arc<Walls>),
}

impl Way {
    pub(super) fn helped(helper: PathBuf, request: Request, door: Option<Door>) -> io::Result<Self> {
        Ok(Self::Helped { helper, letter: Letter::new(&request)?, request, _door: door })
    }
}

/// What is to be known about a command that has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Aftermath {
    /// Why the command was not run at all.
    pub error: Option<String>,
    /// How many processes it left running; they were ended. Known at level [`Level::Namespaces`] only.
    pub leftovers: usize,
    /// What it changed although that is protected; it was put back.
    pub restored: Vec<PathBuf>,
}

impl Prepared {
    pub(super) fn new(way: Way, held: Vec<Held>, watched: Watched) -> Self {
        Self { way, held, watched }
    }

    /// The level it has.
    pub fn level(&self) -> Level {
        match self.way {
            Way::Helped { .. } => Level::Namespaces,
            Way::Through(_) => Level::Landlock,
        }
    }

    /// What the command leaves running is part of it: nothing of that is ended, and the end of all is the end of it.
    pub fn lingering(mut self) -> io::Result<Self> {
        // Without a helper there is nobody who would end anything.
        if let Way::Helped { letter, request, .. } = &mut self.way {
            request.lingers = true;
            letter.write(request)?;
        }
        Ok(self)
    }

    /// The command that starts another in the sandbox, or is it. Directory, environment, output and process group are the
    /// caller's to set and are handed on; its input is taken, and the command inside has none. To be started once, and from
    /// a thread that outlives it.
    pub fn command<S: AsRef<OsStr>>(
        &self,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = S>,
    ) -> io::Result<Command> {
        let mut command = self.start([program.as_ref()])?;
        command.args(args);
        Ok(command)
    }

    pub(super) fn start<S: AsRef<OsStr>>(&self, words: impl IntoIterator<Item = S>) -> io::Result<Command> {
        match &self.way {
            Way::Helped { helper, letter, .. } => {
                let mut command = Command::new(helper);
                command.arg0("baton").arg(helper::OUTER).arg("0").args(words).stdin(letter.handle()?);
                Ok(command)
            }
            Way::Through(walls) => {
                let mut words = words.into_iter();
                let program = words.next().ok_or_else(|| io::Error::other("there is no command to run"))?;
                let mut command = Command::new(program);
                command.args(words).stdin(Stdio::null());
                Arc::clone(walls).surround(&mut command);
                Ok(command)
            }
        }
    }

    /// Runs a command with the standard streams of this process, and hands signals on to it. The process must have one
    /// thread, or have called [`hold_signals`](super::hold_signals) when it had.
    pub fn run_here(
        &mut self,
        program: &OsStr,
        args: &[OsString],
        dir: &Path,
        vars: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> io::Result<ExitStatus> {
        // A group of its own: what the terminal sends to all would reach it twice.
        let equipped = |mut command: Command| {
            command.current_dir(dir).env_clear().envs(vars).process_group(0);
            command
        };
        match &mut self.way {
            Way::Helped { helper, letter, request, .. } => {
                request.forward = true;
                letter.write(request)?;
                let letter = letter.inheritable()?;
                let mut command = Command::new(helper);
                command.arg0("baton").arg(helper::OUTER).arg(letter.as_raw_fd().to_string()).arg(program).args(args);
                namespaces::start_and_follow(equipped(command))
            }
            Way::Through(walls) => {
                let mut command = Command::new(program);
                command.args(args);
                Arc::clone(walls).surround(&mut command);
                match namespaces::start_and_follow(equipped(command)) {
                    // It got as far as the program. Whatever else there is, is about the walls.
                    Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EACCES | libc::ENOEXEC)) => {
                        Ok(ExitStatus::from_raw(helper::cannot_run(program, &error) << 8))
                    }
                    ended => ended,
                }
            }
        }
    }

    /// Clears up. To be called when everything that was started in the sandbox has ended.
    pub fn finish(self) -> io::Result<Aftermath> {
        let Self { way, held, watched } = self;
        drop(held);
        let restored = watched.restore()?;
        let report = match way {
            Way::Helped { letter, .. } => letter.read().unwrap_or_default(),
            Way::Through(_) => Report::default(),
        };
        Ok(Aftermath { error: report.error, leftovers: report.leftovers, restored })
    }
}
