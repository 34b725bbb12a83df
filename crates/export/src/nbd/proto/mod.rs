//! Bytes of the NBD protocol. All numbers are big-endian.

pub mod options;
pub mod reply;
pub mod request;

/// "NBDMAGIC"
pub const GREETING_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// "IHAVEOPT"
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// The one metadata context we know, and the number we give it.
pub const CONTEXT_NAME: &str = "base:allocation";
pub const CONTEXT_ID: u32 = 1;

/// What a client did that leaves no way to go on: the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    #[error("client flags {0:#x} are unknown")]
    ClientFlags(u32),
    #[error("an option doesn't begin with its magic number")]
    OptionMagic,
    #[error("an option of {0} bytes is too long")]
    OptionLength(u32),
    #[error("too many options")]
    TooManyOptions,
    #[error("option {0} needs the fixed newstyle handshake")]
    NotFixed(u32),
    #[error("the client did not ask for TLS, without which nothing is served here")]
    TlsRequired,
    #[error("the client sent something in clear text behind its request for TLS")]
    ClearText,
    #[error("the client asked for an export that isn't there")]
    NoSuchExport,
    #[error("a request doesn't begin with its magic number")]
    RequestMagic,
    #[error("a write of {0} bytes is too long")]
    PayloadLength(u32),
    #[error("the client left in the middle of a message")]
    Truncated,
}

/// Error numbers of replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Errno {
    NotPermitted = 1,
    Io = 5,
    Invalid = 22,
    NoSpace = 28,
    NotSupported = 95,
    Shutdown = 108,
}

/// Reads fields from the front of a message; `None` once it is too short.
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    pub fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(front)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A string with its length in front.
    pub fn string(&mut self) -> Option<&'a str> {
        let len = self.u32()?;
        std::str::from_utf8(self.bytes(len as usize)?).ok()
    }
}
