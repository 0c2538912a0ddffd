//! The tools as an agent calls them: through the executor, on real files and with real processes.

mod scene;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use baton_core::{Access, ToolSpec, ToolUse};
use baton_tools::{CallContext, Outcome, Progress, Registry, Tool};
use scene::{Scene, call};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// A tool that misbehaves.
struct Odd(ToolSpec);

impl Odd {
    fn new(name: &str) -> Self {
        Self(ToolSpec { name: name.to_owned(), description: String::new(), input_schema: json!({}) })
    }
}

#[async_trait]
impl Tool for Odd {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn access(&self) -> Access {
        Access::Write
    }

    async fn run(&self, _: Value, _: &CallContext) -> Outcome {
        assert!(self.0.name == "flood", "on purpose");
        Outcome::ok("line\n".repeat(100_000))
    }
}

#[tokio::test]
async fn whatever_happens_there_is_an_answer() {
    let scene = Scene::with(Registry::builtin().with(Odd::new("flood")).with(Odd::new("crash")));
    let unknown = scene.error("bsh", json!({})).await;
    assert!(unknown.starts_with("there is no tool `bsh`; the tools are: read, write, edit, bash,"), "{unknown}");
    assert!(unknown.ends_with(", flood, crash"), "{unknown}");
    assert_eq!(scene.error("crash", json!({})).await, "the tool `crash` crashed: on purpose");
    let flood = scene.run("flood", json!({})).await;
    assert!(flood.text.len() <= 50 * 1024 && flood.text.lines().count() <= 2_000);
    assert_eq!(fs::read(flood.meta["output_path"].as_str().unwrap()).unwrap().len(), 500_000);

    let malformed = ToolUse { malformed: Some(r#"{"command": "touch x"#.to_owned()), ..call("bash", json!({})) };
    let outcome = scene.executor.run(&malformed, CancellationToken::new(), Progress::none()).await;
    assert!(
        outcome.is_error && outcome.text.contains("EOF while parsing a string at line 1 column 20"),
        "{}",
        outcome.text
    );

    let cancelled = CancellationToken::new();
    cancelled.cancel();
    let outcome = scene.executor.run(&call("bash", json!({"command": "touch x"})), cancelled, Progress::none()).await;
    assert_eq!((outcome.text.as_str(), outcome.is_error), ("cancelled", true));
    assert!(!scene.root.join("x").exists());
}

#[test]
fn calls_that_only_look_run_together() {
    let scene = Scene::new();
    let calls: Vec<_> = ["read", "grep", "bash", "ls", "edit", "edit", "nope"]
        .into_iter()
        .chain(["read"; 10])
        .map(|tool| call(tool, json!({})))
        .collect();
    let groups = scene.executor.groups(&calls);
    assert_eq!(groups.iter().map(|group| group.len()).collect::<Vec<_>>(), [2, 1, 1, 1, 1, 1, 8, 2]);
    assert_eq!(groups.concat(), calls);
}

#[tokio::test]
async fn read_numbers_lines_and_goes_on_where_it_stopped() {
    let scene = Scene::new();
    scene.file("a.txt", "one\r\ntwo\nthree").file("empty", "").file("long", "line\n".repeat(5_000));
    assert_eq!(scene.ok("read", json!({"path": "a.txt"})).await, "     1\tone\n     2\ttwo\n     3\tthree");
    assert_eq!(
        scene.ok("read", json!({"file_path": "a.txt", "offset": 2, "limit": 1})).await,
        "     2\ttwo\n[more lines follow: continue with offset=3]"
    );
    assert_eq!(scene.error("read", json!({"path": "a.txt", "offset": 9})).await, "the file has only 3 lines");
    assert_eq!(scene.ok("read", json!({"path": "empty"})).await, "(the file is empty)");
    let first = scene.ok("read", json!({"path": "long"})).await;
    assert!(first.ends_with("[more lines follow: continue with offset=1981]"), "{}", &first[first.len() - 100..]);
    scene.file("wide", "é".repeat(10_000));
    assert!(scene.ok("read", json!({"path": "wide"})).await.ends_with("é... [18000 bytes cut]"));
    scene.file("latin", b"caf\xe9\n");
    let latin = scene.ok("read", json!({"path": "latin"})).await;
    assert!(latin.contains("caf\u{FFFD}\n[some bytes are not valid UTF-8"), "{latin}");
}

#[tokio::test]
async fn read_is_quick_in_huge_files() {
    let scene = Scene::new();
    scene.file("huge", "line\n".repeat(3_000_000));
    // Whoever reads it to its end is given up long before.
    fs::File::options().write(true).open(scene.root.join("huge")).unwrap().set_len(4 << 40).unwrap();
    let text = scene.ok("read", json!({"path": "huge", "offset": 1000, "limit": 2})).await;
    assert!(text.starts_with("  1000\tline\n  1001\tline\n[more"), "{text}");
}

#[tokio::test]
async fn read_refuses_what_it_cannot_show() {
    let scene = Scene::new();
    scene.file("src/main.rs", "").file("bin", b"a\0b").file("utf16", b"\xff\xfea\0");
    assert_eq!(scene.error("read", json!({"path": "src"})).await, "src is a directory: use `ls` to list it");
    assert_eq!(
        scene.error("read", json!({"path": "src/mian.rs"})).await,
        "src/mian.rs does not exist; beside it there is main.rs"
    );
    assert!(scene.error("read", json!({"path": "no/where"})).await.ends_with("nor does its directory"));
    assert!(scene.error("read", json!({"path": "bin"})).await.starts_with("bin is binary (3 bytes)"));
    assert!(scene.error("read", json!({"path": "utf16"})).await.contains("is binary"));
    assert!(scene.error("read", json!({"path": "/dev/zero"})).await.contains("it is a device"));
    scene.ok("bash", json!({"command": "mkfifo pipe"})).await;
    assert!(scene.error("read", json!({"path": "pipe"})).await.contains("not a file"));

    assert!(scene.error("read", json!({"path": "/proc/self/environ"})).await.contains("environment"));
    assert!(scene.error("grep", json!({"path": "/proc/self/environ", "pattern": "P"})).await.contains("environment"));
    assert!(scene.error("grep", json!({"path": "pipe", "pattern": "x"})).await.contains("not a file"));
    assert!(scene.error("edit", json!({"path": "pipe", "old": "a", "new": "b"})).await.contains("not a regular file"));
    assert!(scene.error("write", json!({"path": "pipe", "content": "x"})).await.contains("not a regular file"));
    assert!(scene.ok("read", json!({"path": "/proc/meminfo"})).await.contains("MemTotal"));
}

#[tokio::test]
async fn read_shows_pictures_that_models_take() {
    let scene = Scene::new();
    let png = |side: u32| [&b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR"[..], &side.to_be_bytes(), &[0, 0, 0, 9]].concat();
    scene.file("dot.png", png(9)).file("wide.png", png(9_000)).file("broken.png", &png(9)[..20]);
    scene.file("large.png", [png(9), vec![0; 3_750_000]].concat());
    let outcome = scene.run("read", json!({"path": "dot.png"})).await;
    assert_eq!(
        (outcome.images[0].media_type.as_str(), outcome.text.as_str()),
        ("image/png", "dot.png: image/png, 24 bytes")
    );
    for (path, why) in [("wide.png", "9000 x 9 pixels"), ("large.png", "3750024 bytes"), ("broken.png", "damaged")] {
        let text = scene.error("read", json!({"path": path})).await;
        assert!(text.starts_with(&format!("{path} cannot be shown: it ")) && text.contains(why), "{text}");
    }
}

#[tokio::test]
async fn write_creates_and_overwrites() {
    let scene = Scene::new();
    let made = scene.run("write", json!({"path": "a/b.sh", "content": "x\ny\n"})).await;
    assert_eq!(made.text, "a/b.sh created: 2 lines, 4 bytes");
    assert!(made.meta["diff"].as_str().unwrap().contains("+x\n+y\n"));
    fs::set_permissions(scene.root.join("a/b.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    symlink("a/b.sh", scene.root.join("link")).unwrap();
    assert_eq!(scene.ok("write", json!({"path": "link", "content": "z"})).await, "link overwritten: 1 lines, 1 bytes");
    assert!(scene.root.join("link").is_symlink());
    assert_eq!(scene.contents("a/b.sh"), b"z");
    assert_eq!(fs::metadata(scene.root.join("a/b.sh")).unwrap().permissions().mode() & 0o777, 0o750);

    assert!(scene.error("write", json!({"path": "../x", "content": ""})).await.contains("outside of the workspace"));
    assert_eq!(scene.error("write", json!({"path": "a", "content": ""})).await, "a is a directory");
}

#[tokio::test]
async fn changes_of_others_are_not_overwritten() {
    let scene = Scene::new();
    scene.file("a", "one two").file("b", "never seen");
    scene.ok("read", json!({"path": "a"})).await;
    scene.file("a", "one three");
    for (tool, input) in
        [("edit", json!({"path": "a", "old": "one", "new": "1"})), ("write", json!({"path": "a", "content": "x"}))]
    {
        assert!(scene.error(tool, input).await.contains("was changed since you read it"));
    }
    assert_eq!(scene.contents("a"), b"one three");
    scene.ok("read", json!({"path": "a"})).await;
    scene.ok("edit", json!({"path": "a", "old": "one", "new": "1"})).await;
    scene.ok("edit", json!({"path": "a", "old": "three", "new": "3"})).await;
    assert_eq!(scene.contents("a"), b"1 3");
    scene.ok("edit", json!({"path": "b", "old": "never", "new": "now"})).await;
}

#[tokio::test]
async fn edit_shows_what_it_did() {
    let scene = Scene::new();
    scene.file("a.rs", "fn a() {\r\n    one();\r\n}\r\n");
    let outcome = scene.run("edit", json!({"path": "a.rs", "old": "one();\n}", "new": "two();\n}"})).await;
    assert_eq!(
        outcome.text,
        "a.rs edited; `old` was not found as given, but one place differs only in line endings\n     1\tfn a() {\n     2\t    two();\n     3\t}"
    );
    assert_eq!(scene.contents("a.rs"), b"fn a() {\r\n    two();\r\n}\r\n");
    assert!(outcome.meta["diff"].as_str().unwrap().contains("-    one();"));
    assert_eq!(
        scene.error("edit", json!({"path": "b", "old": "a", "new": "b"})).await,
        "b does not exist: use `write` to create it"
    );
    assert!(
        scene
            .error("edit", json!({"path": "a.rs", "old": "nothing here", "new": "b"}))
            .await
            .starts_with("a.rs: `old` is not in")
    );
    let all = scene.ok("edit", json!({"path": "a.rs", "old": "(", "new": "[", "all": true})).await;
    assert!(all.starts_with("a.rs edited in 2 places\n"));
}

#[tokio::test]
async fn glob_finds_files_newest_first() {
    let scene = Scene::new();
    for (age, path) in
        [(3, "src/a.rs"), (1, "src/deep/b.rs"), (2, "c.rs"), (0, "target/d.rs"), (0, ".github/e.yml"), (0, ".git/f.rs")]
    {
        scene.file(path, "");
        let time = SystemTime::now() - Duration::from_secs(age * 60);
        fs::File::options().write(true).open(scene.root.join(path)).unwrap().set_modified(time).unwrap();
    }
    scene.file(".gitignore", "target\n");
    for (pattern, found) in [
        ("*.rs", "src/deep/b.rs\nc.rs\nsrc/a.rs"),
        ("src/*.rs", "src/a.rs"),
        ("src/**/*.rs", "src/deep/b.rs\nsrc/a.rs"),
        ("**/*.{yml,toml}", "no files match"),
        (".github/*.yml", ".github/e.yml"),
        ("nowhere/*.rs", "no files match"),
        // Who names it wants it.
        ("target/*.rs", "target/d.rs"),
        (&format!("{}/src/*.rs", scene.root.display()), "src/a.rs"),
    ] {
        assert_eq!(scene.ok("glob", json!({"pattern": pattern})).await, found, "{pattern}");
    }
    assert_eq!(scene.ok("glob", json!({"pattern": "*.rs", "path": "src/deep"})).await, "src/deep/b.rs");
    assert!(scene.error("glob", json!({"pattern": "a[", "path": "."})).await.starts_with("invalid pattern"));
    for n in 0..250 {
        scene.file(&format!("many/{n}.txt"), "");
    }
    assert!(scene.ok("glob", json!({"pattern": "*.txt"})).await.ends_with("[the newest 200 of 250 files]"));
}

#[tokio::test]
async fn grep_searches_in_order() {
    let scene = Scene::new();
    scene
        .file("b.rs", "one\nTwo two\nthree\n")
        .file("a/x.txt", "two\n")
        .file("bin", b"two\0")
        .file(".gitignore", "ignored\n")
        .file("ignored/y", "two\n");
    for (input, found) in [
        (json!({"pattern": "two"}), "a/x.txt:1:two\nb.rs:2:Two two"),
        (json!({"pattern": "^t", "ignore_case": true}), "a/x.txt:1:two\nb.rs:2:Two two\nb.rs:3:three"),
        (json!({"pattern": "two", "glob": "*.rs", "context": 1}), "b.rs-1-one\nb.rs:2:Two two\nb.rs-3-three"),
        (json!({"pattern": "two", "files_only": true}), "a/x.txt\nb.rs"),
        (json!({"pattern": "two", "path": "ignored/y"}), "ignored/y:1:two"),
        (json!({"pattern": "nothing"}), "no matches"),
        (
            json!({"pattern": "t", "limit": 2}),
            "a/x.txt:1:two\nb.rs:2:Two two\n[the first 2 matches; there are more: narrow the pattern or the path]",
        ),
    ] {
        assert_eq!(scene.ok("grep", input.clone()).await, found, "{input}");
    }
    assert!(scene.error("grep", json!({"pattern": "foo("})).await.contains("escape special characters"));
    assert!(scene.error("grep", json!({"pattern": "x", "path": "nowhere"})).await.contains("does not exist"));
}

#[tokio::test]
async fn ls_shows_kinds_and_sizes() {
    let scene = Scene::new();
    scene.file("b.txt", "12345").file("a/x", "").file(".hidden", vec![0; 2_000]);
    symlink("b.txt", scene.root.join("link")).unwrap();
    assert_eq!(scene.ok("ls", json!({})).await, ".hidden  2 KiB\na/\nb.txt  5 B\nlink -> b.txt");
    fs::create_dir(scene.root.join("none")).unwrap();
    assert_eq!(scene.ok("ls", json!({"path": "none"})).await, "(empty)");
    assert!(scene.error("ls", json!({"path": "b.txt"})).await.starts_with("cannot list b.txt"));
}

#[tokio::test]
async fn what_baton_started_for_itself_is_left_alone() {
    let scene = Scene::new();
    let mut server = std::process::Command::new("sleep").arg("300").spawn().unwrap();
    for _ in 0..5 {
        scene.ok("bash", json!({"command": "sleep 300 & printf x"})).await;
    }
    assert!(server.try_wait().unwrap().is_none());
    server.kill().unwrap();
    server.wait().unwrap();
}
