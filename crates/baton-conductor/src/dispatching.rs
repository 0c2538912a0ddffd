//! Dispatching: an agent gets its work, and what came of it is looked at.

use std::future::Future;
use std::sync::Arc;

use baton_core::{Area, Fault, SessionId, TurnReason};
use baton_tools::RoleFiles;
use baton_workflow::{Dispatch, EffectId, EventBody, Glob, Kind, RelPath, RoleName, RunId, Seen, StateName, Work};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;
use ulid::Ulid;

use crate::brief::{Brief, HELP};
use crate::conductor::Conductor;
use crate::hosting::{Hosting, Played, Used};
use crate::live::{By, ConductError, Done, Handed, Live, Trouble};
use crate::place::Entering;
use crate::role_fence::{Bounds, frozen_patterns};
use crate::stage::Part;

impl Conductor {
    /// Gives work to an agent.
    pub(crate) async fn give_out(
        &mut self,
        id: &RunId,
        order: EffectId,
        effect: EffectId,
        dispatch: &Dispatch,
        missing: Option<String>,
    ) -> Result<(), ConductError> {
        let around = self.left_around(id);
        let Some(live) = self.runs.get(id) else { return Ok(()) };
        let Some((state, work)) = work_of(live, &effect) else { return Ok(()) };
        let agent = live.agent(dispatch);
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
                format!("{missing}. Hand it in, or say with `{HELP}` what keeps you from it.")
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
            around,
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
            match entered.await.map_err(Trouble::from).and_then(|entered| entered.map_err(Trouble::from)) {
                Ok(part) => Done::Played(run, effect, hosting.play(part).await),
                Err(Trouble::Work(reason)) => Done::Event(run, EventBody::AttemptFailed { effect, reason }),
                Err(Trouble::Machine(fault)) => Done::Stalled(fault),
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
        let body = match played.reason {
            TurnReason::Done | TurnReason::Failed if takes_end => {
                let Some(looking) = self.looking(id, Some(&work.role)) else { return Ok(()) };
                let (run, dispatch) = (id.clone(), effect.clone());
                self.tasks.spawn(async move {
                    let seen = looking.await;
                    Done::Seen(Box::new(Handed {
                        run,
                        dispatch,
                        fields: Map::new(),
                        seen,
                        used: Used::default(),
                        by: By::EndOfTurn,
                    }))
                });
                return Ok(());
            }
            TurnReason::Done | TurnReason::Failed => EventBody::AgentEnded { effect: effect.clone() },
            // It would be the same for the next attempt: this waits for whoever can mend it.
            TurnReason::Error if played.fault.as_ref().is_some_and(is_nobodys) => {
                let Some(fault) = played.fault else { return Ok(()) };
                let then = "then go on with `baton run resume`";
                let hint = fault.hint.as_ref().map_or(then.to_owned(), |hint| format!("{hint}; {then}"));
                return Err(fault.hint(hint).into());
            }
            reason => {
                let fault = played.fault.map(|fault| fault.to_string());
                let said = fault.unwrap_or_else(|| format!("the agent's turn ended: {reason:?}").to_lowercase());
                match reason {
                    TurnReason::Budget => {
                        let is_around = self.has_less_around(id);
                        EventBody::OutOfBudget { effect: effect.clone(), reason: said, is_around }
                    }
                    _ => EventBody::AttemptFailed { effect: effect.clone(), reason: said },
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
    ) -> Option<impl Future<Output = Result<(Seen, Vec<String>), Trouble>> + Send + use<>> {
        let live = self.runs.get(id)?;
        let (place, run, state) = (Arc::clone(&live.place), id.clone(), live.state()?.clone());
        let frozen = live.run.frozen.clone();
        let bounds = by.and_then(|role| bounds_of(live, role));
        Some(async move {
            let looked = tokio::task::spawn_blocking(move || place.look(&run, &state, &frozen, bounds));
            Ok(looked.await??)
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
        let wrong = paths.filter_map(|(name, text)| {
            let path = RelPath::parse(&text).ok()?;
            match tree.join(path.as_str()).symlink_metadata() {
                Err(_) => Some(format!("`{name}`: there is no file `{text}`")),
                Ok(known) if known.is_dir() => Some(format!("`{name}`: `{text}` is a directory, not a file")),
                Ok(_) => None,
            }
        });
        wrong.collect()
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

/// Whether something is in the way for which no agent is to blame: the provider, or the disk.
fn is_nobodys(fault: &Fault) -> bool {
    matches!(fault.area, Area::Provider | Area::Workspace)
}

/// The conversation that plays a role in a run: the same player is always the same conversation.
fn session_of(player: &str) -> SessionId {
    let digest = Sha256::digest(player.as_bytes());
    let mut bytes = [0_u8; 16];
    bytes.copy_from_slice(&digest[..16]);
    SessionId::new(format!("ses_{}", Ulid::from_bytes(bytes)))
}
