//! What fio's `write_iolog` writes. Version 2 has no times but the waits between.
//!
//! ```text
//!   fio version 2 iolog              fio version 3 iolog
//!   /dev/sda add                     2 /dev/sda add
//!   /dev/sda open                    872 /dev/sda open
//!   /dev/sda wait 1500 0             878 /dev/sda write 0 16384
//!   /dev/sda read 4096 8192
//!   file what offset bytes           microseconds file what offset bytes
//! ```
//! A wait is so many microseconds since the one before.

use super::super::number::{nanos, whole};
use super::super::record::Op;
use super::{MICRO, Parser, Raw, Wrong};

#[derive(Default)]
pub struct Fio {
    /// None before the first line.
    version: Option<u8>,
    /// Sum of the waits, in nanoseconds.
    now: u64,
}

impl Fio {
    fn request<'a>(
        &mut self,
        at: u64,
        words: &mut dyn Iterator<Item = &'a [u8]>,
    ) -> Result<Option<Raw<'a>>, Wrong> {
        let mut next = || words.next().ok_or("too few words");
        let (device, what) = (next()?, next()?);
        let op = match what {
            b"add" | b"open" | b"close" | b"sync" | b"datasync" => return Ok(None),
            b"wait" => {
                let wait = nanos(next()?, MICRO).ok_or("no time to wait")?;
                self.now = self.now.checked_add(wait).ok_or("the waits are too long")?;
                return Ok(None);
            }
            _ => Op::named(what).ok_or("no action of fio")?,
        };
        let offset = whole(next()?).ok_or("no offset")?;
        let len = whole(next()?).ok_or("no number of bytes")?;
        Ok(Some(Raw { at, device, offset, len, op }))
    }
}

impl Parser for Fio {
    fn line<'a>(&mut self, line: &'a [u8]) -> Result<Option<Raw<'a>>, Wrong> {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let Some(version) = self.version else {
            self.version = match line.trim_ascii() {
                b"fio version 2 iolog" => Some(2),
                b"fio version 3 iolog" => Some(3),
                _ => return Err("it begins neither as version 2 nor as version 3"),
            };
            return Ok(None);
        };
        let at = match version {
            2 => self.now,
            _ => nanos(words.next().unwrap_or(b""), MICRO).ok_or("no time in microseconds")?,
        };
        self.request(at, &mut words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(text: &str) -> Vec<(u64, Op, u64, u64)> {
        let mut fio = Fio::default();
        let lines = text.lines().map(|line| fio.line(line.as_bytes()).unwrap());
        lines.flatten().map(|raw| (raw.at, raw.op, raw.offset, raw.len)).collect()
    }

    #[test]
    fn version_3_has_times_and_version_2_waits() {
        let three = "fio version 3 iolog\n2 sda add\n872 sda open\n878 sda write 0 16384\n\
                     888 sda trim 16384 512\n900 sda sync 0 0\n1000 sda close";
        let wanted = [(878_000, Op::Write, 0, 16384), (888_000, Op::Discard, 16384, 512)];
        assert_eq!(requests(three), wanted);
        let two = "fio version 2 iolog\nsda add\nsda open\nsda read 0 512\nsda wait 1500 0\n\
                   sda write 512 1024\nsda wait 500 0\nsda read 0 512\nsda close";
        let wanted = [
            (0, Op::Read, 0, 512),
            (1_500_000, Op::Write, 512, 1024),
            (2_000_000, Op::Read, 0, 512),
        ];
        assert_eq!(requests(two), wanted);
    }

    #[test]
    fn another_version_and_unknown_actions_are_wrong() {
        assert!(Fio::default().line(b"fio version 4 iolog").is_err());
        let mut fio = Fio::default();
        fio.line(b"fio version 3 iolog").unwrap();
        for wrong in [&b"sda read 0 512"[..], b"5 sda erase 0 512", b"5 sda read 0", b"5"] {
            assert!(fio.line(wrong).is_err());
        }
    }
}
