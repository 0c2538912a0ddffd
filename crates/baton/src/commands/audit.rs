//! `baton audit`: what was asked, decided and done in this project, and whether the log is as it was written.

use std::fs::File;
use std::io::{self, Write};

use baton_core::{Area, Fault, Tier};
use baton_guard::audit::{Audit, AuditError, Decision, Filter};
use baton_guard::secrets::Redactor;
use jiff::Timestamp;

use crate::Global;
use crate::exit::Exit;
use crate::setup::Setup;

/// Read and check the log of what agents did in this project
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Show entries
    Query {
        /// Only this kind, with what is below it: `file` is also `file.write`
        #[arg(long)]
        kind: Option<String>,
        /// Only what this agent or person did
        #[arg(long)]
        actor: Option<String>,
        /// Only entries with this text
        #[arg(long, value_name = "TEXT")]
        contains: Option<String>,
        /// Only entries with this decision
        #[arg(long, value_parser = decision, value_name = "allowed|approved|denied|failed")]
        decision: Option<Decision>,
        /// Not before this moment (RFC 3339)
        #[arg(long)]
        since: Option<Timestamp>,
        /// Before this moment (RFC 3339)
        #[arg(long)]
        until: Option<Timestamp>,
        /// Print JSON lines
        #[arg(long)]
        json: bool,
    },
    /// Check that nothing was changed, removed or cut off; exit code 3 if something was
    Verify {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the whole log as it is, with its hashes
    Export,
}

fn decision(text: &str) -> Result<Decision, String> {
    serde_json::from_value(text.into()).map_err(|_| "it is allowed, approved, denied or failed".to_owned())
}

/// Runs the command.
pub fn run(global: &Global, args: Args) -> Result<Exit, Fault> {
    let setup = Setup::new(global)?;
    let audit = Audit::new(&setup.places.state_dir, &setup.project.id, Redactor::new());
    match args.action {
        Action::Query { kind, actor, contains, decision, since, until, json } => {
            let filter = Filter { kind, actor, contains, decision, since, until };
            print_entries(&audit, &filter, json)
        }
        Action::Verify { json } => verify(&audit, json),
        Action::Export => export(&audit),
    }
}

fn print_entries(audit: &Audit, filter: &Filter, json: bool) -> Result<Exit, Fault> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let mut written = Ok(());
    let read = audit.query(filter, |entry, line| {
        if written.is_ok() {
            written = if json {
                writeln!(out, "{line}")
            } else {
                let decision = entry.record.decision.map(|decision| format!("{decision:?}").to_lowercase());
                let (at, record) = (entry.at, &entry.record);
                // What was done may have had line ends in it.
                let what = record.what.escape_debug();
                writeln!(
                    out,
                    "{} {at:.0} {} {} {} {what}",
                    entry.seq,
                    record.actor,
                    record.kind,
                    decision.as_deref().unwrap_or("-")
                )
            };
        }
    });
    read.map_err(|error| unusable(&error))?;
    written.and_then(|()| out.flush()).map_err(|error| Fault::internal(format!("cannot write the output: {error}")))?;
    Ok(Exit::Done)
}

fn export(audit: &Audit) -> Result<Exit, Fault> {
    let copied = match File::open(audit.file()) {
        Ok(mut log) => io::copy(&mut log, &mut io::stdout().lock()).map(drop),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    let unusable =
        |error| Fault::new(Area::Workspace, Tier::UserFixable, format!("cannot export the audit log: {error}"));
    copied.map(|()| Exit::Done).map_err(unusable)
}

fn verify(audit: &Audit, json: bool) -> Result<Exit, Fault> {
    let report = audit.verify().map_err(|error| unusable(&error))?;
    let mut out = io::stdout().lock();
    let written = if json {
        let mut value = serde_json::json!(report);
        value["intact"] = report.is_intact().into();
        writeln!(out, "{value:#}")
    } else {
        let state = if report.is_intact() { "intact" } else { "changed" };
        let torn = match report.torn_bytes {
            0 => String::new(),
            bytes => format!("; a last line of {bytes} bytes was never finished"),
        };
        let head = writeln!(out, "{state}: {} entries{torn}", report.entries);
        report.findings.iter().fold(head, |done, finding| done.and_then(|()| writeln!(out, "  {finding}")))
    };
    written.map_err(|error| Fault::internal(format!("cannot write the output: {error}")))?;
    Ok(if report.is_intact() { Exit::Done } else { Exit::Failed })
}

fn unusable(error: &AuditError) -> Fault {
    Fault::new(Area::Workspace, Tier::UserFixable, error.to_string())
}
