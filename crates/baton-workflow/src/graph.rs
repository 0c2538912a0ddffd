//! A workflow as a graph: for Mermaid, for Graphviz, and as a picture in a terminal.

mod picture;

use std::fmt::Write as _;

use crate::definition::{Gate, Kind, State, Workflow};
use crate::names::{Outcome, StateName};

pub use picture::picture;

/// Outcomes worth a line: those that are written, and those that have to be.
fn shown<'a>(state: &'a State, workflow: &'a Workflow) -> Vec<(Outcome, &'a StateName)> {
    let edges = state.edges(workflow).into_iter();
    edges.filter(|(outcome, _)| state.on.contains_key(outcome)).collect()
}

/// Who acts in a state and what it takes to leave it.
fn describe(state: &State) -> (String, String) {
    match &state.kind {
        Kind::Agent(work) => {
            let gate = match &work.gate {
                Gate::Evidence { fields, .. } => {
                    let names: Vec<_> = fields.0.keys().map(ToString::to_string).collect();
                    format!("evidence: {}", names.join(", "))
                }
                Gate::Verdict { .. } => "verdict".to_owned(),
                Gate::Command { argv, .. } => format!("command: {argv}"),
                Gate::Human(_) => "a person agrees".to_owned(),
            };
            let verified = if work.gate.verify().is_some() { ", verified" } else { "" };
            (work.role.to_string(), format!("{gate}{verified}"))
        }
        Kind::Action(crate::definition::Action::Commit { .. }) => ("conductor".to_owned(), "commit".to_owned()),
        Kind::Action(crate::definition::Action::Command { .. }) => ("conductor".to_owned(), "command".to_owned()),
        Kind::Parallel(parallel) => {
            let names: Vec<_> =
                parallel.branches.iter().map(|(name, call)| format!("{name} ({})", call.workflow)).collect();
            ("parallel".to_owned(), names.join(", "))
        }
        Kind::Each(each) => ("each".to_owned(), format!("{} for every {}", each.call.workflow, each.item)),
        Kind::Call(call) => ("call".to_owned(), call.workflow.to_string()),
        Kind::Human(_) => ("person".to_owned(), "decides".to_owned()),
        Kind::Done { is_failure: false } => ("end".to_owned(), "done".to_owned()),
        Kind::Done { is_failure: true } => ("end".to_owned(), "failed".to_owned()),
        Kind::Escalate => ("end".to_owned(), "a person takes over".to_owned()),
    }
}

/// States worth a box: an escalation that nothing leads to in writing is left out.
fn boxes(workflow: &Workflow) -> Vec<&State> {
    let is_named =
        |state: &State| workflow.states.iter().any(|from| from.on.values().any(|target| target.state == state.name));
    workflow.states.iter().filter(|state| !matches!(state.kind, Kind::Escalate) || is_named(state)).collect()
}

/// For Mermaid: `stateDiagram-v2`.
pub fn mermaid(workflow: &Workflow) -> String {
    let mut text = String::from("stateDiagram-v2\n");
    let id = |name: &StateName| name.as_str().replace('-', "_");
    for state in boxes(workflow) {
        let (who, what) = describe(state);
        let what = what.replace([':', ';', '\n'], " ");
        let _ = writeln!(
            text,
            "    state \"{}<br/>{who}<br/>{}\" as {}",
            state.name,
            what.replace('"', "'"),
            id(&state.name)
        );
    }
    let _ = writeln!(text, "    [*] --> {}", id(&workflow.start));
    for state in boxes(workflow) {
        for (outcome, target) in shown(state, workflow) {
            let _ = writeln!(text, "    {} --> {}: {outcome}", id(&state.name), id(target));
        }
        if state.is_end() {
            let _ = writeln!(text, "    {} --> [*]", id(&state.name));
        }
    }
    text
}

/// For Graphviz.
pub fn dot(workflow: &Workflow) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"));
    let mut text = format!("digraph {} {{\n    node [shape=box, style=rounded];\n", quoted(workflow.name.as_str()));
    text.push_str("    start [shape=point, label=\"\"];\n");
    for state in boxes(workflow) {
        let (who, what) = describe(state);
        let label = quoted(&format!("{}\n{who}\n{what}", state.name));
        let end = if state.is_end() { ", peripheries=2" } else { "" };
        let _ = writeln!(text, "    {} [label={label}{end}];", quoted(state.name.as_str()));
    }
    let _ = writeln!(text, "    start -> {};", quoted(workflow.start.as_str()));
    for state in boxes(workflow) {
        for (outcome, target) in shown(state, workflow) {
            let (from, to) = (quoted(state.name.as_str()), quoted(target.as_str()));
            let _ = writeln!(text, "    {from} -> {to} [label={}];", quoted(outcome.as_str()));
        }
    }
    text.push_str("}\n");
    text
}
