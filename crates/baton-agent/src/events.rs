//! The way out: stamps what happens and hands it to the surface, waiting where the surface is slow.

use baton_core::{Event, EventBody, EventSource, IdSource, ItemId};
use tokio::sync::mpsc;

/// Where a conversation tells what happens.
#[derive(Clone)]
pub(crate) struct EventSink {
    source: EventSource,
    sender: mpsc::Sender<Event>,
}

impl EventSink {
    pub(crate) fn new(source: EventSource, sender: mpsc::Sender<Event>) -> Self {
        Self { source, sender }
    }

    pub(crate) fn ids(&self) -> &dyn IdSource {
        self.source.ids()
    }

    pub(crate) fn new_item(&self) -> ItemId {
        ItemId::fresh(self.ids())
    }

    pub(crate) async fn emit(&self, item: &ItemId, body: EventBody) {
        // A surface that is gone hears nothing more; the conversation ends when its handle is dropped.
        drop(self.sender.send(self.source.event(item, body)).await);
    }

    pub(crate) async fn emit_lone(&self, body: EventBody) {
        drop(self.sender.send(self.source.lone(body)).await);
    }

    /// For what may be lost: a surface that cannot keep up does not see every progress report.
    pub(crate) fn emit_if_room(&self, item: &ItemId, body: EventBody) {
        drop(self.sender.try_send(self.source.event(item, body)));
    }
}
