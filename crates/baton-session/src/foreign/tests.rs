use std::fs;

use baton_core::{Block, EventBody, Message, Role};

use super::*;
use crate::entry::{EntryBody, Own};
use crate::merge::{Merged, Outcome};
use crate::sessions::Sessions;
use crate::view::View;

const CLAUDE: &str = include_str!("../../../../tests/samples/claude_code.jsonl");
const CODEX: &str = include_str!("../../../../tests/samples/codex_rollout.jsonl");

struct Place {
    temp: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { temp: tempfile::tempdir().unwrap() }
    }

    fn sessions(&self) -> Sessions {
        Sessions::new(&self.temp.path().join("state"))
    }

    /// Converts a conversation and merges it.
    fn import(&self, text: &str) -> (Converted, Vec<Merged>) {
        let file = self.temp.path().join("conversation.jsonl");
        fs::write(&file, text).unwrap();
        let sessions = self.sessions();
        let staging = sessions.staging().unwrap();
        let converted = convert(&file, staging.path(), &|_| None).unwrap().unwrap();
        let staged = converted.staged.clone().into_iter().collect();
        let nowhere = self.temp.path().join(".baton");
        let at = "2026-01-01T00:00:00Z".parse().unwrap();
        (converted, sessions.merge(staged, &[], &nowhere, false, at).unwrap())
    }
}

fn texts(messages: &[Message]) -> Vec<String> {
    let text = |message: &Message| {
        let blocks = message.content.iter().map(|block| match block {
            Block::Text { text } => text.clone(),
            Block::Thinking { .. } => "(thinks)".to_owned(),
            Block::ToolUse(call) => format!("{}{}", call.tool, call.input),
            Block::ToolResult(result) => format!("{}{}", if result.is_error { "!" } else { "=" }, result.text),
            Block::Image(_) => "(image)".to_owned(),
            Block::Foreign(_) => "(foreign)".to_owned(),
        });
        let who = if message.role == Role::User { "u: " } else { "a: " };
        format!("{who}{}", blocks.collect::<Vec<_>>().join(" | "))
    };
    messages.iter().map(text).collect()
}

#[test]
fn a_conversation_of_claude_code_goes_on_here() {
    let place = Place::new();
    let (converted, merged) = place.import(CLAUDE);
    assert_eq!(converted.origin, "claude-code:3f1c9a52-7d64-4f0e-9b1a-5c2e8d7f6a10");
    assert_eq!((converted.cwd.as_deref(), converted.turns), (Some("/home/ada/shop"), 3));
    let skipped: Vec<_> = converted.skipped.iter().map(|(what, count)| (what.as_str(), *count)).collect();
    let expected = [
        ("commands of the other agent", 1),
        ("damaged lines", 1),
        ("file-history-snapshot", 1),
        ("lines about the conversation", 1),
        ("lines of subagents", 1),
        ("queue-operation", 1),
        ("system", 1),
    ];
    assert_eq!(skipped, expected);
    let id = converted.staged.unwrap().id;
    assert_eq!(merged, [Merged { what: id.to_string(), outcome: Outcome::Added }]);
    let sessions = place.sessions();
    let loaded = sessions.load(&id).unwrap();
    assert_eq!((loaded.damage.len(), loaded.before.is_none()), (0, true));
    let history = loaded.history();
    assert_eq!(history.title.as_deref(), Some("Rounding of prices in the cart"));
    // The person went back before the picture: that turn is in the file, and not in the history.
    let expected = [
        "u: Prices in the cart are rounded wrongly. Never change the tests.",
        "a: (thinks) | I will look at the cart and its tests. | read{\"path\":\"/home/ada/shop/src/cart.py\"} | \
         bash{\"command\":\"pytest -q\",\"description\":\"Run the tests\"}",
        "u: =     1\tdef total(items):\n     2\t    return round(sum(items)) | !Exit code 1\n1 failed, 3 passed",
        "a: edit{\"path\":\"/home/ada/shop/src/cart.py\",\"old\":\"round(sum(items))\",\"new\":\"round(sum(items), 2)\"}",
        "u: =The file has been updated.",
        "a: Prices keep two digits now.",
        "u: And does the invoice round, too?",
        "a: grep{\"pattern\":\"round\\\\(\"}",
        "u: =src/invoice.py:7:    return round(amount)",
    ];
    assert_eq!(texts(&history.messages), expected);
    assert_eq!(history.carried.said[0].text, "Prices in the cart are rounded wrongly. Never change the tests.");
    let mut kinds = Vec::new();
    let view = View::open(&sessions, &id).unwrap();
    let seen: io::Result<()> = view.entries(|placed| {
        if let EntryBody::Event(EventBody::TurnStarted { .. }) = &placed.entry.body {
            kinds.push((placed.is_on_path, placed.is_branch));
        }
        Ok(())
    });
    seen.unwrap();
    assert_eq!(kinds, [(true, false), (false, false), (true, true)]);
}

#[test]
fn a_conversation_of_codex_goes_on_here() {
    let place = Place::new();
    let (converted, _) = place.import(CODEX);
    assert_eq!(converted.origin, "codex:019b0a77-5f0e-7c31-9a55-0d6c2a4f1e21");
    let skipped: Vec<_> = converted.skipped.iter().map(|(what, count)| (what.as_str(), *count)).collect();
    assert_eq!(skipped, [("facts for the model", 3), ("ghost_snapshot", 1)]);
    let id = converted.staged.unwrap().id;
    let loaded = place.sessions().load(&id).unwrap();
    let history = loaded.history();
    let expected = [
        "u: Why is the build red?",
        "a: (thinks) | bash{\"command\":\"make -s build\"} | bash{\"command\":\"git log -1 '--format=%s %an'\"}",
        "u: !error: missing semicolon\n | =mend the parser Ada",
        "a: apply_patch{\"patch\":\"*** Begin Patch\\n*** Update File: a.c\\n@@\\n-int x\\n+int x;\\n*** End Patch\"}",
        "u: =Success. Updated the following files:\nM a.c\n",
        "a: A semicolon was missing in a.c; the build is green.",
        "u: Commit it.",
        "a: bash{\"command\":\"git commit -am 'mend a.c'\"}",
        "u: ![Baton was stopped while this ran: nobody knows how far it came. Look at what it has done before you do it \
         again.]",
    ];
    assert_eq!(texts(&history.messages), expected);
    let used = loaded.path.iter().find_map(|entry| match &entry.body {
        EntryBody::Event(EventBody::UsageReported { model, usage, .. }) => {
            Some((model.clone(), usage.cache_read_tokens))
        }
        _ => None,
    });
    assert_eq!(used, Some(("openai/gpt-5.2-codex".to_owned(), 8000)));
}

#[test]
fn importing_twice_gives_no_duplicates_and_more_of_it_is_added() {
    for (text, cut) in [(CLAUDE, 14), (CODEX, 19)] {
        let place = Place::new();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let (_, merged) = place.import(&lines[..cut].concat());
        assert_eq!(merged[0].outcome, Outcome::Added);
        let (_, merged) = place.import(&lines[..cut].concat());
        assert_eq!(merged[0].outcome, Outcome::Skipped);
        let (_, merged) = place.import(text);
        assert_eq!(merged[0].outcome, Outcome::Extended, "{merged:?}");
        let (_, merged) = place.import(&lines[..cut].concat());
        assert_eq!(merged[0].outcome, Outcome::Skipped);
        assert_eq!(place.sessions().files().unwrap().len(), 1);
    }
}

#[test]
fn every_beginning_of_a_file_can_be_read() {
    let place = Place::new();
    let staging = place.sessions().staging().unwrap();
    for text in [CLAUDE, CODEX] {
        for cut in (0..text.len()).step_by(97) {
            let file = place.temp.path().join("part.jsonl");
            fs::write(&file, &text.as_bytes()[..cut]).unwrap();
            let converted = convert(&file, staging.path(), &|_| None).unwrap();
            let turns = converted.map_or(0, |converted| converted.turns);
            assert!(turns <= 3, "{turns}");
        }
    }
    let file = place.temp.path().join("other.jsonl");
    fs::write(&file, "{\"a\":1}\nno json\n").unwrap();
    assert_eq!(convert(&file, staging.path(), &|_| None).unwrap(), None);
}

#[test]
fn whatever_a_line_says_it_is_counted() {
    let place = Place::new();
    let odd = r#"{"type":"user","sessionId":"s","message":{"role":"user","content":"hello"},"timestamp":"no time"}
{"type":"user","message":7}
{"type":"assistant","message":{"content":[{"type":"tool_use"},{"type":"server_tool_use"},3]}}
{"type":["a"]}
[]
{"type":"user","message":{"content":[{"type":"tool_result","content":{"a":1}}]}}
"#;
    let (converted, _) = place.import(odd);
    assert_eq!(converted.turns, 1);
    assert_eq!(converted.skipped.get("pieces of answers"), Some(&2));
    let loaded = place.sessions().load(&converted.staged.unwrap().id).unwrap();
    assert!(matches!(&loaded.path[0].body, EntryBody::Own(Own::Header(header)) if header.imported.is_some()));
}
