//! The brief: everything an agent has to know for its work in a state, in one text. Nothing is left to its memory, so an
//! agent that was compacted or replaced knows as much as any other. Pure.

use std::fmt::Write;

use baton_workflow::{AgentFile, Dispatch, Evidence, Fields, Gate, Glob, RunId, StateName, Work, Workflow};
use serde_json::Value;

/// What a brief is made of.
pub(crate) struct Brief<'a> {
    pub(crate) run: &'a RunId,
    pub(crate) workflow: &'a Workflow,
    pub(crate) state: &'a StateName,
    pub(crate) work: &'a Work,
    pub(crate) dispatch: &'a Dispatch,
    pub(crate) agent: &'a AgentFile,
    /// Who it is, beyond what the agent file says.
    pub(crate) persona: Option<&'a str>,
    /// The project's commands that are known.
    pub(crate) commands: &'a [(&'static str, Option<&'a str>)],
    /// Files that nobody may change any more, with the state that froze them.
    pub(crate) frozen: &'a [(String, String)],
    /// Whether it goes on after Baton was stopped.
    pub(crate) is_interrupted: bool,
}

/// The tool with which work is handed in.
pub(crate) const SUBMIT: &str = "submit_evidence";
/// The tool with which a person is asked.
pub(crate) const HELP: &str = "request_help";

impl Brief<'_> {
    /// The text.
    pub(crate) fn text(&self) -> String {
        let Self { run, workflow, state, dispatch, agent, .. } = self;
        let mut text = String::new();
        // Writing to a string cannot fail.
        let out = &mut text;
        if self.is_interrupted {
            let _ = writeln!(out, "Baton was stopped while you worked on this. Look at what is there, and go on.\n");
        }
        let attempt = if dispatch.attempt > 1 { format!(", attempt {}", dispatch.attempt) } else { String::new() };
        let _ = writeln!(
            out,
            "You play the role `{}` in state {state}{attempt} of the workflow `{}` (run {run}).",
            dispatch.role, workflow.name
        );
        if let Some(persona) = self.persona {
            let _ = writeln!(out, "\n{}", persona.trim());
        }
        let _ = writeln!(out, "\n{}", agent.instructions);
        if let Some(task) = &dispatch.task {
            let _ = writeln!(out, "\n# Your task\n\n{task}");
        }
        if let Some(because) = &dispatch.because
            && let Some(reason) = &because.reason
        {
            let from = if because.state == **state {
                "Your last attempt".to_owned()
            } else {
                format!("State {}", because.state)
            };
            let _ = writeln!(out, "\n# Why you are asked (again)\n\n{from} ended with `{}`: {reason}", because.outcome);
        }
        for (name, evidence) in &dispatch.inputs {
            let _ = writeln!(out, "\n# Handed in at {name}\n\n{}", fields_in_words(evidence));
        }
        self.write_rules(out);
        self.write_end(out);
        text
    }

    fn write_rules(&self, out: &mut String) {
        let role = self.workflow.roles.get(&self.dispatch.role);
        let globs: Vec<&str> = role.map_or(Vec::new(), |role| role.write.iter().map(Glob::as_str).collect());
        let _ = writeln!(out, "\n# What you may do\n");
        let _ = match globs.as_slice() {
            [] => writeln!(out, "You read; you may write no file of the project, by no tool and by no command."),
            globs => writeln!(out, "You may write {}; nothing else, by no tool and by no command.", globs.join(", ")),
        };
        for (pattern, state) in self.frozen {
            let _ = writeln!(out, "{pattern} is frozen by {state}: it stays as it is.");
        }
        for (name, command) in self.commands {
            if let Some(command) = command {
                let _ = writeln!(out, "The project's {name} command: {command}");
            }
        }
        let _ = writeln!(out, "Git is for reading here: Baton commits.");
    }

    fn write_end(&self, out: &mut String) {
        let _ = writeln!(out, "\n# When you are done\n");
        match &self.work.gate {
            Gate::Evidence { fields, .. } if fields.0.is_empty() => {
                let _ = writeln!(out, "End your turn: your work is looked at then.");
            }
            Gate::Evidence { fields, .. } | Gate::Verdict { fields, .. } => {
                let _ = writeln!(out, "Call `{SUBMIT}` once, with:\n{}", fields_asked(fields));
            }
            Gate::Command { argv, .. } => {
                let _ = writeln!(out, "End your turn: Baton then runs `{argv}`, which has to succeed.");
            }
            Gate::Human(question) => {
                let options: Vec<&str> = question.options.iter().map(baton_workflow::Outcome::as_str).collect();
                let _ = writeln!(out, "End your turn: a person then decides ({}).", options.join(", "));
            }
        }
        let _ = writeln!(
            out,
            "Baton verifies by itself, on a clean checkout of your work: what you say is not taken for what is. If you cannot \
             go on without a person, call `{HELP}`."
        );
    }
}

fn fields_asked(fields: &Fields) -> String {
    let line = |(name, field): (&baton_workflow::FieldName, &baton_workflow::Field)| {
        let optional = if field.is_optional { ", if there is any" } else { "" };
        format!("- `{name}`: {}{optional}\n", field.kind.describe())
    };
    fields.0.iter().map(line).collect()
}

fn fields_in_words(evidence: &Evidence) -> String {
    let line = |(name, value): (&baton_workflow::FieldName, &Value)| match value {
        Value::String(text) if text.contains('\n') => format!("{name}:\n{text}\n"),
        Value::String(text) => format!("{name}: {text}\n"),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            let items: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
            if items.is_empty() { format!("{name}: none\n") } else { format!("{name}:\n- {}\n", items.join("\n- ")) }
        }
        other => format!("{name}: {other}\n"),
    };
    evidence.iter().map(line).collect::<String>().trim_end().to_owned()
}
