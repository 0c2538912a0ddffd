//! The provider trait: one streaming model call, whoever answers it.

use async_trait::async_trait;
use tokio::sync::mpsc;

use crate::error::LlmError;
use crate::request::{Answer, Delta, Request};

/// Something that answers requests.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Makes one call. What arrives is sent to `deltas` at once; the whole answer is returned.
    /// Dropping the future cancels the call. Every wait in it has a limit.
    async fn answer(&self, request: &Request, deltas: &mpsc::Sender<Delta>) -> Result<Answer, LlmError>;

    /// Where it is after the answers of this request, if it keeps count of them. A request whose messages do not go back to
    /// the beginning tells it so.
    fn place(&self, _request: &Request) -> Option<serde_json::Value> {
        None
    }

    /// Whether waiting before another attempt can change what it answers.
    fn is_live(&self) -> bool {
        true
    }
}
