//! Typed tools: the input as a Rust type, its schema for the model, and errors the model can act on.

use async_trait::async_trait;
use baton_core::{Access, ToolSpec};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{CallContext, Outcome, Tool};

/// A tool whose input is a Rust type. [`Typed`] makes it a [`Tool`].
pub trait TypedTool: Send + Sync {
    /// The input object. Should deny unknown fields, so that a misspelt one is told and not ignored.
    type Input: DeserializeOwned + JsonSchema + Send;
    /// The name the model calls it by.
    const NAME: &'static str;
    /// What the model reads about it.
    const DESCRIPTION: &'static str;
    /// What it does to the world.
    const ACCESS: Access;
    /// Whether it ends by limits of its own; see [`Tool::own_limits`].
    const OWN_LIMITS: bool = matches!(Self::ACCESS, Access::Execute);
    /// Whether it may run beside other calls; see [`Tool::parallel`].
    const PARALLEL: bool = matches!(Self::ACCESS, Access::Read | Access::Network);

    /// Runs one call. An error is read by the model: it says what is wrong and what to do.
    fn call(&self, input: Self::Input, cx: &CallContext) -> impl Future<Output = Result<Outcome, String>> + Send;
}

/// A [`TypedTool`] as a [`Tool`].
pub struct Typed<T> {
    tool: T,
    spec: ToolSpec,
}

impl<T: TypedTool> Typed<T> {
    /// Derives the spec from the input type.
    pub fn new(tool: T) -> Self {
        let spec = ToolSpec {
            name: T::NAME.to_owned(),
            description: T::DESCRIPTION.trim().to_owned(),
            input_schema: compact_schema::<T::Input>(),
        };
        Self { tool, spec }
    }

    fn parse(&self, input: Value) -> Result<T::Input, String> {
        serde_path_to_error::deserialize(input).map_err(|error| {
            let path = error.path().to_string();
            let problem = error.inner().to_string();
            // Serde lists every field it would take, other agents' names included: the signature says it better.
            let problem = match problem.split_once(", expected ") {
                Some((unknown, _)) if problem.starts_with("unknown field") => unknown,
                _ => &problem,
            };
            let place =
                if path == "." || problem.starts_with("unknown field") { String::new() } else { format!("`{path}`: ") };
            format!(
                "invalid input for `{}`: {place}{problem}; expected {}",
                T::NAME,
                signature(&self.spec.input_schema)
            )
        })
    }
}

#[async_trait]
impl<T: TypedTool> Tool for Typed<T> {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self) -> Access {
        T::ACCESS
    }

    fn own_limits(&self) -> bool {
        T::OWN_LIMITS
    }

    fn parallel(&self) -> bool {
        T::PARALLEL
    }

    async fn run(&self, input: Value, cx: &CallContext) -> Outcome {
        match self.parse(input) {
            Ok(input) => self.tool.call(input, cx).await.unwrap_or_else(Outcome::error),
            Err(problem) => Outcome::error(problem),
        }
    }
}

/// The schema with everything inlined and nothing in it that a model does not need.
fn compact_schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.meta_schema = None;
        settings.inline_subschemas = true;
    });
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Some(root) = schema.as_object_mut() {
        root.remove("description");
    }
    compact(&mut schema);
    schema
}

fn compact(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    for noise in ["title", "format", "default"] {
        object.remove(noise);
    }
    if object.get("minimum") == Some(&Value::from(0)) {
        object.remove("minimum");
    }
    // An optional field is one that is not required; that it may be null as well is of no use to a model.
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(values)) = object.get_mut("enum") {
        values.retain(|value| !value.is_null());
    }
    for (key, value) in object.iter_mut() {
        match (key.as_str(), value) {
            ("properties", Value::Object(properties)) => properties.values_mut().for_each(compact),
            (_, Value::Array(items)) => items.iter_mut().for_each(compact),
            (_, value) => compact(value),
        }
    }
}

/// The input in one line: `{path: string, all?: boolean}`.
fn signature(schema: &Value) -> String {
    let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
    let fields: Vec<_> = schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, field)| {
            let optional = if required.iter().any(|field| field == name) { "" } else { "?" };
            format!("{name}{optional}: {}", field["type"].as_str().unwrap_or("any"))
        })
        .collect();
    format!("{{{}}}", fields.join(", "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tools::Edit;

    fn problem(input: Value) -> String {
        Typed::new(Edit).parse(input).map(|_| ()).unwrap_err()
    }

    #[test]
    fn errors_name_the_field_and_the_expected_shape() {
        let expected = "expected {path: string, old: string, new: string, all?: boolean, dry_run?: boolean}";
        for (input, says) in [
            (json!({"path": "a", "new": "b"}), "missing field `old`"),
            (json!({"path": true, "old": "a", "new": "b"}), "`path`: invalid type: boolean `true`, expected a string"),
            (json!({"path": "a", "old": "a", "new": "b", "every": true}), "unknown field `every`"),
            (json!({"path": "a", "file_path": "b", "old": "a", "new": "b"}), "duplicate field `path`"),
        ] {
            assert_eq!(problem(input), format!("invalid input for `edit`: {says}; {expected}"));
        }
    }

    #[test]
    fn names_of_other_agents_are_taken_but_not_shown() {
        let tool = Typed::new(Edit);
        let input = json!({"file_path": "a", "old_string": "b", "new_string": "c", "replace_all": true});
        assert!(tool.parse(input).is_ok());
        assert!(!tool.spec().input_schema.to_string().contains("file_path"));
    }

    #[test]
    fn schemas_carry_no_noise() {
        let schema = &Typed::new(Edit).spec.input_schema;
        assert_eq!(schema["additionalProperties"], json!(false));
        assert_eq!(schema["properties"]["all"]["type"], json!("boolean"));
        for noise in ["$schema", "title", "$defs", "null"] {
            assert!(!schema.to_string().contains(noise), "{schema}");
        }
    }
}
