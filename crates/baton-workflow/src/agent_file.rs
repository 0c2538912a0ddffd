//! Agent files: Markdown with a few facts in front, read from text.

use std::collections::BTreeMap;

use crate::definition::vocabulary::{TOOL_SETS, TOOLS};
use crate::names::{AgentName, Pos};
use crate::problem::Problem;

/// The largest file.
const BYTES_MAX: usize = 256 * 1024;
/// The facts that can stand in front.
const KEYS: [&str; 4] = ["name", "description", "model", "tools"];

/// What an agent does: its instructions, and what can be said about it in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentFile {
    /// Its name, which is the file's.
    pub name: AgentName,
    /// What it is for, in one line.
    pub description: String,
    /// The model that plays it where nothing else is said.
    pub model: Option<String>,
    /// Tools that it needs; a role decides what it gets.
    pub tools: Vec<String>,
    /// What it is told.
    pub instructions: String,
}

impl AgentFile {
    /// Reads a file, or says everything that is wrong with it.
    pub fn parse(file: &str, text: &str) -> Result<Self, Vec<Problem>> {
        let at = |line: usize| Pos { file: file.into(), line: u32::try_from(line).unwrap_or(u32::MAX) };
        if text.len() > BYTES_MAX {
            let message = format!("the file has {} bytes, at most {BYTES_MAX} are read", text.len());
            return Err(vec![Problem::new(&at(1), message)]);
        }
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let lines: Vec<&str> = text.lines().collect();
        let end = lines.iter().skip(1).position(|line| line.trim_end() == "---").map(|line| line + 1);
        let Some(end) = end.filter(|_| lines[0].trim_end() == "---") else {
            let problem = Problem::new(&at(1), "the file does not begin with its facts");
            return Err(vec![
                problem.hint("write `---`, then `name: ...` and `description: ...`, then `---`, then what it is told"),
            ]);
        };
        let mut problems = Vec::new();
        let facts = read_facts(&lines[1..end], &at, &mut problems);
        let mut take = |key: &str| {
            let fact = facts.get(key).filter(|(_, items)| !items.is_empty());
            if fact.is_none() && ["name", "description"].contains(&key) {
                problems.push(Problem::new(&at(1), format!("`{key}` is missing")).hint(format!("`{key}: ...`")));
            }
            fact.map(|(line, items)| (*line, items.join(", ")))
        };
        let name = take("name");
        let description = take("description").map(|(_, text)| text);
        let model = take("model").map(|(_, text)| text);
        let name = name.and_then(|(line, text)| {
            AgentName::parse(&text).map_err(|error| problems.push(Problem::new(&at(line), error.to_string()))).ok()
        });
        let tools = read_tools(facts.get("tools"), &at, &mut problems);
        let instructions = lines[end + 1..].join("\n").trim().to_owned();
        if instructions.is_empty() {
            problems.push(
                Problem::new(&at(end + 1), "the agent is told nothing").hint("write what it does below the facts"),
            );
        }
        match (name, description) {
            (Some(name), Some(description)) if problems.is_empty() => {
                Ok(Self { name, description, model, tools, instructions })
            }
            _ => {
                problems.sort();
                Err(problems)
            }
        }
    }
}

/// Each fact with its line and what it says: `key: text`, `key: [a, b]`, `key: a, b` or lines with `- a`.
type Facts = BTreeMap<String, (usize, Vec<String>)>;

fn read_facts(lines: &[&str], at: &dyn Fn(usize) -> Pos, problems: &mut Vec<Problem>) -> Facts {
    let mut facts = Facts::new();
    let mut open: Option<String> = None;
    for (line, number) in lines.iter().zip(2..) {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            continue;
        }
        if let (Some(item), Some(key)) = (trimmed.strip_prefix("- "), &open) {
            facts.entry(key.clone()).or_insert((number, Vec::new())).1.push(unquoted(item));
            continue;
        }
        let Some((key, value)) = trimmed.split_once(':') else {
            problems.push(Problem::new(&at(number), format!("`{trimmed}` is not a fact")).hint("write `key: value`"));
            continue;
        };
        let (key, value) = (key.trim(), value.trim());
        if !KEYS.contains(&key) {
            problems.push(Problem::new(&at(number), format!("there is no fact `{key}`")).suggest(key, KEYS));
            open = None;
            continue;
        }
        let list =
            value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).or((key == "tools").then_some(value));
        let items = match list {
            Some(list) => list.split(',').map(unquoted).filter(|item| !item.is_empty()).collect(),
            None => Some(unquoted(value)).filter(|value| !value.is_empty()).into_iter().collect(),
        };
        if facts.insert(key.to_owned(), (number, items)).is_some() {
            problems.push(Problem::new(&at(number), format!("`{key}` is there twice")));
        }
        open = Some(key.to_owned());
    }
    facts
}

fn unquoted(text: &str) -> String {
    let text = text.trim();
    let inner = ['"', '\''].iter().find_map(|quote| text.strip_prefix(*quote)?.strip_suffix(*quote));
    inner.unwrap_or(text).to_owned()
}

fn read_tools(
    fact: Option<&(usize, Vec<String>)>,
    at: &dyn Fn(usize) -> Pos,
    problems: &mut Vec<Problem>,
) -> Vec<String> {
    let Some((line, items)) = fact else { return Vec::new() };
    let mut tools = Vec::new();
    for item in items {
        if let Some((_, set)) = TOOL_SETS.iter().find(|(name, _)| name == item) {
            tools.extend(set.iter().map(|tool| (*tool).to_owned()));
        } else if TOOLS.contains(&item.as_str()) {
            tools.push(item.clone());
        } else {
            problems.push(Problem::new(&at(*line), format!("there is no tool `{item}`")).suggest(item, TOOLS));
        }
    }
    tools.dedup();
    tools
}
