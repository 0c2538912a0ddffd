//! States that are made of other runs: `parallel`, `each` and `call`.

use std::collections::BTreeMap;

use baton_core::Usd;
use baton_workflow::{Caps, EffectBody, EffectId, End, EventBody, Evidence, FieldName, Params, Rejected};
use serde_json::json;

use crate::support::{Play, define, state};

fn branches(join: &str) -> String {
    format!(
        "part = workflow(name = \"part\", params = {{\"n\": number(default = 0), \"t\": string()}}, states = {{\"D\": done()}})\n\
         workflow(name = \"w\", params = {{\"p\": string(default = \"v\")}}, states = {{\"A\": parallel({{\"a\": part, \"b\": call(part, {{\"n\": 2, \"t\": \"{{p}}!\"}}), \
         \"c\": \"part\"}}, {{\"pass\": \"D\"}}, join = {join}, retries = 1), \"D\": done()}})\n"
    )
}

fn child(play: &Play, number: usize) -> EffectId {
    let starts = play.effects.iter().filter(|effect| matches!(effect.body, EffectBody::StartChild { .. }));
    starts.map(|effect| effect.id.clone()).nth(number).unwrap()
}

fn end_child(play: &mut Play, number: usize, end: End) {
    let effect = child(play, number);
    let evidence: Evidence = [(FieldName::parse("x").unwrap(), json!(number))].into_iter().collect();
    play.send(EventBody::ChildEnded { effect, end, evidence: BTreeMap::from([(state("S"), evidence)]) });
}

fn well() -> End {
    End::Done { state: state("D") }
}

fn badly() -> End {
    End::Failed { state: state("F") }
}

#[test]
fn branches_are_joined() {
    let mut play = Play::start(&branches("\"all\""), &[]);
    assert_eq!(play.kinds(), ["start_child", "start_child", "start_child", "set_timer"]);
    let EffectBody::StartChild { run, params, workflow, .. } = &play.last[1].body else { panic!() };
    assert_eq!((run.as_str(), workflow.as_str()), ("r1.A.2", "part"));
    assert_eq!(*params, BTreeMap::from([("n".to_owned(), json!(2)), ("t".to_owned(), json!("v!"))]));
    end_child(&mut play, 1, well());
    assert_eq!(play.kinds(), Vec::<String>::new());
    let again = child(&play, 1);
    let event = EventBody::ChildEnded { effect: again.clone(), end: well(), evidence: BTreeMap::new() };
    assert_eq!(play.try_send(event), Err(Rejected::Stale(again)));
    end_child(&mut play, 0, badly());
    // The one that did not end well is run again, and the one that was cut off; the one that is done is not.
    assert_eq!(
        (play.state().as_str(), play.kinds()),
        ("A", ["stop_child", "start_child", "start_child", "set_timer"].map(String::from).to_vec())
    );
    assert_eq!(play.because(), "a: it ended in `F`");
    end_child(&mut play, 3, well());
    end_child(&mut play, 4, well());
    assert_eq!(play.state(), "done in D");
    let evidence = serde_json::to_value(&play.run.evidence).unwrap();
    assert_eq!(evidence["A"], json!({"a": {"S": {"x": 3}}, "b": {"S": {"x": 1}}, "c": {"S": {"x": 4}}}));

    let mut play = Play::start(&branches("\"any\""), &[]);
    end_child(&mut play, 2, badly());
    end_child(&mut play, 0, well());
    assert_eq!(
        (play.state().as_str(), play.kinds()),
        ("done in D", vec!["stop_child".to_owned(), "finish".to_owned()])
    );

    let mut play = Play::start(&branches("quorum(2)"), &[]);
    end_child(&mut play, 2, badly());
    end_child(&mut play, 0, well());
    assert_eq!(play.state(), "A");
    end_child(&mut play, 1, well());
    assert_eq!(play.state(), "done in D");

    let mut play = Play::start(&branches("quorum(2)"), &[]);
    end_child(&mut play, 2, badly());
    end_child(&mut play, 0, badly());
    assert_eq!(play.run.attempts[&state("A")], 2);
}

#[test]
fn a_branch_that_needs_a_person_is_not_tried_again() {
    for end in
        [End::Escalated { state: state("X"), reason: "why".to_owned() }, End::Stopped { reason: "no".to_owned() }]
    {
        let mut play = Play::start(&branches("\"all\""), &[]);
        end_child(&mut play, 0, end);
        assert!(play.state().starts_with("escalated from A: a: "), "{}", play.state());
    }
    let mut play = Play::start(&branches("\"all\""), &[]);
    play.time_out();
    assert_eq!(play.because(), "the runs inside did not end in time");
    let effect = child(&play, 3);
    play.send(EventBody::AttemptFailed { effect, reason: "it could not be started".to_owned() });
    assert_eq!(play.state(), "escalated from A: `A` was tried 2 times; at last: it could not be started");
}

fn over(list: &str, extra: &str) -> String {
    format!(
        "part = workflow(name = \"part\", params = {{\"it\": string(required = True)}}, states = {{\"D\": done()}})\n\
         workflow(name = \"w\", params = {{\"items\": list(default = {list})}}, tokens = 100, states = {{\"A\": each(\"items\", part, \"it\", \
         {{\"pass\": \"D\"}}, retries = 1{extra}), \"D\": done()}})\n"
    )
}

fn started(play: &Play) -> Vec<String> {
    let item = |body: &EffectBody| match body {
        EffectBody::StartChild { params, .. } => Some(params["it"].as_str().unwrap().to_owned()),
        _ => None,
    };
    play.last.iter().filter_map(|effect| item(&effect.body)).collect()
}

#[test]
fn items_are_run_one_after_the_other() {
    let mut play = Play::start(&over("[\"x\", \"y\", \"z\"]", ""), &[]);
    assert_eq!(started(&play), ["x"]);
    end_child(&mut play, 0, well());
    assert_eq!(started(&play), ["y"]);
    end_child(&mut play, 1, badly());
    assert_eq!(started(&play), ["y"], "a retry goes on with what is left");
    end_child(&mut play, 2, well());
    assert_eq!(started(&play), ["z"]);
    end_child(&mut play, 3, well());
    assert_eq!(play.state(), "done in D");

    let mut play = Play::start(&over("[\"x\", \"y\", \"z\"]", ", at_once = 2"), &[]);
    assert_eq!(started(&play), ["x", "y"]);
    end_child(&mut play, 1, well());
    assert_eq!(started(&play), ["z"]);

    let play = Play::start(&over("[]", ""), &[]);
    assert_eq!(play.state(), "done in D");
    let play = Play::start(&over("[\"x\"]", ", max = 1"), &[]);
    assert_eq!(started(&play), ["x"], "as many as may be");
    let play = Play::start(&over("[\"x\", \"y\"]", ", max = 1"), &[]);
    assert_eq!(play.state(), "escalated from A: the list has 2 items, at most 1 are taken");
}

#[test]
fn only_a_retry_keeps_what_was_done() {
    let part =
        "part = workflow(name = \"part\", params = {\"it\": string(required = True)}, states = {\"D\": done()})\n";
    let text = |on: &str| {
        format!(
            "{part}workflow(name = \"w\", params = {{\"items\": list(default = [\"x\", \"y\"])}}, tokens = 100, states = {{\n\
             \"A\": each(\"items\", part, \"it\", {on}, retries = 1),\n\
             \"B\": each(\"items\", part, \"it\", {{\"pass\": \"D\"}}, retries = 1), \"D\": done()}})\n"
        )
    };
    let mut play = Play::start(&text("{\"pass\": \"D\", \"fail\": \"B\"}"), &[]);
    end_child(&mut play, 0, well());
    end_child(&mut play, 1, badly());
    assert_eq!(
        (play.state().as_str(), started(&play)),
        ("B", vec!["x".to_owned()]),
        "another state begins at the beginning"
    );
    let mut play = Play::start(&text("{\"pass\": \"A\", \"fail\": \"B\", \"exhausted\": \"B\"}"), &[]);
    end_child(&mut play, 0, well());
    end_child(&mut play, 1, well());
    assert_eq!((play.state().as_str(), started(&play)), ("A", vec!["x".to_owned()]), "so does another round");
}

#[test]
fn between_items_a_cap_parks_the_run() {
    let mut play = Play::start(&over("[\"x\", \"y\"]", ""), &[]);
    let effect = child(&play, 0);
    let EffectBody::StartChild { caps, .. } = &play.last[0].body else { panic!() };
    assert_eq!(caps.tokens, Some(100), "what is left is what the run inside may use");
    play.send(EventBody::Spent { effect, tokens: 100, usd: Usd::ZERO });
    assert_eq!(play.state(), "A", "a run inside parks by itself");
    end_child(&mut play, 0, well());
    assert_eq!((play.state().as_str(), play.kinds()), ("A (parked)", vec!["park".to_owned()]));
    play.send(EventBody::CapRaised { tokens: Some(150), usd: None });
    assert_eq!(started(&play), ["y"]);
    let EffectBody::StartChild { caps, .. } = &play.last[0].body else { panic!() };
    assert_eq!(caps.tokens, Some(50));
    end_child(&mut play, 1, well());
    assert_eq!(play.state(), "done in D");

    // What is under way ends first.
    let mut play = Play::start(&over("[\"x\", \"y\"]", ", at_once = 2"), &[]);
    let effect = child(&play, 0);
    play.send(EventBody::Spent { effect, tokens: 100, usd: Usd::ZERO });
    end_child(&mut play, 0, well());
    assert_eq!(play.state(), "A");
    end_child(&mut play, 1, well());
    assert_eq!(play.state(), "done in D");

    let caps = Caps { tokens: Some(0), usd: None };
    let mut play = Play::ready(define(&over("[\"x\"]", "")));
    play.send(EventBody::Started { params: Params::default(), players: BTreeMap::new(), caps });
    assert_eq!((play.state().as_str(), play.kinds()), ("A (parked)", vec!["park".to_owned()]));
    play.send(EventBody::CapRaised { tokens: Some(1), usd: None });
    assert_eq!(started(&play), ["x"]);
}

#[test]
fn each_goes_over_evidence_and_a_call_runs_once() {
    let text = "part = workflow(name = \"part\", params = {\"it\": string(required = True)}, states = {\"D\": done()})\n\
                workflow(name = \"w\", roles = {\"r\": role(agent = \"a\", tools = READING)}, states = {\n\
                \"PLAN\": state(\"r\", evidence({\"tasks\": \"list\"}), {\"pass\": \"EACH\"}),\n\
                \"EACH\": each(\"PLAN.tasks\", part, \"it\", {\"pass\": \"CALL\"}),\n\
                \"CALL\": call(part, {\"it\": \"{PLAN.tasks}\"}, {\"pass\": \"D\", \"fail\": \"F\"}), \"D\": done(), \"F\": done(failed = True)})\n";
    let mut play = Play::start(text, &[]);
    play.submit(json!({"tasks": ["one", {"n": 2}]}), &[]);
    assert_eq!(started(&play), ["one"]);
    end_child(&mut play, 0, well());
    assert_eq!(started(&play), ["{\"n\":2}"]);
    end_child(&mut play, 1, well());
    assert_eq!(play.state(), "CALL");
    let EffectBody::StartChild { params, .. } = &play.last[0].body else { panic!() };
    assert_eq!(params["it"], json!(["one", {"n": 2}]), "a reference alone keeps its type");
    end_child(&mut play, 2, badly());
    assert_eq!(play.state(), "failed in F");
}

#[test]
fn stop_ends_the_runs_inside() {
    let mut play = Play::start(&branches("\"all\""), &[]);
    play.send(EventBody::Stopped { reason: "enough".to_owned() });
    assert_eq!(play.kinds(), ["stop_child", "stop_child", "stop_child", "finish"]);
}
