//! A disk that fails when it is told to: a small library between Baton and the system, which refuses to write sessions.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::odd_machine::library;

/// While the flag is there, half of what is written to a session arrives, and then the disk fails.
pub struct Fault {
    pub flag: PathBuf,
    library: PathBuf,
    can_take_back: bool,
}

const SOURCE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static int fails(int fd) {
    char link[64], path[4096];
    const char *flag = getenv("FAULT_FLAG");
    if (!flag) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return strstr(path, "/sessions/") && strstr(path, ".jsonl") && access(flag, F_OK) == 0;
}

ssize_t write(int fd, const void *bytes, size_t count) {
    ssize_t (*real)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");
    if (!fails(fd)) return real(fd, bytes, count);
    real(fd, bytes, count / 2);
    errno = EIO;
    return -1;
}

static int cut(const char *name, int fd, off_t length) {
    int (*real)(int, off_t) = dlsym(RTLD_NEXT, name);
    if (!getenv("FAULT_CUT") || !fails(fd)) return real(fd, length);
    errno = EIO;
    return -1;
}

int ftruncate(int fd, off_t length) { return cut("ftruncate", fd, length); }
int ftruncate64(int fd, off_t length) { return cut("ftruncate64", fd, length); }
"#;

impl Fault {
    /// `can_take_back` says whether half an entry can at least be taken away again.
    pub fn new(dir: &Path, can_take_back: bool) -> Self {
        Self { flag: dir.join("fault"), library: library(dir, "fault", SOURCE), can_take_back }
    }

    pub fn inject(&self, command: &mut Command) {
        command.env("LD_PRELOAD", &self.library).env("FAULT_FLAG", &self.flag);
        if !self.can_take_back {
            command.env("FAULT_CUT", "1");
        }
    }
}
