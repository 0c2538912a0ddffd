//! Compaction after compaction: what the person said, decided and started is still there, word by word.

mod scene;

use baton_agent::CompactionSettings;
use baton_core::{Answer, EventBody, Message, Op, PermissionMode, TurnReason};
use baton_llm::Request;
use serde_json::json;

use scene::stage::{Stage, assert_extends, assert_valid, close};
use scene::{Scene, prompt};

const ROUNDS: usize = 50;
/// After so many rounds Baton is started anew.
const RESUMED_EVERY: usize = 10;

/// What the person says in a round; each is another instruction, in characters that are easily lost.
fn instruction(round: usize) -> String {
    format!(
        "Standing order {round}: never touch `src/{round}.rs`,\n  not even \"once\" — <b>ever</b>\u{2028}& keep it {round}% exact."
    )
}

fn todos(round: usize) -> serde_json::Value {
    json!([{"text": format!("write part {round}"), "status": "doing"}, {"text": format!("test part {round}")}])
}

fn has_summary(round: usize) -> bool {
    round % 10 != 4 && round % 10 != 8
}

fn script() -> String {
    let mut lines = vec![
        // Now and then no summary can be had: the call fails, or says nothing.
        json!({"role": "compact", "when": "dwell on this: part [0-9]*4\n", "fail": {"status": 400, "body": "no"}, "repeat": true}),
        json!({"role": "compact", "when": "dwell on this: part [0-9]*8\n", "say": "", "repeat": true}),
        json!({"call": [{"tool": "bash_background", "input": {"command": "echo up; sleep 1000", "until": "up"}}]}),
        json!({"say": "it runs"}),
    ];
    for round in 0..ROUNDS {
        let write = |name: &str| json!({"tool": "write", "input": {"path": format!("{name}{round}"), "content": "x"}});
        lines.push(json!({"call": [{"tool": "todo", "input": {"items": todos(round)}}]}));
        lines.push(json!({"call": [write("no")]}));
        lines.push(json!({"call": [write("yes"), {"tool": "glob", "input": {"pattern": "*"}}]}));
        lines.push(json!({"say": format!("round {round} is done")}));
        if has_summary(round) {
            lines.push(json!({"role": "compact", "say": format!("### Goal\nsummary {round}")}));
        }
    }
    lines.push(json!({"say": "all is done"}));
    lines.iter().map(|line| format!("{line}\n")).collect::<Vec<_>>().concat()
}

async fn round(scene: &mut Scene, round: usize) {
    scene.say(prompt, &instruction(round)).await;
    let (approval, ..) = scene.asked().await;
    let reason = Some(format!("because of {round} – \"quoted\""));
    scene.answer(approval, Answer::Reject { reason }).await;
    let (approval, ..) = scene.asked().await;
    scene.answer(approval, Answer::Session).await;
    assert_eq!(scene.end().await, (TurnReason::Done, format!("round {round} is done")));
    let focus = round.is_multiple_of(2).then(|| format!("part {round}"));
    scene.conversation.submit(Op::Compact { focus }).await;
    assert_eq!(scene.end().await, (TurnReason::Done, "the conversation is compacted".to_owned()));
}

/// Everything that must be in the first message after so many rounds.
fn assert_remembers(first: &Message, rounds: usize) {
    let text = first.text();
    assert!(text.contains("the facts"), "the first context is there anew: {text}");
    for round in 0..rounds {
        assert!(text.contains(&format!("<person>\n{}\n</person>", instruction(round))), "{round} of {rounds}: {text}");
        assert!(
            text.contains(&format!("- no{round} (because of {round} – \"quoted\")")),
            "{round} of {rounds}: {text}"
        );
        assert!(text.contains(&format!("- Edit(./yes{round})\n")), "{round} of {rounds}: {text}");
        assert!(text.contains(&format!("/yes{round}\n")), "changed files, {round} of {rounds}: {text}");
    }
    let last = rounds - 1;
    assert!(text.contains(&format!("## To do\n- [~] write part {last}\n- [ ] test part {last}\n")), "{text}");
    let summary = text.split("\n## Summary\n").nth(1).unwrap();
    if has_summary(last) {
        assert_eq!(summary.trim(), format!("### Goal\nsummary {last}"));
    } else {
        assert!(summary.starts_with("No model could sum it up"), "{summary}");
    }
}

#[tokio::test]
async fn after_fifty_compactions_nothing_is_forgotten() {
    let mut stage = Stage::new(script());
    (stage.mode, stage.is_attended) = (PermissionMode::Ask, true);
    let mut scene = stage.begin();
    scene.say(prompt, "start the server").await;
    let (approval, ..) = scene.asked().await;
    scene.answer(approval, Answer::Once).await;
    let output = scene.tool_output().await;
    assert_eq!(scene.end().await.1, "it runs", "{output}");
    for number in 0..ROUNDS {
        round(&mut scene, number).await;
        let asked = stage.take_all_sent();
        let summary = asked.last().unwrap();
        let dwells = summary.messages.last().unwrap().text().contains(&format!("dwell on this: part {number}"));
        assert_eq!((summary.role.as_str(), dwells), ("compact", number % 2 == 0));
        for request in &asked {
            assert_valid(&request.messages);
        }
        let history = stage.history();
        assert_valid(&history.messages);
        assert_remembers(&history.messages[0], number + 1);
        let is_listed =
            history.messages[0].text().contains("## Running in the background\n- 1: echo up; sleep 1000 (process ");
        assert_eq!(is_listed, number < RESUMED_EVERY, "it ended with the Baton that started it");
        if (number + 1) % RESUMED_EVERY == 0 {
            close(scene).await;
            scene = stage.resume();
        }
    }
    // What was allowed for the session needs no question, and the last summary is what the model reads.
    scene.say(prompt, "is it all there?").await;
    assert_eq!(scene.end().await.1, "all is done");
    let sent = stage.take_sent();
    assert_remembers(&sent[0].messages[0], ROUNDS);
    let size = sent[0].messages[0].text().len();
    println!("{ROUNDS} compactions: the first message has {size} bytes");
}

/// Compacts by itself when this many tokens are used beyond those of an empty conversation.
fn compacts_at(stage: &mut Stage, tokens: u64, empty: &Request) {
    let used = empty.prompt_bytes() as u64 / 3;
    stage.compaction =
        CompactionSettings { auto: true, reserve_tokens: Some(128_000 - used - tokens), keep_tokens: Some(tokens / 3) };
}

#[tokio::test]
async fn a_history_is_compacted_when_it_gets_long_and_requests_grow_between() {
    let mut lines: Vec<_> = (0..60)
        .map(|step| match step % 6 {
            5 => json!({"say": format!("turn {step} is done")}),
            _ => json!({"say": format!("{step} {}", "word ".repeat(100)), "call": [
                {"tool": "glob", "input": {"pattern": format!("{step}*")}},
                {"tool": "bash", "input": {"command": format!("echo {step} {}", "out ".repeat(100))}}]}),
        })
        .collect();
    lines.insert(0, json!({"role": "compact", "say": "summed up", "repeat": true}));
    lines.push(json!({"say": "the end"}));
    let mut stage = Stage::new(lines.iter().map(|line| format!("{line}\n")).collect::<Vec<_>>().concat());
    let mut scene = stage.begin();
    scene.say(prompt, "Begin. Order 0.").await;
    scene.end().await;
    close(scene).await;
    let first = stage.take_sent();
    compacts_at(&mut stage, 1_500, &first[0]);
    let mut scene = stage.resume();
    let (mut compactions, mut last) = (0, first.last().unwrap().clone());
    for turn in 1..10 {
        scene.say(prompt, &format!("Order {turn}.")).await;
        assert_eq!(scene.end().await.0, TurnReason::Done);
        for request in stage.take_sent() {
            assert_valid(&request.messages);
            let text = request.messages[0].text();
            if request.messages[0] == last.messages[0] {
                assert_extends(&request, &last);
            } else {
                compactions += 1;
                (0..turn).for_each(|said| assert!(text.contains(&format!("Order {said}.")), "{text}"));
                assert!(text.contains("summed up"), "{text}");
            }
            last = request;
        }
        let history = stage.history().messages;
        assert!(history.starts_with(&last.messages), "the file says what was sent");
        if turn % 3 == 0 {
            close(scene).await;
            scene = stage.resume();
        }
    }
    println!("{compactions} compactions in 9 turns");
    assert!(compactions >= 4, "{compactions}");
}

#[tokio::test]
async fn what_a_provider_finds_too_long_is_compacted_and_goes_on() {
    let script = r#"{"say":"a long answer"}
        {"when":"second","fail":{"status":400,"body":"prompt is too long: 210000 tokens"}}
        {"role":"compact","say":"summed up"}
        {"when":"(?s)summed up|second","say":"went on"}
        {"say":"and on"}"#;
    let stage = Stage::new(script);
    let mut scene = stage.begin();
    scene.say(prompt, "first").await;
    scene.end().await;
    scene.say(prompt, "second").await;
    scene.until(|body| matches!(body, EventBody::Compacted { .. })).await;
    assert_eq!(scene.end().await, (TurnReason::Done, "went on".to_owned()));
    let sent = stage.take_sent();
    let text = sent.last().unwrap().messages.iter().map(Message::text).collect::<String>();
    assert!(text.contains("first") && text.contains("second") && text.contains("summed up"), "{text}");
    close(scene).await;
    let mut scene = stage.resume();
    scene.say(prompt, "third").await;
    assert_eq!(scene.end().await, (TurnReason::Done, "and on".to_owned()));
    assert_extends(&stage.take_sent()[0], sent.last().unwrap());
}

#[tokio::test]
async fn a_history_that_stays_too_long_ends_the_turn_with_the_providers_words() {
    let script = r#"{"say":"short"}
        {"fail":{"status":400,"body":"prompt is too long: 210000 tokens"},"repeat":true}
        {"role":"compact","say":"summed up","repeat":true}"#;
    let stage = Stage::new(script);
    let mut scene = stage.begin();
    scene.say(prompt, "first").await;
    scene.end().await;
    scene.say(prompt, "second").await;
    let failed = scene.until(|body| matches!(body, EventBody::Failed(_))).await;
    assert!(matches!(&failed, EventBody::Failed(fault) if fault.message.contains("too long")), "{failed:?}");
    assert_eq!(scene.end().await.0, TurnReason::Error);
}
