//! Plans on disk: each under its hash, so that one that was changed afterwards is not taken for the one that was shown.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::Plan;

/// How many are kept; those that were written longest ago go first.
const KEPT_MAX: usize = 100;
/// The most that is read of one: the longest plan, each character of it written out.
const BYTES_MAX: u64 = 1024 * 1024;
/// How many digits of a hash have to be named.
const DIGITS_MIN: usize = 12;
const DIGITS: usize = 64;

/// The plans of one project.
#[derive(Debug, Clone)]
pub struct Plans {
    dir: PathBuf,
}

/// Why there is no plan of this hash.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// What was named is no hash.
    #[error("`{0}` is no hash of a plan: at least {DIGITS_MIN} hexadecimal digits of it are needed")]
    NoHash(String),
    /// There is none.
    #[error("there is no plan {0} in this project")]
    Missing(String),
    /// There are several.
    #[error("{0} could be more than one plan: name more of its digits")]
    Ambiguous(String),
    /// It is not the one that has this hash.
    #[error("the plan {hash} was changed after it was shown: what {file} holds now is not what has this hash")]
    Changed {
        /// The hash.
        hash: String,
        /// Where it is.
        file: PathBuf,
    },
    /// It could not be read or written.
    #[error("cannot use {file}: {error}")]
    Io {
        /// The file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl Plans {
    /// Those in this directory, which is made when the first one is kept.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// Keeps a plan. When this returns, it survives power loss.
    pub fn keep(&self, plan: &Plan) -> Result<(), PlanError> {
        let file = self.file(&plan.hash());
        self.write(plan, &file).map_err(|error| PlanError::Io { file, error })?;
        self.prune();
        Ok(())
    }

    /// The plan whose hash begins with these digits, and nothing else than that plan.
    pub fn find(&self, digits: &str) -> Result<Plan, PlanError> {
        let is_digit = |c: char| matches!(c, '0'..='9' | 'a'..='f');
        if !(DIGITS_MIN..=DIGITS).contains(&digits.len()) || !digits.chars().all(is_digit) {
            return Err(PlanError::NoHash(digits.to_owned()));
        }
        let mut fitting = self.hashes().into_iter().filter(|hash| hash.starts_with(digits));
        let Some(hash) = fitting.next() else { return Err(PlanError::Missing(digits.to_owned())) };
        if fitting.next().is_some() {
            return Err(PlanError::Ambiguous(digits.to_owned()));
        }
        let file = self.file(&hash);
        let bytes = match read(&file) {
            Ok(bytes) => bytes,
            Err(error) => return Err(PlanError::Io { file, error }),
        };
        match serde_json::from_slice::<Plan>(&bytes) {
            Ok(plan) if plan.hash() == hash => Ok(plan),
            _ => Err(PlanError::Changed { hash, file }),
        }
    }

    fn file(&self, hash: &str) -> PathBuf {
        self.dir.join(format!("{hash}.json"))
    }

    fn hashes(&self) -> Vec<String> {
        let names = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let names = names.filter_map(|entry| entry.file_name().into_string().ok());
        names
            .filter_map(|name| name.strip_suffix(".json").filter(|hash| hash.len() == DIGITS).map(str::to_owned))
            .collect()
    }

    fn write(&self, plan: &Plan, file: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        let private = Permissions::from_mode(0o600);
        let mut new = tempfile::Builder::new().permissions(private).tempfile_in(&self.dir)?;
        new.write_all(plan.canonical().as_bytes())?;
        new.as_file().sync_all()?;
        new.persist(file)?;
        File::open(&self.dir)?.sync_all()
    }

    /// Removes what is too much. What cannot be removed stays: that is no reason to lose the new one.
    fn prune(&self) {
        let written = |hash: &String| fs::metadata(self.file(hash)).and_then(|meta| meta.modified()).ok();
        let mut hashes = self.hashes();
        hashes.sort_by_cached_key(|hash| std::cmp::Reverse(written(hash)));
        for hash in hashes.iter().skip(KEPT_MAX) {
            drop(fs::remove_file(self.file(hash)));
        }
    }
}

fn read(file: &Path) -> io::Result<Vec<u8>> {
    if !fs::symlink_metadata(file)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut bytes = Vec::new();
    File::open(file)?.take(BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}
