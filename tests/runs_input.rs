//! Runs on odd repositories, with bad input, and with people who interrupt, answer and stop them.

use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::runs::{Repo, call, git, shell, submit};
use crate::support::{Live, run, sleeping, with_sleeps};

/// The shipped `hello`, played well.
fn hello() -> [Value; 2] {
    [
        call("greeter", "write", json!({"path": "hello.txt", "content": "hello world\n"})),
        submit("greeter", json!({"file": "hello.txt"})),
    ]
}

/// A workflow of one agent, with a gate and more fields of its state.
fn one(gate: &str, state: &str) -> String {
    format!(
        r#"workflow(
    name = "one",
    roles = {{"greeter": role(agent = "hello", write = ["hello.txt"], tools = CODING)}},
    states = {{"GREET": state("greeter", gate = {gate}, on = {{"pass": "DONE"}}, {state}), "DONE": done()}},
)
"#
    )
}

#[test]
fn what_is_no_repository_or_has_no_commit_is_told_so() {
    let repo = Repo::empty();
    repo.start("hello", &hello(), &[]).expect_error(8, "has no commit to start from", "git commit");
    std::fs::remove_dir_all(repo.world.project().join(".git")).unwrap();
    repo.start("hello", &hello(), &[]).expect_error(8, "is not in a git repository", "git init");
}

#[test]
fn wrong_names_and_parameters_are_told_before_anything_happens() {
    let repo = Repo::new();
    let missing = repo.start("tdd-ping-pong", &hello(), &[]).expect(2);
    assert!(missing.stderr.contains("scenarios"), "{missing:#?}");
    let unknown = repo.start("hello", &hello(), &["-p", "whom=you"]).expect(2);
    assert!(unknown.stderr.contains("whom") && unknown.stderr.contains("who"), "{unknown:#?}");
    let nothing = repo.start("helo", &hello(), &[]).expect(2);
    assert!(nothing.stderr.contains("hello"), "{nothing:#?}");
    assert_eq!(repo.git(&["for-each-ref", "refs/baton"]), "");
}

#[test]
fn nothing_of_a_project_runs_before_it_is_trusted() {
    let repo = Repo::new();
    repo.settings(&json!({}));
    let ran = |name: &str| format!("sh -c 'touch {}/{name}'", repo.world.home().display());
    let settings = json!({"project": {"test": ran("tests"), "setup": [ran("setup")]}});
    repo.world.file(".baton/config.jsonc", settings.to_string());
    repo.world
        .file(".baton/workflows/own.star", one("evidence({\"file\": \"path\"})", "").replace("\"one\"", "\"own\""));
    repo.commit("its own ways");
    for name in ["own", ".baton/workflows/own.star"] {
        repo.start(name, &hello(), &[]).expect_error(2, "is not trusted", "baton trust");
    }
    let run = repo.start("hello", &hello(), &[]).expect(0);
    let prepared: Vec<_> = run.of("run.prepare").iter().map(|event| event["text"].to_string()).collect();
    assert!(prepared.len() == 1 && prepared[0].contains("clone"), "{prepared:?}");
    // What the person looked at counts.
    let run = repo.start("hello", &hello(), &["--trust"]);
    let prepared: Vec<_> = run.of("run.prepare").iter().map(|event| event["text"].to_string()).collect();
    assert!(prepared.iter().any(|text| text.contains("set-up")), "{prepared:?}");
}

#[test]
fn a_detached_head_uncommitted_changes_and_a_failing_hook_do_not_matter() {
    let repo = Repo::new();
    repo.git(&["checkout", "--quiet", "--detach"]);
    repo.world.file("src/add.sh", "echo mine\n");
    repo.world.file("src/staged.sh", "echo staged\n");
    repo.git(&["add", "src/staged.sh"]);
    repo.world.file(".git/hooks/pre-commit", "#!/bin/sh\nexit 1\n");
    let hook = repo.world.project().join(".git/hooks/pre-commit");
    std::fs::set_permissions(hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let before = (repo.git(&["status", "--porcelain"]), repo.git(&["rev-parse", "HEAD"]));
    let run = repo.start("hello", &hello(), &[]).expect(0);
    assert!(run.stderr.contains("what you have not committed stays as it is"), "{run:#?}");
    assert_eq!((repo.git(&["status", "--porcelain"]), repo.git(&["rev-parse", "HEAD"])), before);
    assert_eq!(repo.git(&["rev-parse", "--abbrev-ref", "HEAD"]), "HEAD");
    let brought = repo.brought_back();
    assert_eq!(brought.len(), 1, "{brought:?}");
    // The clone goes with the run, and so does the ref that kept its base.
    assert_eq!(
        (repo.status()["clone"].clone(), repo.git(&["for-each-ref", "refs/baton"])),
        (Value::Null, String::new())
    );
}

#[test]
fn submodules_are_there_for_agents_and_for_verification() {
    let repo = Repo::new();
    let lib = repo.world.project().parent().unwrap().join("lib");
    std::fs::create_dir(&lib).unwrap();
    git(&lib, &["init", "--quiet", "--initial-branch=main"]);
    std::fs::write(lib.join("part.txt"), "part\n").unwrap();
    git(&lib, &["add", "--all"]);
    git(&lib, &["-c", "user.name=x", "-c", "user.email=x@x", "commit", "--quiet", "-m", "part"]);
    let add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", lib.to_str().unwrap(), "lib"];
    repo.git(&add);
    repo.commit("lib");
    let gate = r#"evidence({"file": "path"}, verify = lambda c: c.run(["grep", "-q", "part", "lib/part.txt"]).ok)"#;
    repo.workflow("one", &one(gate, "retries = 0"));
    let script = [vec![shell("greeter", "cat lib/part.txt")], hello().to_vec()].concat();
    let run = repo.start("one", &script, &[]).expect(0);
    assert_eq!(run.outputs_of("greeter")[0], "part");
    let branch = repo.git(&["for-each-ref", "--format=%(refname)", "refs/heads/baton"]);
    assert_eq!(repo.git(&["diff", "--name-only", "main", &branch]), "hello.txt");
}

#[test]
fn a_verification_that_hangs_fails_in_time_and_leaves_nothing_behind() {
    let repo = Repo::new();
    let gate = with_sleeps(
        r#"evidence({"file": "path"}, verify = lambda c: c.run(["sh", "-c", "SLEEP71 & setsid SLEEP72"]).ok)"#,
    );
    repo.workflow("one", &one(&gate, "retries = 0, timeout = \"3s\""));
    let run = repo.start("one", &hello(), &[]).expect(4);
    assert!(repo.log().contains("ran out of time"), "{}", repo.log());
    let end = &run.of("run.end")[0];
    assert!(end["reason"].as_str().unwrap().contains("did not end in time"), "{end}");
    assert_eq!((sleeping("71"), sleeping("72")), (vec![], vec![]));
    assert!(repo.clone_tree().join("hello.txt").exists());
}

#[test]
fn a_verification_that_forks_or_writes_changes_nothing() {
    let repo = Repo::new();
    let command = "SLEEP73 & setsid SLEEP74 & echo evil > src/add.sh; rm -rf tests hello.txt; echo x > new.txt; exit 0";
    let gate = format!(
        r#"evidence({{"file": "path"}}, verify = lambda c: c.run(["sh", "-c", "{}"]).ok)"#,
        with_sleeps(command)
    );
    repo.workflow("one", &one(&gate, "retries = 0"));
    repo.start("one", &hello(), &[]).expect(0);
    assert_eq!((sleeping("73"), sleeping("74")), (vec![], vec![]));
    let branch = repo.git(&["for-each-ref", "--format=%(refname)", "refs/heads/baton"]);
    assert_eq!(repo.git(&["diff", "--name-status", "main", &branch]), "A\thello.txt");
    assert_eq!(repo.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_journal_of_a_newer_version_is_left_alone() {
    let repo = Repo::new();
    repo.start("hello", &hello(), &[]).expect(0);
    let mut projects = std::fs::read_dir(repo.world.home().join("projects")).unwrap();
    let file = projects.next().unwrap().unwrap().path().join("baton.db");
    let mut database = std::fs::OpenOptions::new().read(true).write(true).open(&file).unwrap();
    // `user_version` in the header of an SQLite file.
    database.seek(SeekFrom::Start(60)).unwrap();
    database.write_all(&9999_u32.to_be_bytes()).unwrap();
    drop(database);
    let before = std::fs::read(&file).unwrap();
    repo.start("hello", &hello(), &["--new"]).expect_error(8, "newer Baton", "use the newer Baton");
    repo.world.baton(&["run", "log"]).expect(8);
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

/// A model that thinks longer than any test lasts, and then does its work.
fn slow(mut script: Vec<Value>) -> Vec<Value> {
    script[0]["delay_ms"] = json!(600_000);
    script
}

/// Starts a run whose agent does not come to a word.
fn started(repo: &Repo, name: &str, script: &[Value]) -> Live {
    let mut live = Live::start(repo.starting(name, script, &[]));
    live.until("step.start");
    live
}

#[test]
fn a_second_run_is_told_what_to_do_and_the_first_can_be_stopped() {
    let repo = Repo::new();
    let live = started(&repo, "hello", &slow(hello().to_vec()));
    repo.start("hello", &hello(), &["--new"]).expect_error(8, "one at a time is conducted", "baton run stop");
    repo.world.baton(&["run", "resume"]).expect_error(8, "another Baton (process ", "baton run watch");
    repo.world.baton(&["run", "stop", "--reason", "enough"]).expect(0);
    assert_eq!(live.wait(), 3);
    let status = repo.status();
    assert_eq!(status["phase"], "stopped", "{status}");
    assert!(PathBuf::from(status["clone"].as_str().unwrap()).is_dir());
    repo.world.baton(&["run", "stop"]).expect_error(2, "at its end", "");
    // What was stopped does not stand in the way of another one.
    repo.start("hello", &hello(), &[]).expect(0);
}

#[test]
fn an_interrupted_run_goes_on() {
    for resume in [&["run", "resume"][..], &["run", "start", "hello", "--json", "-m", "MODEL"]] {
        let repo = Repo::new();
        let live = started(&repo, "hello", &slow(hello().to_vec()));
        live.signal(Signal::INT);
        assert_eq!(live.wait(), 130);
        assert_eq!(repo.status()["phase"], "interrupted");
        let lines: Vec<String> = hello().iter().map(Value::to_string).collect();
        let model = repo.world.script(&lines.join("\n"));
        let args: Vec<&str> = resume.iter().map(|arg| if *arg == "MODEL" { model.as_str() } else { arg }).collect();
        repo.world.baton(&args).expect(0);
        assert_eq!(repo.status()["phase"], "done");
        assert_eq!(repo.brought_back().len(), 1);
    }
}

#[test]
fn a_person_can_do_the_work_of_an_agent() {
    let repo = Repo::new();
    let live = started(&repo, "hello", &slow(hello().to_vec()));
    // While it is conducted, and nothing is there yet.
    let early = repo.world.baton(&["run", "submit", "-p", "file=hello.txt"]).expect(2);
    assert!(early.stderr.contains("there is no file `hello.txt`"), "{early:#?}");
    std::fs::write(repo.clone_tree().join("hello.txt"), "hello, world\n").unwrap();
    repo.world.baton(&["run", "submit", "-p", "file=hello.txt"]).expect(0);
    assert_eq!(live.wait(), 0);
    assert_eq!(repo.brought_back().len(), 1);
    // After it was interrupted.
    let live = started(&repo, "hello", &slow(hello().to_vec()));
    live.signal(Signal::INT);
    assert_eq!(live.wait(), 130);
    repo.world.baton(&["run", "submit", "-p", "files=hello.txt"]).expect_error(2, "file", "");
    std::fs::write(repo.clone_tree().join("hello.txt"), "hello, world\n").unwrap();
    repo.world.baton(&["run", "submit", "-p", "file=hello.txt"]).expect(0);
    assert_eq!(repo.status()["phase"], "done");
}

#[test]
fn people_answer_questions() {
    let repo = Repo::new();
    repo.workflow(
        "asks",
        r#"workflow(
    name = "asks",
    roles = {"greeter": role(agent = "hello", write = ["hello.txt"], tools = CODING)},
    states = {
        "GREET": state("greeter", gate = human("Is {WHO.verdict} good?", options = ["yes", "no"]), on = {"yes": "SURE", "no": "GREET"}, inputs = ["WHO"]),
        "WHO": state("greeter", gate = verdict(["world", "moon"]), on = {"world": "GREET", "moon": "GREET"}),
        "SURE": human("Really?", options = ["yes", "no"], on = {"yes": "DONE", "no": "FAILED"}),
        "DONE": done(),
        "FAILED": done(failed = True),
    },
    start = "WHO",
)
"#,
    );
    let script = [
        call("greeter", "request_help", json!({"question": "Whom shall I greet?"})),
        json!({"role": "greeter", "when": "a person answers: the world", "call": [{"tool": "submit_evidence", "input": {"verdict": "world"}}]}),
        call("greeter", "write", json!({"path": "hello.txt", "content": "hello\n"})),
        json!({"role": "greeter", "say": "Written."}),
        json!({"role": "greeter", "when": "louder, please", "call": [{"tool": "write", "input": {"path": "hello.txt", "content": "HELLO\n"}}]}),
        json!({"role": "greeter", "say": "Louder."}),
    ];
    let asked = repo.start("asks", &script, &[]).expect(4);
    assert_eq!(asked.of("run.question")[0]["question"], "Whom shall I greet?");
    assert_eq!(repo.status()["waits_for"], "person");
    let answer = |args: &[&str]| repo.world.baton(&[&["run", "submit", "--answer"], args].concat());
    let greeted = answer(&["the world"]).expect(4);
    assert!(greeted.stderr.contains("Is world good?"), "{greeted:#?}");
    let wrong = answer(&["perhaps"]).expect(2);
    assert!(wrong.stderr.contains("`perhaps` is not an answer"), "{wrong:#?}");
    answer(&["no", "--comment", "louder, please"]).expect(4);
    let sure = answer(&["yes"]).expect(4);
    assert!(sure.stderr.contains("Really?"), "{sure:#?}");
    let tree = repo.clone_tree();
    assert_eq!(std::fs::read_to_string(tree.join("hello.txt")).unwrap(), "HELLO\n");
    answer(&["yes"]).expect(0);
    assert_eq!(repo.brought_back().len(), 1);
    // The other way: a failure state.
    repo.start("asks", &script, &["--new"]).expect(4);
    for (said, code) in [("the world", 4), ("yes", 4), ("no", 3)] {
        answer(&[said]).expect(code);
    }
    assert_eq!(repo.status()["phase"], "failed");
    assert!(repo.world.baton(&["run", "submit", "--answer", "yes"]).expect(2).stderr.contains("nobody has asked"));
}

#[test]
fn a_run_at_its_cap_rests_until_it_is_raised() {
    let alone = one(r#"evidence({"file": "path"})"#, "retries = 0");
    let alone = alone.replace("name = \"one\",", "name = \"one\", tokens = 100,");
    let inside = r#"
workflow(
    name = "one",
    tokens = 100,
    states = {"SUB": call(part, params = {"name": "sub"}, on = {"pass": "DONE"}, retries = 0), "DONE": done()},
)
"#;
    let inside = format!("{PART}{inside}");
    for (text, script) in [(alone, hello().to_vec()), (inside, vec![writes("sub", "sub")])] {
        let repo = Repo::new();
        repo.workflow("one", &text);
        // The first request alone is more than the cap.
        let parked = repo.start("one", &script, &[]).expect(5);
        assert!(parked.of("run.parked")[0]["reason"].as_str().unwrap().contains("of 100 tokens"), "{parked:#?}");
        repo.world.baton(&["run", "resume"]).expect(5);
        repo.world.baton(&["run", "resume", "--max-tokens", "0"]).expect_error(2, "the new cap is not above that", "");
        repo.world.baton(&["run", "resume", "--max-tokens", "200"]).expect(5);
        repo.world.baton(&["run", "resume", "--max-tokens", "100000"]).expect(0);
        assert_eq!(repo.status()["phase"], "done");
        assert_eq!(repo.brought_back().len(), 1);
    }
}

#[test]
fn an_agent_that_ends_twice_without_evidence_fails_its_attempt() {
    let repo = Repo::new();
    repo.workflow("one", &one(r#"evidence({"file": "path"})"#, "retries = 1"));
    let says = |text: &str| json!({"role": "greeter", "say": text});
    let silent = [says("Done."), says("Really."), says("Believe me."), says("It is there.")];
    let run = repo.start("one", &silent, &[]).expect(4);
    assert!(run.of("run.end")[0]["reason"].as_str().unwrap().contains("twice without evidence"), "{run:#?}");
    assert_eq!(repo.log().matches("ended its turn without evidence").count(), 4, "{}", repo.log());
    // The reminder says what is missing, and one is enough for whoever listens.
    let reminded = [
        says("Done."),
        json!({"role": "greeter", "when": "no evidence was submitted: `file`", "call": hello()[0]["call"]}),
        hello()[1].clone(),
    ];
    repo.start("one", &reminded, &["--new"]).expect(0);
}

/// What each part writes is in its task, so that a script knows which one it plays.
const PART: &str = r#"part = workflow(
    name = "part",
    params = {"name": string(required = True)},
    roles = {"writer": role(agent = "hello", write = ["src/**"], tools = CODING)},
    states = {
        "WRITE": state("writer", task = "Write src/{name}.txt.", gate = evidence({"file": "path"}), on = {"pass": "DONE"}, retries = 0),
        "DONE": done(),
    },
)
"#;

fn writes(name: &str, content: &str) -> Value {
    let file = format!("src/{name}.txt");
    let calls = json!([
        {"tool": "write", "input": {"path": file, "content": format!("{content}\n")}},
        {"tool": "submit_evidence", "input": {"file": file}},
    ]);
    json!({"role": "writer", "when": format!(r"Write src/{name}\.txt"), "call": calls, "usage": {"input": 1, "output": 1}})
}

fn branch_files(repo: &Repo) -> String {
    let branch = repo.git(&["for-each-ref", "--format=%(refname)", "refs/heads/baton"]);
    repo.git(&["diff", "--name-only", "main", &branch])
}

#[test]
fn runs_inside_a_run_work_beside_each_other_and_come_together() {
    let repo = Repo::new();
    let text = r#"
WRITER = role(agent = "hello", write = ["src/**"], tools = CODING)
ALL = "test -f src/first.txt && test -f src/a.txt && test -f src/b.txt && test -f src/sub.txt && test -f src/x.txt && test -f src/w.txt"
workflow(
    name = "wide",
    params = {"names": list(default = ["x", "y"]), "more": list(default = ["v", "w"])},
    roles = {"writer": WRITER},
    states = {
        "FIRST": state("writer", task = "Write src/first.txt.", gate = evidence({"file": "path"}), on = {"pass": "BOTH"}),
        "BOTH": parallel({"a": call(part, params = {"name": "a"}), "b": call(part, params = {"name": "b"})}, on = {"pass": "SUB"}),
        "SUB": call(part, params = {"name": "sub"}, on = {"pass": "EACH"}),
        "EACH": each(over = "names", run = part, item = "name", on = {"pass": "MORE"}),
        "MORE": each(over = "more", run = part, item = "name", at_once = 2, on = {"pass": "LAST"}),
        "LAST": state("writer", task = "Write src/last.txt.", on = {"pass": "DONE"}, retries = 0,
            gate = evidence({"file": "path"}, verify = lambda c: c.run(["sh", "-c", ALL]).ok)),
        "DONE": done(),
    },
)
"#;
    repo.workflow("wide", &format!("{PART}{text}"));
    let names = ["first", "a", "b", "sub", "x", "y", "v", "w", "last"];
    let script: Vec<Value> = names.iter().map(|name| writes(name, name)).collect();
    let run = repo.start("wide", &script, &[]);
    assert_eq!(run.code, 0, "{}\n{}", repo.log(), run.stderr);
    let mut expected: Vec<String> = names.iter().map(|name| format!("src/{name}.txt")).collect();
    expected.sort();
    assert_eq!(branch_files(&repo), expected.join("\n"));
    let status = repo.status();
    assert_eq!(status["inside"].as_array().unwrap().len(), 7, "{status}");
    assert_eq!(status["tokens"], 18, "{status}");
}

#[test]
fn branches_that_contradict_each_other_call_a_person() {
    let repo = Repo::new();
    let states = r#"
other = workflow(
    name = "other",
    roles = {"writer": role(agent = "hello", write = ["src/**"], tools = CODING)},
    states = {
        "WRITE": state("writer", task = "Write src/same.txt twice.", gate = evidence({"file": "path"}), on = {"pass": "DONE"}, retries = 0),
        "DONE": done(),
    },
)
workflow(
    name = "wide",
    states = {
        "BOTH": parallel({"a": call(part, params = {"name": "same"}), "b": other}, on = {"pass": "DONE"}, retries = 0),
        "DONE": done(),
    },
)
"#;
    repo.workflow("wide", &format!("{PART}{states}"));
    let mut twice = writes("same", "two");
    twice["when"] = json!("same.txt twice");
    let run = repo.start("wide", &[twice, writes("same", "one")], &[]).expect(4);
    let end = run.of("run.end");
    assert!(end.iter().any(|end| end["reason"].as_str().is_some_and(|why| why.contains("src/same.txt"))), "{end:#?}");
    assert!(repo.brought_back().is_empty());
}

#[test]
fn a_broken_tree_fails_the_attempt_and_not_the_conductor() {
    let repo = Repo::new();
    repo.workflow("one", &one(r#"command(["true"])"#, "retries = 0").replace("hello.txt", "src/**"));
    // Git refuses to look at a tree with a repository in it that has no commit.
    let script = [
        call(
            "greeter",
            "write",
            json!({"path": "src/break.sh", "content": "git init --quiet src/inner; touch src/inner/x\n"}),
        ),
        shell("greeter", "sh src/break.sh"),
        json!({"role": "greeter", "say": "Done."}),
    ];
    let run = repo.start("one", &script, &[]).expect(4);
    assert_eq!(run.of("run.end").len(), 1, "{run:#?}");
}

#[test]
fn a_command_whose_output_nobody_reads_does_not_stop_a_run() {
    let repo = Repo::new();
    let mut command = repo.starting("hello", &hello(), &[]);
    let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null()).spawn().unwrap();
    let mut one = [0];
    child.stdout.take().unwrap().read_exact(&mut one).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(repo.brought_back().len(), 1);
    let mut status = repo.world.command(&["run", "status"]);
    status.stderr(std::process::Stdio::null());
    assert!(run(status).expect(0).stdout.contains("done"));
}

#[test]
fn a_secret_in_a_parameter_reaches_neither_model_nor_journal() {
    let world = crate::support::World::repository();
    let model = world.script(r#"{"role": "greeter", "say": "no"}"#);
    let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let who = format!("who={secret}");
    let told = world.baton(&["run", "start", "hello", "--json", "-p", &who, "-m", &model]);
    assert!(told.stderr.contains("secrets were taken out"), "{told:?}");
    assert!(told.stdout.contains("turn.start"), "an agent was told something");
    let log = world.baton(&["run", "log", "--json"]).expect(0).stdout;
    let status = world.baton(&["run", "status", "--json"]).expect(0).stdout;
    for text in [&told.stdout, &told.stderr, &log, &status] {
        assert!(!text.contains(&secret), "{text}");
    }
}

#[test]
fn a_command_may_be_run_again_in_another_attempt() {
    let repo = Repo::new();
    repo.workflow(
        "one",
        &one(
            "evidence({\"file\": \"path\"}, verify = lambda c: c.run([\"grep\", \"-q\", \"hello\", \"hello.txt\"]).ok)",
            "",
        ),
    );
    let write = |text: &str| call("greeter", "write", json!({"path": "hello.txt", "content": text}));
    let (test, hand_in) =
        (shell("greeter", "sh tests/run.sh && echo well"), submit("greeter", json!({"file": "hello.txt"})));
    let script = [write("hi"), test.clone(), hand_in.clone(), write("hello"), test, hand_in];
    let run = repo.start("one", &script, &[]).expect(0);
    let well = run.outputs_of("greeter").iter().filter(|output| output.contains("well")).count();
    assert_eq!(well, 2, "{:?}", run.outputs_of("greeter"));
}

#[test]
fn a_directory_is_no_file() {
    let repo = Repo::new();
    let script = [submit("greeter", json!({"file": "src"})), hello()[0].clone(), hello()[1].clone()];
    let run = repo.start("hello", &script, &[]).expect(0);
    let outputs = run.outputs_of("greeter");
    assert!(outputs[0].contains("`src` is a directory, not a file"), "{outputs:?}");
}

#[test]
fn a_clone_that_is_gone_costs_no_attempt_and_the_run_can_be_stopped() {
    let repo = Repo::new();
    let live = started(&repo, "hello", &slow(hello().to_vec()));
    live.signal(Signal::KILL);
    live.wait();
    std::fs::remove_dir_all(repo.clone_tree().parent().unwrap()).unwrap();
    repo.world.baton(&["run", "resume"]).expect_error(8, "the clone in which the run worked is gone", "baton run stop");
    assert_eq!(repo.status()["attempt"], 1);
    repo.world.baton(&["run", "stop"]).expect(0);
    assert_eq!(repo.status()["phase"], "stopped");
}

#[test]
fn what_was_being_prepared_when_baton_was_killed_is_swept_away() {
    let repo = Repo::new();
    let hang = with_sleeps("SLEEP8");
    repo.settings(&json!({"project": {"test": hang}}));
    let mut live = Live::start(repo.starting("hello", &hello(), &[]));
    while !live.until("run.prepare")["text"].as_str().unwrap().contains("the tests on the base") {}
    live.signal(Signal::KILL);
    live.wait();
    assert_ne!(repo.git(&["for-each-ref", "refs/baton"]), "");
    repo.settings(&json!({"project": {"test": "true"}}));
    repo.start("hello", &hello(), &[]).expect(0);
    assert_eq!(repo.git(&["for-each-ref", "refs/baton"]), "");
}
