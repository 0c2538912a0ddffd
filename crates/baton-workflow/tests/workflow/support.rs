//! Definitions and runs for the scenarios.

use std::collections::BTreeMap;

use baton_core::{Timestamp, Usd};
use baton_workflow::verify::CommandResult;
use baton_workflow::{
    Argv, Caps, Definition, Effect, EffectBody, EffectId, End, Event, EventBody, Params, Phase, Problem, Project,
    Rejected, RelPath, Run, RunId, Seen, Sources, StateName, TreeHash, Wait, WorkflowName, step,
};
use serde_json::{Map, Value, json};

pub fn project() -> Project {
    Project { test: Some("cargo test".to_owned()), ..Project::default() }
}

pub fn sources(files: &[(&str, &str)]) -> Sources {
    let files = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    Sources { files, project: project() }
}

pub fn name(text: &str) -> WorkflowName {
    WorkflowName::parse(text).unwrap()
}

pub fn state(text: &str) -> StateName {
    StateName::parse(text).unwrap()
}

/// The workflow `w` of this text.
pub fn try_define(text: &str) -> Result<Definition, Vec<Problem>> {
    Definition::load(&sources(&[("w.star", text)]), &name("w"))
}

pub fn define(text: &str) -> Definition {
    try_define(text).unwrap_or_else(|problems| panic!("{}", show(&problems)))
}

pub fn show(problems: &[Problem]) -> String {
    problems.iter().map(|problem| format!("{problem}\n")).collect::<Vec<_>>().concat()
}

pub fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

/// A run that is stepped by hand, and checked to be the same after every round trip.
pub struct Play {
    pub definition: Definition,
    pub run: Run,
    pub seconds: i64,
    pub log: Vec<Event>,
    /// All effects so far.
    pub effects: Vec<Effect>,
    /// Those of the last step.
    pub last: Vec<Effect>,
}

impl Play {
    pub fn ready(definition: Definition) -> Self {
        let workflow = definition.main().unwrap().name.clone();
        let run = Run::new(RunId::new("r1"), &definition, &workflow, at(0)).unwrap();
        Self { definition, run, seconds: 0, log: Vec::new(), effects: Vec::new(), last: Vec::new() }
    }

    pub fn start(text: &str, params: &[(&str, &str)]) -> Self {
        Self::start_in(define(text), params)
    }

    pub fn start_in(definition: Definition, params: &[(&str, &str)]) -> Self {
        let mut play = Self::ready(definition);
        let typed: Vec<_> = params.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let params = Params::typed(&play.definition.main().unwrap().params, &typed).unwrap();
        play.send(EventBody::Started { params, players: BTreeMap::new(), caps: Caps::default() });
        play
    }

    pub fn try_send(&mut self, body: EventBody) -> Result<(), Rejected> {
        let event = Event { at: at(self.seconds), body };
        let (run, effects) = step(&self.definition, &self.run, &event)?;
        let text = serde_json::to_string(&(&run, &effects, &event)).unwrap();
        let again: (Run, Vec<Effect>, Event) = serde_json::from_str(&text).unwrap();
        assert_eq!(again, (run.clone(), effects.clone(), event.clone()), "everything round-trips");
        self.run = run;
        self.log.push(event);
        self.effects.extend(effects.clone());
        self.last = effects;
        Ok(())
    }

    pub fn send(&mut self, body: EventBody) {
        self.try_send(body).unwrap();
    }

    /// The last effect of some kind.
    pub fn owed(&self, wanted: impl Fn(&EffectBody) -> bool) -> EffectId {
        self.effects.iter().rev().find(|effect| wanted(&effect.body)).unwrap().id.clone()
    }

    pub fn dispatch(&self) -> EffectId {
        self.owed(|body| matches!(body, EffectBody::Dispatch(_)))
    }

    pub fn try_submit(&mut self, fields: Value, changed: &[&str]) -> Result<(), Rejected> {
        let effect = self.dispatch();
        let fields: Map<String, Value> = serde_json::from_value(fields).unwrap();
        let changed = changed.iter().map(|path| RelPath::parse(path).unwrap()).collect();
        let work = Seen { tree: TreeHash::new("tree"), changed };
        self.try_send(EventBody::EvidenceSubmitted { effect, fields, work })
    }

    pub fn submit(&mut self, fields: Value, changed: &[&str]) {
        self.try_submit(fields, changed).unwrap();
    }

    /// The command that a gate asks for.
    pub fn verification(&self) -> Option<(EffectId, Argv)> {
        let Some(Wait::Verification { effect, .. }) = self.run.visit().map(|visit| &visit.wait) else { return None };
        self.effects.iter().find(|owed| owed.id == *effect).and_then(|owed| match &owed.body {
            EffectBody::Verify { argv, .. } => Some((effect.clone(), argv.clone())),
            _ => None,
        })
    }

    /// Answers the command that the gate asks for.
    pub fn verify(&mut self, code: i32, output: &str) {
        let (effect, argv) = self.verification().expect("a command is asked for");
        let tree = TreeHash::new("tree");
        let result = CommandResult { argv, code: Some(code), output: output.to_owned(), duration_ms: 1, tree };
        self.send(EventBody::Verified { effect, result });
    }

    pub fn time_out(&mut self) {
        let visit = self.run.visit().unwrap();
        let (effect, deadline) = (visit.timer.clone(), visit.deadline);
        self.seconds = deadline.as_second() - at(0).as_second();
        self.send(EventBody::TimedOut { effect });
    }

    pub fn spend(&mut self, tokens: u64, dollars: f64) {
        let effect = self.dispatch();
        self.send(EventBody::Spent { effect, tokens, usd: Usd::from_dollars(dollars).unwrap() });
    }

    pub fn answer(&mut self, answer: &str) {
        let effect = self.owed(|body| matches!(body, EffectBody::Ask { .. }));
        self.send(EventBody::PersonAnswered { effect, answer: answer.to_owned(), comment: String::new() });
    }

    /// Where the run is.
    pub fn state(&self) -> String {
        match &self.run.phase {
            Phase::Ready => "ready".to_owned(),
            Phase::At(visit) => visit.state.to_string(),
            Phase::Parked(visit) => format!("{} (parked)", visit.state),
            Phase::Ended { end } => match end {
                End::Done { state } => format!("done in {state}"),
                End::Failed { state } => format!("failed in {state}"),
                End::Escalated { state, reason } => format!("escalated from {state}: {reason}"),
                End::Stopped { reason } => format!("stopped: {reason}"),
            },
        }
    }

    /// Why the state was entered.
    pub fn because(&self) -> String {
        let because = self.run.visit().and_then(|visit| visit.because.clone()).unwrap();
        because.reason.unwrap_or_default()
    }

    /// Kinds of the effects of the last step.
    pub fn kinds(&self) -> Vec<String> {
        self.last.iter().map(|effect| json!(effect.body)["kind"].as_str().unwrap().to_owned()).collect()
    }
}
