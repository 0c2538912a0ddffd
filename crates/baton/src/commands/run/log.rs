//! `baton run log`: everything that happened to a run, as the journal has it, and what followed from it.

use baton_core::{Fault, Timestamp};
use baton_store::{Journal, Recorded, StoreError};
use baton_workflow::{
    Definition, Effect, EffectBody, EffectId, End, EventBody, Left, Outcome, RelPath, Run, RunId, WorkflowName, step,
};
use serde_json::{Value, json};

use super::choosing::{find, last};
use super::show::{one_line, plain};
use super::status::ended;
use super::{print, reading, unusable};
use crate::Global;
use crate::exit::Exit;
use crate::screen::harmless;
use crate::setup::Setup;

/// How many events are read at once.
const AT_ONCE: usize = 1000;

/// Show what happened to a run: evidence, verifications, refusals, questions, transitions, costs
#[derive(clap::Args)]
#[command(after_help = "\
With --json, a kind with a dot in it is what followed from the event before: gate.decided, run.question,
run.parked, run.end.
")]
pub struct Args {
    /// The run; the end of its id is enough [default: the last one]
    run: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<Exit, Fault> {
    let setup = Setup::new(global)?;
    let store = reading(&setup)?;
    let row = match &args.run {
        Some(name) => find(&store, name)?,
        None => last(&store)?,
    };
    let mut all = Vec::new();
    gather(&store, &row.id, &row.workflow, &mut all).map_err(|error| unusable(&error))?;
    all.sort_by_key(|entry| entry.recorded.event.at);
    for Entry { run, recorded, follows } in &all {
        let (number, event) = (recorded.number, &recorded.event);
        let lines: Vec<String> = if args.json {
            let bodies = std::iter::once(serde_json::to_value(&event.body).unwrap_or_default());
            bodies.chain(follows.iter().map(Follows::json)).map(|body| as_json(run, number, event.at, body)).collect()
        } else {
            let inner = run.as_str().strip_prefix(row.id.as_str()).unwrap_or_default().trim_start_matches('.');
            let inner = if inner.is_empty() { String::new() } else { format!("{inner} ") };
            let said = std::iter::once(in_words(&event.body)).chain(follows.iter().map(Follows::in_words));
            said.map(|said| format!("{} {inner}{said}\n", event.at.strftime("%H:%M:%S"))).collect()
        };
        print(&lines.concat())?;
    }
    Ok(Exit::Done)
}

fn as_json(run: &RunId, number: u64, at: Timestamp, body: Value) -> String {
    let mut line = json!({"run": run, "number": number, "at": at});
    if let (Some(line), Value::Object(body)) = (line.as_object_mut(), body) {
        line.extend(body);
    }
    format!("{line}\n")
}

/// An event with what followed from it.
struct Entry {
    run: RunId,
    recorded: Recorded,
    follows: Vec<Follows>,
}

/// What follows from an event.
enum Follows {
    Left(Left, Option<String>),
    Asked(String, Vec<Outcome>),
    Parked(String),
    Ended(End),
}

impl Follows {
    fn in_words(&self) -> String {
        match self {
            Self::Left(left, reason) => {
                let reason = reason.as_ref().map(|reason| format!(" · {}", one_line(reason))).unwrap_or_default();
                format!("{} {} → {}{reason}", left.state, left.outcome, left.to)
            }
            Self::Asked(question, options) => {
                let options: Vec<&str> = options.iter().map(Outcome::as_str).collect();
                format!("asks a person · {} [{}]", one_line(question), options.join(", "))
            }
            Self::Parked(reason) => format!("rests · {}", one_line(reason)),
            Self::Ended(end) => format!("ended · {}", ended(end)),
        }
    }

    fn json(&self) -> Value {
        match self {
            Self::Left(left, reason) => json!({
                "kind": "gate.decided", "state": left.state, "attempt": left.attempt, "outcome": left.outcome,
                "to": left.to, "reason": reason,
            }),
            Self::Asked(question, options) => {
                json!({"kind": "run.question", "question": question, "options": options})
            }
            Self::Parked(reason) => json!({"kind": "run.parked", "reason": reason}),
            Self::Ended(end) => {
                let mut line = json!({"kind": "run.end"});
                if let (Some(line), Ok(Value::Object(end))) = (line.as_object_mut(), serde_json::to_value(end)) {
                    line.extend(end);
                }
                line
            }
        }
    }
}

/// The events of a run and of those inside it.
fn gather(journal: &dyn Journal, id: &RunId, workflow: &WorkflowName, all: &mut Vec<Entry>) -> Result<(), StoreError> {
    let mut from = 1;
    let mut replay = None;
    loop {
        let some = journal.events(id, from, AT_ONCE)?;
        let Some(last) = some.last() else { break };
        from = last.number + 1;
        for recorded in some {
            let replay = match &mut replay {
                Some(replay) => replay,
                none => none.insert(Replay::new(journal, id, workflow, recorded.event.at)?),
            };
            let follows = replay.take(&recorded);
            all.push(Entry { run: id.clone(), recorded, follows });
        }
    }
    for row in journal.runs(Some(id))? {
        gather(journal, &row.id, &row.workflow, all)?;
    }
    Ok(())
}

/// A run that is played once more from its events, to see what followed from each.
struct Replay {
    id: RunId,
    /// None if the definition cannot be read any more, or decides otherwise than it did.
    played: Option<(Definition, Run)>,
}

impl Replay {
    fn new(journal: &dyn Journal, id: &RunId, workflow: &WorkflowName, began: Timestamp) -> Result<Self, StoreError> {
        let hash = journal.run(id)?.map(|standing| standing.run.definition);
        let pin = hash.map(|hash| journal.pin(&hash)).transpose()?.flatten();
        let definition = pin.and_then(|pin| Definition::from_pin(&pin).ok());
        let played = definition.and_then(|definition| {
            let run = Run::new(id.clone(), &definition, workflow, began)?;
            Some((definition, run))
        });
        let replay = Self { id: id.clone(), played };
        if replay.played.is_none() {
            replay.give_up();
        }
        Ok(replay)
    }

    fn give_up(&self) {
        let id = &self.id;
        anstream::eprintln!(
            "the definition of {id} cannot be read as it was: its transitions are left out from here on"
        );
    }

    fn take(&mut self, recorded: &Recorded) -> Vec<Follows> {
        let Some((definition, before)) = &mut self.played else { return Vec::new() };
        let Ok((run, effects)) = step(definition, before, &recorded.event) else {
            self.played = None;
            self.give_up();
            return Vec::new();
        };
        let follows = what_follows(before, &run, &effects, &recorded.event.body);
        *before = run;
        follows
    }
}

fn what_follows(before: &Run, after: &Run, effects: &[Effect], body: &EventBody) -> Vec<Follows> {
    let because = after.visit().and_then(|visit| visit.because.as_ref());
    let left = after.trail.iter().skip(before.trail.len()).map(|left| {
        let because = because.filter(|because| because.state == left.state && because.outcome == left.outcome);
        Follows::Left(left.clone(), because.and_then(|because| because.reason.clone()))
    });
    let made = effects.iter().filter_map(|effect| match &effect.body {
        // A request for help is the question itself.
        EffectBody::Ask { question, options } if !matches!(body, EventBody::HelpRequested { .. }) => {
            Some(Follows::Asked(question.clone(), options.clone()))
        }
        EffectBody::Park { reason } => Some(Follows::Parked(reason.clone())),
        EffectBody::Finish { end } => Some(Follows::Ended(end.clone())),
        _ => None,
    });
    left.chain(made).collect()
}

/// What an event says.
fn in_words(body: &EventBody) -> String {
    match body {
        EventBody::Started { .. } => "started".to_owned(),
        EventBody::EvidenceSubmitted { effect, fields, work } => {
            let fields: Vec<String> =
                fields.iter().map(|(name, value)| format!("{}: {}", one_line(name), one_line(&plain(value)))).collect();
            let changed: Vec<&str> = work.changed.iter().map(RelPath::as_str).collect();
            let changed = changed.join(", ");
            format!("{} handed in · {} [{}]", state_of(effect), fields.join(" · "), harmless(&changed))
        }
        EventBody::Verified { effect, result } => {
            format!("{} verified · {}", state_of(effect), harmless(&result.describe()))
        }
        EventBody::TimedOut { effect } => format!("{} ran out of time", state_of(effect)),
        EventBody::AttemptFailed { effect, reason } | EventBody::ActionFailed { effect, reason } => {
            format!("{} failed · {}", state_of(effect), harmless(reason))
        }
        EventBody::OutOfBudget { effect, reason, .. } => {
            format!("{} cannot go on · {}", state_of(effect), harmless(reason))
        }
        EventBody::AgentEnded { effect } => format!("{} ended its turn without evidence", state_of(effect)),
        EventBody::HelpRequested { effect, question } => {
            format!("{} asks for help · {}", state_of(effect), harmless(question))
        }
        EventBody::PersonAnswered { answer, comment, .. } => {
            let said = [answer.as_str(), comment].into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>();
            format!("a person answers: {}", harmless(&said.join(" · ")))
        }
        EventBody::ActionDone { effect, receipt } => format!("{} done · {}", state_of(effect), harmless(receipt)),
        EventBody::ActionInDoubt { effect } => format!("{} in doubt", state_of(effect)),
        EventBody::Spent { effect, tokens, usd } => format!("{} used {tokens} tokens, {usd}", state_of(effect)),
        EventBody::Noted { effect, text } => format!("{} refused · {}", state_of(effect), harmless(text)),
        EventBody::ChildEnded { effect, end, .. } => format!("{} {}", RunId::child(effect), ended(end)),
        EventBody::CapRaised { tokens, usd } => {
            let caps = [tokens.map(|tokens| format!("{tokens} tokens")), usd.map(|usd| usd.to_string())];
            format!("the cap was raised to {}", caps.into_iter().flatten().collect::<Vec<_>>().join(" and "))
        }
        EventBody::Stopped { reason } => format!("stopped · {}", harmless(reason)),
    }
}

fn state_of(effect: &EffectId) -> String {
    effect.state().map_or_else(|| effect.to_string(), |state| state.to_string())
}
