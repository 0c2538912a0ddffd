//! What is known about a run and those inside it: read from the journal, with who works on it and what came back.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use baton_core::{Fault, Timestamp, Tokens, Usd};
use baton_guard::git;
use baton_store::{Debt, Journal, Metric, Standing, Store, StoreError};
use baton_workflow::{Definition, EffectBody, End, Phase, Run, RunId, Wait};
use serde_json::{Value, json};

use super::choosing::root_of;
use super::presence::Presence;
use super::{database, reading, unusable};
use crate::setup::Setup;

/// The runs of a project, to look at them.
pub(super) struct View {
    pub(super) store: Store,
    database: PathBuf,
    clones: PathBuf,
    project: PathBuf,
    /// Branches that runs have brought back.
    branches: OnceCell<BTreeSet<String>>,
}

impl View {
    pub(super) fn new(setup: &Setup) -> Result<Self, Fault> {
        reading(setup).and_then(|store| Self::of(setup, store))
    }

    pub(super) fn of(setup: &Setup, store: Store) -> Result<Self, Fault> {
        let (database, clones) = (database(setup)?, setup.state_dir()?.join("clones"));
        Ok(Self { store, database, clones, project: setup.project.root.clone(), branches: OnceCell::new() })
    }

    pub(super) fn presence(&self) -> Result<Presence, Fault> {
        Presence::of(&self.database)
    }

    /// A run with those inside it. `now` counts as time that it takes if somebody works on it.
    pub(super) fn status(&self, id: &RunId, now: Option<Timestamp>) -> Result<Status, Fault> {
        // First who works on it: a run that ends between the two looks is not taken for one that was left alone.
        let presence = self.presence()?;
        let unusable = |error: StoreError| unusable(&error);
        let standing = self.store.run(id).map_err(unusable)?;
        let standing = standing.ok_or_else(|| Fault::input(format!("there is no run `{id}`")))?;
        let is_conducted = presence.conducts(&root_of(&self.store, id)?);
        let owed = self.store.owed().map_err(unusable)?;
        let now = now.filter(|_| is_conducted);
        Look { view: self, owed: &owed, is_conducted, now }.at(standing).map_err(unusable)
    }

    /// The same branch, if it is there.
    fn brought_back(&self, branch: &str) -> bool {
        let list = || {
            let mut list = git::command(&self.project);
            list.args(["for-each-ref", "--format=%(refname)", "refs/heads/baton/"]);
            let listed = list.output().map(|output| output.stdout).unwrap_or_default();
            String::from_utf8_lossy(&listed).lines().map(str::to_owned).collect()
        };
        self.branches.get_or_init(list).contains(&format!("refs/heads/{branch}"))
    }
}

/// One look at the journal.
struct Look<'a> {
    view: &'a View,
    owed: &'a [Debt],
    is_conducted: bool,
    now: Option<Timestamp>,
}

impl Look<'_> {
    fn at(&self, standing: Standing) -> Result<Status, StoreError> {
        let (run, store) = (standing.run, &self.view.store);
        let metrics = store.metrics(&run.id)?.into_iter().filter(|metric| metric.run == run.id).collect::<Vec<_>>();
        let mut inside = Vec::new();
        let mut rows = store.runs(Some(&run.id))?;
        rows.sort_by_key(|row| row.began);
        for row in rows {
            if let Some(inner) = store.run(&row.id)? {
                inside.push(self.at(inner)?);
            }
        }
        let (mut question, mut role, mut is_finishing) = (None, None, false);
        for debt in self.owed.iter().filter(|debt| debt.run == run.id) {
            match &debt.effect.body {
                EffectBody::Ask { question: text, options } => {
                    question = Some((text.clone(), options.iter().map(ToString::to_string).collect()));
                }
                EffectBody::Dispatch(dispatch) => role = Some(dispatch.role.to_string()),
                EffectBody::Finish { .. } => is_finishing = true,
                _ => {}
            }
        }
        let is_done = matches!(run.end(), Some(End::Done { .. }));
        // Only what is done has something that is brought back.
        let activity = activity(&run, &inside, is_done && is_finishing, self.is_conducted);
        let rests = match activity {
            Activity::Parked => {
                let inner = inside.iter().find_map(|inner| inner.rests.clone());
                self.cap_used(&run)?.or(inner).or_else(|| Some("a cap is used up".to_owned()))
            }
            _ => None,
        };
        let branch = standing.facts["branch"].as_str().filter(|_| standing.parent.is_none());
        // Nothing is looked for before it can be there.
        let is_over = is_done && activity == Activity::Over;
        let branch = branch.filter(|branch| is_over && self.view.brought_back(branch));
        let clone = self.view.clones.join(run.id.as_str()).join("tree");
        // It goes with a run that is done, a moment later.
        let has_clone = clone.is_dir() && !is_over;
        Ok(Status {
            began: standing.began,
            changed: run.now,
            clone: has_clone.then(|| clone.display().to_string()),
            branch: branch.map(str::to_owned),
            question,
            role,
            states: used(&run, &metrics, self.now.unwrap_or(run.now)),
            now: self.now,
            activity,
            rests,
            inside,
            run,
        })
    }

    /// Which cap a parked run has used up, in words.
    fn cap_used(&self, run: &Run) -> Result<Option<String>, StoreError> {
        let pin = self.view.store.pin(&run.definition)?;
        let definition = pin.and_then(|pin| Definition::from_pin(&pin).ok());
        let workflow = definition.as_ref().and_then(|definition| definition.workflow(&run.workflow));
        let tokens = run.raised.tokens.or_else(|| workflow.and_then(|workflow| workflow.tokens));
        let usd = run.raised.usd.or_else(|| workflow.and_then(|workflow| workflow.usd));
        Ok(cap_in_words(run, tokens, usd))
    }
}

fn cap_in_words(run: &Run, tokens: Option<Tokens>, usd: Option<Usd>) -> Option<String> {
    let total = run.total();
    if let Some(cap) = tokens.filter(|cap| total.tokens >= *cap) {
        return Some(format!("the cap of {cap} tokens is used up ({} used)", total.tokens));
    }
    if let Some(cap) = usd.filter(|cap| total.usd >= *cap) {
        return Some(format!("the cap of {cap} is used up ({} used)", total.usd));
    }
    let caps = [tokens.map(|cap| format!("{cap} tokens")), usd.map(|cap| cap.to_string())];
    let caps: Vec<String> = caps.into_iter().flatten().collect();
    let why = format!("{} tokens and {} used; the next step takes more than what is left", total.tokens, total.usd);
    (!caps.is_empty()).then(|| format!("the cap of {} is used up ({why})", caps.join(" or ")))
}

/// What is done about a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activity {
    /// Somebody works on it.
    Working,
    /// There is work to do, and nobody does it.
    Interrupted,
    /// A person is asked.
    Waiting,
    /// A cap is used up.
    Parked,
    /// It has ended, and that was seen to.
    Over,
}

fn activity(run: &Run, inside: &[Status], is_finishing: bool, is_conducted: bool) -> Activity {
    let at_work = if is_conducted { Activity::Working } else { Activity::Interrupted };
    match &run.phase {
        Phase::Ended { .. } if !is_finishing => Activity::Over,
        Phase::Parked(_) => Activity::Parked,
        Phase::At(visit) => match &visit.wait {
            Wait::Help { .. } | Wait::Approval { .. } | Wait::Person { .. } => Activity::Waiting,
            Wait::Children { .. } => {
                let is = |one: Activity| inside.iter().any(|inner| inner.activity == one);
                match (is(at_work), is(Activity::Waiting), is(Activity::Parked)) {
                    (false, true, _) => Activity::Waiting,
                    (false, false, true) => Activity::Parked,
                    _ => at_work,
                }
            }
            Wait::Agent { .. } | Wait::Verification { .. } | Wait::Action { .. } => at_work,
        },
        Phase::Ready | Phase::Ended { .. } => at_work,
    }
}

/// Whether a run waits for a person.
pub(super) fn is_waiting(run: &Run) -> bool {
    matches!(
        run.visit().map(|visit| &visit.wait),
        Some(Wait::Help { .. } | Wait::Approval { .. } | Wait::Person { .. })
    )
}

/// What is known about a run, with those inside it.
pub(super) struct Status {
    pub(super) run: Run,
    pub(super) activity: Activity,
    pub(super) began: Timestamp,
    changed: Timestamp,
    /// What counts as now, if somebody works on it and that is asked for.
    pub(super) now: Option<Timestamp>,
    pub(super) clone: Option<String>,
    /// The branch with its result, if it was brought back.
    pub(super) branch: Option<String>,
    pub(super) question: Option<(String, Vec<String>)>,
    /// Who works, if an agent does.
    pub(super) role: Option<String>,
    /// Which cap is used up, if it rests because of that.
    pub(super) rests: Option<String>,
    pub(super) states: Vec<StateUse>,
    pub(super) inside: Vec<Status>,
}

/// What a state used.
pub(super) struct StateUse {
    pub(super) state: String,
    pub(super) attempts: u32,
    pub(super) outcome: Option<String>,
    models: Vec<String>,
    pub(super) tokens_in: Tokens,
    pub(super) tokens_out: Tokens,
    pub(super) cost_usd: Usd,
    pub(super) duration_ms: u64,
}

impl Status {
    /// The innermost run that says what the whole does.
    pub(super) fn innermost(&self) -> &Self {
        let is_it = |inner: &&Self| self.run.end().is_none() && inner.activity == self.activity;
        self.inside.iter().find(is_it).map_or(self, Self::innermost)
    }

    /// One word for where it is.
    pub(super) fn phase(&self) -> &'static str {
        match (self.activity, self.run.end()) {
            (Activity::Interrupted, _) => "interrupted",
            (Activity::Waiting, _) => "waiting",
            (Activity::Parked, _) => "parked",
            (Activity::Over, Some(End::Done { .. })) => "done",
            (Activity::Over, Some(End::Failed { .. })) => "failed",
            (Activity::Over, Some(End::Escalated { .. })) => "escalated",
            (Activity::Over, Some(End::Stopped { .. })) => "stopped",
            (Activity::Working | Activity::Over, _) => "working",
        }
    }

    pub(super) fn json(&self) -> Value {
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
            "run": self.run.id, "workflow": self.run.workflow, "phase": self.phase(), "end": self.run.end(),
            "state": visit.map(|visit| &visit.state), "role": self.role, "attempt": visit.map(|visit| visit.attempt),
            "waits_for": visit.map(|visit| waits_for(&visit.wait)), "since": visit.map(|visit| visit.since),
            "deadline": visit.map(|visit| visit.deadline),
            "question": self.question.as_ref().map(|(question, _)| question),
            "options": self.question.as_ref().map(|(_, options)| options),
            "rests": self.rests, "params": self.run.params, "clone": self.clone, "branch": self.branch,
            "tokens": total.tokens, "cost_usd": total.usd, "began": self.began, "changed": self.changed,
            "states": self.states.iter().map(state).collect::<Vec<_>>(),
            "trail": self.run.trail, "evidence": self.run.evidence,
            "inside": self.inside.iter().map(Self::json).collect::<Vec<_>>(),
        })
    }
}

/// What each state used, in the order in which they were first entered.
fn used(run: &Run, metrics: &[Metric], now: Timestamp) -> Vec<StateUse> {
    let mut order: Vec<&str> = Vec::new();
    let visit = run.visit();
    for state in run.trail.iter().map(|left| &left.state).chain(visit.map(|visit| &visit.state)) {
        if !order.contains(&state.as_str()) {
            order.push(state.as_str());
        }
    }
    let mut own: BTreeMap<&str, Vec<&Metric>> = BTreeMap::new();
    for metric in metrics {
        own.entry(metric.state.as_str()).or_default().push(metric);
    }
    let use_of = |state: &&str| {
        let left: Vec<_> = run.trail.iter().filter(|left| left.state.as_str() == *state).collect();
        let current = visit.filter(|visit| visit.state.as_str() == *state);
        let own = own.get(*state).map(Vec::as_slice).unwrap_or_default();
        let mut models: Vec<String> = own.iter().filter_map(|metric| metric.model.clone()).collect();
        models.sort();
        models.dedup();
        StateUse {
            state: (*state).to_owned(),
            attempts: run.attempts.iter().find(|(name, _)| name.as_str() == *state).map_or(0, |(_, count)| *count),
            outcome: left.last().filter(|_| current.is_none()).map(|left| left.outcome.to_string()),
            models,
            tokens_in: own.iter().map(|metric| metric.tokens_in).sum(),
            tokens_out: own.iter().map(|metric| metric.tokens_out).sum(),
            cost_usd: own.iter().map(|metric| metric.cost_usd).sum(),
            duration_ms: current.map_or(0, |visit| millis(visit.since, now))
                + left.iter().map(|left| millis(left.since, left.at)).sum::<u64>(),
        }
    };
    order.iter().map(use_of).collect()
}

/// The time between; none if the clock went back.
pub(super) fn millis(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.duration_since(from).as_millis()).unwrap_or(0)
}

pub(super) fn waits_for(wait: &Wait) -> &'static str {
    match wait {
        Wait::Agent { .. } => "agent",
        Wait::Verification { .. } => "verification",
        Wait::Action { .. } => "action",
        Wait::Help { .. } | Wait::Approval { .. } | Wait::Person { .. } => "person",
        Wait::Children { .. } => "runs inside",
    }
}
