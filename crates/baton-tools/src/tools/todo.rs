//! `todo`: the agent's list of what is to do, kept for the person to see.

use baton_core::Access;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::{CallContext, Outcome, TypedTool};

/// More would not be a plan, and every call repeats all of them.
const ITEMS_MAX: usize = 100;

/// Keeps the list. Its state is its last call, which the history holds.
pub(crate) struct Todo;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    #[serde(alias = "todos")]
    items: Vec<Item>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(from = "Written")]
#[schemars(!from, deny_unknown_fields)]
struct Item {
    text: String,
    status: Option<Status>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Status {
    #[default]
    #[serde(alias = "pending")]
    Open,
    #[serde(alias = "in_progress")]
    Doing,
    #[serde(alias = "completed")]
    Done,
}

/// As models write it: other agents' fields are taken, and an item may be its text alone.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Item {
        #[serde(alias = "content", alias = "step")]
        text: String,
        status: Option<Status>,
        #[serde(default)]
        completed: bool,
    },
}

impl From<Written> for Item {
    fn from(written: Written) -> Self {
        match written {
            Written::Text(text) => Self { text, status: None },
            Written::Item { text, status, completed } => {
                Self { text, status: status.or(completed.then_some(Status::Done)) }
            }
        }
    }
}

impl TypedTool for Todo {
    type Input = Input;
    const NAME: &'static str = "todo";
    const DESCRIPTION: &'static str = include_str!("todo.md");
    const ACCESS: Access = Access::Read;

    async fn call(&self, input: Input, _: &CallContext) -> Result<Outcome, String> {
        keep(&input)
    }
}

fn keep(input: &Input) -> Result<Outcome, String> {
    if input.items.len() > ITEMS_MAX {
        return Err(format!("more than {ITEMS_MAX} items: put small ones together"));
    }
    let with = |status| input.items.iter().filter(move |item| item.status.unwrap_or_default() == status);
    if with(Status::Doing).count() > 1 {
        return Err("more than one item is `doing`: do one at a time, the others are `open`".to_owned());
    }
    let next = with(Status::Doing).chain(with(Status::Open)).next();
    let (done, all) = (with(Status::Done).count(), input.items.len());
    let text = match next {
        Some(next) => format!("{done} of {all} done; next: {}", next.text),
        None => format!("all {all} done"),
    };
    let items: Vec<_> = input
        .items
        .iter()
        .map(|item| json!({ "text": item.text, "status": item.status.unwrap_or_default() }))
        .collect();
    Ok(Outcome::ok(text).with("items", items))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::{Tool, Typed};

    fn call(input: Value) -> Result<Outcome, String> {
        keep(&serde_json::from_value(input).map_err(|error| error.to_string())?)
    }

    #[test]
    fn tells_what_is_next() {
        let list = json!({"items": [{"text": "a", "status": "done"}, {"text": "b"}, {"text": "c", "status": "doing"}]});
        let outcome = call(list).unwrap();
        assert_eq!(outcome.text, "1 of 3 done; next: c");
        assert_eq!(outcome.meta["items"][1], json!({"text": "b", "status": "open"}));
        assert_eq!(call(json!({"items": []})).unwrap().text, "all 0 done");
    }

    #[test]
    fn takes_what_other_agents_write() {
        let list = json!({"todos": [
            {"content": "a", "status": "completed", "activeForm": "Doing a"}, {"step": "b", "status": "in_progress"}, "c",
            {"text": "d", "completed": true},
        ]});
        assert_eq!(call(list).unwrap().text, "2 of 4 done; next: b");
    }

    #[test]
    fn refuses_what_is_no_plan() {
        assert!(call(json!({"items": [{"text": "a", "status": "doing"}, {"text": "b", "status": "doing"}]})).is_err());
        assert!(call(json!({"items": vec!["x"; 101]})).is_err());
        assert!(call(json!({"items": [{"status": "done"}]})).is_err());
    }

    #[test]
    fn the_model_reads_one_form() {
        let schema = Typed::new(Todo).spec().input_schema.to_string();
        assert!(schema.contains(r#""enum":["open","doing","done"]"#), "{schema}");
        assert!(!schema.contains("anyOf"), "{schema}");
    }
}
