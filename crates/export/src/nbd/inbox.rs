//! The receive side: many small messages with one receive, long payloads without a copy.

use io::net::ByteStream;
use io::{Buf, BufMut};

use super::link::Link;
use super::proto::ProtocolError;
use super::server::ConnectionError;
use crate::limits::{DIRECT_BYTES_MIN, GREETING_INBOX_BYTES, INBOX_BYTES};

pub struct Inbox {
    /// Lent to the stream while receiving.
    buf: Option<BufMut>,
    len: usize,
    start: usize,
    end: usize,
}

impl Inbox {
    /// For the handshake.
    pub fn new() -> Inbox {
        let len = GREETING_INBOX_BYTES;
        Inbox { buf: Some(BufMut::with_len(len)), len, start: 0, end: 0 }
    }

    /// For requests: the same, with more room.
    pub fn widened(self) -> Inbox {
        let mut buf = BufMut::with_len(INBOX_BYTES);
        let bytes = self.bytes();
        buf[..bytes.len()].copy_from_slice(bytes);
        Inbox { end: bytes.len(), buf: Some(buf), len: INBOX_BYTES, start: 0 }
    }

    /// What has been received and not yet taken.
    pub fn bytes(&self) -> &[u8] {
        self.buf.as_ref().map_or(&[], |buf| &buf[self.start..self.end])
    }

    pub fn consume(&mut self, len: usize) {
        assert!(len <= self.end - self.start, "can't consume what isn't there");
        self.start += len;
    }

    /// Takes the first `N` bytes, waiting for them if needed; `None` if the client left
    /// before the first of them.
    pub async fn array<const N: usize, S: ByteStream>(
        &mut self,
        link: &Link<S>,
    ) -> Result<Option<[u8; N]>, ConnectionError> {
        if self.bytes().len() < N && !self.wait_for(link, N).await? {
            return Ok(None);
        }
        let array = self.bytes().first_chunk().copied();
        self.consume(N);
        Ok(array)
    }

    /// Waits until `len` bytes are there; false if the client left before the first.
    pub async fn wait_for<S: ByteStream>(
        &mut self,
        link: &Link<S>,
        len: usize,
    ) -> Result<bool, ConnectionError> {
        assert!(len <= self.len, "no message that is waited for as a whole is longer");
        while self.bytes().len() < len {
            if !self.bytes().is_empty() {
                link.message.begin();
            }
            if self.fill(link).await? == 0 {
                let clean = self.bytes().is_empty();
                return if clean { Ok(false) } else { Err(ProtocolError::Truncated.into()) };
            }
        }
        link.message.end();
        Ok(true)
    }

    /// A payload, placed `pad` bytes after a page boundary.
    pub async fn payload<S: ByteStream>(
        &mut self,
        link: &Link<S>,
        len: usize,
        pad: usize,
    ) -> Result<Buf, ConnectionError> {
        let mut buf = BufMut::with_len(pad + len);
        let end = pad + len;
        let mut at = pad;
        loop {
            at += self.copy_to(&mut buf[at..]);
            if at == end {
                break;
            }
            link.message.begin();
            let received = if end - at >= DIRECT_BYTES_MIN {
                let (back, received) = link.recv(buf, at..end).await;
                buf = back;
                at += received.as_ref().map_or(0, |&len| len);
                received?
            } else {
                self.fill(link).await?
            };
            if received == 0 {
                return Err(ProtocolError::Truncated.into());
            }
        }
        link.message.end();
        Ok(buf.freeze().slice(pad..end))
    }

    /// Receives a payload and forgets it.
    pub async fn skip<S: ByteStream>(
        &mut self,
        link: &Link<S>,
        len: usize,
    ) -> Result<(), ConnectionError> {
        let mut left = len;
        loop {
            let part = left.min(self.bytes().len());
            self.consume(part);
            left -= part;
            if left == 0 {
                link.message.end();
                return Ok(());
            }
            link.message.begin();
            if self.fill(link).await? == 0 {
                return Err(ProtocolError::Truncated.into());
            }
        }
    }

    fn copy_to(&mut self, to: &mut [u8]) -> usize {
        let bytes = self.bytes();
        let len = bytes.len().min(to.len());
        to[..len].copy_from_slice(&bytes[..len]);
        self.consume(len);
        len
    }

    /// One receive into the free part of the buffer. There is one: every message that is
    /// waited for as a whole is shorter than the buffer. 0 if the client left.
    async fn fill<S: ByteStream>(&mut self, link: &Link<S>) -> std::io::Result<usize> {
        let mut buf = self.buf.take().expect("one receive at a time, and none is dropped");
        // What is left over is shorter than one message, so moving it is cheap.
        buf.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let (buf, received) = link.recv(buf, self.end..self.len).await;
        self.buf = Some(buf);
        self.end += received.as_ref().map_or(0, |&len| len);
        received
    }
}
