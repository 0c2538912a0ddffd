//! A repository with all that can be lost: tracked, changed, staged, stashed, untracked and ignored files, links, modes,
//! empty directories, odd names, branches, tags, a repository within.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

const MAKE: &str = r#"
set -e
git init -q -b main .
git config user.name dev; git config user.email dev@example.com; git config commit.gpgsign false
git config gc.auto 0; git config maintenance.auto false
printf 'target/\n*.log\n.env\n' > .gitignore
mkdir -p src bin data
echo readme > README; echo 'fn main() {}' > src/main.rs; echo 'pub fn lib() {}' > src/lib.rs
printf '#!/bin/sh\n' > bin/run.sh; chmod 755 bin/run.sh
head -c 3000 /dev/zero | tr '\0' '\377' > data/blob.bin
ln -s src/lib.rs link; ln -s nowhere dangling
echo forced > forced.log; git add -A; git add -f forced.log; git commit -qm one
git checkout -q -b other; echo other > README; echo env-of-other > .env; git add -f .env; git commit -qam other; git tag v1
git checkout -q main; git tag -a -m v2 v2; git pack-refs --all; git branch loose
echo stashed > src/lib.rs; git stash -q
echo stashed > untracked-in-stash; git stash -q -u
echo changed > src/lib.rs; echo staged > src/staged.rs; echo staged > README; git add README src/staged.rs; echo more >> README
echo notes > notes.txt; chmod 600 notes.txt; echo fixed > fixed.txt; chmod 444 fixed.txt; echo dash > ./-dash
echo newline > $'odd\nname'; echo invalid > $'inv\xffalid'; mkdir 'with space'; echo x > 'with space/ä "quoted"'
echo twin > twin-a; ln twin-a twin-b; mkdir -p empty deep/er/empty
mkdir -p target/debug; echo built > target/debug/out; echo secret > .env; echo log > a.log; echo log > src/b.log
mkdir -p vendor/lib; cd vendor/lib; git init -q; echo v > v.txt; git add .
git -c user.name=a -c user.email=a@b commit -qm vendored; echo w > w.txt
"#;

/// The sample, and the names of all objects that git has in it.
fn sample() -> &'static (TempDir, Vec<String>) {
    static SAMPLE: OnceLock<(TempDir, Vec<String>)> = OnceLock::new();
    SAMPLE.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        shell(MAKE, dir.path());
        let objects = objects(dir.path());
        (dir, objects)
    })
}

fn objects(project: &Path) -> Vec<String> {
    let list = "for repository in . vendor/lib; do
                    git -C $repository cat-file --batch-all-objects --batch-check='%(objectname)' || true; done";
    shell(list, project).lines().map(str::to_owned).collect()
}

/// Fills an empty project.
pub fn fill(project: &Path) {
    fs::remove_dir_all(project).unwrap();
    let copied = Command::new("cp").arg("-a").arg(sample().0.path()).arg(project).status().unwrap();
    assert!(copied.success());
}

/// The objects that the sample has and the project has not. More than it had do no harm.
pub fn lost_objects(project: &Path) -> Vec<String> {
    let now = objects(project);
    sample().1.iter().filter(|object| !now.contains(object)).cloned().collect()
}

pub fn shell(script: &str, dir: &Path) -> String {
    let mut command = Command::new("bash");
    command.args(["-c", script]).current_dir(dir).env("GIT_CONFIG_GLOBAL", "/dev/null").env("HOME", dir);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// All that there is, byte for byte, but the objects of git.
#[derive(Debug, PartialEq, Eq)]
pub struct Everything(BTreeMap<PathBuf, String>);

impl Everything {
    pub fn of(project: &Path) -> Self {
        let mut files = BTreeMap::new();
        let mut waiting = vec![project.to_owned()];
        while let Some(dir) = waiting.pop() {
            for entry in fs::read_dir(&dir).unwrap().flatten() {
                let path = entry.path();
                let metadata = path.symlink_metadata().unwrap();
                let mode = metadata.permissions().mode();
                let is_objects = dir.ends_with("objects") && entry.file_name() != "info";
                let what = if metadata.is_dir() && is_objects {
                    continue;
                } else if metadata.is_symlink() {
                    format!("-> {}", fs::read_link(&path).unwrap().display())
                } else if metadata.is_dir() {
                    waiting.push(path.clone());
                    format!("directory {mode:o}")
                } else {
                    format!("{mode:o} {}", fs::read(&path).unwrap().escape_ascii())
                };
                files.insert(path.strip_prefix(project).unwrap().to_owned(), what);
            }
        }
        Self(files)
    }

    /// What differs from an earlier moment.
    pub fn differences(&self, before: &Self) -> Vec<String> {
        let paths: std::collections::BTreeSet<_> = self.0.keys().chain(before.0.keys()).collect();
        let differs = |path: &&&PathBuf| self.0.get(**path) != before.0.get(**path);
        let shown = |path: &PathBuf| {
            let name = path.as_os_str().as_bytes().escape_ascii();
            let shown =
                |what: Option<&String>| what.map_or("nothing".to_owned(), |what| what.chars().take(60).collect());
            format!("{name}: was {}, is {}", shown(before.0.get(path)), shown(self.0.get(path)))
        };
        paths.iter().filter(differs).map(|path| shown(path)).collect()
    }
}
