//! A drive that is copied onto another while it is written to: which chunks are still due, and when
//! the two are the same.
//!
//! ```text
//!  writes ──> gate ──> drive ──> their chunks are due (again)
//!                        │ read
//!                        └──> copied, chunk by chunk ──> the other drive
//! ```
//! A write makes its chunks due when it is over: a copy made while it ran may hold either. That
//! nothing is due counts only while the gate is shut and nobody is writing. Writes that began
//! before the copying make nothing due: nothing is copied until these are over.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

use crate::awaited::Awaited;
use crate::gate::{Gate, Inside};

/// Sequential enough for any drive, and little to copy again when something in one was written.
pub const CHUNK: u32 = 1 << 20;
/// Chunks copied at once: two keep both drives busy.
pub const AT_ONCE: usize = 2;
/// Chunks that may be left when writes are held back for the last of it: some ten milliseconds.
pub const LAST_CHUNKS: u64 = 8;

pub struct Twin {
    due: RefCell<Awaited>,
    /// The chunk to look at next: all have their turn.
    hand: Cell<u64>,
    /// Writes are inside.
    pub gate: Gate,
}

impl fmt::Debug for Twin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (left, all) = self.left();
        write!(f, "{left} bytes of {all} to be copied")
    }
}

impl Twin {
    /// Of a drive of so many bytes, of which these are in use.
    pub fn new(size: u64, used: impl Iterator<Item = Range<u64>>) -> Twin {
        let mut due = Awaited::nothing(0..size.next_multiple_of(CHUNK.into()), CHUNK);
        used.for_each(|range| chunks(range).for_each(|chunk| due.add(chunk)));
        Twin { due: RefCell::new(due), hand: Cell::new(0), gate: Gate::default() }
    }

    /// Waits while the gate is shut. The write is over when what is returned is dropped.
    pub async fn write(self: Rc<Self>, offset: u64, len: u64) -> Writing {
        let inside = self.gate.enter().await;
        Writing { twin: self, range: offset..offset + len, _inside: inside }
    }

    /// The first byte of a chunk that is due: due no more.
    pub fn take(&self) -> Option<u64> {
        let mut due = self.due.borrow_mut();
        let chunk = due.next(self.hand.get()).or_else(|| due.next(0))?;
        due.arrived(chunk);
        self.hand.set(chunk + u64::from(CHUNK));
        Some(chunk)
    }

    /// What lies here is due (again).
    pub fn again(&self, range: Range<u64>) {
        let mut due = self.due.borrow_mut();
        chunks(range).for_each(|chunk| due.again(chunk));
    }

    /// Bytes that are due, and how many there were to begin with.
    pub fn left(&self) -> (u64, u64) {
        let due = self.due.borrow();
        let bytes = |chunks: u64| chunks * u64::from(CHUNK);
        (bytes(due.left()), bytes(due.total()))
    }
}

/// Chunks that a range touches.
fn chunks(range: Range<u64>) -> impl Iterator<Item = u64> {
    let chunk = u64::from(CHUNK);
    (range.start / chunk..range.end.div_ceil(chunk)).map(move |at| at * chunk)
}

pub struct Writing {
    twin: Rc<Twin>,
    range: Range<u64>,
    /// Left after its chunks are due.
    _inside: Inside,
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.twin.again(self.range.clone());
    }
}

/// Who writes to a drive, whether it is copied or not.
#[derive(Default)]
pub struct Writers {
    /// Those that began while it was not.
    plain: RefCell<Gate>,
    twin: RefCell<Option<Rc<Twin>>>,
    /// Where those are inside that began before the last change.
    before: RefCell<Vec<Gate>>,
}

/// A write is on its way until this is dropped.
pub enum OnItsWay {
    Plain(Inside),
    Copied(Writing),
}

impl Writers {
    /// Waits while writes are held back.
    pub async fn write(&self, offset: u64, len: u64) -> OnItsWay {
        while let Some(twin) = self.twin() {
            let writing = twin.clone().write(offset, len).await;
            // Another may have come while the gate was shut, that this one means nothing to.
            if self.twin().is_some_and(|now| Rc::ptr_eq(&now, &twin)) {
                return OnItsWay::Copied(writing);
            }
        }
        let plain = self.plain.borrow().clone();
        OnItsWay::Plain(plain.enter().await)
    }

    pub fn twin(&self) -> Option<Rc<Twin>> {
        self.twin.borrow().clone()
    }

    /// What is written from now on is due, once it is over; `None`: nothing is any more.
    pub fn set_twin(&self, twin: Option<Rc<Twin>>) {
        let gate = self.twin.replace(twin).map(|twin| twin.gate.clone());
        let gate = gate.unwrap_or_else(|| self.plain.take());
        let mut before = self.before.borrow_mut();
        before.push(gate);
        before.retain(|gate| !gate.is_empty());
    }

    /// Waits until all are over that began before the last change.
    pub async fn settle(&self) {
        let before = self.before.borrow().clone();
        for gate in before {
            gate.until_empty().await;
        }
    }
}

/// When to hold writes back for the last of it. Who writes faster than is copied would never be
/// done with: from round to round more may be left for that.
pub struct Rounds {
    last: u64,
    /// What was due when the round began.
    round: u64,
    copied: u64,
}

impl Rounds {
    pub fn new(twin: &Twin) -> Rounds {
        Rounds { last: LAST_CHUNKS * u64::from(CHUNK), round: twin.left().0, copied: 0 }
    }

    /// Whether more is to be copied before, so many bytes having been since it was asked last.
    pub fn go_on(&mut self, twin: &Twin, copied: u64) -> bool {
        let left = twin.left().0;
        self.copied += copied;
        if self.copied > self.round {
            (self.last, self.round, self.copied) = (self.last * 2, left, 0);
        }
        left > self.last
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    const CHUNK: u64 = super::CHUNK as u64;

    fn now<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }

    fn twin() -> Rc<Twin> {
        let used = [CHUNK..CHUNK + 1, 3 * CHUNK - 1..3 * CHUNK + 1];
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

    #[test]
    fn writes_from_before_are_waited_for() {
        let writers = Writers::default();
        let first = now(writers.write(0, 1)).expect("nothing holds it back");
        writers.set_twin(Some(twin()));
        assert!(now(writers.settle()).is_none(), "one is on its way");
        drop(first);
        now(writers.settle()).expect("it is over");
        let second = now(writers.write(CHUNK, 1)).expect("the gate is open");
        now(writers.settle()).expect("that one makes its chunk due");
        writers.set_twin(None);
        writers.set_twin(Some(twin()));
        assert!(now(writers.settle()).is_none(), "for another twin, though");
        drop(second);
        now(writers.settle()).expect("it is over");
    }

    #[test]
    fn who_waited_at_the_gate_of_one_is_known_to_the_next() {
        let (writers, first, second) = (Writers::default(), twin(), twin());
        writers.set_twin(Some(first.clone()));
        let shut = now(first.gate.shut()).expect("nobody is inside");
        let mut context = Context::from_waker(Waker::noop());
        let mut write = pin!(writers.write(CHUNK, 1));
        assert!(write.as_mut().poll(&mut context).is_pending(), "it is held back");
        drop(shut);
        writers.set_twin(None);
        writers.set_twin(Some(second.clone()));
        let Poll::Ready(written) = write.as_mut().poll(&mut context) else { panic!("it is open") };
        while second.take().is_some() {}
        drop(written);
        assert_eq!(second.take(), Some(CHUNK), "it is due for the second");
    }

    #[test]
    fn more_may_be_left_from_round_to_round() {
        let twin = Twin::new(100 * CHUNK, std::iter::once(0..20 * CHUNK));
        let mut rounds = Rounds::new(&twin);
        let mut copied = 0;
        let mut steps = 0;
        // Each chunk that is copied is written again.
        while rounds.go_on(&twin, copied) {
            let chunk = twin.take().expect("something is due");
            twin.again(chunk..chunk + 1);
            (copied, steps) = (CHUNK, steps + 1);
        }
        assert_eq!(steps, 2 * 21, "after two rounds 32 chunks may be left");
        let mut rounds = Rounds::new(&twin);
        while rounds.go_on(&twin, 0) {
            twin.take();
        }
        assert_eq!(twin.left().0, LAST_CHUNKS * CHUNK, "nobody writes");
    }
}
