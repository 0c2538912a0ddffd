//! The tools with which agents speak to the conductor: `submit_evidence` and `request_help`.

use async_trait::async_trait;
use baton_core::{Access, ToolResult, ToolSpec};
use baton_tools::{CallContext, Outcome, Tool};
use baton_workflow::{EffectId, Fields};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::brief::{HELP, SUBMIT};

/// Something an agent says to the conductor.
pub(crate) struct Told {
    /// The work that it is about.
    pub(crate) dispatch: EffectId,
    pub(crate) what: What,
    /// What it is told; an error is something to mend.
    pub(crate) reply: oneshot::Sender<Result<String, String>>,
}

pub(crate) enum What {
    Submitted(Map<String, Value>),
    NeedsHelp(String),
}

/// Where agents speak to.
pub(crate) type Ear = mpsc::Sender<Told>;

/// One of the tools: what the model is told about it, and what its input means.
pub(crate) struct Saying {
    spec: ToolSpec,
    line: Line,
    read: fn(Value) -> Result<What, String>,
}

#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) dispatch: EffectId,
    pub(crate) ear: Ear,
}

impl Line {
    async fn tell(&self, what: What) -> Outcome {
        let (reply, answer) = oneshot::channel();
        let told = Told { dispatch: self.dispatch.clone(), what, reply };
        if self.ear.send(told).await.is_err() {
            return Outcome::error("not handed in: the run is over");
        }
        match answer.await {
            Ok(Ok(text)) => Outcome { ends_turn: true, ..Outcome::ok(text) },
            Ok(Err(why)) => Outcome::error(why),
            Err(_) => Outcome::error("not handed in: the run is over"),
        }
    }
}

impl Saying {
    /// `submit_evidence`, with the fields of a gate.
    pub(crate) fn submit_evidence(fields: &Fields, line: Line) -> Self {
        let spec = ToolSpec {
            name: SUBMIT.to_owned(),
            description:
                "Hand in your work at the gate of this state. It is verified by Baton; your turn ends. If a field is \
                          missing or wrong you are told, and nothing is handed in."
                    .to_owned(),
            input_schema: fields.schema(),
        };
        let read = |input| match input {
            Value::Object(fields) => Ok(What::Submitted(fields)),
            _ => Err(format!("the input of `{SUBMIT}` is an object with the fields that were asked for")),
        };
        Self { spec, line, read }
    }

    /// `request_help`.
    pub(crate) fn request_help(line: Line) -> Self {
        let question =
            json!({"type": "string", "description": "What you need to know or to have, and what you tried."});
        let spec = ToolSpec {
            name: HELP.to_owned(),
            description:
                "Ask a person, if you cannot go on without one. Your turn ends; you go on when there is an answer."
                    .to_owned(),
            input_schema: json!({
                "type": "object", "properties": {"question": question}, "required": ["question"],
                "additionalProperties": false
            }),
        };
        let read = |input: Value| {
            let question = input.get("question").and_then(Value::as_str).filter(|question| !question.trim().is_empty());
            let missing = || format!("`{HELP}` needs a `question`: what you need to know or to have");
            question.map(|question| What::NeedsHelp(question.to_owned())).ok_or_else(missing)
        };
        Self { spec, line, read }
    }
}

#[async_trait]
impl Tool for Saying {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self) -> Access {
        Access::Read
    }

    fn parallel(&self) -> bool {
        false
    }

    async fn run(&self, input: Value, cx: &CallContext) -> Outcome {
        let what = match (self.read)(input) {
            Ok(what) => what,
            Err(why) => return Outcome::error(why),
        };
        tokio::select! {
            answer = self.line.tell(what) => answer,
            // Nobody was heard: whoever goes on says it again.
            () = cx.cancel.cancelled() => Outcome::error(ToolResult::stopped(cx.call.clone(), true).text),
        }
    }
}
