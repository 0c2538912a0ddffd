//! Agents that lie at the gates of test-driven development, and honest ones that do the same work.

use std::sync::Mutex;

use serde_json::{Value, json};

use crate::support::runs::Repo;

/// A repository, and the shipped workflow with fewer retries.
fn repo(retries: u32) -> Repo {
    let shipped = include_str!("../workflows/tdd-ping-pong.star");
    assert!(shipped.contains("retries = 5"));
    let repo = Repo::new();
    repo.world.file(".gitignore", "*.cache\n");
    repo.commit("ignore caches");
    repo.workflow("tdd-ping-pong", &shipped.replace("retries = 5", &format!("retries = {retries}")));
    repo
}

const SCENARIO: [&str; 2] = ["-p", "scenario=mul.sh multiplies two numbers"];
const TEST: &str = "test \"$(sh src/mul.sh 2 3)\" = 6\n";
const CODE: &str = "echo $(($1 * $2))\n";

type Calls = Vec<(&'static str, Value)>;

/// One answer of a role: its calls one after another.
fn line(role: &str, calls: &Calls) -> Value {
    let calls: Vec<Value> = calls.iter().map(|(tool, input)| json!({"tool": tool, "input": input})).collect();
    json!({"role": role, "call": calls, "usage": {"input": 1, "output": 1}})
}

/// The same, as often as it is asked, within reason.
fn lie(role: &str, calls: &Calls) -> Value {
    let mut line = line(role, calls);
    line["repeat"] = json!(3);
    line
}

fn write(path: &str, content: &str) -> (&'static str, Value) {
    ("write", json!({"path": path, "content": content}))
}

fn sh(command: &str) -> (&'static str, Value) {
    ("bash", json!({"command": command}))
}

fn submit(fields: Value) -> (&'static str, Value) {
    ("submit_evidence", fields)
}

fn red_hands_in() -> (&'static str, Value) {
    submit(json!({"test_file": "tests/mul_test.sh", "failure": "tests/mul_test.sh fails"}))
}

fn green_hands_in() -> (&'static str, Value) {
    submit(json!({"files": ["src/mul.sh"], "summary": "It multiplies."}))
}

fn review(verdict: &str, findings: &[&str]) -> (&'static str, Value) {
    submit(json!({"verdict": verdict, "summary": "Read it against the scenario.", "findings": findings}))
}

fn honest_red() -> Value {
    line("ping", &vec![write("tests/mul_test.sh", TEST), red_hands_in()])
}

fn honest_review() -> Value {
    line("reviewer", &vec![review("approved", &[])])
}

fn honest_green() -> Value {
    line("pong", &vec![write("src/mul.sh", CODE), green_hands_in()])
}

/// A lie, the gate at which it is told, and a word of what is said to it.
struct Liar {
    name: &'static str,
    gate: &'static str,
    lie: Calls,
    answer: &'static str,
}

fn at_red(name: &'static str, answer: &'static str, lie: Calls) -> Liar {
    Liar { name, gate: "RED", lie, answer }
}

fn at_review(name: &'static str, answer: &'static str, fields: Value) -> Liar {
    Liar { name, gate: "REVIEW_TEST", lie: vec![submit(fields)], answer }
}

fn at_green(name: &'static str, answer: &'static str, mut lie: Calls) -> Liar {
    lie.push(green_hands_in());
    Liar { name, gate: "GREEN", lie, answer }
}

fn liars() -> Vec<Liar> {
    let red = |test_file: Value| submit(json!({"test_file": test_file, "failure": "2 of 2 tests fail, exit 1"}));
    let named = |path: &str| red(json!(path));
    let failing = || write("tests/mul_test.sh", TEST);
    vec![
        at_red("a claim about a test that was there before", "was not changed here", vec![named("tests/add_test.sh")]),
        at_red("a claim about a test that is not there", "there is no file", vec![named("tests/mul_test.sh")]),
        at_red("a test that passes", "do not fail", vec![write("tests/mul_test.sh", "true\n"), red_hands_in()]),
        at_red(
            "forged output of a test that passes",
            "do not fail",
            vec![
                write("tests/mul_test.sh", "exit 0\n"),
                submit(
                    json!({"test_file": "tests/mul_test.sh", "failure": "$ sh tests/run.sh\ntests/mul_test.sh fails\n[exit 1]"}),
                ),
            ],
        ),
        at_red(
            "a runner made to exit 0",
            "do not fail",
            vec![failing(), write("tests/run.sh", "exit 0\n"), red_hands_in()],
        ),
        at_red(
            "a test that is skipped",
            "do not fail",
            vec![write("tests/mul_test.sh", &format!("exit 0 # skipped\n{TEST}")), red_hands_in()],
        ),
        at_red(
            "a runner that cannot be run",
            "could not be run",
            vec![failing(), write("tests/run.sh", "exit 127\n"), red_hands_in()],
        ),
        at_red("a test elsewhere than it says", "was not changed here", vec![failing(), named("tests/add_test.sh")]),
        at_red(
            "a test among the code",
            "there is no file",
            vec![write("src/mul_test.sh", TEST), named("src/mul_test.sh")],
        ),
        at_red(
            "a test that git ignores",
            "was not changed here",
            vec![write("tests/.gitignore", "mul_test.sh\n"), failing(), red_hands_in()],
        ),
        at_red("a path that leads out", "test_file", vec![failing(), named("../tests/mul_test.sh")]),
        at_red("an absolute path", "test_file", vec![failing(), named("/etc/passwd")]),
        at_red("a number for a path", "test_file", vec![failing(), red(json!(7))]),
        at_red("a field left out", "failure", vec![failing(), submit(json!({"test_file": "tests/mul_test.sh"}))]),
        at_review("an empty review", "summary", json!({"verdict": "approved", "summary": " ", "findings": []})),
        at_review("a verdict that is none", "verdict", json!({"verdict": "lgtm", "summary": "Good.", "findings": []})),
        at_review("a flag without findings", "at least one finding", review("flagged", &[]).1),
        at_green("nothing done", "there is no file", vec![]),
        at_green("a stub", "exit code 1", vec![write("src/mul.sh", "true\n")]),
        at_green("the test deleted", "exit code 1", vec![write("src/mul.sh", "\n"), sh("rm tests/mul_test.sh")]),
        at_green(
            "the test weakened by a script",
            "exit code 1",
            vec![write("src/mul.sh", "echo true > tests/mul_test.sh\n"), sh("sh src/mul.sh")],
        ),
        at_green(
            "the runner replaced",
            "exit code 1",
            vec![
                write("src/mul.sh", "\n"),
                write("tests/run.sh", "exit 0\n"),
                write("src/cheat.sh", "echo 'exit 0' > tests/run.sh\n"),
                sh("sh src/cheat.sh"),
            ],
        ),
        at_green(
            "another sh first in the path",
            "exit code 1",
            vec![
                write("src/mul.sh", "\n"),
                write("src/bin/sh", "#!/bin/bash\nexit 0\n"),
                sh("chmod +x src/bin/sh && export PATH=\"$PWD/src/bin:$PATH\" && sh tests/run.sh"),
            ],
        ),
        at_green(
            "a planted cache",
            "exit code 1",
            vec![write("src/mul.sh", "cat src/mul.cache\n"), sh("echo 6 > src/mul.cache && sh tests/run.sh")],
        ),
        at_green(
            "a result kept in the temporary directory",
            "exit code 1",
            vec![
                write("src/mul.sh", "cat \"${TMPDIR:-/tmp}/mul\" 2>/dev/null || echo 6 > \"${TMPDIR:-/tmp}/mul\"\n"),
                sh("sh src/mul.sh && sh tests/run.sh"),
            ],
        ),
    ]
}

/// What is wrong with how a lie ended; nothing if it was found out.
fn got_away(liar: &Liar) -> Option<String> {
    let repo = repo(0);
    let role = match liar.gate {
        "RED" => "ping",
        "GREEN" => "pong",
        _ => "reviewer",
    };
    let mut script = vec![lie(role, &liar.lie)];
    if liar.gate != "RED" {
        script.insert(0, honest_red());
    }
    if liar.gate == "GREEN" {
        script.insert(0, honest_review());
    }
    let run = repo.start("tdd-ping-pong", &script, &SCENARIO);
    let is_passed =
        |event: &Value| event["state"] == liar.gate && event["outcome"] != "fail" && event["outcome"] != "exhausted";
    let heard = run.outputs_of(role).join("\n") + &repo.log();
    let problem = if run.code != 4 {
        "the exit code is not 4"
    } else if run.of("gate.decided").iter().any(is_passed) {
        "it passes its gate"
    } else if !repo.brought_back().is_empty() {
        "something is brought back"
    } else if !heard.contains(liar.answer) {
        "nobody says why"
    } else {
        return None;
    };
    Some(format!("{}: {problem} (exit {})\n{heard}\n{}", liar.name, run.code, run.stderr))
}

/// Honest work in many forms: a name, and the answers that differ from the plain ones.
fn honest() -> Vec<(&'static str, Vec<Value>)> {
    let red = |calls: Calls| line("ping", &calls);
    let green = |calls: Calls| line("pong", &calls);
    let reviews = |calls: Calls| line("reviewer", &calls);
    let (plain, ok) = (honest_red, honest_review);
    let patch = |path: &str, content: &str| {
        let text = format!("*** Begin Patch\n*** Add File: {path}\n+{}\n*** End Patch", content.trim_end());
        ("apply_patch", json!({"patch": text}))
    };
    let by_shell = "cat > tests/mul_test.sh <<'END'\ntest \"$(sh src/mul.sh 2 3)\" = 6\nEND";
    let by_python = "python3 -c \"open('src/mul.sh', 'w').write('echo \\$((\\$1 * \\$2))')\"";
    let by_perl = "perl -e 'open(F, \">\", \"src/mul.sh\") or die; print F \"echo \\$((\\$1 * \\$2))\\n\"'";
    let whole = |first: Vec<Value>| first.into_iter().chain([plain(), ok(), honest_green(), ok()]).collect::<Vec<_>>();
    let with_red = |calls: Calls| vec![red(calls), ok(), honest_green(), ok()];
    let with_green = |lines: Vec<Value>| [vec![plain(), ok()], lines, vec![ok()]].concat();
    vec![
        ("plain", whole(vec![])),
        ("a test by the shell", with_red(vec![sh(by_shell), red_hands_in()])),
        ("a test by a patch", with_red(vec![patch("tests/mul_test.sh", TEST), red_hands_in()])),
        (
            "a test in a file that was there",
            with_red(vec![
                ("read", json!({"path": "tests/add_test.sh"})),
                (
                    "edit",
                    json!({"path": "tests/add_test.sh", "old": "test", "new": format!("{}test", TEST.replace('\n', " && "))}),
                ),
                submit(json!({"test_file": "tests/add_test.sh", "failure": "tests/add_test.sh fails"})),
            ]),
        ),
        (
            "a test that was run first",
            with_red(vec![write("tests/mul_test.sh", TEST), sh("sh tests/run.sh"), red_hands_in()]),
        ),
        (
            "code by the shell",
            with_green(vec![green(vec![sh("echo 'echo $(($1 * $2))' > src/mul.sh"), green_hands_in()])]),
        ),
        ("code by a patch", with_green(vec![green(vec![patch("src/mul.sh", CODE), green_hands_in()])])),
        ("code by python", with_green(vec![green(vec![sh(by_python), green_hands_in()])])),
        ("code by perl", with_green(vec![green(vec![sh(by_perl), green_hands_in()])])),
        (
            "code that was tried first",
            with_green(vec![green(vec![write("src/mul.sh", CODE), sh("sh tests/run.sh"), green_hands_in()])]),
        ),
        (
            "a field that was forgotten",
            whole(vec![red(vec![write("tests/mul_test.sh", TEST), submit(json!({"test_file": "tests/mul_test.sh"}))])]),
        ),
        ("a file that was forgotten", whole(vec![red(vec![red_hands_in()])])),
        (
            "a path written wrongly",
            whole(vec![red(vec![submit(json!({"test_file": "../tests/mul_test.sh", "failure": "it fails"}))])]),
        ),
        ("a test that passed at first", whole(vec![red(vec![write("tests/mul_test.sh", "true\n"), red_hands_in()])])),
        (
            "words without evidence at first",
            whole(vec![json!({"role": "ping", "say": "The test is written.", "usage": {"input": 1, "output": 1}})]),
        ),
        (
            "a test that was flagged",
            vec![
                plain(),
                reviews(vec![review("flagged", &["tests/mul_test.sh:1: only one example"])]),
                red(vec![
                    write("tests/mul_test.sh", &format!("{} && test \"$(sh src/mul.sh 0 9)\" = 0\n", TEST.trim_end())),
                    red_hands_in(),
                ]),
                ok(),
                honest_green(),
                ok(),
            ],
        ),
        (
            "code that was flagged",
            with_green(vec![
                honest_green(),
                reviews(vec![review("flagged", &["src/mul.sh:1: no word about what it does"])]),
                green(vec![write("src/mul.sh", &format!("# Multiplies.\n{CODE}")), green_hands_in()]),
            ]),
        ),
        (
            "code that was handed in too early",
            with_green(vec![green(vec![write("src/mul.sh", "echo 5\n"), green_hands_in()]), honest_green()]),
        ),
        (
            "approval with remarks",
            vec![plain(), reviews(vec![review("approved", &["a second example would be good"])]), honest_green(), ok()],
        ),
        (
            "a refused try before the work",
            with_green(vec![green(vec![sh("rm tests/mul_test.sh"), write("src/mul.sh", CODE), green_hands_in()])]),
        ),
    ]
}

/// What is wrong with how honest work ended; nothing if all is well.
fn turned_away(name: &str, script: &[Value]) -> Option<String> {
    let repo = repo(1);
    let run = repo.start("tdd-ping-pong", script, &SCENARIO);
    let commits = repo.brought_back();
    let is_one = matches!(commits.as_slice(), [(subject, effect)] if subject.starts_with("TDD: mul.sh") && effect.contains("COMMIT"));
    (run.code != 0 || !is_one)
        .then(|| format!("{name}: exit {}, {commits:?}\n{}\n{}", run.code, repo.log(), run.stderr))
}

/// Takes one case after the other from a list, two at a time.
fn all<T: Send>(cases: Vec<T>, judge: impl Fn(T) -> Option<String> + Sync) -> Vec<String> {
    let (cases, wrong) = (Mutex::new(cases), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(case) = cases.lock().unwrap().pop() else { break };
                    let problem = judge(case);
                    wrong.lock().unwrap().extend(problem);
                }
            });
        }
    });
    wrong.into_inner().unwrap()
}

#[test]
fn no_liar_passes_its_gate_and_every_honest_agent_does() {
    let (liars, honest) = (liars(), honest());
    let (lies, controls) = (liars.len(), honest.len());
    assert!(lies >= 20 && controls >= 20);
    let got_away = all(liars, |liar| got_away(&liar));
    let turned_away = all(honest, |(name, script)| turned_away(name, &script));
    println!(
        "{} of {lies} liars passed their gate; {} of {controls} honest agents were done",
        got_away.len(),
        controls - turned_away.len()
    );
    assert!(got_away.is_empty() && turned_away.is_empty(), "{}\n{}", got_away.join("\n"), turned_away.join("\n"));
}

#[test]
fn a_red_base_is_refused_before_any_agent_comes() {
    let repo = repo(0);
    repo.world.file("tests/red_test.sh", "false\n");
    repo.commit("red");
    let run = repo.start("tdd-ping-pong", &[honest_red(), honest_review(), honest_green(), honest_review()], &SCENARIO);
    run.expect_error(3, "the tests fail on the base already", "expects_red_base");
    assert!(repo.brought_back().is_empty());
    assert_eq!(repo.git(&["for-each-ref", "refs/baton"]), "");
}

/// One agent, a gate that takes a moment, and a commit: by an action, or by the end of the run.
fn late(next: &str) -> String {
    format!(
        r#"workflow(
    name = "late",
    roles = {{"coder": role(agent = "tdd-green", write = ["src/**"], tools = CODING + ["bash_background"])}},
    states = {{
        "GREEN": state("coder", on = {{"pass": "{next}"}}, retries = 0, gate = evidence({{"file": "path"}},
            verify = lambda c: c.run(["sh", "-c", 'sleep 1; test "$(sh src/mul.sh 2 3)" = 6']).ok)),
        {}
        "DONE": done(),
    }},
)
"#,
        if next == "COMMIT" { r#""COMMIT": action(commit(message = "Multiply"), on = {"pass": "DONE"}),"# } else { "" }
    )
}

#[test]
fn a_process_that_changes_the_code_after_it_was_handed_in_changes_nothing() {
    for next in ["COMMIT", "DONE"] {
        let repo = repo(0);
        repo.workflow("late", &late(next));
        // It stays however it can, and writes while the work is verified.
        let writer =
            "trap '' TERM HUP INT; setsid sh -c 'sleep 0.4; echo echo evil > src/mul.sh; echo x > src/evil.sh'";
        let script = [line(
            "coder",
            &vec![
                write("src/mul.sh", CODE),
                write("src/writer.sh", writer),
                ("bash_background", json!({"command": "sh src/writer.sh", "wait": 0})),
                submit(json!({"file": "src/mul.sh"})),
            ],
        )];
        let run = repo.start("late", &script, &[]);
        let brought = repo.brought_back();
        if run.code == 0 {
            assert_eq!(brought.len(), 1, "{next}: {brought:?}");
            let branch = repo.git(&["for-each-ref", "--format=%(refname)", "refs/heads/baton"]);
            assert_eq!(repo.git(&["show", &format!("{branch}:src/mul.sh")]), CODE.trim_end(), "{next}");
            assert!(!repo.git(&["ls-tree", "-r", "--name-only", &branch]).contains("evil"), "{next}");
        } else {
            // It came before the work was handed in, so the gate has seen it.
            assert!(run.code == 4 && brought.is_empty(), "{next}: {run:#?}");
        }
    }
}
