//! Everything that crosses a boundary survives JSON, and events have the documented form.

use std::fmt::Debug;
use std::sync::Arc;

use baton_core::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

fn check<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) {
    let text = serde_json::to_string(value).unwrap();
    assert!(!text.contains('\n'), "one line: {text}");
    assert_eq!(&serde_json::from_str::<T>(&text).unwrap(), value, "{text}");
}

fn text() -> impl Strategy<Value = String> + Clone {
    prop_oneof![any::<String>(), "[a-z0-9 \n\u{2028}\"\\\\]{0,20}"]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has no such number", |n| n.is_finite()).prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((text(), inner), 0..4).prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

fn object() -> impl Strategy<Value = Map<String, Value>> {
    vec((text(), value()), 0..4).prop_map(|pairs| pairs.into_iter().collect())
}

fn image() -> impl Strategy<Value = Image> {
    (text(), text()).prop_map(|(media_type, data)| Image { media_type, data })
}

fn call_id() -> impl Strategy<Value = CallId> {
    text().prop_map(CallId::new)
}

fn block() -> impl Strategy<Value = Block> {
    let signature = (text(), text()).prop_map(|(wire, token)| Signature { wire, token });
    prop_oneof![
        text().prop_map(Block::text),
        (text(), option::of(signature)).prop_map(|(text, signature)| Block::Thinking { text, signature }),
        (call_id(), text(), object(), option::of(text())).prop_map(|(id, tool, input, malformed)| {
            Block::ToolUse(ToolUse { id, tool, input: input.into(), malformed })
        }),
        (call_id(), text(), vec(image(), 0..2), any::<bool>())
            .prop_map(|(id, text, images, is_error)| Block::ToolResult(ToolResult { id, text, images, is_error })),
        image().prop_map(Block::Image),
        (text(), text()).prop_map(|(wire, text)| Block::Foreign(Foreign { wire, raw: text.into() })),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    (prop_oneof![Just(Role::User), Just(Role::Assistant)], vec(block(), 0..4))
        .prop_map(|(role, content)| Message { role, content })
}

fn usage() -> impl Strategy<Value = Usage> {
    prop::array::uniform5(0..1_000_000_000_u64).prop_map(|[input, output, read, write, reasoning]| Usage {
        input_tokens: input,
        output_tokens: output,
        cache_read_tokens: read,
        cache_write_tokens: write,
        reasoning_tokens: reasoning,
    })
}

fn usd() -> impl Strategy<Value = Usd> {
    (0.0..1e6_f64).prop_map(|dollars| Usd::from_dollars(dollars).unwrap())
}

fn tier() -> impl Strategy<Value = Tier> {
    use Tier::*;
    prop::sample::select(vec![Transient, Permanent, UserFixable, RateLimited, Degraded])
}

fn fault() -> impl Strategy<Value = Fault> {
    use Area::*;
    let area = prop::sample::select(vec![Input, Provider, Cap, Workspace, Person, Internal]);
    (tier(), area, text(), option::of(text())).prop_map(|(tier, area, message, hint)| Fault {
        tier,
        area,
        message,
        hint,
    })
}

fn answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        Just(Answer::Once),
        Just(Answer::Session),
        Just(Answer::Always),
        option::of(text()).prop_map(|reason| Answer::Reject { reason }),
        text().prop_map(|text| Answer::Text { text }),
    ]
}

fn reason() -> impl Strategy<Value = TurnReason> {
    use TurnReason::*;
    prop::sample::select(vec![Done, Failed, Error, Steps, Budget, Time, Cancelled, Blocked])
}

fn at() -> impl Strategy<Value = Timestamp> {
    (0..4_000_000_000_i64, 0..1000).prop_map(|(s, ms)| Timestamp::new(s, ms * 1_000_000).unwrap())
}

fn body() -> impl Strategy<Value = EventBody> {
    use EventBody as E;
    use StopReason as S;
    let mode = prop::sample::select(PermissionMode::ALL.to_vec());
    let stop = option::of(prop::sample::select(vec![S::EndTurn, S::ToolUse, S::MaxTokens, S::Pause, S::Refusal]));
    let access = prop::sample::select(Access::ALL.to_vec());
    let (approval, child) = (text().prop_map(ApprovalId::new), text().prop_map(SessionId::new));
    prop_oneof![
        (text(), text(), mode, text(), vec(text(), 0..3)).prop_map(|(cwd, model, mode, version, tools)| {
            let sandbox = version.clone();
            E::SessionStarted { cwd, model, mode, sandbox, version, tools }
        }),
        (message(), 0..3u32).prop_map(|(message, context)| E::TurnStarted { message, context }),
        any::<u32>().prop_map(|step| E::StepStarted { step }),
        Just(E::MessageStarted),
        text().prop_map(|text| E::MessageDelta { text }),
        text().prop_map(|text| E::ThinkingDelta { text }),
        (message(), stop).prop_map(|(message, stop)| E::MessageEnded { message, stop }),
        (call_id(), text(), value()).prop_map(|(call, tool, input)| E::ToolStarted { call, tool, input }),
        (call_id(), text()).prop_map(|(call, text)| E::ToolUpdated { call, text }),
        (call_id(), text(), text(), vec(image(), 0..2), any::<bool>(), any::<u64>(), object()).prop_map(
            |(call, tool, output, images, is_error, duration_ms, meta)| E::ToolEnded {
                call,
                tool,
                output,
                images,
                is_error,
                duration_ms,
                meta,
            }
        ),
        (approval.clone(), call_id(), text(), access, text(), option::of(text()), vec(text(), 0..3)).prop_map(
            |(approval, call, tool, access, reason, what, options)| {
                E::ApprovalAsked { approval, call, tool, access, reason, what, rules: options.clone(), options }
            }
        ),
        (approval, answer()).prop_map(|(approval, answer)| E::ApprovalAnswered { approval, answer }),
        (any::<u64>(), any::<u64>())
            .prop_map(|(before_tokens, after_tokens)| E::Compacted { before_tokens, after_tokens }),
        (text(), child.clone(), text()).prop_map(|(agent, child, prompt)| E::SubagentStarted { agent, child, prompt }),
        (child, reason(), text()).prop_map(|(child, reason, text)| E::SubagentEnded { child, reason, text }),
        (text(), usage(), option::of(usd())).prop_map(|(model, usage, cost_usd)| E::UsageReported {
            model,
            usage,
            cost_usd
        }),
        (any::<u32>(), any::<u32>(), any::<u64>(), at(), tier(), text()).prop_map(
            |(attempt, attempts_max, delay_ms, until, tier, reason)| E::Retrying {
                attempt,
                attempts_max,
                delay_ms,
                until,
                tier,
                reason,
            }
        ),
        text().prop_map(|text| E::Noticed { text }),
        fault().prop_map(E::Failed),
        any::<u32>().prop_map(|step| E::StepEnded { step }),
        (reason(), text(), option::of(object().prop_map(Value::from)), usage(), usd(), any::<u32>(), any::<u64>())
            .prop_map(|(reason, text, answer, usage, cost_usd, steps, duration_ms)| E::TurnEnded {
                reason,
                text,
                answer,
                usage,
                cost_usd,
                steps,
                duration_ms,
            }),
    ]
}

proptest! {
    #[test]
    fn events_survive(id in text(), session in text(), item in text(), at in at(), body in body()) {
        let stamp = EventStamp {
            v: 1, id: EventId::new(id), session: SessionId::new(session), item: ItemId::new(item), at,
        };
        check(&Event { stamp, body });
    }

    #[test]
    fn ops_survive(content in vec(block(), 0..3), approval in text(), answer in answer()) {
        check(&Op::Prompt { content: content.clone() });
        check(&Op::Steer { content });
        check(&Op::Cancel);
        check(&Op::Answer { approval: ApprovalId::new(approval), answer });
    }

    #[test]
    fn prices_and_tools_survive(input in usd(), output in usd(), cache_read in option::of(usd()), schema in object()) {
        check(&Price { input, output, cache_read, cache_write: None });
        check(&ToolSpec { name: "n".into(), description: "d".into(), input_schema: schema.into() });
    }

    #[test]
    fn a_price_is_never_rounded_down(price in usd(), tokens in 0..1_000_000_000_u64) {
        let usage = Usage { input_tokens: tokens, ..Usage::default() };
        let cost = Price { input: price, output: price, cache_read: None, cache_write: None }.of(&usage);
        prop_assert!(cost.buys(price).is_none_or(|bought| bought >= tokens));
    }
}

#[test]
fn events_have_the_documented_form() {
    let clock = Arc::new(FixedClock("2026-01-02T03:04:05Z".parse().unwrap()));
    let ids: Arc<SequentialIds> = Arc::default();
    let source = EventSource::new(SessionId::fresh(&*ids), clock, ids);
    let item = ItemId::new("itm_1");
    let end = EventBody::TurnEnded {
        reason: TurnReason::Done,
        text: "ready".into(),
        answer: None,
        usage: Usage { input_tokens: 10, output_tokens: 5, ..Usage::default() },
        cost_usd: Usd::from_dollars(0.25).unwrap(),
        steps: 2,
        duration_ms: 40,
    };
    assert_eq!(
        serde_json::to_value(source.event(&item, end)).unwrap(),
        json!({
            "v": 1, "id": "evt_00000000000000000000000002", "session": "ses_00000000000000000000000001",
            "item": "itm_1", "at": "2026-01-02T03:04:05Z", "kind": "turn.end", "reason": "done", "text": "ready",
            "usage": {"input_tokens": 10, "output_tokens": 5, "cache_read_tokens": 0, "cache_write_tokens": 0,
                      "reasoning_tokens": 0},
            "cost_usd": 0.25, "steps": 2, "duration_ms": 40,
        })
    );
    let lone = serde_json::to_value(source.lone(EventBody::MessageStarted)).unwrap();
    assert_eq!(lone["kind"], "message.start");
}

#[test]
fn money_reads_well() {
    let shown = |dollars| Usd::from_dollars(dollars).unwrap().to_string();
    assert_eq!([shown(0.0), shown(0.00123), shown(12.3456)], ["$0", "$0.0012", "$12.35"]);
    assert!(Usd::from_dollars(-1.0).is_none() && Usd::from_dollars(f64::NAN).is_none());
}

#[test]
fn permission_modes_take_the_names_of_other_agents() {
    for mode in PermissionMode::ALL {
        assert_eq!(mode.name().parse(), Ok(mode));
    }
    assert_eq!("bypassPermissions".parse(), Ok(PermissionMode::Yolo));
    assert!("root".parse::<PermissionMode>().unwrap_err().contains("accept-edits"));
}
