//! Confinement: what the kernel keeps the commands of a workspace from, and what one command is let out for.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use baton_core::HostPattern;
use baton_guard::sandbox::{self, Level, Network, Policy, Prepared, Protected, Sandbox, StandIn};

use crate::Workspace;
use crate::outlet::Outlet;

/// How the commands of a workspace are kept in.
#[derive(Debug, Default)]
pub struct Confinement {
    /// Makes the sandboxes.
    pub sandbox: Sandbox,
    /// The person's home, whose secrets are hidden.
    pub home: Option<PathBuf>,
    /// Where cargo keeps its files, if not in the home.
    pub cargo_home: Option<PathBuf>,
    /// Baton's own settings and state, which are hidden.
    pub own: Vec<PathBuf>,
    /// Directories that commands may write besides the workspace.
    pub writable: Vec<PathBuf>,
    /// Whether commands write nothing but temporary files. It ends when a plan is approved.
    pub is_read_only: AtomicBool,
    /// What of the workspace commands may write, if not all of it.
    pub role: Option<RoleFiles>,
    /// Where they get to from inside; its hosts take a sandbox that listens.
    pub outlet: Outlet,
}

/// What one command may have that commands do not have otherwise: a person said yes, or a rule did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leave {
    /// The network.
    pub network: bool,
    /// Writing to these, which lie outside. What is not there yet is made in the nearest directory that is.
    pub writable: Vec<PathBuf>,
    /// Everything: it is not kept in at all.
    pub everything: bool,
}

/// What the commands of a role may write in a workspace that they can read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoleFiles {
    /// Directories and files, by their real paths. What is not there is left out.
    pub writable: Vec<PathBuf>,
    /// What lies in one of them and stays as it is. Where nothing holds it, the workspace's fence has to do.
    pub kept: Vec<PathBuf>,
    /// The same, but no fence sees it: where nothing holds it, it is compared and put back after each command.
    pub watched: Vec<PathBuf>,
    /// What they read elsewhere, also where that would be hidden.
    pub readable: Vec<PathBuf>,
}

impl Confinement {
    /// How well commands are kept in. Blocks for a moment the first time.
    pub fn level(&self) -> Level {
        self.sandbox.found().level
    }

    /// Lets the commands that start from now on write in the workspace, or not.
    pub fn set_read_only(&self, is_read_only: bool) {
        self.is_read_only.store(is_read_only, Ordering::SeqCst);
    }

    /// The hosts that commands reach from inside. Blocks for a moment the first time.
    pub fn reachable(&self) -> &[HostPattern] {
        if self.level() == Level::Namespaces { self.outlet.hosts() } else { &[] }
    }

    /// Gets a sandbox ready for one command. Blocks for a moment.
    pub(crate) fn prepare(&self, workspace: &Workspace, leave: &Leave) -> io::Result<Prepared> {
        let is_read_only = self.is_read_only.load(Ordering::SeqCst);
        let mut readable = vec![workspace.outputs().to_owned()];
        let mut dirs: Vec<PathBuf> = workspace.dirs().cloned().collect();
        if is_read_only || self.role.is_some() {
            // Said, since a workspace in `/tmp` would not be there at all otherwise. What can be read only cannot be written.
            let is_written = |dir: &PathBuf| self.role.iter().any(|role| role.writable.contains(dir));
            readable.extend(dirs.drain(..).filter(|dir| is_read_only || !is_written(dir)));
        }
        readable.extend(self.role.iter().flat_map(|role| &role.readable).cloned());
        let mut policy = Policy::of(&sandbox::Workspace {
            dirs: &dirs,
            temp: workspace.temp(),
            home: self.home.as_deref(),
            cargo_home: self.cargo_home.as_deref(),
            own: &self.own,
            readable: &readable,
            network: if leave.network { Network::Host } else { Network::Loopback },
        });
        if !is_read_only {
            policy.writable.extend(self.writable.iter().filter(|dir| dir.is_dir()).cloned());
        }
        if let Some(role) = self.role.as_ref().filter(|_| !is_read_only) {
            // A link that took the place of one would lead to what the role may not write.
            let is_plain = |path: &&PathBuf| path.canonicalize().is_ok_and(|real| real == **path);
            policy.writable.extend(role.writable.iter().filter(is_plain).cloned());
            if self.level() == Level::Namespaces {
                let kept = role.kept.iter().filter(|path| path.symlink_metadata().is_ok());
                policy.protected.extend(kept.map(|path| Protected::new(path, StandIn::Dir)));
            } else {
                // A copy of each has to be made, so this is only what is small.
                policy.protected.extend(role.watched.iter().map(|path| Protected::new(path, StandIn::Nothing)));
            }
        }
        policy.writable.extend(leave.writable.iter().filter_map(|path| existing(path)));
        self.sandbox.prepare(&policy)
    }

    /// The directory that a command means by this one. Inside, `/tmp` is the session's own.
    pub(crate) fn outside(&self, dir: &Path, workspace: &Workspace) -> PathBuf {
        let is_real = workspace.dirs().any(|real| dir.starts_with(real)) || dir.starts_with(workspace.temp());
        let inner = ["/tmp", "/var/tmp"].iter().find_map(|temp| dir.strip_prefix(temp).ok());
        match inner {
            Some(inner) if !is_real && self.level() == Level::Namespaces => workspace.temp().join(inner),
            _ => dir.to_owned(),
        }
    }
}

/// What has to be writable for this path to be written: its directory, since programs put new files in place of old ones.
/// A whole system or a whole home is never meant, so there it is the file alone, if there is one.
fn existing(path: &Path) -> Option<PathBuf> {
    let dir = path.ancestors().skip(usize::from(!path.is_dir())).find(|dir| dir.is_dir())?;
    if dir.parent().is_some() && std::env::home_dir().as_deref() != Some(dir) {
        return Some(dir.to_owned());
    }
    path.symlink_metadata().is_ok_and(|found| found.is_file()).then(|| path.to_owned())
}
