//! `baton sandbox`: a command that the kernel keeps in.

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

use baton_core::{Fault, HostPattern};
use baton_guard::sandbox::{Found, Level, Network, Policy, Sandbox, Workspace, hold_signals, may_have};
use baton_net::Proxy;
use baton_tools::proxy_vars;

use crate::Global;
use crate::exit::Exit;
use crate::setup::Setup;

/// Run a command that the kernel keeps in: no writes outside, no secrets, no network
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  baton sandbox -- cargo test                     in the project, without network
  baton sandbox --write ~/.cache -- make          one more directory that can be written
  baton sandbox --allow-host '*.crates.io' -- cargo fetch
                                                  one host, through a proxy
  baton sandbox --show                            what can be written, and what is hidden

The exit code is the command's; 7 if there is no sandbox on this system.
")]
pub struct Args {
    /// Let the command write to this directory, too (repeatable)
    #[arg(long, value_name = "DIR")]
    write: Vec<PathBuf>,
    /// Let the command reach this host: NAME, *.NAME or NAME:PORT (repeatable)
    #[arg(long, value_name = "HOST", conflicts_with = "allow_net")]
    allow_host: Vec<HostPattern>,
    /// Let the command use the network
    #[arg(long)]
    allow_net: bool,
    /// How to keep the command in
    #[arg(long, value_enum, default_value = "auto")]
    level: Wanted,
    /// Show the level, and what is writable, protected and hidden
    #[arg(long)]
    show: bool,
    /// The command and its arguments
    #[arg(last = true, required_unless_present = "show", value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Wanted {
    /// The best that this system has
    Auto,
    /// User, mount, process and network namespaces
    Namespaces,
    /// Landlock and a filter of system calls
    Landlock,
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<Exit, Fault> {
    let setup = Setup::new(global)?;
    let sandbox = match args.level {
        Wanted::Auto => Sandbox::new(),
        Wanted::Namespaces => Sandbox::only(Level::Namespaces),
        Wanted::Landlock => Sandbox::only(Level::Landlock),
    };
    let hosts = if args.allow_net { Vec::new() } else { [&setup.sandbox.hosts[..], &args.allow_host].concat() };
    let sandbox = if hosts.is_empty() { sandbox } else { sandbox.listening() };
    let internal = |error: io::Error| Fault::internal(format!("cannot make a sandbox: {error}"));
    let temp = tempfile::Builder::new().prefix("baton-").tempdir().map_err(internal)?;
    let policy = policy(&setup, global, args, temp.path())?;
    if args.show {
        show(sandbox.found(), &policy, &hosts)
            .map_err(|error| Fault::internal(format!("cannot write the output: {error}")))?;
        return Ok(Exit::Done);
    }
    if sandbox.found().level == Level::None {
        baton_headless::show_fault(&Fault::input(unavailable(sandbox.found())).hint(HINT));
        return Ok(Exit::Sandbox);
    }
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(Fault::input("there is no command to run"));
    };
    let proxy = proxy(&sandbox, hosts).map_err(internal)?;
    let mut prepared = match proxy {
        Some(_) => sandbox.prepare(&policy),
        None => sandbox.prepare_alone(&policy),
    }
    .map_err(internal)?;
    let vars =
        std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(|name| may_have(name) && name != "TMPDIR"));
    let vars = vars.chain([("TMPDIR".into(), temp.path().into())]);
    let vars = vars.chain(proxy.into_iter().flat_map(|address| proxy_vars(address.port())));
    let status = prepared.run_here(program, arguments, &setup.cwd, vars).map_err(internal)?;
    let aftermath = prepared.finish().map_err(internal)?;
    for path in &aftermath.restored {
        eprintln!("baton: {} is protected; it was changed and has been put back", path.display());
    }
    if aftermath.error.is_some() {
        return Ok(Exit::Sandbox);
    }
    Ok(Exit::Command(status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())))
}

/// What to do where there is none.
pub const HINT: &str = "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, or \
    kernel.apparmor_restrict_unprivileged_userns=0), or use Linux 6.12 or later with Landlock";

/// Said where hosts are listed and cannot be reached.
pub const NO_HOSTS: &str = "sandbox.hosts cannot be reached here: at level landlock commands have no network at all";

/// Leads the command to these hosts; where, if it does. A thread of its own, which ends with the process.
fn proxy(sandbox: &Sandbox, hosts: Vec<HostPattern>) -> io::Result<Option<SocketAddr>> {
    let Some(listener) = sandbox.listener()? else {
        if !hosts.is_empty() {
            eprintln!("baton: {NO_HOSTS}");
        }
        return Ok(None);
    };
    let address = listener.local_addr()?;
    // They are for the command, whichever thread would get them.
    hold_signals()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let proxy = runtime.block_on(async { Proxy::start(listener, hosts) })?;
    std::thread::spawn(move || {
        runtime.block_on(std::future::pending::<()>());
        drop(proxy);
    });
    Ok(Some(address))
}

/// Why there is none.
pub fn unavailable(found: &Found) -> String {
    let why: Vec<_> = found.missing.iter().map(|(level, why)| format!("{level}: {why}")).collect();
    format!("there is no sandbox on this system ({})", why.join("; "))
}

fn policy(setup: &Setup, global: &Global, args: &Args, temp: &Path) -> Result<Policy, Fault> {
    let mut dirs = Vec::new();
    for dir in [&setup.project.root].into_iter().chain(&global.add_dir).chain(&args.write) {
        let real = setup.cwd.join(dir).canonicalize();
        dirs.push(real.map_err(|error| Fault::input(format!("cannot let {} be written: {error}", dir.display())))?);
    }
    // A home or a whole system is too wide to be handed over, as elsewhere.
    dirs.retain(|dir| !setup.places.is_too_wide(dir));
    let cargo_home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    Ok(Policy::of(&Workspace {
        dirs: &dirs,
        temp,
        home: setup.places.home.as_deref(),
        cargo_home: cargo_home.as_deref(),
        own: &[setup.places.state_dir.clone(), setup.places.config_dir.clone()],
        readable: &[],
        network: if args.allow_net { Network::Host } else { Network::Loopback },
    }))
}

fn show(found: &Found, policy: &Policy, hosts: &[HostPattern]) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    writeln!(out, "level: {}", found.level)?;
    for (level, why) in &found.missing {
        writeln!(out, "  not {level}: {why}")?;
    }
    let network = match (policy.network, found.level) {
        (_, Level::None) | (Network::Host, _) => "everything",
        (Network::Loopback, Level::Landlock) => "nothing",
        (Network::Loopback, Level::Namespaces) if hosts.is_empty() => "a loopback of its own",
        (Network::Loopback, Level::Namespaces) => "a loopback of its own, and these hosts by a proxy:",
    };
    writeln!(out, "network: {network}")?;
    if found.level == Level::Namespaces {
        for host in hosts {
            writeln!(out, "  {host}")?;
        }
    }
    let protected = policy.protected.iter().map(|protected| &protected.path).collect();
    let hidden = policy.hidden.iter().filter(|path| path.exists()).collect();
    let lists = [("writable", policy.writable.iter().collect()), ("protected in there", protected), ("hidden", hidden)];
    for (title, paths) in lists {
        let paths: Vec<&PathBuf> = paths;
        writeln!(out, "{title}:")?;
        for path in paths {
            writeln!(out, "  {}", path.display())?;
        }
    }
    Ok(())
}
