//! Telling: what an event and its consequences look like from outside. Decides nothing.

use baton_workflow::{Event, EventBody, Kind, Phase, Run, RunId, Visit, Wait};

use crate::conductor::Conductor;
use crate::report::RunEventBody;

impl Conductor {
    /// Tells what became of a run by an event.
    pub(crate) fn tell(&self, id: &RunId, before: &Run, event: &Event) {
        let Some(live) = self.runs.get(id) else { return };
        let (run, at) = (&live.run, event.at);
        let say = |body: RunEventBody| self.reports.run(id, at, body);
        match &event.body {
            EventBody::Started { params, .. } => say(RunEventBody::Started {
                workflow: run.workflow.clone(),
                params: params.clone(),
                clone: live.place.clone.tree().display().to_string(),
                resumed: false,
            }),
            EventBody::EvidenceSubmitted { effect, fields, work } => {
                if let Some(state) = effect.state() {
                    let evidence = fields.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
                    let changed = work.changed.iter().map(ToString::to_string).collect();
                    say(RunEventBody::Submitted { state, evidence, changed });
                }
            }
            EventBody::Verified { effect, result } => {
                if let Some(state) = effect.state() {
                    let (command, code) = (result.argv.clone(), result.code);
                    say(RunEventBody::Verified { state, command, code, duration_ms: result.duration_ms });
                }
            }
            EventBody::ActionDone { effect, receipt } => {
                say(RunEventBody::Acted { effect: effect.clone(), receipt: receipt.clone() });
            }
            EventBody::Noted { effect, text } => {
                if let Some(dispatch) = live.dispatches.get(effect) {
                    say(RunEventBody::Refused { role: dispatch.role.clone(), text: text.clone() });
                }
            }
            _ => {}
        }
        for left in run.trail.iter().skip(before.trail.len()) {
            let because =
                run.visit().and_then(|visit| visit.because.as_ref()).filter(|because| because.state == left.state);
            let reason = because.and_then(|because| because.reason.clone());
            say(RunEventBody::Left {
                state: left.state.clone(),
                outcome: left.outcome.clone(),
                to: left.to.clone(),
                reason,
            });
        }
        if let Phase::At(visit) = &run.phase
            && is_new(before, visit)
        {
            let workflow = live.definition.workflow(&run.workflow);
            let role = workflow.and_then(|workflow| match &workflow.state(&visit.state)?.kind {
                Kind::Agent(work) => Some(work.role.clone()),
                _ => None,
            });
            let reason = visit.because.as_ref().and_then(|because| because.reason.clone());
            say(RunEventBody::Entered { state: visit.state.clone(), role, attempt: visit.attempt, reason });
        }
    }

    /// Tells that a run goes on.
    pub fn tell_resumed(&self, id: &RunId) {
        let Some(live) = self.runs.get(id) else { return };
        let body = RunEventBody::Started {
            workflow: live.run.workflow.clone(),
            params: live.run.params.clone(),
            clone: live.place.clone.tree().display().to_string(),
            resumed: true,
        };
        self.reports.run(id, self.clock.now(), body);
    }
}

/// Whether a visit began with this event: another state, another attempt, or new work in it.
fn is_new(before: &Run, visit: &Visit) -> bool {
    let Some(old) = before.visit() else { return true };
    let was_dispatched = |visit: &Visit| matches!(&visit.wait, Wait::Agent { .. });
    old.state != visit.state || old.attempt != visit.attempt || (!was_dispatched(old) && was_dispatched(visit))
}
