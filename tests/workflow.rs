//! `baton workflow`: what people see of definitions.

use crate::support::World;

#[test]
fn shipped_workflows_are_listed_checked_and_drawn() {
    let world = World::new();
    let listed = world.baton(&["workflow", "list"]).expect(0).stdout;
    assert!(listed.contains("tdd-ping-pong") && listed.contains("hello"), "{listed}");
    world.file(".baton/config.jsonc", r#"{"project": {"test": "make test"}}"#);
    world.baton(&["trust", "--yes"]).expect(0);
    let checked = world.baton(&["workflow", "check", "--json"]).expect(0).stdout;
    let rows: Vec<serde_json::Value> = checked.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows.len() >= 2 && rows.iter().all(|row| row["holds"] == true), "{checked}");
    assert!(rows.iter().all(|row| row["bound"]["steps"].as_u64().is_some_and(|steps| steps > 0)), "{checked}");
    let drawn = world.baton(&["workflow", "graph", "hello"]).expect(0).stdout;
    assert!(drawn.contains("GREET") && drawn.contains('─'), "{drawn}");
    let mermaid = world.baton(&["workflow", "graph", "hello", "--format", "mermaid"]).expect(0).stdout;
    assert!(mermaid.starts_with("stateDiagram-v2"), "{mermaid}");
    let dot = world.baton(&["workflow", "graph", "hello", "--format", "dot"]).expect(0).stdout;
    assert!(dot.starts_with("digraph"), "{dot}");
}

#[test]
fn mistakes_are_told_with_file_and_line() {
    let world = World::new();
    world.file(
        ".baton/workflows/broken.star",
        "workflow(\n    name = \"broken\",\n    states = {\n        \"A\": state(role = \"nobody\", gate = evidence({}), on = {\"pass\": \"DON\"}),\n        \"DONE\": done(),\n    },\n)\n",
    );
    let checked = world.baton(&["workflow", "check", "broken"]).expect(2).stdout;
    assert!(checked.contains("broken.star:4"), "{checked}");
    assert!(checked.contains("DONE"), "{checked}");
    let listed = world.baton(&["workflow", "list"]).expect(0).stdout;
    assert!(listed.contains("does not hold"), "{listed}");
    // A file that lies elsewhere can be checked before it gets its place.
    world.file("draft.star", "workflow(name = \"draft\", states = {\"DONE\": done()})\n");
    world.baton(&["workflow", "check", "draft.star"]).expect(0);
    let unknown = world.baton(&["workflow", "graph", "nothing"]).expect(2).stderr;
    assert!(unknown.contains("tdd-ping-pong"), "{unknown}");
}
