//! Reports: what people and programs are told about a run while it goes on, as events of the one stream.

use std::collections::BTreeMap;

use baton_core::{Event, Fault, Timestamp, Usd};
use baton_workflow::{Argv, EffectId, End, Evidence, Outcome, Params, RoleName, RunId, StateName, WorkflowName};
use serde::Serialize;
use tokio::sync::mpsc;

/// Something to tell.
#[derive(Debug, Clone)]
pub enum Report {
    /// About a run.
    Run(Box<RunEvent>),
    /// What an agent of the run does, as it happens.
    Agent {
        /// The run.
        run: RunId,
        /// The role that it plays.
        role: RoleName,
        /// What it does.
        event: Box<Event>,
    },
}

/// Something that happened to a run.
#[derive(Debug, Clone, Serialize)]
pub struct RunEvent {
    /// The run.
    pub run: RunId,
    /// When.
    pub at: Timestamp,
    /// What.
    #[serde(flatten)]
    pub body: RunEventBody,
}

/// What happened to a run.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind")]
pub enum RunEventBody {
    /// Its place is being made: what is done.
    #[serde(rename = "run.prepare")]
    Preparing {
        /// What.
        text: String,
    },
    /// It has begun, or goes on.
    #[serde(rename = "run.start")]
    Started {
        /// What it runs.
        workflow: WorkflowName,
        /// The values of its parameters.
        params: Params,
        /// Where its agents work.
        clone: String,
        /// Whether it had begun before.
        resumed: bool,
    },
    /// It is in a state.
    #[serde(rename = "run.state")]
    Entered {
        /// The state.
        state: StateName,
        /// Who works there.
        #[serde(skip_serializing_if = "Option::is_none")]
        role: Option<RoleName>,
        /// Which attempt.
        attempt: u32,
        /// Why it is there again.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// Evidence was handed in.
    #[serde(rename = "gate.submitted")]
    Submitted {
        /// Where.
        state: StateName,
        /// What.
        evidence: BTreeMap<String, serde_json::Value>,
        /// Files that were changed.
        changed: Vec<String>,
    },
    /// The conductor runs a command for a gate, and that takes a while.
    #[serde(rename = "gate.verifying")]
    Verifying {
        /// Where.
        state: StateName,
        /// What is run.
        command: Argv,
    },
    /// The conductor ran a command for a gate.
    #[serde(rename = "gate.verified")]
    Verified {
        /// Where.
        state: StateName,
        /// What was run.
        command: Argv,
        /// How it ended.
        #[serde(skip_serializing_if = "Option::is_none")]
        code: Option<i32>,
        /// How long it took.
        duration_ms: u64,
    },
    /// A state was left.
    #[serde(rename = "gate.decided")]
    Left {
        /// The state.
        state: StateName,
        /// How.
        outcome: Outcome,
        /// Where to.
        to: StateName,
        /// Why, if something was wrong.
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// An action was done.
    #[serde(rename = "run.action")]
    Acted {
        /// Which.
        effect: EffectId,
        /// What it left.
        receipt: String,
    },
    /// An agent tried what it may not do.
    #[serde(rename = "run.refused")]
    Refused {
        /// Who.
        role: RoleName,
        /// What was refused, and why.
        text: String,
    },
    /// A person is asked.
    #[serde(rename = "run.question")]
    Asked {
        /// The question.
        question: String,
        /// The answers that count; none for free text.
        options: Vec<Outcome>,
    },
    /// It rests at a cap.
    #[serde(rename = "run.parked")]
    Parked {
        /// Which.
        reason: String,
    },
    /// Something that people should know.
    #[serde(rename = "run.notice")]
    Noticed {
        /// What.
        text: String,
    },
    /// Nobody works on it any more, though it has not ended: why.
    #[serde(rename = "error")]
    Failed(Fault),
    /// It has ended.
    #[serde(rename = "run.end")]
    Ended {
        /// How.
        #[serde(flatten)]
        end: End,
        /// The branch with its result.
        #[serde(skip_serializing_if = "Option::is_none")]
        branch: Option<String>,
        /// The last commit of it.
        #[serde(skip_serializing_if = "Option::is_none")]
        commit: Option<String>,
        /// Tokens that were used.
        tokens: u64,
        /// What it cost.
        cost_usd: Usd,
        /// What was handed in, by state.
        evidence: BTreeMap<StateName, Evidence>,
    },
}

/// Where reports go. Nobody has to listen.
#[derive(Debug, Clone)]
pub struct Reports(pub mpsc::UnboundedSender<Report>);

impl Reports {
    /// Tells why nobody works on a run any more.
    pub fn failed(&self, run: &RunId, at: Timestamp, fault: &Fault) {
        self.run(run, at, RunEventBody::Failed(fault.clone()));
    }

    pub(crate) fn run(&self, run: &RunId, at: Timestamp, body: RunEventBody) {
        drop(self.0.send(Report::Run(Box::new(RunEvent { run: run.clone(), at, body }))));
    }

    pub(crate) fn agent(&self, run: &RunId, role: &RoleName, event: Event) {
        drop(self.0.send(Report::Agent { run: run.clone(), role: role.clone(), event: Box::new(event) }));
    }
}
