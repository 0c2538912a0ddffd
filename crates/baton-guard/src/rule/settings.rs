//! The setting `permissions`: lists of rules and a mode.

use baton_config::{Section, Tighten};
use baton_core::PermissionMode;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Rule;

/// The setting `permissions` of one layer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct PermissionSettings {
    /// What runs unasked.
    pub allow: Vec<String>,
    /// What is asked for.
    pub ask: Vec<String>,
    /// What is refused.
    pub deny: Vec<String>,
    /// The permission mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<PermissionMode>,
}

impl Section for PermissionSettings {
    const KEY: &'static str = "permissions";
    const JOINS_LISTS: bool = true;

    /// A repository may tighten, and nothing else, before it is trusted.
    fn allowed_in_project(value: &Value) -> bool {
        value.as_object().is_some_and(|lists| lists.keys().all(|key| matches!(key.as_str(), "ask" | "deny")))
    }

    /// A list that allows can do without one rule, or without all of them.
    fn holds_back(path: &[String]) -> bool {
        path.first().is_none_or(|field| field != "allow")
    }

    fn tightened(field: &str) -> Option<Tighten> {
        match field {
            "ask" | "deny" => Some(Tighten::Joined),
            "mode" => Some(Tighten::By(narrower)),
            _ => None,
        }
    }

    fn check(&self) -> Option<(Vec<String>, String)> {
        let lists = [("deny", &self.deny), ("ask", &self.ask), ("allow", &self.allow)];
        lists.into_iter().find_map(|(list, rules)| {
            let unreadable = |(place, rule): (usize, &String)| {
                let read = Rule::parse(rule).and_then(|rule| if list == "allow" { rule.may_allow() } else { Ok(()) });
                Some((vec![list.to_owned(), place.to_string()], read.err()?.to_string()))
            };
            rules.iter().enumerate().find_map(unreadable)
        })
    }
}

/// The mode in which an agent may do less.
fn narrower(set: &Value, managed: &Value) -> Value {
    let mode = |value: &Value| PermissionMode::deserialize(value).ok();
    match (mode(set), mode(managed)) {
        (Some(set), Some(managed)) => set.narrower(managed).name().into(),
        (None, _) => managed.clone(),
        (Some(_), None) => set.clone(),
    }
}
