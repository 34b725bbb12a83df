//! The handshake's messages: greeting, options and their replies.

use super::{Fields, GREETING_MAGIC, OPTION_MAGIC, OPTION_REPLY_MAGIC, ProtocolError};
use crate::limits::{NAME_BYTES_MAX, OPTION_BYTES_MAX};

pub const HEADER_BYTES: usize = 16;
pub const CLIENT_FLAGS_BYTES: usize = 4;

const FLAG_FIXED_NEWSTYLE: u32 = 1;
const FLAG_NO_ZEROES: u32 = 2;

/// Zeroes after the reply to EXPORT_NAME, unless the client asked for none.
const RESERVED_BYTES: usize = 124;

/// Transmission flags: what an export can do.
pub mod transmission {
    pub const HAS_FLAGS: u16 = 1 << 0;
    pub const READ_ONLY: u16 = 1 << 1;
    pub const SEND_FLUSH: u16 = 1 << 2;
    pub const SEND_FUA: u16 = 1 << 3;
    pub const SEND_TRIM: u16 = 1 << 5;
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    pub const SEND_DF: u16 = 1 << 7;
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
    pub const SEND_FAST_ZERO: u16 = 1 << 11;
}

pub mod info {
    pub const EXPORT: u16 = 0;
    pub const NAME: u16 = 1;
    pub const DESCRIPTION: u16 = 2;
    pub const BLOCK_SIZE: u16 = 3;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ReplyKind {
    Ack = 1,
    Server = 2,
    Info = 3,
    MetaContext = 4,
    Unsupported = 1 << 31 | 1,
    Policy = 1 << 31 | 2,
    Invalid = 1 << 31 | 3,
    TlsRequired = 1 << 31 | 5,
    UnknownExport = 1 << 31 | 6,
    Shutdown = 1 << 31 | 7,
}

/// What the client can do, from its first four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientFlags {
    pub fixed: bool,
    pub no_zeroes: bool,
}

pub fn greeting() -> [u8; 18] {
    let mut bytes = [0; 18];
    bytes[..8].copy_from_slice(&GREETING_MAGIC.to_be_bytes());
    bytes[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
    let flags = (FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES) as u16;
    bytes[16..].copy_from_slice(&flags.to_be_bytes());
    bytes
}

pub fn parse_client_flags(bytes: [u8; CLIENT_FLAGS_BYTES]) -> Result<ClientFlags, ProtocolError> {
    let flags = u32::from_be_bytes(bytes);
    if flags & !(FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES) != 0 {
        return Err(ProtocolError::ClientFlags(flags));
    }
    Ok(ClientFlags {
        fixed: flags & FLAG_FIXED_NEWSTYLE != 0,
        no_zeroes: flags & FLAG_NO_ZEROES != 0,
    })
}

/// The number of an option and how many bytes of data follow its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub code: u32,
    pub len: u32,
}

pub fn parse_header(bytes: &[u8; HEADER_BYTES]) -> Result<Header, ProtocolError> {
    let mut fields = Fields(bytes);
    let (Some(magic), Some(code), Some(len)) = (fields.u64(), fields.u32(), fields.u32()) else {
        unreachable!("the header has its length by type")
    };
    if magic != OPTION_MAGIC {
        return Err(ProtocolError::OptionMagic);
    }
    if len > OPTION_BYTES_MAX {
        return Err(ProtocolError::OptionLength(len));
    }
    Ok(Header { code, len })
}

/// An option with its data, as far as we know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientOption<'a> {
    ExportName(&'a str),
    Abort,
    List,
    StartTls,
    Info(InfoRequest<'a>),
    Go(InfoRequest<'a>),
    StructuredReply,
    ListMetaContext(ContextRequest<'a>),
    SetMetaContext(ContextRequest<'a>),
    /// Not known, or not offered (extended headers).
    Unknown,
    /// A known option with data that makes no sense.
    Malformed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfoRequest<'a> {
    pub name: &'a str,
    pub items: Vec<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextRequest<'a> {
    pub name: &'a str,
    pub queries: Vec<&'a str>,
}

pub const EXPORT_NAME: u32 = 1;
pub const START_TLS: u32 = 5;

pub fn parse(code: u32, data: &[u8]) -> ClientOption<'_> {
    let empty = |option| data.is_empty().then_some(option);
    match code {
        EXPORT_NAME => parse_name(data).map(ClientOption::ExportName),
        2 => Some(ClientOption::Abort),
        3 => empty(ClientOption::List),
        START_TLS => empty(ClientOption::StartTls),
        6 => parse_info(data).map(ClientOption::Info),
        7 => parse_info(data).map(ClientOption::Go),
        8 => empty(ClientOption::StructuredReply),
        9 => parse_contexts(data).map(ClientOption::ListMetaContext),
        10 => parse_contexts(data).map(ClientOption::SetMetaContext),
        _ => Some(ClientOption::Unknown),
    }
    .unwrap_or(ClientOption::Malformed)
}

fn parse_name(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok().filter(|name| name.len() <= NAME_BYTES_MAX)
}

fn parse_info(data: &[u8]) -> Option<InfoRequest<'_>> {
    let mut fields = Fields(data);
    let name = fields.string().filter(|name| name.len() <= NAME_BYTES_MAX)?;
    let count = fields.u16()?;
    // Each pass takes bytes or ends, so `count` alone allocates nothing.
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(fields.u16()?);
    }
    fields.0.is_empty().then_some(InfoRequest { name, items })
}

fn parse_contexts(data: &[u8]) -> Option<ContextRequest<'_>> {
    let mut fields = Fields(data);
    let name = fields.string().filter(|name| name.len() <= NAME_BYTES_MAX)?;
    let count = fields.u32()?;
    let mut queries = Vec::new();
    for _ in 0..count {
        queries.push(fields.string()?);
    }
    fields.0.is_empty().then_some(ContextRequest { name, queries })
}

/// Appends one reply to option `code`; `data` is given in parts that belong together.
pub fn reply(out: &mut Vec<u8>, code: u32, kind: ReplyKind, data: &[&[u8]]) {
    let len: usize = data.iter().map(|part| part.len()).sum();
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&code.to_be_bytes());
    out.extend_from_slice(&(kind as u32).to_be_bytes());
    out.extend_from_slice(&(len as u32).to_be_bytes());
    for part in data {
        out.extend_from_slice(part);
    }
}

/// Appends the reply to EXPORT_NAME, which has a shape of its own.
pub fn export_name_reply(out: &mut Vec<u8>, size: u64, flags: u16, no_zeroes: bool) {
    out.extend_from_slice(&size.to_be_bytes());
    out.extend_from_slice(&flags.to_be_bytes());
    if !no_zeroes {
        out.extend_from_slice(&[0; RESERVED_BYTES]);
    }
}
