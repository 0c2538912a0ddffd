//! Finding a program by its name, where no repository can put its own.

use std::ffi::OsStr;
use std::path::PathBuf;

/// The program of this name in the first directory of a search path that has it. Relative directories do not count: what
/// they lead to depends on where one stands, and could be a repository's.
pub fn find(name: &str, path: &OsStr) -> Option<PathBuf> {
    let dirs = std::env::split_paths(path).filter(|dir| dir.is_absolute());
    dirs.map(|dir| dir.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_directories_do_not_count() {
        assert!(find("sh", OsStr::new(".:/usr/bin:/bin")).unwrap().is_absolute());
        assert_eq!(find("Cargo.toml", OsStr::new(".:")), None);
    }
}
