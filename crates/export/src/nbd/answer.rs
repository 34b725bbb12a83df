//! From the outcome of a request to its reply.

use io::Buf;

use super::proto::request::{Command, Request, flags};
use super::proto::{Errno, reply};
use crate::limits::EXTENTS_MAX;
use crate::volume::{Extent, VolumeError};

pub type Outcome = Result<Content, Failure>;

/// What a request that succeeded is answered with.
pub enum Content {
    Nothing,
    Data(Vec<Buf>),
    Extents(Vec<Extent>),
}

/// What a request that failed is answered with.
pub struct Failure {
    pub errno: Errno,
    pub text: String,
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Failure {
        let text = match errno {
            Errno::NotPermitted => "the volume is read-only",
            Errno::Io => "input/output error",
            Errno::Invalid => "the request is malformed, misaligned, or outside the volume",
            Errno::NoSpace => "the write goes beyond the end of the volume",
            Errno::NotSupported => "zeroing here is not faster than writing",
            Errno::Shutdown => "the server is shutting down",
        };
        Failure { errno, text: text.to_owned() }
    }
}

impl From<VolumeError> for Failure {
    fn from(error: VolumeError) -> Failure {
        let errno = match error {
            VolumeError::NoSpace => Errno::NoSpace,
            VolumeError::Io(_) => Errno::Io,
            VolumeError::OutOfRange => Errno::Invalid,
            VolumeError::ReadOnly => Errno::NotPermitted,
            VolumeError::ShuttingDown => Errno::Shutdown,
        };
        Failure { errno, text: error.to_string() }
    }
}

/// Appends the reply up to its data, and gives the data that goes behind it.
pub fn write(out: &mut Vec<u8>, request: &Request, structured: bool, outcome: Outcome) -> Vec<Buf> {
    let cookie = request.cookie;
    match outcome {
        Err(failure) if structured => reply::error(out, cookie, failure.errno, &failure.text),
        Err(failure) => reply::simple_error(out, cookie, failure.errno),
        Ok(Content::Data(pieces)) => {
            if structured {
                reply::offset_data(out, cookie, request.offset, request.len);
            } else {
                reply::simple(out, cookie);
            }
            return pieces;
        }
        Ok(Content::Extents(extents)) => {
            let extents = &extents[..extents.len().min(EXTENTS_MAX)];
            reply::block_status(out, cookie, request.len, extents, request.has(flags::REQ_ONE));
        }
        // An empty read: there are no empty data chunks, but it must be a chunk.
        Ok(Content::Nothing) if structured && request.command == Command::Read => {
            reply::none(out, cookie);
        }
        Ok(Content::Nothing) => reply::simple(out, cookie),
    }
    Vec::new()
}
