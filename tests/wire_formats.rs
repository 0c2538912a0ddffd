//! All four wire formats, end to end over HTTP against the scripted model server.

use serde_json::{Value, json};

use crate::support::{Run, Server, World, run};

pub struct Format {
    pub model: &'static str,
    pub url: (&'static str, &'static str),
    pub key: (&'static str, &'static str),
    path: &'static str,
}

pub const FORMATS: [Format; 4] = [
    Format {
        model: "anthropic/claude-sonnet-4-5",
        url: ("ANTHROPIC_BASE_URL", ""),
        key: ("ANTHROPIC_API_KEY", "x-api-key"),
        path: "/v1/messages",
    },
    Format {
        model: "openai/gpt-5.2:high",
        url: ("OPENAI_BASE_URL", "/v1"),
        key: ("OPENAI_API_KEY", "authorization"),
        path: "/v1/responses",
    },
    Format {
        model: "compat/anything",
        url: ("BATON_COMPAT_BASE_URL", "/v1"),
        key: ("BATON_COMPAT_API_KEY", "authorization"),
        path: "/v1/chat/completions",
    },
    Format {
        model: "gemini/gemini-2.5-pro",
        url: ("GEMINI_BASE_URL", ""),
        key: ("GEMINI_API_KEY", "x-goog-api-key"),
        path: "/v1beta/models/gemini-2.5-pro:streamGenerateContent",
    },
];

/// Plays a script over HTTP in every format and checks what comes of it.
fn in_every_format(script: &str, check: impl Fn(&Format, &World, &Run, &Server)) {
    for format in &FORMATS {
        let world = World::new();
        for name in ["a", "b", "c"] {
            world.file(&format!("{name}.txt"), format!("content of {name}"));
        }
        let server = world.serve(script);
        let mut command = world.command(&["exec", "--json", "--permission-mode", "auto", "-m", format.model, "go"]);
        command.env(format.url.0, format!("{}{}", server.url, format.url.1)).env(format.key.0, "k");
        let run = run(command);
        check(format, &world, &run, &server);
    }
}

/// The messages of a request, whatever the format calls them.
fn messages(request: &Value) -> &Vec<Value> {
    let body = &request["body"];
    ["messages", "input", "contents"].iter().find_map(|key| body[*key].as_array()).unwrap()
}

#[test]
fn text() {
    in_every_format(
        r#"{"say":"Grüße, 世界!","usage":{"input":100,"output":7,"cache_read":50}}"#,
        |format, _, run, server| {
            assert_eq!(run.code, 0, "{run:#?}");
            let end = run.end();
            assert_eq!(end["text"], "Grüße, 世界!");
            assert_eq!(end["usage"]["input_tokens"], 100, "{}", format.model);
            assert_eq!(end["usage"]["cache_read_tokens"], 50, "{}", format.model);
            assert_eq!(end["usage"]["output_tokens"], 7, "{}", format.model);
            let deltas: String =
                run.of("message.delta").iter().map(|event| event["text"].as_str().unwrap().to_owned()).collect();
            assert_eq!(deltas, "Grüße, 世界!");
            let request = &server.requests()[0];
            assert_eq!(request["path"], format.path);
            assert_eq!(request["auth"], format.key.1, "{request}");
        },
    );
}

#[test]
fn one_tool_call() {
    let script = r#"{"say":"reading","call":[{"tool":"read","input":{"path":"a.txt"}}]}
                    {"when":"content of a","say":"read"}"#;
    in_every_format(script, |_, _, run, _| {
        assert_eq!(run.code, 0, "{run:#?}");
        assert_eq!(run.end()["text"], "read");
    });
}

#[test]
fn three_parallel_calls_keep_their_order() {
    let script = r#"{"call":[{"tool":"read","input":{"path":"a.txt"}},{"tool":"bash","input":{"command":"cat b.txt"}},{"tool":"read","input":{"path":"c.txt"}}]}
                    {"when":"(?s)content of a.*content of b.*content of c","say":"all read"}"#;
    in_every_format(script, |_, _, run, _| {
        assert_eq!(run.code, 0, "{run:#?}");
        assert_eq!(run.end()["text"], "all read");
        let tools: Vec<_> = run.of("tool.start").iter().map(|event| event["tool"].clone()).collect();
        assert_eq!(tools, ["read", "bash", "read"]);
    });
}

#[test]
fn thinking_goes_back_to_where_it_came_from() {
    let script = r#"{"think":"a deep thought","say":"let me see","call":[{"tool":"ls","input":{}}]}
                    {"say":"ready"}"#;
    in_every_format(script, |format, _, run, server| {
        assert_eq!(run.code, 0, "{run:#?}");
        assert_eq!(run.of("thinking.delta")[0]["text"].as_str().unwrap().split(' ').next(), Some("a"));
        let requests = server.requests();
        let sent_back = Value::from(messages(&requests[1]).clone()).to_string();
        // Compatible servers have no signature: there the thought itself goes back.
        let mark = if format.model.starts_with("compat") { "a deep thought" } else { "thought_0" };
        assert!(sent_back.contains(mark), "{}: {sent_back}", format.model);
    });
}

#[test]
fn a_request_only_grows_at_its_end() {
    // The server refuses what is not append-only; here it is asserted once more in the open.
    let script = r#"{"think":"t","say":"1","call":[{"tool":"read","input":{"path":"a.txt"}},{"tool":"ls","input":{}}]}
                    {"call":[{"tool":"bash","input":{"command":"cd / && pwd"}}]}
                    {"call":[{"tool":"nope","input":{}}]}
                    {"say":"end"}"#;
    in_every_format(script, |format, _, run, server| {
        assert_eq!(run.code, 0, "{run:#?}");
        let requests = server.requests();
        assert_eq!(requests.len(), 4);
        for (before, after) in requests.iter().zip(&requests[1..]) {
            let without_markers = |request: &Value, n: usize| {
                let mut messages = Value::from(messages(request)[..n].to_vec());
                strip(&mut messages, "cache_control");
                messages.to_string()
            };
            let n = messages(before).len();
            assert!(messages(after).len() > n);
            assert_eq!(without_markers(before, n), without_markers(after, n), "{}", format.model);
            for key in ["system", "instructions", "systemInstruction", "tools"] {
                assert_eq!(before["body"][key].to_string(), after["body"][key].to_string());
            }
        }
    });
}

/// Takes a field out, wherever it is.
pub fn strip(value: &mut Value, key: &str) {
    match value {
        Value::Object(map) => {
            map.remove(key);
            map.values_mut().for_each(|value| strip(value, key));
        }
        Value::Array(items) => items.iter_mut().for_each(|value| strip(value, key)),
        _ => {}
    }
}

fn expect_one_retry(run: &Run, server: &Server, tier: &str, text: &str) -> Value {
    assert_eq!(run.code, 0, "{run:#?}");
    assert_eq!(run.end()["text"], text);
    let retries = run.of("retry");
    assert_eq!(retries.len(), 1, "{retries:?}");
    assert_eq!(retries[0]["tier"], tier, "{retries:?}");
    assert_eq!(server.requests().len(), 2);
    retries[0].clone()
}

#[test]
fn rate_limits_are_waited_out_in_both_forms() {
    // A date has whole seconds, so up to one of them has passed already when it arrives.
    for (form, least_ms, most_ms) in [("1", 1000, 1000), ("\"date+3\"", 1900, 3000)] {
        let script = format!("{{\"fail\":{{\"status\":429,\"retry_after\":{form}}}}}\n{{\"say\":\"there\"}}");
        in_every_format(&script, |format, _, run, server| {
            let retry = expect_one_retry(run, server, "rate_limited", "there");
            let delay = retry["delay_ms"].as_u64().unwrap();
            assert!((least_ms..=most_ms).contains(&delay), "{}: {delay}", format.model);
            let moment = |event: &Value| event["at"].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
            let waited = moment(&run.of("message.start")[0]).duration_since(moment(&retry)).as_millis();
            assert!(waited >= i128::from(delay), "{}: {waited} of {delay}", format.model);
        });
    }
}

#[test]
fn an_overloaded_provider_is_asked_again() {
    in_every_format("{\"fail\":{\"status\":529}}\n{\"say\":\"better\"}", |_, _, run, server| {
        let retry = expect_one_retry(run, server, "degraded", "better");
        assert!(retry["reason"].as_str().unwrap().contains("529"), "{retry}");
    });
}

#[test]
fn a_cut_stream_is_kept_told_and_asked_for_again() {
    in_every_format("{\"say\":\"half of it\",\"cut\":true}\n{\"say\":\"all of it\"}", |format, _, run, server| {
        expect_one_retry(run, server, "transient", "all of it");
        let ends = run.of("message.end");
        assert_eq!(ends[0]["message"]["content"][0]["text"], "half of it", "{}", format.model);
        assert_eq!(ends[0].get("stop"), None);
        assert_eq!(ends[1]["stop"], "end_turn");
        assert_ne!(ends[0]["item"], ends[1]["item"]);
    });
}

#[test]
fn an_error_inside_a_stream_is_seen() {
    in_every_format("{\"say\":\"so far\",\"fail\":{\"status\":529}}\n{\"say\":\"whole\"}", |format, _, run, server| {
        // Chat and Responses have no code for it but a server's error; all mean: in trouble, ask again.
        expect_one_retry(run, server, "degraded", "whole");
        assert_eq!(run.of("message.end")[0]["message"]["content"][0]["text"], "so far", "{}", format.model);
    });
}

#[test]
fn a_malformed_call_goes_back_to_the_model_and_does_not_run() {
    let script = r#"{"call":[{"tool":"bash","input":"{\"command\": \"touch ran"}]}
                    {"say":"sorry"}"#;
    in_every_format(script, |format, world, run, _| {
        assert_eq!(run.code, 0, "{run:#?}");
        assert_eq!(run.end()["text"], "sorry");
        assert!(!world.project().join("ran").exists());
        assert_eq!(run.tool_ends()[0]["is_error"], true, "{}", format.model);
        assert!(run.outputs()[0].contains("not a JSON object"), "{:?}", run.outputs());
    });
}

#[test]
fn a_refusal_fails_the_task() {
    in_every_format(r#"{"say":"I cannot.","stop":"refusal"}"#, |_, _, run, _| {
        assert_eq!(run.code, 3, "{run:#?}");
        assert_eq!(run.end()["reason"], "failed");
    });
}

#[test]
fn an_answer_at_the_output_limit_is_continued() {
    in_every_format(
        "{\"say\":\"first half, \",\"stop\":\"max_tokens\"}\n{\"when\":\"cut off\",\"say\":\"second half\"}",
        |_, _, run, _| {
            assert_eq!(run.code, 0, "{run:#?}");
            assert_eq!(run.end()["text"], "first half, second half");
        },
    );
}

#[test]
fn an_answer_that_is_always_cut_off_fails_the_task() {
    in_every_format(r#"{"say":"and","stop":"max_tokens","repeat":true}"#, |_, _, run, server| {
        assert_eq!(run.code, 3, "{run:#?}");
        assert_eq!(server.requests().len(), 4);
    });
}

#[test]
fn nothing_to_say_is_no_answer_but_may_be_an_end() {
    in_every_format(r#"{"say":"","repeat":true}"#, |_, _, run, server| {
        assert_eq!((run.code, server.requests().len()), (3, 2), "{run:#?}");
    });
    let script = "{\"say\":\"working\",\"call\":[{\"tool\":\"ls\",\"input\":{}}]}\n{\"say\":\"\",\"repeat\":true}";
    in_every_format(script, |_, _, run, _| {
        assert_eq!((run.code, &run.end()["text"]), (0, &json!("working")), "{run:#?}");
    });
}

#[test]
fn broken_answers_are_paid_for() {
    in_every_format(
        "{\"say\":\"half of it\",\"cut\":true}\n{\"say\":\"all\",\"usage\":{\"input\":1,\"output\":1}}",
        |format, _, run, _| {
            let usage = &run.end()["usage"];
            assert!(usage["input_tokens"].as_u64().unwrap() > 500, "{}: {usage}", format.model);
            assert_eq!(run.of("usage").len(), 2);
        },
    );
}

#[test]
fn a_bad_request_is_not_repeated_and_told_in_the_providers_words() {
    in_every_format(
        r#"{"fail":{"status":400,"body":{"error":{"message":"tools.0: no good"}}}}"#,
        |_, _, run, server| {
            assert_eq!(run.code, 6, "{run:#?}");
            assert_eq!(server.requests().len(), 1);
            let error = &run.of("error")[0];
            assert!(error["message"].as_str().unwrap().contains("tools.0: no good"), "{error}");
            assert_eq!(run.end()["reason"], json!("error"));
        },
    );
}

#[test]
fn a_wrong_key_is_not_repeated() {
    in_every_format(
        r#"{"fail":{"status":401,"body":{"error":{"message":"invalid x-api-key"}}}}"#,
        |_, _, run, server| {
            assert_eq!(run.code, 6, "{run:#?}");
            assert_eq!(server.requests().len(), 1);
            assert!(run.of("error")[0]["hint"].as_str().unwrap().contains("key"));
        },
    );
}
