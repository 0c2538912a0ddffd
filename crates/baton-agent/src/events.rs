//! The way out: stamps what happens and hands it to the surface, waiting where the surface is slow.

use std::borrow::Cow;
use std::sync::Arc;

use baton_core::{Block, Event, EventBody, EventId, EventSource, IdSource, ItemId};
use baton_guard::secrets::Redactor;
use baton_session::{Own, is_durable};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::keeping::{AGAIN_AFTER, Keeping, PATIENCE, Written};

/// Where a conversation tells what happens.
#[derive(Clone)]
pub(crate) struct EventSink {
    source: EventSource,
    sender: mpsc::Sender<Event>,
    redactor: Redactor,
    keeping: Arc<Keeping>,
}

impl EventSink {
    pub(crate) fn new(
        source: EventSource,
        sender: mpsc::Sender<Event>,
        redactor: Redactor,
        keeping: Arc<Keeping>,
    ) -> Self {
        Self { source, sender, redactor, keeping }
    }

    /// What is kept of the conversation.
    pub(crate) fn keeping(&self) -> &Keeping {
        &self.keeping
    }

    /// Takes secrets out of what is shown and kept. What tools say was cleaned before.
    fn clean(&self, mut body: EventBody) -> EventBody {
        match &mut body {
            EventBody::Noticed { text } | EventBody::Retrying { reason: text, .. } => {
                self.redact(text);
            }
            // A provider repeats the key that it refuses.
            EventBody::Failed(fault) => {
                self.redact(&mut fault.message);
            }
            EventBody::TurnStarted { message, .. } | EventBody::MessageEnded { message, .. } => {
                self.redact_blocks(&mut message.content);
            }
            EventBody::ToolStarted { input, .. } => self.redact_value(input),
            _ => {}
        }
        body
    }

    fn redact(&self, text: &mut String) -> bool {
        let Cow::Owned(clean) = self.redactor.redact_str(text) else { return false };
        *text = clean;
        true
    }

    fn redact_blocks(&self, blocks: &mut [Block]) {
        for block in blocks {
            match block {
                Block::Text { text } => {
                    self.redact(text);
                }
                Block::Thinking { text, signature } => {
                    // A signature is of the text as it was: without it the block stays at home.
                    if self.redact(text) {
                        *signature = None;
                    }
                }
                Block::ToolUse(call) => {
                    self.redact_value(&mut call.input);
                    if let Some(malformed) = &mut call.malformed {
                        self.redact(malformed);
                    }
                }
                Block::ToolResult(_) | Block::Image(_) | Block::Foreign(_) => {}
            }
        }
    }

    fn redact_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => {
                self.redact(text);
            }
            Value::Array(values) => values.iter_mut().for_each(|value| self.redact_value(value)),
            Value::Object(object) => object.values_mut().for_each(|value| self.redact_value(value)),
            _ => {}
        }
    }

    pub(crate) fn ids(&self) -> &dyn IdSource {
        self.source.ids()
    }

    pub(crate) fn new_item(&self) -> ItemId {
        ItemId::fresh(self.ids())
    }

    /// Tells what happens, once it is kept; the event's id.
    pub(crate) async fn emit(&self, item: &ItemId, body: EventBody) -> EventId {
        let event = self.source.event(item, self.clean(body));
        let id = event.stamp.id.clone();
        if is_durable(&event.body) {
            self.keeping.event(&event);
            self.written().await;
        }
        // A surface that is gone hears nothing more; the conversation ends when its handle is dropped.
        drop(self.sender.send(event).await);
        id
    }

    pub(crate) async fn emit_lone(&self, body: EventBody) -> EventId {
        self.emit(&self.new_item(), body).await
    }

    /// Keeps what nobody needs to see; its entry.
    pub(crate) async fn keep(&self, mut own: Own) -> EventId {
        if let Own::Said { content, .. } = &mut own {
            self.redact_blocks(content);
        }
        let id = EventId::fresh(self.ids());
        self.keeping.own(id.clone(), self.source.clock().now(), own);
        self.written().await;
        id
    }

    /// Waits until everything is written, and for a disk that refuses no longer than there is hope.
    async fn written(&self) {
        let started = Instant::now();
        let mut is_told = false;
        loop {
            match self.keeping.write() {
                Written::Done { had_failed } if had_failed || is_told => {
                    return self
                        .tell_unkept("the session is written again, and nothing of it is missing".to_owned())
                        .await;
                }
                Written::Done { .. } | Written::GivenUp => return,
                Written::Refused(why) if started.elapsed() > PATIENCE => return self.keeping.give_up(why),
                Written::Refused(why) if !is_told => {
                    is_told = true;
                    self.tell_unkept(format!("{why}; waiting up to {} s for that to change", PATIENCE.as_secs())).await;
                }
                Written::Refused(_) => {}
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
    }

    /// Tells about the session itself: that cannot wait for the session.
    async fn tell_unkept(&self, text: String) {
        drop(self.sender.send(self.source.lone(EventBody::Noticed { text })).await);
    }

    /// For what may be lost: a surface that cannot keep up does not see every progress report.
    pub(crate) fn emit_if_room(&self, item: &ItemId, body: EventBody) {
        drop(self.sender.try_send(self.source.event(item, body)));
    }
}
