//! `ask_user`: a question that only the person can answer.

use baton_core::Access;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{CallContext, Outcome, Question, Reply, TypedTool};

/// Asks the person.
pub(crate) struct AskUser;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    question: String,
    #[serde(default)]
    options: Vec<String>,
    default: Option<String>,
}

impl TypedTool for AskUser {
    type Input = Input;
    const NAME: &'static str = "ask_user";
    const DESCRIPTION: &'static str = include_str!("ask_user.md");
    const ACCESS: Access = Access::Read;
    // People take their time.
    const OWN_LIMITS: bool = true;

    async fn call(&self, input: Input, cx: &CallContext) -> Result<Outcome, String> {
        let Input { question, options, default } = input;
        if question.trim().is_empty() {
            return Err("the question is empty".to_owned());
        }
        let question = Question { text: question, options };
        let reply = tokio::select! {
            reply = cx.person.ask(&cx.call, question) => reply,
            () = cx.cancel.cancelled() => return Err("cancelled; there is no answer".to_owned()),
        };
        Ok(told(reply, default))
    }
}

/// What the model reads. `unanswered` is a fact for the turn, which may end because of it.
fn told(reply: Reply, default: Option<String>) -> Outcome {
    match (reply, default) {
        (Reply::Answered(answer), _) => Outcome::ok(answer),
        (Reply::Declined(reason), _) => {
            let why = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
            Outcome::error(format!("the person did not answer{why}"))
        }
        (Reply::Nobody, Some(default)) => {
            Outcome::ok(format!("{default}\n[nobody is there: the default was taken; say so in your answer]"))
                .with("default", true)
        }
        (Reply::Nobody, None) => Outcome::error(
            "nobody is there to answer. Go on with what does not depend on it; if nothing is left, stop and end your \
             answer with the question.",
        )
        .with("unanswered", true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nobody_is_there_the_default_counts() {
        assert_eq!(told(Reply::Answered("a".to_owned()), Some("b".to_owned())), Outcome::ok("a"));
        assert!(told(Reply::Nobody, Some("b".to_owned())).text.starts_with("b\n[nobody is there"));
        let unanswered = told(Reply::Nobody, None);
        assert!(unanswered.is_error && unanswered.meta["unanswered"] == true);
        assert_eq!(told(Reply::Declined(Some("no".to_owned())), None), Outcome::error("the person did not answer: no"));
    }
}
