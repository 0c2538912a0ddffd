//! `kill -9` at random points of whole runs: of Baton, of a tool, of both. Every run ends as it does without, and each
//! commit is there once.
//!
//! `BATON_CRASHES=300 cargo test -p baton --test scenarios runs_crashes -- --nocapture` kills 300 times and prints what it saw.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{World, git, run};

/// How often is killed if nobody says so.
const POINTS: usize = 12;
/// How often one run is started at most.
const STARTS_MAX: usize = 12;

/// What is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    Baton,
    Tool,
    Both,
}

/// What was seen over all runs.
#[derive(Default)]
struct Counts {
    runs: usize,
    starts: usize,
    commits: usize,
    kills: BTreeMap<Victim, usize>,
    after: BTreeMap<String, usize>,
}

impl Counts {
    fn kills(&self) -> usize {
        self.kills.values().sum()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} runs, {} kills, {} starts", self.runs, self.kills(), self.starts)?;
        for (victim, times) in &self.kills {
            writeln!(f, "  killed {victim:?}: {times}")?;
        }
        for (kind, times) in &self.after {
            writeln!(f, "  after {kind}: {times}")?;
        }
        writeln!(f, "every run ended as it does without; {} commits, each of them once", self.commits)
    }
}

#[test]
fn a_run_survives_being_killed_anywhere() {
    let asked = std::env::var("BATON_CRASHES").ok().map(|points| points.parse().expect("a number"));
    let points = asked.unwrap_or(POINTS);
    let (counts, seeds) = (Mutex::new(Counts::default()), AtomicU64::new(0));
    let is_enough = || counts.lock().map_or(true, |counts| counts.kills() >= points);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !is_enough() {
                    survive(seeds.fetch_add(1, Ordering::Relaxed), &counts);
                }
            });
        }
    });
    let counts = counts.into_inner().unwrap();
    println!("{counts}");
    assert!(counts.commits > 0);
}

/// A random workflow, with the script that plays it.
struct Plan {
    definition: String,
    script: String,
    params: Vec<String>,
}

/// What a run has come to.
#[derive(Debug, PartialEq, Eq)]
struct End {
    code: i32,
    subjects: Vec<String>,
    tree: String,
}

fn plan(dice: &mut fastrand::Rng) -> Plan {
    let (count, items) = (dice.usize(1..=3), dice.usize(1..=2));
    let is_nested = dice.bool();
    let mut states = String::new();
    let mut script: Vec<Value> = Vec::new();
    for number in 0..count {
        let next = if number + 1 < count { format!("S{}", number + 1) } else { "LAST".to_owned() };
        let commits = dice.bool();
        let to = if commits { format!("C{number}") } else { next.clone() };
        let _ = writeln!(
            states,
            "        \"S{number}\": state(role = \"r{number}\", task = \"Write {{item}} in state S{number}.\",\n            \
             gate = evidence({{\"file\": \"path\"}}, verify = lambda c: c.run([\"sh\", \"check.sh\", c.evidence.file]).ok),\n            \
             on = {{\"pass\": \"{to}\"}}),"
        );
        if commits {
            let _ = writeln!(
                states,
                "        \"C{number}\": action(commit(message = \"S{number}: {{item}}\"), on = {{\"pass\": \"{next}\"}}),"
            );
        }
    }
    for item in 0..items {
        for number in 0..count {
            let (role, file) = (format!("r{number}"), format!("out/{item}-{number}.txt"));
            let write = |content: String| json!({"role": role, "call": [{"tool": "write", "input": {"path": file, "content": content}}]});
            let submit = json!({"role": role, "call": [{"tool": "submit_evidence", "input": {"file": file}}]});
            if dice.bool() {
                // A lie first: the gate finds it out.
                script.extend([write("nothing\n".to_owned()), submit.clone()]);
            }
            script.push(write(format!("ok {item} {number}\n")));
            if dice.bool() {
                script.push(json!({"role": role, "call": [{"tool": "bash", "input": {"command": format!("sh check.sh {file}")}}]}));
            }
            script.push(submit);
        }
    }
    let role =
        |number| format!("        \"r{number}\": role(agent = \"worker\", write = [\"out/**\"], tools = CODING),\n");
    let roles = (0..count).map(role).collect::<Vec<_>>().concat();
    let inner = |name: &str| {
        format!(
            "workflow(\n    name = \"{name}\",\n    params = {{\"item\": string(required = True)}},\n    roles = {{\n{roles}    }},\n    states = {{\n\
             {states}        \"LAST\": action(commit(message = \"last: {{item}}\"), on = {{\"pass\": \"DONE\", \"fail\": \"DONE\"}}),\n        \
             \"DONE\": done(),\n    }},\n)\n"
        )
    };
    let (definition, params) = if is_nested || items > 1 {
        let definition = format!(
            "inner = {}\nworkflow(\n    name = \"random\",\n    params = {{\"items\": list(required = True)}},\n    states = {{\n        \
             \"ALL\": each(over = \"items\", run = call(inner), item = \"item\", swap = [], on = {{\"pass\": \"DONE\"}}),\n        \
             \"DONE\": done(),\n    }},\n)\n",
            inner("inner")
        );
        (definition, (0..items).map(|item| format!("items={item}")).collect())
    } else {
        (inner("random"), vec!["item=0".to_owned()])
    };
    let script = script.iter().map(|line| format!("{line}\n")).collect::<Vec<_>>().concat();
    Plan { definition, script, params }
}

fn world(plan: &Plan) -> (World, String) {
    let world = World::new();
    std::fs::remove_dir_all(world.project().join(".git")).unwrap();
    world.file("check.sh", "grep -q ok \"$1\"\n");
    world.file(".baton/workflows/random.star", &plan.definition);
    world.file(".baton/agents/worker.md", "---\nname: worker\ndescription: Works\ntools: CODING\n---\n\nYou work.\n");
    git(&world.project(), &["init", "--quiet", "--initial-branch=main"]);
    git(&world.project(), &["add", "--all"]);
    git(&world.project(), &["commit", "--quiet", "-m", "base"]);
    world.baton(&["trust", "--yes"]).expect(0);
    let model = world.script(&plan.script);
    (world, model)
}

fn start(world: &World, plan: &Plan, model: &str) -> Command {
    let mut args = vec!["run", "start", "random", "--json", "-m", model];
    for param in &plan.params {
        args.extend(["-p", param]);
    }
    world.command(&args)
}

/// What is in the repository when a run has ended.
fn end(world: &World, code: i32) -> End {
    let branch = git(&world.project(), &["for-each-ref", "--format=%(refname)", "refs/heads/baton/"]);
    let branch = branch.lines().next().unwrap_or("HEAD").to_owned();
    let log = git(&world.project(), &["log", "--format=%s", &branch]);
    // The last commit is named after the run.
    let subjects = log.lines().map(|line| line.split("run_").next().unwrap_or_default().to_owned()).collect();
    let trailers = git(&world.project(), &["log", "--format=%(trailers:key=Baton-Effect,valueonly)", &branch]);
    let mut effects: Vec<&str> = trailers.lines().filter(|line| !line.is_empty()).collect();
    let all = effects.len();
    effects.sort_unstable();
    effects.dedup();
    assert_eq!(effects.len(), all, "an effect has committed twice: {trailers}");
    End { code, subjects, tree: git(&world.project(), &["ls-tree", "-r", &branch]) }
}

/// One random workflow: once in peace, once killed again and again.
fn survive(seed: u64, counts: &Mutex<Counts>) {
    let mut dice = fastrand::Rng::with_seed(seed);
    let plan = plan(&mut dice);
    let (peaceful, model) = world(&plan);
    let told = run(start(&peaceful, &plan, &model));
    let lines = told.stdout.lines().count();
    assert_eq!(told.code, 0, "seed {seed}: {}\n{}\n{}", told.stderr, told.stdout, plan.definition);
    let wanted = end(&peaceful, told.code);
    let (world, model) = world(&plan);
    let mut code = None;
    for number in 0..STARTS_MAX {
        let has_begun = world.baton(&["run", "status", "--json"]).stdout.contains("\"run\"");
        let command =
            if has_begun { world.command(&["run", "resume", "--json"]) } else { start(&world, &plan, &model) };
        let point = (number + 4 < STARTS_MAX && number < 4).then(|| dice.usize(..lines.max(1)));
        let victim = *dice.choice(&[Victim::Baton, Victim::Baton, Victim::Tool, Victim::Both]).unwrap();
        let delay = Duration::from_micros(dice.u64(..4000));
        let played = play(command, point, victim, delay);
        let mut counts = counts.lock().unwrap();
        counts.starts += 1;
        if let Some(after) = played.killed_after {
            *counts.kills.entry(victim).or_default() += 1;
            *counts.after.entry(after).or_default() += 1;
        }
        drop(counts);
        if let Some(ended) = played.code {
            code = Some(ended);
            if ended == 0 {
                break;
            }
            let (log, script) = (world.baton(&["run", "log"]).stdout, &plan.script);
            panic!(
                "seed {seed}, start {number}, {victim:?} at {point:?}: exit {ended}\n{}\n{log}\n{script}",
                played.stderr
            );
        }
    }
    let found = end(&world, code.unwrap_or(-1));
    let log = || world.baton(&["run", "log", "--json"]).stdout;
    assert_eq!(found, wanted, "seed {seed}\n{}\n{}\n{}", plan.definition, plan.script, log());
    let mut counts = counts.lock().unwrap();
    counts.runs += 1;
    counts.commits += found.subjects.len() - 1;
}

struct Played {
    code: Option<i32>,
    killed_after: Option<String>,
    stderr: String,
}

/// Runs a command, and kills after so many lines of its output.
fn play(mut command: Command, point: Option<usize>, victim: Victim, delay: Duration) -> Played {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let hearing = std::thread::spawn(move || {
        let mut text = String::new();
        drop(std::io::Read::read_to_string(&mut stderr, &mut text));
        text
    });
    let (mut killed_after, mut is_dead) = (None, false);
    for (number, line) in BufReader::new(child.stdout.take().unwrap()).lines().enumerate() {
        let Ok(line) = line else { break };
        if Some(number) != point {
            continue;
        }
        let kind =
            serde_json::from_str::<Value>(&line).ok().and_then(|event| event["kind"].as_str().map(str::to_owned));
        // Not to wait for anything: so that the point lies between two lines.
        std::thread::sleep(delay);
        if victim != Victim::Baton {
            kill_tools(child.id());
        }
        if victim != Victim::Tool {
            child.kill().unwrap();
            is_dead = true;
        }
        killed_after = Some(kind.unwrap_or_default());
    }
    let status = child.wait().unwrap();
    let stderr = hearing.join().unwrap();
    Played { code: if is_dead { None } else { status.code() }, killed_after, stderr }
}

/// Kills everything that a process has started.
fn kill_tools(parent: u32) {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    for child in children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()) {
        kill_tools(child);
        drop(Command::new("kill").args(["-9", &child.to_string()]).stderr(Stdio::null()).status());
    }
}
