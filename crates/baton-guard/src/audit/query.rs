//! Reading the log back: verification, and entries by filter. The log is read line by line, whatever its size.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};

use jiff::Timestamp;
use serde::Serialize;

use super::chain::{self, Checkpoint, Entry, Finding, Key};
use super::{Audit, AuditError, Decision, io_error};

/// How many findings are listed; one is as good as all.
const FINDINGS_MAX: usize = 100;

/// What a verification came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// How many entries there are.
    pub entries: u64,
    /// What is wrong; nothing if the log is as it was written.
    pub findings: Vec<Finding>,
    /// How long a last line is whose writer was killed. That is no tampering: it was never acknowledged.
    pub torn_bytes: u64,
}

impl Report {
    /// Whether the log is as it was written.
    pub fn is_intact(&self) -> bool {
        self.findings.is_empty()
    }
}

/// Which entries are wanted; what is left out does not matter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// The kind, or what it begins with: `file` is also `file.write`.
    pub kind: Option<String>,
    /// Who.
    pub actor: Option<String>,
    /// A part of what was done.
    pub contains: Option<String>,
    /// What was decided.
    pub decision: Option<Decision>,
    /// Not before this.
    pub since: Option<Timestamp>,
    /// Before this.
    pub until: Option<Timestamp>,
}

impl Filter {
    /// Whether an entry is wanted.
    pub fn takes(&self, entry: &Entry) -> bool {
        let is_kind = |kind: &String| {
            entry.record.kind.strip_prefix(kind.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.kind.as_ref().is_none_or(is_kind)
            && self.actor.as_ref().is_none_or(|actor| entry.record.actor == *actor)
            && self.contains.as_ref().is_none_or(|part| entry.record.what.contains(part.as_str()))
            && self.decision.is_none_or(|decision| entry.record.decision == Some(decision))
            && self.since.is_none_or(|since| entry.at >= since)
            && self.until.is_none_or(|until| entry.at < until)
    }
}

impl Audit {
    /// Compares the log with its chain, its seals and its checkpoint.
    pub fn verify(&self) -> Result<Report, AuditError> {
        let mut report = Report { entries: 0, findings: Vec::new(), torn_bytes: 0 };
        let log = match File::open(&self.log) {
            Ok(log) => Some(log),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(io_error(&self.log, error)),
        };
        // Nobody may be in the middle of an append.
        if let Some(log) = &log {
            log.lock_shared().map_err(|error| io_error(&self.log, error))?;
        }
        let checkpoint = fs::read_to_string(&self.checkpoint).ok();
        let is_empty = log.as_ref().is_none_or(|log| log.metadata().is_ok_and(|data| data.len() == 0));
        if is_empty && checkpoint.as_ref().is_none_or(String::is_empty) {
            return Ok(report);
        }
        let Some(key) = fs::read(&self.key).ok().as_deref().and_then(Key::read) else {
            report.findings.push(Finding::NoKey);
            return Ok(report);
        };
        let sealed = match checkpoint.as_deref().map(|text| Checkpoint::read(text, &key)) {
            Some(Some(sealed)) => Some(sealed),
            Some(None) => {
                report.findings.push(Finding::Checkpoint);
                None
            }
            None => {
                report.findings.push(Finding::NoCheckpoint);
                None
            }
        };
        let mut last = (0, String::new());
        let mut sealed_head = String::new();
        if let Some(log) = log {
            self.each_line(log, |number, line| {
                let Some(line) = line.strip_suffix(b"\n") else {
                    report.torn_bytes = line.len() as u64;
                    return;
                };
                report.entries += 1;
                let text = std::str::from_utf8(line).map_err(|_| Finding::Unreadable { line: 0 });
                let finding = match text.and_then(|text| chain::read(text, &key)) {
                    Ok((entry, hash)) => {
                        let finding = if entry.seq == last.0 + 1 {
                            (entry.prev != last.1).then_some(Finding::Broken { line: number })
                        } else {
                            Some(Finding::Order { seq: last.0 + 1, found: entry.seq })
                        };
                        if sealed.as_ref().is_some_and(|sealed| sealed.count == entry.seq) {
                            sealed_head.clone_from(&hash);
                        }
                        last = (entry.seq, hash);
                        finding
                    }
                    Err(finding) => {
                        last.0 += 1;
                        Some(at_line(finding, number))
                    }
                };
                if report.findings.len() < FINDINGS_MAX {
                    report.findings.extend(finding);
                }
            })?;
        }
        if let Some(sealed) = sealed {
            if report.entries < sealed.count {
                let unsynced = sealed.count - sealed.synced.max(report.entries);
                report.findings.push(Finding::Cut { missing: sealed.count - report.entries, unsynced });
            } else if sealed_head != sealed.head {
                report.findings.push(Finding::Head);
            }
        }
        Ok(report)
    }

    /// Calls with each entry that the filter takes, and with its line; lines that are no entries are skipped: `verify`
    /// tells of them.
    pub fn query(&self, filter: &Filter, mut each: impl FnMut(Entry, &str)) -> Result<(), AuditError> {
        let log = match File::open(&self.log) {
            Ok(log) => log,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(io_error(&self.log, error)),
        };
        self.each_line(log, |_, line| {
            let line = String::from_utf8_lossy(line);
            if let Ok(entry) = serde_json::from_str::<Entry>(&line)
                && filter.takes(&entry)
            {
                each(entry, line.trim_end());
            }
        })
    }

    fn each_line(&self, log: File, mut each: impl FnMut(u64, &[u8])) -> Result<(), AuditError> {
        let mut log = BufReader::new(log);
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            if log.read_until(b'\n', &mut line).map_err(|error| io_error(&self.log, error))? == 0 {
                break;
            }
            each(number, &line);
        }
        Ok(())
    }
}

fn at_line(finding: Finding, line: u64) -> Finding {
    match finding {
        Finding::Unreadable { .. } => Finding::Unreadable { line },
        Finding::Edited { .. } => Finding::Edited { line },
        Finding::Forged { .. } => Finding::Forged { line },
        other => other,
    }
}
