//! Whether a call may run: pure decisions on the permission mode and what the tool does.

use baton_core::{Access, PermissionMode};

/// Why a call may not run, in words for the model; `None` if it may.
pub(crate) fn refusal(mode: PermissionMode, tool: &str, access: Access) -> Option<String> {
    use PermissionMode as Mode;
    let allowed = match access {
        Access::Read => true,
        Access::Write => matches!(mode, Mode::AcceptEdits | Mode::Auto | Mode::Yolo),
        Access::Network | Access::Execute => matches!(mode, Mode::Auto | Mode::Yolo),
    };
    if allowed {
        return None;
    }
    let does = match access {
        Access::Read => "reads",
        Access::Network => "reaches the network",
        Access::Write => "changes files",
        Access::Execute => "runs programs",
    };
    let why = match mode {
        Mode::Plan if access.changes() => "plan mode only reads",
        Mode::Deny => "the permission mode is `deny`",
        Mode::Plan | Mode::Ask | Mode::AcceptEdits | Mode::Auto | Mode::Yolo => {
            "that has to be asked for and nobody is here to answer"
        }
    };
    Some(format!(
        "refused: `{tool}` {does}, and {why}. Do what you can by reading, and say what you would have done; \
         the person can allow it with --permission-mode auto."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_allows_what_its_name_says() {
        let allowed = |mode| Access::ALL.map(|access| refusal(mode, "t", access).is_none());
        // In the order of `Access::ALL`: read, network, write, execute.
        assert_eq!(allowed(PermissionMode::Ask), [true, false, false, false]);
        assert_eq!(allowed(PermissionMode::AcceptEdits), [true, false, true, false]);
        assert_eq!(allowed(PermissionMode::Plan), [true, false, false, false]);
        assert_eq!(allowed(PermissionMode::Auto), [true, true, true, true]);
        assert_eq!(allowed(PermissionMode::Deny), [true, false, false, false]);
        assert_eq!(allowed(PermissionMode::Yolo), [true, true, true, true]);
    }

    #[test]
    fn a_refusal_says_what_is_asked_for() {
        let why = |mode, access| refusal(mode, "t", access).unwrap();
        assert!(
            why(PermissionMode::Plan, Access::Network).contains("reaches the network, and that has to be asked for")
        );
        assert!(why(PermissionMode::Plan, Access::Write).contains("changes files, and plan mode only reads"));
    }
}
