//! The stage: what the conductor needs from whoever knows models, keys and the sandbox.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use baton_agent::Options;
use baton_core::{Fault, SessionId, Tokens, Usd};
use baton_llm::Budget;
use baton_session::History;
use baton_tools::{Executor, Fence, RoleFiles};
use baton_workflow::RoleName;

/// Makes conversations and places to run commands in.
pub trait Stage: Send + Sync {
    /// Everything that the conversation of this part is made of. Blocks.
    fn conversation(&self, part: &Part) -> Result<Options, Fault>;

    /// What was said so far in a conversation that nobody speaks in. Blocks.
    fn history(&self, session: &SessionId) -> Option<History>;

    /// Tools for the conductor's own commands in a directory: kept in by the sandbox, writing there and nowhere else.
    /// Blocks.
    fn workshop(&self, root: &Path) -> Result<Executor, Fault>;
}

/// What an agent plays in a run, and what it may touch.
#[derive(Debug, Clone)]
pub struct Part {
    /// The conversation: it goes on if there is one of this id.
    pub session: SessionId,
    /// The tree that it works in.
    pub root: PathBuf,
    /// The model, if the run or the role names one.
    pub model: Option<String>,
    /// The role.
    pub role: RoleName,
    /// Patterns of files that it may write.
    pub write: Vec<String>,
    /// Patterns of files that nobody may write any more.
    pub frozen: Vec<String>,
    /// The same for its commands.
    pub files: RoleFiles,
    /// The tools that it is given.
    pub tools: Vec<String>,
    /// Puts back what commands should not have changed.
    pub fence: Option<Arc<dyn Fence>>,
    /// Tokens that it may use.
    pub tokens: Tokens,
    /// Dollars that it may use.
    pub usd: Option<Usd>,
    /// What is left of the runs around its own, shared by all who work inside them.
    pub around: Vec<Budget>,
}
