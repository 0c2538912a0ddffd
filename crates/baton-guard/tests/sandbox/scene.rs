//! One project, one home, and an outside that has to stay as it is.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

use baton_guard::sandbox::{Aftermath, Level, Network, Policy, Sandbox, Workspace};
use tempfile::TempDir;

use crate::attempts::Attempt;

const SECRET: &str = "tr0ub4dor-and-3";

pub struct Scene {
    _dir: TempDir,
    pub base: PathBuf,
    tcp: TcpListener,
    udp: UdpSocket,
    abstract_name: String,
    abstract_socket: UnixListener,
    path_socket: UnixListener,
    datagrams: UnixDatagram,
    fifo: File,
    /// Left open for programs that are started.
    inherited: OwnedFd,
    shared: PathBuf,
    victim: Child,
}

impl Drop for Scene {
    fn drop(&mut self) {
        drop(self.victim.kill());
        drop(self.victim.wait());
        drop(fs::remove_file(&self.shared));
        self.shared_call("remove_shared");
    }
}

impl Scene {
    pub fn new(base: &Path) -> Self {
        let dir = tempfile::Builder::new().prefix("scene-").tempdir_in(base).unwrap();
        let base = dir.path().canonicalize().unwrap();
        for name in ["outside/dir", "home/.ssh", "home/.docker", "home/state", "project/src", "temp"] {
            fs::create_dir_all(base.join(name)).unwrap();
        }
        fs::write(base.join("outside/file"), "before").unwrap();
        for name in [".ssh/id", ".bash_history", ".docker/config.json", "state/session", ".netrc"] {
            fs::write(base.join("home").join(name), SECRET).unwrap();
        }
        let project = base.join("project");
        fs::write(project.join("src/a"), "a").unwrap();
        git(&project, &["init", "-q", "-b", "main"]);
        fs::write(project.join(".git/hooks/pre-push"), "# theirs").unwrap();
        git(&project, &["add", "."]);
        git(&project, &["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "first"]);
        let fifo = base.join("outside/fifo");
        assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let fifo = File::options().read(true).write(true).open(fifo).unwrap();
        let abstract_name = base.display().to_string();
        let address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        let abstract_socket = UnixListener::bind_addr(&address).unwrap();
        let path_socket = UnixListener::bind(base.join("home/agent.sock")).unwrap();
        let datagrams = UnixDatagram::bind(base.join("home/log.sock")).unwrap();
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let inherited = rustix::io::dup(File::options().append(true).open(base.join("outside/file")).unwrap()).unwrap();
        let shared = PathBuf::from(format!("/dev/shm/baton-{}", dir.path().file_name().unwrap().display()));
        fs::write(&shared, SECRET).unwrap();
        let mut victim = Command::new("sleep");
        victim.arg("600").env("VICTIM_SECRET", SECRET).stdin(Stdio::null());
        abstract_socket.set_nonblocking(true).unwrap();
        path_socket.set_nonblocking(true).unwrap();
        datagrams.set_nonblocking(true).unwrap();
        tcp.set_nonblocking(true).unwrap();
        udp.set_nonblocking(true).unwrap();
        let scene = Self {
            _dir: dir,
            base,
            tcp,
            udp,
            abstract_name,
            abstract_socket,
            path_socket,
            datagrams,
            fifo,
            inherited,
            shared,
            victim: victim.spawn().unwrap(),
        };
        assert!(scene.shared_call("make_shared"));
        scene
    }

    fn shared_call(&self, name: &str) -> bool {
        let (key, queue) = self.shared_names();
        Command::new("/proc/self/exe").args(["call", name, &key, &queue]).status().unwrap().success()
    }

    /// The number of memory and the name of a queue that are shared outside.
    fn shared_names(&self) -> (String, String) {
        let port = self.tcp.local_addr().unwrap().port();
        ((0x6261_0000 + u32::from(port)).to_string(), format!("baton-{port}"))
    }

    pub fn policy(&self) -> Policy {
        let path = |name: &str| self.base.join(name);
        let (home, temp, dirs, own) = (path("home"), path("temp"), [path("project")], [path("home/state")]);
        let program = std::env::current_exe().unwrap();
        // So that the outside is there to be attacked, also where it lies in the real /tmp.
        let readable = [self.base.clone(), program.parent().unwrap().to_owned()];
        Policy::of(&Workspace {
            dirs: &dirs,
            temp: &temp,
            home: Some(&home),
            cargo_home: None,
            own: &own,
            readable: &readable,
            network: Network::Loopback,
        })
    }

    /// Runs a script in the sandbox.
    pub fn run(&self, sandbox: &Sandbox, script: &str) -> (Output, Aftermath) {
        self.run_under(&self.policy(), sandbox, script)
    }

    /// Runs a script in the sandbox, with a policy of its own.
    pub fn run_under(&self, policy: &Policy, sandbox: &Sandbox, script: &str) -> (Output, Aftermath) {
        let prepared = sandbox.prepare(policy).unwrap();
        let mut command = prepared.command("bash", ["-c", script]).unwrap();
        let output = self.equip(&mut command).output().unwrap();
        (output, prepared.finish().unwrap())
    }

    fn equip<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let path = |name: &str| self.base.join(name);
        command
            .current_dir(path("project"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("LC_ALL", "C")
            .env("HOME", path("home"))
            .env("TMPDIR", path("temp"))
            .env("OUT", path("outside"))
            .env("PROJ", path("project"))
            .env("SELF", std::env::current_exe().unwrap())
            .env("PORT", self.tcp.local_addr().unwrap().port().to_string())
            .env("UDP_PORT", self.udp.local_addr().unwrap().port().to_string())
            .env("ABSTRACT", &self.abstract_name)
            .env("SSH_AUTH_SOCK", path("home/agent.sock"))
            .env("LOG_SOCK", path("home/log.sock"))
            .env("SHARED", &self.shared)
            .env("SHARED_KEY", self.shared_names().0)
            .env("SHARED_NAME", self.shared_names().1)
            .env("VICTIM", self.victim.id().to_string())
            .env("BATON", std::process::id().to_string())
            .env("FD", self.inherited.as_raw_fd().to_string())
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
    }

    /// Tries to get out of the sandbox.
    pub fn attempt(&self, sandbox: &Sandbox, attempt: &Attempt) -> Result<(), String> {
        let before = self.look();
        let (output, aftermath) = self.run(sandbox, attempt.script);
        if let Some(error) = aftermath.error {
            return Err(error);
        }
        // A queue can be written although its mount cannot. Landlock refuses that, but for it everything below /tmp is
        // one place, the part that a policy shows there included.
        let is_known = match sandbox.found().level {
            Level::Landlock => attempt.at_landlock,
            _ => attempt.name == "queue" && self.base.starts_with("/tmp"),
        };
        self.judge(&before, &output, is_known)
    }

    /// Tries the same where nothing keeps it.
    pub fn attempt_outside(&self, attempt: &Attempt) -> Result<(), String> {
        let before = self.look();
        let mut command = Command::new("bash");
        let output = self.equip(command.args(["-c", attempt.script]).stdin(Stdio::null())).output().unwrap();
        self.judge(&before, &output, false)
    }

    fn judge(&self, before: &BTreeMap<PathBuf, String>, output: &Output, is_known: bool) -> Result<(), String> {
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        let mut signs = Vec::new();
        let mut sign = |is_there: bool, what: &str| signs.extend(is_there.then(|| what.to_owned()));
        sign(text.contains("ESCAPED"), "it says so");
        sign(text.contains(SECRET), "a secret was read");
        let happened =
            |result: std::io::Result<()>| !matches!(result, Err(error) if error.kind() == ErrorKind::WouldBlock);
        sign(happened(self.tcp.accept().map(drop)), "TCP");
        sign(happened(self.udp.recv(&mut [0; 64]).map(drop)), "UDP");
        sign(happened(self.abstract_socket.accept().map(drop)), "abstract socket");
        sign(happened(self.path_socket.accept().map(drop)), "socket");
        sign(happened(self.datagrams.recv(&mut [0; 64]).map(drop)), "datagram socket");
        sign(rustix::io::ioctl_fionread(&self.fifo).unwrap() > 0, "queue");
        let after = self.look();
        let changed = before.iter().filter(|(path, state)| after.get(*path) != Some(state)).map(|(path, _)| path);
        let new = after.keys().filter(|path| !before.contains_key(*path));
        signs.extend(changed.chain(new).map(|path| format!("{} changed", path.display())));
        if signs.is_empty() || is_known { Ok(()) } else { Err(format!("{signs:?}; it said: {text}")) }
    }

    /// Everything that must not change, and how it is.
    fn look(&self) -> BTreeMap<PathBuf, String> {
        let mut found = BTreeMap::new();
        let control = [
            ".git/hooks",
            ".git/config",
            ".git/info/attributes",
            ".git/commondir",
            ".git/config.worktree",
            ".envrc",
            ".baton",
        ];
        for path in control.map(|name| self.base.join("project").join(name)) {
            look_below(&path, &mut found);
        }
        for name in ["outside", "home"] {
            look_below(&self.base.join(name), &mut found);
        }
        look_below(&self.shared, &mut found);
        // That it runs, and as it did: stopped, traced or reniced would show.
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.victim.id())).unwrap();
        let fields: Vec<_> = stat.split(' ').collect();
        let state = if matches!(fields[2], "R" | "S" | "D") { "runs" } else { fields[2] };
        found.insert("victim".into(), format!("{state} {}", fields[18]));
        found
    }
}

fn look_below(path: &Path, found: &mut BTreeMap<PathBuf, String>) {
    let Ok(meta) = fs::symlink_metadata(path) else { return };
    let content = if meta.is_file() { fs::read_to_string(path).unwrap_or_default() } else { String::new() };
    // Not the link count: only what others would notice.
    found.insert(path.to_owned(), format!("{:o} {} {content}", meta.permissions().mode(), meta.mtime()));
    if meta.is_dir() {
        found.insert(path.to_owned(), format!("{:o}", meta.permissions().mode()));
        for entry in fs::read_dir(path).unwrap().flatten() {
            look_below(&entry.path(), found);
        }
    }
}

fn git(dir: &Path, args: &[&str]) {
    let status =
        Command::new("git").args(args).current_dir(dir).env("GIT_CONFIG_GLOBAL", "/dev/null").status().unwrap();
    assert!(status.success(), "git {args:?}");
}

/// What a sandbox adds to a command that does nothing.
pub fn cost() -> ExitCode {
    const RUNS: u32 = 101;
    let scene = Scene::new(&std::env::temp_dir());
    // The median of the time that passes, and the mean of what processors spend, which others do not disturb.
    let measure = |run: &dyn Fn()| {
        let cpu_before = cpu();
        let mut times: Vec<f64> = (0..RUNS)
            .map(|_| {
                let start = Instant::now();
                run();
                start.elapsed().as_secs_f64() * 1000.0
            })
            .collect();
        times.sort_by(f64::total_cmp);
        (times[times.len() / 2], (cpu() - cpu_before) / f64::from(RUNS))
    };
    let plain = measure(&|| {
        let mut command = Command::new("bash");
        drop(scene.equip(command.args(["-c", "true"]).stdin(Stdio::null())).output().unwrap());
    });
    println!("bash -c true: {:.2} ms, {:.2} ms of processors", plain.0, plain.1);
    for level in [Level::Namespaces, Level::Landlock] {
        let sandbox = Sandbox::only(level);
        if sandbox.found().level == level {
            let (time, cpu) = measure(&|| drop(scene.run(&sandbox, "true")));
            println!("{level}: {:+.2} ms, {:+.2} ms of processors", time - plain.0, cpu - plain.1);
        }
    }
    ExitCode::SUCCESS
}

/// What this process and those it has waited for have used, in milliseconds.
fn cpu() -> f64 {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike;
    let used = [UsageWho::RUSAGE_SELF, UsageWho::RUSAGE_CHILDREN].map(|who| getrusage(who).unwrap());
    let time = |micros: i64| Duration::from_micros(micros.cast_unsigned()).as_secs_f64() * 1000.0;
    used.iter().map(|usage| time((usage.user_time() + usage.system_time()).num_microseconds())).sum()
}
