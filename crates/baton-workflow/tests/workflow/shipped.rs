//! The definitions that Baton ships.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use baton_workflow::{AgentFile, Definition, Sources, bound, dot, mermaid, picture, reference};

use crate::support::{name, project};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

pub fn shipped() -> Sources {
    let files = fs::read_dir(root().join("workflows")).unwrap().flatten();
    let read =
        |entry: fs::DirEntry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap());
    Sources { files: files.map(read).collect(), project: project() }
}

pub fn load(workflow: &str) -> Definition {
    Definition::load(&shipped(), &name(workflow))
        .unwrap_or_else(|problems| panic!("{}", crate::support::show(&problems)))
}

#[test]
fn every_shipped_workflow_is_proved_and_has_its_agents() {
    let sources = shipped();
    assert!(sources.files.len() >= 2);
    for file in sources.files.keys() {
        let definition = load(file.strip_suffix(".star").unwrap());
        for role in definition.workflows().flat_map(|workflow| workflow.roles.values()) {
            let file = format!("agents/{}.md", role.agent);
            let text = fs::read_to_string(root().join(&file)).unwrap();
            let agent =
                AgentFile::parse(&file, &text).unwrap_or_else(|problems| panic!("{}", crate::support::show(&problems)));
            assert_eq!(agent.name, role.agent);
            assert!(
                agent.tools.iter().all(|tool| role.tools.contains(tool)),
                "{file} needs tools that the role does not have"
            );
        }
    }
}

#[test]
fn hello_has_ten_lines() {
    assert!(shipped().files["hello.star"].lines().filter(|line| !line.starts_with('#')).count() <= 10);
}

#[test]
fn the_bound_of_ping_pong_is_known_before_it_starts() {
    let bound = bound(&load("tdd-ping-pong"), &|_, _| None);
    // Four agent states of six attempts and a commit of four, for 20 scenarios, each four times at most; and those four.
    assert_eq!(bound.steps, (4 * 6 + 4) * 20 * 4 + 4);
    assert_eq!(bound.tokens, 3_000_000 * 20 * 4);
    assert_eq!(bound.usd, None);
}

#[test]
fn pictures_of_the_shipped_workflows() {
    let definition = load("tdd-ping-pong");
    let mut pictures = BTreeMap::new();
    for workflow in definition.workflows() {
        for columns in [40, 80, 160] {
            let picture = picture(workflow, columns);
            assert!(picture.lines().all(|line| line.chars().count() <= columns), "{picture}");
            pictures.insert(format!("{} {columns:3}", workflow.name), picture);
        }
        pictures.insert(format!("{} mermaid", workflow.name), mermaid(workflow));
        pictures.insert(format!("{} dot", workflow.name), dot(workflow));
    }
    let text: Vec<String> = pictures.iter().map(|(title, picture)| format!("--- {title}\n{picture}\n")).collect();
    let text = text.concat();
    insta::assert_snapshot!(text);
}

#[test]
fn the_reference_is_made_from_the_code() {
    let file = root().join("docs/workflow-reference.md");
    let text = reference();
    if std::env::var_os("INSTA_UPDATE").is_some_and(|update| update == "always") {
        fs::write(&file, &text).unwrap();
    }
    let written = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        written == text,
        "docs/workflow-reference.md is out of date: run `INSTA_UPDATE=always cargo test -p baton-workflow`"
    );
}

#[test]
fn a_definition_as_people_write_it_first() {
    crate::support::define(
        r#"
workflow(
    name = "w",
    params = {"scenario": string(required = True), "test": string(default = project.test)},
    roles = {
        "ping": role(agent = "tdd-red", write = ["tests/**"], tools = CODING),
        "pong": role(agent = "tdd-green", write = ["src/**"], tools = CODING),
        "reviewer": role(agent = "domain-review", write = [], tools = READING),
    },
    states = {
        "RED": state(role = "ping", freeze = ["tests/**"],
            gate = evidence({"test_file": "path", "failure": "text"}, verify = lambda c: c.run(c.params.test).failed),
            on = {"pass": "REVIEW_TEST"}),
        "REVIEW_TEST": state(role = "reviewer", inputs = ["RED"],
            gate = verdict(["approved", "flagged"], needs = {"summary": "text", "findings": "list"}),
            on = {"approved": "GREEN", "flagged": "RED"}),
        "GREEN": state(role = "pong", gate = command(project.test), on = {"pass": "COMMIT"}),
        "COMMIT": action(commit(message = "TDD: {scenario}"), on = {"pass": "DONE"}),
        "DONE": done(), "ESCALATE": escalate(),
    },
)
"#,
    );
}

#[test]
fn definitions_and_runs_go_from_thread_to_thread() {
    fn shared<T: Send + Sync + Clone + 'static>(_: &T) {}
    let definition = load("hello");
    shared(&definition);
    let workflow = &definition.main().unwrap().name;
    let run = baton_workflow::Run::new(baton_workflow::RunId::new("r"), &definition, workflow, crate::support::at(0))
        .unwrap();
    shared(&run);
}
