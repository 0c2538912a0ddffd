//! Measuring processes: wall time, and memory and CPU time as the kernel counts them.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

use crate::agents::Agent;

/// Makes this program a small parent that runs another and prints what it cost: the kernel counts
/// the children of one process together, so each measurement needs a process of its own.
pub const FLAG: &str = "--cost-of";

/// What a process and its children cost.
pub struct Cost {
    /// The largest single process.
    pub memory_mb: f64,
    /// Of all of them, in and outside of the kernel.
    pub cpu_s: f64,
}

/// Runs the program and prints its cost.
pub fn report(program: &[String]) {
    let status = Command::new(&program[0]).args(&program[1..]).stdin(Stdio::null()).stdout(Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.success()), "{program:?} failed");
    let used = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let time = std::time::Duration::from_micros;
    let seconds = |used: nix::sys::time::TimeVal| time(used.num_microseconds().cast_unsigned()).as_secs_f64();
    let memory_mb = used.max_rss() / 1024;
    println!("{memory_mb} {}", seconds(used.user_time()) + seconds(used.system_time()));
}

/// Runs an agent in a fresh home and project; returns its cost and when it was started.
pub fn run(agent: &Agent, place: &Path, url: &str) -> (Cost, Instant) {
    let (home, project) = (place.join("home"), place.join("project"));
    for dir in [&home, &project.join(".git")] {
        std::fs::create_dir_all(dir).unwrap();
    }
    std::fs::write(project.join("README.md"), "# demo\n").unwrap();
    for (file, text) in agent.files {
        let file = home.join(file);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text.replace("{url}", url)).unwrap();
    }
    let mut parent = Command::new(std::env::current_exe().unwrap());
    parent.arg(FLAG).args(agent.command()).current_dir(&project).env_clear();
    parent.env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", &home).env("TMPDIR", place);
    parent.envs(agent.env.iter().map(|(name, value)| (name, value.replace("{url}", url))));
    let started = Instant::now();
    let output = parent.stderr(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut numbers = text.split_whitespace().filter_map(|number| number.parse().ok());
    let mut next = || numbers.next().unwrap_or(f64::NAN);
    (Cost { memory_mb: next(), cpu_s: next() }, started)
}
