//! Spawning: the one place where the shell of a command is started, and what every command is given.

use std::ffi::{OsStr, OsString};
use std::io::{self, PipeWriter};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::LazyLock;

use baton_guard::sandbox::may_have;
use tokio::process::{Child, Command};

use super::environment::child_environment;
use super::room::Room;
use super::tree::{Call, MARK};
use crate::Workspace;

/// Linux takes no longer argument.
const COMMAND_BYTES_MAX: usize = 128 * 1024 - 16;

/// Where a command would run now, or why it cannot.
pub(crate) fn runs_in(command: &str, workspace: &Workspace) -> Result<PathBuf, String> {
    if command.len() > COMMAND_BYTES_MAX || command.contains('\0') {
        return Err("the command is too long or has a NUL in it: write it to a file and run that".to_owned());
    }
    let cwd = workspace.cwd();
    if cwd.is_dir() {
        return Ok(cwd);
    }
    // A command meant for one directory is not run in another: `rm -r *` may be one.
    workspace.set_cwd(workspace.root().to_owned());
    Err(format!(
        "not run: the working directory {} is gone; it is {} now. Repeat the command if it is meant for there",
        cwd.display(),
        workspace.root().display()
    ))
}

/// A shell to be started for a call.
pub(super) struct Shell<'a> {
    pub(super) call: &'a Call,
    pub(super) workspace: &'a Workspace,
    pub(super) cwd: &'a Path,
    /// Variables besides those that every command gets.
    pub(super) vars: Vec<(OsString, OsString)>,
    /// Whether it outlives Baton: then it is in a session of its own, out of reach of what ends a terminal, and does not
    /// use a directory that goes with ours.
    pub(super) is_kept: bool,
    /// What keeps it in; nothing, if it is let out.
    pub(super) room: Option<&'a Room>,
}

impl Shell<'_> {
    /// Starts it with these arguments; both its outputs go to the pipe, in order. Not from a thread that may end before it:
    /// what keeps it in ends it then.
    pub(super) fn spawn<A: AsRef<OsStr>>(self, args: &[A], pipe: PipeWriter) -> io::Result<Child> {
        let mut environment = child_environment(std::env::vars_os(), self.workspace.hidden_env());
        if let Some(room) = self.room {
            environment.retain(|(name, _)| name.to_str().is_some_and(may_have));
            environment.extend(room.vars());
        }
        // Without it, bash looks the person up in the system's lists each time.
        if environment.iter().all(|(name, _)| name != "SHELL") {
            environment.push(("SHELL".into(), SHELL.clone().into()));
        }
        environment.push((MARK.into(), self.call.mark().into()));
        environment.extend(self.workspace.vars().iter().cloned());
        environment.extend(self.vars);
        if !self.is_kept {
            environment.push(("TMPDIR".into(), self.workspace.temp().into()));
        }
        let mut command = if let Some(room) = self.room {
            confined(room, args)?
        } else {
            let mut command = shell(self.is_kept);
            command.args(args).stdin(Stdio::null());
            command
        };
        command.current_dir(self.cwd).env_clear().envs(environment).stdout(pipe.try_clone()?).stderr(pipe);
        let child = command.spawn()?;
        self.call.started(child.id());
        Ok(child)
    }
}

/// The shell, in a process group or a session that it leads.
pub(super) fn shell(own_session: bool) -> Command {
    match SETSID.as_deref() {
        // A new process leads no group, so that this becomes the shell and does not start another process.
        Some(setsid) if own_session => {
            let mut command = Command::new(setsid);
            command.arg(&*SHELL);
            command
        }
        _ => {
            let mut command = Command::new(&*SHELL);
            command.process_group(0);
            command
        }
    }
}

/// The shell in its room, in a process group that the helper leads. What it reads is the helper's to say.
fn confined<A: AsRef<OsStr>>(room: &Room, args: &[A]) -> io::Result<Command> {
    let mut command = Command::from(room.sandbox.command(&*SHELL, args)?);
    command.process_group(0);
    Ok(command)
}

/// Bash, or what there is.
static SHELL: LazyLock<PathBuf> = LazyLock::new(|| in_path("bash").unwrap_or_else(|| PathBuf::from("/bin/sh")));
/// Rust's own way to begin a session is not safe or not stable; without this program a group has to do.
static SETSID: LazyLock<Option<PathBuf>> = LazyLock::new(|| in_path("setsid"));

fn in_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_absolute() && file.is_file())
}
