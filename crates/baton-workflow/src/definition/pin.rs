//! A definition with the texts that it was read from, pinned by their hash.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use starlark::environment::FrozenModule;

use super::{Workflow, read};
use crate::check;
use crate::names::{DefinitionHash, WorkflowName};
use crate::problem::Problem;
use crate::project::Project;

/// Texts that definitions are read from. Whoever calls has found and read the files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sources {
    /// Text by file name; workflow `NAME` is in `NAME.star`.
    pub files: BTreeMap<String, String>,
    /// The project's commands and paths.
    pub project: Project,
}

/// Everything that a run depends on, as it is stored with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// The workflow that is started.
    pub workflow: WorkflowName,
    /// The files that its definition needs, and no others.
    pub sources: Sources,
}

impl Pin {
    /// The name of this content.
    pub fn hash(&self) -> DefinitionHash {
        let mut hasher = Sha256::new();
        let mut put = |part: &str| {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        };
        put(self.workflow.as_str());
        for (file, text) in &self.sources.files {
            put(file);
            put(text);
        }
        let project = &self.sources.project;
        for (name, command) in project.commands() {
            put(name);
            put(command.unwrap_or("\0"));
        }
        for paths in [&project.test_paths, &project.source_paths] {
            put(&paths.len().to_string());
            for path in paths {
                put(path);
            }
        }
        let hex = |text: String, byte: &u8| text + &format!("{byte:02x}");
        DefinitionHash::new(hasher.finalize().iter().fold(String::new(), hex))
    }
}

/// A workflow with all that it calls, checked and proved.
#[derive(Debug, Clone)]
pub struct Definition {
    pin: Pin,
    hash: DefinitionHash,
    workflows: BTreeMap<WorkflowName, Workflow>,
    modules: BTreeMap<String, FrozenModule>,
    trusted: BTreeSet<String>,
    /// Names of workflows that could be called, for suggestions.
    beside: BTreeSet<String>,
}

impl Definition {
    /// Reads, checks and proves the workflow; or says everything that is wrong with it.
    pub fn load(sources: &Sources, name: &WorkflowName) -> Result<Self, Vec<Problem>> {
        let (definition, mut problems) = Self::read(sources, name);
        problems.extend(check::problems(&definition, problems.is_empty()));
        problems.sort();
        problems.dedup();
        if problems.is_empty() { Ok(definition) } else { Err(problems) }
    }

    /// The definition of a run that was started before.
    pub fn from_pin(pin: &Pin) -> Result<Self, Vec<Problem>> {
        Self::load(&pin.sources, &pin.workflow)
    }

    /// What could be read, and what could not.
    fn read(sources: &Sources, name: &WorkflowName) -> (Self, Vec<Problem>) {
        let read = read::read(sources, name);
        let beside = sources.files.keys().filter_map(|file| file.strip_suffix(".star").map(str::to_owned)).collect();
        let files = sources.files.iter().filter(|(file, _)| read.files.contains(*file));
        let files = files.map(|(file, text)| (file.clone(), text.clone())).collect();
        let pin = Pin { workflow: name.clone(), sources: Sources { files, project: sources.project.clone() } };
        let hash = pin.hash();
        let (workflows, modules, trusted) = (read.workflows, read.modules, read.trusted);
        (Self { pin, hash, workflows, modules, trusted, beside }, read.problems)
    }

    /// What to store with a run.
    pub fn pin(&self) -> &Pin {
        &self.pin
    }

    /// The name of the pinned content.
    pub fn hash(&self) -> &DefinitionHash {
        &self.hash
    }

    /// The workflow that is started.
    pub fn main(&self) -> Option<&Workflow> {
        self.workflow(&self.pin.workflow)
    }

    /// A workflow of this definition.
    pub fn workflow(&self, name: &WorkflowName) -> Option<&Workflow> {
        self.workflows.get(name)
    }

    /// The started workflow and all that it calls.
    pub fn workflows(&self) -> impl Iterator<Item = &Workflow> {
        self.workflows.values()
    }

    /// The project's commands and paths.
    pub fn project(&self) -> &Project {
        &self.pin.sources.project
    }

    pub(crate) fn module(&self, file: &str) -> Option<&FrozenModule> {
        self.modules.get(file)
    }

    pub(crate) fn beside(&self) -> impl Iterator<Item = &str> {
        self.beside.iter().map(String::as_str)
    }

    pub(crate) fn trusted(&self) -> &BTreeSet<String> {
        &self.trusted
    }
}
