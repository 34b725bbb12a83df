//! The traces of two clouds' block stores.
//!
//! ```text
//!   419,W,1536,16384,1577808000000104            Alibaba: device, R|W, offset, bytes, microseconds
//!   1538323200,12910952,128,0,1063               Tencent: seconds, sector, sectors, 0|1, volume
//! ```
//! Tencent's clock has seconds only: whatever is finer than that is not in its trace.

use super::super::number::{nanos, whole};
use super::super::record::Op;
use super::{MICRO, Parser, Raw, SECOND, Wrong, fields, is_header, sectors};

pub struct Alibaba;

impl Parser for Alibaba {
    fn line<'a>(&mut self, line: &'a [u8]) -> Result<Option<Raw<'a>>, Wrong> {
        if is_header(line) {
            return Ok(None);
        }
        let mut fields = fields(line);
        let mut next = || fields.next().ok_or("fewer than 5 fields");
        let (device, op, offset, len, at) = (next()?, next()?, next()?, next()?, next()?);
        Ok(Some(Raw {
            at: nanos(at, MICRO).ok_or("no time in microseconds")?,
            device,
            op: Op::named(op).ok_or("neither R nor W")?,
            offset: whole(offset).ok_or("no offset")?,
            len: whole(len).ok_or("no number of bytes")?,
        }))
    }
}

pub struct Tencent;

impl Parser for Tencent {
    fn line<'a>(&mut self, line: &'a [u8]) -> Result<Option<Raw<'a>>, Wrong> {
        if is_header(line) {
            return Ok(None);
        }
        let mut fields = fields(line);
        let mut next = || fields.next().ok_or("fewer than 5 fields");
        let (at, sector, count, op, device) = (next()?, next()?, next()?, next()?, next()?);
        let op = match op {
            b"0" => Op::Read,
            b"1" => Op::Write,
            _ => return Err("neither 0 nor 1"),
        };
        Ok(Some(Raw {
            at: nanos(at, SECOND).ok_or("no time in seconds")?,
            device,
            op,
            offset: sectors(whole(sector).ok_or("no sector")?)?,
            len: sectors(whole(count).ok_or("no number of sectors")?)?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Form, parsed};
    use super::*;

    #[test]
    fn a_line_of_each() {
        let raw = parsed(Form::Alibaba, "419,W,1536,16384,1577808000000104");
        let at = 1_577_808_000_000_104_000;
        let wanted = Raw { at, device: b"419", offset: 1536, len: 16384, op: Op::Write };
        assert_eq!(raw, Ok(Some(wanted)));
        let raw = parsed(Form::Tencent, "1538323200,12910952,128,0,1063");
        let (at, offset) = (1_538_323_200_000_000_000, 12_910_952 * 512);
        assert_eq!(raw, Ok(Some(Raw { at, device: b"1063", offset, len: 65536, op: Op::Read })));
        assert!(parsed(Form::Tencent, "1538323200,12910952,128,2,1063").is_err());
        assert!(parsed(Form::Alibaba, "419,W,1536,16384").is_err());
    }
}
