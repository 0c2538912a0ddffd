//! Instruction files: `AGENTS.md` and its kin, one per directory from the project's root downward.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

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

/// Gathers the user's own file, then one file per directory from `root` (links resolved) down to `cwd`.
pub fn find_instructions(user_dir: &Path, root: &Path, cwd: &Path) -> Instructions {
    let below_root = cwd.ancestors().take_while(|dir| dir.starts_with(root)).collect::<Vec<_>>();
    let mut found = Instructions::default();
    if let Some(file) = file_in(user_dir) {
        let text = found.read(&file, &file);
        found.own = text.unwrap_or_default();
    }
    for file in below_root.into_iter().rev().filter_map(file_in) {
        // A repository must not make us read what lies outside of it into a prompt.
        let Some(real) = file.canonicalize().ok().filter(|real| real.starts_with(root)) else {
            found.notices.push(format!("{} leads out of the project and is not read", file.display()));
            continue;
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
