//! TLS over a client's byte stream, begun by the client in the handshake (NBD_OPT_STARTTLS).
//!
//! rustls does no I/O of its own, so nothing here needs another executor: what comes in encrypted
//! is handed to it, what it wants to send is taken from it.

use std::cell::RefCell;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use io::net::ByteStream;
use io::sync::Semaphore;
use io::{Buf, BufMut};
use rustls::{ServerConfig, ServerConnection};

use crate::limits::{TLS_IN_BYTES, TLS_OUT_BYTES};

/// The encrypted state of one connection. Like a stream, it bears one receive and one send at the
/// same time.
pub struct Tls<S> {
    stream: Rc<S>,
    state: RefCell<ServerConnection>,
    inbox: RefCell<Inbox>,
    /// Records must leave in the order in which they were encrypted.
    sending: Semaphore,
}

/// Received and not decrypted yet.
struct Inbox {
    /// Lent to the stream while receiving.
    buf: Option<BufMut>,
    range: Range<usize>,
}

impl<S: ByteStream> Tls<S> {
    /// Shakes hands with a client that is about to. An error has been told to the client.
    pub async fn accept(stream: Rc<S>, config: Arc<ServerConfig>) -> Result<Tls<S>> {
        let mut state = ServerConnection::new(config).map_err(Error::other)?;
        state.set_buffer_limit(Some(TLS_OUT_BYTES));
        let inbox = Inbox { buf: Some(BufMut::with_len(TLS_IN_BYTES)), range: 0..0 };
        let (state, inbox) = (RefCell::new(state), RefCell::new(inbox));
        let tls = Tls { stream, state, inbox, sending: Semaphore::new(1) };
        while tls.state.borrow().is_handshaking() {
            let read = tls.greet();
            // An alert is worth sending, too: it says why.
            let told = tls.flush().await;
            read?;
            told?;
            if tls.state.borrow().is_handshaking() && tls.fill().await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(tls)
    }

    /// As [`ByteStream::recv`].
    pub async fn recv(&self, mut buf: BufMut, range: Range<usize>) -> (BufMut, Result<usize>) {
        loop {
            match self.take(&mut buf[range.clone()]) {
                Ok(None) => {}
                Ok(Some(count)) => return (buf, Ok(count)),
                Err(error) => {
                    // The alert says why, if the client still listens; the error is ours anyway.
                    let _ = self.flush().await;
                    return (buf, Err(error));
                }
            }
            match self.fill().await {
                // Without a farewell, too: every message of NBD has its length.
                Ok(0) => return (buf, Ok(0)),
                Ok(_) => {}
                Err(error) => return (buf, Err(error)),
            }
        }
    }

    /// As [`ByteStream::send`].
    pub async fn send(&self, pieces: Vec<Buf>) -> Result<()> {
        let _turn = self.sending.acquire(1).await;
        for piece in pieces {
            let mut rest = &piece[..];
            while !rest.is_empty() {
                let count = self.state.borrow_mut().writer().write(rest)?;
                if count < rest.len() {
                    // It takes no more before what it has is gone.
                    assert!(self.pending(), "what has no room leaves something to send");
                    self.put().await?;
                }
                rest = &rest[count..];
            }
        }
        self.put().await
    }

    async fn flush(&self) -> Result<()> {
        let _turn = self.sending.acquire(1).await;
        self.put().await
    }

    fn pending(&self) -> bool {
        self.state.borrow().wants_write()
    }

    /// Sends what is encrypted, of which there is at most [`TLS_OUT_BYTES`] and a record.
    async fn put(&self) -> Result<()> {
        while self.pending() {
            let mut records = Vec::with_capacity(TLS_OUT_BYTES);
            while records.len() < TLS_OUT_BYTES && self.pending() {
                self.state.borrow_mut().write_tls(&mut records)?;
            }
            self.stream.send(vec![Buf::from_slice(&records)]).await?;
        }
        Ok(())
    }

    /// Decrypted bytes, if there are any without receiving; 0 if the client said farewell.
    fn take(&self, to: &mut [u8]) -> Result<Option<usize>> {
        loop {
            match self.state.borrow_mut().reader().read(to) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                result => return result.map(Some),
            }
            if !self.decrypt()? {
                return Ok(None);
            }
        }
    }

    /// The part of the handshake that has been received. What the client sent behind it stays.
    fn greet(&self) -> Result<()> {
        while self.state.borrow().is_handshaking() && self.decrypt()? {}
        Ok(())
    }

    /// Hands on what has been received; false if there was nothing.
    fn decrypt(&self) -> Result<bool> {
        let mut inbox = self.inbox.borrow_mut();
        let Inbox { buf, range } = &mut *inbox;
        let mut bytes = buf.as_ref().map_or(&[][..], |buf| &buf[range.clone()]);
        if bytes.is_empty() {
            return Ok(false);
        }
        let mut state = self.state.borrow_mut();
        range.start += state.read_tls(&mut bytes)?;
        let processed = state.process_new_packets();
        processed.map(|_| true).map_err(|error| Error::new(ErrorKind::InvalidData, error))
    }

    /// One receive; 0 if the client left. All that came before has been decrypted.
    async fn fill(&self) -> Result<usize> {
        let buf = self.inbox.borrow_mut().buf.take();
        let buf = buf.expect("one receive at a time, and none is dropped");
        let (buf, received) = self.stream.recv(buf, 0..TLS_IN_BYTES).await;
        let range = 0..received.as_ref().map_or(0, |&count| count);
        *self.inbox.borrow_mut() = Inbox { buf: Some(buf), range };
        received
    }
}
