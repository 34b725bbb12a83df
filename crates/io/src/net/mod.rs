//! Streams of bytes between us and clients: over sockets, or in memory for tests.

mod duplex;
mod listener;
mod stream;

use std::future::Future;
use std::io;
use std::ops::Range;
use std::path::PathBuf;

use crate::buf::{Buf, BufMut};

pub use duplex::{DuplexEnd, duplex};
pub use listener::{Address, Listener};
pub use stream::Stream;

/// One connection. A `recv` and a `send` may wait at the same time in different tasks, but
/// not two of the same kind.
pub trait ByteStream: 'static {
    /// Receives at least one byte into `buf[range]` and says how many; 0 is the end of the
    /// stream (or an empty range). The buffer comes back in any case.
    fn recv(
        &self,
        buf: BufMut,
        range: Range<usize>,
    ) -> impl Future<Output = (BufMut, io::Result<usize>)>;

    /// Sends every byte of every piece, in order.
    fn send(&self, pieces: Vec<Buf>) -> impl Future<Output = io::Result<()>>;

    /// Ends both directions: a waiting `recv`, here and at the other end, returns 0 when it
    /// has received what was sent before.
    fn close(&self);
}

/// Fills the whole of `buf[range]`. The end of the stream before that is `UnexpectedEof`.
pub async fn recv_exact(
    stream: &impl ByteStream,
    mut buf: BufMut,
    range: Range<usize>,
) -> (BufMut, io::Result<()>) {
    let mut start = range.start;
    while start < range.end {
        let (back, count) = stream.recv(buf, start..range.end).await;
        buf = back;
        match count {
            Ok(0) => return (buf, Err(io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => start += count,
            Err(error) => return (buf, Err(error)),
        }
    }
    (buf, Ok(()))
}

/// Why we can't listen or connect.
#[derive(Debug, thiserror::Error)]
pub enum NetError {
    #[error("another process listens on {address}; stop it or choose another address")]
    InUse { address: Address },
    #[error("{path} exists and is not a socket; choose another path for the socket")]
    NotASocket { path: PathBuf },
    #[error("{path} is longer than the {max} bytes a socket path may have; choose a shorter one")]
    PathTooLong { path: PathBuf, max: usize },
    #[error("nobody listens on {address}; is the server running?")]
    NobodyThere { address: Address },
    #[error("can't {action} {address}: {source}")]
    Os { address: Address, action: &'static str, source: io::Error },
}
