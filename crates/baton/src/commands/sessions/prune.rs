//! `baton sessions prune`, and the same once a day at the end of `exec`.

use std::io::{self, Write};
use std::time::Duration;

use baton_core::{Fault, Timestamp};
use baton_session::{Done, SessionSettings, Sessions};

use super::{Here, print_json, talk, unusable, unwritable};
use crate::Global;
use crate::exit::Exit;
use crate::setup::Setup;

/// How long the end of `exec` may take for it. What is left is done another day.
const DAILY_MAX: Duration = Duration::from_secs(3);

#[derive(clap::Args)]
#[command(after_help = "\
The setting `sessions` has the rules: `disk_mb` (5000), `keep_days` (90), `trash_days` (14). What is
open and the last 10 always stay. What is done is written to pruned.jsonl in the state directory;
what is in the trash comes back with `baton sessions rm --restore ID`.
")]
pub struct PruneArgs {
    /// Show what would be done; nothing is done
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn prune(global: &Global, here: &Here, args: &PruneArgs) -> Result<Exit, Fault> {
    let settings = Setup::new(global)?.sessions;
    let pruned = if args.dry_run {
        here.sessions.prunable(&settings, here.now)
    } else {
        here.sessions.prune(&settings, here.now)
    };
    let pruned = pruned.map_err(|error| {
        unusable("cannot prune the sessions", error).hint("what was done until then is in pruned.jsonl")
    })?;
    if args.json {
        return print_json(&pruned);
    }
    let mut out = io::stdout().lock();
    let written = pruned.iter().filter(|one| one.done != Done::Blob).try_for_each(|one| {
        let word = match (one.done, args.dry_run) {
            (Done::Discarded, true) => "would go to the trash",
            (Done::Discarded, false) => "to the trash",
            (_, true) => "would be deleted from the trash",
            (_, false) => "deleted from the trash",
        };
        writeln!(out, "{}  {word}, {} bytes", one.what, one.bytes)
    });
    written.map_err(|error| unwritable(&error))?;
    let blobs: Vec<u64> = pruned.iter().filter(|one| one.done == Done::Blob).map(|one| one.bytes).collect();
    if !blobs.is_empty() {
        talk(&format!("{} texts that nothing refers to are deleted, {} bytes", blobs.len(), blobs.iter().sum::<u64>()));
    }
    if pruned.is_empty() {
        talk("there is nothing to prune");
    }
    Ok(Exit::Done)
}

/// Prunes if that was not done in the last day. The turn is over by now, and nothing waits for more than a moment.
pub async fn prune_daily(sessions: Sessions, settings: SessionSettings) {
    let work = tokio::task::spawn_blocking(move || sessions.prune_daily(&settings, Timestamp::now()));
    match tokio::time::timeout(DAILY_MAX, work).await {
        Ok(Ok(Err(error))) => tracing::warn!("the sessions were not pruned: {error}"),
        Ok(Err(error)) => tracing::warn!("the sessions were not pruned: {error}"),
        Ok(Ok(Ok(_))) => {}
        Err(_) => tracing::warn!("pruning the sessions takes too long: the rest is done another day"),
    }
}
