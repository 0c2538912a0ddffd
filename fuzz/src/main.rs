//! `cargo run --profile fuzz -p baton-fuzz -- [TARGET...] [--cases N] [--seed N] [--trace]`: many cases, counted and timed.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use baton_fuzz::{Found, TARGETS, Target, minimise, run};

const USAGE: &str = "baton-fuzz [TARGET...] [--cases N] [--seed N] [--trace]

Runs so many cases (1,000,000) of each target (all), and stops at the first that breaks a promise.
--seed  makes other cases
--trace keeps each case in a file before it runs, for those that end the process";

struct Options {
    targets: Vec<Target>,
    cases: u64,
    seed: u64,
    trace: bool,
}

fn options() -> Option<Options> {
    let mut options = Options { targets: Vec::new(), cases: 1_000_000, seed: 1, trace: false };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--cases" => options.cases = args.next()?.replace('_', "").parse().ok()?,
            "--seed" => options.seed = args.next()?.parse().ok()?,
            "--trace" => options.trace = true,
            name => options.targets.push(Target::named(name)?),
        }
    }
    if options.targets.is_empty() {
        options.targets = TARGETS.to_vec();
    }
    Some(options)
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        let names = TARGETS.map(|target| target.name).join(" ");
        eprintln!("{USAGE}\n\nTargets: {names}");
        return ExitCode::from(2);
    };
    // Panics are what is looked for; they are told once, when they are found.
    std::panic::set_hook(Box::new(|_| {}));
    let crashes = Path::new(env!("CARGO_MANIFEST_DIR")).join("crashes");
    let mut exit = ExitCode::SUCCESS;
    for target in &options.targets {
        let started = Instant::now();
        let outcome = run(target, options.cases, options.seed, |number, case| {
            if options.trace {
                keep(&crashes, &format!("{}.last", target.name), case);
            }
            if number.is_multiple_of(1_000_000) && number > 0 {
                eprintln!("{}: {number} cases, {:.0} s", target.name, started.elapsed().as_secs_f64());
            }
        });
        match outcome {
            Ok(()) => {
                let seconds = started.elapsed().as_secs_f64();
                #[expect(clippy::cast_precision_loss, reason = "nobody reads the last digits")]
                let rate = options.cases as f64 / seconds;
                println!(
                    "{}: {} cases in {seconds:.0} s, {rate:.0} a second: no promise broken",
                    target.name, options.cases
                );
            }
            Err(found) => {
                let Found { case, message } = minimise(target, found);
                let file = keep(&crashes, &format!("{}.found", target.name), &case);
                println!("{}: broken by {file}: {message}", target.name);
                exit = ExitCode::FAILURE;
            }
        }
    }
    exit
}

fn keep(dir: &Path, name: &str, case: &[u8]) -> String {
    let file = dir.join(name);
    if let Err(error) = fs::create_dir_all(dir).and_then(|()| fs::write(&file, case)) {
        eprintln!("cannot keep {}: {error}", file.display());
    }
    file.display().to_string()
}
