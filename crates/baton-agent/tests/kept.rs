//! What is kept is what was said: for conversations of every kind, the history in the file is what the model was sent, and a
//! conversation that goes on later goes on byte by byte.

mod scene;

use baton_agent::TurnLimits;
use baton_core::{Block, EventBody, Message, Op, TurnReason};
use futures_util::future::join_all;
use serde_json::{Value, json};

use scene::stage::{HANGS, Stage, assert_extends, assert_valid, close};
use scene::{Scene, prompt};

const CONVERSATIONS: u64 = 60;
const CONVERSATIONS_AT_ONCE: usize = 12;

/// What the person does while a turn runs.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Meanwhile {
    Nothing,
    /// Says something while a tool runs.
    Steers,
    /// Ends the turn while a tool runs.
    Cancels,
    /// Ends the turn in the middle of an answer.
    CutsIn,
    /// Ends the turn after an answer broke off, before the next attempt has come to anything.
    CancelsRetry,
}

/// One turn: what the model says in it, and what the person does.
struct Turn {
    lines: Vec<Value>,
    meanwhile: Meanwhile,
}

fn turn(dice: &mut fastrand::Rng, number: usize) -> Turn {
    let mut lines = Vec::new();
    for at in 0..dice.usize(..5) {
        let text = format!("{number}.{at} says ü\nand more");
        lines.extend(match dice.u8(..9) {
            0 => vec![json!({"say": text, "call": [{"tool": "bash", "input": {"command": format!("echo {number}.{at} >> log")}}]})],
            1 => vec![json!({"think": "hm", "call": [
                {"tool": "glob", "input": {"pattern": "*"}}, {"tool": "ls", "input": {}}, {"tool": "read", "input": {"path": "log"}}]})],
            2 => vec![json!({"call": [{"tool": "bash", "input": "{\"command\": \"echo"}]})],
            3 => vec![json!({"call": [{"tool": "no_such_tool", "input": {"a": 1}}, {"tool": "ls", "input": {}}]})],
            4 => vec![json!({"say": text, "stop": "max_tokens"})],
            5 => vec![json!({"say": text, "cut": 5})],
            6 => vec![json!({"fail": {"status": 529}}), json!({"fail": {"status": 500}})],
            7 => vec![json!({"say": "x".repeat(40_000), "call": [{"tool": "write", "input": {"path": "big", "content": "y".repeat(20_000)}}]})],
            _ => vec![json!({"say": text, "stop": "pause"})],
        });
    }
    let waits = format!("echo started; until [ -e go{number} ]; do sleep 0.01; done; echo ended");
    let waits = json!({"call": [{"tool": "bash", "input": {"command": waits}}, {"tool": "ls", "input": {}}]});
    let meanwhile = match dice.u8(..6) {
        0 => Meanwhile::Steers,
        1 => Meanwhile::Cancels,
        2 => Meanwhile::CutsIn,
        3 => Meanwhile::CancelsRetry,
        _ => Meanwhile::Nothing,
    };
    match meanwhile {
        Meanwhile::Nothing => {}
        Meanwhile::Steers => lines.extend([waits, json!({"say": "heard"})]),
        Meanwhile::Cancels => lines.push(waits),
        // It leaves an answer behind, so the line is used up.
        Meanwhile::CutsIn => lines.push(json!({"say": format!("{HANGS} about {number}")})),
        Meanwhile::CancelsRetry => {
            lines.push(json!({"say": format!("breaks off {number}"), "cut": true}));
            lines.push(json!({"say": format!("{HANGS} about {number} once more")}));
        }
    }
    lines.push(match dice.u8(..8) {
        0 => json!({"fail": {"status": 400, "body": "no"}}),
        1 => json!({"say": "would not", "stop": "refusal"}),
        _ => json!({"say": format!("turn {number} is done")}),
    });
    Turn { lines, meanwhile }
}

/// Plays one turn to its end.
async fn play(stage: &Stage, scene: &mut Scene, number: usize, meanwhile: Meanwhile) -> TurnReason {
    scene.say(prompt, &format!("prompt {number}")).await;
    loop {
        let event = scene.events.next().await.expect("the conversation goes on");
        match (event.body, meanwhile) {
            (EventBody::ToolUpdated { text, .. }, Meanwhile::Cancels) if text.contains("started") => {
                scene.conversation.submit(Op::Cancel).await;
            }
            (EventBody::ToolUpdated { text, .. }, _) if text.contains("started") => {
                if meanwhile == Meanwhile::Steers {
                    let content = vec![Block::text(format!("steered {number}"))];
                    scene.conversation.submit(Op::Steer { content }).await;
                }
                // It may be left over from a turn that ended before it.
                (0..=number).for_each(|turn| std::fs::write(stage.work().join(format!("go{turn}")), "").unwrap());
            }
            (EventBody::MessageDelta { text }, _) if text.contains(HANGS) => {
                scene.conversation.submit(Op::Cancel).await;
            }
            (EventBody::MessageEnded { message, stop: None }, Meanwhile::CancelsRetry)
                if message.text().starts_with("breaks off") =>
            {
                scene.conversation.submit(Op::Cancel).await;
            }
            (EventBody::TurnEnded { reason, .. }, _) => return reason,
            _ => {}
        }
    }
}

#[tokio::test]
async fn the_file_says_what_was_sent_and_later_requests_extend_it() {
    let mut all = Counts::default();
    let seeds: Vec<u64> = (0..CONVERSATIONS).collect();
    for some in seeds.chunks(CONVERSATIONS_AT_ONCE) {
        for one in join_all(some.iter().map(|seed| conversation(*seed))).await {
            all.requests += one.requests;
            all.resumed += one.resumed;
            all.cancelled += one.cancelled;
        }
    }
    let Counts { requests, resumed, cancelled } = all;
    println!("{CONVERSATIONS} conversations, {requests} requests, {resumed} resumed, {cancelled} turns cancelled");
    assert!(resumed > 20 && cancelled > 20);
}

#[derive(Default)]
struct Counts {
    requests: usize,
    resumed: usize,
    cancelled: usize,
}

async fn conversation(seed: u64) -> Counts {
    let mut counts = Counts::default();
    let mut dice = fastrand::Rng::with_seed(seed);
    let turns: Vec<Turn> = (0..dice.usize(2..6)).map(|number| turn(&mut dice, number)).collect();
    // Whatever is left of a turn that was ended is said in the next one.
    let lines = turns.iter().flat_map(|turn| &turn.lines).map(|line| format!("{line}\n"));
    let stage = Stage::new(lines.chain([r#"{"say":"nothing is left","repeat":true}"#.to_owned()]).collect::<String>());
    let mut scene = stage.begin();
    let mut last = None;
    for (number, turn) in turns.iter().enumerate() {
        let before = if number == 0 { Vec::new() } else { stage.history().messages };
        let reason = play(&stage, &mut scene, number, turn.meanwhile).await;
        counts.cancelled += usize::from(reason == TurnReason::Cancelled);
        let sent = stage.take_sent();
        counts.requests += sent.len();
        let said = sent[0].messages.last().unwrap();
        assert!(said.text().contains(&format!("prompt {number}")), "seed {seed}: {said:?}");
        let expected = [&before[..], std::slice::from_ref(said)].concat();
        assert_same(&sent[0].messages, &expected, &format!("seed {seed}, turn {number}: the file, and what was sent"));
        for request in &sent {
            assert_valid(&request.messages);
            if let Some(last) = &last {
                assert_extends(request, last);
            }
            last = Some(request.clone());
        }
        if dice.bool() {
            counts.resumed += 1;
            close(scene).await;
            scene = stage.resume();
        }
    }
    let before = stage.history().messages;
    assert_valid(&before);
    play(&stage, &mut scene, turns.len(), Meanwhile::Nothing).await;
    let sent = stage.take_sent();
    assert_same(&sent[0].messages[..before.len()], &before, &format!("seed {seed}: the end"));
    counts
}

#[track_caller]
fn assert_same(one: &[Message], other: &[Message], name: &str) {
    let differs = one.iter().zip(other).position(|(one, other)| one != other).unwrap_or(one.len().min(other.len()));
    assert!(one == other, "{name} differ at {differs}: {:#?} and {:#?}", one.get(differs), other.get(differs));
}

/// A session that cannot be written is waited for, and then nothing is done; when it can be, nothing of it is missing.
#[tokio::test(start_paused = true)]
async fn nothing_is_done_that_cannot_be_kept() {
    let mark = json!({"call": [{"tool": "write", "input": {"path": "mark", "content": "x"}}]});
    let stage = Stage::new(format!("{mark}\n{{\"say\":\"done\"}}"));
    std::fs::create_dir_all(&stage.state).unwrap();
    // A file where the directory should be stops everybody, whatever they may do.
    std::fs::write(stage.state.join("sessions"), "").unwrap();
    let mut scene = stage.begin();
    scene.say(prompt, "first").await;
    let is_clear = |text: &str| text.contains("cannot write the session") && text.contains("waiting up to 30 s");
    scene.until(|body| matches!(body, EventBody::Noticed { text } if is_clear(text))).await;
    let failed = scene.until(|body| matches!(body, EventBody::Failed(_))).await;
    assert!(
        matches!(&failed, EventBody::Failed(fault) if fault.message.contains("cannot write the session")),
        "{failed:?}"
    );
    assert_eq!(scene.end().await.0, TurnReason::Error);
    assert!(stage.take_sent().is_empty() && !stage.work().join("mark").exists());

    std::fs::remove_file(stage.state.join("sessions")).unwrap();
    scene.say(prompt, "second").await;
    scene.until(|body| matches!(body, EventBody::Noticed { text } if text.contains("nothing of it is missing"))).await;
    assert_eq!(scene.end().await.1, "done");
    let texts: Vec<String> = stage.history().messages.iter().map(Message::text).collect();
    assert!(texts[0].ends_with("first") && texts[1].ends_with("second"), "{texts:?}");
}

/// A turn that ends because of its time leaves what was read of the answer, as one that the person ends.
#[tokio::test(start_paused = true)]
async fn what_was_read_when_the_time_was_up_stays() {
    let mut stage = Stage::new(format!("{{\"say\":\"{HANGS}\"}}\n{{\"say\":\"after\"}}"));
    stage.limits = TurnLimits { seconds: Some(60), ..TurnLimits::default() };
    let mut scene = stage.begin();
    scene.say(prompt, "go").await;
    assert_eq!(scene.end().await.0, TurnReason::Time);
    let before = stage.history().messages;
    scene.say(prompt, "and now?").await;
    assert_eq!(scene.end().await.1, "after");
    let sent = stage.take_sent();
    assert_same(&sent[1].messages[..sent[1].messages.len() - 1], &before, "the file, and what was sent");
    assert_eq!(before.len(), 2);
}
