//! States in which an agent works: dispatch, evidence, verification, and what goes wrong there.

use std::collections::BTreeMap;

use baton_core::Tokens;
use serde_json::{Map, Value};

use super::{Because, Dispatch, EffectBody, Phase, Rejected, Seen, Stepper, Submission, Visit, Wait};
use crate::definition::{Gate, Kind, State, Work};
use crate::field::{Evidence, Fields};
use crate::names::{EffectId, FieldName, Outcome, Player, RoleName, StateName};
use crate::scope::Scope;
use crate::verify::{self, CommandResult, Context, Judgement};

/// How much of a request for help is kept.
const QUESTION_CHARS_MAX: usize = 4000;
/// How many changed files of one state are remembered.
const CHANGED_MAX: usize = 10_000;

impl Stepper<'_> {
    pub(super) fn dispatch(&mut self, state: &State, work: &Work, attempt: u32, because: Option<Because>) -> EffectId {
        let spent = self.run.spent.get(&state.name).copied().unwrap_or_default();
        let (caps, total) = (self.caps(), self.run.total());
        let of_state = state.limits.tokens.map(|limit| limit.saturating_sub(spent.tokens));
        let of_run = caps.tokens.map(|cap| cap.saturating_sub(total.tokens));
        let usd_of_state = state.limits.usd.map(|limit| limit.saturating_sub(spent.usd));
        let usd_of_run = caps.usd.map(|cap| cap.saturating_sub(total.usd));
        let dispatch = Dispatch {
            role: work.role.clone(),
            player: self.player(&work.role, work.is_fresh),
            attempt,
            task: work.task.as_ref().map(|task| task.render(|reference| self.value(reference))),
            inputs: self.inputs(work),
            because,
            tokens_left: of_state.into_iter().chain(of_run).min().unwrap_or(Tokens::MAX),
            usd_left: usd_of_state.into_iter().chain(usd_of_run).min(),
        };
        self.emit(&state.name, EffectBody::Dispatch(Box::new(dispatch)))
    }

    /// The conversation that plays a role; a fresh one is known by the number of its dispatch.
    fn player(&self, role: &RoleName, is_fresh: bool) -> Player {
        let own = || Player::new(format!("{}/{role}", self.run.id));
        let player = self.run.players.get(role).cloned().unwrap_or_else(own);
        if is_fresh { Player::new(format!("{player}#{}", self.run.effects + 1)) } else { player }
    }

    fn inputs(&self, work: &Work) -> BTreeMap<StateName, Evidence> {
        let names = work.inputs.iter().map(|(name, _)| name);
        names.filter_map(|name| self.run.evidence.get(name).map(|evidence| (name.clone(), evidence.clone()))).collect()
    }

    /// Gives the work of the same attempt out again, with what was said meanwhile.
    pub(super) fn resume(&mut self, visit: &Visit, said: Option<String>) {
        let Some(state) = self.workflow.state(&visit.state) else { return };
        let wait = match &state.kind {
            Kind::Agent(work) => {
                let because = said.map_or_else(
                    || visit.because.clone(),
                    |said| {
                        let outcome = Outcome::new("help");
                        Some(Because { state: visit.state.clone(), outcome, reason: Some(said), evidence: None })
                    },
                );
                Wait::Agent { dispatch: self.dispatch(state, work, visit.attempt, because), reminded: false }
            }
            _ => self.start_children(state, visit.wait.clone()),
        };
        self.wait_for(visit.clone(), wait);
    }

    /// The same visit waits for something else, with a timer of its own.
    pub(super) fn wait_for(&mut self, visit: Visit, wait: Wait) {
        let Some(deadline) = self.state(&visit.state).map(|state| self.deadline(state)) else { return };
        let timer = self.emit(&visit.state, EffectBody::SetTimer { deadline });
        self.run.phase = Phase::At(Box::new(Visit { timer, deadline, wait, ..visit }));
    }

    /// Nobody works for this visit any more.
    pub(super) fn release(&mut self, visit: &Visit, reason: &str) {
        let reason = reason.to_owned();
        match &visit.wait {
            Wait::Agent { dispatch, .. } | Wait::Help { dispatch, .. } => {
                let dispatch = dispatch.clone();
                self.emit(&visit.state, EffectBody::Release { dispatch, reason });
            }
            Wait::Verification { submission, .. } | Wait::Approval { submission, .. } => {
                let dispatch = submission.dispatch.clone();
                self.emit(&visit.state, EffectBody::Release { dispatch, reason });
            }
            Wait::Children { running, .. } => {
                for effect in running.keys() {
                    let run = crate::names::RunId::child(effect);
                    self.emit(&visit.state, EffectBody::StopChild { run, reason: reason.clone() });
                }
            }
            Wait::Action { .. } | Wait::Person { .. } => {}
        }
    }

    pub(super) fn submitted(
        &mut self,
        visit: &Visit,
        effect: &EffectId,
        fields: &Map<String, Value>,
        seen: &Seen,
    ) -> Result<(), Rejected> {
        let Some(Kind::Agent(work)) = self.workflow.state(&visit.state).map(|state| &state.kind) else {
            return Err(Rejected::Stale(effect.clone()));
        };
        // Whoever is asked for help may do the work instead; the agent that asked waits.
        let dispatch = match &visit.wait {
            Wait::Agent { dispatch, .. } if dispatch == effect => dispatch,
            Wait::Help { ask, dispatch } if ask == effect => dispatch,
            _ => return Err(Rejected::Stale(effect.clone())),
        };
        let asked = work.gate.fields().cloned().unwrap_or(Fields::default());
        let mut evidence = asked.read(fields).map_err(Rejected::Malformed)?;
        let verdict = match &work.gate {
            Gate::Verdict { .. } => take_verdict(&mut evidence),
            Gate::Evidence { .. } | Gate::Command { .. } | Gate::Human(_) => None,
        };
        if let Some(reason) = self.out_of_bounds(work, seen) {
            self.fail(reason);
            return Ok(());
        }
        let changed = self.run.changed.entry(visit.state.clone()).or_default();
        changed.extend(seen.changed.iter().take(CHANGED_MAX.saturating_sub(changed.len())).cloned());
        let submission =
            Submission { dispatch: dispatch.clone(), evidence, verdict, work: seen.clone(), results: Vec::new() };
        self.judge(visit.clone(), submission);
        Ok(())
    }

    /// Files that were changed, but may not be.
    fn out_of_bounds(&self, work: &Work, seen: &Seen) -> Option<String> {
        const SHOWN: usize = 5;
        let scope = Scope::of(self.workflow.roles.get(&work.role).map_or(&[], |role| role.write.as_slice()));
        let mut refused = seen.changed.iter().filter_map(|path| match self.run.frozen.by(path) {
            Some(state) => Some(format!("`{path}` is frozen by `{state}`")),
            None if !scope.allows(path) => Some(format!("`{path}` is not among the files of role `{}`", work.role)),
            None => None,
        });
        let shown: Vec<String> = refused.by_ref().take(SHOWN).collect();
        let more = refused.count();
        let tail = if more == 0 { String::new() } else { format!(", and {more} more") };
        (!shown.is_empty()).then(|| format!("files were changed that may not be: {}{tail}", shown.join(", ")))
    }

    /// Asks the gate, as far as the results so far go.
    fn judge(&mut self, visit: Visit, submission: Submission) {
        let Some(Kind::Agent(work)) = self.workflow.state(&visit.state).map(|state| &state.kind) else { return };
        let context = Context {
            params: self.run.params.clone(),
            evidence: submission.evidence.clone(),
            verdict: submission.verdict.clone(),
            inputs: self.inputs(work),
            changed: self.run.changed.get(&visit.state).into_iter().flatten().cloned().collect(),
        };
        match verify::evaluate(self.definition, &work.gate, &context, &submission.results) {
            Judgement::Needs(argv) => {
                let tree = submission.work.tree.clone();
                let effect = self.emit(&visit.state, EffectBody::Verify { argv, tree });
                self.wait_for(visit, Wait::Verification { effect, submission });
            }
            Judgement::Failed(reason) => self.fail(reason),
            Judgement::Broken(reason) => self.escalate(reason),
            Judgement::Passed => self.passed(visit, submission),
        }
    }

    fn passed(&mut self, visit: Visit, submission: Submission) {
        let Some(state) = self.workflow.state(&visit.state) else { return };
        let Kind::Agent(work) = &state.kind else { return };
        let outcome = match (&work.gate, &submission.verdict) {
            (Gate::Human(question), _) => {
                let ask = self.ask(state, question);
                self.wait_for(visit, Wait::Approval { ask, submission });
                return;
            }
            (Gate::Verdict { .. }, Some(verdict)) => verdict.as_str().to_owned(),
            _ => Outcome::PASS.to_owned(),
        };
        self.record(&visit.state, submission);
        self.leave(&outcome, None);
    }

    /// What passed its gate counts: later states see it, and what the state freezes is frozen.
    pub(super) fn record(&mut self, name: &StateName, submission: Submission) {
        if let Some(Kind::Agent(work)) = self.workflow.state(name).map(|state| &state.kind) {
            self.run.frozen.freeze(name, &work.freeze, &submission.work.tree);
        }
        let verdict = submission.verdict.and_then(|verdict| {
            FieldName::parse("verdict").ok().map(|name| (name, Value::String(verdict.as_str().to_owned())))
        });
        let fields = submission.evidence.iter().map(|(name, value)| (name.clone(), value.clone())).chain(verdict);
        self.run.evidence.insert(name.clone(), fields.collect());
    }

    pub(super) fn verified(&mut self, visit: Visit, effect: &EffectId, result: &CommandResult) -> Result<(), Rejected> {
        let Wait::Verification { effect: waiting, submission } = &visit.wait else {
            return Err(Rejected::Stale(effect.clone()));
        };
        if waiting != effect {
            return Err(Rejected::Stale(effect.clone()));
        }
        let mut submission = submission.clone();
        if result.tree != submission.work.tree {
            let (ran, submitted) = (&result.tree, &submission.work.tree);
            self.fail(format!("the command ran on tree {ran}, but tree {submitted} was submitted"));
            return Ok(());
        }
        let mut result = result.clone();
        let skip = result.output.len().saturating_sub(verify::OUTPUT_BYTES_MAX);
        let skip = (skip..=result.output.len()).find(|at| result.output.is_char_boundary(*at)).unwrap_or(0);
        result.output.drain(..skip);
        submission.results.push(result);
        self.judge(visit, submission);
        Ok(())
    }

    /// An agent that ends without evidence is told once; the second time is a failed attempt.
    pub(super) fn agent_ended(&mut self, mut visit: Visit, effect: &EffectId) -> Result<(), Rejected> {
        let missing = self.missing(&visit.state);
        match &mut visit.wait {
            Wait::Agent { dispatch, reminded } if dispatch == effect => {
                if *reminded {
                    self.fail("the agent ended its turn twice without evidence".to_owned());
                    return Ok(());
                }
                *reminded = true;
                let dispatch = dispatch.clone();
                self.emit(&visit.state, EffectBody::Remind { dispatch, missing });
                self.run.phase = Phase::At(Box::new(visit));
                Ok(())
            }
            _ => Err(Rejected::Stale(effect.clone())),
        }
    }

    fn missing(&self, name: &StateName) -> String {
        let Some(Kind::Agent(work)) = self.state(name).map(|state| &state.kind) else { return String::new() };
        let fields = work.gate.fields().map_or(Vec::new(), |fields| {
            let needed = fields.0.iter().filter(|(_, field)| !field.is_optional);
            needed.map(|(name, field)| format!("`{name}` ({})", field.kind.describe())).collect()
        });
        if fields.is_empty() {
            "your turn ended, but the work was not handed in".to_owned()
        } else {
            format!("your turn ended, but no evidence was submitted: {}", fields.join(", "))
        }
    }

    pub(super) fn help_requested(&mut self, visit: Visit, effect: &EffectId, question: &str) -> Result<(), Rejected> {
        match &visit.wait {
            Wait::Agent { dispatch, .. } if dispatch == effect => {
                let dispatch = dispatch.clone();
                let question: String = question.chars().take(QUESTION_CHARS_MAX).collect();
                let ask = self.emit(&visit.state, EffectBody::Ask { question, options: Vec::new() });
                self.wait_for(visit, Wait::Help { dispatch, ask });
                Ok(())
            }
            _ => Err(Rejected::Stale(effect.clone())),
        }
    }
}

fn take_verdict(evidence: &mut Evidence) -> Option<Outcome> {
    let name = FieldName::parse("verdict").ok()?;
    evidence.remove(&name).and_then(|value| value.as_str().map(Outcome::new))
}
