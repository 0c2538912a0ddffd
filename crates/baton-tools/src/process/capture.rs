//! Capturing: what a command prints is cleaned, shaped, kept, watched for life, and reported while it runs.

use std::time::Duration;

use tokio::time::Instant;

use super::source::Sink;
use crate::CallContext;
use crate::Progress;
use crate::clean::Cleaner;
use crate::redacting::Redacting;
use crate::shape::{HeadTail, Shaped};
use crate::spool::{Kept, Spool};

const REPORT_EVERY: Duration = Duration::from_millis(50);
/// Reports are for people to watch: of a flood they get the latest part.
const REPORT_BYTES_MAX: usize = 16 * 1024;

/// The output of one command.
pub(super) struct Capture {
    cleaner: Cleaner,
    redacting: Redacting,
    shaper: HeadTail,
    spool: Spool,
    progress: Progress,
    unreported: String,
    report_at: Option<Instant>,
    last_line: String,
    last_real: Instant,
}

impl Capture {
    /// Captures what this call prints.
    pub(super) fn new(cx: &CallContext) -> Self {
        Self {
            cleaner: Cleaner::default(),
            redacting: Redacting::new(cx.workspace.redactor()),
            shaper: HeadTail::default(),
            spool: Spool::new(cx.workspace.outputs(), cx.call.as_str()),
            progress: cx.progress.clone(),
            unreported: String::new(),
            report_at: None,
            last_line: String::new(),
            last_real: Instant::now(),
        }
    }

    /// When something was printed last that shows progress.
    pub(super) fn last_real(&self) -> Instant {
        self.last_real
    }

    /// When the next report is due, if there is something to report.
    pub(super) fn report_at(&self) -> Option<Instant> {
        self.report_at
    }

    async fn keep(&mut self, text: &str) {
        if !text.is_empty() {
            self.shaper.push(text);
            self.spool.push(text, self.shaper.is_cut()).await;
        }
    }

    /// Notes whether there was a sign of progress: a line that is neither noise nor the same as the one before.
    fn watch(&mut self, text: &str) {
        let lines = text.lines().chain([self.cleaner.overwritten(), self.cleaner.line()]);
        for line in lines.map(str::trim) {
            if !is_noise(line) && line != self.last_line {
                line.clone_into(&mut self.last_line);
                self.last_real = Instant::now();
                break;
            }
        }
    }

    fn report(&mut self, text: &str) {
        self.unreported.push_str(text);
        if self.unreported.len() > REPORT_BYTES_MAX {
            let surplus = self.unreported.len() - REPORT_BYTES_MAX;
            self.unreported.drain(..self.unreported.ceil_char_boundary(surplus));
        }
        if self.unreported.is_empty() {
            return;
        }
        let now = Instant::now();
        if now >= *self.report_at.get_or_insert(now + REPORT_EVERY) {
            self.progress.report(std::mem::take(&mut self.unreported));
            self.report_at = None;
        }
    }

    /// Reports now if it is due.
    pub(super) fn report_due(&mut self) {
        self.report("");
    }

    /// What became of it all. The last report is left to the result.
    pub(super) async fn finish(mut self) -> (Shaped, Kept) {
        let mut text = String::new();
        std::mem::take(&mut self.cleaner).finish(&mut text);
        let mut text = self.redacting.push(&text);
        let Self { redacting, mut shaper, mut spool, .. } = self;
        text += &redacting.finish();
        if !text.is_empty() {
            shaper.push(&text);
            spool.push(&text, shaper.is_cut()).await;
        }
        (shaper.finish(), spool.finish().await)
    }
}

impl Sink for Capture {
    async fn take(&mut self, bytes: &[u8]) {
        let mut text = String::with_capacity(bytes.len());
        self.cleaner.push(bytes, &mut text);
        self.watch(&text);
        let text = self.redacting.push(&text);
        self.keep(&text).await;
        self.report(&text);
    }
}

/// Whether a line shows no progress: nothing, dots, a spinner, or a bare percentage.
fn is_noise(line: &str) -> bool {
    let spins =
        |c: char| matches!(c, '.' | '…' | '|' | '/' | '-' | '\\' | '\u{2800}'..='\u{28FF}' | '◐'..='◓' | '◴'..='◷');
    let number = line.strip_suffix('%').map(str::trim_end);
    line.chars().all(spins) || number.is_some_and(|number| number.parse::<f32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::is_noise;

    #[test]
    fn noise_shows_no_progress() {
        for noise in ["", ".", ".....", "|", "/", "-", "\\", "⠋", "◐", "45%", "99.5 %", "100%"] {
            assert!(is_noise(noise), "{noise}");
        }
        for real in ["a", "Compiling baton", "45% done", "% ", "12", "...ok", "Receiving objects: 45%"] {
            assert!(!is_noise(real), "{real}");
        }
    }
}
