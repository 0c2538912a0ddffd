//! `baton models`: what can be called, what it takes and costs.

use std::io::Write;
use std::sync::Arc;

use baton_agent::{RandomIds, SystemClock};
use baton_core::Fault;
use baton_llm::{Endpoint, ModelInfo, Models};
use serde::Serialize;

use crate::Global;
use crate::exit::Exit;
use crate::setup::Setup;

/// List known models with their limits and prices
#[derive(clap::Args)]
#[command(after_help = "\
Models that are not listed work too, with default limits: name them as provider/name. The settings
`models`, `aliases` and `providers` add to the list.
")]
pub struct Args {
    /// Only models whose name contains this
    filter: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row {
    model: String,
    aliases: Vec<String>,
    /// Whether the provider can be called as things are: its key is there, or it wants none.
    ready: bool,
    #[serde(flatten)]
    info: ModelInfo,
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<Exit, Fault> {
    let setup = Setup::new(global)?;
    let providers = setup.llm.providers.clone();
    let models = Models::new(setup.llm.clone(), Arc::new(SystemClock), Arc::new(RandomIds::default()));
    let env = |name: &str| setup.env(name);
    let catalogue = models.catalogue();
    let rows: Vec<Row> = catalogue
        .iter()
        .filter(|(model, _)| args.filter.as_ref().is_none_or(|part| model.to_string().contains(part.as_str())))
        .map(|(model, info)| Row {
            aliases: catalogue.aliases_of(&model).map(str::to_owned).collect(),
            ready: Endpoint::resolve(&model.provider, &providers, &env).is_ok(),
            model: model.to_string(),
            info: info.clone(),
        })
        .collect();
    let written = if args.json { print_json(&rows) } else { print_table(&rows) };
    written.map_err(|error| Fault::internal(format!("cannot write the output: {error}")))?;
    Ok(Exit::Done)
}

fn print_json(rows: &[Row]) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut stdout, rows)?;
    writeln!(stdout)
}

fn print_table(rows: &[Row]) -> std::io::Result<()> {
    let width = rows.iter().map(|row| row.model.len()).max().unwrap_or_default();
    let mut out = anstream::stdout().lock();
    writeln!(out, "  {:width$}  {:>8}  {:>7}  {:>7}  {:>7}  ALIAS", "MODEL", "CONTEXT", "OUTPUT", "$/M IN", "$/M OUT")?;
    for row in rows {
        let price = |pick: fn(&baton_core::Price) -> baton_core::Usd| {
            row.info.price.as_ref().map_or_else(|| "-".to_owned(), |price| format!("{:.2}", pick(price).dollars()))
        };
        writeln!(
            out,
            "{} {:width$}  {:>8}  {:>7}  {:>7}  {:>7}  {}",
            if row.ready { "*" } else { " " },
            row.model,
            row.info.context,
            row.info.output,
            price(|price| price.input),
            price(|price| price.output),
            row.aliases.join(", "),
        )?;
    }
    writeln!(out, "\n* can be called now; `baton doctor` says which key is missing for the others")
}
