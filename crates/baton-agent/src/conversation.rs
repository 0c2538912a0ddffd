//! The conversation: owns one agent's state, takes ops one after another, and runs turns.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;

use baton_core::{AgentRole, Block, Event, EventBody, EventSource, Message, Op, PermissionMode};
use baton_guard::sandbox::Level;
use baton_llm::{Budget, Gate, Model, Past, Request};
use baton_session::{History, Log};
use baton_tools::{Confinement, Executor, Typed};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::answer_schema::AnswerSchema;
use crate::approvals::Approvals;
use crate::calls::Watch;
use crate::compacting::{CompactionSettings, Measured};
use crate::events::EventSink;
use crate::keeping::Keeping;
use crate::limits::TurnLimits;
use crate::permission::{Guard, Permissions, RuleNews};
use crate::planning::Planning;
use crate::prompt::SYSTEM_PROMPT;
use crate::recalling::Recalling;
use crate::turn::Agent;

/// How many events may wait for a slow surface before the agent waits for it.
const EVENTS_WAITING_MAX: usize = 256;
/// How many ops may wait; surfaces send them by hand, so this is never reached in earnest.
const OPS_WAITING_MAX: usize = 64;

/// What a conversation is made of. It stays the same for its whole life.
pub struct Options {
    /// Stamps its events; its session is this conversation.
    pub source: EventSource,
    /// Who answers.
    pub model: Model,
    /// Whether the provider may search the web by itself.
    pub web_search: bool,
    /// What every call passes.
    pub gate: Arc<Gate>,
    /// The tools and where they work.
    pub executor: Executor,
    /// What the agent may do.
    pub permissions: Permissions,
    /// What ends a turn.
    pub limits: TurnLimits,
    /// What it may spend, on every level.
    pub budgets: Vec<Budget>,
    /// The role it plays.
    pub role: AgentRole,
    /// What stands in front of the person's first words.
    pub opening: Vec<Block>,
    /// What the person should know before the work begins.
    pub notices: Vec<String>,
    /// The form that final answers must have.
    pub answer_schema: Option<AnswerSchema>,
    /// Whether a person is there to be asked.
    pub is_attended: bool,
    /// When its history is replaced by a summary.
    pub compaction: CompactionSettings,
    /// Where it is kept.
    pub session: Option<Log>,
    /// What was said before, if it is one that goes on.
    pub history: Option<History>,
}

impl Options {
    /// Where the model's provider is after a history, if it keeps count: for a role that was at `past`.
    pub fn place(&self, history: &History, role: &AgentRole, past: Past) -> Option<serde_json::Value> {
        let request = Request { role: role.clone(), past, ..first_request(self, history.clone()) };
        self.model.place(&request)
    }
}

/// A handle to a running conversation. When it is dropped, the turn is cancelled and the conversation ends; what the agent
/// keeps running in the background ends with it.
pub struct Conversation {
    ops: mpsc::Sender<Op>,
}

/// The events of a conversation, in order.
pub struct Events(mpsc::Receiver<Event>);

impl Events {
    /// The next event; `None` when the conversation has ended and nothing runs any more that should not.
    pub async fn next(&mut self) -> Option<Event> {
        self.0.recv().await
    }
}

impl Conversation {
    /// Starts a conversation on the current runtime.
    pub fn start(options: Options) -> (Self, Events) {
        let (ops, inbox) = mpsc::channel(OPS_WAITING_MAX);
        let (sender, events) = mpsc::channel(EVENTS_WAITING_MAX);
        tokio::spawn(run(options, inbox, sender));
        (Self { ops }, Events(events))
    }

    /// Says something to the conversation. The outcome is seen on its events.
    pub async fn submit(&self, op: Op) {
        // It ends only after this handle is gone, so there is always somebody to listen.
        drop(self.ops.send(op).await);
    }
}

/// What the person says to a running turn, until it is delivered.
#[derive(Default)]
pub(crate) struct Steering(Mutex<VecDeque<Vec<Block>>>);

impl Steering {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    pub(crate) fn take(&self) -> Vec<Block> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).drain(..).flatten().collect()
    }

    fn push(&self, content: Vec<Block>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(content);
    }
}

/// What a conversation does next.
enum Work {
    /// A turn, with what the person said.
    Turn(Vec<Block>),
    /// A compaction, with what it should dwell on.
    Compact(Option<String>),
}

/// Takes ops until the handle is gone. Ops that arrive during a turn are heard at once.
async fn run(mut options: Options, mut inbox: mpsc::Receiver<Op>, sender: mpsc::Sender<Event>) {
    let mut history = options.history.take().unwrap_or_default();
    if let Some(log) = &options.session {
        options.executor = options.executor.with_tool(Typed::new(Recalling::new(log.archive())));
    }
    let keeping = Arc::new(Keeping::new(options.session.take(), history.carried.clone()));
    let redactor = options.executor.workspace().redactor().clone();
    let events = EventSink::new(options.source.clone(), sender, redactor, keeping);
    let approvals = Arc::new(Approvals::new(events.clone(), options.is_attended));
    let mode = options.permissions.mode;
    let Permissions { rules, mut news, granted, record, rule_book, plans, .. } =
        std::mem::replace(&mut options.permissions, Permissions::of(mode));
    let is_sandboxed = sandbox(&options.executor) != Level::None;
    let confinement = options.executor.workspace().confinement();
    let hosts = confinement.map_or_else(Vec::new, |confinement| confinement.reachable().to_vec());
    let guard = Arc::new(Guard::new(mode, rules, is_sandboxed, rule_book).granting(granted).reaching(hosts));
    // What was allowed for this session still is.
    guard.allow_rules(&history.carried.allowed);
    if let (PermissionMode::Plan, Some(plans)) = (mode, plans) {
        let planning = Planning::new(guard.clone(), approvals.clone(), record.clone(), events.clone(), plans);
        options.executor = options.executor.with_tool(Typed::new(planning));
    }
    info!(session = %options.source.session(), model = %options.model.name, %mode, "session started");
    events.emit_lone(session_started(&options)).await;
    let unknown = (!options.model.is_known).then(|| {
        format!("{} is not in the catalogue: default limits apply and its price is not known", options.model.name)
    });
    for text in options.notices.iter().cloned().chain(unknown) {
        events.emit_lone(EventBody::Noticed { text }).await;
    }
    let background = options.executor.workspace().background().clone();
    let mut watch = Watch::default();
    watch.lost_sight(&history.carried);
    let mut agent = Agent {
        opening: unsaid(options.opening.clone(), &history.messages),
        context: std::mem::take(&mut options.opening),
        began: std::mem::take(&mut history.began),
        places: history.places.clone(),
        measured: Measured::default(),
        compaction: options.compaction.clone(),
        request: first_request(&options, history),
        events,
        model: options.model,
        gate: options.gate,
        executor: options.executor.with_person(approvals.clone()),
        guard,
        record,
        limits: options.limits,
        budgets: options.budgets,
        answer_schema: options.answer_schema,
        approvals: approvals.clone(),
        watch: Mutex::new(watch),
    };
    let mut waiting: VecDeque<Work> = VecDeque::new();
    loop {
        let work = match waiting.pop_front() {
            Some(work) => work,
            None => match inbox.recv().await {
                Some(Op::Prompt { content } | Op::Steer { content }) => Work::Turn(content),
                Some(Op::Compact { focus }) => Work::Compact(focus),
                // There is nothing to cancel, and nothing was asked.
                Some(Op::Cancel | Op::Answer { .. }) => continue,
                None => break,
            },
        };
        news = hear(news, &agent).await;
        let (cancel, steering) = (CancellationToken::new(), Steering::default());
        let working = async {
            match work {
                Work::Turn(content) => agent.turn(content, &cancel, &steering).await,
                Work::Compact(focus) => agent.compact_now(focus.as_deref(), &cancel).await,
            }
        };
        let ending = background.end();
        tokio::pin!(working, ending);
        let (mut is_open, mut has_ended) = (true, false);
        loop {
            tokio::select! {
                () = &mut working => break,
                op = inbox.recv(), if is_open => match op {
                    Some(Op::Steer { content }) => steering.push(content),
                    Some(Op::Prompt { content }) => waiting.push_back(Work::Turn(content)),
                    Some(Op::Compact { focus }) => waiting.push_back(Work::Compact(focus)),
                    Some(Op::Cancel) => {
                        cancel.cancel();
                        waiting.clear();
                    }
                    Some(Op::Answer { approval, answer }) => approvals.answer(&approval, answer),
                    None => {
                        is_open = false;
                        cancel.cancel();
                    }
                },
                // The session ends with this turn, and both need their time.
                () = &mut ending, if !is_open && !has_ended => has_ended = true,
            }
        }
        let unheard = steering.take();
        if !unheard.is_empty() && !cancel.is_cancelled() {
            waiting.push_front(Work::Turn(unheard));
        }
    }
    background.end().await;
}

/// Lets rules count that have changed since the last turn.
async fn hear(news: Option<Box<dyn RuleNews>>, agent: &Agent) -> Option<Box<dyn RuleNews>> {
    let mut news = news?;
    let looking = tokio::task::spawn_blocking(move || {
        let found = news.look();
        (news, found)
    });
    let (news, found) = looking.await.ok()?;
    let text = match found {
        None => return Some(news),
        Some(Ok(rules)) => {
            agent.executor.workspace().guard().replace_rules(rules.clone());
            agent.guard.replace(rules);
            "the settings have changed: their permission rules count from here on".to_owned()
        }
        Some(Err(why)) => format!("the settings have changed, but the permission rules stay as they were: {why}"),
    };
    agent.events.emit_lone(EventBody::Noticed { text }).await;
    Some(news)
}

fn session_started(options: &Options) -> EventBody {
    EventBody::SessionStarted {
        cwd: options.executor.workspace().cwd().display().to_string(),
        model: options.model.name.to_string(),
        mode: options.permissions.mode,
        sandbox: sandbox(&options.executor).to_string(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        tools: options.executor.registry().names().map(str::to_owned).collect(),
    }
}

/// What keeps the commands of these tools in.
fn sandbox(executor: &Executor) -> Level {
    executor.workspace().confinement().map_or(Level::None, Confinement::level)
}

/// What of the facts the model has not been told yet, word by word.
fn unsaid(opening: Vec<Block>, messages: &[Message]) -> Vec<Block> {
    let is_said = |block: &Block| messages.iter().any(|message| message.content.contains(block));
    opening.into_iter().filter(|block| !is_said(block)).collect()
}

/// The request that grows with the conversation: its system prompt and tools never change.
fn first_request(options: &Options, history: History) -> Request {
    Request {
        model: options.model.name.name.clone(),
        system: SYSTEM_PROMPT.to_owned(),
        tools: options.executor.registry().specs(),
        messages: history.messages,
        output_max: options.model.output_max(0),
        effort: options.model.effort(),
        web_search: options.web_search,
        abilities: options.model.abilities(),
        cache_key: options.source.session().to_string(),
        role: options.role.clone(),
        failures: history.failures,
        past: Past { place: history.places.get(options.role.as_str()).cloned(), counted: history.counted },
    }
}
