//! Choosing: which run is meant by a name, or by none.

use std::collections::BTreeSet;

use baton_core::Fault;
use baton_store::{Journal, RunRow, StoreError};
use baton_workflow::RunId;

use super::unusable;
use super::view::{Status, View};

/// How many runs are named where none fits.
const NAMED_MAX: usize = 5;

/// The run of this id, or with this end of its id.
pub(super) fn find(journal: &dyn Journal, name: &str) -> Result<RunRow, Fault> {
    let rows = journal.runs(None).map_err(|error| unusable(&error))?;
    let mut found: Vec<&RunRow> = rows.iter().filter(|row| row.id.as_str().ends_with(name)).collect();
    match (found.pop(), found.as_slice()) {
        (Some(row), []) => Ok(row.clone()),
        (Some(_), _) => Err(Fault::input(format!("`{name}` can mean several runs")).hint("give more of the id")),
        (None, _) => inside(journal, &rows, name)
            .map_err(|error| unusable(&error))?
            .ok_or_else(|| Fault::input(format!("there is no run `{name}`")).hint("`baton run status` lists them")),
    }
}

/// The run that changed last.
pub(super) fn last(journal: &dyn Journal) -> Result<RunRow, Fault> {
    let rows = journal.runs(None).map_err(|error| unusable(&error))?;
    rows.into_iter().next().ok_or_else(none)
}

/// That there is nothing to choose from.
pub(super) fn none() -> Fault {
    Fault::input("there are no runs in this project").hint("start one with `baton run start NAME`")
}

/// A run that is part of another one.
fn inside(journal: &dyn Journal, rows: &[RunRow], name: &str) -> Result<Option<RunRow>, StoreError> {
    for row in rows {
        let inner = journal.runs(Some(&row.id))?;
        if let Some(found) = inner.iter().find(|inner| inner.id.as_str() == name) {
            return Ok(Some(found.clone()));
        }
        if let Some(found) = inside(journal, &inner, name)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// The outermost run that a run is part of.
pub(super) fn root_of(journal: &dyn Journal, id: &RunId) -> Result<RunId, Fault> {
    let mut id = id.clone();
    while let Some(parent) = journal.run(&id).map_err(|error| unusable(&error))?.and_then(|standing| standing.parent) {
        id = parent;
    }
    Ok(id)
}

impl View {
    /// The run of this name; without a name the last one that fits, if one does.
    pub(super) fn chosen(&self, name: Option<&str>, fits: fn(&Status) -> bool) -> Result<Option<Status>, Fault> {
        if let Some(name) = name {
            return self.status(&find(&self.store, name)?.id, None).map(Some);
        }
        // An end that was not seen to is work, too.
        let owed = self.store.owed().map_err(|error| unusable(&error))?;
        let owing: BTreeSet<RunId> =
            owed.iter().map(|debt| root_of(&self.store, &debt.run)).collect::<Result<_, _>>()?;
        for row in self.store.runs(None).map_err(|error| unusable(&error))? {
            if row.phase != "ended" || owing.contains(&row.id) {
                let status = self.status(&row.id, None)?;
                if fits(&status) {
                    return Ok(Some(status));
                }
            }
        }
        Ok(None)
    }

    /// The runs that there are, in words: for whoever has named none, and none fits.
    pub(super) fn what_there_is(&self) -> Result<String, Fault> {
        let rows = self.store.runs(None).map_err(|error| unusable(&error))?;
        let mut said = Vec::new();
        for row in rows.iter().take(NAMED_MAX) {
            let status = self.status(&row.id, None)?;
            let at_its_end = if status.run.end().is_some() { " is at its end" } else { "" };
            said.push(format!("{} ({}){at_its_end}: {}", row.id, row.workflow, status.place()));
        }
        if rows.len() > NAMED_MAX {
            said.push(format!("and {} more (`baton run status`)", rows.len() - NAMED_MAX));
        }
        if said.is_empty() { Err(none()) } else { Ok(said.join("; ")) }
    }
}
