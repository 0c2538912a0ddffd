//! Credentials: keys that a person gave to Baton, kept in the OS keyring where there is one, else in a file for them only.
//!
//! The file `credentials` says which provider has a key and where: in the file itself, or in the keyring. So the keyring
//! is asked only for keys that were put there, and nothing is paid at start-up otherwise.

mod keyring;

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use keyring::{Keyring, KeyringError, SecretTool};

/// The most that is read of the file.
const BYTES_MAX: u64 = 1024 * 1024;

/// Where a key is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The keyring of the operating system.
    Keyring,
    /// The file `credentials` in Baton's state directory.
    File,
}

/// Why a key could not be read or kept.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// A file could not be used.
    #[error("cannot use {file}: {error}")]
    Io {
        /// The file.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Others could have read the keys.
    #[error("{file} can be read by others (mode {mode:o}); keys in it may be known to them")]
    Exposed {
        /// The file.
        file: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The file is not ours, or no file.
    #[error("{file} is not a file that belongs to you")]
    Foreign {
        /// The file.
        file: PathBuf,
    },
    /// The file cannot be understood.
    #[error("{file} is damaged: {error}")]
    Damaged {
        /// The file.
        file: PathBuf,
        /// Why.
        error: serde_json::Error,
    },
    /// The keyring has the key and does not give it.
    #[error("the keyring does not give the key for {provider}: {error}")]
    Keyring {
        /// Whose key.
        provider: String,
        /// Why.
        error: KeyringError,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kept {
    Key(String),
    Place(Place),
}

/// The keys of one person.
pub struct Store {
    file: PathBuf,
    keyring: Option<Box<dyn Keyring>>,
}

impl Store {
    /// The store below Baton's state directory; new keys go to the keyring if there is one.
    pub fn new(state_dir: &Path, keyring: Option<Box<dyn Keyring>>) -> Self {
        Self { file: state_dir.join("credentials"), keyring }
    }

    /// The file that says where keys are.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The key of a provider.
    pub fn get(&self, provider: &str) -> Result<Option<(String, Place)>, StoreError> {
        match self.read()?.remove(provider) {
            None => Ok(None),
            Some(Kept::Key(key)) => Ok(Some((key, Place::File))),
            Some(Kept::Place(_)) => {
                let keyring = |error| StoreError::Keyring { provider: provider.to_owned(), error };
                let found = self.keyring.as_ref().ok_or(KeyringError::Absent).map_err(keyring)?.get(provider);
                found.map(|key| Some((key, Place::Keyring))).map_err(keyring)
            }
        }
    }

    /// Which providers have a key, and where; no key is read.
    pub fn list(&self) -> Result<Vec<(String, Place)>, StoreError> {
        let place = |kept: &Kept| if matches!(kept, Kept::Key(_)) { Place::File } else { Place::Keyring };
        Ok(self.read()?.iter().map(|(provider, kept)| (provider.clone(), place(kept))).collect())
    }

    /// Keeps a key, in place of the one before.
    pub fn put(&self, provider: &str, key: &str) -> Result<Place, StoreError> {
        let _lock = self.lock()?;
        let mut keys = self.read()?;
        // A keyring that is locked or fails is no reason to lose the key: the file takes it.
        let is_in_keyring = self.keyring.as_ref().is_some_and(|keyring| keyring.put(provider, key).is_ok());
        let kept = if is_in_keyring { Kept::Place(Place::Keyring) } else { Kept::Key(key.to_owned()) };
        keys.insert(provider.to_owned(), kept);
        self.write(&keys)?;
        Ok(if is_in_keyring { Place::Keyring } else { Place::File })
    }

    /// Forgets the key of a provider; says where it was.
    pub fn remove(&self, provider: &str) -> Result<Option<Place>, StoreError> {
        let _lock = self.lock()?;
        let mut keys = self.read()?;
        let place = match keys.remove(provider) {
            None => return Ok(None),
            Some(Kept::Key(_)) => Place::File,
            Some(Kept::Place(_)) => {
                let removed =
                    self.keyring.as_ref().ok_or(KeyringError::Absent).and_then(|keyring| keyring.remove(provider));
                removed.map_err(|error| StoreError::Keyring { provider: provider.to_owned(), error })?;
                Place::Keyring
            }
        };
        self.write(&keys)?;
        Ok(Some(place))
    }

    fn read(&self) -> Result<BTreeMap<String, Kept>, StoreError> {
        let io = |error| StoreError::Io { file: self.file.clone(), error };
        let data = match fs::symlink_metadata(&self.file) {
            Ok(data) => data,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(error) => return Err(io(error)),
        };
        if !data.is_file() || data.uid() != rustix::process::geteuid().as_raw() || data.len() > BYTES_MAX {
            return Err(StoreError::Foreign { file: self.file.clone() });
        }
        let mode = data.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(StoreError::Exposed { file: self.file.clone(), mode });
        }
        let text = fs::read(&self.file).map_err(io)?;
        serde_json::from_slice(&text).map_err(|error| StoreError::Damaged { file: self.file.clone(), error })
    }

    /// Replaces the file as a whole: at any moment there is the old one or the new one.
    fn write(&self, keys: &BTreeMap<String, Kept>) -> Result<(), StoreError> {
        let dir = self.file.parent().unwrap_or(&self.file);
        let written = tempfile::Builder::new()
            .permissions(fs::Permissions::from_mode(0o600))
            .tempfile_in(dir)
            .and_then(|mut new| {
                serde_json::to_writer_pretty(&mut new, keys)?;
                new.write_all(b"\n")?;
                new.as_file().sync_all()?;
                new.persist(&self.file)?;
                File::open(dir)?.sync_all()
            });
        written.map_err(|error| StoreError::Io { file: self.file.clone(), error })
    }

    /// One writer at a time; free again when dropped.
    fn lock(&self) -> Result<File, StoreError> {
        let dir = self.file.parent().unwrap_or(&self.file);
        let locked = DirBuilder::new().recursive(true).mode(0o700).create(dir).and_then(|()| {
            let options = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .mode(0o600)
                .open(dir.join("credentials.lock"))?;
            options.lock().map(|()| options)
        });
        locked.map_err(|error| StoreError::Io { file: self.file.clone(), error })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn in_temp(check: impl FnOnce(&Path)) {
        check(tempfile::tempdir().unwrap().path());
    }

    #[test]
    fn keys_are_kept_for_one_person_only() {
        in_temp(|dir| {
            let store = Store::new(&dir.join("state"), None);
            assert!(store.get("openai").unwrap().is_none() && store.list().unwrap().is_empty());
            store.put("openai", "k-1").unwrap();
            store.put("anthropic", "k-2").unwrap();
            store.put("openai", "k-3").unwrap();
            assert_eq!(store.get("openai").unwrap(), Some(("k-3".into(), Place::File)));
            assert_eq!(store.list().unwrap(), [("anthropic".into(), Place::File), ("openai".into(), Place::File)]);
            let mode = fs::metadata(store.file()).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600);
            assert_eq!(store.remove("openai").unwrap(), Some(Place::File));
            assert_eq!(store.remove("openai").unwrap(), None);
            assert!(!fs::read_to_string(store.file()).unwrap().contains("k-3"));
        });
    }

    #[test]
    fn a_file_that_others_can_read_or_that_is_damaged_is_refused() {
        in_temp(|dir| {
            let store = Store::new(dir, None);
            store.put("openai", "k").unwrap();
            fs::set_permissions(store.file(), fs::Permissions::from_mode(0o640)).unwrap();
            assert!(matches!(store.get("openai"), Err(StoreError::Exposed { mode: 0o640, .. })));
            assert!(matches!(store.put("x", "k"), Err(StoreError::Exposed { .. })));
            fs::set_permissions(store.file(), fs::Permissions::from_mode(0o600)).unwrap();
            fs::write(store.file(), "{").unwrap();
            assert!(matches!(store.get("openai"), Err(StoreError::Damaged { .. })));
            fs::remove_file(store.file()).unwrap();
            std::os::unix::fs::symlink("/dev/null", store.file()).unwrap();
            assert!(matches!(store.get("openai"), Err(StoreError::Foreign { .. })));
        });
    }

    #[test]
    fn several_writers_lose_no_key() {
        in_temp(|dir| {
            std::thread::scope(|scope| {
                for n in 0..8 {
                    scope.spawn(move || Store::new(dir, None).put(&format!("p{n}"), "k").unwrap());
                }
            });
            assert_eq!(Store::new(dir, None).list().unwrap().len(), 8);
        });
    }

    #[derive(Default)]
    struct Memory(Mutex<BTreeMap<String, String>>, bool);

    impl Keyring for Memory {
        fn get(&self, provider: &str) -> Result<String, KeyringError> {
            self.0.lock().unwrap().get(provider).cloned().ok_or(KeyringError::Absent)
        }
        fn put(&self, provider: &str, key: &str) -> Result<(), KeyringError> {
            if self.1 {
                return Err(KeyringError::Absent);
            }
            self.0.lock().unwrap().insert(provider.into(), key.into());
            Ok(())
        }
        fn remove(&self, provider: &str) -> Result<(), KeyringError> {
            self.0.lock().unwrap().remove(provider);
            Ok(())
        }
    }

    #[test]
    fn the_keyring_comes_first_and_the_file_takes_what_it_does_not() {
        in_temp(|dir| {
            let store = Store::new(dir, Some(Box::<Memory>::default()));
            assert_eq!(store.put("openai", "k-secret").unwrap(), Place::Keyring);
            assert!(!fs::read_to_string(store.file()).unwrap().contains("k-secret"));
            assert_eq!(store.get("openai").unwrap(), Some(("k-secret".into(), Place::Keyring)));
            assert_eq!(store.remove("openai").unwrap(), Some(Place::Keyring));
            let failing = Store::new(dir, Some(Box::new(Memory(Mutex::default(), true))));
            assert_eq!(failing.put("openai", "k").unwrap(), Place::File);
        });
    }

    #[test]
    fn the_desktops_keyring_is_asked_through_its_own_program() {
        in_temp(|dir| {
            let program = dir.join("secret-tool");
            let script = "#!/bin/sh\ncase $1 in store) cat >\"$(dirname \"$0\")/kept\";; lookup) cat \"$(dirname \"$0\")/kept\";; clear) rm \"$(dirname \"$0\")/kept\";; esac\n";
            fs::write(&program, script).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
            let tool = SecretTool::at(program);
            tool.put("openai", "k-secret").unwrap();
            assert_eq!(tool.get("openai").unwrap(), "k-secret");
            tool.remove("openai").unwrap();
            assert!(tool.get("openai").is_err());
        });
    }
}
