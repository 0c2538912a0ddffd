//! Conversations as Baton writes them, to be damaged.

use std::path::Path;
use std::sync::Arc;

use baton_core::{
    Block, CallId, Event, EventBody, EventId, EventSource, FixedClock, IdSource, Message, PermissionMode, Role,
    SequentialIds, SessionId, StopReason, Timestamp, ToolUse, TurnReason, Usage, Usd,
};
use baton_session::{Blobs, Carried, Compacted, Header, Log, Own, VERSION};
use serde_json::{Map, json};

/// A session file that nothing has happened to.
pub struct Sample {
    /// The ids of its entries, in order.
    pub ids: Vec<String>,
    /// Its lines, without their breaks.
    pub lines: Vec<Vec<u8>>,
    /// Where a compaction is, and the first entry that it keeps.
    pub compacted: Option<(usize, usize)>,
    pub blobs: Blobs,
    pub source: EventSource,
}

impl Sample {
    pub fn bytes(&self) -> Vec<u8> {
        joined(&self.lines)
    }

    /// The lines up to the last one of a kind.
    pub fn up_to(self, kind: &str) -> Self {
        let mark = format!("\"kind\":\"{kind}\"");
        let last = self.lines.iter().rposition(|line| memchr::memmem::find(line, mark.as_bytes()).is_some()).unwrap();
        let compacted = self.compacted.filter(|(at, _)| *at <= last);
        Self { ids: self.ids[..=last].to_vec(), lines: self.lines[..=last].to_vec(), compacted, ..self }
    }
}

pub fn joined(lines: &[Vec<u8>]) -> Vec<u8> {
    lines.iter().flat_map(|line| line.iter().copied().chain([b'\n'])).collect()
}

/// How much its tools say, and whether it is compacted.
#[derive(Clone, Copy)]
pub struct Shape {
    pub turns: usize,
    pub output_bytes: usize,
    pub is_compacted: bool,
}

pub fn sample(dir: &Path, shape: Shape) -> Sample {
    let ids: Arc<dyn IdSource> = Arc::new(SequentialIds::default());
    let clock = Arc::new(FixedClock(Timestamp::UNIX_EPOCH));
    let session = SessionId::fresh(&*ids);
    let source = EventSource::new(session.clone(), clock, Arc::clone(&ids));
    let blobs = Blobs::new(dir.join("blobs"));
    let header = Header { v: VERSION, session, cwd: "/project".into(), forked: None, imported: None };
    let mut log = Log::new(&dir.join("sessions"), blobs.clone(), header, Timestamp::UNIX_EPOCH, &*ids);
    let mut kept = None;
    for turn in 0..shape.turns {
        if turn == 0 {
            log.append(&started(&source)).unwrap();
        }
        for event in turn_of(&source, turn, shape.output_bytes) {
            if turn + 2 == shape.turns && matches!(event.body, EventBody::TurnStarted { .. }) {
                kept = Some(event.stamp.id.clone());
            }
            log.append(&event).unwrap();
        }
        let said = Own::Said { content: vec![Block::text("use\u{2028}tabs")], by_person: true };
        log.append_own(EventId::fresh(&*ids), Timestamp::UNIX_EPOCH, said).unwrap();
        if shape.is_compacted && turn + 2 == shape.turns {
            let message = Message::user("what stands for it");
            let compacted = Compacted {
                message,
                kept: kept.clone(),
                carried: Carried::default(),
                places: std::collections::BTreeMap::default(),
            };
            let own = Own::Compacted(Box::new(compacted));
            log.append_own(EventId::fresh(&*ids), Timestamp::UNIX_EPOCH, own).unwrap();
        }
    }
    let bytes = std::fs::read(log.path()).unwrap();
    std::fs::remove_file(log.path()).unwrap();
    let lines: Vec<Vec<u8>> =
        bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(<[u8]>::to_vec).collect();
    let id = |line: &Vec<u8>| {
        let value: serde_json::Value = serde_json::from_slice(line).unwrap();
        value["id"].as_str().unwrap().to_owned()
    };
    let ids: Vec<String> = lines.iter().map(id).collect();
    let compacted = shape.is_compacted.then(|| {
        let at = lines.iter().position(|line| memchr::memmem::find(line, b"\"kind\":\"compacted\"").is_some()).unwrap();
        (at, ids.iter().position(|id| *id == kept.as_ref().unwrap().as_str()).unwrap())
    });
    Sample { ids, lines, compacted, blobs, source }
}

fn started(source: &EventSource) -> Event {
    source.lone(EventBody::SessionStarted {
        cwd: "/project".into(),
        model: "script/a".into(),
        mode: PermissionMode::Auto,
        sandbox: "none".into(),
        version: "0".into(),
        tools: vec!["bash".into()],
    })
}

fn turn_of(source: &EventSource, turn: usize, output_bytes: usize) -> Vec<Event> {
    let call = |number: usize| ToolUse {
        id: CallId::new(format!("call_{turn}_{number}")),
        tool: "bash".into(),
        input: json!({"command": format!("echo {turn}{number} >> \"log\"")}),
        malformed: None,
    };
    let calls = [call(0), call(1)];
    let asks = Message { role: Role::Assistant, content: calls.iter().cloned().map(Block::ToolUse).collect() };
    let mut bodies = vec![
        EventBody::TurnStarted { message: Message::user(format!("Never push. ü {turn}")), context: 0 },
        EventBody::StepStarted { step: 1 },
        EventBody::MessageStarted,
        EventBody::MessageEnded { message: asks, stop: Some(StopReason::ToolUse) },
    ];
    bodies.extend(calls.iter().map(|call| EventBody::ToolStarted {
        call: call.id.clone(),
        tool: call.tool.clone(),
        input: call.input.clone(),
    }));
    bodies.extend(calls.iter().rev().map(|call| EventBody::ToolEnded {
        call: call.id.clone(),
        tool: call.tool.clone(),
        output: format!("{}\n", call.id).repeat(output_bytes / 9),
        images: Vec::new(),
        is_error: false,
        duration_ms: 1,
        meta: Map::new(),
    }));
    let message = Message::assistant("done,\u{2028}\u{2029}all \"of\" it");
    bodies.push(EventBody::MessageEnded { message, stop: Some(StopReason::EndTurn) });
    bodies.push(EventBody::TurnEnded {
        reason: TurnReason::Done,
        text: "done".into(),
        answer: None,
        usage: Usage::default(),
        cost_usd: Usd::default(),
        steps: 1,
        duration_ms: 1,
    });
    bodies.into_iter().map(|body| source.lone(body)).collect()
}
