//! Changes to several files, or several to one: all of them or none, on real files.

mod scene;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;

use scene::Scene;
use serde_json::json;

fn names(scene: &Scene) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(&scene.root).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn the_third_edit_fails_and_no_byte_changes() {
    let scene = Scene::new();
    scene.file("a", "one\r\ntwo\r\n").file("b", "three\n");
    let edits = |third: &str| {
        json!({"path": "a", "edits": [
            {"old": "one", "new": "two"},
            {"path": "b", "old": "three", "new": "3"},
            {"old": third, "new": "x", "all": true},
        ]})
    };
    let refusal = scene.error("multi_edit", edits("nothing like this")).await;
    let alone = scene.error("edit", json!({"path": "a", "old": "nothing like this", "new": "x", "all": true})).await;
    assert_eq!(refusal, format!("edit 3: {alone}\nNone of the edits was made"));
    assert_eq!((scene.contents("a"), scene.contents("b")), (b"one\r\ntwo\r\n".to_vec(), b"three\n".to_vec()));
    assert_eq!(names(&scene), ["a", "b"]);

    let done = scene.run("multi_edit", edits("two\n")).await;
    assert!(!done.is_error, "{}", done.text);
    assert_eq!((scene.contents("a"), scene.contents("b")), (b"xx".to_vec(), b"3\n".to_vec()));
    assert!(done.text.starts_with("edit 1: a edited\nedit 2: b edited\nedit 3: a edited in 2 places; `old` was not"));
    let change = |name: &str| json!({"path": scene.root.join(name), "kind": "update"});
    assert_eq!(done.meta["changes"], json!([change("a"), change("b")]));
    let diff = done.meta["diff"].as_str().unwrap();
    assert!(diff.contains("--- a\n") && diff.contains("--- b\n") && diff.contains("-three\n+3\n"), "{diff}");
    // The ledger knows what was written.
    scene.ok("edit", json!({"path": "a", "old": "xx", "new": "y"})).await;
}

#[tokio::test]
async fn a_dry_run_only_shows() {
    let patch = "*** Begin Patch\n*** Update File: a\n-one\n+1\n*** Add File: b\n+new\n*** End Patch";
    for (tool, input) in [
        ("edit", json!({"path": "a", "old": "one", "new": "1", "dry_run": true})),
        ("multi_edit", json!({"edits": [{"path": "a", "old": "one", "new": "1"}], "dry_run": true})),
        ("apply_patch", json!({"patch": patch, "dry_run": true})),
    ] {
        let scene = Scene::new();
        scene.file("a", "one\n");
        let shown = scene.run(tool, input).await;
        assert!(
            !shown.is_error && shown.text.contains("dry run") && shown.text.contains("-one\n+1\n"),
            "{}",
            shown.text
        );
        assert_eq!(shown.meta["dry_run"], json!(true));
        assert_eq!((scene.contents("a"), names(&scene)), (b"one\n".to_vec(), vec!["a".to_owned()]), "{tool}");
        // What was not written must not count as seen.
        scene.ok("edit", json!({"path": "a", "old": "one", "new": "2"})).await;
    }
}

#[tokio::test]
async fn multi_edit_refuses_what_edit_refuses() {
    let scene = Scene::new();
    scene.file("a", "one\n").file("stale", "one\n").file(".git/config", "one\n").file("file", "");
    scene.ok("read", json!({"path": "stale"})).await;
    scene.file("stale", "one!\n");
    for path in ["stale", ".git/config", "/etc/hostname", "none", ".", "file/x"] {
        let one = json!({"path": path, "old": "one", "new": "1"});
        let alone = scene.error("edit", one.clone()).await;
        let refusal = scene.error("multi_edit", json!({"path": "a", "edits": [{"old": "one", "new": "1"}, one]})).await;
        assert_eq!(refusal, format!("edit 2: {alone}\nNone of the edits was made"));
        assert_eq!(scene.contents("a"), b"one\n");
    }
    assert!(scene.error("multi_edit", json!({"path": "a", "edits": []})).await.contains("empty"));
    assert!(
        scene
            .error("multi_edit", json!({"edits": [{"old": "a", "new": "b"}]}))
            .await
            .starts_with("edit 1: which file?")
    );
}

#[tokio::test]
async fn a_patch_does_all_there_is_to_do() {
    let scene = Scene::new();
    scene.file("src/a.py", "\u{FEFF}def f():\r\n    return 1").file("old.sh", "#!/bin/sh\necho 1\n").file("gone", "x");
    fs::set_permissions(scene.root.join("old.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    let patch = "*** Begin Patch\n*** Add File: deep/new.txt\n+one\n+two\n*** Update File: src/a.py\n@@ def f():\n\
                 -return 1\n+return 2\n*** Update File: old.sh\n*** Move to: bin/new.sh\n #!/bin/sh\n-echo 1\n+echo 2\n\
                 *** Delete File: gone\n*** Update File: deep/new.txt\n-two\n+2\n*** End Patch";
    let done = scene.run("apply_patch", json!({"patch": patch})).await;
    assert_eq!(
        done.text,
        "A deep/new.txt\nM src/a.py\nD old.sh\nA bin/new.sh\nD gone\n\
         src/a.py: the hunk at line 6 of the patch differs from the file in indentation or trailing whitespace"
    );
    assert_eq!(scene.contents("deep/new.txt"), b"one\n2\n");
    assert_eq!(scene.contents("src/a.py"), "\u{FEFF}def f():\r\n    return 2".as_bytes());
    assert_eq!(scene.contents("bin/new.sh"), b"#!/bin/sh\necho 2\n");
    assert_eq!(fs::metadata(scene.root.join("bin/new.sh")).unwrap().permissions().mode() & 0o777, 0o750);
    assert_eq!(names(&scene), ["bin", "deep", "src"]);
    assert_eq!(done.meta["changes"].as_array().unwrap().len(), 5);
    let kinds: BTreeSet<_> =
        done.meta["changes"].as_array().unwrap().iter().map(|change| change["kind"].as_str()).collect();
    assert_eq!(kinds, BTreeSet::from([Some("add"), Some("delete"), Some("update")]));
    assert!(done.meta["diff"].as_str().unwrap().contains("+    return 2"));
    scene.ok("edit", json!({"path": "bin/new.sh", "old": "echo", "new": "printf"})).await;
}

#[tokio::test]
async fn a_patch_whose_second_part_fails_changes_nothing() {
    let scene = Scene::new();
    scene.file("a", "one\n").file("b", "two\n").file("stale", "x\n").file(".git/config", "x\n").file("file", "");
    symlink("b", scene.root.join("link")).unwrap();
    scene.ok("read", json!({"path": "stale"})).await;
    scene.file("stale", "x\ny\n");
    let before = names(&scene);
    for (second, says) in [
        ("*** Update File: b\n-too\n+2", "b: the hunk at line 6 of the patch: it is not in the file"),
        ("*** Update File: none\n-x", "line 5 of the patch: none does not exist: use `*** Add File: none`"),
        ("*** Delete File: none", "line 5 of the patch: none does not exist"),
        ("*** Update File: link\n*** Move to: c", "link is a symbolic link"),
        ("*** Add File: b\n+x", "line 5 of the patch: b exists already"),
        ("*** Update File: b\n*** Move to: a", "line 5 of the patch: a exists already"),
        ("*** Update File: b\n*** Move to: b", "line 5 of the patch: b exists already"),
        ("*** Update File: stale\n-x", "was changed since you read it"),
        ("*** Delete File: stale", "was changed since you read it"),
        ("*** Add File: .git/hooks/x\n+x", "git obeys this file"),
        ("*** Update File: b\n*** Move to: /etc/b", "belongs to the system"),
        ("*** Update File: b\n*** Move to: ../b", "outside of the workspace"),
        ("*** Add File: file/x\n+x", "Not a directory"),
        ("nonsense", "line 5 of the patch: `nonsense`"),
        // Found only while it is written: a file cannot be where a directory is needed.
        ("*** Add File: c\n+c\n*** Add File: d\n+d\n*** Add File: d/e\n+e", "put back as it was: c, a"),
    ] {
        let patch = format!("*** Begin Patch\n*** Update File: a\n-one\n+1\n{second}\n*** End Patch");
        let refusal = scene.error("apply_patch", json!({"patch": patch})).await;
        assert!(refusal.contains(says), "{second}: {refusal}");
        assert_eq!((scene.contents("a"), scene.contents("b")), (b"one\n".to_vec(), b"two\n".to_vec()), "{second}");
        assert_eq!(names(&scene), before, "{second}");
    }
    // The ledger was not told of what did not happen.
    scene.ok("edit", json!({"path": "a", "old": "one", "new": "1"})).await;
}

#[tokio::test]
async fn a_link_is_deleted_and_not_what_it_leads_to() {
    let scene = Scene::new();
    scene.file("a", "one\n");
    symlink("a", scene.root.join("link")).unwrap();
    symlink("/etc/hostname", scene.root.join("out")).unwrap();
    let delete = "*** Delete File: link\n*** Delete File: out";
    let failing = format!("*** Begin Patch\n{delete}\n*** Add File: d\n+d\n*** Add File: d/e\n+e\n*** End Patch");
    scene.error("apply_patch", json!({"patch": failing})).await;
    assert_eq!(fs::read_link(scene.root.join("out")).unwrap().to_str(), Some("/etc/hostname"));
    let patch = format!("*** Begin Patch\n{delete}\n*** End Patch");
    assert_eq!(scene.ok("apply_patch", json!({"patch": patch})).await, "D link\nD out");
    assert_eq!((names(&scene), scene.contents("a")), (vec!["a".to_owned()], b"one\n".to_vec()));
    let taken = scene.executor.workspace().take_back("1");
    assert_eq!((taken.restored, taken.left), (vec!["link".to_owned(), "out".to_owned()], Vec::new()));
    assert_eq!(fs::read_link(scene.root.join("out")).unwrap().to_str(), Some("/etc/hostname"));
}

/// No file may grow beyond 4 KiB in the second run of this test: to a writer that is a full disk.
#[tokio::test]
async fn a_full_disk_is_found_before_anything_changes() {
    const SMALL_DISK: &str = "BATON_TEST_SMALL_DISK";
    if std::env::var_os(SMALL_DISK).is_none() {
        let ran = Command::new("bash")
            .args(["-c", "trap '' XFSZ; ulimit -f 4; exec \"$0\" --exact a_full_disk_is_found_before_anything_changes"])
            .arg(std::env::current_exe().unwrap())
            .env(SMALL_DISK, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let scene = Scene::new();
    for linked in [false, true] {
        scene.file("a", "one\n").file("b", "two\n");
        if linked {
            // Such files are written in place, so that the second fails when the first is done.
            fs::hard_link(scene.root.join("a"), scene.root.join("a2")).unwrap();
            fs::hard_link(scene.root.join("b"), scene.root.join("b2")).unwrap();
        }
        let before = names(&scene);
        let large = "x".repeat(8_000);
        let edits = json!([{"path": "a", "old": "one", "new": "1"}, {"path": "b", "old": "two", "new": large}]);
        let refused = scene.run("multi_edit", json!({"edits": edits})).await;
        assert_eq!(refused.text.contains("has another name elsewhere"), linked, "{}", refused.text);
        let refusal = scene.run_granted("multi_edit", json!({"edits": edits}), &["a", "b"]).await.text;
        assert!(refusal.starts_with("cannot edit b: File too large"), "{refusal}");
        assert_eq!(refusal.ends_with("put back as it was: a"), linked, "{refusal}");
        let patch = format!(
            "*** Begin Patch\n*** Add File: new/c\n+c\n*** Delete File: a\n*** Update File: b\n+{large}\n*** End Patch"
        );
        let refusal = scene.run_granted("apply_patch", json!({"patch": patch}), &["a", "b"]).await.text;
        assert!(refusal.contains("File too large"), "{refusal}");
        assert_eq!((scene.contents("a"), scene.contents("b")), (b"one\n".to_vec(), b"two\n".to_vec()));
        assert_eq!(names(&scene), before);
    }
}
