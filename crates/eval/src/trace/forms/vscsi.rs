//! CloudPhysics: SCSI commands of virtual machines, binary, little-endian, in two versions.
//!
//! ```text
//!   version 1, 32 bytes   0 serial:4  4 bytes:4  8 segments:4  12 command:2  14 version:2
//!                        16 block:8  24 microseconds:8
//!   version 2, 40 bytes   0 command:2  2 version:2  4 serial:4  8 bytes:4  12 segments:4
//!                        16 block:8  24 microseconds:8  32 took:8
//! ```
//! The version is in the upper byte of its field, the SCSI operation in the lower of the
//! command. Blocks have 512 bytes.

use super::super::record::Op;
use super::{MICRO, Parser, Raw, Wrong, sectors};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    One,
    Two,
}

impl Version {
    pub const fn bytes(self) -> usize {
        match self {
            Version::One => 32,
            Version::Two => 40,
        }
    }

    /// Where command and version are.
    const fn fields(self) -> (usize, usize) {
        match self {
            Version::One => (12, 14),
            Version::Two => (0, 2),
        }
    }
}

/// Records that must agree.
const LOOKS: usize = 2;

/// From how a file begins. No text has such bytes.
pub fn version(head: &[u8]) -> Option<Version> {
    let agrees = |version: Version, number: u8| {
        let at = version.fields().1 + 1;
        (0..LOOKS).all(|look| head.get(look * version.bytes() + at) == Some(&number))
    };
    // Of both, the one that is looked for first in other readers.
    [(Version::Two, 2), (Version::One, 1)].into_iter().find_map(|(v, n)| agrees(v, n).then_some(v))
}

pub struct Vscsi(pub Version);

fn op(command: u8) -> Option<Op> {
    match command {
        0x08 | 0x28 | 0xa8 | 0x88 => Some(Op::Read),
        // With verification too.
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e => Some(Op::Write),
        0x42 => Some(Op::Discard),
        _ => None,
    }
}

fn number<const N: usize>(record: &[u8], at: usize) -> Result<[u8; N], Wrong> {
    let bytes = record.get(at..at + N).and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or("the record is too short")
}

impl Parser for Vscsi {
    fn line<'a>(&mut self, record: &'a [u8]) -> Result<Option<Raw<'a>>, Wrong> {
        let (command, version) = self.0.fields();
        let wanted = if self.0 == Version::One { 1 } else { 2 };
        if number::<2>(record, version)?[1] != wanted {
            return Err("a record of another version");
        }
        let Some(op) = op(number::<2>(record, command)?[0]) else { return Ok(None) };
        let len = if self.0 == Version::One { 4 } else { 8 };
        let at = u64::from_le_bytes(number(record, 24)?);
        Ok(Some(Raw {
            at: at.checked_mul(MICRO).ok_or("no time in microseconds")?,
            device: b"",
            op,
            offset: sectors(u64::from_le_bytes(number(record, 16)?))?,
            len: u32::from_le_bytes(number(record, len)?).into(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Form;
    use super::*;

    fn record(version: Version, command: u16, len: u32, block: u64, micros: u64) -> Vec<u8> {
        let (command, serial) = (command.to_le_bytes(), 9u32.to_le_bytes());
        let tail = [block.to_le_bytes(), micros.to_le_bytes()].concat();
        let len = len.to_le_bytes();
        match version {
            Version::One => [&serial[..], &len, &serial, &command, &[0, 1], &tail].concat(),
            Version::Two => {
                let took = 5u64.to_le_bytes();
                [&command[..], &[0, 2], &serial, &len, &serial, &tail, &took].concat()
            }
        }
    }

    #[test]
    fn both_versions_are_recognised_and_read() {
        for version in [Version::One, Version::Two] {
            let read = record(version, 0x28, 4096, 100, 7);
            let write = record(version, 0x12a, 8192, 8, 9);
            let other = record(version, 0x00, 0, 0, 10);
            assert_eq!(read.len(), version.bytes());
            let file = [&read[..], &write, &other].concat();
            assert_eq!(super::version(&file), Some(version));
            assert_eq!(Form::recognise(&file), Some(Form::Vscsi));
            let mut parser = Vscsi(version);
            let raw = |at, offset, len, op| Some(Raw { at, device: b"", offset, len, op });
            assert_eq!(parser.line(&read), Ok(raw(7_000, 51_200, 4096, Op::Read)));
            assert_eq!(parser.line(&write), Ok(raw(9_000, 4096, 8192, Op::Write)));
            assert_eq!(parser.line(&other), Ok(None));
            assert!(parser.line(&read[..30]).is_err());
            assert!(parser.line(&vec![0; version.bytes()]).is_err());
        }
    }
}
