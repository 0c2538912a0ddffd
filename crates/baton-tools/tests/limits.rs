//! Limits in time: a tool that hangs is given up, and the answer says so.

mod scene;

use std::io::Write;
use std::time::Duration;

use async_trait::async_trait;
use baton_core::{Access, ToolSpec};
use baton_tools::{CallContext, Outcome, Progress, Registry, Tool};
use scene::{Scene, call};
use serde_json::{Value, json};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio_util::sync::CancellationToken;

/// A tool that ends when it is told to, and never otherwise. It hands out what it was told to stop by.
struct Hang {
    spec: ToolSpec,
    access: Access,
    begun: UnboundedSender<CancellationToken>,
    patient: bool,
}

#[async_trait]
impl Tool for Hang {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self) -> Access {
        self.access
    }

    async fn run(&self, _: Value, cx: &CallContext) -> Outcome {
        self.begun.send(cx.cancel.clone()).unwrap();
        if self.patient {
            tokio::time::sleep(Duration::from_millis(300)).await;
            return Outcome::ok("done");
        }
        std::future::pending().await
    }
}

fn scene(access: Access, patient: bool) -> (Scene, UnboundedReceiver<CancellationToken>) {
    let (begun, begins) = mpsc::unbounded_channel();
    let spec = ToolSpec { name: "hang".to_owned(), description: String::new(), input_schema: json!({}) };
    let mut scene = Scene::with(Registry::builtin().with(Hang { spec, access, begun, patient }));
    scene.executor = scene.executor.clone().with_deadline(Duration::from_millis(30));
    (scene, begins)
}

#[tokio::test]
async fn a_tool_that_hangs_is_given_up() {
    for (access, text) in [
        (Access::Read, "given up: `hang` did not finish within 30 ms"),
        (
            Access::Write,
            "given up: `hang` did not finish within 30 ms; it is not known what it changed: look before you repeat it",
        ),
    ] {
        let (scene, mut begins) = scene(access, false);
        assert_eq!(scene.error("hang", json!({})).await, text);
        assert!(begins.recv().await.unwrap().is_cancelled(), "what still runs is told to stop");
    }
}

#[tokio::test]
async fn a_tool_with_limits_of_its_own_has_its_time() {
    let (scene, _begins) = scene(Access::Execute, true);
    assert_eq!(scene.ok("hang", json!({})).await, "done");
    assert_eq!(scene.ok("bash", json!({"command": "sleep 0.2; echo done"})).await, "done");
}

#[tokio::test]
async fn a_cancelled_tool_that_only_looks_is_not_waited_for() {
    let (mut scene, mut begins) = scene(Access::Read, false);
    scene.executor = scene.executor.clone().with_deadline(Duration::from_hours(1));
    let cancel = CancellationToken::new();
    let stop = async {
        begins.recv().await.unwrap();
        cancel.cancel();
    };
    let hang = call("hang", json!({}));
    let run = scene.executor.run(&hang, cancel.clone(), Progress::none());
    // Half of what others get: those that change something, or run programs.
    let soon = tokio::time::timeout(Duration::from_secs(6), async { tokio::join!(run, stop).0 });
    assert_eq!(soon.await.unwrap(), Outcome::error("cancelled; the tool did not stop in time"));
}

#[tokio::test]
async fn read_stops_within_a_line_when_cancelled() {
    let scene = Scene::new();
    // Terabytes of one line.
    let endless = std::fs::File::create(scene.root.join("endless")).unwrap();
    (&endless).write_all(&[b'x'; 10_000]).unwrap();
    endless.set_len(4 << 40).unwrap();
    drop(endless);
    let cancel = CancellationToken::new();
    let read = call("read", json!({"path": "endless", "offset": 2}));
    let stop = async {
        let is_open = || {
            let mut open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            open.any(|fd| fd.path().read_link().is_ok_and(|file| file.ends_with("endless")))
        };
        while !is_open() {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(scene.executor.run(&read, cancel.clone(), Progress::none()), stop);
    assert_eq!(outcome, Outcome::error("cannot read endless: cancelled"));
}
