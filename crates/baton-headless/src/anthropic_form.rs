//! Words of Anthropic's wire format that both the model server and Claude Code's output use.

use baton_core::{StopReason, Usage};
use serde_json::{Value, json};

/// Why an answer ended.
pub(crate) fn stop_reason(stop: StopReason) -> &'static str {
    match stop {
        StopReason::EndTurn => "end_turn",
        StopReason::ToolUse => "tool_use",
        StopReason::MaxTokens => "max_tokens",
        StopReason::Pause => "pause_turn",
        StopReason::Refusal => "refusal",
    }
}

/// What was used; the parts do not overlap.
pub(crate) fn usage(usage: &Usage) -> Value {
    json!({
        "input_tokens": usage.input_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cache_read_tokens,
        "output_tokens": usage.output_tokens,
    })
}
