//! The place of a run: its clone, and what is known about the work there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use baton_workflow::{EffectId, Frozen, Glob, RunId, Seen, StateName, TreeHash};

use crate::hosting::orders_of;
use crate::orders::Orders;
use crate::role_fence::{Bounds, role_files};
use crate::run_clone::{CloneError, RunClone};
use crate::stage::Part;

/// Where a run works.
pub(crate) struct Place {
    pub(crate) clone: RunClone,
    pub(crate) orders: Arc<Mutex<Orders>>,
    /// One agent at a time works here: the next begins when everything of the one before has ended.
    pub(crate) desk: Arc<tokio::sync::Mutex<()>>,
    /// Results of runs inside come in one after another.
    pub(crate) joining: Mutex<()>,
}

/// What a state that is entered needs to know.
pub(crate) struct Entering {
    pub(crate) run: RunId,
    pub(crate) state: StateName,
    pub(crate) role: String,
    pub(crate) attempt: u32,
    pub(crate) dispatch: EffectId,
    pub(crate) is_new: bool,
}

impl Place {
    pub(crate) fn new(clone: RunClone) -> Self {
        let orders = orders_of(clone.dir());
        Self { clone, orders, desk: Arc::default(), joining: Mutex::default() }
    }

    /// Gets everything ready for an agent, which is alone here.
    pub(crate) fn make_ready(
        &self,
        entering: &Entering,
        part: Part,
        bounds: Bounds,
        own: &[Glob],
        caches: &[String],
    ) -> Result<Part, CloneError> {
        let (began, now) = self.enter(entering, caches)?;
        let fence = bounds.since(began);
        // What an earlier attempt left beyond it does not stay.
        fence.mend_from(now)?;
        let files = role_files(&self.clone.tree(), own, caches, self.clone.borrowed());
        Ok(Part { files, fence: Some(Arc::new(fence)), ..part })
    }

    /// Gets the tree ready for an agent; what it was when the state was entered, and what it is.
    fn enter(&self, entering: &Entering, caches: &[String]) -> Result<(TreeHash, TreeHash), CloneError> {
        let Entering { run, state, role, attempt, dispatch, is_new } = entering;
        let is_told = self.orders().of(role).is_some_and(|order| order.effect == *dispatch);
        let now = if is_told { self.clone.snapshot() } else { self.tree_that_counts() }?;
        if !is_told {
            self.forget_settled()?;
        }
        for cache in caches {
            let dir = self.clone.tree().join(cache);
            std::fs::create_dir_all(&dir).map_err(CloneError::io(&dir))?;
        }
        let mut orders = self.orders();
        let known = orders.entered(run, state).map(|(attempt, _)| *attempt);
        if known.is_none() || (*is_new && known != Some(*attempt)) {
            orders.enter(run, state, *attempt, now.clone()).map_err(CloneError::io(self.clone.dir()))?;
        }
        let began = orders.entered(run, state).map_or_else(|| now.clone(), |(_, tree)| tree.clone());
        Ok((began, now))
    }

    pub(crate) fn orders(&self) -> MutexGuard<'_, Orders> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tree is as it was handed in from now on: what came to it later does not count. If nothing was handed in, it is as
    /// it is.
    pub(crate) fn tree_that_counts(&self) -> Result<TreeHash, CloneError> {
        let (settled, now) = (self.orders().settled().cloned(), self.clone.snapshot()?);
        match settled {
            Some(settled) if settled != now => self.clone.put_back(&settled).map(|()| settled),
            _ => Ok(now),
        }
    }

    /// Somebody works on: what they do counts.
    pub(crate) fn forget_settled(&self) -> Result<(), CloneError> {
        self.orders().settle(None).map_err(CloneError::io(self.clone.dir()))
    }

    /// What can be seen of the work in a state. Within the bounds of an agent, what it may not have changed is put back first,
    /// and named.
    pub(crate) fn look(
        &self,
        run: &RunId,
        state: &StateName,
        frozen: &Frozen,
        bounds: Option<Bounds>,
    ) -> Result<(Seen, Vec<String>), CloneError> {
        let now = self.clone.snapshot()?;
        let entered = self.orders().entered(run, state).map(|(_, tree)| tree.clone());
        let (tree, beyond) = match (bounds, &entered) {
            (Some(bounds), Some(entered)) => bounds.since(entered.clone()).mend_from(now)?,
            _ => (now, Vec::new()),
        };
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
        let named = beyond.into_iter().map(|(path, why)| format!("{path} ({why})")).collect();
        Ok((Seen { tree, changed }, named))
    }

    /// The tree as it is counts, until somebody works on.
    pub(crate) fn settle_as_it_is(&self) -> Result<(), CloneError> {
        self.settle(&self.clone.snapshot()?)
    }

    fn settle(&self, tree: &TreeHash) -> Result<(), CloneError> {
        self.orders().settle(Some(tree.clone())).map_err(CloneError::io(self.clone.dir()))
    }
}
