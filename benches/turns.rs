//! Speed and memory of the whole binary against a model that answers at once, beside other agents.
//!
//! `cargo bench --bench turns` measures Baton, and codex, goose and pi where they are installed. The
//! model is a server in this process; each of its answers asks for one shell command, the last is
//! text. What is printed is the median of several runs, and its ratio to Baton's figure; `bash -c`
//! alone is the physical limit of a turn.

#[path = "turns/agents.rs"]
mod agents;
mod figures;
#[path = "turns/instant_model.rs"]
mod instant_model;
#[path = "turns/measure.rs"]
mod measure;

use std::path::Path;
use std::process::{Command, Stdio};

use agents::Agent;
use figures::{median, timed};
use instant_model::InstantModel;
use measure::Cost;

/// How many tool turns the long run has.
const TURNS: usize = 100;
/// How many runs a figure is the median of.
const RUNS: usize = 5;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, program @ ..] = &args[..]
        && flag == measure::FLAG
    {
        return measure::report(program);
    }
    let (runs, turns) = if figures::is_full() { (RUNS, TURNS) } else { (1, 3) };
    let dir = tempfile::tempdir().unwrap();
    println!("median of {runs} runs, {turns} tool turns; ratio to Baton in brackets\n");
    println!(
        "{:8} {:>17} {:>15} {:>15} {:>16} {:>15} {:>17}",
        "", "first request", "a turn", "the last ten", "peak memory", "CPU time", "--help"
    );
    let mut ours: Option<Row> = None;
    for agent in agents::installed() {
        match Row::measure(&agent, dir.path(), runs, turns) {
            Some(row) => row.print(agent.name, ours.get_or_insert_with(|| row.clone())),
            None => println!("{:8} did not finish its turns", agent.name),
        }
    }
    let bash = median((0..20 * runs).map(|_| run(Command::new("bash").args(["-c", "printf x"]))).collect());
    let turn = ours.map_or(0.0, |row| row.turn_ms);
    println!("\nbash -c alone: {bash:.2} ms; a turn of Baton is {:.1} times that", turn / bash);
}

/// How long a command takes, in milliseconds.
fn run(command: &mut Command) -> f64 {
    timed(|| command.stdin(Stdio::null()).output().unwrap()).0
}

#[derive(Clone)]
struct Row {
    first_request_ms: f64,
    turn_ms: f64,
    /// With almost the whole conversation behind it.
    late_turn_ms: f64,
    memory_mb: f64,
    cpu_s: f64,
    help_ms: f64,
}

impl Row {
    fn measure(agent: &Agent, dir: &Path, runs: usize, turns: usize) -> Option<Self> {
        let (mut first, mut gaps, mut late, mut memory, mut cpu) = (vec![], vec![], vec![], vec![], vec![]);
        for run in 0..runs {
            let place = dir.join(format!("{}-{run}", agent.name));
            let model = InstantModel::start(agent.wire, agent.shell, turns);
            let (Cost { memory_mb, cpu_s }, started) = measure::run(agent, &place, &model.url);
            let (first_ms, gaps_ms) = model.finish(started)?;
            first.push(first_ms);
            late.extend(gaps_ms.iter().rev().take(10));
            gaps.extend(gaps_ms);
            memory.push(memory_mb);
            cpu.push(cpu_s);
        }
        let help_ms = median((0..4 * runs).map(|_| run(Command::new(&agent.program).arg("--help"))).collect());
        Some(Self {
            first_request_ms: median(first),
            turn_ms: median(gaps),
            late_turn_ms: median(late),
            memory_mb: median(memory),
            cpu_s: median(cpu),
            help_ms,
        })
    }

    fn print(&self, name: &str, ours: &Self) {
        let cell = |unit: &str, of: fn(&Self) -> f64| format!("{:.1} {unit} ({:.1}x)", of(self), of(self) / of(ours));
        println!(
            "{name:8} {:>17} {:>15} {:>15} {:>16} {:>15} {:>17}",
            cell("ms", |row| row.first_request_ms),
            cell("ms", |row| row.turn_ms),
            cell("ms", |row| row.late_turn_ms),
            cell("MB", |row| row.memory_mb),
            format!("{:.2} s ({:.1}x)", self.cpu_s, self.cpu_s / ours.cpu_s),
            cell("ms", |row| row.help_ms),
        );
    }
}
