//! What a run takes while it waits: the answers to what it waits for, and nothing else.

use std::collections::BTreeMap;

use baton_workflow::verify::CommandResult;
use baton_workflow::{Argv, EffectId, End, Event, EventBody, Rejected, Seen, TreeHash, Wait, step};
use serde_json::json;

use crate::support::{Play, at, state};

/// A run in every kind of wait.
fn waits() -> Vec<(&'static str, Play)> {
    let text = |state: &str| {
        format!(
            "part = workflow(name = \"part\", states = {{\"D\": done()}})\n\
             workflow(name = \"w\", roles = {{\"r\": role(\"a\", [], READING)}}, states = {{\"A\": {state}, \"D\": done()}})\n"
        )
    };
    let agent = |gate: &str, on: &str| Play::start(&text(&format!("state(\"r\", {gate}, {{\"{on}\": \"D\"}})")), &[]);
    let evidence = || agent("evidence({\"x\": \"text\"}, lambda c: c.run(\"t\").ok)", "pass");
    let mut help = evidence();
    let effect = help.dispatch();
    help.send(EventBody::HelpRequested { effect, question: "?".to_owned() });
    let mut verification = evidence();
    verification.submit(json!({"x": "y"}), &[]);
    let mut approval = agent("human(\"?\", [\"ok\"])", "ok");
    approval.submit(json!({}), &[]);
    vec![
        ("agent", evidence()),
        ("help", help),
        ("verification", verification),
        ("approval", approval),
        ("action", Play::start(&text("action(commit(\"m\"), {\"pass\": \"D\"})"), &[])),
        ("person", Play::start(&text("human(\"?\", [\"ok\"], {\"ok\": \"D\"})"), &[])),
        ("children", Play::start(&text("parallel({\"a\": part, \"b\": part}, {\"pass\": \"D\"})"), &[])),
    ]
}

/// Every kind of event that answers an effect.
fn answers(effect: &EffectId) -> Vec<(&'static str, EventBody)> {
    let effect = || effect.clone();
    let text = || "ok".to_owned();
    let work = Seen { tree: TreeHash::new("tree"), changed: Vec::new() };
    let argv = Argv::split("t").unwrap();
    let result = CommandResult { argv, code: Some(0), output: text(), duration_ms: 0, tree: TreeHash::new("tree") };
    let end = End::Done { state: state("D") };
    let fields = json!({"x": "y"}).as_object().unwrap().clone();
    vec![
        ("submitted", EventBody::EvidenceSubmitted { effect: effect(), fields, work }),
        ("verified", EventBody::Verified { effect: effect(), result }),
        ("failed", EventBody::AttemptFailed { effect: effect(), reason: text() }),
        ("ended", EventBody::AgentEnded { effect: effect() }),
        ("help", EventBody::HelpRequested { effect: effect(), question: text() }),
        ("answered", EventBody::PersonAnswered { effect: effect(), answer: text(), comment: String::new() }),
        ("done", EventBody::ActionDone { effect: effect(), receipt: text() }),
        ("action failed", EventBody::ActionFailed { effect: effect(), reason: text() }),
        ("in doubt", EventBody::ActionInDoubt { effect: effect() }),
        ("child", EventBody::ChildEnded { effect: effect(), end, evidence: BTreeMap::new() }),
    ]
}

/// The answers that a wait takes, and to which effects.
fn taken(wait: &Wait) -> (Vec<EffectId>, &'static [&'static str]) {
    match wait {
        Wait::Agent { dispatch, .. } => (vec![dispatch.clone()], &["submitted", "failed", "ended", "help"]),
        Wait::Verification { effect, .. } => (vec![effect.clone()], &["verified", "failed"]),
        Wait::Help { ask, .. } => (vec![ask.clone()], &["answered", "submitted"]),
        Wait::Approval { ask, .. } | Wait::Person { ask } => (vec![ask.clone()], &["answered"]),
        Wait::Action { effect, .. } => (vec![effect.clone()], &["done", "action failed", "in doubt"]),
        Wait::Children { running, .. } => (running.keys().cloned().collect(), &["failed", "child"]),
    }
}

#[test]
fn a_wait_takes_its_own_answers_and_no_others() {
    for (title, play) in waits() {
        let visit = play.run.visit().unwrap();
        assert_eq!(serde_json::to_value(&visit.wait).unwrap()["for"], title);
        let (effects, kinds) = taken(&visit.wait);
        let known = play.effects.iter().map(|effect| effect.id.clone());
        for effect in known.chain([EffectId::new("r1/A/99")]) {
            for (kind, body) in answers(&effect) {
                let is_taken = effects.contains(&effect) && kinds.contains(&kind);
                let event = Event { at: at(1), body };
                match step(&play.definition, &play.run, &event) {
                    Ok((run, _)) => {
                        assert!(is_taken, "{title} takes {kind} of {effect}");
                        assert_ne!(run, play.run);
                    }
                    Err(rejected) => {
                        assert!(!is_taken, "{title} does not take {kind}: {rejected}");
                        assert_eq!(rejected, Rejected::Stale(effect.clone()));
                    }
                }
            }
            let late = Event { at: visit.deadline, body: EventBody::TimedOut { effect: effect.clone() } };
            assert_eq!(
                step(&play.definition, &play.run, &late).is_ok(),
                effect == visit.timer,
                "{title}: the timer {effect}"
            );
            let early = Event { at: at(1), ..late };
            assert!(step(&play.definition, &play.run, &early).is_err());
        }
    }
}

#[test]
fn a_run_that_has_ended_takes_nothing() {
    for (title, mut play) in waits() {
        play.send(EventBody::Stopped { reason: "enough".to_owned() });
        for effect in play.effects.clone() {
            for (kind, body) in answers(&effect.id) {
                let event = Event { at: at(1), body };
                let rejected = step(&play.definition, &play.run, &event);
                assert_eq!(rejected, Err(Rejected::Phase("at its end")), "{title}: {kind}");
            }
        }
    }
}
