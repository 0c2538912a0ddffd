//! A run that is conducted: what is known about it, and what can be said to it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use baton_core::{Area, Fault, Tier};
use baton_store::{Metric, StoreError};
use baton_workflow::{
    AgentFile, Caps, Definition, Dispatch, EffectBody, EffectId, Event, EventBody, Phase, Rejected, Run, RunId, Seen,
    StateName, Wait,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::oneshot;
use tokio::task::JoinError;

use crate::hosting::{Played, Used};
use crate::place::Place;
use crate::report::RunEventBody;
use crate::run_clone::{CloneError, Identity};

/// Facts of a run that its definition does not say. They stay as they were when it began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The commit that it starts from.
    pub base: String,
    /// The branch that its result is brought back to; none if it is only rehearsed.
    pub branch: Option<String>,
    /// The model that plays roles which name none.
    pub model: Option<String>,
    /// Who commits.
    pub identity: Identity,
    /// The agent files, as they were.
    pub agents: BTreeMap<String, String>,
    /// Texts that say who a role is, by file.
    pub personas: BTreeMap<String, String>,
    /// Directories of build caches.
    pub caches: Vec<String>,
}

/// Where a run stands when nobody works on it any more.
#[derive(Debug, Clone, PartialEq)]
pub enum Rest {
    /// It has ended.
    Ended,
    /// It has reached a cap.
    Parked,
    /// A person has to say something.
    Waiting,
    /// Whoever conducts was told to stop; it can be taken up again.
    Interrupted,
}

/// Why a run cannot be conducted.
#[derive(Debug, thiserror::Error)]
pub enum ConductError {
    /// The journal refuses.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// What was said does not fit.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// There is no such run.
    #[error("there is no run `{0}`")]
    NoRun(RunId),
    /// Its definition is not there as it was.
    #[error("the definition of run `{0}` cannot be read any more")]
    NoDefinition(RunId),
    /// Something else.
    #[error("{0}")]
    Fault(Fault),
}

impl From<Fault> for ConductError {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// What a person says to a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum Said {
    /// Evidence, in place of the agent.
    Evidence {
        /// The fields.
        fields: Map<String, Value>,
    },
    /// An answer to a question.
    Answer {
        /// The answer.
        answer: String,
        /// What else they say.
        comment: String,
    },
    /// Enough.
    Stop {
        /// Why.
        reason: String,
    },
    /// More may be used.
    Raise {
        /// The new caps.
        caps: Caps,
    },
}

/// A request of a person to a run, and where the answer goes.
pub struct Request {
    /// The run.
    pub run: RunId,
    /// What they say.
    pub said: Said,
    /// What comes of it.
    pub reply: oneshot::Sender<Result<(), String>>,
}

/// A run that is conducted.
pub(crate) struct Live {
    pub(crate) run: Run,
    pub(crate) events: u64,
    pub(crate) definition: Arc<Definition>,
    pub(crate) parent: Option<(RunId, EffectId)>,
    pub(crate) place: Arc<Place>,
    pub(crate) facts: Arc<Facts>,
    /// What is owed and not settled.
    pub(crate) owed: BTreeMap<EffectId, EffectBody>,
    /// The work that was given out by this process.
    pub(crate) dispatches: HashMap<EffectId, Dispatch>,
}

/// What came of carrying an effect out.
pub(crate) enum Done {
    /// An agent's turn ended.
    Played(RunId, EffectId, Played),
    /// Something happened to a run.
    Event(RunId, EventBody),
    /// An end was seen to.
    Finished(RunId, EffectId, RunEventBody),
    /// What an agent handed in was looked at.
    Seen(Box<Handed>),
    /// Nothing can go on, whatever anybody in the run does.
    Stalled(Fault),
}

/// Why something could not be done in a clone.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The machine is in the way: that is nobody's failure, and costs no attempt.
    Machine(Fault),
    /// It has to do with the work.
    Work(String),
}

impl From<CloneError> for Trouble {
    fn from(error: CloneError) -> Self {
        if error.is_of_machine() { Self::Machine(in_the_way(&error)) } else { Self::Work(error.to_string()) }
    }
}

/// The machine is in the way.
pub(crate) fn in_the_way(error: &CloneError) -> Fault {
    let fault = Fault::new(Area::Workspace, Tier::UserFixable, error.to_string());
    fault.hint("mend that; then go on with `baton run resume`")
}

impl From<JoinError> for Trouble {
    fn from(error: JoinError) -> Self {
        Self::Work(error.to_string())
    }
}

/// Something that was handed in, with what the conductor sees of the work.
pub(crate) struct Handed {
    pub(crate) run: RunId,
    pub(crate) dispatch: EffectId,
    pub(crate) fields: Map<String, Value>,
    /// What is seen, and what was put back because it may not be changed.
    pub(crate) seen: Result<(Seen, Vec<String>), Trouble>,
    /// What the agent used for it.
    pub(crate) used: Used,
    pub(crate) by: By,
}

/// Who handed something in.
pub(crate) enum By {
    /// An agent that waits for what comes of it.
    Agent(oneshot::Sender<Result<String, String>>),
    /// An agent, by the end of its turn.
    EndOfTurn,
    /// A person.
    Person,
}

impl Live {
    /// What is to be remembered about what an agent of this very run used.
    pub(crate) fn metric(&self, event: &Event, used: Option<&Used>) -> Option<Metric> {
        let EventBody::Spent { effect, .. } = &event.body else { return None };
        let (dispatch, used) = (self.dispatches.get(effect)?, used?);
        let since = self.run.visit().map_or(event.at, |visit| visit.since);
        Some(Metric {
            run: self.run.id.clone(),
            effect: effect.clone(),
            state: effect.state()?,
            role: Some(dispatch.role.clone()),
            model: used.model.clone().or_else(|| self.facts.model.clone()),
            attempt: dispatch.attempt,
            tokens_in: used.tokens_in,
            tokens_out: used.tokens_out,
            cost_usd: used.usd,
            duration_ms: u64::try_from(event.at.duration_since(since).as_millis()).unwrap_or(0),
            outcome: "used".to_owned(),
            at: event.at,
        })
    }

    /// The state in which the run is.
    pub(crate) fn state(&self) -> Option<&StateName> {
        self.run.visit().map(|visit| &visit.state)
    }

    /// The agent that plays a role, and who it is.
    pub(crate) fn agent(&self, dispatch: &Dispatch) -> Result<(AgentFile, Option<String>), String> {
        let workflow = self.definition.workflow(&self.run.workflow);
        let role = workflow.and_then(|workflow| workflow.roles.get(&dispatch.role));
        let role = role.ok_or_else(|| format!("there is no role `{}`", dispatch.role))?;
        let text = self.facts.agents.get(role.agent.as_str());
        let text = text.ok_or_else(|| format!("there is no agent `{}`", role.agent))?;
        let file = AgentFile::parse(&format!("{}.md", role.agent), text)
            .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
        let persona = role.persona.as_ref().and_then(|name| self.facts.personas.get(name).cloned());
        Ok((file, persona))
    }
}

/// The effects that a run waits for.
pub(crate) fn needed(run: &Run) -> BTreeSet<EffectId> {
    let Phase::At(visit) = &run.phase else { return BTreeSet::new() };
    let mut needed = BTreeSet::from([visit.timer.clone()]);
    match &visit.wait {
        Wait::Agent { dispatch, .. } => needed.extend([dispatch.clone()]),
        Wait::Help { ask, .. } | Wait::Approval { ask, .. } | Wait::Person { ask } => needed.extend([ask.clone()]),
        Wait::Verification { effect, .. } | Wait::Action { effect, .. } => needed.extend([effect.clone()]),
        Wait::Children { running, .. } => needed.extend(running.keys().cloned()),
    }
    needed
}

/// The name of an event.
pub(crate) fn kind_of(body: &EventBody) -> String {
    serde_json::to_value(body).ok().and_then(|value| value["kind"].as_str().map(str::to_owned)).unwrap_or_default()
}
