//! Properties over random definitions and random events.

use std::collections::BTreeSet;

use baton_core::Usd;
use baton_workflow::verify::CommandResult;
use baton_workflow::{
    Definition, EffectBody, EffectId, End, Event, EventBody, Kind, Outcome, Phase, RelPath, Run, RunId, Seen, TreeHash,
    Wait, bound, step,
};
use proptest::prelude::*;
use serde_json::json;

use crate::support::{Play, at, try_define};

/// A definition of some states: one outcome leads to the next state, the others anywhere, giving up only forward.
fn text(states: &[(u8, [u8; 3], u8, bool)]) -> String {
    let count = states.len();
    let to = |target: u8| match usize::from(target) % (count + 1) {
        0 => "D".to_owned(),
        other => format!("S{}", other - 1),
    };
    let each: Vec<String> = states
        .iter()
        .enumerate()
        .map(|(index, (kind, targets, retries, gives_up))| {
            let first = if index + 1 == count { "D".to_owned() } else { format!("S{}", index + 1) };
            let [second, _, third] = targets.map(to);
            let third = if third[1..].parse::<usize>().is_ok_and(|third| third <= index) { "D".to_owned() } else { third };
            let retries = retries % 4;
            let up = if *gives_up { format!(", \"exhausted\": \"{third}\"") } else { String::new() };
            let limits = format!("retries = {retries}, tokens = 1000");
            let body = match kind % 7 {
                0 => format!("state(\"w\", evidence({{\"x\": \"text\"}}), {{\"pass\": \"{first}\"{up}}}, {limits}, freeze = [\"src/a/**\"])"),
                1 => format!("state(\"w\", evidence({{\"x\": \"text\"}}, lambda c: c.run(\"t\").ok and c.run([\"u\"]).failed), {{\"pass\": \"{first}\", \"fail\": \"{second}\"{up}}}, {limits})"),
                2 => format!("state(\"v\", verdict([\"a\", \"b\"]), {{\"a\": \"{first}\", \"b\": \"{second}\"{up}}}, {limits})"),
                3 => format!("action(command([\"c\"], idempotent = True), {{\"pass\": \"{first}\"{up}}}, retries = {retries})"),
                4 => format!("human(\"?\", [\"a\", \"b\"], {{\"a\": \"{first}\", \"b\": \"{second}\"{up}}}, retries = {retries})"),
                5 => format!("parallel({{\"p\": part, \"q\": part}}, {{\"pass\": \"{first}\"{up}}}, join = \"any\", retries = {retries})"),
                _ => format!("each(\"items\", part, \"it\", {{\"pass\": \"{first}\"{up}}}, retries = {retries}, max = 3)"),
            };
            format!("\"S{index}\": {body}")
        })
        .collect();
    format!(
        "part = workflow(name = \"part\", params = {{\"it\": string()}}, states = {{\"D\": done()}})\n\
         workflow(name = \"w\", params = {{\"items\": list(default = [\"x\", \"y\"])}}, roles = {{\"w\": role(\"a\", [\"src/**\"], CODING), \
         \"v\": role(\"b\", [], READING)}}, states = {{{}, \"D\": done()}})\n",
        each.join(",\n")
    )
}

fn definitions() -> impl Strategy<Value = Definition> {
    let state = (any::<u8>(), any::<[u8; 3]>(), any::<u8>(), any::<bool>());
    prop::collection::vec(state, 1..6).prop_filter_map("it is refused", |states| try_define(&text(&states)).ok())
}

/// What the world answers to what the run waits for; `choice` picks among what can happen.
fn answer(run: &Run, choice: u8) -> EventBody {
    let visit = run.visit().expect("the run goes on");
    let timer = EventBody::TimedOut { effect: visit.timer.clone() };
    if choice % 8 == 7 {
        return timer;
    }
    match &visit.wait {
        Wait::Agent { dispatch, .. } => {
            let effect = dispatch.clone();
            let work = Seen { tree: TreeHash::new("t"), changed: vec![RelPath::parse("src/b").unwrap()] };
            let seen = Seen { changed: Vec::new(), ..work.clone() };
            match choice % 7 {
                0 | 1 => EventBody::EvidenceSubmitted {
                    effect,
                    fields: json!({"x": "y"}).as_object().unwrap().clone(),
                    work,
                },
                2 => EventBody::EvidenceSubmitted {
                    effect,
                    fields: json!({"verdict": "a"}).as_object().unwrap().clone(),
                    work: seen,
                },
                3 => EventBody::EvidenceSubmitted {
                    effect,
                    fields: json!({"verdict": "b"}).as_object().unwrap().clone(),
                    work: seen,
                },
                4 => EventBody::AgentEnded { effect },
                5 => EventBody::Spent { effect, tokens: 300, usd: Usd::ZERO },
                _ => EventBody::AttemptFailed { effect, reason: "lost".to_owned() },
            }
        }
        Wait::Help { ask, .. } => {
            EventBody::PersonAnswered { effect: ask.clone(), answer: "so".to_owned(), comment: String::new() }
        }
        Wait::Verification { effect, submission } => {
            let argv = if submission.results.is_empty() { vec!["t"] } else { vec!["u"] };
            let argv = baton_workflow::Argv::new(argv.into_iter().map(str::to_owned).collect()).unwrap();
            let code = Some(i32::from(choice % 2));
            let result = CommandResult { argv, code, output: String::new(), duration_ms: 0, tree: TreeHash::new("t") };
            EventBody::Verified { effect: effect.clone(), result }
        }
        Wait::Approval { ask, .. } | Wait::Person { ask } => {
            let answer = if choice.is_multiple_of(2) { "a" } else { "b" };
            EventBody::PersonAnswered { effect: ask.clone(), answer: answer.to_owned(), comment: String::new() }
        }
        Wait::Action { effect, .. } => match choice % 3 {
            0 => EventBody::ActionDone { effect: effect.clone(), receipt: String::new() },
            1 => EventBody::ActionFailed { effect: effect.clone(), reason: "no".to_owned() },
            _ => EventBody::ActionInDoubt { effect: effect.clone() },
        },
        Wait::Children { running, .. } => {
            let effect = running.keys().nth(usize::from(choice) % running.len().max(1)).cloned();
            let state = baton_workflow::StateName::parse("D").unwrap();
            let end = if choice.is_multiple_of(3) { End::Failed { state } } else { End::Done { state } };
            effect.map_or(timer, |effect| EventBody::ChildEnded {
                effect,
                end,
                evidence: std::collections::BTreeMap::default(),
            })
        }
    }
}

/// No state is left but by an outcome of its own, and towards where that leads; only a gate gives `pass` or an option.
fn check_move(definition: &Definition, before: &Run, after: &Run, event: &EventBody) {
    let workflow = definition.workflow(&after.workflow).unwrap();
    let mut here = before.visit().map(|visit| visit.state.clone());
    for left in &after.trail[before.trail.len()..] {
        assert_eq!(Some(&left.state), here.as_ref().or(Some(&workflow.start)), "one state after the other");
        let state = workflow.state(&left.state).unwrap();
        assert_eq!(state.target(left.outcome.as_str(), workflow), &left.to);
        let is_passed = ![Outcome::FAIL, Outcome::EXHAUSTED].contains(&left.outcome.as_str());
        if is_passed && left.attempt > 0 && Some(&left.state) == before.visit().map(|visit| &visit.state) {
            let is_gate = matches!(
                (event, &state.kind),
                (EventBody::EvidenceSubmitted { .. } | EventBody::Verified { .. }, Kind::Agent(_))
                    | (EventBody::PersonAnswered { .. }, Kind::Human(_))
                    | (EventBody::ActionDone { .. }, Kind::Action(_))
                    | (EventBody::ChildEnded { .. }, Kind::Parallel(_) | Kind::Each(_))
            );
            assert!(is_gate, "{:?} left {} by {event:?}", left.outcome, left.state);
        }
        here = Some(left.to.clone());
    }
    match &after.phase {
        Phase::At(visit) => {
            assert_eq!(Some(&visit.state), here.as_ref().or(Some(&workflow.start)));
            assert!(visit.deadline > after.now || visit.deadline >= visit.since, "every wait has a timer");
        }
        Phase::Ended { end: End::Done { state } | End::Failed { state } } => {
            assert_eq!(Some(state), here.as_ref().or(Some(&workflow.start)));
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn every_run_ends_within_its_bound_and_can_be_replayed(definition in definitions(), choices in prop::collection::vec(any::<u8>(), 1..40)) {
        let most = bound(&definition, &|_, _| None);
        let mut play = Play::start_in(definition, &[]);
        let mut count = 0_usize;
        while play.run.end().is_none() {
            let before = play.run.clone();
            play.seconds += 1;
            let mut event = answer(&before, choices[count % choices.len()].wrapping_add(u8::try_from(count / choices.len() % 256).unwrap()));
            if let EventBody::TimedOut { .. } = event {
                play.seconds = before.visit().unwrap().deadline.as_second() - at(0).as_second();
            }
            if play.try_send(event.clone()).is_err() {
                // What does not fit this state; it is lost instead.
                event = EventBody::TimedOut { effect: before.visit().unwrap().timer.clone() };
                play.seconds = before.visit().unwrap().deadline.as_second() - at(0).as_second();
                play.send(event.clone());
            }
            check_move(&play.definition, &before, &play.run, &event);
            count += 1;
            prop_assert!(count < 5000, "the run does not end");
        }
        let attempts: u64 = play.run.attempts.values().map(|count| u64::from(*count)).sum();
        prop_assert!(attempts <= most.steps, "{attempts} attempts, at most {}", most.steps);

        let ids: BTreeSet<&EffectId> = play.effects.iter().map(|effect| &effect.id).collect();
        prop_assert_eq!(ids.len(), play.effects.len(), "ids of effects are unique");
        let finishes = play.effects.iter().filter(|effect| matches!(effect.body, EffectBody::Finish { .. })).count();
        prop_assert_eq!(finishes, 1);

        // The journal alone gives the same run and the same effects.
        let again = Definition::from_pin(play.definition.pin()).unwrap();
        let workflow = again.main().unwrap().name.clone();
        let mut run = Run::new(RunId::new("r1"), &again, &workflow, at(0)).unwrap();
        let mut effects = Vec::new();
        for event in &play.log {
            let (next, owed) = step(&again, &run, event).unwrap();
            run = next;
            effects.extend(owed);
        }
        prop_assert_eq!(&run, &play.run);
        prop_assert_eq!(&effects, &play.effects);

        // Nothing moves it any more.
        for event in &play.log {
            let moved = step(&again, &run, event);
            let is_spending = matches!(event.body, EventBody::Spent { .. });
            prop_assert!(is_spending || moved.is_err());
        }
    }

    #[test]
    fn copies_of_events_change_nothing(definition in definitions(), choices in prop::collection::vec(any::<u8>(), 1..30)) {
        let mut play = Play::start_in(definition, &[]);
        for choice in choices {
            if play.run.end().is_some() {
                break;
            }
            let event = answer(&play.run, choice);
            let is_told_once = matches!(event, EventBody::AgentEnded { .. } | EventBody::Spent { .. } | EventBody::TimedOut { .. });
            if is_told_once || play.try_send(event.clone()).is_err() {
                continue;
            }
            let event = Event { at: at(play.seconds), body: event };
            prop_assert!(step(&play.definition, &play.run, &event).is_err(), "{event:?} counted twice");
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[a-z(){}\\[\\]\"',:=.\n #0-9+*-]{0,120}") {
        let _ = try_define(&text);
        let _ = try_define(&format!("workflow(name = \"w\", states = {{{text}}})"));
        let _ = baton_workflow::AgentFile::parse("a.md", &text);
        let _ = baton_workflow::AgentFile::parse("a.md", &format!("---\n{text}\n---\n{text}"));
        let _ = baton_workflow::Template::parse(&text);
        let _ = baton_workflow::Glob::parse(&text);
        let _ = baton_workflow::Argv::split(&text);
        if let Ok(path) = RelPath::parse(&text) {
            prop_assert_eq!(RelPath::parse(path.as_str()).unwrap(), path);
        }
    }
}
