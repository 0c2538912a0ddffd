//! Whether a call may run: pure decisions on the permission mode and what the tool does.

use baton_core::{Access, PermissionMode};

/// Why a call may not run, in words for the model; `None` if it may.
pub(crate) fn refusal(mode: PermissionMode, tool: &str, access: Access) -> Option<String> {
    use PermissionMode as Mode;
    let allowed = match access {
        Access::Read => true,
        Access::Write => matches!(mode, Mode::AcceptEdits | Mode::Auto | Mode::Yolo),
        Access::Execute => matches!(mode, Mode::Auto | Mode::Yolo),
    };
    if allowed {
        return None;
    }
    let does = if access == Access::Execute { "runs programs" } else { "changes files" };
    let why = match mode {
        Mode::Plan => "plan mode only reads",
        Mode::Deny => "the permission mode is `deny`",
        Mode::Ask | Mode::AcceptEdits | Mode::Auto | Mode::Yolo => {
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
        let allowed =
            |mode| [Access::Read, Access::Write, Access::Execute].map(|access| refusal(mode, "t", access).is_none());
        assert_eq!(allowed(PermissionMode::Ask), [true, false, false]);
        assert_eq!(allowed(PermissionMode::AcceptEdits), [true, true, false]);
        assert_eq!(allowed(PermissionMode::Plan), [true, false, false]);
        assert_eq!(allowed(PermissionMode::Auto), [true, true, true]);
        assert_eq!(allowed(PermissionMode::Deny), [true, false, false]);
        assert_eq!(allowed(PermissionMode::Yolo), [true, true, true]);
    }
}
