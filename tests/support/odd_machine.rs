//! Machines on which something is odd: a disk that is too small, a system call that lies.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::World;

/// A shell in namespaces of its own, as anybody may have one: it mounts as it likes, runs Baton, and what comes after.
pub fn among_mounts(world: &World, mounts: &str, args: &[&str], after: &str) -> Command {
    let probe = Command::new("unshare").args(["-Urm", "true"]).output();
    let refused = |why: String| panic!("this test needs `unshare -Urm` (user and mount namespaces): {why}");
    match probe {
        Ok(output) if output.status.success() => {}
        Ok(output) => refused(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => refused(error.to_string()),
    }
    let baton = world.command(&[]);
    let mut command = Command::new("unshare");
    let script = format!("set -e\n{mounts}\nset +e\n\"$0\" \"$@\"\ncode=$?\n{after}\nexit $code");
    command.args(["-Urm", "sh", "-c", &script]).arg(baton.get_program()).args(args);
    command.env_clear().current_dir(world.project()).stdin(Stdio::null());
    for (name, value) in baton.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    command
}

/// A small library between Baton and the system, for `LD_PRELOAD`.
pub fn library(dir: &Path, name: &str, source: &str) -> PathBuf {
    let (file, library) = (dir.join(format!("{name}.c")), dir.join(format!("{name}.so")));
    std::fs::write(&file, source).unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&file).arg("-ldl").output();
    let built = built.unwrap_or_else(|error| panic!("this test needs a C compiler (`cc`): {error}"));
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    library
}

/// A clock that stands beside the real one by what a file says.
pub struct Jump {
    file: PathBuf,
    library: PathBuf,
}

const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *now) {
    if (syscall(SYS_clock_gettime, clock, now)) return -1;
    const char *file = getenv("JUMP_FILE");
    if (clock != CLOCK_REALTIME || !file) return 0;
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    char text[32] = {0};
    if (read(fd, text, sizeof text - 1) > 0) now->tv_sec += atol(text);
    close(fd);
    return 0;
}
"#;

impl Jump {
    pub fn new(dir: &Path) -> Self {
        Self { file: dir.join("jump"), library: library(dir, "clock", CLOCK) }
    }

    pub fn inject(&self, mut command: Command) -> Command {
        command.env("LD_PRELOAD", &self.library).env("JUMP_FILE", &self.file);
        command
    }

    /// From now on it stands so many seconds beside.
    pub fn by(&self, seconds: i64) {
        std::fs::write(&self.file, seconds.to_string()).unwrap();
    }
}
