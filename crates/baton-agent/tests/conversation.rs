//! What a surface sees of a conversation: order, steering, queues, cancellation. The model is a script.

mod scene;

use baton_core::{Answer, ApprovalId, Block, EventBody, Op, TurnReason};

use scene::{Scene, prompt};

fn steer(content: Vec<Block>) -> Op {
    Op::Steer { content }
}

/// A command that runs until the test lets it end.
const TWO_CALLS: &str = r#"{"call":[{"tool":"bash","input":{"command":"echo started; while [ ! -e go ]; do sleep 0.01; done; echo finished"}},{"tool":"bash","input":{"command":"echo second"}}]}
{"when":"use tabs","say":"tabs it is"}
{"say":"nobody spoke"}"#;

#[tokio::test]
async fn what_a_person_says_meanwhile_is_heard_after_the_current_tool() {
    let mut scene = Scene::new(TWO_CALLS);
    scene.say(prompt, "go").await;
    scene.until(|body| matches!(body, EventBody::ToolUpdated { .. })).await;
    scene.say(steer, "use tabs").await;
    std::fs::write(scene.dir.path().join("go"), "").unwrap();
    assert!(scene.tool_output().await.contains("finished"));
    assert!(scene.tool_output().await.contains("the person has something to say"));
    assert_eq!(scene.end().await, (TurnReason::Done, "tabs it is".to_owned()));
}

#[tokio::test]
async fn steering_without_a_turn_is_a_prompt() {
    let mut scene = Scene::new(r#"{"when":"hello","say":"hi"}"#);
    scene.say(steer, "hello").await;
    assert_eq!(scene.end().await, (TurnReason::Done, "hi".to_owned()));
}

#[tokio::test]
async fn prompts_queue_behind_the_running_turn() {
    let script = "{\"say\":\"one\",\"delay_ms\":20}\n{\"when\":\"second\",\"say\":\"two\"}";
    let mut scene = Scene::new(script);
    scene.say(prompt, "first").await;
    scene.say(prompt, "second").await;
    assert_eq!(scene.end().await.1, "one");
    assert_eq!(scene.end().await.1, "two");
}

#[tokio::test]
async fn a_cancelled_turn_leaves_a_history_that_goes_on() {
    let script = r#"{"call":[{"tool":"bash","input":{"command":"echo started; sleep 1000"}},{"tool":"ls","input":{}}]}
{"when":"(?s)cancelled.*not run: the turn was ended.*and now","say":"going on"}"#;
    let mut scene = Scene::new(script);
    scene.say(prompt, "go").await;
    scene.until(|body| matches!(body, EventBody::ToolUpdated { .. })).await;
    scene.conversation.submit(Op::Cancel).await;
    assert_eq!(scene.end().await.0, TurnReason::Cancelled);
    scene.say(prompt, "and now?").await;
    assert_eq!(scene.end().await, (TurnReason::Done, "going on".to_owned()));
}

#[tokio::test]
async fn a_failed_turn_does_not_repeat_the_line_that_failed() {
    let script = "{\"fail\":{\"status\":400,\"body\":\"no\"}}\n{\"when\":\"again\",\"say\":\"better\"}";
    let mut scene = Scene::new(script);
    scene.say(prompt, "go").await;
    assert_eq!(scene.end().await.0, TurnReason::Error);
    scene.say(prompt, "again").await;
    assert_eq!(scene.end().await, (TurnReason::Done, "better".to_owned()));
}

#[tokio::test]
async fn dropping_the_handle_ends_everything() {
    let mut scene = Scene::new(r#"{"say":"late","delay_ms":600000}"#);
    scene.say(prompt, "go").await;
    scene.until(|body| matches!(body, EventBody::StepStarted { .. })).await;
    let Scene { conversation, mut events, dir: _dir } = scene;
    drop(conversation);
    let mut last = None;
    while let Some(event) = events.next().await {
        last = Some(event.body);
    }
    assert!(matches!(last, Some(EventBody::TurnEnded { reason: TurnReason::Cancelled, .. })), "{last:?}");
}

#[tokio::test]
async fn twenty_reads_run_beside_each_other_and_keep_their_order() {
    let calls: Vec<String> = (0..20).map(|n| format!(r#"{{"tool":"glob","input":{{"pattern":"f{n}*"}}}}"#)).collect();
    let script = format!("{{\"call\":[{}]}}\n{{\"say\":\"ok\"}}", calls.join(","));
    let mut scene = Scene::new(&script);
    for n in 0..20 {
        std::fs::write(scene.dir.path().join(format!("f{n}x")), "").unwrap();
    }
    scene.say(prompt, "go").await;
    let first = scene.until(|body| matches!(body, EventBody::ToolStarted { .. })).await;
    assert!(matches!(first, EventBody::ToolStarted { call, .. } if call.as_str() == "call_0_0"));
    let second = scene.until(|body| matches!(body, EventBody::ToolStarted { .. } | EventBody::ToolEnded { .. })).await;
    assert!(matches!(second, EventBody::ToolStarted { .. }), "the second starts before the first has ended");
    assert_eq!(scene.end().await.0, TurnReason::Done);
}

#[tokio::test]
async fn the_person_answers_a_question() {
    let script = r#"{"call":[{"tool":"ask_user","input":{"question":"Tabs?","options":["yes","no"]}}]}
                    {"when":"^no$","say":"spaces it is"}"#;
    let mut scene = Scene::new(script);
    scene.say(prompt, "go").await;
    let asked = scene.until(|body| matches!(body, EventBody::ApprovalAsked { .. })).await;
    let EventBody::ApprovalAsked { approval, reason, options, .. } = asked else { unreachable!() };
    assert_eq!((reason.as_str(), options), ("Tabs?", vec!["yes".to_owned(), "no".to_owned()]));
    let answer = Answer::Text { text: "no".to_owned() };
    // An answer to nothing is heard by nobody.
    let stale = ApprovalId::new("apr_0");
    scene.conversation.submit(Op::Answer { approval: stale, answer: answer.clone() }).await;
    scene.conversation.submit(Op::Answer { approval, answer }).await;
    assert_eq!(scene.end().await, (TurnReason::Done, "spaces it is".to_owned()));
}

#[tokio::test]
async fn a_question_ends_with_its_turn() {
    let mut scene = Scene::new(r#"{"call":[{"tool":"ask_user","input":{"question":"Tabs?"}}]}"#);
    scene.say(prompt, "go").await;
    scene.until(|body| matches!(body, EventBody::ApprovalAsked { .. })).await;
    scene.conversation.submit(Op::Cancel).await;
    assert_eq!(scene.end().await.0, TurnReason::Cancelled);
}

#[tokio::test]
async fn the_person_decides_about_a_repetition() {
    let script = r#"{"call":[{"tool":"bash","input":{"command":"echo x >> log"}}],"repeat":5}
                    {"say":"done"}"#;
    let mut scene = Scene::new(script);
    scene.say(prompt, "go").await;
    for answer in [Answer::Reject { reason: Some("no more".to_owned()) }, Answer::Session] {
        let asked = scene.until(|body| matches!(body, EventBody::ApprovalAsked { .. })).await;
        let EventBody::ApprovalAsked { approval, .. } = asked else { unreachable!() };
        scene.conversation.submit(Op::Answer { approval, answer }).await;
    }
    assert_eq!(scene.end().await, (TurnReason::Done, "done".to_owned()));
    assert_eq!(std::fs::read_to_string(scene.dir.path().join("log")).unwrap(), "x\n".repeat(4));
}
