//! `baton run status`: where runs are, what they used, and what they wait for.

use std::collections::BTreeMap;
use std::fmt::Write;

use baton_core::{Fault, Timestamp, Tokens, Usd};
use baton_store::{Journal, Metric, Standing};
use baton_workflow::{EffectBody, End, EventBody, Phase, Run, RunId, Wait};
use serde_json::{Value, json};

use super::{find, print, reading, unusable};
use crate::Global;
use crate::exit::Exit;
use crate::setup::Setup;

/// Show runs, or one run: its state, what it waits for, what it used
#[derive(clap::Args)]
pub struct Args {
    /// The run; the end of its id is enough [default: all]
    run: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<Exit, Fault> {
    let setup = Setup::new(global)?;
    let store = match reading(&setup) {
        Ok(store) => store,
        Err(_) if args.run.is_none() => {
            anstream::eprintln!("there are no runs in this project; start one with `baton run start NAME`");
            return Ok(Exit::Done);
        }
        Err(fault) => return Err(fault),
    };
    let clones = setup.state_dir()?.join("clones");
    let rows = match &args.run {
        Some(name) => vec![find(&store, Some(name))?],
        None => store.runs(None).map_err(|error| unusable(&error))?,
    };
    // Writing to a string cannot fail.
    let mut text = String::new();
    for row in &rows {
        let Some(standing) = store.run(&row.id).map_err(|error| unusable(&error))? else { continue };
        let status = Status::of(&store, &standing, &clones)?;
        if args.json {
            let _ = writeln!(text, "{}", status.json());
        } else if args.run.is_some() {
            text.push_str(&status.in_full());
        } else {
            let _ = writeln!(text, "{}", status.in_one_line());
        }
    }
    print(&text)?;
    Ok(Exit::Done)
}

/// Whether a run waits for a person.
pub fn is_waiting(run: &Run) -> bool {
    matches!(
        run.visit().map(|visit| &visit.wait),
        Some(Wait::Help { .. } | Wait::Approval { .. } | Wait::Person { .. })
    )
}

/// What is known about a run, with those inside it.
pub(super) struct Status {
    run: Run,
    began: Timestamp,
    changed: Timestamp,
    clone: Option<String>,
    branch: Option<String>,
    question: Option<(String, Vec<String>)>,
    /// Who works, if an agent does.
    role: Option<String>,
    states: Vec<StateUse>,
    inside: Vec<Status>,
}

/// What a state used.
struct StateUse {
    state: String,
    attempts: u32,
    outcome: Option<String>,
    models: Vec<String>,
    tokens_in: Tokens,
    tokens_out: Tokens,
    cost_usd: Usd,
    duration_ms: u64,
}

impl Status {
    /// Reads it from the journal.
    pub(super) fn of(journal: &dyn Journal, standing: &Standing, clones: &std::path::Path) -> Result<Self, Fault> {
        let unusable = |error: baton_store::StoreError| unusable(&error);
        let run = standing.run.clone();
        let metrics: Vec<Metric> =
            journal.metrics(&run.id).map_err(unusable)?.into_iter().filter(|metric| metric.run == run.id).collect();
        let mut inside = Vec::new();
        let mut rows = journal.runs(Some(&run.id)).map_err(unusable)?;
        rows.sort_by_key(|row| row.began);
        for row in rows {
            if let Some(inner) = journal.run(&row.id).map_err(unusable)? {
                inside.push(Self::of(journal, &inner, clones)?);
            }
        }
        let (mut question, mut role) = (None, None);
        for debt in journal.owed().map_err(unusable)?.into_iter().filter(|debt| debt.run == run.id) {
            match debt.effect.body {
                EffectBody::Ask { question: text, options } => {
                    question = Some((text, options.iter().map(ToString::to_string).collect()));
                }
                EffectBody::Dispatch(dispatch) => role = Some(dispatch.role.to_string()),
                _ => {}
            }
        }
        let clone = clones.join(run.id.as_str()).join("tree");
        Ok(Self {
            began: standing.began,
            changed: run.now,
            clone: clone.is_dir().then(|| clone.display().to_string()),
            branch: standing.facts["branch"].as_str().map(str::to_owned).filter(|_| standing.parent.is_none()),
            question,
            role,
            states: used(&run, &metrics),
            inside,
            run,
        })
    }

    pub(super) fn run(&self) -> &Run {
        &self.run
    }

    /// The innermost run that is worked on.
    pub(super) fn innermost(&self) -> &Self {
        self.inside.iter().find(|inner| inner.run.end().is_none()).map_or(self, Self::innermost)
    }

    fn json(&self) -> Value {
        let visit = self.run.visit();
        let total = self.run.total();
        let state = |used: &StateUse| {
            json!({
                "state": used.state, "attempts": used.attempts, "retries": used.attempts.saturating_sub(1),
                "outcome": used.outcome, "model": used.models.first(), "models": used.models,
                "tokens_in": used.tokens_in, "tokens_out": used.tokens_out, "cost_usd": used.cost_usd,
                "duration_ms": used.duration_ms,
            })
        };
        json!({
            "run": self.run.id, "workflow": self.run.workflow, "phase": phase(&self.run), "end": self.run.end(),
            "state": visit.map(|visit| &visit.state), "role": self.role, "attempt": visit.map(|visit| visit.attempt),
            "waits_for": visit.map(|visit| waits_for(&visit.wait)), "since": visit.map(|visit| visit.since),
            "deadline": visit.map(|visit| visit.deadline),
            "question": self.question.as_ref().map(|(question, _)| question),
            "options": self.question.as_ref().map(|(_, options)| options),
            "params": self.run.params, "clone": self.clone, "branch": self.branch,
            "tokens": total.tokens, "cost_usd": total.usd, "began": self.began, "changed": self.changed,
            "states": self.states.iter().map(state).collect::<Vec<_>>(),
            "trail": self.run.trail, "evidence": self.run.evidence,
            "inside": self.inside.iter().map(Self::json).collect::<Vec<_>>(),
        })
    }

    fn in_one_line(&self) -> String {
        let inner = self.innermost();
        let total = self.run.total();
        let place = match (self.run.end(), inner.run.visit()) {
            (Some(end), _) => ended(end),
            (None, Some(visit)) => {
                let who = inner.role.as_deref().unwrap_or_else(|| waits_for(&visit.wait));
                let attempt = if visit.attempt > 1 { format!(" attempt {}", visit.attempt) } else { String::new() };
                format!("{} {who}{attempt}", visit.state)
            }
            (None, None) => phase(&self.run).to_owned(),
        };
        format!("{}  {:16} {place}  {} tokens, {}", self.run.id, self.run.workflow.to_string(), total.tokens, total.usd)
    }

    /// Everything for people.
    pub(super) fn in_full(&self) -> String {
        let mut text = format!("{}\n", self.in_one_line());
        // Writing to a string cannot fail.
        if let Some((question, options)) = &self.innermost().question {
            let _ = writeln!(text, "  asks: {question} [{}]", options.join(", "));
            let _ = writeln!(text, "  answer with: baton run submit {} --answer …", self.run.id);
        }
        if let Some(clone) = &self.clone {
            let _ = writeln!(text, "  clone: {clone}");
        }
        if let (Some(branch), Some(End::Done { .. })) = (&self.branch, self.run.end()) {
            let _ = writeln!(text, "  branch: {branch}");
        }
        self.write_states(&mut text, 1);
        text
    }

    fn write_states(&self, text: &mut String, depth: usize) {
        let indent = "  ".repeat(depth);
        for used in &self.states {
            let outcome = used.outcome.clone().unwrap_or_else(|| "…".to_owned());
            let tries = if used.attempts > 1 { format!(" ({} attempts)", used.attempts) } else { String::new() };
            let tokens = used.tokens_in + used.tokens_out;
            let cost = if tokens > 0 { format!(", {tokens} tokens, {}", used.cost_usd) } else { String::new() };
            let (seconds, tenths) = (used.duration_ms / 1000, used.duration_ms % 1000 / 100);
            let _ = writeln!(text, "{indent}{:14} {outcome}{tries}  {seconds}.{tenths} s{cost}", used.state);
        }
        for inner in &self.inside {
            let _ = writeln!(text, "{indent}{} ({})", inner.run.workflow, inner.run.id);
            inner.write_states(text, depth + 1);
        }
    }
}

/// What each state used, in the order in which they were first entered.
fn used(run: &Run, metrics: &[Metric]) -> Vec<StateUse> {
    let mut order: Vec<String> = Vec::new();
    let visit = run.visit();
    for state in run.trail.iter().map(|left| &left.state).chain(visit.map(|visit| &visit.state)) {
        if !order.contains(&state.to_string()) {
            order.push(state.to_string());
        }
    }
    let mut uses: BTreeMap<&str, StateUse> = BTreeMap::new();
    for state in &order {
        let left: Vec<_> = run.trail.iter().filter(|left| left.state.as_str() == state).collect();
        let millis = |from: Timestamp, to: Timestamp| u64::try_from(to.duration_since(from).as_millis()).unwrap_or(0);
        let now = visit.filter(|visit| visit.state.as_str() == state).map_or(0, |visit| millis(visit.since, run.now));
        let own: Vec<&Metric> = metrics.iter().filter(|metric| metric.state.as_str() == state).collect();
        let mut models: Vec<String> = own.iter().filter_map(|metric| metric.model.clone()).collect();
        models.sort();
        models.dedup();
        let attempts = run.attempts.iter().find(|(name, _)| name.as_str() == state).map_or(0, |(_, count)| *count);
        let state_use = StateUse {
            state: state.clone(),
            attempts,
            outcome: left.last().filter(|_| now == 0).map(|left| left.outcome.to_string()),
            models,
            tokens_in: own.iter().map(|metric| metric.tokens_in).sum(),
            tokens_out: own.iter().map(|metric| metric.tokens_out).sum(),
            cost_usd: own.iter().map(|metric| metric.cost_usd).sum(),
            duration_ms: now + left.iter().map(|left| millis(left.since, left.at)).sum::<u64>(),
        };
        uses.insert(state, state_use);
    }
    order.iter().filter_map(|state| uses.remove(state.as_str())).collect()
}

fn phase(run: &Run) -> &'static str {
    match (&run.phase, is_waiting(run)) {
        (Phase::Ready, _) => "ready",
        (Phase::At(_), true) => "waiting",
        (Phase::At(_), false) => "working",
        (Phase::Parked(_), _) => "parked",
        (Phase::Ended { end }, _) => match end {
            End::Done { .. } => "done",
            End::Failed { .. } => "failed",
            End::Escalated { .. } => "escalated",
            End::Stopped { .. } => "stopped",
        },
    }
}

pub(super) fn ended(end: &End) -> String {
    match end {
        End::Done { .. } => "done".to_owned(),
        End::Failed { state } => format!("failed in {state}"),
        End::Escalated { state, reason } => format!("escalated at {state}: {reason}"),
        End::Stopped { reason } => format!("stopped: {reason}"),
    }
}

fn waits_for(wait: &Wait) -> &'static str {
    match wait {
        Wait::Agent { .. } => "agent",
        Wait::Verification { .. } => "verification",
        Wait::Action { .. } => "action",
        Wait::Help { .. } | Wait::Approval { .. } | Wait::Person { .. } => "person",
        Wait::Children { .. } => "runs inside",
    }
}

/// What an event says, for a log.
pub(super) fn event_in_words(body: &EventBody) -> String {
    match body {
        EventBody::Started { .. } => "started".to_owned(),
        EventBody::EvidenceSubmitted { effect, fields, work } => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(name, value)| format!("{name}: {}", super::show::one_line(&super::show::plain(value))))
                .collect();
            let changed: Vec<&str> = work.changed.iter().map(baton_workflow::RelPath::as_str).collect();
            format!("{} handed in · {} [{}]", state_of(effect), fields.join(" · "), changed.join(", "))
        }
        EventBody::Verified { effect, result } => {
            format!("{} verified · {}", state_of(effect), result.describe())
        }
        EventBody::TimedOut { effect } => format!("{} ran out of time", state_of(effect)),
        EventBody::AttemptFailed { effect, reason } | EventBody::ActionFailed { effect, reason } => {
            format!("{} failed · {reason}", state_of(effect))
        }
        EventBody::OutOfBudget { effect, reason } => format!("{} cannot go on · {reason}", state_of(effect)),
        EventBody::AgentEnded { effect } => format!("{} ended its turn without evidence", state_of(effect)),
        EventBody::HelpRequested { effect, question } => format!("{} asks for help · {question}", state_of(effect)),
        EventBody::PersonAnswered { answer, comment, .. } => format!("a person answers: {answer} {comment}"),
        EventBody::ActionDone { effect, receipt } => format!("{} done · {receipt}", state_of(effect)),
        EventBody::ActionInDoubt { effect } => format!("{} in doubt", state_of(effect)),
        EventBody::Spent { effect, tokens, usd } => format!("{} used {tokens} tokens, {usd}", state_of(effect)),
        EventBody::Noted { effect, text } => format!("{} refused · {text}", state_of(effect)),
        EventBody::ChildEnded { effect, end, .. } => format!("{} {}", RunId::child(effect), ended(end)),
        EventBody::CapRaised { .. } => "the caps were raised".to_owned(),
        EventBody::Stopped { reason } => format!("stopped · {reason}"),
    }
}

fn state_of(effect: &baton_workflow::EffectId) -> String {
    effect.state().map_or_else(|| effect.to_string(), |state| state.to_string())
}
