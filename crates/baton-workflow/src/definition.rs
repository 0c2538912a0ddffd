//! Definitions: a workflow as data.

pub(crate) mod evaluate;
mod literal;
mod nesting;
mod node;
mod pin;
mod read;
mod read_state;
pub(crate) mod vocabulary;

use std::collections::BTreeMap;
use std::time::Duration;

use baton_core::{Tokens, Usd};

use crate::command::Argv;
use crate::field::Fields;
use crate::names::{AgentName, BranchName, Outcome, ParamName, Pos, RoleName, StateName, WorkflowName};
use crate::param::ParamTypes;
use crate::scope::Glob;
use crate::template::{Reference, Template};

pub use pin::{Definition, Pin, Sources};
pub use vocabulary::{TOOLS, reference};

/// Attempts after the first, where a definition says nothing.
pub const RETRIES: u32 = 3;
/// How long one attempt may take, where a definition says nothing.
pub const TIMEOUT: Duration = Duration::from_mins(30);
/// How long runs inside a state may take, where a definition says nothing; each has its own limits.
pub const CHILD_TIMEOUT: Duration = Duration::from_hours(24);
/// Tokens of one state, where a definition says nothing.
pub const TOKENS: Tokens = 200_000;
/// Items that `each` takes at most, where a definition says nothing.
pub const ITEMS: u32 = 20;

/// One workflow.
#[derive(Debug, Clone)]
pub struct Workflow {
    /// What it is called.
    pub name: WorkflowName,
    /// What it is for.
    pub about: String,
    /// What a run can be given.
    pub params: ParamTypes,
    /// Who works in it.
    pub roles: BTreeMap<RoleName, Role>,
    /// Its states, in the order of the file.
    pub states: Vec<State>,
    /// Where a run starts.
    pub start: StateName,
    /// Whether the project's tests may fail before the run starts.
    pub expects_red_base: bool,
    /// Tokens of one run; at the cap it parks.
    pub tokens: Option<Tokens>,
    /// Dollars of one run; at the cap it parks.
    pub usd: Option<Usd>,
    /// Where it is defined.
    pub at: Pos,
}

/// What an agent in a workflow may do.
#[derive(Debug, Clone)]
pub struct Role {
    /// The agent file that says what it does.
    pub agent: AgentName,
    /// Files that it may write.
    pub write: Vec<Glob>,
    /// Tools that it is given.
    pub tools: Vec<String>,
    /// The model that plays it; the run's model where it is not given.
    pub model: Option<String>,
    /// A file that says who it is.
    pub persona: Option<String>,
    /// Where it is defined.
    pub at: Pos,
}

/// One state.
#[derive(Debug, Clone)]
pub struct State {
    /// What it is called.
    pub name: StateName,
    /// What happens in it.
    pub kind: Kind,
    /// Where each outcome leads; what is left out has a default.
    pub on: BTreeMap<Outcome, Target>,
    /// What it may use.
    pub limits: Limits,
    /// Where it is defined.
    pub at: Pos,
}

/// Where an outcome leads.
#[derive(Debug, Clone)]
pub struct Target {
    /// The next state.
    pub state: StateName,
    /// Where that is written.
    pub at: Pos,
}

/// What a state may use; none is no limit, which a proof refuses where it would let a run go on for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Attempts after the first, in the whole run.
    pub retries: Option<u32>,
    /// Time of one wait.
    pub timeout: Option<Duration>,
    /// Tokens of all attempts together.
    pub tokens: Option<Tokens>,
    /// Dollars of all attempts together.
    pub usd: Option<Usd>,
}

impl Limits {
    /// How often the state can be tried.
    pub fn attempts(&self) -> Option<u64> {
        self.retries.map(|retries| u64::from(retries) + 1)
    }
}

/// What happens in a state.
#[derive(Debug, Clone)]
pub enum Kind {
    /// An agent works until its gate is passed.
    Agent(Box<Work>),
    /// The conductor does something itself.
    Action(Action),
    /// Runs at the same time.
    Parallel(Parallel),
    /// A run for every item of a list.
    Each(Each),
    /// One run of another workflow.
    Call(Call),
    /// A person decides.
    Human(Question),
    /// The end.
    Done {
        /// Whether the task counts as failed.
        is_failure: bool,
    },
    /// A person has to take over.
    Escalate,
}

/// The work of an agent in a state.
#[derive(Debug, Clone)]
pub struct Work {
    /// Who works.
    pub role: RoleName,
    /// Where the role is named.
    pub role_at: Pos,
    /// What to do, beyond what the agent file says.
    pub task: Option<Template>,
    /// The condition for leaving.
    pub gate: Gate,
    /// Files that nobody else changes once the gate is passed.
    pub freeze: Vec<Glob>,
    /// States whose evidence the agent is shown.
    pub inputs: Vec<(StateName, Pos)>,
    /// Whether every attempt gets a new conversation.
    pub is_fresh: bool,
}

/// The condition for leaving a state.
#[derive(Debug, Clone)]
pub enum Gate {
    /// Fields that the agent submits, verified.
    Evidence {
        /// What is asked for.
        fields: Fields,
        /// Checks it.
        verify: Option<VerifyRef>,
    },
    /// A choice that the agent makes, with what it must bring along.
    Verdict {
        /// The outcomes.
        options: Vec<Outcome>,
        /// What is asked for, `verdict` among it.
        fields: Fields,
        /// Checks it.
        verify: Option<VerifyRef>,
    },
    /// A command that has to succeed.
    Command {
        /// What is run.
        argv: Argv,
        /// Judges its result; without it exit code 0 passes.
        verify: Option<VerifyRef>,
    },
    /// A person has to agree.
    Human(Question),
}

/// A verify function: found again by its file and its number there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifyRef {
    /// The file whose evaluation made it.
    pub(crate) file: String,
    /// Its name among that file's values.
    pub(crate) slot: String,
    /// Where it is used.
    pub at: Pos,
}

/// What a person is asked.
#[derive(Debug, Clone)]
pub struct Question {
    /// The question.
    pub text: Template,
    /// The answers, each an outcome.
    pub options: Vec<Outcome>,
}

/// What the conductor does itself.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Action {
    /// One commit of everything that was changed.
    Commit {
        /// Its message.
        message: Template,
    },
    /// A command in the clone.
    Command {
        /// Program and arguments.
        argv: Vec<Template>,
        /// Whether it may be repeated when it is not known if it ran.
        is_idempotent: bool,
    },
}

/// Runs at the same time.
#[derive(Debug, Clone)]
pub struct Parallel {
    /// One run each.
    pub branches: BTreeMap<BranchName, Call>,
    /// How many have to end well.
    pub join: Join,
}

/// How many branches have to end well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Join {
    /// All of them.
    All,
    /// One of them.
    Any,
    /// This many.
    Quorum(u32),
}

impl Join {
    /// How many of `branches` have to end well.
    pub fn needed(self, branches: usize) -> usize {
        match self {
            Self::All => branches,
            Self::Any => 1,
            Self::Quorum(count) => count as usize,
        }
    }
}

/// A run for every item of a list.
#[derive(Debug, Clone)]
pub struct Each {
    /// The list.
    pub over: Reference,
    /// The parameter that gets the item.
    pub item: ParamName,
    /// What is run.
    pub call: Call,
    /// Roles whose players change places after every item, and stay the same conversations.
    pub swap: Vec<RoleName>,
    /// How many run at the same time.
    pub at_once: u32,
    /// Items that are taken at most.
    pub max: u32,
}

/// One run of another workflow.
#[derive(Debug, Clone)]
pub struct Call {
    /// The workflow.
    pub workflow: WorkflowName,
    /// What it is given.
    pub params: BTreeMap<ParamName, Given>,
    /// Where the call is written.
    pub at: Pos,
}

/// A value for a parameter of a called workflow.
#[derive(Debug, Clone, PartialEq)]
pub enum Given {
    /// As it stands in the definition.
    Value(serde_json::Value),
    /// Filled in when the run starts.
    Template(Template),
}

impl State {
    /// Where the outcome leads: what is written, or the default.
    pub fn target<'a>(&'a self, outcome: &str, workflow: &'a Workflow) -> &'a StateName {
        match (self.on.iter().find(|(known, _)| known.as_str() == outcome), outcome) {
            (Some((_, target)), _) => &target.state,
            (None, Outcome::FAIL) => &self.name,
            (None, _) => workflow.escalation(),
        }
    }

    /// How long is waited for what is to happen here.
    pub fn timeout(&self) -> Duration {
        self.limits.timeout.unwrap_or(TIMEOUT)
    }

    /// Outcomes that need a target.
    pub fn required_outcomes(&self) -> Vec<Outcome> {
        match &self.kind {
            Kind::Agent(work) => match &work.gate {
                Gate::Evidence { .. } | Gate::Command { .. } => vec![Outcome::new(Outcome::PASS)],
                Gate::Verdict { options, .. } => options.clone(),
                Gate::Human(question) => question.options.clone(),
            },
            Kind::Human(question) => question.options.clone(),
            Kind::Action(_) | Kind::Parallel(_) | Kind::Each(_) | Kind::Call(_) => vec![Outcome::new(Outcome::PASS)],
            Kind::Done { .. } | Kind::Escalate => Vec::new(),
        }
    }

    /// Outcomes that have a default.
    pub fn optional_outcomes(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::Done { .. } | Kind::Escalate => &[],
            Kind::Human(_) => &[Outcome::EXHAUSTED],
            _ => &[Outcome::FAIL, Outcome::EXHAUSTED],
        }
    }

    /// Every outcome with where it leads, defaults included.
    pub fn edges<'a>(&'a self, workflow: &'a Workflow) -> Vec<(Outcome, &'a StateName)> {
        let optional = self.optional_outcomes().iter().map(|outcome| Outcome::new(outcome));
        self.required_outcomes()
            .into_iter()
            .chain(optional)
            .map(|outcome| {
                let target = self.target(outcome.as_str(), workflow);
                (outcome, target)
            })
            .collect()
    }

    /// Whether a run ends here.
    pub fn is_end(&self) -> bool {
        matches!(self.kind, Kind::Done { .. } | Kind::Escalate)
    }

    /// The workflows that the state runs.
    pub fn calls(&self) -> Vec<&Call> {
        match &self.kind {
            Kind::Parallel(parallel) => parallel.branches.values().collect(),
            Kind::Each(each) => vec![&each.call],
            Kind::Call(call) => vec![call],
            _ => Vec::new(),
        }
    }
}

impl Gate {
    /// The fields that an agent has to submit.
    pub fn fields(&self) -> Option<&Fields> {
        match self {
            Self::Evidence { fields, .. } | Self::Verdict { fields, .. } => Some(fields),
            Self::Command { .. } | Self::Human(_) => None,
        }
    }

    /// The function that checks it.
    pub fn verify(&self) -> Option<&VerifyRef> {
        match self {
            Self::Evidence { verify, .. } | Self::Verdict { verify, .. } | Self::Command { verify, .. } => {
                verify.as_ref()
            }
            Self::Human(_) => None,
        }
    }
}

impl Workflow {
    /// The state of this name.
    pub fn state(&self, name: &StateName) -> Option<&State> {
        self.states.iter().find(|state| state.name == *name)
    }

    /// The state in which a person has to take over; reading a definition adds one if there is none.
    pub fn escalation(&self) -> &StateName {
        self.states.iter().find(|state| matches!(state.kind, Kind::Escalate)).map_or(&self.start, |state| &state.name)
    }
}
