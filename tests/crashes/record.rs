//! The file of a session, read as anybody could read it: lines of JSON.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

use baton_core::{Block, Message, SessionId};
use baton_session::Sessions;
use serde_json::Value;

use crate::support::World;

pub struct Record {
    pub entries: Vec<Value>,
    /// Lines that are no JSON.
    pub torn: usize,
    file: Option<PathBuf>,
}

/// What became of the commands.
pub struct Told {
    pub ran: usize,
    pub unknown: usize,
    pub questioned: usize,
    pub insisted: usize,
}

fn find(dir: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    entries
        .flat_map(|path| if path.is_dir() { find(&path, ending) } else { vec![path] })
        .filter(|path| path.to_string_lossy().ends_with(ending))
        .collect()
}

fn session_file(world: &World) -> Option<PathBuf> {
    let files = find(&world.home(), ".jsonl");
    let mut files = files.into_iter().filter(|file| file.parent().is_some_and(|dir| dir.ends_with("sessions")));
    let file = files.by_ref().find(|file| file.metadata().is_ok_and(|known| known.len() > 0));
    assert_eq!(files.next(), None, "there is one session");
    file
}

impl Record {
    pub fn is_there(world: &World) -> bool {
        session_file(world).is_some()
    }

    pub fn read(world: &World) -> Self {
        let file = session_file(world);
        let bytes = file.as_ref().map(|file| std::fs::read(file).unwrap()).unwrap_or_default();
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let (mut entries, mut torn) = (Vec::new(), 0);
        for line in lines {
            match serde_json::from_slice(line) {
                Ok(entry) => entries.push(entry),
                Err(_) => torn += 1,
            }
        }
        Self { entries, torn, file }
    }

    pub fn of<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.entries.iter().filter(move |entry| entry["kind"] == kind)
    }

    /// Everything that was shown is there exactly once, and what the model would be told is valid.
    pub fn check(&self, name: &str, shown: &[Value]) {
        let mut ids: HashMap<&str, usize> = HashMap::new();
        for entry in &self.entries {
            *ids.entry(entry["id"].as_str().unwrap()).or_default() += 1;
        }
        for (id, times) in &ids {
            assert_eq!(*times, 1, "{name}: {id} is there {times} times");
        }
        for event in shown {
            let id = event["id"].as_str().unwrap();
            assert!(ids.contains_key(id), "{name}: shown, but not kept: {event}");
        }
        let Some(file) = &self.file else { return };
        let session = SessionId::new(file.file_stem().unwrap().to_str().unwrap());
        let sessions = Sessions::new(file.parent().unwrap().parent().unwrap());
        let loaded = sessions.load(&session).unwrap();
        assert_eq!(loaded.missing, 0, "{name}: a text that was kept apart is gone");
        is_valid(name, &loaded.history().messages);
    }

    /// No command ran again unless the model was told so first; each left its mark no more often than it ran.
    pub fn check_commands(&self, name: &str, log: &str) -> Told {
        let mut told = Told { ran: 0, unknown: 0, questioned: 0, insisted: 0 };
        let ends: HashMap<&str, &Value> = self.of("tool.end").map(|end| (end["call"].as_str().unwrap(), end)).collect();
        // How often each command ran, and whether the model has been told so since.
        let mut runs: BTreeMap<&str, (usize, bool)> = BTreeMap::new();
        for start in self.of("tool.start").filter(|start| start["tool"] == "bash") {
            let command = start["input"]["command"].as_str().unwrap();
            let end = ends.get(start["call"].as_str().unwrap());
            let output = end.map_or("", |end| end["output"].as_str().unwrap());
            let (times, is_told) = runs.entry(command).or_default();
            if output.starts_with("not run: this exact command") {
                told.questioned += 1;
                *is_told = true;
                continue;
            }
            assert!(!output.starts_with("not run") && !output.starts_with("refused"), "{name}: {command}: {output}");
            // Whether one that Baton was killed over had begun to run, its mark says.
            if *times > 0 && !*is_told && end.is_none() {
                continue;
            }
            assert!(*times == 0 || *is_told, "{name}: a silent repeat of `{command}`:\n{}", self.story(command));
            told.insisted += usize::from(*times > 0);
            (*times, *is_told) = (*times + 1, false);
            told.ran += 1;
            told.unknown += usize::from(end.is_none());
        }
        for (command, (times, _)) in &runs {
            let mark = command.split(' ').nth(1).unwrap();
            let made = log.lines().filter(|line| *line == mark).count();
            assert!(
                made <= *times,
                "{name}: `{command}` ran {times} times and left {made} marks\n{}",
                self.story(command)
            );
            let ended = |start: &&Value| {
                start["input"]["command"] == **command
                    && ends.get(start["call"].as_str().unwrap()).is_some_and(|end| end["is_error"] == false)
            };
            assert!(made >= self.of("tool.start").filter(ended).count(), "{name}: `{command}` left no mark");
        }
        told
    }
}

impl Record {
    /// What happened to a command and around it, for whoever has to find out why.
    fn story(&self, command: &str) -> String {
        let calls: HashSet<&str> = self
            .of("tool.start")
            .filter(|start| start["input"]["command"] == command)
            .filter_map(|start| start["call"].as_str())
            .collect();
        let told = self.entries.iter().filter(|entry| {
            entry["call"].as_str().is_none_or(|call| calls.contains(call)) && entry["kind"] != "message.start"
        });
        let cut = |entry: &Value| entry.to_string().chars().take(400).collect::<String>();
        told.map(cut).collect::<Vec<_>>().join("\n")
    }
}

/// Whether every call is answered by the message after it, and every answer has its call.
fn is_valid(name: &str, messages: &[Message]) {
    let mut asked: HashSet<String> = HashSet::new();
    for message in messages {
        let answered = message.content.iter().filter_map(|block| match block {
            Block::ToolResult(result) => Some(result.id.to_string()),
            _ => None,
        });
        assert_eq!(answered.collect::<HashSet<_>>(), asked, "{name}: {messages:#?}");
        asked = message.tool_uses().map(|call| call.id.to_string()).collect();
    }
    assert!(asked.is_empty(), "{name}: {messages:#?}");
}
