//! Detecting how a project is tested and built, from a table and the names of its files. No model, nothing is run.

use std::collections::BTreeMap;
use std::path::Path;

use baton_workflow::Project;
use globset::Glob;
use serde::Deserialize;

const TABLE: &str = include_str!("detect.jsonc");
/// How much of a file is looked at.
const BYTES_MAX: usize = 256 * 1024;

/// What was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Detected {
    /// The settings to propose.
    pub project: Project,
    /// What each of them is known from.
    pub from: BTreeMap<&'static str, String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Row {
    name: String,
    has: Vec<String>,
    text: Vec<String>,
    /// A script of package.json.
    script: Option<String>,
    /// A target of a makefile.
    target: Option<String>,
    test: Option<String>,
    build: Option<String>,
    lint: Option<String>,
    format: Option<String>,
    mutation: Option<String>,
    test_paths: Vec<String>,
    source_paths: Vec<String>,
    setup: Vec<String>,
    caches: Vec<String>,
}

/// Looks at a project's files.
pub fn detect(root: &Path) -> Detected {
    // A test reads the table.
    let rows = table().unwrap_or_default();
    let names: Vec<String> = std::fs::read_dir(root)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    let default = Project::default();
    let mut found = Detected::default();
    found.project.test_paths.clear();
    found.project.source_paths.clear();
    for row in rows.iter().filter(|row| fits(row, root, &names)) {
        take(&mut found, row);
    }
    let Detected { project, .. } = &mut found;
    if project.test_paths.is_empty() {
        project.test_paths = default.test_paths;
    }
    if project.source_paths.is_empty() {
        project.source_paths = default.source_paths;
    }
    found
}

/// The table; its comments are on lines of their own.
fn table() -> serde_json::Result<Vec<Row>> {
    let json: String = TABLE.split_inclusive('\n').filter(|line| !line.trim_start().starts_with("//")).collect();
    serde_json::from_str(&json)
}

fn take(found: &mut Detected, row: &Row) {
    let Detected { project, from } = found;
    let commands: [(&'static str, &mut Option<String>, &Option<String>); 5] = [
        ("test", &mut project.test, &row.test),
        ("build", &mut project.build, &row.build),
        ("lint", &mut project.lint, &row.lint),
        ("format", &mut project.format, &row.format),
        ("mutation", &mut project.mutation, &row.mutation),
    ];
    for (key, known, given) in commands {
        if let (None, Some(given)) = (&known, given) {
            *known = Some(given.clone());
            from.insert(key, row.name.clone());
        }
    }
    let lists: [(&'static str, &mut Vec<String>, &[String]); 4] = [
        ("test_paths", &mut project.test_paths, &row.test_paths),
        ("source_paths", &mut project.source_paths, &row.source_paths),
        ("setup", &mut project.setup, &row.setup),
        ("caches", &mut project.caches, &row.caches),
    ];
    for (key, known, given) in lists {
        if known.is_empty() && !given.is_empty() {
            given.clone_into(known);
            from.insert(key, row.name.clone());
        }
    }
}

fn fits(row: &Row, root: &Path, names: &[String]) -> bool {
    let mut files = row.has.iter().flat_map(|pattern| matching(pattern, root, names));
    match (&row.script, &row.target) {
        (Some(script), _) => files.next().is_some() && has_script(root, script),
        (_, Some(target)) => files.any(|file| has_target(&read(root, &file), target)),
        _ if row.text.is_empty() => files.next().is_some(),
        _ => files.any(|file| {
            let text = read(root, &file);
            row.text.iter().any(|word| text.contains(word))
        }),
    }
}

/// The files that a pattern means.
fn matching(pattern: &str, root: &Path, names: &[String]) -> Vec<String> {
    if !pattern.contains('*') {
        return if root.join(pattern).is_file() { vec![pattern.to_owned()] } else { Vec::new() };
    }
    let Ok(glob) = Glob::new(pattern) else { return Vec::new() };
    let matcher = glob.compile_matcher();
    names.iter().filter(|name| matcher.is_match(name)).cloned().collect()
}

fn read(root: &Path, file: &str) -> String {
    let mut bytes = std::fs::read(root.join(file)).unwrap_or_default();
    bytes.truncate(BYTES_MAX);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether package.json has a script of this name that does something.
fn has_script(root: &Path, name: &str) -> bool {
    let text = read(root, "package.json");
    let package: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    package["scripts"][name].as_str().is_some_and(|script| !script.contains("no test specified"))
}

fn has_target(text: &str, target: &str) -> bool {
    text.lines().any(|line| {
        line.strip_prefix(target)
            .is_some_and(|rest| rest.trim_start().starts_with(':') && !rest.trim_start().starts_with(":="))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Detected {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = dir.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        detect(dir.path())
    }

    fn test_of(files: &[(&str, &str)]) -> Option<String> {
        found(files).project.test
    }

    #[test]
    fn the_table_can_be_read() {
        let rows = table().unwrap();
        assert!(rows.len() > 20 && rows.iter().all(|row| !row.has.is_empty()));
    }

    #[test]
    fn projects_are_known_by_their_files() {
        assert_eq!(test_of(&[("Cargo.toml", "")]).as_deref(), Some("cargo test"));
        assert_eq!(
            test_of(&[("package.json", r#"{"scripts": {"test": "vitest"}}"#)]).as_deref(),
            Some("npm test --silent")
        );
        assert_eq!(test_of(&[("package.json", r#"{"scripts": {"test": "echo no test specified"}}"#)]), None);
        assert_eq!(
            test_of(&[("pyproject.toml", "[tool.pytest.ini_options]")]).as_deref(),
            Some("python3 -m pytest -q")
        );
        assert_eq!(test_of(&[("go.mod", "")]).as_deref(), Some("go test ./..."));
        assert_eq!(test_of(&[("Makefile", "test_x: y\ntest: build\n\tsh t\n")]).as_deref(), Some("make test"));
        assert_eq!(test_of(&[("Makefile", "test := 1\n")]), None);
        assert_eq!(test_of(&[("tests/run.sh", "")]).as_deref(), Some("sh tests/run.sh"));
        assert_eq!(test_of(&[("a.csproj", "")]).as_deref(), Some("dotnet test --nologo"));
        assert_eq!(test_of(&[("README.md", "")]), None);
    }

    #[test]
    fn what_several_say_is_put_together_and_the_first_counts() {
        let both = found(&[("Cargo.toml", ""), ("Makefile", "test:\n\nlint:\n")]);
        assert_eq!(both.project.test.as_deref(), Some("cargo test"));
        assert_eq!(both.from["test"], "Rust");
        assert_eq!(both.project.caches, ["target"]);
        assert_eq!(found(&[]).project.source_paths, ["src/**"]);
    }
}
