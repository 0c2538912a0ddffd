//! Where git finds what it obeys in a directory, read without starting it: settings with their includes, and hooks.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::config::{Setting, parse};
use crate::path::wildcard;

/// No list of settings and no pointer is larger.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// How deep includes may be; git takes no more.
const INCLUDES_DEPTH_MAX: usize = 10;
/// How many files of settings are read.
const FILES_MAX: usize = 128;
/// How many entries of a directory are looked at for repositories at every start.
const CHILDREN_MAX: usize = 128;
/// How many directories are looked through for other repositories, and how deep.
const NESTED_MAX: usize = 4_000;
const NESTED_DEPTH_MAX: usize = 8;

/// What git obeys in one repository.
#[derive(Debug, Default)]
pub(crate) struct Control {
    /// All settings of the repository, in order, with those of files that they include.
    pub(super) settings: Vec<Setting>,
    /// Programs in the directories of hooks that git would start.
    pub(crate) hooks: Vec<PathBuf>,
    /// Whether there is something that could not be read: then nothing about it is known.
    pub(crate) is_unknown: bool,
}

/// The directory of the repository that a directory belongs to.
pub(super) fn git_dir(dir: &Path) -> Option<PathBuf> {
    let dot_git = dir.ancestors().map(|dir| dir.join(".git")).find(|path| fs::symlink_metadata(path).is_ok())?;
    Some(behind(&dot_git))
}

/// `.git` itself, or the directory to which a file of that name points.
fn behind(dot_git: &Path) -> PathBuf {
    if dot_git.is_dir() {
        return dot_git.to_owned();
    }
    let pointer = small_file(dot_git).unwrap_or_default();
    let target = pointer.strip_prefix("gitdir:").unwrap_or_default().trim_matches([' ', '\t', '\r', '\n']);
    dot_git.parent().unwrap_or(dot_git).join(target)
}

/// What git obeys in the repository of a directory.
pub(crate) fn control(dir: &Path) -> Control {
    let mut control = Control::default();
    if let Some(git_dir) = git_dir(dir) {
        read_git_dir(&git_dir, dir, &mut control);
    }
    control
}

/// Directories right below that are repositories of their own, as many as are looked at without being asked to.
pub(crate) fn children(dir: &Path) -> Vec<PathBuf> {
    let below = fs::read_dir(dir).into_iter().flatten().flatten().take(CHILDREN_MAX);
    let dirs = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()) && entry.file_name() != ".git");
    let mut found: Vec<PathBuf> =
        dirs.map(|entry| entry.path()).filter(|dir| fs::symlink_metadata(dir.join(".git")).is_ok()).collect();
    found.sort();
    found
}

/// What git obeys in the repository of a directory, in its submodules, and in every repository below it that is found
/// within bounds.
pub(super) fn control_below(dir: &Path) -> Control {
    let mut control = control(dir);
    let own = git_dir(dir);
    let mut nested = Vec::new();
    if let Some(own) = &own {
        modules(&common_dir(own).join("modules"), 0, &mut nested);
    }
    repositories(dir, &mut nested);
    for git_dir in nested.into_iter().filter(|nested| Some(nested) != own.as_ref()) {
        read_git_dir(&git_dir, dir, &mut control);
    }
    control
}

fn read_git_dir(git_dir: &Path, root: &Path, control: &mut Control) {
    let common = common_dir(git_dir);
    let first = control.settings.len();
    let mut files = 0;
    read_settings(&common.join("config"), 0, &mut files, control);
    read_settings(&git_dir.join("config.worktree"), 0, &mut files, control);
    let hooks_path = control.settings[first..].iter().rev().find(|setting| setting.key == "core.hookspath");
    let hooks = match hooks_path.and_then(|setting| setting.value.as_deref()) {
        Some(path) => root.join(expanded(path)),
        None => common.join("hooks"),
    };
    for entry in fs::read_dir(hooks).into_iter().flatten().flatten().take(FILES_MAX) {
        let path = entry.path();
        let runs = fs::metadata(&path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
        if runs && path.extension().is_none_or(|ending| ending != "sample") {
            control.hooks.push(path);
        }
    }
    control.hooks.sort();
}

fn common_dir(git_dir: &Path) -> PathBuf {
    match small_file(&git_dir.join("commondir")) {
        Ok(text) => git_dir.join(text.trim_end_matches(['\r', '\n'])),
        Err(_) => git_dir.to_owned(),
    }
}

fn read_settings(file: &Path, depth: usize, files: &mut usize, control: &mut Control) {
    *files += 1;
    if depth > INCLUDES_DEPTH_MAX || *files > FILES_MAX {
        control.is_unknown = true;
        return;
    }
    let text = match small_file(file) {
        Ok(text) => text,
        Err(Unreadable::Absent) => return,
        Err(Unreadable::Other) => {
            control.is_unknown = true;
            return;
        }
    };
    for setting in parse(&text) {
        let is_include = setting.key == "include.path" || wildcard("includeif.*.path", &setting.key);
        let included = setting.value.clone().filter(|path| is_include && !path.is_empty());
        control.settings.push(setting);
        // A condition counts as met: whether it is can change at any time.
        if let Some(path) = included {
            let path = file.parent().unwrap_or(file).join(expanded(&path));
            read_settings(&path, depth + 1, files, control);
        }
    }
}

fn expanded(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path),
    }
}

fn modules(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    if depth > NESTED_DEPTH_MAX {
        return;
    }
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if found.len() >= FILES_MAX || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let path = entry.path();
        if path.join("HEAD").is_file() {
            modules(&path.join("modules"), depth + 1, found);
            found.push(path);
        } else {
            modules(&path, depth + 1, found);
        }
    }
}

/// Repositories in directories below, the nearest first.
fn repositories(dir: &Path, found: &mut Vec<PathBuf>) {
    let mut level = vec![dir.to_owned()];
    let mut seen = 0;
    for _ in 0..NESTED_DEPTH_MAX {
        let mut next = Vec::new();
        for dir in level {
            for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
                let Ok(kind) = entry.file_type() else { continue };
                if entry.file_name() == ".git" {
                    found.push(behind(&entry.path()));
                } else if kind.is_dir() {
                    seen += 1;
                    if seen > NESTED_MAX || found.len() >= FILES_MAX {
                        return;
                    }
                    next.push(entry.path());
                }
            }
        }
        level = next;
    }
}

enum Unreadable {
    Absent,
    Other,
}

/// The text of a regular file of reasonable size; never waits for a pipe.
fn small_file(path: &Path) -> Result<String, Unreadable> {
    // Asked first: whatever is there and is no file could do something when it is opened.
    let meta = fs::metadata(path).map_err(|_| Unreadable::Absent)?;
    if !meta.is_file() || meta.len() > FILE_BYTES_MAX {
        return Err(Unreadable::Other);
    }
    let mut bytes = Vec::new();
    let opened: std::io::Result<File> =
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
    opened.and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)).map_err(|_| Unreadable::Other)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        Err(Unreadable::Other)
    } else {
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
