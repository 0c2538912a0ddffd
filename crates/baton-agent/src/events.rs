//! The way out: stamps what happens and hands it to the surface, waiting where the surface is slow.

use std::borrow::Cow;

use baton_core::{Event, EventBody, EventSource, IdSource, ItemId};
use baton_guard::secrets::Redactor;
use tokio::sync::mpsc;

/// Where a conversation tells what happens.
#[derive(Clone)]
pub(crate) struct EventSink {
    source: EventSource,
    sender: mpsc::Sender<Event>,
    redactor: Redactor,
}

impl EventSink {
    pub(crate) fn new(source: EventSource, sender: mpsc::Sender<Event>, redactor: Redactor) -> Self {
        Self { source, sender, redactor }
    }

    /// Takes secrets out of what others have said: a provider repeats the key that it refuses. What tools say was cleaned
    /// before, and what the model says it has from there.
    fn clean(&self, mut body: EventBody) -> EventBody {
        let text = match &mut body {
            EventBody::Noticed { text } => text,
            EventBody::Retrying { reason, .. } => reason,
            EventBody::Failed(fault) => &mut fault.message,
            _ => return body,
        };
        if let Cow::Owned(clean) = self.redactor.redact_str(text) {
            *text = clean;
        }
        body
    }

    pub(crate) fn ids(&self) -> &dyn IdSource {
        self.source.ids()
    }

    pub(crate) fn new_item(&self) -> ItemId {
        ItemId::fresh(self.ids())
    }

    pub(crate) async fn emit(&self, item: &ItemId, body: EventBody) {
        // A surface that is gone hears nothing more; the conversation ends when its handle is dropped.
        drop(self.sender.send(self.source.event(item, self.clean(body))).await);
    }

    pub(crate) async fn emit_lone(&self, body: EventBody) {
        drop(self.sender.send(self.source.lone(self.clean(body))).await);
    }

    /// For what may be lost: a surface that cannot keep up does not see every progress report.
    pub(crate) fn emit_if_room(&self, item: &ItemId, body: EventBody) {
        drop(self.sender.try_send(self.source.event(item, body)));
    }
}
