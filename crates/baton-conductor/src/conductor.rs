//! The conductor: takes events one after another, writes down what follows, and has it carried out.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use baton_core::{Area, Clock, Fault, Tier};
use baton_store::{Beginning, Commit, Debt, Journal, Metric, Settled, StoreError};
use baton_workflow::{
    AgentFile, Caps, Definition, Dispatch, Effect, EffectBody, EffectId, Event, EventBody, Params, Phase, Rejected,
    Run, RunId, Seen, StateName, Wait, step,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::handing_in::{Told, What};
use crate::hosting::{Heard, Played, Used, orders_of};
use crate::orders::Orders;
use crate::report::{Reports, RunEventBody};
use crate::run_clone::{Identity, RunClone};
use crate::stage::Stage;

/// Facts of a run that its definition does not say. They stay as they were when it began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The commit that it starts from.
    pub base: String,
    /// The branch that its result is brought back to.
    pub branch: String,
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

/// A run that is conducted.
pub(crate) struct Live {
    pub(crate) run: Run,
    events: u64,
    pub(crate) definition: Arc<Definition>,
    pub(crate) parent: Option<(RunId, EffectId)>,
    pub(crate) place: Arc<Place>,
    pub(crate) facts: Arc<Facts>,
    /// What is owed and not settled.
    pub(crate) owed: BTreeMap<EffectId, EffectBody>,
    /// The work that was given out by this process.
    pub(crate) dispatches: HashMap<EffectId, Dispatch>,
}

/// Where a run works.
pub(crate) struct Place {
    pub(crate) clone: RunClone,
    pub(crate) orders: Arc<Mutex<Orders>>,
    /// One agent at a time works here: the next begins when everything of the one before has ended.
    pub(crate) desk: Arc<tokio::sync::Mutex<()>>,
    /// Results of runs inside come in one after another.
    pub(crate) joining: Mutex<()>,
}

impl Place {
    pub(crate) fn new(clone: RunClone) -> Self {
        let orders = orders_of(clone.dir());
        Self { clone, orders, desk: Arc::default(), joining: Mutex::default() }
    }
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
}

/// Something that was handed in, with what the conductor sees of the work.
pub(crate) struct Handed {
    pub(crate) run: RunId,
    pub(crate) dispatch: EffectId,
    pub(crate) fields: Map<String, Value>,
    /// What is seen, and what was put back because it may not be changed.
    pub(crate) seen: Result<(Seen, Vec<String>), String>,
    pub(crate) by: By,
}

/// Who handed something in.
pub(crate) enum By {
    /// An agent that waits for what comes of it.
    Agent(tokio::sync::oneshot::Sender<Result<String, String>>),
    /// An agent, by the end of its turn.
    EndOfTurn,
    /// A person.
    Person,
}

/// Owns runs while they are worked on.
pub struct Conductor {
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) stage: Arc<dyn Stage>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) reports: Reports,
    /// Where clones are.
    pub(crate) clones: PathBuf,
    pub(crate) repository: PathBuf,
    pub(crate) runs: BTreeMap<RunId, Live>,
    pub(crate) tasks: JoinSet<Done>,
    /// Whom to tell that an effect is not needed any more.
    pub(crate) working: HashMap<EffectId, CancellationToken>,
    pub(crate) heard: mpsc::Sender<Heard>,
    pub(crate) told: mpsc::Sender<Told>,
    /// One agent at a time speaks in a conversation.
    pub(crate) sessions: HashMap<baton_core::SessionId, Arc<tokio::sync::Mutex<()>>>,
    hearing: Option<(mpsc::Receiver<Heard>, mpsc::Receiver<Told>)>,
}

impl Conductor {
    /// A conductor for the runs of one repository.
    pub fn new(
        journal: Arc<dyn Journal>,
        stage: Arc<dyn Stage>,
        clock: Arc<dyn Clock>,
        reports: Reports,
        clones: PathBuf,
        repository: PathBuf,
    ) -> Self {
        let (heard, hears) = mpsc::channel(64);
        let (told, is_told) = mpsc::channel(64);
        Self {
            journal,
            stage,
            clock,
            reports,
            clones,
            repository,
            runs: BTreeMap::new(),
            tasks: JoinSet::new(),
            working: HashMap::new(),
            heard,
            told,
            sessions: HashMap::new(),
            hearing: Some((hears, is_told)),
        }
    }

    /// Starts a run whose clone is ready.
    pub async fn start(
        &mut self,
        id: &RunId,
        definition: Definition,
        params: Params,
        facts: Facts,
    ) -> Result<(), ConductError> {
        let workflow = definition.pin().workflow.clone();
        let place = Arc::new(Place::new(self.clone_of(id)));
        let live = self.fresh(id, Arc::new(definition), &workflow, None, place, Arc::new(facts))?;
        self.runs.insert(id.clone(), live);
        let body = EventBody::Started { params, players: BTreeMap::new(), caps: Caps::default() };
        self.take(id, body).await
    }

    /// The clone of a run.
    pub fn clone_of(&self, root: &RunId) -> RunClone {
        RunClone::new(self.clones.join(root.as_str()), self.repository.clone())
    }

    pub(crate) fn fresh(
        &self,
        id: &RunId,
        definition: Arc<Definition>,
        workflow: &baton_workflow::WorkflowName,
        parent: Option<(RunId, EffectId)>,
        place: Arc<Place>,
        facts: Arc<Facts>,
    ) -> Result<Live, ConductError> {
        let run = Run::new(id.clone(), &definition, workflow, self.clock.now());
        let run = run.ok_or_else(|| ConductError::NoDefinition(id.clone()))?;
        Ok(Live { run, events: 0, definition, parent, place, facts, owed: BTreeMap::new(), dispatches: HashMap::new() })
    }

    /// Takes up a run, and those inside it, as the journal has them, and carries out what it owes.
    pub async fn take_up(&mut self, root: &RunId) -> Result<(), ConductError> {
        let owed = self.load(root)?;
        self.carry_out_owed(owed).await
    }

    /// The same, after a person has said something: what is owed may be superfluous then.
    pub async fn take_up_saying(&mut self, root: &RunId, to: &RunId, said: Said) -> Result<(), ConductError> {
        let owed = self.load(root)?;
        self.say(to, said).await?;
        self.carry_out_owed(owed).await
    }

    /// Reads a run and those inside it; what is owed.
    fn load(&mut self, root: &RunId) -> Result<Vec<Debt>, ConductError> {
        let owed = self.journal.owed()?;
        let mut order = vec![(root.clone(), None)];
        while let Some((id, parent)) = order.pop() {
            let standing = self.journal.run(&id)?.ok_or_else(|| ConductError::NoRun(id.clone()))?;
            let unreadable = || ConductError::NoDefinition(id.clone());
            let pin = self.journal.pin(&standing.run.definition)?.ok_or_else(unreadable)?;
            let definition = Definition::from_pin(&pin).map_err(|_| unreadable())?;
            let facts: Facts = serde_json::from_value(standing.facts.clone()).map_err(|_| unreadable())?;
            let place = match &parent {
                Some((parent, effect)) => self.place_of_child(parent, effect)?,
                None => Arc::new(Place::new(self.clone_of(&id))),
            };
            let own = owed.iter().filter(|debt| debt.run == id);
            let live = Live {
                events: standing.events,
                definition: Arc::new(definition),
                parent,
                place,
                facts: Arc::new(facts),
                owed: own.map(|debt| (debt.effect.id.clone(), debt.effect.body.clone())).collect(),
                dispatches: HashMap::new(),
                run: standing.run,
            };
            let children = live.owed.iter().filter(|(_, body)| matches!(body, EffectBody::StartChild { .. }));
            for (effect, _) in children {
                let child = RunId::child(effect);
                if self.journal.run(&child)?.is_some() {
                    order.push((child, Some((id.clone(), effect.clone()))));
                }
            }
            self.runs.insert(id, live);
        }
        Ok(owed)
    }

    async fn carry_out_owed(&mut self, owed: Vec<Debt>) -> Result<(), ConductError> {
        for Debt { run, effect, is_begun } in owed {
            if self.runs.get(&run).is_some_and(|live| live.owed.contains_key(&effect.id)) {
                self.carry_out(&run, effect, is_begun).await?;
            }
        }
        Ok(())
    }

    /// One event: what follows is written down, then told, then carried out.
    pub(crate) async fn take(&mut self, id: &RunId, body: EventBody) -> Result<(), ConductError> {
        self.take_all(vec![(id.clone(), body)], None).await
    }

    /// Events of several runs, written down together; with what was used, if it is that.
    async fn take_all(&mut self, happened: Vec<(RunId, EventBody)>, used: Option<Used>) -> Result<(), ConductError> {
        let mut commits = Vec::new();
        let mut effects = Vec::new();
        let mut nexts = Vec::new();
        for (id, body) in happened {
            let live = self.runs.get(&id).ok_or_else(|| ConductError::NoRun(id.clone()))?;
            let mut at = self.clock.now();
            if let (EventBody::TimedOut { .. }, Some(visit)) = (&body, live.run.visit()) {
                // The time has passed, whatever became of the clock meanwhile.
                at = at.max(visit.deadline);
            }
            let event = Event { at, body };
            let (run, made) = step(&live.definition, &live.run, &event)?;
            let needed = needed(&run);
            let is_needed = |effect: &EffectId, body: &EffectBody| match body {
                EffectBody::Remind { dispatch, .. } => needed.contains(dispatch),
                EffectBody::Finish { .. } | EffectBody::StopChild { .. } => true,
                _ => needed.contains(effect),
            };
            let settles: Vec<Settled> = live
                .owed
                .iter()
                .filter(|(effect, body)| !is_needed(effect, body))
                .map(|(effect, _)| Settled { effect: effect.clone(), receipt: kind_of(&event.body) })
                .collect();
            let owes: Vec<Effect> = made.iter().filter(|effect| is_needed(&effect.id, &effect.body)).cloned().collect();
            let metrics = live.metric(&event, used.as_ref()).into_iter().collect();
            let begins = (live.events == 0).then(|| Beginning {
                pin: live.definition.pin().clone(),
                parent: live.parent.as_ref().map(|(parent, _)| parent.clone()),
                facts: serde_json::to_value(&*live.facts).unwrap_or_default(),
            });
            commits.push(Commit {
                after: live.events,
                event: event.clone(),
                run: run.clone(),
                owes: owes.clone(),
                settles: settles.clone(),
                metrics,
                begins,
            });
            nexts.push((id.clone(), event, run, owes, settles));
            effects.extend(made.into_iter().map(|effect| (id.clone(), effect)));
        }
        let journal = Arc::clone(&self.journal);
        let written = tokio::task::spawn_blocking(move || journal.commit(commits)).await;
        written.map_err(|error| Fault::internal(error.to_string()))??;
        for (id, event, run, owes, settles) in nexts {
            let Some(live) = self.runs.get_mut(&id) else { continue };
            let before = std::mem::replace(&mut live.run, run);
            live.events += 1;
            for settled in &settles {
                live.owed.remove(&settled.effect);
                // An agent that hands something in ends by itself, after it was told so.
                let is_handed_in =
                    matches!(&event.body, EventBody::EvidenceSubmitted { .. } | EventBody::HelpRequested { .. });
                if let Some(cancel) = self.working.remove(&settled.effect).filter(|_| !is_handed_in) {
                    cancel.cancel();
                }
            }
            live.owed.extend(owes.into_iter().map(|effect| (effect.id, effect.body)));
            self.tell(&id, &before, &event);
        }
        for (id, effect) in effects {
            Box::pin(self.carry_out(&id, effect, false)).await?;
        }
        Ok(())
    }

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
                let Some(Wait::Agent { dispatch, .. }) = run.visit().map(|visit| &visit.wait) else {
                    return Err(Rejected::Malformed(vec!["no evidence is waited for".to_owned()]).into());
                };
                let dispatch = dispatch.clone();
                let Some(looking) = self.looking(id, None) else { return Ok(()) };
                let seen = looking.await;
                return self.handed_in(Handed { run: id.clone(), dispatch, fields, seen, by: By::Person }).await;
            }
        };
        self.take(id, body).await
    }

    /// Raises the caps of a run. Those inside it may use what is left then.
    async fn raise(&mut self, id: &RunId, caps: Caps) -> Result<(), ConductError> {
        self.take(id, EventBody::CapRaised { tokens: caps.tokens, usd: caps.usd }).await?;
        let Some(around) = self.runs.get(id).map(|live| live.run.total()) else { return Ok(()) };
        let is_inside = |other: &RunId| {
            let parent = |run: &RunId| self.runs.get(run)?.parent.as_ref().map(|(parent, _)| parent.clone());
            std::iter::successors(parent(other), parent).any(|above| above == *id)
        };
        let inside: Vec<RunId> = self.runs.keys().filter(|other| is_inside(other)).cloned().collect();
        for other in inside {
            let Some(own) = self.runs.get(&other).map(|live| live.run.total()) else { continue };
            let tokens = caps.tokens.map(|cap| cap.saturating_sub(around.tokens).saturating_add(own.tokens));
            let usd = caps.usd.map(|cap| {
                let mut left = cap.saturating_sub(around.usd);
                left += own.usd;
                left
            });
            self.take_if_current(&other, EventBody::CapRaised { tokens, usd }).await?;
        }
        Ok(())
    }

    /// Works until the run rests, or is told to stop.
    pub async fn conduct(
        &mut self,
        root: &RunId,
        requests: &mut mpsc::Receiver<Request>,
        stop: &CancellationToken,
    ) -> Result<Rest, ConductError> {
        let Some((mut hears, mut is_told)) = self.hearing.take() else {
            return Err(Fault::internal("a conductor conducts once").into());
        };
        loop {
            if self.tasks.is_empty()
                && let Some(rest) = self.rest(root)
            {
                // The last words of agents count.
                match hears.try_recv() {
                    Ok(heard) => self.hear(heard).await?,
                    Err(_) => return Ok(rest),
                }
                continue;
            }
            let timer = self.next_timer();
            tokio::select! {
                done = self.tasks.join_next(), if !self.tasks.is_empty() => {
                    // What an agent used and tried comes before how it ended: a cap counts more than a failed attempt.
                    while let Ok(heard) = hears.try_recv() {
                        self.hear(heard).await?;
                    }
                    match done {
                        Some(Ok(done)) => self.done(done).await?,
                        Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                        _ => {}
                    }
                }
                Some(heard) = hears.recv() => self.hear(heard).await?,
                Some(told) = is_told.recv() => self.hear(Heard::Told(told)).await?,
                Some(request) = requests.recv() => {
                    let answer = self.say(&request.run, request.said).await.map_err(|error| error.to_string());
                    drop(request.reply.send(answer));
                }
                () = sleep(timer.as_ref().map(|(after, ..)| *after)), if timer.is_some() => {
                    if let Some((_, run, effect)) = timer {
                        self.take_if_current(&run, EventBody::TimedOut { effect }).await?;
                    }
                }
                () = stop.cancelled() => {
                    self.end_all(&mut hears).await;
                    return Ok(Rest::Interrupted);
                }
            }
        }
    }

    /// Ends whatever works, so that nothing is left running.
    async fn end_all(&mut self, hears: &mut mpsc::Receiver<Heard>) {
        for cancel in self.working.values() {
            cancel.cancel();
        }
        let limit = tokio::time::sleep(Duration::from_secs(10));
        tokio::pin!(limit);
        loop {
            tokio::select! {
                done = self.tasks.join_next() => if done.is_none() { break },
                Some(heard) = hears.recv() => if matches!(heard, Heard::Spent { .. }) {
                    // What was used counts, also in the last moment.
                    drop(self.hear(heard).await);
                },
                () = &mut limit => break,
            }
        }
    }

    async fn hear(&mut self, heard: Heard) -> Result<(), ConductError> {
        match heard {
            Heard::Spent { run, effect, used } => self.spent(&run, &effect, used).await,
            Heard::Refused { run, effect, text } => self.take_if_current(&run, EventBody::Noted { effect, text }).await,
            Heard::Told(Told { dispatch, what, reply }) => {
                let owner =
                    self.runs.iter().find(|(_, live)| live.owed.contains_key(&dispatch)).map(|(id, _)| id.clone());
                let Some(run) = owner else {
                    drop(reply.send(Err("not handed in: this is not waited for any more; end your turn".to_owned())));
                    return Ok(());
                };
                match what {
                    What::NeedsHelp(question) => {
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
                        let Some(looking) = self.looking(&run, role.as_ref()) else { return Ok(()) };
                        self.tasks.spawn(async move {
                            let seen = looking.await;
                            Done::Seen(Box::new(Handed { run, dispatch, fields, seen, by: By::Agent(reply) }))
                        });
                        Ok(())
                    }
                }
            }
        }
    }

    /// What was used counts in the run and in those around it.
    async fn spent(&mut self, run: &RunId, effect: &EffectId, used: Used) -> Result<(), ConductError> {
        let (tokens, usd) = (used.tokens(), used.usd);
        let mut events = vec![(run.clone(), EventBody::Spent { effect: effect.clone(), tokens, usd })];
        let mut inner = run.clone();
        while let Some((parent, effect)) = self.runs.get(&inner).and_then(|live| live.parent.clone()) {
            events.push((parent.clone(), EventBody::Spent { effect, tokens, usd }));
            inner = parent;
        }
        self.take_all(events, Some(used)).await
    }

    /// Something came of a task.
    async fn done(&mut self, done: Done) -> Result<(), ConductError> {
        match done {
            Done::Event(run, body) => self.take_if_current(&run, body).await,
            Done::Finished(run, effect, told) => self.finished(&run, &effect, told).await,
            Done::Seen(handed) => self.handed_in(*handed).await,
            Done::Played(run, dispatch, played) => self.played(&run, &dispatch, played).await,
        }
    }

    /// Takes what was handed in; what is wrong with it goes back.
    async fn handed_in(&mut self, handed: Handed) -> Result<(), ConductError> {
        let Handed { run, dispatch, fields, seen, by } = handed;
        let agent = self.working.get(&dispatch).cloned();
        let taken = match seen {
            Ok((work, mended)) => {
                if !mended.is_empty() {
                    let text = format!("changed although it may not be, so it was put back: {}", mended.join(", "));
                    self.take_if_current(&run, EventBody::Noted { effect: dispatch.clone(), text }).await?;
                }
                match self.missing_paths(&run, &fields) {
                    problems if problems.is_empty() => {
                        let effect = dispatch.clone();
                        self.take(&run, EventBody::EvidenceSubmitted { effect, fields, work }).await
                    }
                    problems => Err(Rejected::Malformed(problems).into()),
                }
            }
            Err(why) => Err(Fault::new(Area::Task, Tier::UserFixable, why).into()),
        };
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

    /// An event that may have come too late changes nothing then.
    pub(crate) async fn take_if_current(&mut self, run: &RunId, body: EventBody) -> Result<(), ConductError> {
        stale_is_fine(self.take(run, body).await)
    }

    /// The next timer: after how long, of which run.
    fn next_timer(&self) -> Option<(Duration, RunId, EffectId)> {
        let now = self.clock.now();
        let waiting = self.runs.iter().filter_map(|(id, live)| match &live.run.phase {
            Phase::At(visit) => Some((visit.deadline, id.clone(), visit.timer.clone())),
            _ => None,
        });
        let (deadline, id, timer) = waiting.min_by_key(|(deadline, ..)| *deadline)?;
        let after = deadline.duration_since(now);
        Some((Duration::try_from(after).unwrap_or_default(), id, timer))
    }

    /// How the run rests, if nobody works on it.
    fn rest(&self, root: &RunId) -> Option<Rest> {
        let live = self.runs.get(root)?;
        match &live.run.phase {
            Phase::Ready => None,
            Phase::Ended { .. } => live.owed.is_empty().then_some(Rest::Ended),
            Phase::Parked(_) => Some(Rest::Parked),
            Phase::At(visit) => match &visit.wait {
                Wait::Help { .. } | Wait::Approval { .. } | Wait::Person { .. } => Some(Rest::Waiting),
                Wait::Children { running, .. } => {
                    let rests: Vec<Option<Rest>> =
                        running.keys().map(|effect| self.rest(&RunId::child(effect))).collect();
                    let all: Option<Vec<Rest>> = rests.into_iter().collect();
                    let all = all?;
                    if all.contains(&Rest::Waiting) {
                        Some(Rest::Waiting)
                    } else {
                        all.into_iter().find(|rest| *rest == Rest::Parked)
                    }
                }
                Wait::Agent { .. } | Wait::Verification { .. } | Wait::Action { .. } => None,
            },
        }
    }

    /// The run as it is, if it is one of those that are conducted.
    pub fn run(&self, id: &RunId) -> Option<&Run> {
        self.runs.get(id).map(|live| &live.run)
    }

    /// The agent that plays a role, and who it is.
    pub(crate) fn agent(live: &Live, dispatch: &Dispatch) -> Result<(AgentFile, Option<String>), String> {
        let workflow = live.definition.workflow(&live.run.workflow);
        let role = workflow.and_then(|workflow| workflow.roles.get(&dispatch.role));
        let role = role.ok_or_else(|| format!("there is no role `{}`", dispatch.role))?;
        let text = live.facts.agents.get(role.agent.as_str());
        let text = text.ok_or_else(|| format!("there is no agent `{}`", role.agent))?;
        let file = AgentFile::parse(&format!("{}.md", role.agent), text)
            .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
        let persona = role.persona.as_ref().and_then(|name| live.facts.personas.get(name).cloned());
        Ok((file, persona))
    }
}

/// A request of a person to a run, and where the answer goes.
pub struct Request {
    /// The run.
    pub run: RunId,
    /// What they say.
    pub said: Said,
    /// What comes of it.
    pub reply: tokio::sync::oneshot::Sender<Result<(), String>>,
}

impl Live {
    /// What is to be remembered about what an agent of this very run used.
    fn metric(&self, event: &Event, used: Option<&Used>) -> Option<Metric> {
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
}

async fn sleep(after: Option<Duration>) {
    tokio::time::sleep(after.unwrap_or_default()).await;
}

fn stale_is_fine(taken: Result<(), ConductError>) -> Result<(), ConductError> {
    match taken {
        Err(ConductError::Rejected(_)) => Ok(()),
        taken => taken,
    }
}

/// The effects that a run waits for.
fn needed(run: &Run) -> BTreeSet<EffectId> {
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

fn kind_of(body: &EventBody) -> String {
    serde_json::to_value(body).ok().and_then(|value| value["kind"].as_str().map(str::to_owned)).unwrap_or_default()
}
