//! The policy of a workspace: from where it is to what commands may touch in it.

use std::path::{Path, PathBuf};

use super::git;
use super::policy::{Network, Policy, Protected, StandIn};

/// What is known about a workspace.
#[derive(Debug, Clone)]
pub struct Workspace<'a> {
    /// The project, and directories that were added. They must exist.
    pub dirs: &'a [PathBuf],
    /// The session's temporary directory. It must exist.
    pub temp: &'a Path,
    /// The person's home.
    pub home: Option<&'a Path>,
    /// Where cargo keeps its files, if not in the home.
    pub cargo_home: Option<&'a Path>,
    /// Baton's own settings and state.
    pub own: &'a [PathBuf],
    /// What of that can be read: outputs that the model was pointed to.
    pub readable: &'a [PathBuf],
    /// What can be reached.
    pub network: Network,
}

/// Credentials, keys and histories in a home. What is not there does no harm.
const SECRETS: [&str; 55] = [
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".netrc",
    "_netrc",
    ".git-credentials",
    ".config/git/credentials",
    ".config/gh",
    ".config/glab-cli",
    ".config/hub",
    ".config/gcloud",
    ".config/doctl",
    ".config/rclone",
    ".config/sops",
    ".config/age",
    ".config/op",
    ".docker",
    ".kube",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".config/pypoetry/auth.toml",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".composer/auth.json",
    ".terraform.d/credentials.tfrc.json",
    ".terraformrc",
    ".vault-token",
    ".databrickscfg",
    ".snowflake",
    ".s3cfg",
    ".boto",
    ".pgpass",
    ".my.cnf",
    ".password-store",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".mozilla",
    ".thunderbird",
    ".config/google-chrome",
    ".config/chromium",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".gemini/oauth_creds.json",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".node_repl_history",
    ".psql_history",
    ".mysql_history",
    ".local/share/fish/fish_history",
];

impl Policy {
    /// What commands in a workspace may touch. Looks at the disk for what git obeys.
    pub fn of(workspace: &Workspace<'_>) -> Self {
        let mut writable = workspace.dirs.to_vec();
        let mut protected = Vec::new();
        for dir in workspace.dirs {
            protected.push(Protected::new(dir.join(".baton"), StandIn::Dir));
            protected.push(Protected::new(dir.join(".envrc"), StandIn::Dir));
            let control = git::control(dir);
            writable.extend(control.writable);
            protected.extend(control.protected);
        }
        let home = workspace.home.into_iter();
        let of_cargo = workspace
            .cargo_home
            .into_iter()
            .flat_map(|dir| ["credentials", "credentials.toml"].map(|name| dir.join(name)));
        let hidden =
            home.flat_map(|home| SECRETS.map(|name| home.join(name))).chain(of_cargo).chain(workspace.own.to_vec());
        Self {
            writable,
            protected,
            hidden: hidden.collect(),
            readable: workspace.readable.to_vec(),
            temp: workspace.temp.to_owned(),
            network: workspace.network,
        }
    }
}
