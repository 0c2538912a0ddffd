//! All settings: every section there is, and the files that they are read from.

use std::path::{Path, PathBuf};

use baton_agent::{CompactionSettings, InstructionSetting, ModelSetting, TurnLimits};
use baton_conductor::ProjectSettings;
use baton_config::{LayerKind, Places, Project, SectionInfo, Sources};
use baton_guard::PermissionSettings;
use baton_guard::sandbox::SandboxSettings;
use baton_llm::{AliasSettings, ModelSettings, NetworkSettings, ProviderSettings, RetryPolicy, WebSearchSetting};
use baton_session::SessionSettings;
use baton_tools::WebSettings;

/// Every section, in the order in which people see them. `tests/config.rs` fails if one is missing.
pub const SECTIONS: [SectionInfo; 15] = [
    SectionInfo::of::<ModelSetting>(),
    SectionInfo::of::<TurnLimits>(),
    SectionInfo::of::<CompactionSettings>(),
    SectionInfo::of::<SessionSettings>(),
    SectionInfo::of::<ProjectSettings>(),
    SectionInfo::of::<PermissionSettings>(),
    SectionInfo::of::<SandboxSettings>(),
    SectionInfo::of::<InstructionSetting>(),
    SectionInfo::of::<WebSettings>(),
    SectionInfo::of::<WebSearchSetting>(),
    SectionInfo::of::<ProviderSettings>(),
    SectionInfo::of::<ModelSettings>(),
    SectionInfo::of::<AliasSettings>(),
    SectionInfo::of::<NetworkSettings>(),
    SectionInfo::of::<RetryPolicy>(),
];

/// What the owner of a machine decides for everybody on it.
const MANAGED: &str = "/etc/baton/config.jsonc";

/// Names one more file like that. Since it can only tighten, anybody may.
const MANAGED_VARIABLE: &str = "BATON_MANAGED";

/// The file of a layer.
pub fn file(kind: LayerKind, places: &Places, project: &Project) -> Option<PathBuf> {
    match kind {
        LayerKind::User => Some(places.user_config()),
        LayerKind::Project => Some(project.root.join(".baton/config.jsonc")),
        LayerKind::Local => Some(project.root.join(".baton/local.jsonc")),
        LayerKind::Managed => Some(Path::new(MANAGED).to_owned()),
        LayerKind::Environment | LayerKind::Flags => None,
    }
}

/// Everything that the settings of a project are read from.
pub fn sources(places: &Places, project: &Project) -> Sources {
    let kinds = [LayerKind::User, LayerKind::Project, LayerKind::Local, LayerKind::Managed];
    let files = kinds.into_iter().filter_map(|kind| Some((kind, file(kind, places, project)?)));
    let more = std::env::var_os(MANAGED_VARIABLE).map(|file| (LayerKind::Managed, PathBuf::from(file)));
    let vars =
        std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    Sources { files: files.chain(more).collect(), vars: vars.collect(), home: places.home.clone() }
}
