//! Conducting in this process: the run goes on until it rests, is spoken to over a socket, and is shown.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use baton_agent::SystemClock;
use baton_conductor::{ConductError, Conductor, Report, Reports, Request, Rest, Said, Stage};
use baton_core::{Area, Clock, Fault, Tier};
use baton_headless::Signals;
use baton_store::{Journal, Store};
use baton_workflow::{End, Phase, RunId};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::choosing::find;
use super::presence::Presence;
use super::show::{Show, Style};
use super::{database, socket, unusable};
use crate::exit::Exit;
use crate::setup::Setup;
use crate::staging::Staging;

/// How long a line over the socket may be.
const SAID_BYTES_MAX: u64 = 16 << 20;

/// What is said over the socket, one line each way.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Spoken {
    pub(super) run: RunId,
    #[serde(flatten)]
    pub(super) said: Said,
}

#[derive(Debug, Serialize, Deserialize)]
struct Answered {
    error: Option<String>,
}

/// A process that conducts runs of one project.
pub(super) struct Conducting {
    pub(super) journal: Arc<dyn Journal>,
    pub(super) stage: Arc<Staging>,
    pub(super) reports: Reports,
    pub(super) clones: PathBuf,
    pub(super) repository: PathBuf,
    shown: mpsc::UnboundedReceiver<Report>,
    database: PathBuf,
    socket: PathBuf,
    style: Style,
    is_passing: bool,
}

impl Conducting {
    pub(super) fn new(setup: Setup, store: Store, repository: PathBuf, style: Style) -> Result<Self, Fault> {
        let (clones, socket, database) = (setup.state_dir()?.join("clones"), socket(&setup)?, database(&setup)?);
        let (sender, shown) = mpsc::unbounded_channel();
        Ok(Self {
            journal: Arc::new(store),
            stage: Arc::new(Staging::new(setup)),
            reports: Reports(sender),
            clones,
            repository,
            shown,
            database,
            socket,
            style,
            is_passing: false,
        })
    }

    /// Says whether `baton run resume` in the person's project cannot find the run, so that nobody is sent there.
    pub(super) fn passing(self, is_passing: bool) -> Self {
        Self { is_passing, ..self }
    }

    /// A conductor of these runs.
    pub(super) fn conductor(&self) -> Conductor {
        let stage: Arc<dyn Stage> = Arc::clone(&self.stage) as Arc<dyn Stage>;
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        Conductor::new(
            Arc::clone(&self.journal),
            stage,
            clock,
            self.reports.clone(),
            self.clones.clone(),
            self.repository.clone(),
        )
    }

    /// Works on a run until it rests; the exit code.
    pub(super) async fn go_on<F, W>(self, root: &RunId, begin: F) -> Result<Exit, Fault>
    where
        F: FnOnce(Conductor, Reports, CancellationToken) -> W,
        W: Future<Output = Result<Conductor, ConductError>>,
    {
        let stop = CancellationToken::new();
        let mut signals = Signals::new().map_err(|error| Fault::internal(format!("cannot hear signals: {error}")))?;
        let conductor = self.conductor();
        let Self { reports, shown, database, socket, style, is_passing, journal, .. } = self;
        let announced = Presence::announce(&database, root);
        let showing = tokio::task::spawn_blocking(move || Show::new(style).follow(shown));
        let errors = reports.clone();
        let (sender, mut requests) = mpsc::channel(16);
        let listening = Listening::start(&socket, sender, Arc::clone(&journal))?;
        let conducting = async {
            let mut conductor = begin(conductor, reports, stop.clone()).await?;
            let rest = conductor.conduct(root, &mut requests, &stop).await?;
            let phase = conductor.run(root).map(|run| run.phase.clone());
            Ok::<_, ConductError>((rest, phase))
        };
        tokio::pin!(conducting);
        let mut signal = None;
        let ended = loop {
            tokio::select! {
                ended = &mut conducting => break ended,
                caught = signals.next() => {
                    if signal.replace(caught).is_some() {
                        baton_tools::kill_all_now();
                        baton_conductor::end_git();
                        drop(std::fs::remove_file(&socket));
                        return Ok(Exit::Signal(caught));
                    }
                    stop.cancel();
                }
            }
        };
        drop((listening, announced));
        let failed = |error: ConductError| match error {
            ConductError::Store(error) => unusable(&error),
            ConductError::Fault(fault) => fault,
            other => Fault::input(other.to_string()),
        };
        let outcome = ended.map_err(failed);
        if let (Err(fault), None) = (&outcome, signal) {
            errors.failed(root, SystemClock.now(), fault);
        }
        drop(errors);
        // Everything that was told is shown before the last word, unless a signal says not to wait for a reader that sleeps.
        tokio::select! {
            shown = showing => drop(shown),
            caught = signals.next() => return Ok(Exit::Signal(caught)),
        }
        let (rest, phase) = match (outcome, signal) {
            (Err(_), Some(signal)) => return Ok(Exit::Signal(signal)),
            (outcome, _) => outcome?,
        };
        Ok(match (rest, phase, signal) {
            (Rest::Interrupted, _, Some(signal)) => {
                if !is_passing {
                    anstream::eprintln!("stopped; nothing is lost. Go on with: baton run resume {root}");
                }
                Exit::Signal(signal)
            }
            (Rest::Interrupted, ..) => Exit::Internal,
            (Rest::Parked, ..) => Exit::Cap,
            (Rest::Ended, Some(Phase::Ended { end: End::Done { .. } }), _) => Exit::Done,
            (Rest::Waiting, ..) | (Rest::Ended, Some(Phase::Ended { end: End::Escalated { .. } }), _) => {
                Exit::NeedsPerson
            }
            (Rest::Ended, ..) => Exit::Failed,
        })
    }
}

/// A socket at which others speak to the runs of this process. It goes when this goes.
struct Listening {
    file: PathBuf,
    task: tokio::task::JoinHandle<()>,
}

impl Listening {
    fn start(file: &Path, requests: mpsc::Sender<Request>, journal: Arc<dyn Journal>) -> Result<Self, Fault> {
        let unusable = |error: io::Error| {
            Fault::new(Area::Workspace, Tier::UserFixable, format!("cannot listen at {}: {error}", file.display()))
        };
        if let Some(dir) = file.parent() {
            std::fs::create_dir_all(dir).map_err(unusable)?;
        }
        // Whoever left it is gone: the journal is ours.
        drop(std::fs::remove_file(file));
        let listener = UnixListener::bind(file).map_err(unusable)?;
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).map_err(unusable)?;
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, requests.clone(), Arc::clone(&journal)));
            }
        });
        Ok(Self { file: file.to_owned(), task })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.task.abort();
        drop(std::fs::remove_file(&self.file));
    }
}

/// Answers one who speaks.
async fn answer(stream: UnixStream, requests: mpsc::Sender<Request>, journal: Arc<dyn Journal>) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    if (&mut stream).take(SAID_BYTES_MAX).read_line(&mut line).await.is_err() {
        return;
    }
    let error = match serde_json::from_str::<Spoken>(&line) {
        Err(error) => Some(format!("not understood: {error}")),
        Ok(Spoken { run, said }) => match find(&*journal, run.as_str()) {
            Err(fault) => Some(fault.to_string()),
            Ok(row) => {
                let (reply, answer) = oneshot::channel();
                drop(requests.send(Request { run: row.id, said, reply }).await);
                answer.await.unwrap_or_else(|_| Err("the run rests".to_owned())).err()
            }
        },
    };
    let Ok(mut text) = serde_json::to_string(&Answered { error }) else { return };
    text.push('\n');
    drop(stream.get_mut().write_all(text.as_bytes()).await);
}

/// Speaks to the process that conducts. One that does not answer is not waited for.
pub(super) async fn speak(socket: &Path, spoken: &Spoken) -> Result<(), Fault> {
    /// What is handed in is looked at first, which takes a while in a large tree.
    const ANSWER_MAX: Duration = Duration::from_mins(2);
    let silent = |_| {
        let message = "the Baton that conducts it does not answer";
        Fault::new(Area::Workspace, Tier::UserFixable, message).hint("is it suspended? `baton run watch` shows the run")
    };
    tokio::time::timeout(ANSWER_MAX, spoken_to(socket, spoken)).await.map_err(silent)?
}

async fn spoken_to(socket: &Path, spoken: &Spoken) -> Result<(), Fault> {
    let unheard = |error: io::Error| {
        Fault::new(
            Area::Workspace,
            Tier::UserFixable,
            format!("another Baton has the journal, and cannot be spoken to: {error}"),
        )
        .hint("wait until it has ended")
    };
    let stream = UnixStream::connect(socket).await.map_err(unheard)?;
    let mut stream = BufReader::new(stream);
    let mut line = serde_json::to_string(spoken).map_err(|error| Fault::internal(error.to_string()))?;
    line.push('\n');
    stream.get_mut().write_all(line.as_bytes()).await.map_err(unheard)?;
    let mut answer = String::new();
    stream.read_line(&mut answer).await.map_err(unheard)?;
    let answered: Answered = serde_json::from_str(&answer).unwrap_or(Answered { error: None });
    match answered.error {
        Some(error) => Err(Fault::input(error)),
        None => Ok(()),
    }
}
