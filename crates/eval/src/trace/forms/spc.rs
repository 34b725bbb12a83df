//! SPC, as the University of Massachusetts keeps Financial and WebSearch.
//!
//! ```text
//!   0,20941264,8192,W,0.551706
//!   unit sector bytes R|W seconds, then whatever
//! ```

use super::super::number::{nanos, whole};
use super::super::record::Op;
use super::{Parser, Raw, SECOND, Wrong, fields, sectors};

pub struct Spc;

impl Parser for Spc {
    fn line<'a>(&mut self, line: &'a [u8]) -> Result<Option<Raw<'a>>, Wrong> {
        let mut fields = fields(line);
        let mut next = || fields.next().ok_or("fewer than 5 fields");
        let (device, sector, len, op, at) = (next()?, next()?, next()?, next()?, next()?);
        Ok(Some(Raw {
            at: nanos(at, SECOND).ok_or("no time in seconds")?,
            device,
            op: Op::named(op).ok_or("neither R nor W")?,
            offset: sectors(whole(sector).ok_or("no sector")?)?,
            len: whole(len).ok_or("no number of bytes")?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Form, parsed};
    use super::*;

    #[test]
    fn a_line() {
        let raw = parsed(Form::Spc, "3,20941264,8192,w,0.551706");
        let (at, offset) = (551_706_000, 20_941_264 * 512);
        assert_eq!(raw, Ok(Some(Raw { at, device: b"3", offset, len: 8192, op: Op::Write })));
        assert!(parsed(Form::Spc, "3,20941264,8192,w").is_err());
        let beyond = u64::MAX / 512 + 1;
        assert!(parsed(Form::Spc, &format!("3,{beyond},8192,w,0")).is_err());
    }
}
