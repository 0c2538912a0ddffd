//! A workspace on a disk and an executor in it.
#![allow(dead_code, reason = "every test program uses a part of it")]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use baton_core::{Access, CallId, ToolUse};
use baton_tools::{Executor, Grant, Outcome, Permit, Progress, Reach, Registry, Workspace};
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

pub struct Scene {
    _dir: TempDir,
    pub root: PathBuf,
    pub executor: Executor,
}

impl Scene {
    pub fn new() -> Self {
        Self::with(Registry::builtin())
    }

    pub fn with(registry: Registry) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap().join("work");
        fs::create_dir(&root).unwrap();
        let workspace = Workspace::new(&root, dir.path().join("outputs"), Reach::Inside).unwrap();
        let executor = Executor::new(registry, Arc::new(workspace));
        Self { _dir: dir, root, executor }
    }

    pub fn file(&self, path: &str, contents: impl AsRef<[u8]>) -> &Self {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, contents).unwrap();
        self
    }

    pub fn contents(&self, path: &str) -> Vec<u8> {
        fs::read(self.root.join(path)).unwrap()
    }

    pub async fn run(&self, tool: &str, input: Value) -> Outcome {
        self.run_granted(tool, input, &[]).await
    }

    /// Runs a call that may write to these files, whatever else is the matter with them.
    pub async fn run_granted(&self, tool: &str, input: Value, files: &[&str]) -> Outcome {
        let grant = files.iter().fold(Grant::none(), |grant, file| grant.path(self.root.join(file), Access::Write));
        let permit = Permit { grant, ..Permit::default() };
        self.executor.run_with(&call(tool, input), permit, CancellationToken::new(), Progress::none()).await
    }

    /// What a successful call says.
    pub async fn ok(&self, tool: &str, input: Value) -> String {
        let outcome = self.run(tool, input).await;
        assert!(!outcome.is_error, "{}", outcome.text);
        outcome.text
    }

    /// What a failed call says.
    pub async fn error(&self, tool: &str, input: Value) -> String {
        let outcome = self.run(tool, input).await;
        assert!(outcome.is_error, "{}", outcome.text);
        outcome.text
    }
}

pub fn call(tool: &str, input: Value) -> ToolUse {
    ToolUse { id: CallId::new("call_1"), tool: tool.to_owned(), input, malformed: None }
}
