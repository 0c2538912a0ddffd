//! Agent files, scopes and frozen files.

use std::collections::BTreeMap;

use baton_workflow::{AgentFile, FileHash, Freeze, Glob, RelPath, Scope, TreeHash};

use crate::support::show;

fn path(text: &str) -> RelPath {
    RelPath::parse(text).unwrap()
}

fn globs(texts: &[&str]) -> Vec<Glob> {
    texts.iter().map(|text| Glob::parse(text).unwrap()).collect()
}

#[test]
fn an_agent_file_is_facts_and_instructions() {
    let text = "---\nname: red\ndescription: \"Writes: a test\"\nmodel: anthropic/x:high\ntools:\n  - read\n  - grep\n---\n\nYou write.\n\n---\nMore.\n";
    let agent = AgentFile::parse("red.md", text).unwrap();
    assert_eq!((agent.name.as_str(), agent.description.as_str()), ("red", "Writes: a test"));
    assert_eq!(
        (agent.model.as_deref(), agent.tools),
        (Some("anthropic/x:high"), vec!["read".to_owned(), "grep".to_owned()])
    );
    assert_eq!(agent.instructions, "You write.\n\n---\nMore.");
    for tools in ["tools: read, grep", "tools: [read, \"grep\"]", "# a remark\n\ntools: [ 'read', grep ]"] {
        let text = format!("---\r\nname: a\r\ndescription: b\r\n{tools}\r\n---\r\nDo.");
        assert_eq!(AgentFile::parse("a.md", &text).unwrap().tools, ["read", "grep"]);
    }
    let text = "\u{feff}---\nname: a\ndescription: b\ntools: READING\n---\nDo.";
    assert_eq!(AgentFile::parse("a.md", text).unwrap().tools, ["read", "grep", "glob", "ls"]);
}

#[test]
fn mistakes_in_an_agent_file() {
    let cases = [
        "",
        "You write.",
        "---\nname: a\n",
        "---\n---\n",
        "---\nname: a b\ndescription:\nmodle: x\ntools: Read, bsh\nnonsense\nname: c\n---\nDo.",
    ];
    let said: Vec<String> = cases
        .iter()
        .map(|text| format!("--- {text:?}\n{}\n", show(&AgentFile::parse("a.md", text).unwrap_err())))
        .collect();
    let said = said.concat();
    insta::assert_snapshot!(said);
}

#[test]
fn a_scope_is_the_union_of_its_globs() {
    let scope = Scope::of(&globs(&["tests/**", "src/*_test.rs", "docs/{a,b}.md"]));
    for inside in ["tests/a.rs", "tests/a/b.rs", "src/x_test.rs", "docs/b.md"] {
        assert!(scope.allows(&path(inside)), "{inside}");
    }
    for outside in ["src/a.rs", "src/a/x_test.rs", "tests", "tests.rs", "docs/c.md", "Tests/a.rs", "x/tests/a.rs"] {
        assert!(!scope.allows(&path(outside)), "{outside}");
    }
    assert!(!Scope::of(&[]).allows(&path("a")));
    assert_eq!(scope.globs().len(), 3);
}

#[test]
fn paths_stay_inside() {
    for bad in ["", ".", "/", "/etc", "..", "a/../..", "a\0b", "a\nb", "./"] {
        assert!(RelPath::parse(bad).is_err(), "{bad:?}");
    }
    assert!(RelPath::parse(&"a/".repeat(3000)).is_err());
    assert_eq!(path("./a//b/./c").as_str(), "a/b/c");
}

#[test]
fn a_frozen_file_is_compared_by_its_hash() {
    let freeze = Freeze { globs: globs(&["tests/**"]), tree: TreeHash::new("t") };
    let files = |list: &[(&str, &str)]| -> BTreeMap<RelPath, FileHash> {
        list.iter().map(|(file, hash)| (path(file), FileHash::new(*hash))).collect()
    };
    let then = files(&[("tests/a", "1"), ("tests/b", "2"), ("tests/c", "3"), ("src/x", "4")]);
    let now = files(&[("tests/a", "1"), ("tests/b", "9"), ("tests/d", "5"), ("src/x", "8"), ("src/y", "7")]);
    assert_eq!(freeze.broken(&then, &now), [path("tests/b"), path("tests/c"), path("tests/d")]);
    assert_eq!(freeze.broken(&then, &then), []);
}
