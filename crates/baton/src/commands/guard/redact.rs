//! `baton guard redact`: takes secrets out of what comes in.

use std::io::{self, Read, Write};

use baton_core::Fault;
use baton_guard::secrets::Redactor;
use baton_llm::PRESETS;

use crate::exit::Exit;

/// Copy stdin to stdout without the secrets in it
#[derive(clap::Args)]
#[command(after_help = "\
Each secret becomes [redacted:KIND]. Keys of known providers in the environment are found exactly,
whatever they look like; others by their form, or by the name they are assigned to.
")]
pub struct Args {
    /// Also take out the values of these variables (repeatable)
    #[arg(long, value_name = "NAME")]
    env: Vec<String>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Exit, Fault> {
    let of_providers = PRESETS.iter().flat_map(|preset| preset.key_env).map(|name| (*name).to_owned());
    let values = of_providers.chain(args.env.clone()).filter_map(|name| std::env::var(name).ok());
    let mut stream = Redactor::knowing(values).stream();
    let unusable = |what: &str, error: &io::Error| Fault::input(format!("cannot {what}: {error}"));
    let (mut stdin, mut stdout) = (io::stdin().lock(), io::stdout().lock());
    let (mut chunk, mut out) = (vec![0; 64 * 1024], Vec::new());
    loop {
        let length = match stdin.read(&mut chunk) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(unusable("read stdin", &error)),
        };
        stream.push(&chunk[..length], &mut out);
        stdout.write_all(&out).and_then(|()| stdout.flush()).map_err(|error| unusable("write stdout", &error))?;
        out.clear();
    }
    stream.finish(&mut out);
    stdout.write_all(&out).and_then(|()| stdout.flush()).map_err(|error| unusable("write stdout", &error))?;
    Ok(Exit::Done)
}
