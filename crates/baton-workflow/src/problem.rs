//! What is wrong with a definition: where, why, what to write instead, and a path that shows it.

use std::fmt;

use serde::Serialize;

use crate::names::{Pos, StateName};

/// One mistake in a definition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Problem {
    /// Where it is.
    pub at: Pos,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// States that a run would go through to get stuck.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub path: Vec<StateName>,
}

impl Problem {
    pub(crate) fn new(at: &Pos, message: impl Into<String>) -> Self {
        Self { at: at.clone(), message: message.into(), hint: None, path: Vec::new() }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn path(mut self, path: Vec<StateName>) -> Self {
        self.path = path;
        self
    }

    /// Suggests the nearest of these names, or lists them.
    pub(crate) fn suggest<'a>(self, wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        match suggestion(wrong, known) {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.message)?;
        if !self.path.is_empty() {
            let path: Vec<_> = self.path.iter().map(StateName::as_str).collect();
            write!(f, "\n  path: {}", path.join(" -> "))?;
        }
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// What the person may have meant; short lists are shown whole.
pub(crate) fn suggestion<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    const NEAR: f64 = 0.8;
    const LISTED_MAX: usize = 8;
    let known: Vec<&str> = known.into_iter().collect();
    let likeness = |name: &str| strsim::jaro_winkler(&wrong.to_lowercase(), &name.to_lowercase());
    let nearest = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    if likeness(nearest) >= NEAR {
        return Some(format!("did you mean `{nearest}`?"));
    }
    let more = known.len().saturating_sub(LISTED_MAX);
    let listed: Vec<_> = known.iter().take(LISTED_MAX).map(|name| format!("`{name}`")).collect();
    let tail = if more == 0 { String::new() } else { format!(" and {more} more") };
    Some(format!("there is {}{tail}", listed.join(", ")))
}
