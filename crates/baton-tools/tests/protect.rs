//! Protection: what a command of the same person can see of this process. A program of its own, since it cannot be undone.

mod scene;

use std::process::Command;

use rustix::process::{DumpableBehavior, dumpable_behavior, geteuid};
use scene::Scene;
use serde_json::json;

const NOBODY: &str = "65534";

#[tokio::test]
async fn commands_cannot_see_into_this_process() {
    if geteuid().is_root() {
        // Root sees everything, so the same is tried by somebody else. Not everywhere can one become that.
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("protect");
        std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let ran = Command::new("setpriv")
            .args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"])
            .arg(&program)
            .env("TMPDIR", "/tmp")
            .status();
        if let Ok(status) = ran {
            assert!(status.success());
        }
        baton_tools::protect_memory().unwrap();
        assert_eq!(dumpable_behavior().unwrap(), DumpableBehavior::NotDumpable);
        return;
    }
    let scene = Scene::new();
    let look = json!({"command": "tr '\\0' '\\n' </proc/$PPID/environ | grep -c ^PATH="});
    assert_eq!(scene.ok("bash", look.clone()).await, "1");
    baton_tools::protect_memory().unwrap();
    assert!(scene.error("bash", look).await.contains("Permission denied"));

    // What Baton itself has to see, it still sees: its children, by the marks in their environments.
    let left = scene.ok("bash", json!({"command": "setsid sleep 300 & sleep 300 & echo x"})).await;
    assert_eq!(left, "x\n[ended 2 processes that ran on in the background]");
    let seen = scene.ok("bash", json!({"command": "head -c 5 /proc/self/environ >/dev/null && echo seen"})).await;
    assert_eq!(seen, "seen");
}
