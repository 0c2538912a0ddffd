//! Again: what ran before the agent lost sight of it (a restart, a compaction) is not silently done a second time. Pure.

use std::collections::HashMap;

use baton_core::ToolUse;
use baton_session::{Carried, RanEnd};
use serde_json::Value;

/// The commands that ran before.
#[derive(Default)]
pub(crate) struct Before(HashMap<String, RanEnd>);

impl Before {
    /// What ran so far is out of sight from now on.
    pub(crate) fn lost_sight(&mut self, carried: &Carried) {
        let commands = carried.ran.iter().filter_map(|ran| Some((command(&ran.input)?, ran.end)));
        self.0 = commands.collect();
    }

    /// What came of this command before, if it ran then. It is asked about once: who insists has a reason.
    pub(crate) fn ask(&mut self, call: &ToolUse) -> Option<RanEnd> {
        self.0.remove(&command(&call.input)?)
    }

    /// Whether this command ran before and nobody has asked about it yet.
    pub(crate) fn ran(&self, call: &ToolUse) -> bool {
        command(&call.input).is_some_and(|command| self.0.contains_key(&command))
    }
}

/// What a model is told, or a person is asked.
pub(crate) fn reason(end: RanEnd) -> &'static str {
    match end {
        RanEnd::Done => "this exact command has run before, earlier in this session, and did what it should",
        RanEnd::Failed => "this exact command has run before, earlier in this session, and failed",
        RanEnd::Unknown => "this exact command was running when Baton was stopped, and nobody knows how far it came",
    }
}

/// The command of a call. White space at its ends does not make it another one.
fn command(input: &Value) -> Option<String> {
    input.get("command").and_then(Value::as_str).map(|command| command.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use baton_core::CallId;
    use baton_session::Ran;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_that_ran_before_is_asked_about_once() {
        let call = |command: &str| ToolUse {
            id: CallId::new("c"),
            tool: "bash".into(),
            input: json!({ "command": command, "timeout": 3 }),
            malformed: None,
        };
        let ran = Ran { tool: "bash".into(), input: json!({"command": "./deploy"}), end: RanEnd::Done };
        let (mut before, mut carried) = (Before::default(), Carried::default());
        carried.ran.push_back(ran);
        before.lost_sight(&carried);
        assert!(before.ran(&call("./deploy ")) && !before.ran(&call("./deploy --dry-run")));
        assert_eq!(before.ask(&call(" ./deploy")), Some(RanEnd::Done));
        assert_eq!(before.ask(&call("./deploy")), None);
    }
}
