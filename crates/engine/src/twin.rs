//! What is known of the copying of a member onto another drive: which chunks are still due, and
//! when the two are the same.
//!
//! ```text
//!  writes ──> gate ──> member ──> their chunks are due (again)
//!                        │ read
//!                        └──> copied, chunk by chunk ──> the other drive
//! ```
//! A write makes its chunks due when it is over: a copy made while it ran may hold either. That
//! nothing is due counts only while the gate is shut and nobody is writing.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crate::awaited::Awaited;
use crate::gate::{Gate, Inside};
use crate::limits::EXCHANGE_CHUNK;
use crate::planted::{self, Bug};
use format::Extent;

pub struct Twin {
    due: RefCell<Awaited>,
    /// The chunk to look at next: all have their turn.
    hand: Cell<u64>,
    /// Writes are inside.
    pub gate: Gate,
}

impl Twin {
    /// Of a member of so many bytes, of which these are in use.
    pub fn new(size: u64, used: impl Iterator<Item = Extent>) -> Twin {
        let mut due = Awaited::nothing(Extent { offset: 0, len: size }, EXCHANGE_CHUNK);
        for extent in used {
            chunks(extent.offset, extent.len).for_each(|chunk| due.add(chunk));
        }
        Twin { due: RefCell::new(due), hand: Cell::new(0), gate: Gate::default() }
    }

    /// Waits while the gate is shut. The write is over when what is returned is dropped.
    pub async fn write(self: Rc<Self>, offset: u64, len: u64) -> Writing {
        let inside = self.gate.enter().await;
        Writing { twin: self, offset, len, _inside: inside }
    }

    /// The first byte of a chunk that is due: due no more.
    pub fn take(&self) -> Option<u64> {
        let mut due = self.due.borrow_mut();
        let chunk = due.next(self.hand.get()).or_else(|| due.next(0))?;
        due.arrived(chunk);
        self.hand.set(chunk + u64::from(EXCHANGE_CHUNK));
        Some(chunk)
    }

    /// Bytes that are due, and how many there were to begin with.
    pub fn left(&self) -> (u64, u64) {
        let due = self.due.borrow();
        let bytes = |chunks: u64| chunks * u64::from(EXCHANGE_CHUNK);
        (bytes(due.left()), bytes(due.total()))
    }
}

/// Chunks that a range touches.
fn chunks(offset: u64, len: u64) -> impl Iterator<Item = u64> {
    let chunk = u64::from(EXCHANGE_CHUNK);
    (offset / chunk..(offset + len).div_ceil(chunk)).map(move |at| at * chunk)
}

pub struct Writing {
    twin: Rc<Twin>,
    offset: u64,
    len: u64,
    /// Left after its chunks are due.
    _inside: Inside,
}

impl Drop for Writing {
    fn drop(&mut self) {
        if planted::is(Bug::ForgetTwinWrites) {
            return;
        }
        let mut due = self.twin.due.borrow_mut();
        chunks(self.offset, self.len).for_each(|chunk| due.again(chunk));
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    const CHUNK: u64 = EXCHANGE_CHUNK as u64;

    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    fn twin() -> Rc<Twin> {
        let used = [Extent { offset: CHUNK, len: 1 }, Extent { offset: 3 * CHUNK - 1, len: 2 }];
        Rc::new(Twin::new(8 * CHUNK, used.into_iter()))
    }

    #[test]
    fn what_is_in_use_is_due_once_and_again_when_it_was_written() {
        let twin = twin();
        assert_eq!(twin.left(), (3 * CHUNK, 3 * CHUNK));
        let taken: Vec<u64> = std::iter::from_fn(|| twin.take()).collect();
        assert_eq!(taken, [CHUNK, 2 * CHUNK, 3 * CHUNK]);
        let write = now(twin.clone().write(5 * CHUNK, CHUNK)).expect("the gate is open");
        assert_eq!(twin.take(), None, "a copy made now could miss it");
        drop(write);
        assert_eq!((twin.left().0, twin.take()), (CHUNK, Some(5 * CHUNK)));
        drop(now(twin.clone().write(CHUNK, 4096)));
        assert_eq!(twin.take(), Some(CHUNK), "behind the hand");
        assert_eq!(twin.left(), (0, 3 * CHUNK));
    }
}
