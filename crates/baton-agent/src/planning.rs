//! `plan`: the way out of plan mode. A person approves a plan, and what it names is granted, bound to its hash.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_core::{Access, Answer, EventBody};
use baton_guard::audit::Decision;
use baton_guard::{Plan, Plans, Scope};
use baton_tools::{CallContext, Outcome, TypedTool, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::approvals::Approvals;
use crate::events::EventSink;
use crate::permission::Guard;
use crate::record::Record;

/// How many digits of a hash people are shown.
const SHORT: usize = 12;

/// Takes plans, asks the person about them, and grants what was approved.
pub(crate) struct Planning {
    guard: Arc<Guard>,
    approvals: Arc<Approvals>,
    record: Option<Record>,
    events: EventSink,
    plans: Plans,
    handed_in: Mutex<HandedIn>,
}

/// What came of the plans so far.
#[derive(Default)]
struct HandedIn {
    /// The number of the latest.
    version: u32,
    /// Its hash.
    hash: String,
    /// Whether it is approved.
    is_approved: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    plan: String,
    #[serde(default)]
    commands: Vec<String>,
    #[serde(default)]
    paths: Vec<String>,
}

impl Planning {
    pub(crate) fn new(
        guard: Arc<Guard>,
        approvals: Arc<Approvals>,
        record: Option<Record>,
        events: EventSink,
        plans: Plans,
    ) -> Self {
        Self { guard, approvals, record, events, plans, handed_in: Mutex::default() }
    }

    fn handed_in(&self) -> MutexGuard<'_, HandedIn> {
        self.handed_in.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks a plan and keeps it.
    async fn take(&self, input: Input, workspace: &Workspace) -> Result<Plan, String> {
        let scope = Scope { cwd: workspace.cwd(), ..workspace.guard().scope().clone() };
        let (rules, plans) = (self.guard.rules(), self.plans.clone());
        let taking = tokio::task::spawn_blocking(move || {
            let Input { plan, commands, paths } = input;
            let plan = Plan::new(&plan, &commands, &paths, &rules, &scope).map_err(|problems| {
                format!(
                    "the plan was not shown to the person. Mend this and hand it in again:\n- {}",
                    problems.join("\n- ")
                )
            })?;
            plans.keep(&plan).map_err(|error| format!("the plan was not shown to the person: {error}"))?;
            Ok(plan)
        });
        taking.await.map_err(|error| error.to_string())?
    }

    /// The number of this plan; none if it is the one that is approved. What the one before was granted ends here, whatever
    /// is said about this one.
    fn succeed(&self, hash: &str, workspace: &Workspace) -> Option<u32> {
        let mut handed_in = self.handed_in();
        if handed_in.hash == hash {
            return (!handed_in.is_approved).then_some(handed_in.version);
        }
        *handed_in = HandedIn { version: handed_in.version + 1, hash: hash.to_owned(), is_approved: false };
        self.guard.void();
        set_read_only(workspace, true);
        Some(handed_in.version)
    }

    /// Grants what a plan names, after that is on record.
    async fn approve(&self, plan: &Plan, version: u32, workspace: &Workspace) -> Result<(), String> {
        let rules = plan.rules().map_err(|error| error.to_string())?;
        self.note(plan, Decision::Approved).await.map_err(|why| format!("nothing is granted: {why}"))?;
        self.guard.grant(rules);
        set_read_only(workspace, false);
        self.handed_in().is_approved = true;
        let text = format!(
            "plan {version} ({}) is approved: what it names runs unasked, anything else is asked for",
            short(&plan.hash())
        );
        self.events.emit_lone(EventBody::Noticed { text }).await;
        Ok(())
    }

    async fn note(&self, plan: &Plan, decision: Decision) -> Result<(), String> {
        match &self.record {
            Some(record) => record.note_plan(plan, decision).await,
            None => Ok(()),
        }
    }
}

impl TypedTool for Planning {
    type Input = Input;
    const NAME: &'static str = "plan";
    const DESCRIPTION: &'static str = include_str!("planning.md");
    const ACCESS: Access = Access::Read;
    // People take their time.
    const OWN_LIMITS: bool = true;
    // What is granted must not change under a call that runs.
    const PARALLEL: bool = false;

    async fn call(&self, input: Input, cx: &CallContext) -> Result<Outcome, String> {
        let plan = self.take(input, &cx.workspace).await?;
        let hash = plan.hash();
        let Some(version) = self.succeed(&hash, &cx.workspace) else {
            return Ok(Outcome::ok("this very plan is approved already: carry it out"));
        };
        let shown = |outcome: Outcome| {
            let grants = plan.grants();
            outcome.with("version", version).with("hash", hash.clone()).with("grants", grants)
        };
        if !self.approvals.is_attended() {
            return Ok(shown(Outcome::ok(format!(
                "kept as plan {version} ({}), for a person to approve and to have carried out later. Nobody is here to do \
                 that now: stop, and end with a short summary of the plan.",
                short(&hash)
            ))));
        }
        let reason = format!("plan {version}, sha256 {hash}: approve it with what it grants, or say what to change");
        let answer = tokio::select! {
            answer = self.approvals.ask_about_plan(&cx.call, &plan, reason) => answer,
            () = cx.cancel.cancelled() => return Err("cancelled; the plan is not approved".to_owned()),
        };
        let change = match answer {
            Some(Answer::Once | Answer::Session | Answer::Always) => {
                self.approve(&plan, version, &cx.workspace).await?;
                return Ok(shown(Outcome::ok(format!(
                    "plan {version} is approved. Plan mode is over: carry it out. The commands and paths that it names run \
                     unasked; the person is asked about anything else."
                )))
                .with("approved", true));
            }
            Some(Answer::Text { text: change } | Answer::Reject { reason: Some(change) }) => Some(change),
            Some(Answer::Reject { reason: None }) | None => None,
        };
        self.note(&plan, Decision::Denied).await?;
        let told = match change {
            Some(change) => format!(
                "plan {version} is not approved. The person wants this changed: {change}\n\
                 Look again where that is needed, and hand in the next version."
            ),
            None => format!(
                "plan {version} is not approved, and the person did not say why. You are still in plan mode: ask \
                 them, or stop."
            ),
        };
        Ok(shown(Outcome::error(told)))
    }
}

/// Lets commands write, or not. Where there is no sandbox it is the guard alone that refuses.
fn set_read_only(workspace: &Workspace, is_read_only: bool) {
    if let Some(confinement) = workspace.confinement() {
        confinement.set_read_only(is_read_only);
    }
}

/// The digits of a hash that are enough to name a plan.
fn short(hash: &str) -> &str {
    hash.get(..SHORT).unwrap_or(hash)
}
