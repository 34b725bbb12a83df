//! Exit codes: the part of the interface that scripts read.

use std::process::ExitCode;

/// What the process says with its exit code. Listed in `--help` and in docs/cli.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Done, and all is well.
    Ok = 0,
    /// The answer is negative: something is degraded or not found.
    Negative = 1,
    /// The command line or configuration makes no sense; nothing was touched.
    Usage = 2,
    /// Refused or failed.
    Failed = 3,
}

impl Exit {
    /// The worse of two, for commands that look at several things.
    pub fn worst(self, other: Exit) -> Exit {
        if (other as u8) > (self as u8) { other } else { self }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}
