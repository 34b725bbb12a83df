//! What can go wrong with a drive, and how it is said.

use std::fmt;
use std::ops::Range;

use super::delay::Delay;
use crate::drive::{DriveErrorKind, Operation};
use crate::env::Nanos;

/// For counting, and for choosing what a schedule may draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Error,
    Delay,
    Slow,
    Hang,
    Torn,
    Lost,
    Misdirected,
    Flip,
    Lie,
    Gone,
}

impl Kind {
    pub const ALL: [Kind; 10] = [
        Kind::Error,
        Kind::Delay,
        Kind::Slow,
        Kind::Hang,
        Kind::Torn,
        Kind::Lost,
        Kind::Misdirected,
        Kind::Flip,
        Kind::Lie,
        Kind::Gone,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Error => "error",
            Kind::Delay => "delay",
            Kind::Slow => "slow",
            Kind::Hang => "hang",
            Kind::Torn => "torn",
            Kind::Lost => "lost",
            Kind::Misdirected => "misdirected",
            Kind::Flip => "flip",
            Kind::Lie => "lie",
            Kind::Gone => "gone",
        }
    }
}

/// A drive that gets slower and slower: of what an operation takes, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ramp {
    /// Added each second, beginning with 100.
    pub percent_per_second: u32,
    pub percent_max: u32,
}

impl Ramp {
    pub(super) fn percent(&self, since: Nanos) -> u64 {
        let added = u128::from(self.percent_per_second) * u128::from(since.0) / 1_000_000_000;
        let most = u64::from(self.percent_max);
        u64::try_from(added + 100).map_or(most, |percent| percent.min(most))
    }
}

/// What of a torn write is written. Never all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tear {
    Prefix,
    /// Any of the sectors.
    Sectors,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The operation fails. Of a failing write, any part may have been done.
    Error(DriveErrorKind),
    Delay(Delay),
    Slow(Ramp),
    /// Held for a span, or until the fault ends. Without a span, what is in flight when it
    /// begins is not answered either.
    Hang(Option<Nanos>),
    /// A part is written. Reported as an error, or as done.
    Torn {
        tear: Tear,
        lying: bool,
    },
    /// Nothing is written, and reported as done (phantom write).
    Lost,
    /// Written to another place, `to` or drawn, and reported as done.
    Misdirected {
        to: Option<u64>,
    },
    /// Bits of the range change at once, at rest.
    Flip {
        bits: u32,
    },
    /// A flush that does nothing; a durable write that is only cached.
    Lie,
    /// The drive is gone: for an operation in flight, too, and whatever its range.
    Gone,
}

impl Effect {
    pub fn kind(&self) -> Kind {
        match self {
            Effect::Error(_) => Kind::Error,
            Effect::Delay(_) => Kind::Delay,
            Effect::Slow(_) => Kind::Slow,
            Effect::Hang(_) => Kind::Hang,
            Effect::Torn { .. } => Kind::Torn,
            Effect::Lost => Kind::Lost,
            Effect::Misdirected { .. } => Kind::Misdirected,
            Effect::Flip { .. } => Kind::Flip,
            Effect::Lie => Kind::Lie,
            Effect::Gone => Kind::Gone,
        }
    }
}

/// Which of the operations it could befall it does befall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// The n-th from when it was armed; 1 is the next. A drive that goes then stays away, and
    /// an operation without a span hangs, until the fault is released.
    Nth(u64),
    /// All, for so long.
    For(Nanos),
    /// All, until it is released.
    Forever,
}

/// Chances are parts of this.
pub const MILLION: u32 = 1_000_000;

/// One thing that goes wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub effect: Effect,
    pub operation: Option<Operation>,
    /// Only operations that touch these bytes.
    pub range: Option<Range<u64>>,
    pub times: Times,
    /// How likely it is each time.
    pub per_million: u32,
}

/// Why a fault can't be armed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultError {
    #[error("the range is empty")]
    EmptyRange,
    #[error("bits flip in a range; say which")]
    NoRange,
    #[error("the next operation is number 1, there is none before it")]
    NoZeroth,
    #[error("a chance is at most {MILLION} in a million")]
    Chance,
    #[error("{0}")]
    Delay(&'static str),
    #[error("a ramp begins at 100 percent, its maximum can't be less")]
    Ramp,
    #[error("{0}: never happens to this kind of operation")]
    Pointless(&'static str),
    #[error("too many faults are armed; release some")]
    TooMany,
}

impl Fault {
    /// Befalls everything it can, until released; the methods below narrow it down.
    pub fn new(effect: Effect) -> Fault {
        let (operation, range, times) = (None, None, Times::Forever);
        Fault { effect, operation, range, times, per_million: MILLION }
    }

    pub fn on(self, operation: Operation) -> Fault {
        Fault { operation: Some(operation), ..self }
    }

    pub fn within(self, range: Range<u64>) -> Fault {
        Fault { range: Some(range), ..self }
    }

    pub fn once(self) -> Fault {
        self.nth(1)
    }

    pub fn nth(self, n: u64) -> Fault {
        Fault { times: Times::Nth(n), ..self }
    }

    pub fn lasting(self, span: Nanos) -> Fault {
        Fault { times: Times::For(span), ..self }
    }

    pub fn with_chance(self, per_million: u32) -> Fault {
        Fault { per_million, ..self }
    }

    pub fn check(&self) -> Result<(), FaultError> {
        if self.range.as_ref().is_some_and(Range::is_empty) {
            return Err(FaultError::EmptyRange);
        }
        if self.times == Times::Nth(0) {
            return Err(FaultError::NoZeroth);
        }
        if self.per_million > MILLION {
            return Err(FaultError::Chance);
        }
        match &self.effect {
            Effect::Flip { .. } if self.range.is_none() => Err(FaultError::NoRange),
            Effect::Slow(ramp) if ramp.percent_max < 100 => Err(FaultError::Ramp),
            Effect::Delay(delay) => {
                delay.problem().map_or(Ok(()), |what| Err(FaultError::Delay(what)))
            }
            effect if self.operation.is_some_and(|operation| !can_befall(effect, operation)) => {
                Err(FaultError::Pointless(effect.kind().name()))
            }
            _ => Ok(()),
        }
    }
}

/// Whether an effect means anything for an operation.
pub(super) fn can_befall(effect: &Effect, operation: Operation) -> bool {
    match effect {
        Effect::Torn { .. } | Effect::Lost | Effect::Misdirected { .. } => {
            operation == Operation::Write
        }
        Effect::Lie => matches!(operation, Operation::Flush | Operation::Write),
        Effect::Flip { .. } => false,
        _ => true,
    }
}

/// `write number 3 to bytes 0..4096 fails: ...`; `every flush is a lie for 2 s`.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = match &self.range {
            Some(range) => format!(" of bytes {}..{}", range.start, range.end),
            None => String::new(),
        };
        if let Effect::Flip { bits } = self.effect {
            return write!(f, "{bits} bits{range} flip");
        }
        let operation = self.operation.map_or("operation".to_owned(), |which| which.to_string());
        match self.times {
            Times::Nth(n) => write!(f, "{operation} number {n}{range}")?,
            _ => write!(f, "every {operation}{range}")?,
        }
        if self.per_million < MILLION {
            write!(f, ", with a chance of {} in a million,", self.per_million)?;
        }
        write!(f, " {}", self.effect)?;
        match self.times {
            Times::For(span) => write!(f, ", for {span}"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Effect::Error(DriveErrorKind::Os(errno)) => {
                write!(f, "fails: {}", std::io::Error::from_raw_os_error(*errno))
            }
            Effect::Error(kind) => write!(f, "fails: {kind:?}"),
            Effect::Delay(delay) => write!(f, "takes {delay} longer"),
            Effect::Slow(Ramp { percent_per_second, percent_max }) => write!(
                f,
                "takes longer and longer, {percent_per_second} % more each second up to \
                 {percent_max} %"
            ),
            Effect::Hang(Some(span)) => write!(f, "hangs for {span}"),
            Effect::Hang(None) => f.write_str("hangs"),
            Effect::Torn { tear, lying } => {
                let part = match tear {
                    Tear::Prefix => "a prefix",
                    Tear::Sectors => "some sectors",
                };
                let said = if *lying { "reported as done" } else { "fails" };
                write!(f, "is torn to {part} and {said}")
            }
            Effect::Lost => f.write_str("is lost and reported as done"),
            Effect::Misdirected { to: Some(to) } => write!(f, "goes to byte {to} instead"),
            Effect::Misdirected { to: None } => f.write_str("goes elsewhere"),
            Effect::Flip { bits } => write!(f, "flips {bits} bits"),
            Effect::Lie => f.write_str("is reported as durable and is not"),
            Effect::Gone => f.write_str("finds the drive gone"),
        }
    }
}
