//! `history`: what was said and done in this session stays in the agent's reach, whatever was compacted.

use baton_core::Access;
use baton_session::Archive;
use baton_tools::{CallContext, Outcome, TypedTool};
use schemars::JsonSchema;
use serde::Deserialize;

/// How many places are shown.
const HITS_MAX: usize = 20;

/// Looks things up in a session.
pub(crate) struct Recalling(Archive);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    #[serde(default)]
    query: Option<String>,
    #[serde(default)]
    entry: Option<String>,
}

impl Recalling {
    pub(crate) fn new(archive: Archive) -> Self {
        Self(archive)
    }
}

impl TypedTool for Recalling {
    type Input = Input;
    const NAME: &'static str = "history";
    const DESCRIPTION: &'static str = include_str!("recalling.md");
    const ACCESS: Access = Access::Read;

    async fn call(&self, input: Input, _cx: &CallContext) -> Result<Outcome, String> {
        let archive = self.0.clone();
        let looking = tokio::task::spawn_blocking(move || look_up(&archive, &input));
        looking.await.map_err(|error| error.to_string())?.map(Outcome::ok)
    }
}

fn look_up(archive: &Archive, input: &Input) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("the session cannot be read: {error}");
    match (&input.query, &input.entry) {
        (_, Some(entry)) => archive
            .read(entry)
            .map_err(unreadable)?
            .ok_or_else(|| format!("there is no entry `{entry}` that says anything")),
        (Some(query), None) if !query.trim().is_empty() => {
            let hits = archive.search(query, HITS_MAX).map_err(unreadable)?;
            if hits.is_empty() {
                return Ok(format!("nothing in this session says `{query}`"));
            }
            let told = hits.iter().map(|hit| format!("{} {} {}:\n{}", hit.entry, hit.at, hit.who, hit.excerpt));
            Ok(told.collect::<Vec<_>>().join("\n\n"))
        }
        _ => Err("give a `query`, or an `entry`".to_owned()),
    }
}
