//! What a model is told about a tool.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A tool as it is offered to a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// The name the model calls it by.
    pub name: String,
    /// When and how to use it, in the model's context with every request: keep it short.
    pub description: String,
    /// JSON Schema of the input object.
    pub input_schema: Value,
}
