//! The form of the final answer: a JSON schema that it has to match, checked here and not believed.

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;

/// How often an answer that does not match is asked for again.
pub(crate) const AGAIN_MAX: u32 = 2;

/// How much of what is wrong the model is told.
const PROBLEMS_BYTES_MAX: usize = 2_000;

/// A schema for final answers.
pub struct AnswerSchema {
    schema: Value,
    compiled: Schemas,
    root: SchemaIndex,
}

impl AnswerSchema {
    /// Takes a JSON schema; what is wrong with it otherwise.
    pub fn new(schema: Value) -> Result<Self, String> {
        // Nothing is ever loaded from here; it only has to be an address.
        const ADDRESS: &str = "file:///answer.json";
        let mut compiled = Schemas::new();
        let mut resources = Compiler::new();
        resources.add_resource(ADDRESS, schema.clone()).map_err(|error| error.to_string())?;
        let root = resources.compile(ADDRESS, &mut compiled).map_err(|error| format!("{error:#}"))?;
        Ok(Self { schema, compiled, root })
    }

    /// What the model is told with the prompt.
    pub(crate) fn instruction(&self) -> String {
        format!(
            "When you are done, your final answer must be one JSON value that matches this schema, and nothing else (no \
             other text, no code fence):\n{}",
            self.schema
        )
    }

    /// An answer that matches, as text and as a value; what is wrong with it otherwise.
    pub(crate) fn check(&self, answer: &str) -> Result<(String, Value), String> {
        let answer = unfenced(answer);
        let value: Value = serde_json::from_str(answer).map_err(|error| format!("it is not JSON: {error}"))?;
        self.compiled.validate(&value, self.root).map_err(|error| {
            let mut problems = error.to_string();
            problems.truncate(problems.floor_char_boundary(PROBLEMS_BYTES_MAX));
            problems
        })?;
        Ok((answer.to_owned(), value))
    }
}

/// The answer without the fence that models like to put around JSON.
fn unfenced(answer: &str) -> &str {
    let answer = answer.trim();
    let fenced = answer.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let Some(inside) = fenced else { return answer };
    inside.strip_prefix("json").unwrap_or(inside).trim()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> AnswerSchema {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        AnswerSchema::new(schema).unwrap()
    }

    #[test]
    fn answers_are_checked() {
        assert_eq!(schema().check(r#"{"n": 1}"#), Ok((r#"{"n": 1}"#.to_owned(), json!({"n": 1}))));
        assert_eq!(schema().check("```json\n{\"n\": 1}\n```\n"), Ok((r#"{"n": 1}"#.to_owned(), json!({"n": 1}))));
        assert!(schema().check("n is 1").unwrap_err().contains("it is not JSON"));
        let wrong = schema().check(r#"{"n": "one"}"#).unwrap_err();
        assert!(wrong.contains("/n") && wrong.contains("integer"), "{wrong}");
        assert!(schema().check(r#"{"n": 1} and more"#).is_err());
    }

    #[test]
    fn schemas_are_checked() {
        let wrong = AnswerSchema::new(json!({"type": "objekt"})).err().unwrap();
        assert!(wrong.contains("/type"), "{wrong}");
        assert!(AnswerSchema::new(json!({"$ref": "https://example.com/schema"})).is_err(), "nothing is fetched");
    }
}
