//! Hosting: one agent works on one order, in a conversation that goes on where it was.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use baton_agent::{Conversation, Options};
use baton_core::{
    AgentRole, Area, Block, Event, EventBody, Fault, Op, Role, SessionId, Tier, Tokens, ToolResult, TurnReason, Usd,
};
use baton_llm::Past;
use baton_session::History;
use baton_tools::PUT_BACK;
use baton_workflow::{EffectId, Fields, RunId};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::brief::{HELP, SUBMIT};
use crate::handing_in::{Line, Saying, Told};
use crate::orders::{Order, Orders};
use crate::report::Reports;
use crate::stage::{Part, Stage};

/// How long an agent that is not needed any more may take to end what it started.
const END_MAX: Duration = Duration::from_secs(15);

/// Facts of a tool's outcome by which it is known that an agent tried more than it may: by whom it was stopped.
const REFUSALS: [&str; 4] = ["refused", "kept_out", "put_back", "leftovers"];

/// What the conductor hears from its agents.
pub(crate) enum Heard {
    /// An agent says something, and used this for it.
    Told { run: RunId, told: Told, used: Used },
    /// An agent used something.
    Spent { run: RunId, effect: EffectId, used: Used },
    /// An agent tried what it may not do. It is noted when the sender is dropped.
    Refused { run: RunId, effect: EffectId, text: String, noted: oneshot::Sender<()> },
}

/// What an agent used.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Used {
    pub(crate) model: Option<String>,
    pub(crate) tokens_in: Tokens,
    pub(crate) tokens_out: Tokens,
    pub(crate) usd: Usd,
}

impl Used {
    pub(crate) fn tokens(&self) -> Tokens {
        self.tokens_in.saturating_add(self.tokens_out)
    }

    pub(crate) fn is_nothing(&self) -> bool {
        self.tokens() == 0 && self.usd == Usd::default()
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.model = other.model.clone().or(self.model.take());
        self.tokens_in = self.tokens_in.saturating_add(other.tokens_in);
        self.tokens_out = self.tokens_out.saturating_add(other.tokens_out);
        self.usd += other.usd;
    }
}

/// What an agent used and the run does not know yet. Whatever an answer cost is told at once, so that a crash forgets nothing;
/// but if something is handed in with it, both are told together: work that was handed in counts, also if it was dear.
#[derive(Default)]
struct Spending {
    used: Used,
    hands_in: bool,
}

/// One order to an agent.
pub(crate) struct Hosting {
    pub(crate) run: RunId,
    /// The dispatch or the reminder.
    pub(crate) order: EffectId,
    /// The dispatch.
    pub(crate) dispatch: EffectId,
    /// What it hands in; none if the end of its turn counts.
    pub(crate) fields: Option<Fields>,
    /// What it is told, and what if it was told before and stopped.
    pub(crate) prompt: String,
    pub(crate) prompt_again: String,
    pub(crate) stage: Arc<dyn Stage>,
    pub(crate) orders: Arc<Mutex<Orders>>,
    pub(crate) heard: mpsc::Sender<Heard>,
    pub(crate) reports: Reports,
    pub(crate) cancel: CancellationToken,
}

/// How an order ended.
pub(crate) struct Played {
    pub(crate) reason: TurnReason,
    pub(crate) fault: Option<Fault>,
}

impl Played {
    /// It was not needed any more before it began.
    pub(crate) fn cancelled() -> Self {
        Self { reason: TurnReason::Cancelled, fault: None }
    }
}

impl Hosting {
    /// Lets the agent work until its turn ends.
    pub(crate) async fn play(self, part: Part) -> Played {
        let failed = |fault: Fault| Played { reason: TurnReason::Error, fault: Some(fault) };
        let (stage, session, role) = (Arc::clone(&self.stage), part.session.clone(), part.role.clone());
        let opened = tokio::task::spawn_blocking(move || stage.conversation(&part)).await;
        let mut options = match opened.unwrap_or_else(|error| Err(Fault::internal(error.to_string()))) {
            Ok(options) => options,
            Err(fault) => return failed(fault),
        };
        options.role = AgentRole::new(role.as_str());
        let (ear, mut said) = mpsc::channel(4);
        let line = Line { dispatch: self.dispatch.clone(), ear };
        if let Some(fields) = &self.fields {
            options.executor = options.executor.with_tool(Saying::submit_evidence(fields, line.clone()));
        }
        options.executor = options.executor.with_tool(Saying::request_help(line));
        let was_told = match self.take_place(&session, &mut options) {
            Ok(was_told) => was_told,
            Err(error) => {
                let message = format!("the clone cannot be written: {error}");
                return failed(Fault::new(Area::Workspace, Tier::UserFixable, message));
            }
        };
        if let Some(answers) = was_told
            && options.history.as_ref().is_some_and(|history| history.is_resting && answers_in(history) > answers)
        {
            // Its turn had ended when Baton was stopped.
            return Played { reason: TurnReason::Done, fault: None };
        }
        if let (None, Some(history)) = (was_told, &mut options.history) {
            // New work, told in full: what was done for other work may be done again for this.
            history.carried.ran.clear();
        }
        let prompt = if was_told.is_some() { &self.prompt_again } else { &self.prompt };
        let prompt = options.executor.workspace().redactor().redact_str(prompt).into_owned();
        let (conversation, mut events) = Conversation::start(options);
        conversation.submit(Op::Prompt { content: vec![Block::text(prompt)] }).await;
        let mut conversation = Some(conversation);
        let mut played = Played::cancelled();
        let mut spending = Spending::default();
        let mut is_given_up = None;
        loop {
            tokio::select! {
                // What was used for an answer comes before what is said in it.
                biased;
                () = self.cancel.cancelled(), if conversation.is_some() => {
                    conversation = None;
                    is_given_up = Some(Instant::now() + END_MAX);
                }
                event = events.next() => {
                    let Some(event) = event else { break };
                    let is_over = matches!(event.body, EventBody::TurnEnded { .. });
                    self.reports.agent(&self.run, &role, event.clone());
                    self.hear(&event, &mut played, &mut spending).await;
                    if is_over {
                        // What it kept running ends with it.
                        conversation = None;
                    }
                    if is_over || !spending.hands_in {
                        self.spend(&mut spending).await;
                    }
                }
                Some(told) = said.recv() => {
                    let (run, used) = (self.run.clone(), std::mem::take(&mut spending).used);
                    drop(self.heard.send(Heard::Told { run, told, used }).await);
                }
                () = async { tokio::time::sleep_until(is_given_up.unwrap_or_else(Instant::now)).await }, if is_given_up.is_some() => break,
            }
        }
        self.spend(&mut spending).await;
        played
    }

    async fn hear(&self, event: &Event, played: &mut Played, spending: &mut Spending) {
        match &event.body {
            EventBody::MessageEnded { message, .. } => {
                spending.hands_in = message.tool_uses().any(|call| call.tool == SUBMIT);
            }
            EventBody::UsageReported { model, usage, cost_usd } => spending.used.add(&Used {
                model: Some(model.clone()),
                tokens_in: usage.total_tokens().saturating_sub(usage.output_tokens),
                tokens_out: usage.output_tokens,
                usd: cost_usd.unwrap_or_default(),
            }),
            EventBody::Failed(fault) => played.fault = Some(fault.clone()),
            EventBody::TurnEnded { reason, .. } => played.reason = *reason,
            EventBody::ToolEnded { tool, output, meta, .. }
                if REFUSALS.iter().any(|refusal| meta.contains_key(*refusal)) =>
            {
                let text = refused_in_words(tool, output);
                let (run, effect, (noted, is_noted)) = (self.run.clone(), self.dispatch.clone(), oneshot::channel());
                drop(self.heard.send(Heard::Refused { run, effect, text, noted }).await);
                // So that it is told before what the agent does next.
                drop(is_noted.await);
            }
            _ => {}
        }
    }

    async fn spend(&self, spending: &mut Spending) {
        let used = std::mem::take(&mut spending.used);
        if !used.is_nothing() {
            drop(self.heard.send(Heard::Spent { run: self.run.clone(), effect: self.dispatch.clone(), used }).await);
        }
    }

    /// Notes that the agent is told this, and lets its script go on where the role was, whoever played it. How many answers
    /// there were when it was told before, if it was.
    fn take_place(&self, session: &SessionId, options: &mut Options) -> std::io::Result<Option<usize>> {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        let role = options.role.clone();
        let history = options.history.get_or_insert_default();
        if let Some(order) = orders.of(role.as_str()).filter(|order| order.effect == self.order).cloned() {
            if !history.places.contains_key(role.as_str()) {
                history.counted = order.answers;
                history.places.extend(order.place.map(|place| (role.to_string(), place)));
            }
            return Ok(Some(order.answers));
        }
        let answers = answers_in(history);
        // Before anybody goes on: how far scripts came in this conversation, and how far this role's came in another.
        let mut unfinished = orders.told(session);
        let elsewhere = orders.of(role.as_str()).filter(|order| order.session != *session && !order.is_over);
        unfinished.extend(elsewhere.map(|order| (role.to_string(), order.clone())));
        for (role, order) in unfinished {
            let other = if order.session == *session { None } else { self.stage.history(&order.session) };
            let Some(mut history) = other.or_else(|| options.history.clone()) else { continue };
            hand_in_was_heard(&mut history);
            let past = match history.places.get(&role) {
                Some(place) => Past { place: Some(place.clone()), counted: history.counted },
                None => Past { place: order.place.clone(), counted: order.answers },
            };
            let place = options.place(&history, &AgentRole::new(role.clone()), past);
            orders.tell(&role, Order { place, is_over: true, ..order })?;
        }
        let place = orders.of(role.as_str()).and_then(|order| order.place.clone());
        let history = options.history.get_or_insert_default();
        history.counted = answers;
        history.places.remove(role.as_str());
        history.places.extend(place.clone().map(|place| (role.to_string(), place)));
        let order = Order { effect: self.order.clone(), session: session.clone(), place, answers, is_over: false };
        orders.tell(role.as_str(), order)?;
        Ok(None)
    }
}

fn answers_in(history: &History) -> usize {
    history.messages.iter().filter(|message| message.role == Role::Assistant).count()
}

/// Baton may have been stopped between taking what an agent handed in and telling it so. Whoever goes on with something else
/// has been heard.
fn hand_in_was_heard(history: &mut History) {
    let [.., said, answers] = history.messages.as_mut_slice() else { return };
    let handed_in: Vec<_> = said
        .tool_uses()
        .filter(|call| [SUBMIT, HELP].contains(&call.tool.as_str()))
        .map(|call| call.id.clone())
        .collect();
    for block in &mut answers.content {
        if let Block::ToolResult(result) = block
            && result.was_stopped()
            && handed_in.contains(&result.id)
        {
            *result = ToolResult::ok(result.id.clone(), "taken");
        }
    }
}

/// What was refused, without the advice to the agent.
fn refused_in_words(tool: &str, output: &str) -> String {
    const SHOWN: usize = 400;
    let why = output.strip_prefix(&format!("refused: `{tool}` was not run: ")).unwrap_or(output);
    let why = why.split(". Leave it").next().unwrap_or(why);
    // If something was put back, that is what counts, whatever the command has written.
    let put_back = why.rsplit_once(PUT_BACK).and_then(|(_, rest)| rest.split_once(']'));
    let why = put_back.map_or_else(|| why.to_owned(), |(rest, _)| format!("{PUT_BACK}{rest}"));
    format!("{tool}: {}", why.chars().take(SHOWN).collect::<String>())
}

/// Where the orders of a clone are kept.
pub(crate) fn orders_of(dir: &Path) -> Arc<Mutex<Orders>> {
    Arc::new(Mutex::new(Orders::read(dir)))
}
