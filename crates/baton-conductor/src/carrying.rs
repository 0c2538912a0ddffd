//! Carrying out: what each effect does to the world. Twice is harmless, or found out.

use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError};

use baton_core::{Fault, SessionId};
use baton_store::Settled;
use baton_tools::{Fence, RoleFiles};
use baton_workflow::{
    Act, Argv, Dispatch, Effect, EffectBody, EffectId, End, EventBody, Glob, Kind, Rejected, RelPath, RoleName, RunId,
    Seen, StateName, TreeHash, Work, verify::CommandResult,
};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use crate::brief::Brief;
use crate::conductor::{By, ConductError, Conductor, Done, Handed, Live, Place};
use crate::hosting::{Hosting, Played};
use crate::report::RunEventBody;
use crate::role_fence::{Bounds, frozen_patterns, role_files};
use crate::run_clone::{CloneError, remove};
use crate::stage::Part;
use crate::workshop;

impl Conductor {
    /// Begins to carry an effect out. `is_begun` says that somebody has before, and was stopped.
    pub(crate) async fn carry_out(&mut self, id: &RunId, effect: Effect, is_begun: bool) -> Result<(), ConductError> {
        let Effect { id: effect, body } = effect;
        match body {
            EffectBody::Dispatch(dispatch) => {
                let Some(live) = self.runs.get_mut(id) else { return Ok(()) };
                live.dispatches.insert(effect.clone(), (*dispatch).clone());
                let is_reminded = live
                    .owed
                    .values()
                    .any(|body| matches!(body, EffectBody::Remind { dispatch, .. } if *dispatch == effect));
                if is_reminded { Ok(()) } else { self.give_out(id, effect.clone(), effect, &dispatch, None).await }
            }
            EffectBody::Remind { dispatch: to, missing } => {
                let dispatch = self.runs.get(id).and_then(|live| match live.owed.get(&to) {
                    Some(EffectBody::Dispatch(dispatch)) => Some(dispatch.clone()),
                    _ => None,
                });
                match dispatch {
                    Some(dispatch) => self.give_out(id, effect, to, &dispatch, Some(missing)).await,
                    None => Ok(()),
                }
            }
            EffectBody::Verify { argv, tree } => {
                self.verify(id, effect, argv, tree);
                Ok(())
            }
            EffectBody::Act { action } => self.act(id, effect, action, is_begun).await,
            EffectBody::Ask { question, options } => {
                self.reports.run(id, self.clock.now(), RunEventBody::Asked { question, options });
                Ok(())
            }
            EffectBody::StartChild { run, workflow, params, players, caps } => {
                if self.runs.contains_key(&run) {
                    return Ok(());
                }
                let Some(parent) = self.runs.get(id) else { return Ok(()) };
                let (definition, facts) = (Arc::clone(&parent.definition), Arc::clone(&parent.facts));
                let place = self.place_of_child(id, &effect)?;
                let child = self.fresh(
                    &run,
                    Arc::clone(&definition),
                    &workflow,
                    Some((id.clone(), effect.clone())),
                    place,
                    facts,
                )?;
                self.runs.insert(run.clone(), child);
                let types = definition.workflow(&workflow).map(|workflow| workflow.params.clone()).unwrap_or_default();
                let begun = match baton_workflow::Params::given(&types, &params) {
                    Ok(params) => self.take(&run, EventBody::Started { params, players, caps }).await,
                    Err(problems) => Err(Rejected::Malformed(problems).into()),
                };
                match begun {
                    Err(ConductError::Rejected(why)) => {
                        self.runs.remove(&run);
                        self.take_if_current(id, EventBody::AttemptFailed { effect, reason: why.to_string() }).await
                    }
                    begun => begun,
                }
            }
            EffectBody::StopChild { run, reason } => {
                self.take_if_current(&run, EventBody::Stopped { reason }).await.or_else(|error| match error {
                    ConductError::NoRun(_) => Ok(()),
                    error => Err(error),
                })?;
                self.settle(id, &effect, "stopped").await
            }
            EffectBody::Finish { end } => {
                self.finish(id, effect, end);
                Ok(())
            }
            EffectBody::Park { reason } => {
                self.reports.run(id, self.clock.now(), RunEventBody::Parked { reason });
                Ok(())
            }
            // Agents are told by the token of their dispatch, and timers are looked at in every round.
            EffectBody::Release { .. } | EffectBody::SetTimer { .. } => Ok(()),
        }
    }

    /// Notes that an effect is not owed any more.
    async fn settle(&mut self, run: &RunId, effect: &EffectId, receipt: &str) -> Result<(), ConductError> {
        if let Some(live) = self.runs.get_mut(run) {
            live.owed.remove(effect);
        }
        let (journal, settled) =
            (Arc::clone(&self.journal), Settled { effect: effect.clone(), receipt: receipt.to_owned() });
        let written = tokio::task::spawn_blocking(move || journal.settle(vec![settled])).await;
        Ok(written.map_err(|error| Fault::internal(error.to_string()))??)
    }

    /// Where a run inside another one works: in the same clone, unless others work there at the same time.
    pub(crate) fn place_of_child(&self, parent: &RunId, effect: &EffectId) -> Result<Arc<Place>, ConductError> {
        let parent = self.runs.get(parent).ok_or_else(|| ConductError::NoRun(parent.clone()))?;
        if !shares_clone(parent, effect) {
            let clone = parent.place.clone.part(RunId::child(effect).as_str());
            let unable = |error: CloneError| Fault::internal(error.to_string());
            if !clone.tree().exists() {
                parent.place.put_back_settled().map_err(unable)?;
            }
            clone.fork(&parent.place.clone).map_err(unable)?;
            return Ok(Arc::new(Place::new(clone)));
        }
        Ok(Arc::clone(&parent.place))
    }

    /// Gives work to an agent.
    async fn give_out(
        &mut self,
        id: &RunId,
        order: EffectId,
        effect: EffectId,
        dispatch: &Dispatch,
        missing: Option<String>,
    ) -> Result<(), ConductError> {
        let Some(live) = self.runs.get(id) else { return Ok(()) };
        let Some((state, work)) = work_of(live, &effect) else { return Ok(()) };
        let agent = Self::agent(live, dispatch);
        let (agent, persona) = match agent {
            Ok(agent) => agent,
            Err(reason) => return self.take_if_current(id, EventBody::AttemptFailed { effect, reason }).await,
        };
        let entering = Entering {
            run: id.clone(),
            state: state.clone(),
            role: dispatch.role.to_string(),
            attempt: dispatch.attempt,
            dispatch: effect.clone(),
            is_new: dispatch.because.as_ref().is_none_or(|because| because.state != state),
        };
        let Some(bounds) = bounds_of(live, &dispatch.role) else { return Ok(()) };
        let Some(workflow) = live.definition.workflow(&live.run.workflow) else { return Ok(()) };
        let Some(role) = workflow.roles.get(&dispatch.role) else { return Ok(()) };
        let frozen = frozen_patterns(&live.run.frozen, Some(&state));
        let project = live.definition.project();
        let commands = project.commands();
        let brief = |is_interrupted| {
            Brief {
                run: id,
                workflow,
                state: &state,
                work: &work,
                dispatch,
                agent: &agent,
                persona: persona.as_deref(),
                commands: &commands,
                frozen: &frozen,
                is_interrupted,
            }
            .text()
        };
        let told = |text: String| match &missing {
            Some(missing) => {
                format!("{missing}. Hand it in, or say with `{}` what keeps you from it.", crate::brief::HELP)
            }
            None => text,
        };
        let cancel = CancellationToken::new();
        let hosting = Hosting {
            run: id.clone(),
            order,
            dispatch: effect.clone(),
            fields: work.gate.fields().filter(|fields| !fields.0.is_empty()).cloned(),
            prompt: told(brief(false)),
            prompt_again: told(brief(true)),
            stage: Arc::clone(&self.stage),
            orders: Arc::clone(&live.place.orders),
            heard: self.heard.clone(),
            told: self.told.clone(),
            reports: self.reports.clone(),
            cancel: cancel.clone(),
        };
        let part = Part {
            session: session_of(dispatch.player.as_str()),
            files: RoleFiles::default(),
            root: live.place.clone.tree(),
            model: role.model.clone().or_else(|| live.facts.model.clone()).or_else(|| agent.model.clone()),
            role: dispatch.role.clone(),
            write: bounds.write.iter().map(|glob| glob.as_str().to_owned()).collect(),
            frozen: frozen.iter().map(|(pattern, _)| pattern.clone()).collect(),
            tools: role.tools.clone(),
            fence: None,
            tokens: dispatch.tokens_left,
            usd: dispatch.usd_left,
        };
        let turn = Arc::clone(self.sessions.entry(part.session.clone()).or_default());
        self.working.insert(effect.clone(), cancel.clone());
        let (run, place, own) = (id.clone(), Arc::clone(&live.place), role.write.clone());
        let caches = live.facts.caches.clone();
        self.tasks.spawn(async move {
            let alone = async { (Arc::clone(&place.desk).lock_owned().await, turn.lock_owned().await) };
            let _alone = tokio::select! {
                alone = alone => alone,
                () = cancel.cancelled() => return Done::Played(run, effect, Played::cancelled()),
            };
            let entered = tokio::task::spawn_blocking(move || place.make_ready(&entering, part, bounds, &own, &caches));
            match entered.await.unwrap_or_else(|error| Err(error.to_string())) {
                Ok(part) => Done::Played(run, effect, hosting.play(part).await),
                Err(reason) => Done::Event(run, EventBody::AttemptFailed { effect, reason }),
            }
        });
        Ok(())
    }

    /// An agent's turn ended. If it handed something in, that was heard before.
    pub(crate) async fn played(&mut self, id: &RunId, effect: &EffectId, played: Played) -> Result<(), ConductError> {
        let is_current = self.runs.get(id).is_some_and(|live| live.owed.contains_key(effect));
        if !is_current {
            return Ok(());
        }
        self.working.remove(effect);
        let Some((_, work)) = self.runs.get(id).and_then(|live| work_of(live, effect)) else { return Ok(()) };
        let takes_end = work.gate.fields().is_none_or(|fields| fields.0.is_empty());
        use baton_core::TurnReason::{Budget, Cancelled, Done as Ended, Error, Failed, Steps, Time};
        let body = match played.reason {
            Ended | Failed if takes_end => {
                let Some(looking) = self.looking(id, Some(&work.role)) else { return Ok(()) };
                let (run, dispatch) = (id.clone(), effect.clone());
                self.tasks.spawn(async move {
                    let seen = looking.await;
                    Done::Seen(Box::new(Handed { run, dispatch, fields: Map::new(), seen, by: By::EndOfTurn }))
                });
                return Ok(());
            }
            Ended | Failed => EventBody::AgentEnded { effect: effect.clone() },
            Budget | Cancelled | Error | Steps | Time | baton_core::TurnReason::Blocked => {
                let fault = played.fault.map(|fault| fault.to_string());
                let reason =
                    fault.unwrap_or_else(|| format!("the agent's turn ended: {:?}", played.reason).to_lowercase());
                if played.reason == Budget {
                    EventBody::OutOfBudget { effect: effect.clone(), reason }
                } else {
                    EventBody::AttemptFailed { effect: effect.clone(), reason }
                }
            }
        };
        self.take_if_current(id, body).await
    }

    /// What the conductor sees of the work in a run. With an agent's work, what it may not have changed is put back first,
    /// and named.
    pub(crate) fn looking(
        &self,
        id: &RunId,
        by: Option<&RoleName>,
    ) -> Option<impl Future<Output = Result<(Seen, Vec<String>), String>> + Send + use<>> {
        let live = self.runs.get(id)?;
        let (place, run, state) = (Arc::clone(&live.place), id.clone(), live.state()?.clone());
        let frozen = live.run.frozen.clone();
        let bounds = by.and_then(|role| bounds_of(live, role));
        Some(async move {
            let looked = tokio::task::spawn_blocking(move || {
                let entered = place.orders().entered(&run, &state).map(|(_, tree)| tree.clone());
                let mended = match (bounds, entered) {
                    (Some(bounds), Some(entered)) => bounds.since(entered).mend()?,
                    _ => Vec::new(),
                };
                let mended = mended.into_iter().map(|(path, why)| format!("{path} ({why})")).collect();
                place.look(&run, &state, &frozen).map(|seen| (seen, mended)).map_err(|error| error.to_string())
            });
            looked.await.map_err(|error| error.to_string())?
        })
    }

    /// Paths in what was handed in that are not there.
    pub(crate) fn missing_paths(&self, id: &RunId, fields: &Map<String, Value>) -> Vec<String> {
        let Some(live) = self.runs.get(id) else { return Vec::new() };
        let work =
            live.state().and_then(|state| match &live.definition.workflow(&live.run.workflow)?.state(state)?.kind {
                Kind::Agent(work) => Some(work),
                _ => None,
            });
        let Some(asked) = work.and_then(|work| work.gate.fields()) else { return Vec::new() };
        let Ok(evidence) = asked.read(fields) else { return Vec::new() };
        let tree = live.place.clone.tree();
        let is_path = |name: &baton_workflow::FieldName| asked.0.get(name).is_some_and(|field| field.kind.is_path());
        let paths = evidence.iter().filter(|(name, _)| is_path(name)).flat_map(|(name, value)| {
            let texts: Vec<&str> = match value {
                Value::String(text) => vec![text],
                Value::Array(items) => items.iter().filter_map(Value::as_str).collect(),
                _ => Vec::new(),
            };
            texts.into_iter().map(move |text| (name, text.to_owned())).collect::<Vec<_>>()
        });
        let missing = paths.filter(|(_, text)| {
            RelPath::parse(text).is_ok_and(|path| tree.join(path.as_str()).symlink_metadata().is_err())
        });
        missing.map(|(name, text)| format!("`{name}`: there is no file `{text}`")).collect()
    }

    /// Runs a command for a gate, on a clean checkout that no agent can write.
    fn verify(&mut self, id: &RunId, effect: EffectId, argv: Argv, tree: TreeHash) {
        let Some(live) = self.runs.get(id) else { return };
        let (place, stage, run, cancel) =
            (Arc::clone(&live.place), Arc::clone(&self.stage), id.clone(), CancellationToken::new());
        self.working.insert(effect.clone(), cancel.clone());
        self.tasks.spawn(async move {
            let dir = place.clone.dir().join(format!("proof-{}", short(effect.as_str())));
            let ready = {
                let (place, tree, dir) = (Arc::clone(&place), tree.clone(), dir.clone());
                tokio::task::spawn_blocking(move || {
                    place.clone.check_out(&tree, &dir).map_err(|error| error.to_string())?;
                    stage.workshop(&dir).map_err(|fault| fault.to_string())
                })
            };
            let body = match ready.await.unwrap_or_else(|error| Err(error.to_string())) {
                Ok(tools) => {
                    let ran = workshop::run(&tools, &argv, &cancel).await;
                    let result =
                        CommandResult { argv, code: ran.code, output: ran.output, duration_ms: ran.duration_ms, tree };
                    EventBody::Verified { effect, result }
                }
                Err(reason) => {
                    EventBody::AttemptFailed { effect, reason: format!("it could not be verified: {reason}") }
                }
            };
            clear(dir).await;
            Done::Event(run, body)
        });
    }

    /// Does something to the clone.
    async fn act(&mut self, id: &RunId, effect: EffectId, action: Act, is_begun: bool) -> Result<(), ConductError> {
        let journal = Arc::clone(&self.journal);
        if let Act::Command { idempotent: false, .. } = &action
            && is_begun
        {
            return self.take_if_current(id, EventBody::ActionInDoubt { effect }).await;
        }
        let Some(live) = self.runs.get(id) else { return Ok(()) };
        let (place, facts, stage, run) =
            (Arc::clone(&live.place), Arc::clone(&live.facts), Arc::clone(&self.stage), id.clone());
        let cancel = CancellationToken::new();
        self.working.insert(effect.clone(), cancel.clone());
        self.tasks.spawn(async move {
            let failed = |effect: EffectId, reason: String| EventBody::ActionFailed { effect, reason };
            let body = match action {
                Act::Commit { message } => {
                    let id = effect.clone();
                    let made = tokio::task::spawn_blocking(move || {
                        place.put_back_settled()?;
                        place.clone.commit(&message, &id, &facts.base, &facts.identity)
                    });
                    match made.await {
                        Ok(Ok(Some(commit))) => EventBody::ActionDone { effect, receipt: commit },
                        Ok(Ok(None)) => failed(effect, "there is nothing to commit".to_owned()),
                        Ok(Err(error)) => failed(effect, error.to_string()),
                        Err(error) => failed(effect, error.to_string()),
                    }
                }
                Act::Command { argv, .. } => {
                    let (begun, id, tree) = (Arc::clone(&journal), effect.clone(), place.clone.tree());
                    let before = Arc::clone(&place);
                    let ready = tokio::task::spawn_blocking(move || {
                        begun.begin(&id).map_err(|error| error.to_string())?;
                        before.put_back_settled().map_err(|error| error.to_string())?;
                        stage.workshop(&tree).map_err(|fault| fault.to_string())
                    });
                    match ready.await.unwrap_or_else(|error| Err(error.to_string())) {
                        Ok(tools) => {
                            let ran = workshop::run(&tools, &argv, &cancel).await;
                            let settled = tokio::task::spawn_blocking(move || place.forget_settled()).await;
                            match (ran.code, settled) {
                                (Some(0), Ok(Ok(()))) => {
                                    EventBody::ActionDone { effect, receipt: "exit code 0".to_owned() }
                                }
                                (code, _) => {
                                    let code = code.map_or_else(
                                        || "did not end by itself".to_owned(),
                                        |code| format!("ended with exit code {code}"),
                                    );
                                    failed(effect, format!("`{argv}` {code}:\n{}", ran.output))
                                }
                            }
                        }
                        Err(reason) => failed(effect, reason),
                    }
                }
                other => failed(effect, format!("this action is not known: {other:?}")),
            };
            Done::Event(run, body)
        });
        Ok(())
    }

    /// Sees to the end of a run: its result goes back to where it came from.
    fn finish(&mut self, id: &RunId, effect: EffectId, end: End) {
        let Some(live) = self.runs.get(id) else { return };
        let (place, facts, run, total) =
            (Arc::clone(&live.place), Arc::clone(&live.facts), id.clone(), live.run.total());
        let evidence = live.run.evidence.clone();
        let (is_root, workflow) = (live.parent.is_none(), live.run.workflow.clone());
        let own = live.parent.as_ref().and_then(|(parent, effect)| {
            let parent = self.runs.get(parent)?;
            (!shares_clone(parent, effect)).then(|| (Arc::clone(&parent.place), effect.clone()))
        });
        self.tasks.spawn(async move {
            let seen_to = tokio::task::spawn_blocking(move || {
                let is_done = matches!(end, End::Done { .. });
                let brought = match own {
                    _ if !is_done => Ok(None),
                    Some((parent, started)) => take_in(&parent, &place, &started, &facts).map(|()| None),
                    None if is_root => bring_back(&place, &facts, &effect, &format!("{workflow}: run {run}")),
                    None => Ok(None),
                };
                let (end, branch, commit) = match brought {
                    Ok(Some(commit)) => (end, Some(facts.branch.clone()), Some(commit)),
                    Ok(None) => (end, None, None),
                    Err(error) => {
                        let state = effect.state().or_else(|| StateName::parse("END").ok());
                        let reason = format!("the result could not be brought back: {error}");
                        (
                            state.map_or(End::Stopped { reason: reason.clone() }, |state| End::Escalated {
                                state,
                                reason,
                            }),
                            None,
                            None,
                        )
                    }
                };
                let told =
                    RunEventBody::Ended { end, branch, commit, tokens: total.tokens, cost_usd: total.usd, evidence };
                Done::Finished(run, effect, told)
            });
            match seen_to.await {
                Ok(done) => done,
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            }
        });
    }

    /// An end was seen to: those around the run are told.
    pub(crate) async fn finished(
        &mut self,
        id: &RunId,
        effect: &EffectId,
        told: RunEventBody,
    ) -> Result<(), ConductError> {
        let parent = self.runs.get(id).and_then(|live| live.parent.clone());
        let receipt = match &told {
            RunEventBody::Ended { commit: Some(commit), .. } => commit.clone(),
            _ => "seen to".to_owned(),
        };
        if let (Some((parent, started)), RunEventBody::Ended { end, evidence, .. }) = (&parent, &told) {
            let body = EventBody::ChildEnded { effect: started.clone(), end: end.clone(), evidence: evidence.clone() };
            self.take_if_current(parent, body).await?;
        }
        self.settle(id, effect, &receipt).await?;
        let is_done = matches!(&told, RunEventBody::Ended { end: End::Done { .. }, .. });
        self.reports.run(id, self.clock.now(), told);
        // A run inside another one stays known: its agents may still tell what they used.
        if parent.is_none()
            && let Some(live) = self.runs.get(id).filter(|_| is_done)
        {
            let (clone, run) = (live.place.clone.clone(), id.clone());
            let removed = tokio::task::spawn_blocking(move || clone.remove(&run)).await;
            if let Ok(Err(error)) = removed {
                let text = format!("the clone could not be removed: {error}");
                self.reports.run(id, self.clock.now(), RunEventBody::Noticed { text });
            }
        }
        Ok(())
    }
}

/// What a state that is entered needs to know.
struct Entering {
    run: RunId,
    state: StateName,
    role: String,
    attempt: u32,
    dispatch: EffectId,
    is_new: bool,
}

impl Place {
    /// Gets everything ready for an agent, which is alone here.
    fn make_ready(
        &self,
        entering: &Entering,
        part: Part,
        bounds: Bounds,
        own: &[Glob],
        caches: &[String],
    ) -> Result<Part, String> {
        let fence = bounds.since(self.enter(entering, caches)?);
        // What an earlier attempt left beyond it does not stay.
        fence.mend()?;
        let files = role_files(&self.clone.tree(), own, caches, self.clone.borrowed());
        Ok(Part { files, fence: Some(Arc::new(fence)), ..part })
    }

    /// Gets the tree ready for an agent; what it was when the state was entered.
    fn enter(&self, entering: &Entering, caches: &[String]) -> Result<TreeHash, String> {
        let told = |error: CloneError| error.to_string();
        let Entering { run, state, role, attempt, dispatch, is_new } = entering;
        let is_told = self.orders().of(role).is_some_and(|order| order.effect == *dispatch);
        if !is_told {
            self.put_back_settled().map_err(told)?;
            self.forget_settled().map_err(told)?;
        }
        for cache in caches {
            let dir = self.clone.tree().join(cache);
            std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        }
        let now = self.clone.snapshot().map_err(told)?;
        let mut orders = self.orders();
        let known = orders.entered(run, state).map(|(attempt, _)| *attempt);
        if known.is_none() || (*is_new && known != Some(*attempt)) {
            orders.enter(run, state, *attempt, now.clone()).map_err(|error| error.to_string())?;
        }
        Ok(orders.entered(run, state).map_or(now, |(_, tree)| tree.clone()))
    }

    fn orders(&self) -> std::sync::MutexGuard<'_, crate::orders::Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What came to the tree after it was handed in does not count.
    fn put_back_settled(&self) -> Result<(), CloneError> {
        let Some(settled) = self.orders().settled().cloned() else { return Ok(()) };
        if self.clone.snapshot()? != settled {
            self.clone.put_back(&settled)?;
        }
        Ok(())
    }

    /// Somebody works on: what they do counts.
    pub(crate) fn forget_settled(&self) -> Result<(), CloneError> {
        self.orders().settle(None).map_err(|why| CloneError::Io { path: self.clone.dir().to_owned(), why })
    }

    /// What can be seen of the work in a state.
    fn look(&self, run: &RunId, state: &StateName, frozen: &baton_workflow::Frozen) -> Result<Seen, CloneError> {
        let tree = self.clone.snapshot()?;
        let entered = self.orders().entered(run, state).map(|(_, tree)| tree.clone());
        let mut changed = match entered {
            Some(entered) => self.clone.changed(&entered, &tree)?,
            None => Vec::new(),
        };
        for (_, freeze) in frozen.iter().filter(|(by, _)| *by != state) {
            changed.extend(self.clone.changed(&freeze.tree, &tree)?.into_iter().filter(|path| freeze.covers(path)));
        }
        changed.sort();
        changed.dedup();
        self.settle(&tree)?;
        Ok(Seen { tree, changed })
    }

    /// The tree as it is counts, until somebody works on.
    fn settle_as_it_is(&self) -> Result<(), CloneError> {
        self.settle(&self.clone.snapshot()?)
    }

    fn settle(&self, tree: &TreeHash) -> Result<(), CloneError> {
        let settled = self.orders().settle(Some(tree.clone()));
        settled.map_err(|why| CloneError::Io { path: self.clone.dir().to_owned(), why })
    }
}

/// Whether a run that an effect starts works in the same clone as the one that starts it.
fn shares_clone(parent: &Live, effect: &EffectId) -> bool {
    let state = effect.state().and_then(|state| parent.definition.workflow(&parent.run.workflow)?.state(&state));
    match state.map(|state| &state.kind) {
        Some(Kind::Parallel(_)) => false,
        Some(Kind::Each(each)) => each.at_once <= 1,
        _ => true,
    }
}

/// What a role may change in the clone of a run.
fn bounds_of(live: &Live, role: &RoleName) -> Option<Bounds> {
    let caches = live.facts.caches.iter().filter_map(|cache| Glob::parse(&format!("{cache}/**")).ok());
    let own = &live.definition.workflow(&live.run.workflow)?.roles.get(role)?.write;
    Some(Bounds {
        clone: live.place.clone.clone(),
        role: role.clone(),
        write: own.iter().cloned().chain(caches).collect(),
        frozen: live.run.frozen.clone(),
    })
}

/// The state and the work that a dispatch is about.
fn work_of(live: &Live, effect: &EffectId) -> Option<(StateName, Work)> {
    let state = effect.state()?;
    match &live.definition.workflow(&live.run.workflow)?.state(&state)?.kind {
        Kind::Agent(work) => Some((state, (**work).clone())),
        _ => None,
    }
}

/// What is not committed yet becomes a commit, and the whole a branch; the last commit, if there is any.
fn bring_back(
    place: &Place,
    facts: &crate::conductor::Facts,
    effect: &EffectId,
    message: &str,
) -> Result<Option<String>, CloneError> {
    if !place.clone.tree().exists() {
        // It was seen to before, up to the last step.
        return Ok(None);
    }
    place.put_back_settled()?;
    place.clone.commit(message, effect, &facts.base, &facts.identity)?;
    let head = place.clone.head()?;
    if head == facts.base {
        return Ok(None);
    }
    place.clone.bring_back(&facts.branch)?;
    Ok(Some(head))
}

/// What was handed in by a run inside another one becomes part of that one's work.
fn take_in(
    parent: &Place,
    part: &Place,
    started: &EffectId,
    facts: &crate::conductor::Facts,
) -> Result<(), CloneError> {
    let _one_by_one = parent.joining.lock().unwrap_or_else(PoisonError::into_inner);
    part.put_back_settled()?;
    parent.put_back_settled()?;
    parent.clone.absorb(&part.clone, started, &facts.identity)?;
    parent.settle_as_it_is()
}

/// The conversation that plays a role in a run: the same player is always the same conversation.
fn session_of(player: &str) -> SessionId {
    let digest = Sha256::digest(player.as_bytes());
    let mut bytes = [0_u8; 16];
    bytes.copy_from_slice(&digest[..16]);
    SessionId::new(format!("ses_{}", Ulid::from_bytes(bytes)))
}

fn short(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

async fn clear(dir: PathBuf) {
    // What cannot be removed is removed with the clone.
    drop(tokio::task::spawn_blocking(move || remove(&dir)).await);
}
