//! Telling: what happens during a model call becomes events, and what it costs is added up.

use baton_core::{EventBody, EventId, ItemId, Message, Role, StopReason, Usage};
use baton_llm::{CallEvent, Delta, Model, Search};

use crate::events::EventSink;
use crate::turn::Tally;

/// How many sources of a search are told.
const SOURCES_MAX: usize = 10;

/// Tells what happens during a call, and adds up what it costs.
pub(crate) struct Telling<'a> {
    events: &'a EventSink,
    model: &'a Model,
    tally: &'a mut Tally,
    item: ItemId,
    is_started: bool,
}

impl<'a> Telling<'a> {
    pub(crate) fn new(events: &'a EventSink, model: &'a Model, tally: &'a mut Tally) -> Self {
        Self { events, model, tally, item: events.new_item(), is_started: false }
    }

    pub(crate) async fn tell(&mut self, event: CallEvent) {
        match event {
            CallEvent::Delta(Delta::Text(text)) => self.delta(EventBody::MessageDelta { text }).await,
            CallEvent::Delta(Delta::Thinking(text)) => self.delta(EventBody::ThinkingDelta { text }).await,
            // The call is shown when it runs: until then nothing is known but its name.
            CallEvent::Delta(Delta::ToolCall { .. }) => self.start().await,
            CallEvent::Delta(Delta::Searched(search)) => {
                self.events.emit_lone(EventBody::Noticed { text: told(&search) }).await;
            }
            CallEvent::Broken { partial, usage } => self.broken(partial, usage).await,
            CallEvent::Parked(wait) => {
                let provider = &self.model.name.provider;
                let text = format!("{provider} asked for patience: waiting {:.1} s", wait.as_secs_f64());
                self.events.emit_lone(EventBody::Noticed { text }).await;
            }
            CallEvent::Retrying { again, until, tier, reason } => {
                let body = EventBody::Retrying {
                    attempt: again.attempt,
                    attempts_max: again.attempts_max,
                    delay_ms: u64::try_from(again.delay.as_millis()).unwrap_or(u64::MAX),
                    until,
                    tier,
                    reason,
                };
                self.events.emit_lone(body).await;
            }
        }
    }

    async fn start(&mut self) {
        if !std::mem::replace(&mut self.is_started, true) {
            self.events.emit(&self.item, EventBody::MessageStarted).await;
        }
    }

    async fn delta(&mut self, body: EventBody) {
        self.start().await;
        self.events.emit(&self.item, body).await;
    }

    pub(crate) async fn end(&mut self, message: Message, stop: Option<StopReason>) -> EventId {
        self.start().await;
        self.events.emit(&self.item, EventBody::MessageEnded { message, stop }).await
    }

    /// An answer that does not come to its end is told and paid for, too; the next is another one.
    pub(crate) async fn broken(&mut self, partial: Option<Message>, usage: Usage) {
        if self.is_started || partial.is_some() {
            let message = partial.unwrap_or(Message { role: Role::Assistant, content: Vec::new() });
            self.end(message, None).await;
            (self.item, self.is_started) = (self.events.new_item(), false);
        }
        if usage != Usage::default() {
            self.charge(usage).await;
        }
    }

    pub(crate) async fn charge(&mut self, usage: Usage) {
        let cost_usd = self.model.price().map(|price| price.of(&usage));
        self.tally.usage += usage;
        self.tally.cost += cost_usd.unwrap_or_default();
        let model = self.model.name.to_string();
        self.events.emit_lone(EventBody::UsageReported { model, usage, cost_usd }).await;
    }
}

/// A search of the web that the provider made, for people.
fn told(search: &Search) -> String {
    let what =
        search.query.as_ref().map_or("the answer cites".to_owned(), |query| format!("searched the web for “{query}”"));
    let what = search.problem.as_ref().map_or(what.clone(), |problem| format!("{what}: {problem}"));
    let sources = search.sources.iter().take(SOURCES_MAX).map(|source| format!("{} {}", source.title, source.url));
    let more = search.sources.len().saturating_sub(SOURCES_MAX);
    let more = (more > 0).then(|| format!("and {more} more"));
    let lines = sources.chain(more).map(|line| format!("\n  {}", line.trim_start()));
    std::iter::once(what).chain(lines).collect()
}
