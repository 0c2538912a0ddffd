//! The tools with which agents speak to the conductor: `submit_evidence` and `request_help`.

use async_trait::async_trait;
use baton_core::{Access, ToolSpec};
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

/// Hands in evidence.
pub(crate) struct SubmitEvidence {
    spec: ToolSpec,
    line: Line,
}

/// Asks a person for help.
pub(crate) struct RequestHelp {
    spec: ToolSpec,
    line: Line,
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

impl SubmitEvidence {
    pub(crate) fn new(fields: &Fields, line: Line) -> Self {
        let spec = ToolSpec {
            name: SUBMIT.to_owned(),
            description:
                "Hand in your work at the gate of this state. It is verified by Baton; your turn ends. If a field is \
                          missing or wrong you are told, and nothing is handed in."
                    .to_owned(),
            input_schema: fields.schema(),
        };
        Self { spec, line }
    }
}

impl RequestHelp {
    pub(crate) fn new(line: Line) -> Self {
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
        Self { spec, line }
    }
}

#[async_trait]
impl Tool for SubmitEvidence {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self) -> Access {
        Access::Read
    }

    fn parallel(&self) -> bool {
        false
    }

    async fn run(&self, input: Value, _: &CallContext) -> Outcome {
        match input {
            Value::Object(fields) => self.line.tell(What::Submitted(fields)).await,
            _ => Outcome::error(format!("the input of `{SUBMIT}` is an object with the fields that were asked for")),
        }
    }
}

#[async_trait]
impl Tool for RequestHelp {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self) -> Access {
        Access::Read
    }

    fn parallel(&self) -> bool {
        false
    }

    async fn run(&self, input: Value, _: &CallContext) -> Outcome {
        match input.get("question").and_then(Value::as_str).filter(|question| !question.trim().is_empty()) {
            Some(question) => self.line.tell(What::NeedsHelp(question.to_owned())).await,
            None => Outcome::error(format!("`{HELP}` needs a `question`: what you need to know or to have")),
        }
    }
}
