//! Ending: whatever works is stopped, so that nothing is left running; what may not be repeated is waited for a little.

use std::time::Duration;

use baton_workflow::{Act, EffectBody, EffectId, EventBody, RunId};
use tokio::sync::mpsc;

use crate::asking::end_git;
use crate::conductor::Conductor;
use crate::handing_in::Told;
use crate::hosting::Heard;
use crate::live::Done;
use crate::report::RunEventBody;

/// How long git, and how long everything may take to end.
const GIT_MAX: Duration = Duration::from_secs(2);
const END_MAX: Duration = Duration::from_secs(10);

impl Conductor {
    /// Ends whatever works. What is owed stays owed.
    pub(crate) async fn end_all(&mut self, ears: &mut mpsc::Receiver<Heard>) {
        self.is_ending = true;
        let once = self.under_way_once();
        for (run, _) in &once {
            let text =
                "an action that may not be repeated is under way: waiting for it to end; Ctrl-C again does not wait";
            self.reports.run(run, self.clock.now(), RunEventBody::Noticed { text: text.to_owned() });
        }
        for (_, cancel) in self.working.iter().filter(|(effect, _)| once.iter().all(|(_, other)| other != *effect)) {
            cancel.cancel();
        }
        let (git, end) = (tokio::time::sleep(GIT_MAX), tokio::time::sleep(END_MAX));
        tokio::pin!(git, end);
        let mut is_patient = true;
        loop {
            tokio::select! {
                done = self.tasks.join_next() => match done {
                    None => break,
                    // What such an action came to is known; nothing else that was broken off means anything.
                    Some(Ok(Done::Event(run, body))) if is_about(&body, &once) => {
                        drop(self.take_if_current(&run, body).await);
                    }
                    // What was handed in too late is handed in again; what it cost is paid.
                    Some(Ok(Done::Seen(handed))) => {
                        drop(self.spent(&handed.run, &handed.dispatch, handed.used).await);
                    }
                    Some(_) => {}
                },
                () = &mut git, if is_patient && once.is_empty() => {
                    is_patient = false;
                    end_git();
                }
                Some(heard) = ears.recv() => if let Heard::Spent { run, effect, used }
                    | Heard::Told { run, told: Told { dispatch: effect, .. }, used } = heard
                {
                    // What was used counts, also in the last moment.
                    drop(self.spent(&run, &effect, used).await);
                },
                () = &mut end => {
                    for cancel in self.working.values() {
                        cancel.cancel();
                    }
                    end_git();
                    break;
                }
            }
        }
    }

    /// Actions that work now and may not be repeated.
    fn under_way_once(&self) -> Vec<(RunId, EffectId)> {
        let owed =
            self.runs.iter().flat_map(|(id, live)| live.owed.iter().map(move |(effect, body)| (id, effect, body)));
        let once = owed.filter(|(_, effect, body)| {
            matches!(body, EffectBody::Act { action: Act::Command { idempotent: false, .. } })
                && self.working.contains_key(*effect)
        });
        once.map(|(id, effect, _)| (id.clone(), effect.clone())).collect()
    }
}

fn is_about(body: &EventBody, effects: &[(RunId, EffectId)]) -> bool {
    let (EventBody::ActionDone { effect, .. } | EventBody::ActionFailed { effect, .. }) = body else { return false };
    effects.iter().any(|(_, other)| other == effect)
}
