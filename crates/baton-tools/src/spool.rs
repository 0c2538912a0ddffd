//! The spool: full outputs in files, for what a result could not show.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::{Map, Value};
use tokio::fs::File;
use tokio::io::AsyncWriteExt;

/// The largest file.
pub(crate) const FILE_MAX: usize = 64 * 1024 * 1024;
/// The largest sum of all files; beyond it the oldest go.
const TOTAL_MAX: u64 = 512 * 1024 * 1024;

/// Keeps an output: in memory as long as the result shows it all, then in a file.
pub(crate) struct Spool {
    dir: PathBuf,
    name: String,
    state: State,
}

enum State {
    Waiting(String),
    Open { file: File, path: PathBuf, written: usize },
    Failed(io::Error),
}

/// What was kept.
pub(crate) enum Kept {
    /// Nothing: the result shows it all.
    Unneeded,
    /// Everything.
    Whole(PathBuf),
    /// The beginning.
    Capped(PathBuf),
    /// Nothing, for this reason.
    Lost(io::Error),
}

impl Spool {
    /// Will keep the output of this call in this directory.
    pub(crate) fn new(dir: &Path, call: &str) -> Self {
        Self { dir: dir.to_owned(), name: name(call), state: State::Waiting(String::new()) }
    }

    /// Keeps everything in this file, which is new.
    pub(crate) fn at(file: fs::File, path: PathBuf) -> Self {
        let state = State::Open { file: File::from_std(file), path, written: 0 };
        Self { dir: PathBuf::new(), name: String::new(), state }
    }

    /// Takes the next piece. `needed` once the result does not show everything.
    pub(crate) async fn push(&mut self, text: &str, needed: bool) {
        if let State::Waiting(early) = &mut self.state {
            early.push_str(text);
            if needed {
                let early = std::mem::take(early);
                let (dir, name) = (self.dir.clone(), self.name.clone());
                self.state = match crate::blocking(move || create(&dir, &name)).await {
                    Ok((file, path)) => State::Open { file: File::from_std(file), path, written: 0 },
                    Err(error) => State::Failed(error),
                };
                self.write(&early).await;
            }
        } else {
            self.write(text).await;
        }
    }

    async fn write(&mut self, text: &str) {
        if let State::Open { file, written, .. } = &mut self.state {
            let room = FILE_MAX.saturating_sub(*written);
            // One byte more than the file takes tells that something was left out.
            *written = (*written + text.len()).min(FILE_MAX + 1);
            if let Err(error) = file.write_all(&text.as_bytes()[..text.floor_char_boundary(room)]).await {
                self.state = State::Failed(error);
            }
        }
    }

    /// Closes the file.
    pub(crate) async fn finish(self) -> Kept {
        match self.state {
            State::Waiting(_) => Kept::Unneeded,
            State::Failed(error) => Kept::Lost(error),
            State::Open { mut file, path, written } => match file.flush().await {
                Err(error) => Kept::Lost(error),
                Ok(()) if written > FILE_MAX => Kept::Capped(path),
                Ok(()) => Kept::Whole(path),
            },
        }
    }
}

impl Kept {
    /// What the model is told, as a line of its own.
    pub(crate) fn note(&self) -> String {
        match self {
            Self::Unneeded => String::new(),
            Self::Whole(path) => format!("\n[full output: {}]", path.display()),
            Self::Capped(path) => format!("\n[first {} MiB of the output: {}]", FILE_MAX >> 20, path.display()),
            Self::Lost(error) => format!("\n[the full output was not kept: {error}]"),
        }
    }

    /// What surfaces are told.
    pub(crate) fn tell(&self, meta: &mut Map<String, Value>) {
        if let Self::Whole(path) | Self::Capped(path) = self {
            meta.insert("output_path".to_owned(), path.display().to_string().into());
        }
    }
}

fn name(call: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
    call.chars().take(64).map(safe).collect()
}

/// Makes a file for the output of this call in this directory.
pub(crate) async fn file_for(dir: &Path, call: &str) -> io::Result<(fs::File, PathBuf)> {
    let (dir, name) = (dir.to_owned(), name(call));
    crate::blocking(move || create(&dir, &name)).await
}

/// Makes a new file that only the person can read, and room for it.
fn create(dir: &Path, name: &str) -> io::Result<(fs::File, PathBuf)> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    prune(dir, TOTAL_MAX)?;
    for again in 1..1_000 {
        let path = dir.join(if again == 1 { format!("{name}.txt") } else { format!("{name}-{again}.txt") });
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return Ok((opened?, path)),
        }
    }
    Err(io::Error::other("there are too many outputs of this name"))
}

/// Removes the oldest files until the rest is no larger than `total_max`.
fn prune(dir: &Path, total_max: u64) -> io::Result<()> {
    let mut files: Vec<(SystemTime, u64, PathBuf)> = fs::read_dir(dir)?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            Some((metadata.modified().ok()?, metadata.len(), entry.path()))
        })
        .collect();
    let mut total: u64 = files.iter().map(|(_, len, _)| len).sum();
    files.sort_unstable();
    for (_, len, path) in files {
        if total <= total_max {
            break;
        }
        fs::remove_file(path)?;
        total -= len;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[tokio::test]
    async fn a_file_is_made_only_when_needed() {
        let dir = tempfile::tempdir().unwrap();
        let outputs = dir.path().join("outputs");
        let mut spool = Spool::new(&outputs, "call/../1");
        spool.push("one ", false).await;
        assert!(!outputs.exists());
        spool.push("two ", true).await;
        spool.push("three", true).await;
        let Kept::Whole(path) = spool.finish().await else { panic!("kept whole") };
        assert_eq!(path, outputs.join("call----1.txt"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "one two three");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);

        let mut again = Spool::new(&outputs, "call/../1");
        again.push("other", true).await;
        assert!(matches!(again.finish().await, Kept::Whole(path) if path.ends_with("call----1-2.txt")));
    }

    #[tokio::test]
    async fn a_file_is_capped_and_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let mut spool = Spool::new(dir.path(), "c");
        let mebibyte = "x".repeat(1 << 20);
        for _ in 0..65 {
            spool.push(&mebibyte, true).await;
        }
        let kept = spool.finish().await;
        assert!(kept.note().contains("first 64 MiB"));
        assert_eq!(fs::metadata(dir.path().join("c.txt")).unwrap().len(), FILE_MAX as u64);
    }

    #[tokio::test]
    async fn without_a_directory_it_says_so() {
        let mut spool = Spool::new(Path::new("/dev/null/outputs"), "c");
        spool.push("x", true).await;
        spool.push("y", true).await;
        assert!(spool.finish().await.note().contains("was not kept: "));
    }

    #[test]
    fn the_oldest_go_first() {
        let dir = tempfile::tempdir().unwrap();
        for (age, name) in [(3, "old"), (2, "middle"), (1, "new")] {
            let path = dir.path().join(name);
            fs::write(&path, [0; 100]).unwrap();
            let time = SystemTime::now() - std::time::Duration::from_secs(age * 60);
            fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        }
        prune(dir.path(), 250).unwrap();
        let mut left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["middle", "new"]);
    }
}
