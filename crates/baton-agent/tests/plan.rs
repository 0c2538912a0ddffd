//! Plan mode with a person: what they are shown, what an approval grants, and what ends it. The model is a script.
//!
//! Has no harness: this program is the sandbox's helper, too.

#![allow(missing_docs, reason = "tests speak by their names")]

use std::process::ExitCode;
use std::sync::Arc;

use baton_agent::{Conversation, Events, Options, Permissions, RandomIds, Record, SystemClock, TurnLimits};
use baton_core::{AgentRole, Answer, Block, EventBody, EventSource, Op, PermissionMode, SessionId, TurnReason};
use baton_guard::audit::{Audit, Decision, Filter};
use baton_guard::secrets::Redactor;
use baton_guard::{Origin, PermissionSettings, Plans, Rules, sandbox};
use baton_llm::script::Script;
use baton_llm::{Budget, Caps, Gate, RehearsalProvider, RetryPolicy};
use baton_tools::{Confinement, Executor, Reach, Registry, Workspace};
use serde_json::{Value, json};

fn main() -> ExitCode {
    if let Some(code) = sandbox::helper_mode() {
        std::process::exit(code);
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    // Cargo asks every test for its names.
    if args.iter().any(|arg| arg == "--list") {
        return ExitCode::SUCCESS;
    }
    let only = args.iter().find(|arg| !arg.starts_with('-'));
    let is_wanted = |name: &str| only.is_none_or(|only| name.contains(only.as_str()));
    let mut scenarios = Vec::new();
    macro_rules! scenario {
        ($name:ident) => {
            if is_wanted(stringify!($name)) {
                scenarios.push((stringify!($name), std::thread::spawn(|| block_on($name()))));
            }
        };
    }
    scenario!(an_approval_grants_what_was_shown_and_nothing_else);
    scenario!(a_change_request_goes_back_and_the_next_version_is_asked_about);
    scenario!(the_kernel_follows);
    scenario!(another_plan_voids_the_one_before_whatever_is_said_about_it);
    let mut failures = 0_u8;
    for (name, scenario) in scenarios {
        let is_ok = scenario.join().is_ok();
        println!("test {name} ... {}", if is_ok { "ok" } else { "FAILED" });
        failures += u8::from(!is_ok);
    }
    println!("test result: {}", if failures == 0 { "ok".to_owned() } else { format!("{failures} FAILED") });
    ExitCode::from(failures)
}

fn block_on(scenario: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(scenario);
}

struct Scene {
    conversation: Conversation,
    events: Events,
    dir: tempfile::TempDir,
}

/// What the person is shown of a plan.
struct Shown {
    what: String,
    rules: Vec<String>,
    reason: String,
}

impl Scene {
    /// An agent in mode `plan` that makes one call after the other.
    fn new(calls: &[Value]) -> Self {
        Self::with(calls, &[])
    }

    /// The same with rules that allow something.
    fn with(calls: &[Value], allow: &[&str]) -> Self {
        let mut rules = Rules::none();
        let allow = allow.iter().map(|rule| (*rule).to_owned()).collect();
        rules.add(&PermissionSettings { allow, ..PermissionSettings::default() }, Origin::Trusted).unwrap();
        // Inside, `/tmp` is another one.
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let root = dir.path().join("project");
        std::fs::create_dir(&root).unwrap();
        let (clock, ids) = (Arc::new(SystemClock), Arc::new(RandomIds::default()));
        let gate = Arc::new(Gate::new(RetryPolicy::default(), clock.clone()));
        let lines: Vec<String> = calls.iter().map(|call| json!({"call": [call]}).to_string()).collect();
        let script = format!("{}\n{{\"say\":\"done\"}}", lines.join("\n"));
        let provider = RehearsalProvider::new(Script::parse("test", &script).unwrap(), clock.clone());
        let model = gate.model("script/test".parse().unwrap(), None, Arc::new(provider));
        let confinement = Confinement { is_read_only: true.into(), ..Confinement::default() };
        let workspace = Workspace::new(&root, dir.path().join("outputs"), Reach::Inside).unwrap().confine(confinement);
        let audit = Audit::new(dir.path(), "test", Redactor::new());
        let (conversation, events) = Conversation::start(Options {
            source: EventSource::new(SessionId::fresh(&*ids), clock.clone(), ids),
            model,
            web_search: false,
            gate,
            executor: Executor::new(Registry::builtin(), Arc::new(workspace)),
            permissions: Permissions {
                rules,
                record: Some(Record::new(audit, clock, "main".to_owned())),
                plans: Some(Plans::new(dir.path().join("plans"))),
                ..Permissions::of(PermissionMode::Plan)
            },
            limits: TurnLimits::default(),
            budgets: vec![Budget::new("session", Caps::default())],
            role: AgentRole::default(),
            opening: Vec::new(),
            notices: Vec::new(),
            answer_schema: None,
            is_attended: true,
            compaction: baton_agent::CompactionSettings::default(),
            session: None,
            history: None,
        });
        Self { conversation, events, dir }
    }

    async fn go(&self) {
        self.conversation.submit(Op::Prompt { content: vec![Block::text("go")] }).await;
    }

    /// Waits for the next question about a plan, and answers it.
    async fn answer(&mut self, answer: Answer) -> Shown {
        loop {
            let event = self.events.next().await.expect("the conversation goes on");
            if let EventBody::ApprovalAsked { approval, tool, what, rules, reason, .. } = event.body {
                self.conversation.submit(Op::Answer { approval, answer }).await;
                assert_eq!(tool, "plan");
                return Shown { what: what.unwrap(), rules, reason };
            }
        }
    }

    /// Waits for the next result; a question about anything else than a plan is rejected.
    async fn result(&mut self) -> (bool, String) {
        loop {
            let event = self.events.next().await.expect("the conversation goes on");
            match event.body {
                EventBody::ToolEnded { is_error, output, .. } => return (!is_error, output),
                EventBody::ApprovalAsked { approval, tool, .. } if tool != "plan" => {
                    let answer = Answer::Reject { reason: Some("not planned".to_owned()) };
                    self.conversation.submit(Op::Answer { approval, answer }).await;
                }
                EventBody::TurnEnded { .. } => panic!("the turn has ended"),
                _ => {}
            }
        }
    }

    #[track_caller]
    fn is_there(&self, file: &str) -> bool {
        self.dir.path().join("project").join(file).exists()
    }

    fn approvals(&self) -> Vec<(Decision, String)> {
        let audit = Audit::new(self.dir.path(), "test", Redactor::new());
        let filter = Filter { kind: Some("plan".to_owned()), ..Filter::default() };
        let mut found = Vec::new();
        audit.query(&filter, |entry, _| found.push((entry.record.decision.unwrap(), entry.record.what))).unwrap();
        found
    }

    async fn end(&mut self) {
        loop {
            let event = self.events.next().await.expect("the conversation goes on");
            if let EventBody::TurnEnded { reason, .. } = event.body {
                return assert_eq!(reason, TurnReason::Done);
            }
        }
    }
}

fn plan(text: &str, commands: &[&str], paths: &[&str]) -> Value {
    json!({"tool": "plan", "input": {"plan": text, "commands": commands, "paths": paths}})
}

fn bash(command: &str) -> Value {
    json!({"tool": "bash", "input": {"command": command}})
}

fn write(path: &str) -> Value {
    json!({"tool": "write", "input": {"path": path, "content": "x"}})
}

async fn an_approval_grants_what_was_shown_and_nothing_else() {
    let mut scene = Scene::new(&[
        bash("touch early"),
        write("src/early"),
        plan("# Make\u{1b}[2J two files", &["touch made"], &["src/**"]),
        bash("touch made"),
        write("src/new"),
        bash("touch other"),
        write("docs/new"),
        bash("touch made && touch chained"),
    ]);
    scene.go().await;
    for _ in 0..2 {
        let (is_ok, output) = scene.result().await;
        assert!(!is_ok && output.contains("plan mode only reads"), "{output}");
    }
    let shown = scene.answer(Answer::Once).await;
    assert_eq!(shown.what, "# Make\\u{1b}[2J two files");
    assert_eq!(shown.rules, ["Bash(touch made)", "Edit(./src/**)"]);
    let (is_ok, output) = scene.result().await;
    assert!(is_ok && output.contains("plan 1 is approved"), "{output}");
    for _ in 0..2 {
        let (is_ok, output) = scene.result().await;
        assert!(is_ok, "{output}");
    }
    for _ in 0..3 {
        let (is_ok, output) = scene.result().await;
        assert!(!is_ok && output.contains("not planned"), "{output}");
    }
    scene.end().await;
    let there =
        ["early", "src/early", "made", "src/new", "other", "docs/new", "chained"].map(|file| scene.is_there(file));
    assert_eq!(there, [false, false, true, true, false, false, false]);
    // The approval is bound to the hash: in what was shown, in the record, and in what was kept.
    let [(decision, what)] = &scene.approvals()[..] else { panic!("one approval") };
    let hash = what.split(' ').next().unwrap();
    assert_eq!(*decision, Decision::Approved);
    assert!(shown.reason.contains(&format!("plan 1, sha256 {hash}")), "{}", shown.reason);
    let kept = Plans::new(scene.dir.path().join("plans")).find(hash).unwrap();
    assert_eq!((kept.hash().as_str(), kept.grants()), (hash, shown.rules));
}

async fn a_change_request_goes_back_and_the_next_version_is_asked_about() {
    let mut scene = Scene::new(&[
        plan("all at once", &["touch a"], &[]),
        bash("touch a"),
        plan("step by step", &["touch b"], &[]),
        bash("touch a"),
        bash("touch b"),
    ]);
    scene.go().await;
    let first = scene.answer(Answer::Text { text: "smaller steps".to_owned() }).await;
    let (is_ok, output) = scene.result().await;
    assert!(!is_ok && output.contains("plan 1 is not approved") && output.contains("smaller steps"), "{output}");
    assert!(!scene.result().await.0, "nothing is granted by a plan that was not approved");
    let second = scene.answer(Answer::Session).await;
    assert!(first.reason.starts_with("plan 1, ") && second.reason.starts_with("plan 2, "), "{}", second.reason);
    assert!(scene.result().await.1.contains("plan 2 is approved"));
    assert!(!scene.result().await.0 && scene.result().await.0);
    scene.end().await;
    assert_eq!((scene.is_there("a"), scene.is_there("b")), (false, true));
    let decisions: Vec<_> = scene.approvals().into_iter().map(|(decision, _)| decision).collect();
    assert_eq!(decisions, [Decision::Denied, Decision::Approved]);
}

/// What the guard lets through in any mode is held by the kernel as long as no plan is approved.
async fn the_kernel_follows() {
    let touch = |file: &str| bash(&format!("touch {file}"));
    let calls = [touch("before"), plan("one", &[], &[]), touch("within"), plan("two", &[], &[]), touch("after")];
    let mut scene = Scene::with(&calls, &["Bash(touch:*)"]);
    scene.go().await;
    let (is_ok, output) = scene.result().await;
    assert!(!is_ok && !output.starts_with("refused"), "{output}");
    scene.answer(Answer::Once).await;
    assert!(scene.result().await.0 && scene.result().await.0);
    scene.answer(Answer::Reject { reason: None }).await;
    assert!(!scene.result().await.0 && !scene.result().await.0);
    scene.end().await;
    assert_eq!(["before", "within", "after"].map(|file| scene.is_there(file)), [false, true, false]);
}

async fn another_plan_voids_the_one_before_whatever_is_said_about_it() {
    let mut scene = Scene::new(&[
        plan("one", &["touch a"], &["src/**"]),
        plan("one", &["touch a"], &["src/**"]),
        bash("touch a"),
        plan("bad", &["sudo ls"], &[]),
        write("src/still"),
        plan("two", &["touch b"], &[]),
        bash("touch a2"),
        bash("touch b"),
        write("src/late"),
        bash("sh -c 'echo x > sneaky'"),
    ]);
    scene.go().await;
    scene.answer(Answer::Always).await;
    assert!(scene.result().await.0);
    assert!(scene.result().await.1.contains("approved already"));
    assert!(scene.result().await.0 && scene.is_there("a"));
    // What cannot be shown to the person changes nothing.
    let (is_ok, output) = scene.result().await;
    assert!(!is_ok && output.contains("not shown to the person") && output.contains("`sudo ls`"), "{output}");
    assert!(scene.result().await.0);
    scene.answer(Answer::Reject { reason: None }).await;
    assert!(scene.result().await.1.contains("plan 2 is not approved"));
    for _ in 0..4 {
        let (is_ok, output) = scene.result().await;
        assert!(!is_ok && output.contains("plan mode only reads"), "{output}");
    }
    scene.end().await;
    let there = ["src/still", "a2", "b", "src/late", "sneaky"].map(|file| scene.is_there(file));
    assert_eq!(there, [true, false, false, false, false]);
}
