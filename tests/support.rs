//! A world for one scenario: a directory with a project, a home for Baton, and ways to run it.

pub mod odd_machine;
pub mod runs;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Retries without waiting, so that only waits that a scenario asks for take time.
const QUICK_RETRIES: [(&str, &str); 2] =
    [("BATON_RETRY__TRANSIENT__BASE_MS", "1"), ("BATON_RETRY__DEGRADED__BASE_MS", "1")];

pub struct World {
    dir: TempDir,
}

/// What a command came to.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl World {
    pub fn new() -> Self {
        let world = Self { dir: tempfile::tempdir().unwrap() };
        std::fs::create_dir_all(world.project().join(".git")).unwrap();
        std::fs::write(world.project().join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        world
    }

    /// A world whose project is a real repository with one commit.
    pub fn repository() -> Self {
        let world = Self::new();
        std::fs::remove_dir_all(world.project().join(".git")).unwrap();
        world.file("README.md", "A project.\n");
        git(&world.project(), &["init", "--quiet", "--initial-branch=main"]);
        git(&world.project(), &["add", "--all"]);
        git(&world.project(), &["commit", "--quiet", "-m", "base"]);
        world
    }

    pub fn project(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    pub fn home(&self) -> PathBuf {
        self.dir.path().join("home")
    }

    pub fn file(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let file = self.project().join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, content).unwrap();
        file
    }

    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.project().join(path)).unwrap()
    }

    /// Writes a script and returns the model that plays it.
    pub fn script(&self, lines: &str) -> String {
        let file = self.dir.path().join("script.jsonl");
        std::fs::write(&file, lines).unwrap();
        format!("script/{}", file.display())
    }

    /// A command in the project with nothing of the real environment but the path.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_baton"));
        command
            .args(args)
            .current_dir(self.project())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", self.dir.path())
            .env("BATON_HOME", self.home())
            .envs(QUICK_RETRIES)
            .stdin(Stdio::null());
        command
    }

    pub fn baton(&self, args: &[&str]) -> Run {
        run(self.command(args))
    }

    /// Plays a script against a prompt, every tool allowed, events as JSON.
    pub fn play(&self, script: &str, extra: &[&str]) -> Run {
        let model = self.script(script);
        let mode = if extra.contains(&"--permission-mode") { &[][..] } else { &["--permission-mode", "auto"] };
        self.baton(&[&["exec", "-m", &model, "--json", "go"], mode, extra].concat())
    }

    /// Serves a script over HTTP; stops when dropped.
    pub fn serve(&self, script: &str) -> Server {
        self.script(script);
        let (script, log) = (self.dir.path().join("script.jsonl"), self.dir.path().join("requests.jsonl"));
        let mut command = self.command(&["dev", "model-server", "--append-only"]);
        command.arg("--script").arg(script).arg("--log").arg(&log).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Server { child, url: line.trim().to_owned(), log }
    }
}

/// Git in a directory, without anybody's settings.
pub fn git(dir: &Path, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=Test", "-c", "user.email=test@localhost"])
        .args(args)
        .current_dir(dir)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

pub fn run(mut command: Command) -> Run {
    let output = command.output().unwrap();
    Run {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

pub fn run_with_stdin(mut command: Command, input: &[u8]) -> Run {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    let writing = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let (mut stdout, mut stderr) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    writing.join().unwrap();
    Run { code: child.wait().unwrap().code().unwrap_or(-1), stdout, stderr }
}

impl Run {
    /// All events, in order.
    pub fn events(&self) -> Vec<Value> {
        self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The events of a kind.
    pub fn of(&self, kind: &str) -> Vec<Value> {
        self.events().into_iter().filter(|event| event["kind"] == kind).collect()
    }

    /// The last event, which ends the turn.
    pub fn end(&self) -> Value {
        let last = self.events().pop().unwrap_or_else(|| panic!("no events: {self:?}"));
        assert_eq!(last["kind"], "turn.end", "{self:?}");
        last
    }

    /// The ends of all calls in the order of the calls; those that run beside each other end in any order.
    pub fn tool_ends(&self) -> Vec<Value> {
        let ends = self.of("tool.end");
        let end_of = |start: &Value| ends.iter().find(|end| end["call"] == start["call"]).unwrap().clone();
        self.of("tool.start").iter().map(end_of).collect()
    }

    /// What the tools answered, in the order of the calls.
    pub fn outputs(&self) -> Vec<String> {
        self.tool_ends().iter().map(|event| event["output"].as_str().unwrap().to_owned()).collect()
    }

    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    /// What went wrong, and what to do next.
    #[track_caller]
    pub fn expect_error(self, code: i32, message: &str, hint: &str) {
        let run = self.expect(code);
        assert!(run.stderr.contains(message), "{run:#?}");
        assert!(run.stderr.contains(hint), "{run:#?}");
    }
}

pub struct Server {
    child: Child,
    pub url: String,
    log: PathBuf,
}

impl Server {
    /// The bodies of all requests so far, in order.
    pub fn requests(&self) -> Vec<Value> {
        let lines = std::fs::read_to_string(&self.log).unwrap_or_default();
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A running `baton` whose events are read one by one.
pub struct Live {
    pub child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Live {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child, stdout }
    }

    /// The next event; none when there will be no more.
    pub fn next_event(&mut self) -> Option<Value> {
        let mut line = String::new();
        (self.stdout.read_line(&mut line).unwrap() > 0).then(|| serde_json::from_str(&line).unwrap())
    }

    /// Waits for an event of this kind.
    #[track_caller]
    pub fn until(&mut self, kind: &str) -> Value {
        while let Some(event) = self.next_event() {
            if event["kind"] == kind {
                return event;
            }
        }
        let mut stderr = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        panic!("the events ended without {kind}: {:?}, {stderr}", self.child.wait());
    }

    /// How many bytes wait in the pipe to be read.
    pub fn unread(&self) -> u64 {
        rustix::io::ioctl_fionread(self.stdout.get_ref()).unwrap()
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    pub fn wait(mut self) -> i32 {
        // Whatever is still written must not block it.
        drop(std::io::copy(&mut self.stdout, &mut std::io::sink()));
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

/// A script in which `SLEEPn` is a long sleep that only this run of the tests knows.
pub fn with_sleeps(script: &str) -> String {
    script.replace("SLEEP", &format!("sleep {}", sleep_mark()))
}

fn sleep_mark() -> String {
    format!("9{}0", std::process::id())
}

/// The processes that still sleep such a sleep, by the digits behind its name.
pub fn sleeping(digits: &str) -> Vec<u32> {
    processes(&format!("sleep\0{}{digits}", sleep_mark()))
}

fn processes(text: &str) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&line).contains(text) {
            found.push(pid);
        }
    }
    found
}

pub fn workspace_root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
