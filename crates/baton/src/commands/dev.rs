//! `baton dev`: tools for people who build on Baton.

use std::path::PathBuf;

use baton_core::Fault;
use baton_headless::Signals;
use baton_headless::model_server::{ModelServer, Options};

use crate::Global;
use crate::exit::Exit;
use crate::setup::block_on;

/// Tools for building on Baton
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    tool: Tool,
}

#[derive(clap::Subcommand)]
enum Tool {
    /// Serve a script as a model over HTTP, in the formats of Anthropic, OpenAI and Gemini
    #[command(after_help = "\
Listens on 127.0.0.1 only and prints its address. A script is JSON lines; each line is one answer
with the fields say, think, call, fail, cut, usage, delay_ms, role, when, repeat, stop.

Example:
  baton dev model-server --script answers.jsonl --port 8080
  ANTHROPIC_BASE_URL=http://127.0.0.1:8080 ANTHROPIC_API_KEY=x baton exec -m anthropic/script hello
")]
    ModelServer {
        /// The script
        #[arg(long, value_name = "FILE")]
        script: PathBuf,
        /// The port; 0 is any that is free
        #[arg(long, default_value_t = 0)]
        port: u16,
        /// Append every request to this file, as JSON lines, without keys
        #[arg(long, value_name = "FILE")]
        log: Option<PathBuf>,
        /// Refuse a request that does not extend the one before it
        #[arg(long)]
        append_only: bool,
    },
}

/// Runs the command.
pub fn run(global: &Global, args: Args) -> Result<Exit, Fault> {
    let Tool::ModelServer { script, port, log, append_only } = args.tool;
    let dir = global.dir.clone().unwrap_or_default();
    let script = baton_llm::read_script(&dir.join(script)).map_err(|error| error.fault())?;
    let options = Options { script, port, log: log.map(|log| dir.join(log)), append_only };
    block_on(async {
        let unusable =
            |error| Fault::input(format!("cannot serve on port {port}: {error}")).hint("choose another --port");
        let mut signals = Signals::new().map_err(unusable)?;
        let server = ModelServer::bind(options).await.map_err(unusable)?;
        println!("http://{}", server.address());
        let mut signal = None;
        server.serve(async { signal = Some(signals.next().await) }).await.map_err(unusable)?;
        Ok(signal.map_or(Exit::Done, Exit::Signal))
    })
}
