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

#[cfg(test)]
mod tests {
    use super::*;

    /// Five quick exits in ten seconds, because drives were late or the file had a mistake, left
    /// the service failed for good; and a pool that takes longer than 90 s to open never opened.
    #[test]
    fn the_unit_starts_again_what_may_go_well_the_next_time() {
        let unit = include_str!("../../../packaging/systemd/steadyraid.service");
        let (head, service) = unit.split_once("\n[Service]\n").expect("a section for the service");
        let set = |section: &str, line: &str| section.lines().any(|own| own == line);
        assert!(set(head, "StartLimitIntervalSec=0"), "the limit belongs to the unit");
        assert!(set(service, "Restart=on-failure") && set(service, "TimeoutStartSec=infinity"));
        let never = format!("RestartPreventExitStatus={}", Exit::Usage as u8);
        assert!(set(service, &never), "{never}");
        assert!(set(service, "StateDirectory=steadyraid"), "else files can't be written to");
    }
}
