//! The corpus of traces: agents that go in circles, and agents that repeat themselves for good reasons.

use serde::Deserialize;
use serde_json::json;

use super::*;

/// One trace a line.
const TRACES: &str = include_str!("traces.jsonl");

#[derive(Deserialize)]
struct Recorded {
    name: String,
    is_loop: bool,
    calls: Vec<Made>,
    /// How often all of it is done.
    #[serde(default)]
    times: Option<usize>,
}

/// `bash cargo test`: the tool and its telling field.
#[derive(Deserialize)]
struct Made {
    call: String,
    #[serde(default)]
    gives: String,
    #[serde(default)]
    fails: bool,
    #[serde(default)]
    changes: bool,
}

impl Made {
    fn tool_use(&self, number: usize) -> ToolUse {
        let (tool, text) = self.call.split_once(' ').unwrap_or((&self.call, ""));
        let field = match tool {
            "bash" => "command",
            "bash_background" => "id",
            "grep" => "pattern",
            _ => "path",
        };
        let id = CallId::new(number.to_string());
        ToolUse { id, tool: tool.to_owned(), input: json!({ field: text }), malformed: None }
    }

    fn access(&self) -> Access {
        match self.call.split_once(' ').map_or(self.call.as_str(), |(tool, _)| tool) {
            "bash" | "bash_background" => Access::Execute,
            "edit" | "write" | "apply_patch" => Access::Write,
            _ => Access::Read,
        }
    }

    fn outcome(&self) -> Outcome {
        let outcome = if self.fails { Outcome::error(&*self.gives) } else { Outcome::ok(&*self.gives) };
        if self.changes { outcome.with("changes", vec![json!({})]) } else { outcome }
    }
}

/// The number of the first call that is not just run, from 1.
fn noticed(trace: &Recorded) -> Option<usize> {
    let mut judged = Trace::default();
    let all = std::iter::repeat_n(&trace.calls, trace.times.unwrap_or(1)).flatten();
    all.enumerate().find_map(|(at, call)| {
        let tool_use = call.tool_use(at);
        let verdict = judged.judge(&tool_use);
        judged.ran(&tool_use, call.access(), &call.outcome());
        judged.step_ended();
        (verdict != Verdict::Run).then_some(at + 1)
    })
}

#[test]
fn circles_are_noticed_and_honest_work_is_left_alone() {
    let traces: Vec<Recorded> = TRACES.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (mut missed, mut disturbed) = (Vec::new(), Vec::new());
    for trace in &traces {
        match (trace.is_loop, noticed(trace)) {
            (true, None) => missed.push(trace.name.clone()),
            (false, Some(at)) => disturbed.push(format!("{} at call {at}", trace.name)),
            _ => {}
        }
    }
    let loops = traces.iter().filter(|trace| trace.is_loop).count();
    let honest = traces.len() - loops;
    println!("circles missed: {} of {loops} {missed:?}", missed.len());
    println!("honest work disturbed: {} of {honest} {disturbed:?}", disturbed.len());
    assert!(loops >= 60 && honest >= 60);
    assert!(missed.len() * 20 <= loops && disturbed.len() * 20 <= honest, "more than one in twenty");
}

fn call(id: &str, command: &str) -> ToolUse {
    ToolUse { id: CallId::new(id), tool: "bash".to_owned(), input: json!({ "command": command }), malformed: None }
}

#[test]
fn an_agent_that_does_not_listen_is_hopeless() {
    let mut trace = Trace::default();
    let again = call("1", "make");
    let verdicts: Vec<_> = (0..14)
        .map(|_| {
            let verdict = trace.judge(&again);
            if verdict == Verdict::Run {
                trace.ran(&again, Access::Execute, &Outcome::error("no"));
            }
            trace.step_ended();
            verdict
        })
        .collect();
    assert_eq!(verdicts[..2], [Verdict::Run, Verdict::Run]);
    assert!(verdicts[2..12].iter().all(|verdict| matches!(verdict, Verdict::Repeats(_))), "{verdicts:?}");
    assert!(matches!(verdicts[12], Verdict::Hopeless(_)), "{verdicts:?}");
    trace.person_spoke();
    assert_eq!(trace.judge(&again), Verdict::Run);
}

#[test]
fn calls_of_one_answer_are_told_about_once() {
    let mut trace = Trace::default();
    for _ in 0..30 {
        assert!(!matches!(trace.judge(&call("1", "make")), Verdict::Hopeless(_)));
    }
}

#[test]
fn what_the_person_allows_passes() {
    let mut trace = Trace::default();
    trace.allow(&call("0", "make"));
    for _ in 0..30 {
        assert_eq!(trace.judge(&call("1", "make")), Verdict::Run);
    }
}

#[test]
fn the_order_of_fields_does_not_matter() {
    let with = |input| ToolUse { input, ..call("1", "") };
    assert_eq!(key(&with(json!({"a": 1, "b": {"c": 2, "d": 3}}))), key(&with(json!({"b": {"d": 3, "c": 2}, "a": 1}))));
    assert_ne!(key(&with(json!({"a": 1}))), key(&with(json!({"a": 2}))));
}

#[test]
fn times_are_no_difference() {
    let same = |one: &str, other: &str| result(&Outcome::ok(one)) == result(&Outcome::ok(other));
    assert!(same("ok in 0.03s", "ok in 1.2s"));
    assert!(same("took 12 ms (at 10:00:01)", "took 7 ms (at 10:00:09)"));
    assert!(same("2026-11-16T10:00:00Z up", "2026-11-17T11:30:00Z up"));
    assert!(!same("step 3 of 10", "step 4 of 10"));
    assert!(!same("3 failed", "2 failed"));
}
