//! Rules of the house, checked: layers, first lines, sizes, nothing of one machine.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::workspace_root;

/// Which crates a crate may use; a new arrow is a change of design.
const LAYERS: [(&str, &[&str]); 13] = [
    ("baton-core", &[]),
    ("baton-config", &["baton-core"]),
    ("baton-net", &["baton-core"]),
    ("baton-workflow", &["baton-core"]),
    ("baton-store", &["baton-core", "baton-config", "baton-workflow"]),
    ("baton-guard", &["baton-core", "baton-config"]),
    ("baton-llm", &["baton-core", "baton-config", "baton-net", "baton-guard"]),
    ("baton-tools", &["baton-core", "baton-config", "baton-net", "baton-guard"]),
    ("baton-session", &["baton-core", "baton-config"]),
    ("baton-agent", &["baton-core", "baton-config", "baton-guard", "baton-llm", "baton-tools", "baton-session"]),
    (
        "baton-conductor",
        &[
            "baton-core",
            "baton-config",
            "baton-net",
            "baton-guard",
            "baton-llm",
            "baton-tools",
            "baton-session",
            "baton-agent",
            "baton-workflow",
            "baton-store",
        ],
    ),
    (
        "baton-headless",
        &["baton-core", "baton-config", "baton-guard", "baton-llm", "baton-tools", "baton-session", "baton-agent"],
    ),
    (
        "baton",
        &[
            "baton-core",
            "baton-config",
            "baton-net",
            "baton-guard",
            "baton-llm",
            "baton-tools",
            "baton-session",
            "baton-agent",
            "baton-workflow",
            "baton-store",
            "baton-conductor",
            "baton-headless",
        ],
    ),
];

/// Pure crates and what would make them impure.
const PURE: [&str; 2] = ["baton-core", "baton-workflow"];
const IMPURE: [&str; 6] = ["std::fs", "std::net", "std::process", "std::env", "SystemTime::now", "Timestamp::now"];

/// The longest a source file may be.
const LINES_MAX: usize = 600;

fn files(below: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(below).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() && entry.file_name() != "target" && entry.file_name() != ".git" {
            found.extend(files(&path, ending));
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

#[test]
fn dependencies_point_one_way() {
    let allowed: BTreeMap<_, _> = LAYERS.into_iter().collect();
    let crates = workspace_root().join("crates");
    for entry in fs::read_dir(crates).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let may = allowed.get(name.as_str()).unwrap_or_else(|| panic!("{name} has no place in the layers"));
        let manifest = fs::read_to_string(entry.path().join("Cargo.toml")).unwrap();
        for line in manifest.lines().filter(|line| line.starts_with("baton-")) {
            let used = line.split(['.', ' ', '=']).next().unwrap();
            assert!(may.contains(&used), "{name} may not use {used}");
        }
    }
}

#[test]
fn every_dependency_is_used() {
    let root = workspace_root();
    let of_the_binary: Vec<_> = ["tests", "benches"].iter().flat_map(|dir| files(&root.join(dir), ".rs")).collect();
    for entry in fs::read_dir(root.join("crates")).unwrap().flatten() {
        let mut sources = files(&entry.path(), ".rs");
        if entry.file_name() == "baton" {
            sources.extend(of_the_binary.clone());
        }
        let code: String = sources.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
        let manifest = fs::read_to_string(entry.path().join("Cargo.toml")).unwrap();
        let sections = manifest.split("\n[").filter(|part| part.contains("dependencies]"));
        for line in sections.flat_map(|section| section.lines().skip(1)).filter(|line| line.contains('=')) {
            let name = line.split(['.', ' ', '=']).next().unwrap().replace('-', "_");
            let is_used = [format!("{name}::"), format!("use {name};"), format!("{name}!")]
                .iter()
                .any(|use_| code.contains(use_));
            assert!(is_used, "{:?} does not use {name}", entry.file_name());
        }
    }
}

#[test]
fn pure_crates_do_no_io() {
    for name in PURE {
        for file in files(&workspace_root().join("crates").join(name).join("src"), ".rs") {
            let text = fs::read_to_string(&file).unwrap();
            for word in IMPURE {
                assert!(!text.contains(word), "{} uses {word}", file.display());
            }
        }
    }
}

#[test]
fn every_module_says_its_job_and_reads_in_one_sitting() {
    let mut sizes = Vec::new();
    for file in files(workspace_root(), ".rs") {
        let text = fs::read_to_string(&file).unwrap();
        let is_test = file.to_string_lossy().contains("tests");
        assert!(is_test || text.starts_with("//! "), "{} does not say its job", file.display());
        sizes.push((text.lines().count(), file));
    }
    sizes.sort();
    let largest: Vec<_> = sizes.iter().rev().take(5).collect();
    println!("the largest files: {largest:#?}");
    assert!(largest[0].0 <= LINES_MAX, "{largest:#?}");
}

#[test]
fn nothing_speaks_of_one_machine() {
    let root = workspace_root();
    let texts =
        [".rs", ".md", ".toml", ".sh", ".jsonl", ".jsonc", ".star"].iter().flat_map(|ending| files(root, ending));
    for file in texts.filter(|file| !file.ends_with("tidy.rs")) {
        let text = String::from_utf8_lossy(&fs::read(&file).unwrap()).into_owned();
        for word in [concat!("/", "root/"), concat!("/", "work/"), concat!("/home/", "runner")] {
            assert!(!text.contains(word), "{} contains {word}", file.display());
        }
    }
}
