//! The text that blkparse makes of blktrace, in its own form (no `-f`).
//!
//! ```text
//!   8,0    3       11     0.009507758   697  Q   WS 223490 + 56 [kjournald]
//!   device cpu sequence   seconds       pid  event what sector + sectors
//! ```
//! Each request is seen several times, once an event. A summary follows the last of them.

use super::super::number::{nanos, whole};
use super::super::record::Op;
use super::{Action, Parser, Raw, SECOND, Wrong, sectors};

pub struct Blkparse {
    action: &'static [u8],
    /// The summary has begun.
    over: bool,
}

impl Blkparse {
    pub fn new(action: Action) -> Blkparse {
        let action: &[u8] = match action {
            Action::Q => b"Q",
            Action::D => b"D",
            Action::C => b"C",
        };
        Blkparse { action, over: false }
    }
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// Numbers of the driver and of the device.
fn is_device(word: &[u8]) -> bool {
    let mut parts = word.split(|&byte| byte == b',');
    let mut number = || parts.next().is_some_and(|part| whole(part).is_some());
    number() && number() && parts.next().is_none()
}

pub fn looks_like(line: &[u8]) -> bool {
    let words: Vec<&[u8]> = words(line).take(7).collect();
    words.len() >= 6
        && is_device(words[0])
        && whole(words[1]).is_some()
        && whole(words[2]).is_some()
        && nanos(words[3], SECOND).is_some()
}

/// What the letters say: `None` for what moves no data.
fn op(letters: &[u8]) -> Option<Op> {
    let has = |letter| letters.contains(&letter);
    if has(b'D') {
        Some(Op::Discard)
    } else if has(b'W') {
        Some(Op::Write)
    } else {
        has(b'R').then_some(Op::Read)
    }
}

impl Parser for Blkparse {
    fn line<'a>(&mut self, line: &'a [u8]) -> Result<Option<Raw<'a>>, Wrong> {
        self.over |= line.starts_with(b"CPU") || line.starts_with(b"Total (");
        if self.over {
            return Ok(None);
        }
        let mut words = words(line);
        let mut next = || words.next().ok_or("fewer than 6 words");
        let device = next()?;
        if !is_device(device) {
            return Err("it begins with no device");
        }
        let (_cpu, _sequence, at, _pid, event) = (next()?, next()?, next()?, next()?, next()?);
        let at = nanos(at, SECOND).ok_or("no time in seconds")?;
        if event != self.action {
            return Ok(None);
        }
        let Some(op) = op(next()?) else { return Ok(None) };
        let sector = next()?;
        if next()? != b"+" {
            return Err("no + after the sector");
        }
        Ok(Some(Raw {
            at,
            device,
            op,
            offset: sectors(whole(sector).ok_or("no sector")?)?,
            len: sectors(whole(next()?).ok_or("no number of sectors")?)?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Form;
    use super::*;

    #[test]
    fn of_all_events_one_is_the_request() {
        let lines = [
            "  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]",
            "  8,0    3        2     0.000001829   697  P   N [kjournald]",
            "  8,0    3        3     0.000002197   697  Q  WS 223490 + 8 [kjournald]",
            "  8,0    3        4     0.000005533   697  M   W 223498 + 8 [kjournald]",
            "  8,16   3        5     1.500005533     0  Q  RA 100 + 256 [x y]",
            "  8,0    3        6     1.600000000   697  D   W 223490 + 16 [kjournald]",
            "  8,0    3        7     1.700000000   697  Q FWS [kjournald]",
            "  8,0    3        8     1.800000000   697  Q  DS 0 + 2048 [fstrim]",
        ];
        assert!(lines.iter().all(|line| looks_like(line.trim().as_bytes())));
        let requests = |action| {
            let (mut parser, _) = Form::Blkparse.parser(b"", action);
            let read = lines.map(|line| parser.line(line.as_bytes()));
            read.map(|raw| raw.ok().flatten().map(|raw| (raw.op, raw.offset, raw.len)))
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
        };
        let write = (Op::Write, 223_490 * 512, 4096);
        let wanted = [write, (Op::Read, 51_200, 131_072), (Op::Discard, 0, 1 << 20)];
        assert_eq!(requests(Action::Q), wanted);
        assert_eq!(requests(Action::D), [(Op::Write, 223_490 * 512, 8192)]);
        assert_eq!(requests(Action::C), []);
    }

    #[test]
    fn the_summary_is_no_wrong_line_and_nonsense_is() {
        let (mut parser, _) = Form::Blkparse.parser(b"", Action::Q);
        assert!(parser.line(b"what is this").is_err());
        assert!(parser.line(b"8,0 3 3 0.1 697 Q WS 223490 8").is_err());
        assert_eq!(parser.line(b"CPU0 (sda):"), Ok(None));
        assert_eq!(parser.line(b" Reads Queued:  10, 40KiB"), Ok(None));
    }
}
