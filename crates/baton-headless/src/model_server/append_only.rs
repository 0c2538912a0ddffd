//! Checks that requests only grow at their end, as provider caches need it.

use std::collections::HashMap;

use baton_core::{AgentRole, Message, Role};
use serde_json::Value;

/// The fields that stay the same for a whole conversation, in every format's spelling.
const FIXED_FIELDS: [&str; 4] = ["system", "instructions", "systemInstruction", "tools"];

/// How much of a difference is shown.
const SHOWN_CHARS_MAX: usize = 60;

/// The last request of every conversation: of each role and first message.
#[derive(Debug, Default)]
pub(super) struct AppendOnly {
    last: HashMap<(AgentRole, String), Value>,
}

impl AppendOnly {
    /// Compares the request with the one before it. `Err` names the first difference.
    ///
    /// A request to which the model has not answered yet opens a conversation, even if another one
    /// began with the same words.
    pub(super) fn check(
        &mut self,
        role: &AgentRole,
        history: &str,
        messages: &[Message],
        request: &Value,
    ) -> Result<(), String> {
        let mut request = request.clone();
        remove_cache_markers(&mut request);
        let key = (role.clone(), messages.first().map(Message::text).unwrap_or_default());
        let is_answered = messages.iter().any(|message| message.role == Role::Assistant);
        if let Some(last) = self.last.get(&key).filter(|_| is_answered) {
            let fixed = FIXED_FIELDS.iter().find_map(|field| difference(field, &last[*field], &request[*field]));
            if let Some(difference) = fixed.or_else(|| prefix_difference(history, &last[history], &request[history])) {
                return Err(format!("not append-only: {difference}"));
            }
        }
        self.last.insert(key, request);
        Ok(())
    }
}

fn remove_cache_markers(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.shift_remove("cache_control");
            fields.values_mut().for_each(remove_cache_markers);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_cache_markers),
        _ => {}
    }
}

fn prefix_difference(path: &str, old: &Value, new: &Value) -> Option<String> {
    match (old, new) {
        (Value::Array(old), Value::Array(new)) if old.len() <= new.len() => items_difference(path, old, new),
        (Value::Array(old), Value::Array(new)) => items_difference(path, old, new).or(Some(format!(
            "{path} shrank from {} to {} items",
            old.len(),
            new.len()
        ))),
        _ => difference(path, old, new),
    }
}

fn items_difference(path: &str, old: &[Value], new: &[Value]) -> Option<String> {
    (0..).zip(old.iter().zip(new)).find_map(|(at, (old, new))| difference(&format!("{path}[{at}]"), old, new))
}

/// The first place where two values are not written alike; the order of keys counts.
fn difference(path: &str, old: &Value, new: &Value) -> Option<String> {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) if old.keys().eq(new.keys()) => {
            old.iter().zip(new.values()).find_map(|((key, old), new)| difference(&format!("{path}.{key}"), old, new))
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => items_difference(path, old, new),
        _ => {
            let (old, new) = (old.to_string(), new.to_string());
            (old != new).then(|| {
                let same = old.chars().zip(new.chars()).take_while(|(old, new)| old == new).count();
                let shown =
                    |text: &str| text.chars().skip(same.saturating_sub(10)).take(SHOWN_CHARS_MAX).collect::<String>();
                format!("{path} was `{}`, is `{}`", shown(&old), shown(&new))
            })
        }
    }
}
