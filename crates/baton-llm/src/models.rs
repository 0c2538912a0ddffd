//! From a name to a model that can be called: aliases, catalogue, endpoint, provider.

use std::path::Path;
use std::sync::Arc;

use baton_config::{ConfigError, Reader, Section};
use baton_core::{Clock, IdSource, Tier};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cassette::{Marks, Recording, Replay, Tee};
use crate::catalogue::{ALIASES, AliasSettings, Catalogue, ModelSettings};
use crate::endpoint::{Endpoint, Env, PRESETS, ProviderSettings, first_with_key};
use crate::error::LlmError;
use crate::gate::{Gate, Model};
use crate::http::{HttpProvider, NetworkSettings};
use crate::model_ref::ModelRef;
use crate::provider::Provider;
use crate::rehearsal::RehearsalProvider;
use crate::retry::RetryPolicy;
use crate::script::Script;
use crate::transport::{Network, Transport};

/// The setting `web_search`: whether providers may search the web by themselves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct WebSearchSetting(pub bool);

impl Section for WebSearchSetting {
    const KEY: &'static str = "web_search";
}

/// The settings of this crate.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LlmSettings {
    /// `models`.
    pub models: ModelSettings,
    /// `aliases`.
    pub aliases: AliasSettings,
    /// `providers`.
    pub providers: ProviderSettings,
    /// `network`.
    pub network: NetworkSettings,
    /// `retry`.
    pub retry: RetryPolicy,
    /// `web_search`.
    pub web_search: WebSearchSetting,
}

impl LlmSettings {
    /// Reads the sections of this crate.
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, ConfigError> {
        Ok(Self {
            models: reader.section()?,
            aliases: reader.section()?,
            providers: reader.section()?,
            network: reader.section()?,
            retry: reader.section()?,
            web_search: reader.section()?,
        })
    }
}

/// Finds models by name.
pub struct Models {
    catalogue: Catalogue,
    providers: ProviderSettings,
    network: NetworkSettings,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn IdSource>,
}

impl Models {
    /// Knows the shipped models and those of the settings.
    pub fn new(settings: LlmSettings, clock: Arc<dyn Clock>, ids: Arc<dyn IdSource>) -> Self {
        let catalogue = Catalogue::new(settings.models, settings.aliases);
        Self { catalogue, providers: settings.providers, network: settings.network, clock, ids }
    }

    /// All known models.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// What a name means: `provider/name[:effort]`, an alias (`fast`, `anthropic/fast`), or nothing,
    /// which is the default model of the first provider whose key is there.
    pub fn resolve(&self, name: Option<&str>, env: Env<'_>) -> Result<ModelRef, LlmError> {
        let name = name.unwrap_or("default");
        let (stem, effort) = name.split_once(':').map_or((name, ""), |(stem, effort)| (stem, effort));
        let full = if ALIASES.contains(&stem) {
            let provider = first_with_key(env).ok_or_else(no_key_at_all)?;
            let colon = if effort.is_empty() { "" } else { ":" };
            format!("{provider}/{stem}{colon}{effort}")
        } else {
            name.to_owned()
        };
        let mut model: ModelRef = full.parse().map_err(|message: String| {
            LlmError::input(message).hint("`baton models` lists known ones; fast, default and powerful work too")
        })?;
        if model.provider == "google" {
            "gemini".clone_into(&mut model.provider);
        }
        if let Some(meant) = self.catalogue.alias(&model.provider, &model.name) {
            model.name = meant.to_owned();
        }
        Ok(model)
    }

    /// Whether a model's provider can search the web by itself; the error says why not.
    pub fn web_search(&self, model: &ModelRef, env: Env<'_>) -> Result<(), String> {
        let unable = |why: &str| format!("{model} cannot search the web: {why}; web_fetch is there for pages");
        match model.provider.as_str() {
            "script" => return Err(unable("it is a script")),
            // What was searched is a part of the recording.
            "cassette" => return Ok(()),
            _ => {}
        }
        let endpoint = Endpoint::resolve(&model.provider, &self.providers, env).map_err(|error| error.message)?;
        endpoint.wire.web_search(&model.name).map_err(unable)
    }

    /// Prepares a model to be called. Paths of scripts and cassettes are relative to `cwd`.
    pub fn open(
        &self,
        model: ModelRef,
        gate: &Gate,
        cwd: &Path,
        env: Env<'_>,
        tape: Tape<'_>,
    ) -> Result<Opened, LlmError> {
        let (clock, ids) = (Arc::clone(&self.clock), Arc::clone(&self.ids));
        let is_rehearsal = ["script", "cassette"].contains(&model.provider.as_str());
        if let (Some(_), true) = (tape.record, is_rehearsal) {
            let message = format!("{model} calls no model, so there is nothing to record");
            return Err(LlmError::input(message).hint("leave out --record, or name a real model with -m"));
        }
        let (mut notice, mut recording) = (None, None);
        let mut named = model.clone();
        let provider: Arc<dyn Provider> = match model.provider.as_str() {
            "script" => Arc::new(RehearsalProvider::new(read_script(&cwd.join(&model.name))?, clock)),
            "cassette" => {
                let replay = Replay::open(&cwd.join(&model.name), tape.marks, ids)?;
                notice = Some(replay.notice());
                let header = replay.header().clone();
                named = ModelRef { effort: model.effort.or(header.model.effort), ..header.model };
                let server = (named.provider.clone(), model.to_string());
                Arc::new(HttpProvider::new(server, header.wire, self.network.clone(), Box::new(replay)))
            }
            provider => {
                let endpoint = Endpoint::resolve(provider, &self.providers, env)?;
                let (server, wire) = ((endpoint.provider.clone(), endpoint.host()), endpoint.wire);
                let network = Network::new(endpoint, &self.network, Arc::clone(&clock), ids)?;
                let transport: Box<dyn Transport> = match tape.record {
                    None => Box::new(network),
                    Some(file) => {
                        let (started, recorder) = Recording::create(&cwd.join(file), model, wire, tape.marks)?;
                        recording = Some(started);
                        Box::new(Tee { inner: network, recorder, clock })
                    }
                };
                Arc::new(HttpProvider::new(server, wire, self.network.clone(), transport))
            }
        };
        let info = self.catalogue.find(&named.provider, &named.name).cloned();
        Ok(Opened { model: gate.model(named, info, provider), recording, notice })
    }
}

/// What is done with the traffic of a model.
#[derive(Debug, Clone, Default)]
pub struct Tape<'a> {
    /// Where to record it.
    pub record: Option<&'a Path>,
    /// What cassettes hold in place of keys and places.
    pub marks: Marks,
}

/// A model that was opened.
pub struct Opened {
    /// The model.
    pub model: Model,
    /// The recording that was asked for.
    pub recording: Option<Recording>,
    /// What the person should know before it is called.
    pub notice: Option<String>,
}

/// Reads a script.
pub fn read_script(file: &Path) -> Result<Script, LlmError> {
    let unreadable = |why: String| LlmError::input(format!("cannot read the script {}: {why}", file.display()));
    // Asked before it is opened: opening a pipe waits for somebody to write to it.
    let is_file = std::fs::metadata(file).map_err(|error| unreadable(error.to_string()))?.is_file();
    if !is_file {
        return Err(unreadable("it is not a regular file".to_owned()));
    }
    let text = std::fs::read_to_string(file).map_err(|error| unreadable(error.to_string()))?;
    Ok(Script::parse(&file.display().to_string(), &text)?)
}

fn no_key_at_all() -> LlmError {
    let names: Vec<&str> = PRESETS.iter().filter_map(|preset| preset.key_env.first().copied()).take(3).collect();
    LlmError::provider(
        Tier::UserFixable,
        format!("no model is set and no key is there: none of {} is set", names.join(", ")),
    )
    .hint("export a key or `baton auth login PROVIDER`, name a local model (-m ollama/…), or try Baton without a key: `baton demo`")
}
