//! Ops: everything a surface can say to a conversation.

use serde::{Deserialize, Serialize};

use crate::{ApprovalId, Block};

/// One instruction to a conversation. Its outcome is seen on the event stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Op {
    /// Start a turn, or queue it behind the running one.
    Prompt {
        /// What the person says.
        content: Vec<Block>,
    },
    /// Say something to the running turn; delivered after the current tool. Without one it is a prompt.
    Steer {
        /// What the person says.
        content: Vec<Block>,
    },
    /// End the running turn and whatever it started.
    Cancel,
    /// Replace the history by a summary, now or after the running turn.
    Compact {
        /// What the summary should dwell on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        focus: Option<String>,
    },
    /// Answer a question that was asked by `approval.asked`.
    Answer {
        /// The question.
        approval: ApprovalId,
        /// The person's decision.
        answer: Answer,
    },
}

/// A person's decision about a tool call, or their answer to its question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Answer {
    /// This call only.
    Once,
    /// Calls like it until the session ends.
    Session,
    /// Calls like it from now on.
    Always,
    /// Not this call; the model is told why.
    Reject {
        /// What the model is told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// What the person answers to a question.
    Text {
        /// One of its options, or words of their own.
        text: String,
    },
}
