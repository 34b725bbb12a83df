//! MSR Cambridge (SNIA IOTTA): a request a line, in the order of time.
//!
//! ```text
//!   128166372003061629,hm,0,Read,383496192,32768,413
//!   100 ns since 1601  host disk what offset bytes (100 ns it took)
//! ```

use super::super::number::{nanos, whole};
use super::super::record::Op;
use super::{Parser, Raw, Wrong, fields, is_header};

pub struct Msr;

impl Parser for Msr {
    fn line<'a>(&mut self, line: &'a [u8]) -> Result<Option<Raw<'a>>, Wrong> {
        if is_header(line) {
            return Ok(None);
        }
        let mut fields = fields(line);
        let mut next = || fields.next().ok_or("fewer than 6 fields");
        let (at, host, disk) = (next()?, next()?, next()?);
        let (op, offset, len) = (next()?, next()?, next()?);
        // Host and disk stand side by side: together they name the device.
        let start = host.as_ptr() as usize - line.as_ptr() as usize;
        let end = disk.as_ptr() as usize - line.as_ptr() as usize + disk.len();
        Ok(Some(Raw {
            at: nanos(at, 100).ok_or("no time in 100 ns")?,
            device: &line[start..end],
            op: Op::named(op).ok_or("neither Read nor Write")?,
            offset: whole(offset).ok_or("no offset")?,
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
        let raw = parsed(Form::Msr, "128166372003061629,hm,0,Read,383496192,32768,413");
        let at = 12_816_637_200_306_162_900;
        let wanted = Raw { at, device: b"hm,0", offset: 383_496_192, len: 32768, op: Op::Read };
        assert_eq!(raw, Ok(Some(wanted)));
        assert_eq!(parsed(Form::Msr, "Timestamp,Hostname,DiskNumber,Type,Offset,Size"), Ok(None));
        assert!(parsed(Form::Msr, "128166372003061629,hm,0,Read,383496192").is_err());
        assert!(parsed(Form::Msr, "1,hm,0,Erase,0,512,3").is_err());
    }
}
