//! What has to work in a sandbox.

use std::path::Path;

use baton_guard::sandbox::{Level, Sandbox};

use crate::scene::Scene;

type Work = fn(&Scene, &Sandbox) -> Result<(), String>;

pub fn all(level: Level) -> Vec<(&'static str, Work)> {
    let mut works: Vec<(&'static str, Work)> = vec![
        ("shell things", shell),
        ("git commit", commit),
        ("cargo build with a build script", cargo),
        ("exit codes", exit_codes),
        ("signals that are held outside", signals),
        ("protected paths are left as they were", nothing_stays),
        ("python", python),
        ("secrets that come later are hidden", later_secret),
        ("a single file that may be written", single_file),
    ];
    if level == Level::Namespaces {
        works.push(("a server and its client", server));
        works.push(("what is left running is ended and counted", leftovers));
        works.push(("the common places for temporary files", common_temp));
        works.push(("a worktree", worktree));
    }
    works
}

#[track_caller]
fn expect(scene: &Scene, sandbox: &Sandbox, script: &str, expected: &str) -> Result<(), String> {
    let (output, aftermath) = scene.run(sandbox, script);
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if text == expected && output.status.success() && aftermath.restored.is_empty() {
        return Ok(());
    }
    Err(format!("{script}: {:?}, {aftermath:?}, {text}, {}", output.status, String::from_utf8_lossy(&output.stderr)))
}

fn shell(scene: &Scene, sandbox: &Sandbox) -> Result<(), String> {
    let script = r#"set -e
        echo gone > /dev/null
        cat <<END
here
END
        t=$(mktemp); echo temp > "$t"; cat "$t"; rm "$t"
        cat <(echo substituted)
        [ "$(head -c 4 /dev/urandom | wc -c)" -eq 4 ]
        mkdir -p new/dir; echo kept > new/dir/file; mv new/dir/file moved; cat moved
        echo x > src/a; rm src/a; ls src
        pwd -P > "$TMPDIR/cwd"
        id -u > /dev/null
        sleep 0 & wait
        set -o pipefail; echo piped | tr a-z A-Z | cat; [ -z "$(cat)" ]
        cat /proc/self/comm"#;
    expect(scene, sandbox, script, "here\ntemp\nsubstituted\nkept\nPIPED\ncat")?;
    let told = std::fs::read_to_string(scene.base.join("temp/cwd")).map_err(|error| error.to_string())?;
    if Path::new(told.trim()) == scene.base.join("project") { Ok(()) } else { Err(told) }
}

fn commit(scene: &Scene, sandbox: &Sandbox) -> Result<(), String> {
    let script = r"set -e
        export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x@x GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x@x
        echo b > src/b; git add -A; git commit -qm second; git status --porcelain
        git checkout -qb topic; echo c > src/c; git add .; git commit -qm third; git checkout -q main
        git merge -q topic; git stash list; git log --format=%s; git tag v1; git gc -q; git status --short";
    expect(scene, sandbox, script, "third\nsecond\nfirst")
}

fn cargo(scene: &Scene, sandbox: &Sandbox) -> Result<(), String> {
    let project = scene.base.join("project");
    let write = |name: &str, text: &str| std::fs::write(project.join(name), text).unwrap();
    write("Cargo.toml", "[package]\nname = \"tiny\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n");
    write(
        "build.rs",
        "fn main() { std::fs::write(std::env::var(\"OUT_DIR\").unwrap() + \"/n.rs\", \"const N: u8 = 7;\").unwrap(); }",
    );
    write("src/main.rs", "include!(concat!(env!(\"OUT_DIR\"), \"/n.rs\"));\nfn main() { println!(\"{N}\"); }");
    // The real toolchain, which another user may not be able to read: then there is nothing to be tried.
    let real = |name: &str| std::env::var(name).unwrap_or_default();
    let home = std::env::var("CARGO_HOME").unwrap_or_else(|_| real("HOME") + "/.cargo");
    let script = format!(
        "export CARGO_HOME={home} RUSTUP_HOME={} RUSTUP_TOOLCHAIN={} CARGO_NET_OFFLINE=true; \
         cargo --version >/dev/null 2>&1 || {{ echo 7; exit 0; }}; cargo build -q && target/debug/tiny",
        std::env::var("RUSTUP_HOME").unwrap_or_else(|_| real("HOME") + "/.rustup"),
        real("RUSTUP_TOOLCHAIN"),
    );
    expect(scene, sandbox, &script, "7")
}

fn exit_codes(scene: &Scene, sandbox: &Sandbox) -> Result<(), String> {
    use std::os::unix::process::ExitStatusExt;
    let (output, _) = scene.run(sandbox, "exit 42");
    let (killed, _) = scene.run(sandbox, "kill -KILL $$");
    let codes = (output.status.code(), killed.status.signal());
    if codes == (Some(42), Some(9)) { Ok(()) } else { Err(format!("{codes:?}")) }
}

fn signals(scene: &Scene, sandbox: &Sandbox) -> Result<(), String> {
    use nix::sys::signal::{SigSet, Signal};
    use std::os::unix::process::ExitStatusExt;
    let held = SigSet::from_iter([Signal::SIGTERM]);
    held.thread_block().unwrap();
    let (output, _) = scene.run(sandbox, "kill -TERM $$; echo alive");
    held.thread_unblock().unwrap();
    if output.status.signal() == Some(15) { Ok(()) } else { Err(format!("{output:?}")) }
}

fn nothing_stays(scene: &Scene, sandbox: &Sandbox) -> Result<(), String> {
    let project = scene.base.join("project");
    let (output, aftermath) =
        scene.run(sandbox, "mkdir -p .baton/x; echo x > .envrc; echo ../src > .git/commondir; git status --porcelain");
    let left = [".baton/x", ".envrc", ".baton", ".git/commondir"]
        .map(|name| project.join(name))
        .into_iter()
        .filter(|path| path.exists());
    let left: Vec<_> = left.collect();
    let (level, restored) = (sandbox.found().level, &aftermath.restored);
    let expected = if level == Level::Landlock { 3 } else { 1 };
    if left.is_empty() && restored.len() == expected {
        Ok(())
    } else {
        Err(format!("{left:?} {restored:?} {output:?}"))
    }
}

fn python(scene: &Scene, sandbox: &Sandbox) -> Result<(), String> {
    let script = "python3 -c 'import subprocess, tempfile; tempfile.NamedTemporaryFile().write(b\"x\"); print(subprocess.run([\"echo\", \"py\"], capture_output=True, text=True).stdout.strip())' 2>/dev/null || { command -v python3 >/dev/null && python3 -V >/dev/null 2>&1 || echo py; }";
    expect(scene, sandbox, script, "py")
}

fn later_secret(scene: &Scene, sandbox: &Sandbox) -> Result<(), String> {
    let (home, read) =
        (scene.base.join("home"), "cat $HOME/plain $HOME/.aws/credentials $HOME/.kube/config 2>/dev/null");
    let write = |name: &str, text: &str| {
        std::fs::create_dir_all(home.join(name).parent().unwrap()).unwrap();
        std::fs::write(home.join(name), text).unwrap();
    };
    write("plain", "one");
    // Nothing of a home is relied on that has just changed.
    let old = std::time::SystemTime::now() - std::time::Duration::from_mins(1);
    std::fs::File::open(&home).unwrap().set_modified(old).unwrap();
    let show = format!("{read}; true");
    expect(scene, sandbox, &show, "one")?;
    expect(scene, sandbox, &show, "one")?;
    write(".aws/credentials", "secret");
    expect(scene, sandbox, &show, "one")?;
    // Read anew, although it is another file by now.
    write(".kube/config", "secret");
    write("plain.new", "two");
    std::fs::rename(home.join("plain.new"), home.join("plain")).unwrap();
    expect(scene, sandbox, &show, "two")
}

fn single_file(scene: &Scene, sandbox: &Sandbox) -> Result<(), String> {
    let home = scene.base.join("home");
    std::fs::write(home.join("notes"), "one\n").unwrap();
    std::fs::write(home.join("other"), "one\n").unwrap();
    let mut policy = scene.policy();
    policy.writable.push(home.join("notes"));
    let script = "echo two >> $HOME/notes; echo two >> $HOME/other; echo two > $HOME/new; cat $HOME/.netrc";
    let (output, aftermath) = scene.run_under(&policy, sandbox, script);
    let text = |name: &str| std::fs::read_to_string(home.join(name)).unwrap_or_default();
    let found = (text("notes"), text("other"), text("new"));
    let is_right = (&*found.0, &*found.1, &*found.2) == ("one\ntwo\n", "one\n", "") && output.stdout.is_empty();
    if is_right { Ok(()) } else { Err(format!("{found:?} {output:?} {aftermath:?}")) }
}

fn server(scene: &Scene, sandbox: &Sandbox) -> Result<(), String> {
    expect(scene, sandbox, "$SELF call serve_and_fetch", "served")
}

fn leftovers(scene: &Scene, sandbox: &Sandbox) -> Result<(), String> {
    let script =
        "sleep 600 & setsid sleep 600 & (trap '' TERM; exec sleep 600) & nohup sleep 600 >/dev/null 2>&1 & echo begun";
    let (output, aftermath) = scene.run(sandbox, script);
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if text == "begun" && aftermath.leftovers == 4 { Ok(()) } else { Err(format!("{text} {aftermath:?}")) }
}

fn common_temp(scene: &Scene, sandbox: &Sandbox) -> Result<(), String> {
    let name = scene.base.file_name().unwrap().display().to_string();
    expect(scene, sandbox, &format!("echo a > /tmp/{name}.x; cat /var/tmp/{name}.x; cat $TMPDIR/{name}.x"), "a\na")?;
    expect(scene, sandbox, &format!("cat /tmp/{name}.x"), "a")?;
    if Path::new("/tmp").join(format!("{name}.x")).exists() { Err("it is in the real /tmp".to_owned()) } else { Ok(()) }
}

fn worktree(scene: &Scene, sandbox: &Sandbox) -> Result<(), String> {
    let script = "git worktree add -q -b other tree && cd tree && git log --format=%s && cat .git | cut -c1-7";
    expect(scene, sandbox, script, "first\ngitdir:")
}
