//! What a world ends with when it does not end well: which check failed, where, and how.

use std::fmt;

/// Who noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// A read while the machine ran: the bytes are none that may be there.
    Read,
    /// What was found after the pool was opened.
    Recovery,
    /// The pool did not open.
    Open,
    /// A request was refused that must not be.
    Request,
    /// A request or phase took too long.
    Stall,
    /// It never ended.
    Hang,
    /// Opening the same drives again gave another map.
    Replay,
    /// Copies, parity, map, space or memory contradict each other.
    Audit,
    /// Without faults the pool did not become whole, or did not come to rest.
    Liveness,
    /// More memory than before is needed for as much.
    Memory,
    Panic,
}

/// A sector of a volume, as the story follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    pub volume: String,
    pub sector: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub check: Check,
    pub what: String,
    /// Where, if the check is about one place.
    pub spot: Option<Spot>,
}

impl Failure {
    pub fn new(check: Check, what: impl Into<String>) -> Failure {
        Failure { check, what: what.into(), spot: None }
    }

    pub fn at(self, volume: &str, sector: u64) -> Failure {
        Failure { spot: Some(Spot { volume: volume.to_owned(), sector }), ..self }
    }

    /// Two failures of the same kind are taken for the same bug: the same check, and of panics
    /// and audits the same words, without the numbers in them.
    pub fn kind(&self) -> String {
        let words = match self.check {
            Check::Panic | Check::Audit | Check::Liveness => self.what.as_str(),
            _ => "",
        };
        // Line numbers of panics stay: they say which assertion it was.
        let place = words.rsplit_once(" at ").filter(|_| self.check == Check::Panic);
        let words = match place {
            Some((_, place)) => place.to_owned(),
            None => words.chars().filter(|letter| !letter.is_ascii_digit()).take(60).collect(),
        };
        format!("{:?} {words}", self.check)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

/// A panic that was caught: what it said and where.
pub struct Panicked(pub String);

impl From<Panicked> for Failure {
    fn from(Panicked(what): Panicked) -> Failure {
        Failure::new(Check::Panic, what)
    }
}

impl From<Panicked> for String {
    fn from(Panicked(what): Panicked) -> String {
        what
    }
}

impl From<Failure> for String {
    fn from(failure: Failure) -> String {
        failure.what
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_tell_checks_and_panics_apart_but_not_numbers() {
        let of = |check, what: &str| Failure::new(check, what).kind();
        assert_eq!(of(Check::Read, "read: w1"), of(Check::Read, "read: w2"));
        assert_ne!(of(Check::Read, "read: w1"), of(Check::Recovery, "read: w1"));
        assert_eq!(of(Check::Audit, "stripe 7 differs"), of(Check::Audit, "stripe 12 differs"));
        let at = |line| of(Check::Panic, &format!("panic: 3 is not 4 at src/space.rs:{line}"));
        assert_eq!(at(7), of(Check::Panic, "panic: 5 is not 9 at src/space.rs:7"));
        assert_ne!(at(7), at(8));
    }
}
