//! Requests of the transmission phase, and whether they may run.

use super::{Errno, Fields, ProtocolError, REQUEST_MAGIC};
use crate::volume::BlockSizes;

pub const HEADER_BYTES: usize = 28;

pub mod flags {
    pub const FUA: u16 = 1 << 0;
    pub const NO_HOLE: u16 = 1 << 1;
    pub const DF: u16 = 1 << 2;
    pub const REQ_ONE: u16 = 1 << 3;
    pub const FAST_ZERO: u16 = 1 << 4;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    Read,
    Write,
    Disconnect,
    Flush,
    Trim,
    WriteZeroes,
    BlockStatus,
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub command: Command,
    pub flags: u16,
    /// The client's name for this request; replies carry it.
    pub cookie: u64,
    pub offset: u64,
    pub len: u32,
}

pub fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<Request, ProtocolError> {
    let mut fields = Fields(bytes);
    parse_fields(&mut fields).ok_or(ProtocolError::RequestMagic)
}

fn parse_fields(fields: &mut Fields<'_>) -> Option<Request> {
    fields.u32().filter(|&magic| magic == REQUEST_MAGIC)?;
    let flags = fields.u16()?;
    let command = match fields.u16()? {
        0 => Command::Read,
        1 => Command::Write,
        2 => Command::Disconnect,
        3 => Command::Flush,
        4 => Command::Trim,
        6 => Command::WriteZeroes,
        7 => Command::BlockStatus,
        _ => Command::Unknown,
    };
    let (cookie, offset, len) = (fields.u64()?, fields.u64()?, fields.u32()?);
    Some(Request { command, flags, cookie, offset, len })
}

/// What was agreed on a connection, as far as it decides which requests are valid.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub size: u64,
    pub read_only: bool,
    pub blocks: BlockSizes,
    pub structured: bool,
    pub block_status: bool,
}

impl Request {
    pub fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    pub fn fua(&self) -> bool {
        self.has(flags::FUA)
    }

    /// Bytes of data that this request makes us hold until its reply is sent.
    pub fn payload_len(&self) -> u32 {
        match self.command {
            Command::Read | Command::Write => self.len,
            _ => 0,
        }
    }

    /// Errors as the protocol wants them for requests that break the terms.
    pub fn check(&self, terms: &Terms) -> Result<(), Errno> {
        self.check_flags(terms)?;
        match self.command {
            Command::Unknown => Err(Errno::Invalid),
            Command::Flush | Command::Disconnect => Ok(()),
            _ if self.writes() && terms.read_only => Err(Errno::NotPermitted),
            _ => self.check_range(terms),
        }
    }

    fn writes(&self) -> bool {
        matches!(self.command, Command::Write | Command::Trim | Command::WriteZeroes)
    }

    fn check_flags(&self, terms: &Terms) -> Result<(), Errno> {
        let special = match self.command {
            Command::Read if terms.structured => flags::DF,
            Command::WriteZeroes => flags::NO_HOLE | flags::FAST_ZERO,
            Command::BlockStatus if terms.block_status => flags::REQ_ONE,
            Command::BlockStatus => return Err(Errno::Invalid),
            _ => 0,
        };
        // Clients may set FUA on anything.
        let known = self.flags & !(special | flags::FUA) == 0;
        if known { Ok(()) } else { Err(Errno::Invalid) }
    }

    fn check_range(&self, terms: &Terms) -> Result<(), Errno> {
        let end = self.offset.checked_add(u64::from(self.len));
        if end.is_none_or(|end| end > terms.size) {
            let grows = matches!(self.command, Command::Write | Command::WriteZeroes);
            return Err(if grows { Errno::NoSpace } else { Errno::Invalid });
        }
        let min = terms.blocks.min;
        let aligned = self.offset.is_multiple_of(min.into()) && self.len.is_multiple_of(min);
        let fits = self.payload_len() <= terms.blocks.max;
        let asks_nothing = self.command == Command::BlockStatus && self.len == 0;
        if aligned && fits && !asks_nothing { Ok(()) } else { Err(Errno::Invalid) }
    }
}
