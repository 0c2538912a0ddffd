//! Runs from start to end: every kind of event in every kind of state.

use std::collections::BTreeMap;

use baton_core::Usd;
use baton_workflow::{
    Act, Caps, EffectBody, EffectId, End, EventBody, Params, Rejected, Run, RunId, StateName, TreeHash,
};
use serde_json::json;

use crate::shipped::load;
use crate::support::{Play, at, define, name, state};

/// One agent state `A` with these fields, an end and a state for when it is used up.
fn one(extra: &str) -> String {
    format!(
        "workflow(name = \"w\", roles = {{\"r\": role(agent = \"a\", write = [\"src/**\"], tools = CODING)}}, states = {{\n\
         \"A\": state(\"r\", evidence({{\"x\": \"text\"}}), {{\"pass\": \"D\", \"exhausted\": \"F\"}}, {extra}), \"D\": done(), \"F\": done(failed = True)}})\n"
    )
}

fn ok() -> serde_json::Value {
    json!({"x": "y"})
}

fn dispatches(play: &Play) -> usize {
    play.effects.iter().filter(|effect| matches!(effect.body, EffectBody::Dispatch(_))).count()
}

#[test]
fn ping_pong_from_red_to_the_commit() {
    let mut play = Play::start_in(load("tdd-ping-pong"), &[("scenario", "adds"), ("scenario", "subtracts")]);
    assert_eq!(play.state(), "SCENARIOS");
    let effects = serde_json::to_string_pretty(&play.last).unwrap();
    insta::assert_snapshot!("the_first_scenario", effects);

    // The run inside, as a conductor would start it.
    let definition = play.definition.clone();
    let mut inner = Play::ready(definition.clone());
    inner.run = Run::new(RunId::new("r1.SCENARIOS.1"), &definition, &name("tdd-cycle"), at(0)).unwrap();
    let (params, players) = match &play.last[0].body {
        EffectBody::StartChild { params, players, .. } => (params.clone(), players.clone()),
        other => panic!("{other:?}"),
    };
    let params = Params::given(&definition.workflow(&name("tdd-cycle")).unwrap().params, &params).unwrap();
    inner.send(EventBody::Started { params, players, caps: Caps::default() });
    assert_eq!(inner.state(), "RED");

    // Tests that pass are no RED; neither is a test that is not there.
    inner.submit(json!({"test_file": "tests/b.rs", "failure": "f"}), &["tests/a.rs"]);
    assert_eq!(inner.because(), "tests/b.rs was not changed here: write the test there");
    inner.submit(json!({"test_file": "tests/a.rs", "failure": "f"}), &["tests/a.rs"]);
    inner.verify(0, "");
    assert_eq!((inner.state().as_str(), dispatches(&inner)), ("RED", 3));
    // RED cannot write code.
    inner.submit(json!({"test_file": "tests/a.rs", "failure": "f"}), &["tests/a.rs", "src/lib.rs"]);
    assert_eq!(
        inner.because(),
        "files were changed that may not be: `src/lib.rs` is not among the files of role `ping`"
    );
    inner.submit(json!({"test_file": "tests/a.rs", "failure": "f"}), &["tests/a.rs"]);
    inner.verify(101, "1 failed");
    assert_eq!(inner.state(), "REVIEW_TEST");
    assert_eq!(inner.run.frozen.iter().next().unwrap().0, &state("RED"));

    // A review that says nothing is none; a flag leads back, with what was found.
    assert!(matches!(inner.try_submit(json!({"verdict": "approved"}), &[]), Err(Rejected::Malformed(_))));
    assert!(matches!(
        inner.try_submit(json!({"verdict": "pass", "summary": "s", "findings": []}), &[]),
        Err(Rejected::Malformed(_))
    ));
    inner.submit(json!({"verdict": "flagged", "summary": "s", "findings": []}), &[]);
    assert_eq!(inner.because(), "a flag needs at least one finding");
    inner.submit(json!({"verdict": "flagged", "summary": "s", "findings": ["tests too much"]}), &[]);
    assert_eq!(inner.state(), "RED");
    let because = inner.run.visit().unwrap().because.clone().unwrap();
    assert_eq!(serde_json::to_value(because.evidence).unwrap()["findings"], json!(["tests too much"]));
    assert_eq!(inner.run.frozen.iter().count(), 0, "entering RED again ends its freeze");
    inner.submit(json!({"test_file": "tests/a.rs", "failure": "f"}), &[]);
    inner.verify(101, "1 failed");
    inner.submit(json!({"verdict": "approved", "summary": "s", "findings": []}), &[]);
    assert_eq!(inner.state(), "GREEN");

    // GREEN claims too early, then touches the frozen test, then does its work.
    inner.submit(json!({"files": ["src/lib.rs"], "summary": "s"}), &["src/lib.rs"]);
    inner.verify(101, "1 failed");
    assert_eq!(inner.because(), "`cargo test` ended with exit code 101:\n1 failed");
    inner.submit(json!({"files": ["src/lib.rs"], "summary": "s"}), &["src/lib.rs", "tests/a.rs"]);
    assert_eq!(inner.because(), "files were changed that may not be: `tests/a.rs` is frozen by `RED`");
    inner.submit(json!({"files": ["src/lib.rs"], "summary": "s"}), &["src/lib.rs"]);
    inner.verify(0, "ok");
    inner.submit(json!({"verdict": "approved", "summary": "s", "findings": []}), &[]);
    let commit = inner.owed(|body| matches!(body, EffectBody::Act { .. }));
    assert_eq!(commit.as_str(), "r1.SCENARIOS.1/COMMIT/47");
    assert!(
        inner
            .last
            .iter()
            .any(|effect| effect.body == EffectBody::Act { action: Act::Commit { message: "TDD: adds".to_owned() } })
    );
    inner.send(EventBody::ActionDone { effect: commit, receipt: "abc123".to_owned() });
    assert_eq!(inner.state(), "done in DONE");

    // The second scenario: the same conversations in the other's role.
    let effect = play.last[0].id.clone();
    let end = inner.run.end().unwrap().clone();
    play.send(EventBody::ChildEnded { effect, end: end.clone(), evidence: inner.run.evidence.clone() });
    let effects = serde_json::to_string_pretty(&play.last).unwrap();
    insta::assert_snapshot!("the_second_scenario", effects);
    let effect = play.last[0].id.clone();
    play.send(EventBody::ChildEnded { effect, end, evidence: BTreeMap::new() });
    assert_eq!(play.state(), "done in DONE");
    let evidence = serde_json::to_value(&play.run.evidence).unwrap();
    assert_eq!(evidence["SCENARIOS"]["item-1"]["RED"]["test_file"], "tests/a.rs");
}

#[test]
fn a_state_can_be_tried_one_and_retries_times() {
    for retries in [0, 1, 3] {
        let mut play = Play::start(&one(&format!("retries = {retries}")), &[]);
        for _ in 0..retries {
            let effect = play.dispatch();
            play.send(EventBody::AttemptFailed { effect, reason: "the provider gave up".to_owned() });
            assert_eq!(play.state(), "A");
            assert_eq!(play.because(), "the provider gave up");
            assert_eq!(play.kinds(), ["release", "dispatch", "set_timer"]);
        }
        let effect = play.dispatch();
        play.send(EventBody::AttemptFailed { effect, reason: "again".to_owned() });
        assert_eq!(play.state(), "failed in F");
        assert_eq!(dispatches(&play), retries + 1);
        assert_eq!(play.kinds(), ["release", "finish"]);
    }
}

#[test]
fn without_a_way_out_a_person_is_called() {
    let mut play = Play::start(
        &one("retries = 1").replace(", \"exhausted\": \"F\"", "").replace(", \"F\": done(failed = True)", ""),
        &[],
    );
    play.time_out();
    play.time_out();
    assert_eq!(
        play.state(),
        "escalated from A: `A` was tried 2 times; at last: the time for this attempt ran out before there was evidence"
    );
}

#[test]
fn time_only_goes_forward() {
    let mut play = Play::start(&one("timeout = \"10m\""), &[]);
    let timer = play.run.visit().unwrap().timer.clone();
    play.seconds = 599;
    assert_eq!(play.try_send(EventBody::TimedOut { effect: timer.clone() }), Err(Rejected::Early(timer.clone())));
    // The clock jumps back: the run's own time stays.
    play.seconds = 500;
    play.spend(1, 0.0);
    play.seconds = -10_000;
    play.spend(1, 0.0);
    assert_eq!(play.run.now, at(500));
    play.seconds = 600;
    play.send(EventBody::TimedOut { effect: timer.clone() });
    assert_eq!(play.run.attempts[&state("A")], 2);
    assert_eq!(play.run.visit().unwrap().deadline, at(1200));
    assert_eq!(play.try_send(EventBody::TimedOut { effect: timer.clone() }), Err(Rejected::Stale(timer)));
}

#[test]
fn an_agent_that_ends_without_evidence_is_told_once() {
    let mut play = Play::start(&one("retries = 1"), &[]);
    let effect = play.dispatch();
    play.send(EventBody::AgentEnded { effect: effect.clone() });
    assert_eq!(play.kinds(), ["remind"]);
    let EffectBody::Remind { missing, dispatch } = &play.last[0].body else { panic!() };
    assert_eq!(missing, "your turn ended, but no evidence was submitted: `x` (words; a blank text is refused)");
    assert_eq!(*dispatch, effect);
    play.send(EventBody::AgentEnded { effect });
    assert_eq!(play.because(), "the agent ended its turn twice without evidence");
    // The next attempt is told once again.
    let effect = play.dispatch();
    play.send(EventBody::AgentEnded { effect });
    assert_eq!(play.kinds(), ["remind"]);
    play.submit(ok(), &[]);
    assert_eq!(play.state(), "done in D");
}

#[test]
fn a_state_is_given_the_evidence_that_it_names() {
    let text = "workflow(name = \"w\", roles = {\"r\": role(\"a\", [], READING)}, states = {\n\
                \"A\": state(\"r\", evidence({\"x\": \"text\"}), {\"pass\": \"B\"}),\n\
                \"B\": state(\"r\", evidence({\"x\": \"text\"}, verify = lambda c: c.inputs[\"A\"].x == \"y\"), {\"pass\": \"D\"}, inputs = [\"A\"]), \"D\": done()})\n";
    let mut play = Play::start(text, &[]);
    play.submit(ok(), &[]);
    let EffectBody::Dispatch(dispatch) = &play.last[1].body else { panic!("{:?}", play.last) };
    assert_eq!(serde_json::to_value(&dispatch.inputs).unwrap(), json!({"A": ok()}));
    play.submit(json!({"x": "z"}), &[]);
    assert_eq!(play.state(), "done in D", "its gate sees them, too");
}

#[test]
fn help_goes_to_a_person_and_the_attempt_goes_on() {
    let mut play = Play::start(&one("retries = 0"), &[]);
    let effect = play.dispatch();
    play.send(EventBody::HelpRequested { effect: effect.clone(), question: "which?".to_owned() });
    assert_eq!(play.kinds(), ["ask", "set_timer"]);
    assert!(matches!(play.try_submit(ok(), &[]), Err(Rejected::Stale(_))), "the agent waits");
    let asked = play.run.visit().unwrap().clone();
    play.seconds += 60;
    play.answer("the first");
    assert_eq!(play.kinds(), ["dispatch", "set_timer"]);
    assert_ne!(play.dispatch(), effect);
    // Another wait, another timer, from now on.
    let visit = play.run.visit().unwrap().clone();
    assert_eq!(EffectBody::SetTimer { deadline: visit.deadline }, play.last[1].body);
    assert_eq!((&visit.timer, visit.since), (&play.last[1].id, asked.since));
    assert!(visit.timer != asked.timer && visit.deadline > asked.deadline);
    let EffectBody::Dispatch(dispatch) = &play.last[0].body else { panic!() };
    assert_eq!(
        (dispatch.attempt, dispatch.because.as_ref().unwrap().reason.as_deref()),
        (1, Some("a person answers: the first"))
    );
    let effect = play.dispatch();
    play.send(EventBody::HelpRequested { effect, question: "and now?".to_owned() });
    play.time_out();
    assert_eq!(play.state(), "failed in F", "nobody answers");
}

#[test]
fn tokens_and_money_of_a_state_run_out() {
    let mut play = Play::start(&one("tokens = 1000, usd = 0.5"), &[]);
    play.spend(999, 0.4);
    assert_eq!(play.state(), "A");
    play.spend(1, 0.0);
    assert_eq!(play.state(), "failed in F");
    let effect = play.dispatch();
    play.send(EventBody::Spent { effect, tokens: 5, usd: Usd::ZERO });
    assert_eq!(play.run.total().tokens, 1005, "what comes late counts, too");

    let mut play = Play::start(&one("tokens = 1000, usd = 0.5"), &[]);
    play.spend(1, 0.5);
    assert_eq!(play.state(), "failed in F");

    // Over all attempts together, and told to the agent.
    let mut play = Play::start(&one("tokens = 1000, usd = 0.5"), &[]);
    play.spend(400, 0.1);
    play.time_out();
    let EffectBody::Dispatch(dispatch) = &play.last[1].body else { panic!() };
    assert_eq!((dispatch.tokens_left, dispatch.usd_left), (600, Usd::from_dollars(0.4)));

    // What was submitted before is still judged; only another attempt is not begun.
    let mut play = Play::start(&one("tokens = 10").replace("\"text\"})", "\"text\"}, lambda c: c.run(\"t\").ok)"), &[]);
    play.submit(ok(), &[]);
    play.spend(10, 0.0);
    assert_eq!(play.state(), "A");
    play.verify(1, "");
    assert_eq!(play.state(), "failed in F");
    let unknown = EffectId::new("r1/NOWHERE/1");
    let spent = EventBody::Spent { effect: unknown.clone(), tokens: 1, usd: Usd::ZERO };
    assert_eq!(play.try_send(spent), Err(Rejected::Stale(unknown)));
}

#[test]
fn at_the_cap_of_a_run_it_parks_and_goes_on_without_paying_again() {
    for (cap, tokens, dollars) in [("tokens = 100", 100, 0.0), ("usd = 1", 1, 1.0)] {
        let text = one("retries = 0").replace("states =", &format!("{cap}, states ="));
        let mut play = Play::start(&text, &[]);
        play.spend(tokens, dollars);
        assert_eq!(
            (play.state().as_str(), play.kinds()),
            ("A (parked)", vec!["release".to_owned(), "park".to_owned()])
        );
        assert!(matches!(play.try_submit(ok(), &[]), Err(Rejected::Phase(_))));
        let low = EventBody::CapRaised { tokens: Some(1), usd: Some(Usd::ZERO) };
        assert!(matches!(play.try_send(low), Err(Rejected::Malformed(_))), "the new cap is reached already");
        play.send(EventBody::CapRaised { tokens: Some(500), usd: Usd::from_dollars(5.0) });
        assert_eq!((play.state().as_str(), play.kinds()), ("A", vec!["dispatch".to_owned(), "set_timer".to_owned()]));
        let EffectBody::Dispatch(dispatch) = &play.last[0].body else { panic!() };
        assert_eq!((dispatch.attempt, dispatch.tokens_left), (1, 500 - tokens));
        play.submit(ok(), &[]);
        assert_eq!(play.state(), "done in D");
        let late = EventBody::CapRaised { tokens: None, usd: None };
        assert!(matches!(play.try_send(late), Err(Rejected::Phase(_))));
    }
}

#[test]
fn no_agent_is_started_at_the_cap() {
    let text = "workflow(name = \"w\", tokens = 10, roles = {\"r\": role(agent = \"a\", tools = READING)}, states = {\n\
                \"A\": state(\"r\", evidence({\"x\": \"text\"}, lambda c: c.run(\"t\").ok), {\"pass\": \"B\"}),\n\
                \"B\": state(\"r\", evidence({\"x\": \"text\"}), {\"pass\": \"D\"}), \"D\": done()})\n";
    let mut play = Play::start(text, &[]);
    play.submit(ok(), &[]);
    play.spend(10, 0.0);
    assert_eq!(play.state(), "A", "verification costs nothing");
    play.verify(0, "");
    assert_eq!((play.state().as_str(), play.kinds()), ("B (parked)", vec!["release".to_owned(), "park".to_owned()]));
    play.send(EventBody::CapRaised { tokens: Some(20), usd: None });
    assert_eq!(play.run.attempts[&state("B")], 1);
    play.submit(ok(), &[]);
    assert_eq!(play.state(), "done in D");
}

#[test]
fn stop_ends_a_run_wherever_it_is() {
    let stop = || EventBody::Stopped { reason: "enough".to_owned() };
    let mut play = Play::start(&one(""), &[]);
    play.send(stop());
    assert_eq!(
        (play.state().as_str(), play.kinds()),
        ("stopped: enough", vec!["release".to_owned(), "finish".to_owned()])
    );
    assert_eq!(play.try_send(stop()), Err(Rejected::Phase("at its end")));

    let mut play = Play::ready(define(&one("")));
    play.send(stop());
    assert_eq!((play.state().as_str(), play.kinds()), ("stopped: enough", vec!["finish".to_owned()]));
}

#[test]
fn actions_are_done_fail_or_are_in_doubt() {
    let text = |idempotent: &str, retries: u32| {
        format!(
            "workflow(name = \"w\", params = {{\"p\": string(default = \"a b\")}}, states = {{\"A\": action(command([\"deploy\", \"to {{p}}\", \
             \"{{{{x}}}}\"], idempotent = {idempotent}), {{\"pass\": \"D\"}}, retries = {retries}), \"D\": done()}})\n"
        )
    };
    let effect = |play: &Play| play.owed(|body| matches!(body, EffectBody::Act { .. }));
    let mut play = Play::start(&text("False", 1), &[]);
    let EffectBody::Act { action: Act::Command { argv, idempotent } } = &play.last[0].body else { panic!() };
    assert_eq!(
        (argv.words(), idempotent),
        (["deploy".to_owned(), "to a b".to_owned(), "{x}".to_owned()].as_slice(), &false)
    );
    let id = effect(&play);
    play.send(EventBody::ActionFailed { effect: id.clone(), reason: "no route".to_owned() });
    assert_eq!((play.state().as_str(), play.because().as_str()), ("A", "no route"));
    assert_eq!(
        play.try_send(EventBody::ActionDone { effect: id.clone(), receipt: String::new() }),
        Err(Rejected::Stale(id))
    );
    let id = effect(&play);
    play.send(EventBody::ActionInDoubt { effect: id });
    assert_eq!(play.state(), "escalated from A: after an interruption nobody knows whether the action was done");

    let mut play = Play::start(&text("True", 1), &[]);
    let id = effect(&play);
    play.send(EventBody::ActionInDoubt { effect: id });
    assert_eq!(play.state(), "A", "what may be repeated is");
    play.time_out();
    assert!(play.state().starts_with("escalated from A: `A` was tried 2 times"), "{}", play.state());

    let mut play = Play::start(&text("False", 1), &[]);
    play.time_out();
    assert_eq!(play.state(), "escalated from A: an action did not end in time, and nobody knows whether it was done");

    let mut play = Play::start(&text("False", 1), &[("p", "zero\0byte")]);
    assert_eq!(play.state(), "escalated from A: the command cannot be run: an argument contains a zero byte");
    assert_eq!(play.kinds(), ["finish"]);
    assert!(play.try_send(EventBody::TimedOut { effect: EffectId::new("r1/A/1") }).is_err());
}

#[test]
fn a_person_decides() {
    let text = "workflow(name = \"w\", params = {\"p\": string(default = \"it\")}, states = {\"A\": human(\"Ship {p}?\", [\"yes\", \"no\"], \
                {\"yes\": \"D\", \"no\": \"B\"}), \"B\": human(\"Sure?\", [\"yes\"], {\"yes\": \"A\"}, retries = None), \"D\": done()})\n";
    let mut play = Play::start(text, &[]);
    let EffectBody::Ask { question, options } = &play.last[0].body else { panic!() };
    assert_eq!((question.as_str(), options.len()), ("Ship it?", 2));
    let effect = play.last[0].id.clone();
    let wrong = EventBody::PersonAnswered { effect: effect.clone(), answer: "yess".to_owned(), comment: String::new() };
    assert_eq!(
        play.try_send(wrong),
        Err(Rejected::Malformed(vec!["`yess` is not an answer: did you mean `yes`?".to_owned()]))
    );
    let stale = EffectId::new("r1/A/99");
    let other = EventBody::PersonAnswered { effect: stale.clone(), answer: "yes".to_owned(), comment: String::new() };
    assert_eq!(play.try_send(other), Err(Rejected::Stale(stale)));
    for _ in 0..3 {
        play.answer("no");
        play.answer("yes");
    }
    play.answer("no");
    play.answer("yes");
    assert_eq!(play.state(), "escalated from A: `A` was tried 4 times");
    let mut play = Play::start(text, &[]);
    play.time_out();
    assert_eq!(play.state(), "escalated from A: nobody answered in time");
    let mut play = Play::start(text, &[]);
    play.answer("yes");
    assert_eq!(play.state(), "done in D");
}

#[test]
fn a_person_agrees_to_the_work_of_an_agent() {
    let text = one("freeze = [\"src/**\"]")
        .replace("evidence({\"x\": \"text\"})", "human(\"Good?\", [\"good\", \"bad\"])")
        .replace("\"pass\": \"D\"", "\"good\": \"D\", \"bad\": \"A\"");
    let mut play = Play::start(&text, &[]);
    play.submit(json!({}), &["src/a"]);
    assert_eq!(play.kinds(), ["ask", "set_timer"]);
    let effect = play.owed(|body| matches!(body, EffectBody::Ask { .. }));
    play.send(EventBody::PersonAnswered { effect, answer: "bad".to_owned(), comment: "too long".to_owned() });
    assert_eq!((play.state().as_str(), play.because().as_str()), ("A", "too long"));
    assert_eq!(play.run.frozen.iter().count(), 0);
    play.submit(json!({}), &["src/a"]);
    play.answer("good");
    assert_eq!(play.state(), "done in D");
    let (frozen_by, freeze) = play.run.frozen.iter().next().unwrap();
    assert_eq!((frozen_by, &freeze.tree), (&state("A"), &TreeHash::new("tree")));
    let mut play = Play::start(&text, &[]);
    play.submit(json!({}), &[]);
    play.time_out();
    assert_eq!(play.state(), "failed in F");
}

#[test]
fn fresh_agents_are_new_for_every_attempt() {
    let player = |play: &Play| {
        play.last.iter().find_map(|effect| match &effect.body {
            EffectBody::Dispatch(dispatch) => Some(dispatch.player.to_string()),
            _ => None,
        })
    };
    let mut play = Play::start(&one("fresh = True"), &[]);
    let first = player(&play).unwrap();
    play.time_out();
    assert_ne!(player(&play).unwrap(), first);
    let mut play = Play::start(&one(""), &[]);
    assert_eq!(player(&play).unwrap(), "r1/r");
    play.time_out();
    assert_eq!(player(&play).unwrap(), "r1/r");
}

#[test]
fn what_does_not_fit_is_rejected() {
    let mut play = Play::ready(define(&one("")));
    let effect = EffectId::new("r1/A/1");
    assert_eq!(play.try_send(EventBody::AgentEnded { effect: effect.clone() }), Err(Rejected::Phase("not started")));
    play.send(EventBody::Started { params: Params::default(), players: BTreeMap::new(), caps: Caps::default() });
    let again = EventBody::Started { params: Params::default(), players: BTreeMap::new(), caps: Caps::default() };
    assert_eq!(play.try_send(again), Err(Rejected::Phase("started already")));
    let stale = EffectId::new("r1/A/99");
    let question = "?".to_owned();
    for body in [
        EventBody::AgentEnded { effect: stale.clone() },
        EventBody::HelpRequested { effect: stale.clone(), question },
        EventBody::AttemptFailed { effect: stale.clone(), reason: String::new() },
        EventBody::ActionDone { effect: stale.clone(), receipt: String::new() },
        EventBody::ActionFailed { effect: stale.clone(), reason: String::new() },
        EventBody::ActionInDoubt { effect: stale.clone() },
        EventBody::ChildEnded {
            effect: stale.clone(),
            end: End::Done { state: state("D") },
            evidence: BTreeMap::new(),
        },
        EventBody::PersonAnswered { effect: stale.clone(), answer: String::new(), comment: String::new() },
    ] {
        assert_eq!(play.try_send(body), Err(Rejected::Stale(stale.clone())));
    }
    play.submit(ok(), &[]);
    assert_eq!(play.try_send(EventBody::AgentEnded { effect }), Err(Rejected::Phase("at its end")));
    let other = define(&one("retries = 1"));
    let event = play.log[0].clone();
    assert_eq!(baton_workflow::step(&other, &play.run, &event), Err(Rejected::Definition));
    assert!(Run::new(RunId::new("x"), &other, &name("nothing"), at(0)).is_none());
    assert_eq!(EffectId::new("a.b/RED/3").state(), Some(StateName::parse("RED").unwrap()));
}

#[test]
fn parameters_are_read_as_they_are_typed() {
    let text = "workflow(name = \"w\", params = {\"s\": string(required = True), \"n\": number(default = 1), \"b\": bool(), \"l\": list(single = \"one\")}, \
                states = {\"D\": done()})\n";
    let types = define(text).main().unwrap().params.clone();
    let read = |typed: &[(&str, &str)]| {
        let pairs: Vec<_> = typed.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Params::typed(&types, &pairs).map(|params| serde_json::to_value(params).unwrap())
    };
    assert_eq!(read(&[("s", "x")]), Ok(json!({"s": "x", "n": 1, "b": null, "l": null})));
    assert_eq!(
        read(&[("s", "x"), ("n", "2.5"), ("b", "yes"), ("one", "a"), ("l", "b"), ("one", "c")]),
        Ok(json!({"s": "x", "n": 2.5, "b": true, "l": ["a", "b", "c"]}))
    );
    assert_eq!(read(&[("s", "x"), ("b", "no")]).unwrap()["b"], json!(false));
    let said = [
        read(&[]),
        read(&[("s", "x"), ("s", "y")]),
        read(&[("t", "x"), ("n", "two"), ("b", "1"), ("lst", "a")]),
        read(&[("s", &"x".repeat(70_000))]),
    ]
    .map(|result| result.unwrap_err().join("\n"))
    .join("\n\n");
    insta::assert_snapshot!(said);
}

#[test]
fn what_is_noted_changes_nothing_wherever_a_run_is() {
    let noted = |play: &Play| EventBody::Noted { effect: play.dispatch(), text: "tried to write src/a".to_owned() };
    let mut play = Play::start(&one(""), &[]);
    let before = play.run.clone();
    play.send(noted(&play));
    assert_eq!((&play.run, play.kinds()), (&before, Vec::<String>::new()));
    play.submit(ok(), &[]);
    assert_eq!(play.state(), "done in D");
    let before = play.run.clone();
    play.send(noted(&play));
    assert_eq!(play.run, before, "also when it has ended");
}

#[test]
fn an_agent_that_cannot_afford_its_next_step_uses_up_its_state_or_parks_the_run() {
    let out_of =
        |effect: EffectId, is_around: bool| EventBody::OutOfBudget { effect, reason: "little".to_owned(), is_around };
    let out = |play: &Play| out_of(play.dispatch(), false);
    let mut play = Play::start(&one("tokens = 1000, retries = 5"), &[]);
    let other = out_of(EffectId::new("r1/A/99"), false);
    assert!(matches!(play.try_send(other), Err(Rejected::Stale(_))), "somebody else's means do not count");
    play.send(out(&play));
    assert_eq!(play.state(), "failed in F", "what is used up is not tried again");

    let mut play = Play::start(&one("tokens = 1000, retries = 5"), &[]);
    play.send(out_of(play.dispatch(), true));
    assert_eq!(play.state(), "A (parked)", "the state has enough, the run around it has not");

    let capped = one("tokens = 1000, retries = 5").replacen("workflow(", "workflow(tokens = 400, ", 1);
    let mut play = Play::start(&capped, &[]);
    play.send(out(&play));
    assert_eq!((play.state().as_str(), play.kinds()), ("A (parked)", vec!["release".to_owned(), "park".to_owned()]));
    play.send(EventBody::CapRaised { tokens: Some(5000), usd: None });
    assert_eq!(play.state(), "A");
    play.send(out(&play));
    assert_eq!(play.state(), "failed in F", "the state has less left than the run");
    let late = out(&play);
    assert_eq!(play.try_send(late), Err(Rejected::Phase("at its end")));

    let dear = one("usd = 2.0, tokens = 1000").replacen("workflow(", "workflow(usd = 1.0, ", 1);
    let mut play = Play::start(&dear, &[]);
    play.send(out(&play));
    assert_eq!(play.state(), "A (parked)");
    let cheap = one("usd = 0.5, tokens = 1000").replacen("workflow(", "workflow(usd = 1.0, ", 1);
    let mut play = Play::start(&cheap, &[]);
    play.send(out(&play));
    assert_eq!(play.state(), "failed in F");
}

#[test]
fn what_an_action_left_is_told_to_the_next_state_if_there_is_anything() {
    let text = "workflow(name = \"w\", roles = {\"r\": role(agent = \"a\", write = [\"src/**\"], tools = CODING)}, states = {\n\
                \"A\": action(command([\"make\"]), {\"pass\": \"B\"}), \"B\": state(\"r\", evidence({\"x\": \"text\"}), {\"pass\": \"D\"}), \"D\": done()})\n";
    for (receipt, told) in [("exit code 0", Some("exit code 0")), ("", None)] {
        let mut play = Play::start(text, &[]);
        let effect = play.owed(|body| matches!(body, EffectBody::Act { .. }));
        play.send(EventBody::ActionDone { effect, receipt: receipt.to_owned() });
        let because = play.run.visit().and_then(|visit| visit.because.clone()).unwrap();
        assert_eq!((play.state().as_str(), because.reason.as_deref()), ("B", told));
    }
}
