//! The library: where definitions come from. A project's stand before the person's, and those before the shipped ones.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use baton_workflow::{AgentFile, AgentName, Definition, Problem, Project, Sources, WorkflowName};
use serde::Serialize;

/// The longest file that is read.
const BYTES_MAX: u64 = 256 * 1024;

/// The workflows that come with Baton.
const WORKFLOWS: [(&str, &str); 2] = [
    ("hello", include_str!("../../../workflows/hello.star")),
    ("tdd-ping-pong", include_str!("../../../workflows/tdd-ping-pong.star")),
];

/// The agents that come with Baton.
const AGENTS: [(&str, &str); 4] = [
    ("domain-review", include_str!("../../../agents/domain-review.md")),
    ("hello", include_str!("../../../agents/hello.md")),
    ("tdd-green", include_str!("../../../agents/tdd-green.md")),
    ("tdd-red", include_str!("../../../agents/tdd-red.md")),
];

/// All definitions that can be named.
#[derive(Debug, Clone, Default)]
pub struct Library {
    workflows: BTreeMap<String, Shelved>,
    agents: BTreeMap<String, Shelved>,
}

/// A definition, and where it is from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shelved {
    /// What it says.
    pub text: String,
    /// Where it is from.
    pub origin: Origin,
    /// Whether one of the same name stands behind it.
    pub shadows: bool,
}

/// Where a definition is from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// It comes with Baton.
    Shipped,
    /// The person has it for all projects.
    User(PathBuf),
    /// The project has it: it counts where that is trusted.
    Project(PathBuf),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shipped => f.write_str("shipped"),
            Self::User(file) | Self::Project(file) => write!(f, "{}", file.display()),
        }
    }
}

/// A directory or file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {why}", .path.display())]
pub struct LibraryError {
    /// Which.
    pub path: PathBuf,
    /// Why.
    pub why: io::Error,
}

impl Library {
    /// The shipped definitions, those in the person's directory, and those of the project, if it counts.
    pub fn find(user: &Path, project: Option<&Path>) -> Result<Self, LibraryError> {
        let mut library = Self::default();
        for (shelf, shipped) in [(&mut library.workflows, &WORKFLOWS[..]), (&mut library.agents, &AGENTS[..])] {
            for (name, text) in shipped {
                put(shelf, (*name).to_owned(), (*text).to_owned(), Origin::Shipped);
            }
        }
        for (name, text, file) in read_all(&user.join("workflows"), "star")? {
            put(&mut library.workflows, name, text, Origin::User(file));
        }
        for (name, text, file) in read_all(&user.join("agents"), "md")? {
            put(&mut library.agents, name, text, Origin::User(file));
        }
        let Some(own) = project.map(|project| project.join(".baton")) else { return Ok(library) };
        for (name, text, file) in read_all(&own.join("workflows"), "star")? {
            put(&mut library.workflows, name, text, Origin::Project(file));
        }
        for (name, text, file) in read_all(&own.join("agents"), "md")? {
            put(&mut library.agents, name, text, Origin::Project(file));
        }
        Ok(library)
    }

    /// Adds a workflow that lies elsewhere, before all others of its name; its name.
    pub fn add(&mut self, file: &Path) -> Result<String, LibraryError> {
        let unreadable = |why: io::Error| LibraryError { path: file.to_owned(), why };
        let name =
            file.file_stem().and_then(|stem| stem.to_str()).ok_or_else(|| unreadable(io::Error::other("no name")))?;
        let text = read(file).map_err(unreadable)?;
        put(&mut self.workflows, name.to_owned(), text, Origin::User(file.to_owned()));
        Ok(name.to_owned())
    }

    /// The workflows, by name.
    pub fn workflows(&self) -> impl Iterator<Item = (&str, &Shelved)> {
        self.workflows.iter().map(|(name, shelved)| (name.as_str(), shelved))
    }

    /// One workflow.
    pub fn workflow(&self, name: &str) -> Option<&Shelved> {
        self.workflows.get(name)
    }

    /// The texts that a definition can be made of.
    pub fn sources(&self, project: Project) -> Sources {
        let files = self.workflows.iter().map(|(name, shelved)| (format!("{name}.star"), shelved.text.clone()));
        Sources { files: files.collect(), project }
    }

    /// Reads, checks and proves a workflow, and the agents that it names; or everything that is wrong.
    pub fn load(&self, name: &WorkflowName, project: Project) -> Result<Definition, Vec<Problem>> {
        let definition = Definition::load(&self.sources(project), name)?;
        let roles = definition.workflows().flat_map(|workflow| workflow.roles.values());
        let mut problems: Vec<Problem> = Vec::new();
        for role in roles {
            match self.agent(&role.agent) {
                Some(Ok(_)) => {}
                Some(Err(wrong)) => problems.extend(wrong),
                None => {
                    let hint =
                        format!("write `.baton/agents/{}.md`, or name one of: {}", role.agent, self.agent_names());
                    let message = format!("there is no agent `{}`", role.agent);
                    problems.push(Problem { at: role.at.clone(), message, hint: Some(hint), path: Vec::new() });
                }
            }
        }
        problems.sort();
        problems.dedup();
        if problems.is_empty() { Ok(definition) } else { Err(problems) }
    }

    /// An agent, if there is one of this name.
    pub fn agent(&self, name: &AgentName) -> Option<Result<AgentFile, Vec<Problem>>> {
        let shelved = self.agents.get(name.as_str())?;
        Some(AgentFile::parse(&format!("{name}.md"), &shelved.text))
    }

    /// The text of an agent file.
    pub fn agent_text(&self, name: &AgentName) -> Option<&str> {
        self.agents.get(name.as_str()).map(|shelved| shelved.text.as_str())
    }

    fn agent_names(&self) -> String {
        self.agents.keys().cloned().collect::<Vec<_>>().join(", ")
    }
}

fn put(shelf: &mut BTreeMap<String, Shelved>, name: String, text: String, origin: Origin) {
    let shadows = shelf.contains_key(&name);
    shelf.insert(name, Shelved { text, origin, shadows });
}

/// The files of a directory with this ending: name, text, path. No directory is no files.
fn read_all(dir: &Path, ending: &str) -> Result<Vec<(String, String, PathBuf)>, LibraryError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |why: io::Error| LibraryError { path, why }
    };
    let listing = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        listing => listing.map_err(unreadable(dir))?,
    };
    let mut found = Vec::new();
    for entry in listing {
        let path = entry.map_err(unreadable(dir))?.path();
        let is_ours = path.extension().is_some_and(|own| own == ending);
        let Some(name) = path.file_stem().and_then(|stem| stem.to_str()).filter(|_| is_ours) else { continue };
        let text = read(&path).map_err(unreadable(&path))?;
        found.push((name.to_owned(), text, path.clone()));
    }
    Ok(found)
}

/// Reads a small file; what is no file, or too long, is none of ours.
fn read(path: &Path) -> io::Result<String> {
    let file = fs::File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let mut text = String::new();
    file.take(BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {BYTES_MAX} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> WorkflowName {
        WorkflowName::parse(text).unwrap()
    }

    #[test]
    fn what_is_shipped_is_without_fault() {
        let library = Library::find(Path::new("/nowhere"), None).unwrap();
        let project = Project { test: Some("make test".into()), ..Project::default() };
        for (workflow, _) in library.workflows() {
            library.load(&name(workflow), project.clone()).unwrap();
        }
        for agent in library.agents.keys() {
            library.agent(&AgentName::parse(agent).unwrap()).unwrap().unwrap();
        }
    }

    #[test]
    fn a_project_stands_before_a_person_and_a_person_before_baton() {
        let dir = tempfile::tempdir().unwrap();
        let (user, project) = (dir.path().join("user"), dir.path().join("project"));
        for (place, about) in [(user.join("workflows"), "mine"), (project.join(".baton/workflows"), "ours")] {
            fs::create_dir_all(&place).unwrap();
            let text = format!("workflow(name = \"hello\", about = \"{about}\", states = {{\"DONE\": done()}})\n");
            fs::write(place.join("hello.star"), text).unwrap();
        }
        let about =
            |library: &Library| library.load(&name("hello"), Project::default()).unwrap().main().unwrap().about.clone();
        assert_eq!(about(&Library::find(&user, None).unwrap()), "mine");
        let library = Library::find(&user, Some(&project)).unwrap();
        assert_eq!(about(&library), "ours");
        assert!(matches!(library.workflow("hello"), Some(Shelved { origin: Origin::Project(_), shadows: true, .. })));
    }

    #[test]
    fn an_agent_that_is_not_there_is_a_mistake_of_the_definition() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join(".baton/workflows");
        fs::create_dir_all(&place).unwrap();
        let text = library_text().replace("agent = \"hello\"", "agent = \"nobody\"");
        fs::write(place.join("hello.star"), text).unwrap();
        let library = Library::find(Path::new("/nowhere"), Some(dir.path())).unwrap();
        let problems = library.load(&name("hello"), Project::default()).unwrap_err();
        assert!(problems[0].message.contains("there is no agent `nobody`"), "{problems:?}");
    }

    fn library_text() -> &'static str {
        WORKFLOWS[0].1
    }
}
