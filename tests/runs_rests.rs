//! Runs that rest: at a cap, at a provider that refuses, at a person who does not answer. What was used is never forgotten.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::Live;
use crate::support::odd_machine::Jump;
use crate::support::runs::{Repo, call, shell, submit};
use crate::support::{run, with_sleeps};

const TWO: &str = r#"workflow(
    name = "two",
    roles = {"greeter": role(agent = "hello", write = ["hello.txt"], tools = CODING)},
    tokens = 15000,
    states = {
        "A": state("greeter", gate = evidence({"file": "path"}), on = {"pass": "B"}),
        "B": state("greeter", gate = evidence({"file": "path"}), on = {"pass": "DONE"}),
        "DONE": done(),
    },
)
"#;

/// An answer that costs as many tokens as this.
fn costing(tokens: u64, mut line: Value) -> Value {
    line["usage"] = json!({"input": tokens - 100, "output": 100});
    line
}

fn write() -> Value {
    call("greeter", "write", json!({"path": "hello.txt", "content": "hello\n"}))
}

fn hand_in() -> Value {
    submit("greeter", json!({"file": "hello.txt"}))
}

#[test]
fn work_that_was_handed_in_counts_and_nobody_begins_beyond_the_cap() {
    let repo = Repo::new();
    repo.workflow("two", TWO);
    let script = [costing(10_000, write()), costing(10_000, hand_in()), costing(10_000, hand_in())];
    let run = repo.start("two", &script, &[]).expect(5);
    let decided: Vec<_> = run.of("gate.decided").iter().map(|event| event["state"].to_string()).collect();
    assert_eq!(decided, ["\"A\""]);
    assert_eq!(repo.status()["tokens"], 20_000, "B has asked nothing");
    let on = repo.world.baton(&["run", "resume", "--max-tokens", "100000", "--json"]).expect(0);
    assert_eq!(on.of("run.end")[0]["tokens"], 30_000, "the end has it all: {on:#?}");
    assert_eq!(repo.status()["tokens"], 30_000);
}

#[test]
fn what_was_used_survives_a_kill() {
    let repo = Repo::new();
    repo.workflow("two", &TWO.replace("15000", "150000"));
    let wait = with_sleeps("echo waiting; SLEEP7");
    let script = [costing(10_000, write()), costing(10_000, shell("greeter", &wait)), hand_in(), hand_in()];
    let mut live = Live::start(repo.starting("two", &script, &[]));
    live.until("tool.update");
    live.signal(Signal::KILL);
    live.wait();
    assert_eq!(repo.status()["tokens"], 20_000);
}

#[test]
fn a_provider_that_refuses_costs_no_attempt() {
    let repo = Repo::new();
    let refusal = json!({"role": "greeter", "fail": {"status": 401, "body": "no such key"}});
    let run = repo.start("hello", &[write_for("world"), refusal, hand_in()], &[]);
    let error = run.of("error").last().unwrap().clone();
    assert!(error["area"] == "provider" && error["message"].as_str().unwrap().contains("no such key"), "{error}");
    run.expect_error(6, "no such key", "baton run resume");
    assert_eq!(repo.status()["attempt"], 1);
    let on = repo.world.baton(&["run", "resume", "--json"]).expect(0);
    assert_eq!(on.of("run.end")[0]["end"], "done");
    let told = on.of("turn.start")[0]["message"].to_string();
    assert!(told.contains("Baton was stopped while you worked on this"), "{told}");
    assert_eq!(repo.brought_back().len(), 1);
}

fn write_for(who: &str) -> Value {
    call("greeter", "write", json!({"path": "hello.txt", "content": format!("hello {who}\n")}))
}

const ASKING: &str = r#"workflow(
    name = "asking",
    states = {
        "ASK": human("Shall it be done?", options = ["yes", "no"], timeout = "1h", retries = 0,
            on = {"yes": "DONE", "no": "DONE", "exhausted": "LATE"}),
        "LATE": done(failed = True),
        "DONE": done(),
    },
)
"#;

#[test]
fn people_have_the_time_that_passes_whether_baton_runs_or_not() {
    for answer in [&["run", "resume", "--json"][..], &["run", "submit", "--answer", "yes", "--json"]] {
        let repo = Repo::new();
        repo.workflow("asking", ASKING);
        let jump = Jump::new(&repo.world.home());
        repo.start("asking", &[], &[]).expect(4);
        jump.by(2 * 3600);
        let late = run(jump.inject(repo.world.command(answer))).expect(3);
        let decided = &late.of("gate.decided")[0];
        assert_eq!((&decided["outcome"], &decided["to"]), (&json!("exhausted"), &json!("LATE")), "{late:#?}");
    }
}

#[test]
fn whoever_is_asked_for_help_may_do_the_work() {
    let repo = Repo::new();
    let run =
        repo.start("hello", &[write_for("world"), call("greeter", "request_help", json!({"question": "how?"}))], &[]);
    run.expect(4);
    let done = repo.world.baton(&["run", "submit", "-p", "file=hello.txt", "--json"]).expect(0);
    assert_eq!(done.of("run.end")[0]["end"], "done", "{done:#?}");
}

#[test]
fn a_number_that_nobody_can_count_with_goes_back() {
    let repo = Repo::new();
    let counted = r#"workflow(
    name = "counted", params = {"n": number(default = 1)},
    roles = {"greeter": role(agent = "hello", write = ["hello.txt"], tools = CODING)},
    states = {
        "A": state("greeter", gate = evidence({"n": "number"}, verify = lambda c: c.evidence.n < 5), on = {"pass": "DONE"}),
        "DONE": done(),
    },
)
"#;
    repo.workflow("counted", counted);
    repo.start("counted", &[], &["-p", "n=1e400"]).expect_error(2, "too large", "");
    let huge: Value = serde_json::from_str(r#"{"n": 1e400}"#).unwrap();
    let run = repo.start("counted", &[submit("greeter", huge), submit("greeter", json!({"n": 2}))], &[]).expect(0);
    let outputs = run.outputs_of("greeter");
    assert!(outputs[0].contains("not handed in") && outputs[0].contains("too large"), "{outputs:?}");
}

#[test]
fn an_action_that_may_not_be_repeated_ends_before_baton_does() {
    let repo = Repo::new();
    let acting = r#"workflow(
    name = "acting",
    states = {
        "ACT": action(command(["sh", "-c", "echo once >> acted; until [ -e go ]; do sleep 0.01; done"]), on = {"pass": "THEN"}),
        "THEN": action(command(["sh", "-c", "echo then >> acted"]), on = {"pass": "DONE"}),
        "DONE": done(),
    },
)
"#;
    repo.workflow("acting", acting);
    let mut live = Live::start(repo.starting("acting", &[], &[]));
    let tree = std::path::PathBuf::from(live.until("run.start")["clone"].as_str().unwrap());
    while !tree.join("acted").exists() {
        std::thread::yield_now();
    }
    live.signal(Signal::INT);
    let notice = live.until("run.notice");
    assert!(notice["text"].as_str().unwrap().contains("may not be repeated"), "{notice}");
    std::fs::write(tree.join("go"), "").unwrap();
    assert_eq!(live.wait(), 130);
    assert_eq!(repo.status()["state"], "THEN", "it was done, and the next has not begun");
    repo.world.baton(&["run", "resume", "--json"]).expect(0);
    let branch = repo.git(&["for-each-ref", "--format=%(refname)", "refs/heads/baton"]);
    assert_eq!(repo.git(&["show", &format!("{branch}:acted")]), "once\nthen");
}

#[test]
fn branches_share_the_cap_of_the_run() {
    let repo = Repo::new();
    let both = r#"part = workflow(
    name = "part",
    params = {"file": string(required = True)},
    roles = {"left": role(agent = "hello", write = ["*.txt"], tools = CODING)},
    states = {"A": state("left", gate = evidence({"file": "path"}), on = {"pass": "D"}), "D": done()},
)
workflow(
    name = "both",
    tokens = 50000,
    states = {"SUB": parallel({"a": call(part, {"file": "a.txt"}), "b": call(part, {"file": "b.txt"})}, {"pass": "D"}), "D": done()},
)
"#;
    repo.workflow("both", both);
    let looking = || costing(10_000, call("left", "ls", json!({})));
    let mut script: Vec<Value> = std::iter::repeat_with(looking).take(6).collect();
    script.push(
        json!({"role": "left", "call": [{"tool": "submit_evidence", "input": {"file": "README.md"}}], "repeat": true}),
    );
    // Each of them has more left in its state than the run around it.
    repo.start("both", &script, &[]).expect(5);
    let used = repo.status()["tokens"].as_u64().unwrap();
    assert!((40_000..=60_000).contains(&used), "what was under way ends, and nobody begins again: {used}");
    assert_eq!(repo.status()["phase"], "parked");
    repo.world.baton(&["run", "resume", "--max-tokens", "500000", "--json"]).expect(0);
    assert_eq!(repo.status()["phase"], "done", "raised once, for all of them");
}
