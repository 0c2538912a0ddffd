//! The keyring of the operating system, asked through the desktop's own program.
//!
//! The libraries for it bring a D-Bus client and an async runtime of their own into every start of Baton; `secret-tool`
//! (libsecret) is there wherever a keyring is, and takes keys on its standard input, never as an argument.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::program;

/// How long a person may take to unlock it.
const PATIENCE: Duration = Duration::from_mins(1);

/// Why the keyring did not do as asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    /// There is none, or it does not have the key.
    #[error("there is no such key, or no keyring")]
    Absent,
    /// It could not be asked, or refused.
    #[error("it refused")]
    Refused,
    /// Nobody unlocked it.
    #[error("it gave no answer in time; unlock it and try again")]
    Silent,
}

/// A keyring.
pub trait Keyring: Send + Sync {
    /// The key of a provider.
    fn get(&self, provider: &str) -> Result<String, KeyringError>;
    /// Keeps a key.
    fn put(&self, provider: &str, key: &str) -> Result<(), KeyringError>;
    /// Forgets a key.
    fn remove(&self, provider: &str) -> Result<(), KeyringError>;
}

/// The Secret Service of a desktop (GNOME Keyring, KWallet), through `secret-tool`.
#[derive(Debug, Clone)]
pub struct SecretTool {
    program: PathBuf,
}

impl SecretTool {
    /// The keyring of this desktop, if there is a session bus and the program.
    pub fn find(var: impl Fn(&str) -> Option<std::ffi::OsString>) -> Option<Self> {
        var("DBUS_SESSION_BUS_ADDRESS").filter(|address| !address.is_empty())?;
        let path = var("PATH")?;
        Some(Self { program: program::find("secret-tool", &path)? })
    }

    /// The program itself.
    pub fn at(program: PathBuf) -> Self {
        Self { program }
    }

    fn run(&self, words: &[&str], provider: &str, input: &str) -> Result<String, KeyringError> {
        let child = Command::new(&self.program)
            .args(words)
            .args(["service", "baton", "provider", provider])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut child = child.map_err(|_| KeyringError::Absent)?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes()).map_err(|_| KeyringError::Refused)?;
        }
        let text = read_in_time(&mut child)?;
        let is_done = child.wait().is_ok_and(|status| status.success());
        if is_done { Ok(text) } else { Err(KeyringError::Refused) }
    }
}

/// What the program printed, or nothing if it takes too long; then it is ended.
fn read_in_time(child: &mut Child) -> Result<String, KeyringError> {
    let mut stdout = child.stdout.take().ok_or(KeyringError::Refused)?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        drop(stdout.read_to_string(&mut text));
        drop(sender.send(text));
    });
    receiver.recv_timeout(PATIENCE).map_err(|_| {
        drop(child.kill());
        drop(child.wait());
        KeyringError::Silent
    })
}

impl Keyring for SecretTool {
    fn get(&self, provider: &str) -> Result<String, KeyringError> {
        let key = self.run(&["lookup"], provider, "")?;
        if key.trim().is_empty() { Err(KeyringError::Absent) } else { Ok(key.trim().to_owned()) }
    }

    fn put(&self, provider: &str, key: &str) -> Result<(), KeyringError> {
        let label = format!("--label=Baton: key for {provider}");
        self.run(&["store", &label], provider, key).map(drop)
    }

    fn remove(&self, provider: &str) -> Result<(), KeyringError> {
        self.run(&["clear"], provider, "").map(drop)
    }
}
