//! Two connected ends in memory: a socket pair for tests, on any executor.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::ByteStream;
use crate::buf::{Buf, BufMut};

/// One direction.
struct Pipe {
    bytes: VecDeque<u8>,
    capacity: usize,
    closed: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    fn new(capacity: usize) -> Rc<RefCell<Pipe>> {
        let bytes = VecDeque::with_capacity(capacity);
        let pipe = Pipe { bytes, capacity, closed: false, reader: None, writer: None };
        Rc::new(RefCell::new(pipe))
    }

    fn poll_read(&mut self, to: &mut [u8], context: &mut Context<'_>) -> Poll<usize> {
        let count = to.len().min(self.bytes.len());
        if count == 0 && !to.is_empty() && !self.closed {
            self.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        for (to, from) in to.iter_mut().zip(self.bytes.drain(..count)) {
            *to = from;
        }
        wake(&mut self.writer);
        Poll::Ready(count)
    }

    fn poll_write(&mut self, from: &[u8], context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if self.closed {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let count = from.len().min(self.capacity - self.bytes.len());
        if count == 0 && !from.is_empty() {
            self.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        self.bytes.extend(&from[..count]);
        wake(&mut self.reader);
        Poll::Ready(Ok(count))
    }

    fn close(&mut self) {
        self.closed = true;
        wake(&mut self.reader);
        wake(&mut self.writer);
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

/// One end. Dropping it closes the connection.
pub struct DuplexEnd {
    incoming: Rc<RefCell<Pipe>>,
    outgoing: Rc<RefCell<Pipe>>,
}

/// Two connected ends, each direction holding at most `capacity` bytes on the way.
pub fn duplex(capacity: usize) -> (DuplexEnd, DuplexEnd) {
    assert!(capacity > 0, "a pipe without room never carries anything");
    let (there, back) = (Pipe::new(capacity), Pipe::new(capacity));
    let left = DuplexEnd { incoming: back.clone(), outgoing: there.clone() };
    (left, DuplexEnd { incoming: there, outgoing: back })
}

impl ByteStream for DuplexEnd {
    async fn recv(&self, mut buf: BufMut, range: Range<usize>) -> (BufMut, io::Result<usize>) {
        let to = &mut buf[range];
        let count = poll_fn(|context| self.incoming.borrow_mut().poll_read(to, context)).await;
        (buf, Ok(count))
    }

    async fn send(&self, pieces: Vec<Buf>) -> io::Result<()> {
        for piece in pieces {
            let mut rest = &piece[..];
            while !rest.is_empty() {
                let sent = |context: &mut Context<'_>| {
                    self.outgoing.borrow_mut().poll_write(rest, context)
                };
                rest = &rest[poll_fn(sent).await?..];
            }
        }
        Ok(())
    }

    fn close(&self) {
        self.incoming.borrow_mut().close();
        self.outgoing.borrow_mut().close();
    }
}

impl Drop for DuplexEnd {
    fn drop(&mut self) {
        self.close();
    }
}
