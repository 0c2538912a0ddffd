use std::time::Duration;

use baton_core::{AgentRole, FixedClock, Role, Timestamp};
use tokio::time::Instant;

use super::*;
use crate::budget::Caps;
use crate::rehearsal::RehearsalProvider;
use crate::script::Script;

fn clock() -> Arc<dyn Clock> {
    Arc::new(FixedClock(Timestamp::UNIX_EPOCH))
}

fn request() -> Request {
    Request {
        model: "m".into(),
        system: "s".into(),
        tools: Vec::new(),
        messages: vec![Message::user("hi")],
        output_max: 1_000,
        effort: None,
        web_search: false,
        abilities: crate::request::Abilities { images: true, thinking: true },
        cache_key: "k".into(),
        role: AgentRole::default(),
        failures: 0,
        past: crate::request::Past::default(),
    }
}

/// Plays a script through a gate; returns the outcome and what was told meanwhile.
async fn play(script: &str, budgets: &[Budget]) -> (Result<Answer, LlmError>, Vec<CallEvent>) {
    let gate = Gate::new(RetryPolicy::default(), clock());
    let provider = RehearsalProvider::new(Script::parse("test", script).unwrap(), clock());
    let model = gate.model("script/test".parse().unwrap(), None, Arc::new(provider));
    let (sender, mut events) = mpsc::channel(100);
    let outcome = gate.call(&model, &mut request(), budgets, &sender, &CancellationToken::new()).await;
    drop(sender);
    let mut told = Vec::new();
    while let Some(event) = events.recv().await {
        told.push(event);
    }
    (outcome, told)
}

#[tokio::test(start_paused = true)]
async fn a_rate_limit_is_waited_out_with_a_countdown() {
    let start = Instant::now();
    let script = r#"{"fail":{"status":429,"retry_after":7}}
                    {"say":"there"}"#;
    let (outcome, told) = play(script, &[]).await;
    assert_eq!(outcome.unwrap().message, Message::assistant("there"));
    assert_eq!(start.elapsed(), Duration::from_secs(7));
    let CallEvent::Retrying { again, until, tier, .. } = &told[0] else { panic!("{told:?}") };
    assert_eq!((again.attempt, again.delay, *tier), (1, Duration::from_secs(7), Tier::RateLimited));
    assert_eq!(*until, Timestamp::from_second(7).unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_cut_answer_is_kept_told_and_asked_for_again() {
    let script = r#"{"say":"half an ans","cut":true}
                    {"say":"whole"}"#;
    let (outcome, told) = play(script, &[]).await;
    assert_eq!(outcome.unwrap().message.text(), "whole");
    assert!(matches!(&told[0], CallEvent::Delta(Delta::Text(text)) if text == "half an ans"));
    let CallEvent::Broken { partial: Some(partial), usage } = &told[1] else { panic!("{told:?}") };
    assert_eq!((partial.role, partial.text()), (Role::Assistant, "half an ans".to_owned()));
    assert!(usage.input_tokens > 0 && usage.output_tokens == 4);
    assert!(matches!(&told[2], CallEvent::Retrying { tier: Tier::Transient, .. }));
}

#[tokio::test(start_paused = true)]
async fn attempts_end() {
    let (outcome, told) = play(r#"{"fail":{"status":529},"repeat":true}"#, &[]).await;
    let error = outcome.unwrap_err();
    assert_eq!((error.tier, error.failures, told.len()), (Tier::Degraded, 3, 2));
}

#[tokio::test(start_paused = true)]
async fn a_bad_request_is_not_repeated() {
    let (outcome, told) = play(r#"{"fail":{"status":400,"body":"no such tool"}}"#, &[]).await;
    assert_eq!(outcome.unwrap_err().message, "script answered 400: no such tool");
    assert!(told.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_a_broken_answer_cost_is_counted() {
    let budget = Budget::new("session", Caps::default());
    let script = r#"{"say":"half an answer","cut":true}
                    {"say":"whole","usage":{"input":10,"output":5}}"#;
    play(script, std::slice::from_ref(&budget)).await.0.unwrap();
    assert_eq!(budget.spent().0, 15 + estimate_tokens(request().prompt_bytes()) + estimate_tokens(14));
}

#[tokio::test]
async fn a_cancelled_call_keeps_and_charges_what_had_arrived() {
    let gate = Gate::new(RetryPolicy::default(), clock());
    let script = Script::parse("test", r#"{"say":"half an answer","fail":{"status":429,"retry_after":100}}"#).unwrap();
    let model = gate.model("script/test".parse().unwrap(), None, Arc::new(RehearsalProvider::new(script, clock())));
    let (sender, mut events) = mpsc::channel(100);
    let (cancel, budget) = (CancellationToken::new(), Budget::new("session", Caps::default()));
    let mut request = request();
    let call = gate.call(&model, &mut request, std::slice::from_ref(&budget), &sender, &cancel);
    let cancelling = async {
        while !matches!(events.recv().await, Some(CallEvent::Retrying { .. })) {}
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(call, cancelling);
    assert_eq!(outcome.unwrap_err().kind, LlmErrorKind::Cancelled);
    assert!(budget.spent().0 > 4);
}

#[tokio::test]
async fn the_tighter_of_two_budgets_counts() {
    let (wide, tight) =
        (Budget::new("process", Caps::default()), Budget::new("session", Caps { tokens: Some(800), usd: None }));
    let line = r#"{"say":"ok","usage":{"input":300,"output":300},"repeat":true}"#;
    let both = [wide.clone(), tight.clone()];
    play(line, &both).await.0.unwrap();
    let refused = play(line, &both).await.0.unwrap_err();
    assert_eq!((refused.kind, wide.spent().0), (LlmErrorKind::Budget, 600));
    assert!(refused.message.starts_with("the session budget"), "{refused}");
    // What the refused call had set aside on the other level is free again.
    play(line, std::slice::from_ref(&wide)).await.0.unwrap();
    assert_eq!(wide.spent().0, 1_200);
}
