//! The one thread that writes. What waits while it waits for the disk is written with the next transaction, together; what was
//! only used or noted does not wait for the disk at all, and lasts with what comes next.

use std::sync::mpsc;
use std::thread::JoinHandle;

use baton_workflow::{EffectId, EventBody};
use rusqlite::{Connection, OptionalExtension, Savepoint, TransactionBehavior};

use crate::blobs;
use crate::error::StoreError;
use crate::journal::{Commit, Settled};

/// Something to write.
pub(crate) enum Job {
    Commits(Vec<Commit>),
    Begin(EffectId),
    Settle(Vec<Settled>),
    Blob(String, Vec<u8>),
}

struct Order {
    job: Job,
    reply: mpsc::SyncSender<Result<(), StoreError>>,
}

/// How many jobs one transaction takes.
const TOGETHER_MAX: usize = 256;

/// A handle to the thread. When it is dropped, the thread ends after what was ordered.
pub(crate) struct Writer {
    orders: Option<mpsc::Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(crate) fn start(db: Connection) -> std::io::Result<Self> {
        let (orders, inbox) = mpsc::channel();
        let thread = std::thread::Builder::new().name("journal".to_owned()).spawn(move || run(db, &inbox))?;
        Ok(Self { orders: Some(orders), thread: Some(thread) })
    }

    /// Writes something; it lasts when this returns, if something depends on it.
    pub(crate) fn write(&self, job: Job) -> Result<(), StoreError> {
        let (reply, answer) = mpsc::sync_channel(1);
        let orders = self.orders.as_ref().ok_or(StoreError::Closed)?;
        orders.send(Order { job, reply }).map_err(|_| StoreError::Closed)?;
        answer.recv().map_err(|_| StoreError::Closed)?
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // It has nothing to say: every job was answered.
            drop(thread.join());
        }
    }
}

fn run(mut db: Connection, inbox: &mpsc::Receiver<Order>) {
    while let Ok(first) = inbox.recv() {
        let mut orders = vec![first];
        orders.extend(inbox.try_iter().take(TOGETHER_MAX - 1));
        let waits = orders.iter().any(|order| has_to_last(&order.job));
        if let Err(error) = db.pragma_update(None, "synchronous", if waits { "FULL" } else { "NORMAL" }) {
            for (reply, outcome) in refuse_all(orders.into_iter().map(|order| order.reply), &error) {
                drop(reply.send(outcome));
            }
            continue;
        }
        for (reply, outcome) in together(&mut db, orders) {
            // Whoever ordered it may be gone.
            drop(reply.send(outcome));
        }
    }
}

/// Whether something depends on it: a killed process loses nothing either way, a power failure may take the rest.
fn has_to_last(job: &Job) -> bool {
    let is_passing = |commit: &Commit| {
        matches!(commit.event.body, EventBody::Spent { .. } | EventBody::Noted { .. })
            && commit.owes.is_empty()
            && commit.settles.is_empty()
    };
    !matches!(job, Job::Commits(commits) if commits.iter().all(is_passing))
}

type Replies = Vec<(mpsc::SyncSender<Result<(), StoreError>>, Result<(), StoreError>)>;

/// Writes all of it in one transaction. A job that cannot be written takes nothing else with it.
fn together(db: &mut Connection, orders: Vec<Order>) -> Replies {
    let mut transaction = match db.transaction_with_behavior(TransactionBehavior::Immediate) {
        Ok(transaction) => transaction,
        Err(error) => return refuse_all(orders.into_iter().map(|order| order.reply), &error),
    };
    let mut replies = Replies::new();
    for Order { job, reply } in orders {
        let outcome = transaction.savepoint().map_err(StoreError::from).and_then(|savepoint| {
            write(&savepoint, &job)?;
            Ok(savepoint.commit()?)
        });
        replies.push((reply, outcome));
    }
    match transaction.commit() {
        Ok(()) => replies,
        Err(error) => refuse_all(replies.into_iter().map(|(reply, _)| reply), &error),
    }
}

/// The error of a transaction is the error of each of its jobs.
fn refuse_all(
    replies: impl Iterator<Item = mpsc::SyncSender<Result<(), StoreError>>>,
    error: &rusqlite::Error,
) -> Replies {
    let (code, text) = (error.sqlite_error().copied(), error.to_string());
    let again = || match code {
        Some(code) => rusqlite::Error::SqliteFailure(code, Some(text.clone())),
        None => rusqlite::Error::ToSqlConversionFailure(text.clone().into()),
    };
    replies.map(|reply| (reply, Err(again().into()))).collect()
}

fn write(db: &Savepoint<'_>, job: &Job) -> Result<(), StoreError> {
    match job {
        Job::Commits(commits) => commits.iter().try_for_each(|commit| write_commit(db, commit)),
        Job::Begin(effect) => {
            db.prepare_cached("UPDATE effects SET is_begun = 1 WHERE id = ?")?.execute([effect.as_str()])?;
            Ok(())
        }
        Job::Settle(settled) => settled.iter().try_for_each(|settled| settle(db, settled)),
        Job::Blob(hash, bytes) => Ok(blobs::put(db, hash, bytes)?),
    }
}

fn write_commit(db: &Connection, commit: &Commit) -> Result<(), StoreError> {
    let Commit { after, event, run, owes, settles, metrics, begins } = commit;
    let known: Option<i64> = db
        .prepare_cached("SELECT events FROM runs WHERE id = ?")?
        .query_row([run.id.as_str()], |row| row.get(0))
        .optional()?;
    let found = known.and_then(|known| u64::try_from(known).ok()).unwrap_or(0);
    if found != *after || known.is_some() == begins.is_some() {
        return Err(StoreError::Conflict { run: run.id.clone(), expected: *after, found });
    }
    let at = event.at.to_string();
    let snapshot = serde_json::to_string(run)?;
    let (phase, state) = (phase(run), run.visit().map(|visit| visit.state.as_str()));
    let number = i64::try_from(after + 1).unwrap_or(i64::MAX);
    if let Some(begins) = begins {
        db.prepare_cached("INSERT OR IGNORE INTO definitions (hash, pin) VALUES (?, ?)")?
            .execute((run.definition.as_str(), serde_json::to_string(&begins.pin)?))?;
        db.prepare_cached(
            "INSERT INTO runs (id, workflow, definition, parent, facts, began, changed, state, phase, events, snapshot)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )?
        .execute((
            run.id.as_str(),
            run.workflow.as_str(),
            run.definition.as_str(),
            begins.parent.as_ref().map(baton_workflow::RunId::as_str),
            begins.facts.to_string(),
            &at,
            &at,
            state,
            phase,
            number,
            &snapshot,
        ))?;
    } else {
        db.prepare_cached("UPDATE runs SET changed = ?, state = ?, phase = ?, events = ?, snapshot = ? WHERE id = ?")?
            .execute((&at, state, phase, number, &snapshot, run.id.as_str()))?;
    }
    db.prepare_cached("INSERT INTO events (run, number, at, body) VALUES (?, ?, ?, ?)")?.execute((
        run.id.as_str(),
        number,
        &at,
        serde_json::to_string(event)?,
    ))?;
    for settled in settles {
        settle(db, settled)?;
    }
    for effect in owes {
        db.prepare_cached("INSERT INTO effects (id, run, body) VALUES (?, ?, ?)")?.execute((
            effect.id.as_str(),
            run.id.as_str(),
            serde_json::to_string(effect)?,
        ))?;
    }
    for metric in metrics {
        db.prepare_cached("INSERT INTO metrics (run, body) VALUES (?, ?)")?
            .execute((metric.run.as_str(), serde_json::to_string(metric)?))?;
    }
    Ok(())
}

fn settle(db: &Connection, settled: &Settled) -> Result<(), StoreError> {
    db.prepare_cached("UPDATE effects SET receipt = ? WHERE id = ? AND receipt IS NULL")?
        .execute((&settled.receipt, settled.effect.as_str()))?;
    Ok(())
}

fn phase(run: &baton_workflow::Run) -> &'static str {
    match run.phase {
        baton_workflow::Phase::Ready => "ready",
        baton_workflow::Phase::At(_) => "at",
        baton_workflow::Phase::Parked(_) => "parked",
        baton_workflow::Phase::Ended { .. } => "ended",
    }
}
