//! The vocabulary of definitions as a table: what is read, what is suggested and what is documented come from it.

use std::fmt::Write as _;

use crate::field::FieldType;

/// What a call of a word is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    Workflow,
    State,
    Gate,
    Action,
    Part,
    Param,
}

/// One word: a function that definitions call.
#[derive(Debug)]
pub(super) struct Word {
    pub name: &'static str,
    pub group: Group,
    pub about: &'static str,
    /// In the order in which they can be given without their names.
    pub fields: &'static [Argument],
}

/// One field of a word.
#[derive(Debug)]
pub(super) struct Argument {
    pub name: &'static str,
    pub takes: &'static str,
    /// What counts where it is left out; without it the field is required.
    pub default: Option<&'static str>,
    pub about: &'static str,
}

const fn needed(name: &'static str, takes: &'static str, about: &'static str) -> Argument {
    Argument { name, takes, default: None, about }
}

const fn or(name: &'static str, takes: &'static str, default: &'static str, about: &'static str) -> Argument {
    Argument { name, takes, default: Some(default), about }
}

const ON: Argument =
    needed("on", "dict", "Where each outcome leads. Left out: `fail` is the same state, `exhausted` is `ESCALATE`.");
const RETRIES: Argument = or(
    "retries",
    "int",
    "3",
    "Attempts after the first, in the whole run, however the state is entered. None is no limit.",
);
const TIMEOUT: Argument =
    or("timeout", "text", "\"30m\"", "How long one wait may take: `\"45s\"`, `\"30m\"`, `\"2h\"`.");
const CHILD_TIMEOUT: Argument =
    or("timeout", "text", "\"24h\"", "How long the runs may take; each has its own limits, too.");
const VERIFY: Argument =
    or("verify", "function", "None", "Checks the claim: `lambda c: ...`, see below. Without it nothing is checked.");
const REQUIRED: Argument = or("required", "bool", "False", "Whether a run needs a value, given or by default.");
const ABOUT: Argument = or("about", "text", "\"\"", "What it is for.");

pub(super) const WORDS: &[Word] = &[
    Word {
        name: "workflow",
        group: Group::Workflow,
        about: "Defines a workflow. The last one of a file has the file's name; those before it are its parts, and can be given \
                to `call`, `each` and `parallel` as values.",
        fields: &[
            needed("name", "text", "Its name."),
            or("about", "text", "\"\"", "What it is for, in one line."),
            or("params", "dict", "{}", "Parameters by name."),
            or("roles", "dict", "{}", "Roles by name."),
            needed("states", "dict", "States by name, in the order in which people read them."),
            or("start", "text", "the first state", "Where a run starts."),
            or("expects_red_base", "bool", "False", "Whether the project's tests may fail before the run starts."),
            or("tokens", "int", "None", "Tokens of one run: at the cap it parks until the cap is raised."),
            or("usd", "number", "None", "Dollars of one run: at the cap it parks until the cap is raised."),
        ],
    },
    Word {
        name: "role",
        group: Group::Part,
        about: "Says who works: an agent file, and what it may do.",
        fields: &[
            needed("agent", "text", "The agent file, without `.md`."),
            or("write", "list", "[]", "Globs of the files that it may write: by tool and by shell, nothing else."),
            needed("tools", "list", "Its tools: `CODING`, `READING`, or names."),
            or("model", "text", "None", "The model that plays it; else the agent file's, else the run's."),
            or("persona", "text", "None", "A file that says who it is."),
        ],
    },
    Word {
        name: "state",
        group: Group::State,
        about: "An agent works until its gate is passed.",
        fields: &[
            needed("role", "text", "Who works."),
            needed("gate", "gate", "The condition for leaving."),
            ON,
            or(
                "task",
                "text",
                "None",
                "What to do here, beyond what the agent file says; with `{param}` and `{STATE.field}`.",
            ),
            or("inputs", "list", "[]", "States whose evidence the agent is shown."),
            or(
                "freeze",
                "list",
                "[]",
                "Globs of files that nobody changes after the gate, until this state is entered again.",
            ),
            or("fresh", "bool", "False", "Whether every attempt gets a new conversation."),
            RETRIES,
            TIMEOUT,
            or("tokens", "int", "200000", "Tokens of all attempts together."),
            or("usd", "number", "None", "Dollars of all attempts together."),
        ],
    },
    Word {
        name: "action",
        group: Group::State,
        about: "The conductor does something itself; no model is asked.",
        fields: &[needed("does", "action", "What is done."), ON, RETRIES, TIMEOUT],
    },
    Word {
        name: "parallel",
        group: Group::State,
        about: "Runs at the same time. A run that is not needed any more is stopped.",
        fields: &[
            needed("branches", "dict", "`call(...)` or a workflow, by name."),
            ON,
            or("join", "text or quorum", "\"all\"", "How many have to end well: `\"all\"`, `\"any\"`, `quorum(2)`."),
            RETRIES,
            CHILD_TIMEOUT,
        ],
    },
    Word {
        name: "each",
        group: Group::State,
        about: "A run for every item of a list, one after the other. A retry goes on with the items that are left.",
        fields: &[
            needed("over", "text", "A list parameter, or `STATE.field` of evidence."),
            needed("run", "workflow", "What is run for each item: a workflow, its name, or `call(...)`."),
            needed("item", "text", "The parameter of that workflow that gets the item."),
            ON,
            or(
                "swap",
                "list",
                "[]",
                "Roles that change places after every item: the same conversations, each in another role.",
            ),
            or("at_once", "int", "1", "How many run at the same time."),
            or("max", "int", "20", "Items that are taken at most; a longer list fails."),
            RETRIES,
            CHILD_TIMEOUT,
        ],
    },
    Word {
        name: "call",
        group: Group::State,
        about: "One run of another workflow. Without `on` it is a part of `parallel` or `each`.",
        fields: &[
            needed("workflow", "workflow", "A workflow, or the name of one."),
            or("params", "dict", "{}", "What it is given; texts with `{param}` and `{STATE.field}`."),
            or("on", "dict", "None", "Where each outcome leads."),
            RETRIES,
            CHILD_TIMEOUT,
        ],
    },
    Word {
        name: "human",
        group: Group::State,
        about: "A person decides. With `on` it is a state, without it a gate.",
        fields: &[
            needed("question", "text", "The question, with `{param}` and `{STATE.field}`."),
            needed("options", "list", "The answers; each is an outcome."),
            or("on", "dict", "None", "Where each answer leads."),
            RETRIES,
            TIMEOUT,
        ],
    },
    Word {
        name: "done",
        group: Group::State,
        about: "The run ends.",
        fields: &[or("failed", "bool", "False", "Whether the task counts as failed.")],
    },
    Word {
        name: "escalate",
        group: Group::State,
        about: "The run ends; a person has to take over. `ESCALATE` is there even if it is not written.",
        fields: &[],
    },
    Word {
        name: "evidence",
        group: Group::Gate,
        about: "Fields that the agent submits. Outcome: `pass`.",
        fields: &[needed("fields", "dict", "Type by name of field; `?` after the type makes it optional."), VERIFY],
    },
    Word {
        name: "verdict",
        group: Group::Gate,
        about: "A choice that the agent makes. Outcomes: the options.",
        fields: &[
            needed("options", "list", "What can be chosen."),
            or("needs", "dict", "{}", "Fields that must come with it: an empty review is no review."),
            VERIFY,
        ],
    },
    Word {
        name: "command",
        group: Group::Gate,
        about: "A command. As a gate it has to succeed after the agent ended; in `action` it is what is done.",
        fields: &[
            needed("argv", "list or text", "Arguments, which may hold `{param}` in an action; or text, which may not."),
            or("verify", "function", "None", "As a gate: judges `c.result` instead of its exit code."),
            or("idempotent", "bool", "False", "As an action: may be repeated if it is not known whether it ran."),
        ],
    },
    Word {
        name: "commit",
        group: Group::Action,
        about: "One commit of all that was changed.",
        fields: &[needed("message", "text", "Its message, with `{param}` and `{STATE.field}`.")],
    },
    Word {
        name: "quorum",
        group: Group::Part,
        about: "So many branches of `parallel` have to end well.",
        fields: &[needed("count", "int", "How many.")],
    },
    Word {
        name: "one_of",
        group: Group::Part,
        about: "A field of evidence that holds one of these words.",
        fields: &[
            needed("options", "list", "The words."),
            or("optional", "bool", "False", "Whether it may be left out."),
        ],
    },
    Word {
        name: "string",
        group: Group::Param,
        about: "A text.",
        fields: &[or("default", "text", "None", "Its value where none is given."), REQUIRED, ABOUT],
    },
    Word {
        name: "number",
        group: Group::Param,
        about: "A number.",
        fields: &[or("default", "number", "None", "Its value where none is given."), REQUIRED, ABOUT],
    },
    Word {
        name: "bool",
        group: Group::Param,
        about: "True or False. `bool(x)` converts, as everywhere in Starlark.",
        fields: &[or("default", "bool", "None", "Its value where none is given."), REQUIRED, ABOUT],
    },
    Word {
        name: "list",
        group: Group::Param,
        about: "A list of texts. `list(x)` converts, as everywhere in Starlark.",
        fields: &[
            or("default", "list", "None", "Its value where none is given."),
            REQUIRED,
            ABOUT,
            or("single", "text", "None", "Another name, under which one item can be given."),
        ],
    },
];

/// Tools that a role can be given.
pub const TOOLS: [&str; 15] = [
    "bash",
    "bash_background",
    "read",
    "write",
    "edit",
    "multi_edit",
    "apply_patch",
    "grep",
    "glob",
    "ls",
    "web_fetch",
    "todo",
    "ask_user",
    "task",
    "skill",
];

/// Sets of tools by name.
pub(crate) const TOOL_SETS: [(&str, &[&str]); 2] = [
    ("CODING", &["bash", "read", "write", "edit", "multi_edit", "apply_patch", "grep", "glob", "ls", "todo"]),
    ("READING", &["read", "grep", "glob", "ls"]),
];

/// Tools that can change files.
pub(crate) const WRITING: [&str; 6] = ["bash", "bash_background", "write", "edit", "multi_edit", "apply_patch"];

/// What a verify function can use.
const CONTEXT: [(&str, &str); 8] = [
    (
        "c.run(command)",
        "Runs a command on the tree that was submitted: a list of arguments, or text. Text is split into arguments without a \
         shell; a text that stands in the definition or the settings may use the shell.",
    ),
    ("c.params", "The run's parameters: `c.params.test`. None where there is no value."),
    ("c.evidence", "What was submitted here: `c.evidence.test_file`. None where an optional field was left out."),
    ("c.inputs", "What was submitted in the states of `inputs`: `c.inputs[\"RED\"].test_file`."),
    ("c.changed", "Paths of the files that this state changed, in all its attempts."),
    ("c.verdict", "What was chosen, at a verdict."),
    ("c.result", "The result of the command, at a gate `command(...)`."),
    ("c.project", "The project's commands and paths, as `project`."),
];

const RESULT: [(&str, &str); 5] = [
    (".ok", "It ended with exit code 0."),
    (
        ".failed",
        "It ended with another exit code than 0, 126 and 127. A command that could not be started or was stopped has neither \
         succeeded nor failed.",
    ),
    (".code", "The exit code; None if it did not end by itself."),
    (".output", "The end of what it wrote."),
    (".tree", "The hash of the tree that it ran on."),
];

const PROJECT: [(&str, &str); 7] = [
    ("project.test", "Runs the tests."),
    ("project.build", "Builds everything."),
    ("project.lint", "Finds mistakes without running."),
    ("project.format", "Checks the format."),
    ("project.mutation", "Tests the tests."),
    ("project.test_paths", "Globs of the tests; `[\"tests/**\"]` if the settings say nothing."),
    ("project.source_paths", "Globs of the code; `[\"src/**\"]` if the settings say nothing."),
];

/// The word of this name.
pub(super) fn word(name: &str) -> Option<&'static Word> {
    WORDS.iter().find(|word| word.name == name)
}

/// The reference of the vocabulary, as Markdown.
pub fn reference() -> String {
    let mut text = String::from(INTRODUCTION);
    let groups = [
        ("Workflow", Group::Workflow),
        ("Parts of a workflow", Group::Part),
        ("States", Group::State),
        ("Gates", Group::Gate),
        ("Actions", Group::Action),
        ("Parameters", Group::Param),
    ];
    for (title, group) in groups {
        let _ = write!(text, "\n## {title}\n");
        for word in WORDS.iter().filter(|word| word.group == group) {
            describe(&mut text, word);
        }
    }
    text.push_str("\n## Fields of evidence\n\n| type | what it holds |\n|---|---|\n");
    for (name, _, about) in FieldType::WORDS {
        let _ = writeln!(text, "| `\"{name}\"` | {about} |");
    }
    text.push_str("| `one_of([...])` | one of these words |\n");
    table(&mut text, "Verify functions", VERIFY_INTRODUCTION, &CONTEXT);
    table(&mut text, "Results of commands", "What `c.run(...)` returns.", &RESULT);
    table(&mut text, "The project", "From the settings; a command that is not set is None.", &PROJECT);
    text.push_str("\n## Tools\n\n");
    for (name, tools) in TOOL_SETS {
        let tools: Vec<_> = tools.iter().map(|tool| format!("`{tool}`")).collect();
        let _ = writeln!(text, "- `{name}`: {}", tools.join(", "));
    }
    let tools: Vec<_> = TOOLS.iter().map(|tool| format!("`{tool}`")).collect();
    let _ = writeln!(text, "- all: {}", tools.join(", "));
    text
}

const INTRODUCTION: &str = "# Workflow reference

This page is made from the code. A definition is a [Starlark](https://github.com/bazelbuild/starlark/blob/master/spec.md)
file, `NAME.star`: familiar syntax, no I/O, limits on time and memory. `load(\"other.star\", \"name\")` takes values from another
file beside it.
";

const VERIFY_INTRODUCTION: &str = "A verify function is called with a context `c`. It returns True (the gate is passed), \
False, or a text that says why not. It is evaluated again after each command that it asked for, with the results so far, so it \
has to ask for the same commands in the same order; at most 16. `fail(\"...\")` refuses as well; any other error in it is a \
mistake of the definition, and a person is called.";

fn describe(text: &mut String, word: &Word) {
    let names: Vec<_> = word.fields.iter().map(|field| field.name).collect();
    let _ = write!(text, "\n### `{}({})`\n\n{}\n", word.name, names.join(", "), word.about);
    if word.fields.is_empty() {
        return;
    }
    text.push_str("\n| field | takes | default | |\n|---|---|---|---|\n");
    for field in word.fields {
        let default = field.default.map_or("required".to_owned(), |default| format!("`{default}`"));
        let _ = writeln!(text, "| `{}` | {} | {default} | {} |", field.name, field.takes, field.about);
    }
}

fn table(text: &mut String, title: &str, introduction: &str, rows: &[(&str, &str)]) {
    let _ = write!(text, "\n## {title}\n\n{introduction}\n\n| | |\n|---|---|\n");
    for (name, about) in rows {
        let _ = writeln!(text, "| `{name}` | {about} |");
    }
}
