//! Every kind of mistake in a definition, with what is said about it.

use baton_workflow::{Definition, Sources};

use crate::support::{name, show, sources, try_define};

/// Text of a workflow with one role and these states.
fn with_states(states: &str) -> String {
    format!(
        "workflow(name = \"w\",\n  params = {{\"topic\": string(), \"items\": list()}},\n  roles = {{\"writer\": role(agent = \"a\", \
         write = [\"src/**\"], tools = CODING), \"reader\": role(agent = \"b\", tools = READING)}},\n  states = {{\n{states}\n}})\n"
    )
}

fn said(text: &str) -> String {
    match try_define(text) {
        Ok(_) => "nothing is wrong\n".to_owned(),
        Err(problems) => show(&problems),
    }
}

fn all(cases: &[(&str, String)]) -> String {
    cases.iter().map(|(title, text)| format!("--- {title}\n{}\n", said(text))).collect::<Vec<_>>().concat()
}

#[test]
fn mistakes_in_the_text() {
    let said = all(&[
        ("nothing", String::new()),
        ("not Starlark", "workflow(name = \"w\",".to_owned()),
        ("a number with an underscore", "X = 200_000".to_owned()),
        ("an unknown word", "workflw(name = \"w\")".to_owned()),
        ("an unknown project command", "X = project.tests".to_owned()),
        ("another name than the file", with_states("\"DONE\": done()").replace("name = \"w\"", "name = \"v\"")),
        ("a file that is not there", "load(\"other.star\", \"x\")".to_owned()),
        ("a file that loads itself", "load(\"w.star\", \"x\")".to_owned()),
        (
            "an endless loop",
            "def f():\n    for x in range(100000):\n        for y in range(100000):\n            pass\nf()".to_owned(),
        ),
        ("too many calls", "def f(n):\n    return f(n + 1)\nf(0)".to_owned()),
        ("too much memory", "X = []\n[X.append(str(i) * 5000) for i in range(50000)]".to_owned()),
        ("a long list", "X = list(range(100001))".to_owned()),
        ("deep brackets", format!("X = {}{}", "[".repeat(60), "]".repeat(60))),
        ("a long chain", format!("X = 1{}", " + 1".repeat(500))),
        (
            "a word in a word",
            "done(1, 2, 3)\nstate(role = \"a\", role2 = \"b\")\nstate(\"a\", role = \"b\")".to_owned(),
        ),
    ]);
    insta::assert_snapshot!(said);
}

#[test]
fn deep_texts_do_not_end_the_process() {
    for part in ["(", "[", "-", "not ", "1+", "a.", "f(", "{1:", "x if y else ", "lambda: ", "a[", "a and "] {
        let _ = try_define(&format!("X = {}", part.repeat(20_000)));
        let _ = try_define(&format!("X = {}\n", part.repeat(140)));
    }
    let indented = |depth: usize| {
        (0..depth).fold("def f():\n".to_owned(), |text, level| format!("{text}{}if 1:\n", " ".repeat(level + 1)))
    };
    let _ = try_define(&format!("{}{}pass\n", indented(500), " ".repeat(502)));
    let _ = try_define(&format!("{}{}pass\n", indented(58), " ".repeat(60)));
    let _ = try_define(&format!("def f():\n  if 1:\n    pass\n{}", "  elif 1:\n    pass\n".repeat(5000)));
}

#[test]
fn mistakes_in_names() {
    let said = all(&[
        (
            "many at once",
            with_states(
                r#"
    "RED": state(role = "writter", gate = evidence({"file": "pth", "2nd": "text"}), inputs = ["BLUE"],
        freeze = ["/abs/**", "a/../b", "x[", ""], on = {"pass": "GREN", "passed": "DONE"}, retrys = 3),
    "GREEN": state(role = "reader", task = "About {topc} and {RED.fil}", gate = verdict(["yes", "yes", "fail"]),
        on = {"yes": "DONE"}, timeout = 30, tokens = -1, usd = "1", retries = 5000),
    "ASK": human(question = "Go {", options = [], on = {}),
    "bad name": done(),
    "ODD": role(agent = "x", tools = []),
    "DONE": done(),"#,
            ),
        ),
        ("no way on", with_states("\"A\": state(\"writer\", evidence({\"x\": \"text\"}), {}), \"DONE\": done()")),
        ("a missing option", with_states("\"A\": state(\"reader\", verdict([\"ok\", \"bad\"]), {\"ok\": \"DONE\"}), \"DONE\": done()")),
        ("no states", "workflow(name = \"w\", states = {})".to_owned()),
        ("no fields", with_states("\"A\": state(\"writer\", evidence({}), {\"pass\": \"DONE\"}), \"DONE\": done()")),
        ("a start that is not there", with_states("\"DONE\": done()").replace("states =", "start = \"DNE\", states =")),
        ("a role without tools", "workflow(name = \"w\", roles = {\"r\": role(\"a\", tools = [])}, states = {\"D\": done()})".to_owned()),
        (
            "a role that cannot write",
            "workflow(name = \"w\", roles = {\"r\": role(\"a\", [\"src/**\"], READING)}, states = {\"D\": done()})".to_owned(),
        ),
        ("an unknown tool", "workflow(name = \"w\", roles = {\"r\": role(\"a\", [], [\"Bash\"])}, states = {\"D\": done()})".to_owned()),
        ("parameters", "workflow(name = \"w\", params = {\"a\": string(default = 3), \"b\": list(single = \"a\"), \"c\": 1, \"d e\": bool()}, states = {\"D\": done()})".to_owned()),
        ("a verdict that needs a verdict", with_states("\"A\": state(\"reader\", verdict([\"ok\"], {\"verdict\": \"text\"}), {\"ok\": \"D\"}), \"D\": done()")),
        ("a verify that is no function", with_states("\"A\": state(\"reader\", evidence({\"x\": \"text\"}, True), {\"pass\": \"D\"}), \"D\": done()")),
        ("no gate", with_states("\"A\": state(\"reader\", done(), {\"pass\": \"D\"}), \"D\": done()")),
        ("a name that is taken", with_states("\"ESCALATE\": done()")),
        ("an input without evidence", with_states("\"A\": state(\"reader\", evidence({\"x\": \"text\"}), {\"pass\": \"D\"}, inputs = [\"D\"]), \"D\": done()")),
    ]);
    insta::assert_snapshot!(said);
}

#[test]
fn mistakes_in_commands_and_runs_inside() {
    let state = |text: &str| with_states(&format!("\"A\": {text}, \"D\": done()"));
    let part = "part = workflow(name = \"part\", params = {\"need\": string(required = True), \"n\": number()}, \
                roles = {\"x\": role(\"a\", [], READING)}, states = {\"D\": done()})\n";
    let with_part = |text: &str| format!("{part}{}", state(text));
    let said = all(&[
        ("a text with a parameter", state("action(command(\"echo {topic}\"), {\"pass\": \"D\"})")),
        ("an open quote", state("action(command(\"echo 'x\"), {\"pass\": \"D\"})")),
        ("no program", state("action(command([]), {\"pass\": \"D\"})")),
        ("an argument that is not there", state("action(command([\"echo\", \"{x}\"]), {\"pass\": \"D\"})")),
        ("an action that is none", state("action(evidence({\"x\": \"text\"}), {\"pass\": \"D\"})")),
        ("an idempotent gate", state("state(\"writer\", command(\"true\", idempotent = True), {\"pass\": \"D\"})")),
        ("a verified action", state("action(command(\"true\", lambda c: True), {\"pass\": \"D\"})")),
        ("a gate with limits", state("state(\"writer\", human(\"ok?\", [\"yes\"], retries = 1), {\"yes\": \"D\"})")),
        ("a workflow that is not there", state("call(\"parts\", on = {\"pass\": \"D\"})")),
        ("parameters of a call", with_part("call(part, {\"ned\": \"x\", \"n\": \"a\" }, {\"pass\": \"D\"})")),
        ("a value of another type", with_part("call(part, {\"need\": 3}, {\"pass\": \"D\"})")),
        ("each over a text", with_part("each(\"topic\", part, \"need\", {\"pass\": \"D\"})")),
        ("each over nothing", with_part("each(\"A.x\", part, \"nede\", {\"pass\": \"D\"}, max = 0)")),
        (
            "an item that is no text",
            with_part("each(\"items\", call(part, {\"need\": \"x\"}), \"n\", {\"pass\": \"D\"})"),
        ),
        ("a swap", with_part("each(\"items\", part, \"need\", {\"pass\": \"D\"}, swap = [\"y\", \"x\"], at_once = 2)")),
        ("a swap of one", with_part("each(\"items\", part, \"need\", {\"pass\": \"D\"}, swap = [\"x\"])")),
        ("no branches", state("parallel({}, {\"pass\": \"D\"})")),
        (
            "a quorum",
            with_part("parallel({\"a\": call(part, {\"need\": \"x\"})}, {\"pass\": \"D\"}, join = quorum(2))"),
        ),
        ("a join", with_part("parallel({\"a\": part, \"b\": 3}, {\"pass\": \"D\"}, join = \"most\")")),
        (
            "two of one name",
            format!("{part}{}", with_states("\"D\": done()")).replace("name = \"part\"", "name = \"w\""),
        ),
    ]);
    insta::assert_snapshot!(said);
}

#[test]
fn broken_designs_are_refused_with_a_path() {
    let freeze = "workflow(name = \"w\",\n  roles = {\"writer\": role(\"a\", [\"src/**\"], CODING), \"reader\": role(\"b\", [], READING)},\n  states = {\n    \
                  \"WRITE\": state(\"writer\", evidence({\"x\": \"text\"}), {\"pass\": \"HOLD\"}),\n    \
                  \"HOLD\": state(\"reader\", verdict([\"ok\", \"hold\"]), {\"ok\": \"DONE\", \"hold\": \"FIX\"}, freeze = [\"**\"]),\n    \
                  \"FIX\": state(\"writer\", evidence({\"x\": \"text\"}), {\"pass\": \"DONE\"}),\n    \"DONE\": done()})\n";
    let write = "state(\"writer\", evidence({\"x\": \"text\"}), {\"pass\": \"";
    let said = all(&[
        ("a gate that pauses the only role that could fix it", freeze.to_owned()),
        (
            "two freezes together",
            freeze
                .replace("\"HOLD\"}),", "\"HOLD\"}, freeze = [\"src/a/**\", \"src/any\"]),")
                .replace("[\"**\"]", "[\"src/[!a]*\"]"),
        ),
        (
            "a wait without a timer",
            with_states(&format!(
                "\"A\": {write}B\"}}, timeout = None), \"B\": human(\"ok?\", [\"yes\"], {{\"yes\": \"D\"}}, timeout = None), \"D\": done()"
            )),
        ),
        (
            "a loop without a budget",
            with_states(
                "\"A\": human(\"again?\", [\"yes\", \"no\"], {\"yes\": \"B\", \"no\": \"D\"}, retries = None), \"B\": human(\"sure?\", [\"yes\"], {\"yes\": \"A\"}, retries = None), \"D\": done()",
            ),
        ),
        ("a retry without a budget", with_states(&format!("\"A\": {write}D\"}}, retries = None), \"D\": done()"))),
        ("tokens without a limit", with_states(&format!("\"A\": {write}D\"}}, tokens = None), \"D\": done()"))),
        ("no end", with_states(&format!("\"A\": {write}B\"}}), \"B\": {write}A\"}})"))),
        ("no good end", with_states(&format!("\"A\": {write}D\"}}), \"D\": done(failed = True)"))),
        (
            "a dead end behind a good way",
            with_states(&format!(
                "\"A\": human(\"x?\", [\"l\", \"r\"], {{\"l\": \"D\", \"r\": \"B\"}}), \"B\": {write}C\"}}), \"C\": {write}B\"}}), \"D\": done()"
            )),
        ),
        (
            "a state that nothing leads to",
            with_states(&format!("\"A\": {write}D\"}}), \"B\": {write}D\"}}), \"D\": done()")),
        ),
        (
            "states that give up to each other",
            with_states(&format!(
                "\"A\": {write}D\", \"exhausted\": \"B\"}}), \"B\": {write}D\", \"exhausted\": \"A\"}}), \"D\": done()"
            )),
        ),
        (
            "an input that comes later",
            with_states(&format!("\"A\": {write}B\"}}, inputs = [\"B\"]), \"B\": {write}D\"}}), \"D\": done()")),
        ),
    ]);
    insta::assert_snapshot!(said);
}

#[test]
fn designs_that_look_alike_but_hold_are_taken() {
    let write = "state(\"writer\", evidence({\"x\": \"text\"}), {\"pass\": \"";
    for (title, text) in [
        (
            "the freeze ends where it began",
            with_states(&format!(
                "\"A\": {write}B\"}}, freeze = [\"src/**\"]), \"B\": state(\"reader\", verdict([\"ok\", \"no\"]), {{\"ok\": \"D\", \"no\": \"A\"}}), \"D\": done()"
            )),
        ),
        (
            "a part is frozen",
            with_states(&format!("\"A\": {write}B\"}}, freeze = [\"src/a/**\"]), \"B\": {write}D\"}}), \"D\": done()")),
        ),
        (
            "a person without a limit in a limited loop",
            with_states(&format!(
                "\"A\": {write}B\"}}), \"B\": human(\"ok?\", [\"yes\", \"no\"], {{\"yes\": \"D\", \"no\": \"A\"}}, retries = None), \"D\": done()"
            )),
        ),
        (
            "giving up to another",
            with_states(&format!("\"A\": {write}D\", \"exhausted\": \"B\"}}), \"B\": {write}D\"}}), \"D\": done()")),
        ),
        ("done at once", "workflow(name = \"w\", states = {\"D\": done()})".to_owned()),
    ] {
        assert_eq!(said(&text), "nothing is wrong\n", "{title}");
    }
}

#[test]
fn workflows_that_call_each_other_in_a_circle_are_refused() {
    let call = |own: &str, other: &str| {
        format!(
            "workflow(name = \"{own}\", states = {{\"A\": call(\"{other}\", on = {{\"pass\": \"D\"}}), \"D\": done()}})\n"
        )
    };
    let sources = sources(&[("a.star", &call("a", "b")), ("b.star", &call("b", "c")), ("c.star", &call("c", "b"))]);
    let problems = Definition::load(&sources, &name("a")).unwrap_err();
    insta::assert_snapshot!(show(&problems));
}

#[test]
fn a_file_can_load_others_and_only_those_it_needs_are_pinned() {
    let lib = "COMMAND = \"true && true\"\ndef check(c):\n    return c.run(COMMAND).ok\nworker = role(agent = \"a\", tools = READING)\n";
    let main = "load(\"lib.star\", \"check\", \"worker\")\nworkflow(name = \"w\", roles = {\"r\": worker}, states = {\n\
                \"A\": state(\"r\", evidence({\"x\": \"text\"}, check), {\"pass\": \"B\"}), \"B\": call(\"other\", on = {\"pass\": \"D\"}), \"D\": done()})\n";
    let other = "workflow(name = \"other\", states = {\"D\": done()})\n";
    let all = sources(&[("w.star", main), ("lib.star", lib), ("other.star", other), ("unused.star", "nonsense")]);
    let definition = Definition::load(&all, &name("w")).unwrap();
    let files: Vec<_> = definition.pin().sources.files.keys().collect();
    assert_eq!(files, ["lib.star", "other.star", "w.star"]);

    let again = Definition::from_pin(definition.pin()).unwrap();
    assert_eq!(again.hash(), definition.hash());
    let changed = Sources { project: baton_workflow::Project::default(), ..all };
    assert_ne!(
        Definition::load(&changed, &name("w")).unwrap().hash(),
        definition.hash(),
        "the project's commands are pinned, too"
    );
}

#[test]
fn a_loaded_file_defines_no_workflow() {
    let all = sources(&[
        ("w.star", "load(\"lib.star\", \"x\")\nworkflow(name = \"w\", states = {\"D\": done()})\n"),
        ("lib.star", "x = workflow(name = \"x\", states = {\"D\": done()})\n"),
    ]);
    insta::assert_snapshot!(show(&Definition::load(&all, &name("w")).unwrap_err()));
}

/// So many states, one after the other, each of which freezes a file of its own; then these.
fn freezing(count: usize, then: &str) -> String {
    let state = |number: usize| {
        let next = if number + 1 < count { format!("S{}", number + 1) } else { "LAST".to_owned() };
        format!(
            "    \"S{number}\": state(\"w\", evidence({{\"x\": \"text\"}}), {{\"pass\": \"{next}\"}}, freeze = [\"f{number}\"], retries = 0),\n"
        )
    };
    let states = (0..count).map(state).collect::<Vec<_>>().concat();
    format!(
        "workflow(name = \"w\", roles = {{\"w\": role(\"a\", [\"src/**\"], CODING), \"other\": role(\"a\", [\"f0\"], CODING)}}, states = {{\n\
         {states}{then}    \"D\": done()}})\n"
    )
}

#[test]
fn as_many_states_can_freeze_as_can_be_looked_at() {
    let last = "    \"LAST\": state(\"w\", evidence({\"x\": \"text\"}), {\"pass\": \"D\"}),\n";
    assert!(try_define(&freezing(32, last)).is_ok());
    let problems = try_define(&freezing(33, last)).unwrap_err();
    assert!(show(&problems).contains("more than 32 states freeze files"), "{}", show(&problems));
}

#[test]
fn only_who_froze_it_is_named() {
    // The last state freezes as well, but only when it is left.
    let last =
        "    \"LAST\": state(\"other\", evidence({\"x\": \"text\"}), {\"pass\": \"D\"}, freeze = [\"other\"]),\n";
    let problems = try_define(&freezing(2, last)).unwrap_err();
    let text = show(&problems);
    assert!(text.contains("all that it may write is frozen by `S0` and `S1`\n"), "{text}");
}

#[test]
fn references_in_questions_and_to_runs_inside_are_looked_up() {
    let part = "part = workflow(name = \"part\", params = {\"it\": string()}, states = {\"D\": done()})\n";
    let outer = |ask: &str, given: &str| {
        let states = format!(
            "\"A\": call(part, params = {{\"it\": \"{given}\"}}, on = {{\"pass\": \"ASK\"}}),\n\
             \"ASK\": human(\"{ask}\", [\"yes\"], {{\"yes\": \"B\"}}),\n\
             \"B\": state(\"writer\", human(\"{ask}\", [\"yes\"]), {{\"yes\": \"DONE\"}}, inputs = [\"A\"]),\n\"DONE\": done()"
        );
        said(&format!("{part}{}", with_states(&states)))
    };
    assert_eq!(outer("About {topic}?", "{topic}"), "nothing is wrong\n");
    assert_eq!(outer("About {topik}?", "{topic}").matches("there is no parameter `topik`").count(), 2);
    assert_eq!(outer("About {topic}?", "{topik}").matches("there is no parameter `topik`").count(), 1);
}
