//! The fence: what a command changed although it may not is put back when it has ended.

use std::fmt::{Debug, Write};
use std::sync::Arc;

use crate::{CallContext, Outcome, Workspace};

/// How many files an outcome names.
const SHOWN_MAX: usize = 8;
/// How programs say that the kernel kept them from writing.
const SIGNS: [&str; 6] = [
    "Read-only file system",
    "Permission denied",
    "Operation not permitted",
    "Invalid cross-device link",
    "EROFS",
    "EACCES",
];

/// What is said before the files that were put back.
pub const PUT_BACK: &str = "changed although it may not be, so it was put back: ";

/// Knows what may be changed in a workspace, and puts the rest back.
pub trait Fence: Debug + Send + Sync {
    /// Puts back what should not have been changed: which files, and why they may not be. Blocks.
    fn mend(&self) -> Result<Vec<(String, String)>, String>;
}

impl Workspace {
    /// After every command, what lies beyond the fence is put back.
    #[must_use]
    pub fn with_fence(mut self, fence: Arc<dyn Fence>) -> Self {
        self.set_fence(fence);
        self
    }
}

/// Puts back what a command should not have changed, and says so to the model.
pub(crate) async fn mend(command: &str, cx: &CallContext, outcome: &mut Outcome) {
    let Some(fence) = cx.workspace.fence().cloned() else { return };
    if cx.workspace.only_reads(command) {
        return;
    }
    if SIGNS.iter().any(|sign| outcome.text.contains(sign)) {
        // Whatever its exit code says.
        outcome.meta.insert("kept_out".to_owned(), true.into());
    }
    match crate::blocking(move || fence.mend()).await {
        Ok(mended) if mended.is_empty() => {}
        Ok(mended) => {
            let named = mended.iter().take(SHOWN_MAX).map(|(path, why)| format!("{path} ({why})"));
            let named = named.collect::<Vec<_>>().join(", ");
            let more = mended.len().saturating_sub(SHOWN_MAX);
            let more = if more == 0 { String::new() } else { format!(" and {more} more") };
            // Writing to a string cannot fail.
            let _ = write!(outcome.text, "\n[{PUT_BACK}{named}{more}]");
            outcome.is_error = true;
            let paths: Vec<String> = mended.into_iter().map(|(path, _)| path).collect();
            outcome.meta.insert("put_back".to_owned(), paths.into());
        }
        Err(why) => {
            let _ = write!(outcome.text, "\n[it could not be looked at what the command changed: {why}]");
            outcome.is_error = true;
        }
    }
}
