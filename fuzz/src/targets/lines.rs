//! JSON lines: scripts and cassettes. They are read or refused with a line that is there.

use baton_core::{AgentRole, Message};
use baton_llm::Cassette;
use baton_llm::script::Script;

pub(super) fn check_script(case: &[u8]) {
    let text = String::from_utf8_lossy(case);
    let lines = text.lines().count().max(1);
    match Script::parse("s", &text) {
        Err(error) => assert!((1..=lines).contains(&error.line), "{error}"),
        Ok(script) => {
            let messages = [Message::user("go"), Message::assistant("ok"), Message::user("content of a")];
            let role = AgentRole::default();
            for (count, failures) in [(1, 0), (3, 0), (1, 1), (3, u32::MAX)] {
                if let Ok(line) = script.pick(&role, &messages[..count], failures) {
                    line.message(&messages[..count]);
                    line.usage(100);
                }
            }
        }
    }
}

pub(super) fn check_cassette(case: &[u8]) {
    let lines = case.split_inclusive(|byte| *byte == b'\n').count().max(1);
    match Cassette::parse(case) {
        Err(error) => assert!((1..=lines).contains(&error.line), "{error}"),
        Ok(cassette) => {
            let torn = usize::from(cassette.torn.is_some());
            assert_eq!(1 + cassette.len() + torn, lines, "every line counts");
            // What a crash leaves of it is the same up to there.
            if let Some(end) = case.iter().rposition(|byte| *byte == b'\n').filter(|_| torn == 1) {
                let whole = Cassette::parse(&case[..=end]).expect("its whole lines are read alone");
                assert_eq!((whole.len(), whole.torn), (cassette.len(), None));
            }
        }
    }
}
