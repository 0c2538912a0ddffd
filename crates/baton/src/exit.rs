//! Exit codes: what a caller can rely on, decided here and nowhere else.

use baton_core::{Area, Fault, TurnReason};
use baton_headless::{Finish, Signal};

/// Why the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Everything was done.
    Done,
    /// Baton itself failed.
    Internal,
    /// Bad usage or bad input.
    Input,
    /// The task or a gate failed.
    Failed,
    /// A person is needed.
    NeedsPerson,
    /// A cap was reached: money, tokens, steps, time.
    Cap,
    /// Provider, key or quota.
    Provider,
    /// There is no sandbox.
    Sandbox,
    /// The workspace cannot be used as asked.
    Workspace,
    /// As the command ended that was run.
    Command(i32),
    /// Ended by a signal.
    Signal(Signal),
}

impl Exit {
    /// The number that the caller sees.
    pub fn code(self) -> i32 {
        match self {
            Self::Done => 0,
            Self::Internal => 1,
            Self::Input => 2,
            Self::Failed => 3,
            Self::NeedsPerson => 4,
            Self::Cap => 5,
            Self::Provider => 6,
            Self::Sandbox => 7,
            Self::Workspace => 8,
            Self::Command(code) => code,
            Self::Signal(Signal::Interrupt) => 130,
            Self::Signal(Signal::Terminate) => 143,
        }
    }
}

impl From<&Fault> for Exit {
    fn from(fault: &Fault) -> Self {
        match fault.area {
            Area::Input => Self::Input,
            Area::Provider => Self::Provider,
            Area::Cap => Self::Cap,
            Area::Workspace => Self::Workspace,
            Area::Task => Self::Failed,
            Area::Person => Self::NeedsPerson,
            Area::Sandbox => Self::Sandbox,
            Area::Internal => Self::Internal,
        }
    }
}

impl From<&Finish> for Exit {
    fn from(finish: &Finish) -> Self {
        if let Some(signal) = finish.signal {
            return Self::Signal(signal);
        }
        match finish.reason {
            TurnReason::Done => Self::Done,
            TurnReason::Failed => Self::Failed,
            TurnReason::Blocked => Self::NeedsPerson,
            TurnReason::Steps | TurnReason::Budget | TurnReason::Time => Self::Cap,
            TurnReason::Error | TurnReason::Cancelled => finish.fault.as_ref().map_or(Self::Internal, Self::from),
        }
    }
}
