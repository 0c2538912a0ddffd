//! Carrying out a plan that was made before: it is found by its hash, shown, put on record, and granted what it names.

use baton_agent::Options;
use baton_core::{Area, Block, Fault, PermissionMode, Tier};
use baton_guard::audit::{Audit, Decision, Record};
use baton_guard::{Plan, PlanError, Plans};
use jiff::Timestamp;

use crate::setup::Setup;

/// What is said where the person says nothing but which plan.
pub const PROMPT: &str = "Carry out the approved plan.";

impl Setup {
    /// The plans of the project.
    pub fn plans(&self) -> Result<Plans, Fault> {
        Ok(Plans::new(self.state_dir()?.join("plans")))
    }

    /// The plan whose hash begins with these digits.
    pub fn plan(&self, digits: &str) -> Result<Plan, Fault> {
        self.plans()?.find(digits).map_err(|error| {
            let hint = match &error {
                PlanError::Changed { .. } => "nothing was run; let a new plan be made with --permission-mode plan",
                PlanError::Io { .. } => "make it readable, or let a new plan be made with --permission-mode plan",
                PlanError::NoHash(_) | PlanError::Missing(_) | PlanError::Ambiguous(_) => {
                    "`baton exec --permission-mode plan \"…\"` makes a plan and shows its hash"
                }
            };
            Fault::input(error.to_string()).hint(hint)
        })
    }

    /// The mode in which a plan is carried out: what it does not name is asked for, unless the command line says otherwise.
    pub fn mode_of_plan(&self, asked: Option<PermissionMode>) -> Result<PermissionMode, Fault> {
        if self.is_too_wide() {
            let message = format!("{} is too wide to carry out a plan in", self.project.root.display());
            return Err(Fault::input(message).hint("name a directory of a project with -C DIR"));
        }
        match asked {
            Some(PermissionMode::Plan) => Err(Fault::input("a plan that is carried out cannot stay in plan mode")
                .hint("leave --permission-mode out, or leave --plan out to make another plan")),
            asked => Ok(asked.unwrap_or(PermissionMode::Ask)),
        }
    }

    /// Gives a conversation the plan and what it grants. The approval is on record first.
    pub fn carry_out(&self, plan: &Plan, options: &mut Options) -> Result<(), Fault> {
        let rules = plan.rules().map_err(|error| {
            Fault::input(format!("the plan cannot be granted: {error}"))
                .hint("let a new plan be made with --permission-mode plan")
        })?;
        let record = Record {
            kind: "plan".to_owned(),
            actor: "person".to_owned(),
            what: plan.in_one_line(),
            decision: Some(Decision::Approved),
        };
        let audit = Audit::new(&self.places.state_dir, &self.project.id, self.redactor());
        let logged = audit.append(Timestamp::now(), record);
        logged.map_err(|error| Fault::new(Area::Workspace, Tier::UserFixable, error.to_string()))?;
        options.permissions.granted.join(&rules);
        options.opening.push(Block::text(told(plan)));
        options.notices.push(format!("plan {} is approved by --plan, and granted:{}", plan.hash(), listed(plan)));
        Ok(())
    }
}

/// What the model is told about the plan.
fn told(plan: &Plan) -> String {
    format!(
        "The person has approved the plan below. These commands and files are granted, and nothing else is:{}\n<plan>\n{}\n\
         </plan>",
        listed(plan),
        plan.text()
    )
}

fn listed(plan: &Plan) -> String {
    let grants = plan.grants();
    if grants.is_empty() { " nothing".to_owned() } else { format!("\n  {}", grants.join("\n  ")) }
}
