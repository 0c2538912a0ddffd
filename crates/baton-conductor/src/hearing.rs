//! Hearing: what agents, tasks and people say becomes an event of a run, or goes back to them with a reason.

use baton_core::{Area, Fault, Tier};
use baton_tools::PUT_BACK;
use baton_workflow::{Caps, EffectId, EventBody, Rejected, RunId, Wait};
use tokio_util::sync::CancellationToken;

use crate::conductor::Conductor;
use crate::handing_in::{Told, What};
use crate::hosting::{Heard, Used};
use crate::live::{By, ConductError, Done, Handed, Said, Trouble};

impl Conductor {
    /// Says what a person says to a run.
    pub async fn say(&mut self, id: &RunId, said: Said) -> Result<(), ConductError> {
        let run = &self.runs.get(id).ok_or_else(|| ConductError::NoRun(id.clone()))?.run;
        let body = match said {
            Said::Stop { reason } => EventBody::Stopped { reason },
            Said::Raise { caps } => return self.raise(id, caps).await,
            Said::Answer { answer, comment } => {
                let effect = match run.visit().map(|visit| &visit.wait) {
                    Some(Wait::Help { ask, .. } | Wait::Approval { ask, .. } | Wait::Person { ask }) => ask.clone(),
                    _ => return Err(Rejected::Malformed(vec!["nobody has asked anything".to_owned()]).into()),
                };
                EventBody::PersonAnswered { effect, answer, comment }
            }
            Said::Evidence { fields } => {
                let waits = run.visit().map(|visit| &visit.wait);
                let Some(Wait::Agent { dispatch, .. } | Wait::Help { ask: dispatch, .. }) = waits else {
                    return Err(Rejected::Malformed(vec!["no evidence is waited for".to_owned()]).into());
                };
                let dispatch = dispatch.clone();
                let Some(looking) = self.looking(id, None) else { return Ok(()) };
                let seen = looking.await;
                return self
                    .handed_in(Handed {
                        run: id.clone(),
                        dispatch,
                        fields,
                        seen,
                        used: Used::default(),
                        by: By::Person,
                    })
                    .await;
            }
        };
        self.take(id, body).await
    }

    /// Raises the caps of a run. Those inside it may use what is left then.
    async fn raise(&mut self, id: &RunId, caps: Caps) -> Result<(), ConductError> {
        self.take(id, EventBody::CapRaised { tokens: caps.tokens, usd: caps.usd }).await?;
        let Some(around) = self.runs.get(id).map(|live| live.run.total()) else { return Ok(()) };
        let inside: Vec<RunId> = self.runs.keys().filter(|other| self.is_inside(other, id)).cloned().collect();
        for other in inside {
            let Some(own) = self.runs.get(&other).map(|live| live.run.total()) else { continue };
            let tokens = caps.tokens.map(|cap| cap.saturating_sub(around.tokens).saturating_add(own.tokens));
            let usd = caps.usd.map(|cap| cap.saturating_sub(around.usd) + own.usd);
            self.take_if_current(&other, EventBody::CapRaised { tokens, usd }).await?;
        }
        Ok(())
    }

    /// Hears what an agent says or did.
    pub(crate) async fn hear(&mut self, heard: Heard) -> Result<(), ConductError> {
        match heard {
            Heard::Spent { run, effect, used } => self.spent(&run, &effect, used).await,
            Heard::Refused { run, effect, text, noted } => {
                let taken = self.take_if_current(&run, EventBody::Noted { effect, text }).await;
                drop(noted);
                taken
            }
            Heard::Told { run, told: Told { dispatch, what, reply }, used } => {
                if self.runs.get(&run).is_none_or(|live| !live.owed.contains_key(&dispatch)) {
                    drop(reply.send(Err("not handed in: this is not waited for any more; end your turn".to_owned())));
                    return self.spent(&run, &dispatch, used).await;
                }
                match what {
                    What::NeedsHelp(question) => {
                        self.spent(&run, &dispatch, used).await?;
                        let taken = self.take(&run, EventBody::HelpRequested { effect: dispatch, question }).await;
                        let answer = match &taken {
                            Ok(()) => Ok("A person is asked. Your turn ends here.".to_owned()),
                            Err(error) => Err(error.to_string()),
                        };
                        drop(reply.send(answer));
                        stale_is_fine(taken)
                    }
                    What::Submitted(fields) => {
                        let role = self.runs.get(&run).and_then(|live| live.dispatches.get(&dispatch));
                        let role = role.map(|dispatch| dispatch.role.clone());
                        let Some(looking) = self.looking(&run, role.as_ref()) else {
                            return self.spent(&run, &dispatch, used).await;
                        };
                        self.tasks.spawn(async move {
                            let seen = looking.await;
                            Done::Seen(Box::new(Handed { run, dispatch, fields, seen, used, by: By::Agent(reply) }))
                        });
                        Ok(())
                    }
                }
            }
        }
    }

    /// What was used counts in the run and in those around it.
    pub(crate) async fn spent(&mut self, run: &RunId, effect: &EffectId, used: Used) -> Result<(), ConductError> {
        if used.is_nothing() {
            return Ok(());
        }
        self.take_all(self.spending(run, effect, &used), Some(used)).await?;
        self.rest_inside(run).await
    }

    fn spending(&self, run: &RunId, effect: &EffectId, used: &Used) -> Vec<(RunId, EventBody)> {
        let spent = |effect| EventBody::Spent { effect, tokens: used.tokens(), usd: used.usd };
        let mut events = vec![(run.clone(), spent(effect.clone()))];
        let mut inner = run.clone();
        while let Some((parent, effect)) = self.runs.get(&inner).and_then(|live| live.parent.clone()) {
            events.push((parent.clone(), spent(effect)));
            inner = parent;
        }
        events
    }

    /// Something came of a task.
    pub(crate) async fn done(&mut self, done: Done) -> Result<(), ConductError> {
        match done {
            Done::Event(run, body) => self.take_if_current(&run, body).await,
            Done::Finished(run, effect, told) => self.finished(&run, &effect, told).await,
            Done::Seen(handed) => self.handed_in(*handed).await,
            Done::Played(run, dispatch, played) => self.played(&run, &dispatch, played).await,
            Done::Stalled(fault) => Err(fault.into()),
        }
    }

    /// Takes what was handed in; what is wrong with it goes back.
    async fn handed_in(&mut self, handed: Handed) -> Result<(), ConductError> {
        let Handed { run, dispatch, fields, seen, used, by } = handed;
        let agent = self.working.get(&dispatch).cloned();
        let taken = match seen {
            Ok((work, mended)) => {
                if !mended.is_empty() {
                    let text = format!("{PUT_BACK}{}", mended.join(", "));
                    self.take_if_current(&run, EventBody::Noted { effect: dispatch.clone(), text }).await?;
                }
                match self.missing_paths(&run, &fields) {
                    problems if problems.is_empty() => {
                        let effect = dispatch.clone();
                        let mut events = vec![(run.clone(), EventBody::EvidenceSubmitted { effect, fields, work })];
                        if !used.is_nothing() {
                            events.extend(self.spending(&run, &dispatch, &used));
                        }
                        self.take_all(events, Some(used.clone())).await
                    }
                    problems => Err(Rejected::Malformed(problems).into()),
                }
            }
            Err(Trouble::Work(why)) => Err(Fault::new(Area::Task, Tier::UserFixable, why).into()),
            Err(Trouble::Machine(fault)) => {
                self.unanswered.push(by);
                // As far as the machine lets it be written down.
                drop(self.spent(&run, &dispatch, used).await);
                return Err(fault.into());
            }
        };
        match &taken {
            Ok(()) => self.rest_inside(&run).await?,
            Err(_) => self.spent(&run, &dispatch, used).await?,
        }
        if taken.is_err()
            && let Some(live) = self.runs.get(&run)
        {
            // The work goes on.
            live.place.forget_settled().map_err(|error| Fault::internal(error.to_string()))?;
        }
        match (by, taken) {
            (By::Agent(reply), Ok(())) => {
                drop(reply.send(Ok("Handed in. Baton verifies it now; your turn ends here.".to_owned())));
                Ok(())
            }
            (By::Agent(reply), Err(ConductError::Rejected(rejected))) => {
                drop(reply.send(Err(format!("not handed in: {rejected}. Mend it and hand it in again"))));
                Ok(())
            }
            (By::Agent(reply), Err(ConductError::Fault(fault))) => {
                drop(reply.send(Err(format!("not handed in: {fault}"))));
                Ok(())
            }
            (By::EndOfTurn, Err(ConductError::Fault(fault))) => {
                let reason = fault.to_string();
                self.take_if_current(&run, EventBody::AttemptFailed { effect: dispatch, reason }).await
            }
            (By::EndOfTurn, taken) => stale_is_fine(taken),
            (By::Person, Ok(())) => {
                // Whoever was at it is not needed any more.
                agent.inspect(CancellationToken::cancel);
                Ok(())
            }
            (By::Person | By::Agent(_), taken) => taken,
        }
    }
}

/// What came too late changes nothing.
pub(crate) fn stale_is_fine(taken: Result<(), ConductError>) -> Result<(), ConductError> {
    match taken {
        Err(ConductError::Rejected(_)) => Ok(()),
        taken => taken,
    }
}
