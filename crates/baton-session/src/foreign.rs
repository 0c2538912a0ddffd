//! Conversations of other agents, as sessions. The same conversation always becomes the same session, entry by entry.
//!
//! What is not understood is counted and left out, never an error: these files have no promised form.

mod claude;
mod codex;
mod transcript;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use baton_core::SessionId;
use serde_json::Value;

use crate::blobs::Blobs;
use crate::merge::Staged;
use transcript::Transcript;

/// A longer line is passed over.
const LINE_MAX: u64 = 64 * 1024 * 1024;
/// How many lines are looked at to tell whose they are.
const LOOKED_AT: usize = 50;

/// What a file of another agent has become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converted {
    /// The session, in the staging directory; nothing if nobody says anything in it.
    pub staged: Option<Staged>,
    /// Whose conversation it was, with its id there.
    pub origin: String,
    /// Where that agent worked.
    pub cwd: Option<String>,
    /// How many prompts it has.
    pub turns: u64,
    /// What was left out: what it is, and how often.
    pub skipped: BTreeMap<String, u64>,
}

/// Who wrote a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Agent {
    Claude,
    Codex,
}

/// Takes secrets out of a text; nothing if there are none.
pub type Clean<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Converts a conversation of Claude Code or Codex, without its secrets; nothing if the file is neither.
pub fn convert(file: &Path, staging: &Path, clean: Clean<'_>) -> io::Result<Option<Converted>> {
    let mut first = Vec::new();
    let mut lines = Lines::open(file)?;
    while let Some(line) = lines.next()? {
        first.extend(line.ok());
        if first.len() >= LOOKED_AT {
            break;
        }
    }
    let Some(agent) = first.iter().find_map(agent) else { return Ok(None) };
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut transcript = Transcript::new(staging, Blobs::new(staging.join("blobs")), name);
    let mut lines = Lines::open(file)?;
    let mut claude = claude::Reader::default();
    while let Some(line) = lines.next()? {
        match line {
            Err(why) => transcript.skip(why),
            Ok(mut line) => {
                clean_all(&mut line, clean);
                match agent {
                    Agent::Claude => claude.read(&line, &mut transcript)?,
                    Agent::Codex => codex::read(&line, &mut transcript)?,
                }
            }
        }
    }
    let used = std::fs::metadata(file)?.modified().ok();
    transcript.finish(used).map(Some)
}

/// Takes secrets out of every text of a line. Pictures are no texts.
fn clean_all(value: &mut Value, clean: Clean<'_>) {
    match value {
        Value::String(text) => {
            if let Some(cleaned) = clean(text) {
                *text = cleaned;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| clean_all(value, clean)),
        Value::Object(fields) => {
            for (_, value) in fields.iter_mut().filter(|(name, _)| *name != "data" && *name != "image_url") {
                clean_all(value, clean);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn agent(line: &Value) -> Option<Agent> {
    let kind = line["type"].as_str();
    match kind {
        Some("session_meta") => Some(Agent::Codex),
        // Before September 2025 the first line was the bare description of the session.
        None if line["id"].is_string() && line.get("instructions").is_some() => Some(Agent::Codex),
        Some(_) if line["sessionId"].is_string() && line.get("message").is_some() => Some(Agent::Claude),
        _ => None,
    }
}

/// The id of a session that comes from elsewhere: the same each time.
fn session_id(origin: &str, millis: u64) -> SessionId {
    SessionId::new(format!("ses_{}", transcript::derived(millis, origin)))
}

/// The JSON lines of a file.
struct Lines {
    reader: BufReader<File>,
    line: Vec<u8>,
}

impl Lines {
    fn open(file: &Path) -> io::Result<Self> {
        Ok(Self { reader: BufReader::with_capacity(256 * 1024, File::open(file)?), line: Vec::new() })
    }

    /// The next line, or why it is none.
    fn next(&mut self) -> io::Result<Option<Result<Value, &'static str>>> {
        loop {
            self.line.clear();
            let read = (&mut self.reader).take(LINE_MAX).read_until(b'\n', &mut self.line)?;
            if read == 0 {
                return Ok(None);
            }
            if read as u64 == LINE_MAX && self.line.last() != Some(&b'\n') {
                self.pass_over()?;
                return Ok(Some(Err("too long lines")));
            }
            if self.line.trim_ascii().is_empty() {
                continue;
            }
            return Ok(Some(serde_json::from_slice(&self.line).map_err(|_| "damaged lines")));
        }
    }

    fn pass_over(&mut self) -> io::Result<()> {
        loop {
            let rest = self.reader.fill_buf()?;
            let (length, is_end) = match memchr::memchr(b'\n', rest) {
                Some(at) => (at + 1, true),
                None => (rest.len(), rest.is_empty()),
            };
            self.reader.consume(length);
            if is_end {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests;
