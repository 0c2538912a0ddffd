//! Instruction files: `AGENTS.md` and its kin, one per directory from the project's root downward.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use baton_config::{LayerKind, Section};
use rustix::fs::OFlags;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The most that all files together may say.
const BYTES_MAX: usize = 32 * 1024;

/// The names, the first that is there counts.
const NAMES: [&str; 4] = ["AGENTS.override.md", "AGENTS.md", "CLAUDE.md", "GEMINI.md"];

/// What every agent is told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Instructions {
    /// The person's own file.
    pub own: String,
    /// The files of the project, each with its path from the root above it.
    pub project: String,
    /// What was left out, and why.
    pub notices: Vec<String>,
}

/// The setting `instructions`: files with further instructions, those of all layers. In your own settings they are found from
/// the directory of the settings, or by `~/`; in a project's, from its root and only below it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct InstructionSetting(pub Vec<String>);

impl Section for InstructionSetting {
    const KEY: &'static str = "instructions";
    const JOINS_LISTS: bool = true;
}

/// Where instructions are looked for.
#[derive(Debug, Clone, Copy)]
pub struct Lookup<'a> {
    /// The directory of the person's settings.
    pub user_dir: &'a Path,
    /// What `~` stands for.
    pub home: Option<&'a Path>,
    /// The project's root, links resolved.
    pub root: &'a Path,
    /// The working directory.
    pub cwd: &'a Path,
}

/// Gathers the user's own file, then one file per directory from the root down to the working directory, and those that
/// the settings name.
pub fn find_instructions(lookup: Lookup<'_>, listed: &[(LayerKind, InstructionSetting)]) -> Instructions {
    let Lookup { user_dir, home, root, cwd } = lookup;
    let below_root = cwd.ancestors().take_while(|dir| dir.starts_with(root)).collect::<Vec<_>>();
    let mut found = Instructions::default();
    if let Some(file) = file_in(user_dir) {
        let text = found.read(&file, &file);
        found.own = text.unwrap_or_default();
    }
    let listed = |of_project: bool| {
        let layers = listed.iter().filter(move |(kind, _)| kind.is_of_project() == of_project);
        layers.flat_map(|(_, setting)| setting.0.iter())
    };
    for name in listed(false) {
        let file = match (name.strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => user_dir.join(name),
        };
        let Some(text) = found.read(&file, &file) else { continue };
        if !found.own.is_empty() {
            found.own.push_str("\n\n");
        }
        found.own.push_str(&text);
    }
    let named = listed(true).map(|name| root.join(name));
    for file in below_root.into_iter().rev().filter_map(file_in).chain(named) {
        // A repository must not make us read what lies outside of it into a prompt.
        let real = match file.canonicalize() {
            Ok(real) if real.starts_with(root) => real,
            Ok(_) => {
                found.notices.push(format!("{} leads out of the project and is not read", file.display()));
                continue;
            }
            Err(error) => {
                found.notices.push(format!("{} cannot be read: {error}", file.display()));
                continue;
            }
        };
        let Some(text) = found.read(&file, &real) else { continue };
        if !found.project.is_empty() {
            found.project.push_str("\n\n");
        }
        let name = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().replace(char::is_control, " ");
        found.project.extend(["# ", &name, "\n\n", &text]);
    }
    found
}

/// The first that is there, whatever it is: what comes after it must not take its place unseen.
fn file_in(dir: &Path) -> Option<PathBuf> {
    NAMES.iter().map(|name| dir.join(name)).find(|file| file.symlink_metadata().is_ok())
}

impl Instructions {
    /// The text of a file, which is `real` when its links are resolved, as far as there is room for it.
    fn read(&mut self, file: &Path, real: &Path) -> Option<String> {
        let left = BYTES_MAX.saturating_sub(self.own.len() + self.project.len());
        // One byte more than fits shows that there is more.
        let limit = u64::try_from(left).unwrap_or(u64::MAX) + 1;
        let mut bytes = Vec::new();
        if let Err(error) = open(real).and_then(|opened| opened.take(limit).read_to_end(&mut bytes)) {
            self.notices.push(format!("{} cannot be read: {error}", file.display()));
            return None;
        }
        if bytes.len() > left {
            self.notices.push(format!("{} is cut: instructions may have {BYTES_MAX} bytes in all", file.display()));
            bytes.truncate(left);
        }
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_matches(['\u{FFFD}', '\n', ' ', '\u{FEFF}']);
        (!text.is_empty()).then(|| text.to_owned())
    }
}

/// Opens a regular file; nothing else is touched or waited for.
fn open(file: &Path) -> io::Result<File> {
    let check = |is_file: bool| if is_file { Ok(()) } else { Err(io::Error::other("it is not a regular file")) };
    check(file.metadata()?.is_file())?;
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let opened = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(file)?;
    check(opened.metadata()?.is_file())?;
    Ok(opened)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn one_file_per_directory_from_the_root_down() {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        let at = |path: &str| base.join(path);
        for dir in ["user", "above/repo/a/b"] {
            fs::create_dir_all(at(dir)).unwrap();
        }
        for (file, text) in [
            ("user/AGENTS.md", "mine"),
            ("above/AGENTS.md", "not of this project"),
            ("above/repo/AGENTS.md", "root"),
            ("above/repo/CLAUDE.md", "not read beside AGENTS.md"),
            ("above/repo/a/CLAUDE.md", "a"),
            ("above/repo/a/b/AGENTS.override.md", "b"),
            ("above/repo/a/b/AGENTS.md", "overridden"),
        ] {
            fs::write(at(file), text).unwrap();
        }
        let found = find_instructions(&at("user"), &at("above/repo"), &at("above/repo/a/b"));
        assert_eq!(found.own, "mine");
        let texts: Vec<&str> =
            found.project.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
        assert_eq!(texts, ["root", "a", "b"]);
        assert!(found.notices.is_empty());
    }

    fn find_instructions(user_dir: &Path, root: &Path, cwd: &Path) -> Instructions {
        super::find_instructions(Lookup { user_dir, home: None, root, cwd }, &[])
    }

    #[test]
    fn files_of_all_layers_are_joined_and_those_of_a_project_stay_in_it() {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        for (file, text) in [
            ("user/AGENTS.md", "mine"),
            ("user/more.md", "more of mine"),
            ("notes.md", "notes"),
            ("repo/AGENTS.md", "root"),
            ("repo/docs/a.md", "a"),
            ("repo/b.md", "b"),
        ] {
            fs::create_dir_all(base.join(file).parent().unwrap()).unwrap();
            fs::write(base.join(file), text).unwrap();
        }
        let names = |names: &[&str]| InstructionSetting(names.iter().map(|name| (*name).to_owned()).collect());
        let listed = [
            (LayerKind::User, names(&["more.md", "~/notes.md", "none.md"])),
            (LayerKind::Project, names(&["docs/a.md", "../notes.md"])),
            (LayerKind::Local, names(&["b.md"])),
        ];
        let (user_dir, root) = (base.join("user"), base.join("repo"));
        let lookup = Lookup { user_dir: &user_dir, home: Some(&base), root: &root, cwd: &root };
        let found = super::find_instructions(lookup, &listed);
        assert_eq!(found.own, "mine\n\nmore of mine\n\nnotes");
        assert_eq!(found.project, "# AGENTS.md\n\nroot\n\n# docs/a.md\n\na\n\n# b.md\n\nb");
        assert!(found.notices[0].contains("none.md cannot be read"), "{found:?}");
        assert!(found.notices[1].contains("notes.md leads out"), "{found:?}");
    }

    #[test]
    fn links_out_of_the_project_are_not_followed() {
        let temp = tempfile::tempdir().unwrap();
        let base = temp.path().canonicalize().unwrap();
        fs::create_dir(base.join("repo")).unwrap();
        fs::write(base.join("secret"), "s").unwrap();
        std::os::unix::fs::symlink(base.join("secret"), base.join("repo/AGENTS.md")).unwrap();
        let found = find_instructions(Path::new("/nowhere"), &base.join("repo"), &base.join("repo"));
        assert!(found.project.is_empty() && found.notices[0].contains("leads out"), "{found:?}");
        fs::remove_file(base.join("repo/AGENTS.md")).unwrap();
        fs::write(base.join("repo/real.md"), "inside").unwrap();
        std::os::unix::fs::symlink("real.md", base.join("repo/CLAUDE.md")).unwrap();
        let found = find_instructions(Path::new("/nowhere"), &base.join("repo"), &base.join("repo"));
        assert!(found.project.ends_with("inside"));
    }

    #[test]
    fn too_much_is_cut_and_said() {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join("AGENTS.md"), "ü".repeat(40_000)).unwrap();
        let root = temp.path().canonicalize().unwrap();
        let found = find_instructions(Path::new("/nowhere"), &root, &root);
        assert!(found.project.len() < BYTES_MAX + 200);
        assert!(found.notices[0].contains("AGENTS.md is cut"), "{:?}", found.notices);
    }

    #[test]
    fn a_pipe_or_a_device_is_not_waited_for() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let pipe = root.join("AGENTS.md");
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, 0o600.into(), 0).unwrap();
        fs::write(root.join("CLAUDE.md"), "in its place").unwrap();
        let found = find_instructions(Path::new("/nowhere"), &root, &root);
        assert!(found.project.is_empty() && found.notices[0].contains("not a regular file"), "{found:?}");
        fs::remove_file(&pipe).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &pipe).unwrap();
        let found = find_instructions(Path::new("/nowhere"), &root, &root);
        assert!(found.project.is_empty() && found.notices[0].contains("leads out"), "{found:?}");
    }
}
