//! Replaying: requests are answered by the exchanges of a cassette, or refused with what differs.

use std::collections::VecDeque;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use baton_core::{CallId, IdSource};
use bytes::Bytes;

use super::{Asked, Cassette, Header, Marks, diff};
use crate::error::LlmError;
use crate::request::Request;
use crate::transport::{Body, Reply, Transport, Unsent};

/// The largest cassette that is read: it is held in memory.
const FILE_BYTES_MAX: u64 = 512 << 20;

/// A transport that answers from a cassette.
pub(crate) struct Replay {
    file: String,
    cassette: Cassette,
    marks: Marks,
    ids: Arc<dyn IdSource>,
    /// Which exchanges are still to be played.
    left: Mutex<Vec<bool>>,
}

impl Replay {
    /// Reads a cassette.
    pub(crate) fn open(file: &Path, marks: Marks, ids: Arc<dyn IdSource>) -> Result<Self, LlmError> {
        let name = file.display().to_string();
        let unreadable = |why: String| LlmError::input(format!("cannot read the cassette {name}: {why}"));
        // Asked before it is opened: opening a pipe waits for somebody to write to it.
        let is_file = std::fs::metadata(file).map_err(|error| unreadable(error.to_string()))?.is_file();
        if !is_file {
            return Err(unreadable("it is not a regular file".to_owned()));
        }
        let mut bytes = Vec::new();
        std::fs::File::open(file)
            .and_then(|opened| opened.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
            .map_err(|error| unreadable(error.to_string()))?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            return Err(unreadable(format!("it is larger than {} MiB", FILE_BYTES_MAX >> 20)));
        }
        let cassette = Cassette::parse(&bytes).map_err(|error| {
            unreadable(error.to_string())
                .hint("record one with `baton exec --record FILE`; scripts are played by -m script/FILE")
        })?;
        let left = Mutex::new(vec![true; cassette.len()]);
        Ok(Self { file: name, cassette, marks, ids, left })
    }

    /// What was recorded.
    pub(crate) fn header(&self) -> &Header {
        &self.cassette.header
    }

    /// What the person should know.
    pub(crate) fn notice(&self) -> String {
        let file = &self.file;
        match self.cassette.torn {
            None => format!("{file} is replayed: no model is called"),
            Some(line) => format!("{file} is replayed without line {line}, which is cut off: no model is called"),
        }
    }

    /// Takes the first exchange that is left and fits.
    fn take(&self, asked: &Asked) -> Result<usize, LlmError> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let still = |left: &[bool]| left.iter().enumerate().filter_map(|(at, left)| left.then_some(at)).collect();
        let candidates: Vec<usize> = still(&left);
        if let Some(at) = candidates.iter().copied().find(|at| self.cassette.fits(*at, asked)) {
            left[at] = false;
            return Ok(at);
        }
        let Some(first) = candidates.first() else {
            let message = format!(
                "the cassette {} is played to its end ({} exchanges), and the conversation goes on",
                self.file,
                self.cassette.len()
            );
            return Err(LlmError::input(message).hint("record it again with `baton exec --record FILE`"));
        };
        let message = format!(
            "this request is not the one that was recorded as exchange {} of {}\n{}",
            first + 1,
            self.file,
            diff::explain(&self.cassette, *first, asked)
        );
        let hint = "restore what the recording saw (prompt, files, instructions, settings), or record it again";
        Err(LlmError::input(message).hint(hint))
    }
}

#[async_trait]
impl Transport for Replay {
    async fn send(&self, request: &Request) -> Result<Reply, Unsent> {
        let at = self.take(&Asked::new(request, &self.marks))?;
        let entry = &self.cassette.exchanges[at].entry;
        let answer = &entry.answer;
        if let Some(why) = &answer.withheld {
            let message = format!("exchange {} of {} has no answer: {why}", entry.exchange, self.file);
            return Err(LlmError::input(message).hint("what was withheld cannot be replayed: record it again").into());
        }
        if let Some(cause) = &answer.unreachable {
            return Err(Unsent::Unreachable(cause.clone()));
        }
        let bytes = if answer.body_base64.is_empty() {
            Bytes::from(self.marks.expand(&answer.body))
        } else {
            let damaged = |error| LlmError::input(format!("exchange {} of {}: {error}", entry.exchange, self.file));
            Bytes::from(BASE64_STANDARD.decode(&answer.body_base64).map_err(damaged)?)
        };
        let mut calls: VecDeque<CallId> = answer.calls.iter().cloned().collect();
        let ids = Arc::clone(&self.ids);
        Ok(Reply {
            status: answer.status,
            headers: answer.headers.clone(),
            at: entry.at,
            call_ids: Box::new(move || calls.pop_front().unwrap_or_else(|| CallId::fresh(&*ids))),
            body: Box::new(Played { bytes: Some(bytes), cut: answer.cut.clone() }),
        })
    }

    fn is_live(&self) -> bool {
        false
    }
}

/// The bytes of a recorded reply.
struct Played {
    bytes: Option<Bytes>,
    cut: Option<String>,
}

#[async_trait]
impl Body for Played {
    async fn next(&mut self) -> Result<Option<Bytes>, String> {
        match (self.bytes.take(), self.cut.take()) {
            (Some(bytes), cut) if !bytes.is_empty() => {
                self.cut = cut;
                Ok(Some(bytes))
            }
            (_, Some(cut)) => Err(cut),
            (_, None) => Ok(None),
        }
    }
}
