//! The conductor: takes events one after another, writes down what follows, and has it carried out.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use baton_core::{Area, Clock, Fault, SessionId, Tier};
use baton_llm::Budget;
use baton_store::{Beginning, Commit, Debt, Journal, Settled, StoreError};
use baton_workflow::{
    Caps, Definition, Effect, EffectBody, EffectId, Event, EventBody, Params, Phase, Run, RunId, Wait, WorkflowName,
    step,
};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::hearing::stale_is_fine;
use crate::hosting::{Heard, Used};
use crate::live::{By, ConductError, Done, Facts, Live, Request, Rest, Said, kind_of, needed};
use crate::place::Place;
use crate::publishing::publish;
use crate::report::{Reports, RunEventBody};
use crate::run_clone::RunClone;
use crate::stage::Stage;
use crate::timers::{Timers, Waiting};

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
    /// One agent at a time speaks in a conversation.
    pub(crate) sessions: HashMap<SessionId, Arc<tokio::sync::Mutex<()>>>,
    /// What is left of runs with others inside them, with the caps that it was counted for.
    pub(crate) around: HashMap<RunId, (Caps, Budget)>,
    /// What is owed now is for whoever goes on.
    pub(crate) is_ending: bool,
    /// Agents that handed something in when the machine stood in the way: they are stopped, not answered.
    pub(crate) unanswered: Vec<By>,
    timers: Timers,
    hearing: Option<mpsc::Receiver<Heard>>,
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
        let (heard, ears) = mpsc::channel(64);
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
            sessions: HashMap::new(),
            around: HashMap::new(),
            is_ending: false,
            unanswered: Vec::new(),
            timers: Timers::default(),
            hearing: Some(ears),
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
        workflow: &WorkflowName,
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
        let owed = self.load(root).await?;
        self.need_clone(root)?;
        self.time_out_people().await?;
        self.carry_out_owed(owed).await
    }

    /// The same, after a person has said something: what is owed may be superfluous then.
    pub async fn take_up_saying(&mut self, root: &RunId, to: &RunId, said: Said) -> Result<(), ConductError> {
        let owed = self.load(root).await?;
        if !matches!(said, Said::Stop { .. }) {
            self.need_clone(root)?;
        }
        if self.time_out_people().await?.contains(to) && matches!(said, Said::Answer { .. }) {
            let text = "the answer comes too late: the time for it has passed".to_owned();
            self.reports.run(to, self.clock.now(), RunEventBody::Noticed { text });
        } else {
            self.say(to, said).await?;
        }
        self.carry_out_owed(owed).await
    }

    /// A run that is not at its end can only go on in its clone.
    fn need_clone(&self, root: &RunId) -> Result<(), ConductError> {
        let Some(live) = self.runs.get(root).filter(|live| live.run.end().is_none()) else { return Ok(()) };
        let tree = live.place.clone.tree();
        if tree.exists() {
            return Ok(());
        }
        let message = format!("the clone in which the run worked is gone: {}", tree.display());
        let fault = Fault::new(Area::Workspace, Tier::UserFixable, message);
        Err(fault.hint(format!("put it back, or end the run with `baton run stop {root}` and start another")).into())
    }

    /// People who were asked had the time that has passed, though nobody looked at a clock meanwhile. Who was waited for.
    async fn time_out_people(&mut self) -> Result<BTreeSet<RunId>, ConductError> {
        let mut late = BTreeSet::new();
        let now = self.clock.now();
        while let Some((id, effect)) = self.runs.iter().find_map(|(id, live)| {
            let visit = live.run.visit().filter(|visit| is_for_person(&visit.wait) && visit.deadline <= now)?;
            Some((id.clone(), visit.timer.clone()))
        }) {
            self.take(&id, EventBody::TimedOut { effect }).await?;
            late.insert(id);
        }
        Ok(late)
    }

    /// Reads a run and those inside it; what is owed.
    async fn load(&mut self, root: &RunId) -> Result<Vec<Debt>, ConductError> {
        let owed = self.journal.owed()?;
        let mut order = vec![(root.clone(), None)];
        while let Some((id, parent)) = order.pop() {
            let standing = self.journal.run(&id)?.ok_or_else(|| ConductError::NoRun(id.clone()))?;
            let unreadable = || ConductError::NoDefinition(id.clone());
            let pin = self.journal.pin(&standing.run.definition)?.ok_or_else(unreadable)?;
            let definition = Definition::from_pin(&pin).map_err(|_| unreadable())?;
            let facts: Facts = serde_json::from_value(standing.facts.clone()).map_err(|_| unreadable())?;
            let place = match &parent {
                Some((parent, effect)) => self.place_of_child(parent, effect).await?,
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
    pub(crate) async fn take_all(
        &mut self,
        happened: Vec<(RunId, EventBody)>,
        used: Option<Used>,
    ) -> Result<(), ConductError> {
        let mut commits = Vec::new();
        let mut effects = Vec::new();
        let mut nexts = Vec::new();
        let mut ahead: BTreeMap<RunId, Ahead> = BTreeMap::new();
        for (id, body) in happened {
            let live = self.runs.get(&id).ok_or_else(|| ConductError::NoRun(id.clone()))?;
            let ahead = ahead.entry(id.clone()).or_insert_with(|| Ahead::of(live));
            // What happened later is later, also if the clock was put back.
            let mut at = self.clock.now().max(ahead.run.now);
            if let (EventBody::TimedOut { .. }, Some(visit)) = (&body, ahead.run.visit()) {
                // The time has passed, whatever became of the clock meanwhile.
                at = at.max(visit.deadline);
            }
            let event = Event { at, body };
            let (run, made) = step(&live.definition, &ahead.run, &event)?;
            let needed = needed(&run);
            let is_needed = |effect: &EffectId, body: &EffectBody| match body {
                EffectBody::Remind { dispatch, .. } => needed.contains(dispatch),
                EffectBody::Finish { .. } | EffectBody::StopChild { .. } => true,
                _ => needed.contains(effect),
            };
            let settles: Vec<Settled> = ahead
                .owed
                .iter()
                .filter(|(effect, body)| !is_needed(effect, body))
                .map(|(effect, _)| Settled { effect: effect.clone(), receipt: kind_of(&event.body) })
                .collect();
            let owes: Vec<Effect> = made.iter().filter(|effect| is_needed(&effect.id, &effect.body)).cloned().collect();
            let metrics = live.metric(&event, used.as_ref()).into_iter().collect();
            let begins = (ahead.events == 0).then(|| Beginning {
                pin: live.definition.pin().clone(),
                parent: live.parent.as_ref().map(|(parent, _)| parent.clone()),
                facts: serde_json::to_value(&*live.facts).unwrap_or_default(),
            });
            commits.push(Commit {
                after: ahead.events,
                event: event.clone(),
                run: run.clone(),
                owes: owes.clone(),
                settles: settles.clone(),
                metrics,
                begins,
            });
            ahead.go_on(&run, &owes, &settles);
            effects.extend(made.into_iter().map(|effect| (id.clone(), owes.contains(&effect), effect)));
            nexts.push((id, event, run, owes, settles));
        }
        let (journal, repository) = (Arc::clone(&self.journal), self.repository.clone());
        // A rehearsal leaves nothing in the project.
        let is_for_people = self.runs.values().all(|live| live.facts.branch.is_some());
        let written = tokio::task::spawn_blocking(move || {
            let published = commits.iter().filter(|_| is_for_people);
            let published: Vec<_> = published.map(|commit| (commit.run.clone(), commit.event.clone())).collect();
            journal.commit(commits)?;
            for (run, event) in &published {
                publish(&repository, run, event);
            }
            Ok::<(), StoreError>(())
        });
        written.await.map_err(|error| Fault::internal(error.to_string()))??;
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
        for (id, was_owed, effect) in effects {
            // What came with it may have made it superfluous.
            let is_owed = self.runs.get(&id).is_some_and(|live| live.owed.contains_key(&effect.id));
            if (is_owed || !was_owed) && !self.is_ending {
                Box::pin(self.carry_out(&id, effect, false)).await?;
            }
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
        let Some(mut ears) = self.hearing.take() else {
            return Err(Fault::internal("a conductor conducts once").into());
        };
        let rest = self.conduct_until(root, &mut ears, requests, stop).await;
        if !matches!(&rest, Ok(rest) if *rest != Rest::Interrupted) {
            self.end_all(&mut ears).await;
        }
        rest
    }

    async fn conduct_until(
        &mut self,
        root: &RunId,
        ears: &mut mpsc::Receiver<Heard>,
        requests: &mut mpsc::Receiver<Request>,
        stop: &CancellationToken,
    ) -> Result<Rest, ConductError> {
        loop {
            if self.tasks.is_empty()
                && let Some(rest) = self.rest(root)
            {
                // The last words of agents count.
                match ears.try_recv() {
                    Ok(heard) => self.hear(heard).await?,
                    Err(_) => return Ok(rest),
                }
                continue;
            }
            let timer = self.next_timer();
            tokio::select! {
                done = self.tasks.join_next(), if !self.tasks.is_empty() => {
                    // What an agent used and tried comes before how it ended: a cap counts more than a failed attempt.
                    while let Ok(heard) = ears.try_recv() {
                        self.hear(heard).await?;
                    }
                    match done {
                        Some(Ok(done)) => self.done(done).await?,
                        Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                        _ => {}
                    }
                }
                Some(heard) = ears.recv() => self.hear(heard).await?,
                Some(request) = requests.recv() => {
                    let answer = self.say(&request.run, request.said).await.map_err(|error| error.to_string());
                    drop(request.reply.send(answer));
                }
                Some((run, effect)) = runs_out(timer) => {
                    self.take_if_current(&run, EventBody::TimedOut { effect }).await?;
                }
                () = stop.cancelled() => return Ok(Rest::Interrupted),
            }
        }
    }

    /// An event that may have come too late changes nothing then.
    pub(crate) async fn take_if_current(&mut self, run: &RunId, body: EventBody) -> Result<(), ConductError> {
        stale_is_fine(self.take(run, body).await)
    }

    /// The next wait to run out.
    fn next_timer(&mut self) -> Option<(Instant, RunId, EffectId)> {
        let waits = self.runs.iter().filter_map(|(id, live)| {
            let Phase::At(visit) = &live.run.phase else { return None };
            let workflow = live.definition.workflow(&live.run.workflow)?;
            Some(Waiting {
                run: id.clone(),
                timer: visit.timer.clone(),
                deadline: visit.deadline,
                timeout: workflow.state(&visit.state)?.timeout(),
                is_for_person: is_for_person(&visit.wait),
            })
        });
        let waits = waits.collect();
        self.timers.next(self.clock.now(), waits)
    }

    /// How the run rests, if nobody works on it.
    fn rest(&self, root: &RunId) -> Option<Rest> {
        let live = self.runs.get(root)?;
        match &live.run.phase {
            Phase::Ready => None,
            Phase::Ended { .. } => live.owed.is_empty().then_some(Rest::Ended),
            Phase::Parked(_) => Some(Rest::Parked),
            Phase::At(visit) => match &visit.wait {
                wait if is_for_person(wait) => Some(Rest::Waiting),
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
                _ => None,
            },
        }
    }

    /// The run as it is, if it is one of those that are conducted.
    pub fn run(&self, id: &RunId) -> Option<&Run> {
        self.runs.get(id).map(|live| &live.run)
    }
}

/// Whether a person is waited for.
fn is_for_person(wait: &Wait) -> bool {
    matches!(wait, Wait::Help { .. } | Wait::Approval { .. } | Wait::Person { .. })
}

/// A run as it will be when the events before are written down.
struct Ahead {
    run: Run,
    events: u64,
    owed: BTreeMap<EffectId, EffectBody>,
}

impl Ahead {
    fn of(live: &Live) -> Self {
        Self { run: live.run.clone(), events: live.events, owed: live.owed.clone() }
    }

    fn go_on(&mut self, run: &Run, owes: &[Effect], settles: &[Settled]) {
        self.run = run.clone();
        self.events += 1;
        for settled in settles {
            self.owed.remove(&settled.effect);
        }
        self.owed.extend(owes.iter().map(|effect| (effect.id.clone(), effect.body.clone())));
    }
}

/// Waits until a timer runs out. There may be none.
async fn runs_out(timer: Option<(Instant, RunId, EffectId)>) -> Option<(RunId, EffectId)> {
    let (end, run, effect) = timer?;
    tokio::time::sleep_until(end).await;
    Some((run, effect))
}
