//! Publishing: the state, the evidence and the log of a run as files in the project, for people. Nothing reads them back.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use baton_workflow::{Event, Run};
use tracing::warn;

/// Where a project has what runs leave for people.
const RUNS: &str = ".baton/runs";

/// Writes what became of a run by an event. A project that cannot be written is no reason to stop.
pub(crate) fn publish(repository: &Path, run: &Run, event: &Event) {
    if let Err(error) = write(repository, run, event) {
        warn!(run = %run.id, "what is for people could not be written: {error}");
    }
}

fn write(repository: &Path, run: &Run, event: &Event) -> io::Result<()> {
    let runs = repository.join(RUNS);
    let dir = runs.join(run.id.as_str());
    let evidence = dir.join("evidence");
    fs::create_dir_all(&evidence)?;
    let ignore = runs.join(".gitignore");
    if !ignore.exists() {
        // Nothing in here, this file included, is for commits.
        fs::write(&ignore, "*\n")?;
    }
    replace(&dir.join("state.json"), &serde_json::to_vec_pretty(run)?)?;
    for (state, fields) in &run.evidence {
        replace(&evidence.join(format!("{state}.json")), &serde_json::to_vec_pretty(fields)?)?;
    }
    let mut log = OpenOptions::new().create(true).append(true).open(dir.join("log.jsonl"))?;
    let mut line = serde_json::to_vec(event)?;
    line.push(b'\n');
    log.write_all(&line)
}

fn replace(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = file.with_extension("new");
    fs::write(&beside, bytes)?;
    fs::rename(&beside, file)
}
