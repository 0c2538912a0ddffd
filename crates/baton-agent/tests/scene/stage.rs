//! A conversation that is kept: its session can be opened again, and what the model was sent is heard.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use baton_agent::{CompactionSettings, Conversation, Options, Permissions, RandomIds, SystemClock, TurnLimits};
use baton_core::{AgentRole, Block, EventSource, IdSource, Message, PermissionMode, Role, SessionId, Timestamp};
use baton_llm::script::Script;
use baton_llm::{Answer, Budget, Caps, Delta, Gate, LlmError, Provider, RehearsalProvider, Request, RetryPolicy};
use baton_session::{History, Sessions};
use baton_tools::{Executor, Reach, Registry, Workspace};
use tokio::sync::mpsc;

use super::Scene;

/// Said by a model that never comes to the end of its answer.
pub const HANGS: &str = "I think, and think";

/// Where conversations of one script take place.
pub struct Stage {
    pub dir: Arc<tempfile::TempDir>,
    pub script: String,
    pub mode: PermissionMode,
    pub is_attended: bool,
    pub compaction: CompactionSettings,
    pub limits: TurnLimits,
    pub state: PathBuf,
    ids: Arc<dyn IdSource>,
    sent: Arc<Mutex<Vec<Request>>>,
}

/// Plays a script, and remembers what it was asked.
struct Heard {
    script: RehearsalProvider,
    sent: Arc<Mutex<Vec<Request>>>,
}

#[async_trait]
impl Provider for Heard {
    async fn answer(&self, request: &Request, deltas: &mpsc::Sender<Delta>) -> Result<Answer, LlmError> {
        self.sent.lock().unwrap().push(request.clone());
        let answer = self.script.answer(request, deltas).await;
        if answer.as_ref().is_ok_and(|answer| answer.message.text().contains(HANGS)) {
            std::future::pending::<()>().await;
        }
        answer
    }

    fn place(&self, request: &Request) -> Option<serde_json::Value> {
        self.script.place(request)
    }

    fn is_live(&self) -> bool {
        false
    }
}

impl Stage {
    pub fn new(script: impl Into<String>) -> Self {
        // In memory where that can be: there are many of them, and each waits for its disk.
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        let dir = Arc::new(dir.unwrap());
        Self {
            state: dir.path().join("state"),
            dir,
            script: script.into(),
            mode: PermissionMode::Yolo,
            is_attended: false,
            compaction: CompactionSettings { auto: false, ..CompactionSettings::default() },
            limits: TurnLimits::default(),
            ids: Arc::new(RandomIds::default()),
            sent: Arc::default(),
        }
    }

    pub fn work(&self) -> PathBuf {
        self.dir.path().join("work")
    }

    pub fn sessions(&self) -> Sessions {
        Sessions::new(&self.state)
    }

    /// The history of the last session, as its file has it.
    pub fn history(&self) -> History {
        let sessions = self.sessions();
        let last = sessions.latest().unwrap().unwrap();
        sessions.load(&last).unwrap().history()
    }

    /// What the model was sent since this was last asked, in order, without requests for summaries.
    pub fn take_sent(&self) -> Vec<Request> {
        let all = std::mem::take(&mut *self.sent.lock().unwrap());
        all.into_iter().filter(|request| request.role == AgentRole::default()).collect()
    }

    /// The same with them.
    pub fn take_all_sent(&self) -> Vec<Request> {
        std::mem::take(&mut *self.sent.lock().unwrap())
    }

    /// A new session.
    pub fn begin(&self) -> Scene {
        let session = SessionId::fresh(&*self.ids);
        let log = self.sessions().create(session.clone(), &self.work(), Timestamp::now(), &*self.ids);
        self.start(session, log, None)
    }

    /// The last session goes on.
    pub fn resume(&self) -> Scene {
        let session = self.sessions().latest().unwrap().unwrap();
        let (log, loaded) = self.sessions().open(&session, Timestamp::now(), &*self.ids).unwrap();
        assert!(loaded.damage.is_empty() && loaded.missing == 0, "{:?}", loaded.damage);
        self.start(session, log, Some(loaded.history()))
    }

    fn start(&self, session: SessionId, log: baton_session::Log, history: Option<History>) -> Scene {
        std::fs::create_dir_all(self.work()).unwrap();
        let clock = Arc::new(SystemClock);
        let gate = Arc::new(Gate::new(RetryPolicy::default(), clock.clone()));
        let script = RehearsalProvider::new(Script::parse("test", &self.script).unwrap(), clock.clone());
        let provider = Arc::new(Heard { script, sent: self.sent.clone() });
        let model = gate.model("script/test".parse().unwrap(), None, provider);
        let reach = if self.mode == PermissionMode::Yolo { Reach::Anywhere } else { Reach::Inside };
        let workspace = Workspace::new(&self.work(), self.dir.path().join("outputs"), reach).unwrap();
        let (conversation, events) = Conversation::start(Options {
            source: EventSource::new(session, clock, self.ids.clone()),
            model,
            web_search: false,
            gate,
            executor: Executor::new(Registry::builtin(), Arc::new(workspace)),
            permissions: Permissions::of(self.mode),
            limits: self.limits.clone(),
            budgets: vec![Budget::new("session", Caps::default())],
            role: AgentRole::default(),
            opening: vec![Block::text("the facts")],
            notices: Vec::new(),
            answer_schema: None,
            is_attended: self.is_attended,
            compaction: self.compaction.clone(),
            session: Some(log),
            history,
        });
        Scene { conversation, events, dir: tempfile::tempdir().unwrap() }
    }
}

/// Ends a conversation, and waits until it has let go of its session.
pub async fn close(scene: Scene) {
    let Scene { conversation, mut events, .. } = scene;
    drop(conversation);
    while events.next().await.is_some() {}
}

/// Copies files as they are at this moment: what a process leaves that is killed now.
pub fn copy_all(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_all(&path, &target);
        } else {
            std::fs::copy(path, target).unwrap();
        }
    }
}

/// Whether every call is answered by the message after it, and every answer has its call.
#[track_caller]
pub fn assert_valid(messages: &[Message]) {
    let mut asked: Vec<String> = Vec::new();
    for message in messages {
        let results = message.content.iter().filter_map(|block| match block {
            Block::ToolResult(result) => Some(result.id.to_string()),
            _ => None,
        });
        assert_eq!(results.collect::<Vec<_>>(), asked, "{messages:#?}");
        asked = message.tool_uses().map(|call| call.id.to_string()).collect();
    }
    assert!(asked.is_empty(), "{messages:#?}");
    assert_eq!(messages.first().map(|first| first.role), Some(Role::User));
}

/// Whether a request goes on where another one ended.
#[track_caller]
pub fn assert_extends(later: &Request, earlier: &Request) {
    assert_eq!((&later.system, &later.tools), (&earlier.system, &earlier.tools));
    assert!(later.messages.starts_with(&earlier.messages), "{:#?}\nbefore: {:#?}", later.messages, earlier.messages);
}
