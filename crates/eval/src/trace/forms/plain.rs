//! The plain form, which `eval trace convert` and `generate` write.
//!
//! ```text
//!   timestamp_us,op,offset_bytes,size_bytes
//!   1250,W,4096,8192
//!   1250.5,R,0,512
//! ```
//! With `,device` after the header's names, and a fifth field, if there are several. By its header
//! it is told from the same in seconds, which is another form and has none.

use std::io::{self, Write};

use super::super::number::{nanos, whole};
use super::super::record::{Op, Record};
use super::{MICRO, Parser, Raw, Wrong, fields, is_header};

pub const HEADER: &str = "timestamp_us,op,offset_bytes,size_bytes";
pub const HEADER_DEVICES: &str = "timestamp_us,op,offset_bytes,size_bytes,device";

pub struct Plain {
    /// Nanoseconds of its unit of time.
    pub unit: u64,
}

impl Parser for Plain {
    fn line<'a>(&mut self, line: &'a [u8]) -> Result<Option<Raw<'a>>, Wrong> {
        if is_header(line) {
            return Ok(None);
        }
        let mut fields = fields(line);
        let mut next = || fields.next().ok_or("fewer than 4 fields");
        let (at, op, offset, len) = (next()?, next()?, next()?, next()?);
        Ok(Some(Raw {
            at: nanos(at, self.unit).ok_or("no time")?,
            device: fields.next().unwrap_or(b""),
            op: Op::named(op).ok_or("neither R nor W nor D")?,
            offset: whole(offset).ok_or("no offset")?,
            len: whole(len).ok_or("no number of bytes")?,
        }))
    }
}

/// A line of it; every nanosecond is kept.
pub fn write(out: &mut impl Write, record: &Record, devices: bool) -> io::Result<()> {
    let Record { at, device, offset, len, op } = *record;
    write!(out, "{}", at.0 / MICRO)?;
    if at.0 % MICRO > 0 {
        let fraction = format!("{:03}", at.0 % MICRO);
        write!(out, ".{}", fraction.trim_end_matches('0'))?;
    }
    write!(out, ",{},{offset},{len}", op.letter())?;
    if devices {
        write!(out, ",{device}")?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::super::{Form, parsed};
    use super::*;
    use ::io::Nanos;

    #[test]
    fn what_is_written_is_read() {
        for (at, text) in [(0, "0"), (1_250_000, "1250"), (1_250_070, "1250.07")] {
            let record =
                Record { at: Nanos(at), device: 3, offset: 512, len: 1024, op: Op::Discard };
            let mut line = Vec::new();
            write(&mut line, &record, true).unwrap();
            let line = String::from_utf8(line).unwrap();
            assert_eq!(line, format!("{text},D,512,1024,3\n"));
            let raw = parsed(Form::Plain, line.trim()).unwrap().unwrap();
            let wanted = Raw { at, device: b"3", offset: 512, len: 1024, op: Op::Discard };
            assert_eq!(raw, wanted);
        }
        let raw = parsed(Form::Seconds, "0.25,W,4096,8192").unwrap().unwrap();
        assert_eq!((raw.at, raw.device), (250_000_000, &b""[..]));
        assert_eq!(parsed(Form::Plain, HEADER), Ok(None));
    }
}
