//! One request of a trace, whatever file it comes from.

use io::Nanos;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Op {
    Read,
    Write,
    Discard,
}

impl Op {
    pub const fn letter(self) -> char {
        match self {
            Op::Read => 'R',
            Op::Write => 'W',
            Op::Discard => 'D',
        }
    }

    /// By its name or the first letter of it, in either case.
    pub fn named(name: &[u8]) -> Option<Op> {
        match name.to_ascii_lowercase().as_slice() {
            b"r" | b"read" => Some(Op::Read),
            b"w" | b"write" => Some(Op::Write),
            b"d" | b"discard" | b"trim" | b"unmap" => Some(Op::Discard),
            _ => None,
        }
    }
}

/// Times count from the first request; requests follow one another in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Record {
    pub at: Nanos,
    /// In the order in which the trace names them.
    pub device: u32,
    pub offset: u64,
    /// Bytes, never none; `offset + len` doesn't overflow.
    pub len: u64,
    pub op: Op,
}

impl Record {
    pub fn end(&self) -> u64 {
        self.offset + self.len
    }
}
