//! `exec`: one prompt in, events rendered, and how it ended.

use std::time::Duration;

use baton_agent::{Conversation, Options};
use baton_core::{Block, EventBody, Fault, Op, TurnReason};

use crate::output::Output;
use crate::signals::{Signal, Signals};

/// How an `exec` ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Finish {
    /// How the turn ended.
    pub reason: TurnReason,
    /// The last fault, where one ended it.
    pub fault: Option<Fault>,
    /// The signal that ended it.
    pub signal: Option<Signal>,
}

/// Runs one prompt to its end. A first signal cancels the turn and lets tools clean up; a second
/// one kills whatever is left.
pub async fn exec(options: Options, prompt: Vec<Block>, output: &mut Output, signals: &mut Signals) -> Finish {
    let (conversation, mut events) = Conversation::start(options);
    conversation.submit(Op::Prompt { content: prompt }).await;
    let mut finish = Finish { reason: TurnReason::Error, fault: None, signal: None };
    let mut every_second = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            event = events.next() => {
                let Some(event) = event else { return finish };
                let is_shown = output.show(&event);
                match event.body {
                    EventBody::Failed(fault) => finish.fault = Some(fault),
                    EventBody::TurnEnded { reason, .. } => {
                        finish.reason = reason;
                        return finish;
                    }
                    _ => {}
                }
                if let Err(error) = is_shown {
                    // Whoever read our output is gone: nobody waits for the rest.
                    conversation.submit(Op::Cancel).await;
                    finish.fault = Some(Fault::internal(format!("cannot write the output: {error}")));
                }
            }
            signal = signals.next() => {
                if finish.signal.replace(signal).is_some() {
                    baton_tools::kill_all_now();
                    finish.reason = TurnReason::Cancelled;
                    return finish;
                }
                output.stopping();
                conversation.submit(Op::Cancel).await;
            }
            _ = every_second.tick() => output.tick(),
        }
    }
}
