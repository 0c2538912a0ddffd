//! `exec`: one prompt in, events rendered, and how it ended.

use std::io;
use std::time::Duration;

use baton_agent::{Conversation, Events, Options};
use baton_core::{EventBody, Fault, Op, TurnReason};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use crate::output::{Format, Output, Shown};
use crate::signals::{Signal, Signals};

/// How many things may wait to be written before the agent has to wait for whoever reads them.
const WAITING_MAX: usize = 256;
/// How long the last words may take after a signal, when nobody reads them.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How long the end of the session may take: a little more than the most stubborn background processes need.
const END_MAX: Duration = Duration::from_secs(8);

/// How an `exec` ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Finish {
    /// How the turn ended.
    pub reason: TurnReason,
    /// The final answer.
    pub text: String,
    /// The last fault, where one ended it.
    pub fault: Option<Fault>,
    /// The signal that ended it.
    pub signal: Option<Signal>,
}

/// Runs one op to its end, usually a prompt. A first signal cancels the turn and lets tools clean up; a second
/// one kills whatever is left. What ran in the background has ended when this returns.
pub async fn exec(options: Options, op: Op, format: Format, signals: &mut Signals) -> Finish {
    let (conversation, mut events) = Conversation::start(options);
    conversation.submit(op).await;
    let mut conversation = Some(conversation);
    let (mut writer, mut written) = Writer::start(format);
    let mut finish = Finish { reason: TurnReason::Error, text: String::new(), fault: None, signal: None };
    let mut every_second = tokio::time::interval(Duration::from_secs(1));
    let (mut is_over, mut is_gone, mut unwritten) = (false, false, None);
    let mut last_moment = None;
    loop {
        tokio::select! {
            // What waits to be written comes first: events queue up behind it.
            () = writer.passed_on(), if writer.is_waiting() => {}
            event = events.next(), if !is_over && !writer.is_waiting() => {
                let Some(event) = event else { break };
                match &event.body {
                    EventBody::Failed(fault) => finish.fault = Some(fault.clone()),
                    EventBody::TurnEnded { reason, text, .. } => {
                        finish.reason = *reason;
                        finish.text.clone_from(text);
                        is_over = true;
                    }
                    _ => {}
                }
                writer.show(Shown::Event(Box::new(event)));
            }
            failed = &mut written, if !is_gone => {
                // Whoever read our output is gone: nobody waits for the rest.
                is_gone = true;
                unwritten = failed.unwrap_or(Ok(())).err();
                writer.give_up();
                conversation = None;
            }
            signal = signals.next() => {
                if finish.signal.replace(signal).is_some() {
                    // What is killed ends the turn by itself; it is waited for only so that the events are whole.
                    baton_tools::kill_all_now();
                    last_moment.get_or_insert_with(|| Instant::now() + LAST_WORDS);
                    continue;
                }
                // From here on what cannot be written is dropped: a reader that sleeps must not keep us.
                writer.give_up();
                writer.show(Shown::Stopping);
                conversation = None;
            }
            () = sleep_until(last_moment.unwrap_or_else(Instant::now)), if last_moment.is_some() => {
                finish.reason = TurnReason::Cancelled;
                return finish;
            }
            _ = every_second.tick() => writer.show_if_room(Shown::Tick),
        }
        if is_over && !writer.is_waiting() {
            break;
        }
    }
    drop((writer, conversation));
    if is_gone {
        // There is nobody to tell more; the turn may have ended well all the same.
        if let Some(error) = unwritten {
            finish.fault = Some(unwritable(&error));
            finish.reason = TurnReason::Error;
        }
    } else if finish.signal.is_some() {
        drop(tokio::time::timeout(LAST_WORDS, written).await);
    } else {
        // Everything is written, or a signal says not to wait for a reader that sleeps.
        tokio::select! {
            outcome = written => if let Ok(Err(error)) = outcome {
                finish.fault = Some(unwritable(&error));
                finish.reason = TurnReason::Error;
            },
            signal = signals.next() => finish.signal = Some(signal),
        }
    }
    if let Some(signal) = ended(events, signals).await {
        finish.signal = Some(signal);
    }
    finish
}

/// Waits until what ran in the background has ended; a signal ends it at once.
async fn ended(mut events: Events, signals: &mut Signals) -> Option<Signal> {
    let over = async { while events.next().await.is_some() {} };
    tokio::pin!(over);
    let signal = tokio::select! {
        () = &mut over => return None,
        signal = signals.next() => Some(signal),
        () = tokio::time::sleep(END_MAX) => None,
    };
    baton_tools::kill_all_now();
    drop(tokio::time::timeout(LAST_WORDS, over).await);
    signal
}

fn unwritable(error: &io::Error) -> Fault {
    Fault::internal(format!("cannot write the output: {error}"))
}

/// Writes on a thread of its own, so that a reader that does not read blocks nothing else.
struct Writer {
    sender: mpsc::Sender<Shown>,
    waiting: Option<Shown>,
    is_given_up: bool,
}

impl Writer {
    /// Also returns what comes of it, once everything is written or something could not be.
    fn start(format: Format) -> (Self, oneshot::Receiver<io::Result<()>>) {
        let (sender, mut shown) = mpsc::channel(WAITING_MAX);
        let (done, outcome) = oneshot::channel();
        std::thread::spawn(move || {
            let mut output = Output::new(format);
            let mut written = Ok(());
            while let (Some(next), Ok(())) = (shown.blocking_recv(), &written) {
                written = output.show(&next);
            }
            // The receiver is gone only when the process is about to end.
            drop(done.send(written));
        });
        (Self { sender, waiting: None, is_given_up: false }, outcome)
    }

    fn is_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    fn give_up(&mut self) {
        self.is_given_up = true;
        self.waiting = None;
    }

    fn show(&mut self, shown: Shown) {
        if let Err(mpsc::error::TrySendError::Full(shown)) = self.sender.try_send(shown)
            && !self.is_given_up
        {
            self.waiting = Some(shown);
        }
    }

    fn show_if_room(&self, shown: Shown) {
        drop(self.sender.try_send(shown));
    }

    /// Waits for room for what is waiting.
    async fn passed_on(&mut self) {
        let room = self.sender.reserve().await;
        // Without room the thread has ended; why is told by what comes of it.
        if let (Ok(room), Some(shown)) = (room, self.waiting.take()) {
            room.send(shown);
        }
    }
}
