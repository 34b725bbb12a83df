//! What a storm can find wrong.

use std::collections::BTreeMap;
use std::fmt;

use super::super::model::{Kind, Wrong};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Problem {
    /// A sector holds what it may not.
    Data(Kind),
    /// A request failed, and no more drives are faulty than the pool bears.
    Failed,
    /// The pool does not open by itself, or a volume of it is missing.
    Closed,
    /// Something did not end in time.
    Hangs,
    /// The server ended by itself.
    Died,
    /// A command was refused that the pool should carry out.
    Refused,
    /// Data is said to be lost that is there.
    Alarm,
    /// The script or this machine is at fault: nothing is said about the product.
    Harness,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Problem::Data(Kind::Lost) => "flushed data lost",
            Problem::Data(Kind::WentBack) => "went back",
            Problem::Data(Kind::CameBack) => "came back",
            Problem::Data(Kind::Garbage) => "garbage",
            Problem::Data(Kind::Misread) => "misread",
            Problem::Data(Kind::Torn) => "torn page",
            Problem::Failed => "I/O error",
            Problem::Closed => "does not open",
            Problem::Hangs => "hangs",
            Problem::Died => "server died",
            Problem::Refused => "refused",
            Problem::Alarm => "false alarm",
            Problem::Harness => "harness",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub problem: Problem,
    pub text: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.problem, self.text)
    }
}

impl Failure {
    pub fn new(problem: Problem, text: impl Into<String>) -> Failure {
        Failure { problem, text: text.into() }
    }

    pub fn harness(text: impl fmt::Display) -> Failure {
        Failure::new(Problem::Harness, text.to_string())
    }

    /// Enough to see a pattern, few enough to read.
    const SECTORS_SHOWN: usize = 6;

    /// Of all that is wrong with a volume: the worst kind names the failure.
    pub fn of_sectors(volume: &str, wrong: &[Wrong], under_way: usize) -> Option<Failure> {
        let mut kinds: BTreeMap<Kind, usize> = BTreeMap::new();
        wrong.iter().for_each(|wrong| *kinds.entry(wrong.kind).or_default() += 1);
        let worst = *kinds.keys().next()?;
        let counts = kinds.iter().map(|(kind, count)| format!("{count} {}", Problem::Data(*kind)));
        let shown = wrong.iter().filter(|wrong| wrong.kind == worst).take(Failure::SECTORS_SHOWN);
        let text = format!(
            "{volume}: of {} wrong sectors: {}; {under_way} of them in writes that a kill cut \
             short\n    {}",
            wrong.len(),
            counts.collect::<Vec<_>>().join(", "),
            shown.map(ToString::to_string).collect::<Vec<_>>().join("\n    ")
        );
        Some(Failure::new(Problem::Data(worst), text))
    }
}
