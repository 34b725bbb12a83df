//! Places for connections of one socket. They are few, so when all are taken and somebody comes,
//! one that asks for nothing has to go.
//!
//! ```text
//! silent ──> body to come ──> carried out ──> idle ──> ...
//!   1st          2nd             never         3rd      who goes
//! ```
//! A head or a body that comes byte by byte keeps nobody out, nor does an answer that is not taken.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use io::net::ByteStream;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// No whole head of a request has come.
    #[default]
    Silent,
    /// One has, and its body is to come.
    Body,
    /// It has been answered, as far as it takes the answer.
    Idle,
    /// It has asked for something that is being carried out.
    Busy,
}

struct Taken<S> {
    number: u64,
    stream: Weak<S>,
    stage: Rc<Cell<Stage>>,
}

pub struct Seats<S> {
    /// In the order of coming; at most `max`.
    taken: RefCell<Vec<Taken<S>>>,
    max: usize,
    next: Cell<u64>,
}

impl<S: ByteStream> Seats<S> {
    pub fn new(max: usize) -> Rc<Seats<S>> {
        Rc::new(Seats { taken: RefCell::default(), max, next: Cell::new(0) })
    }

    /// A seat, if need be that of another; `None` if all are busy. The second is whether somebody
    /// had to go.
    pub fn take(self: &Rc<Seats<S>>, stream: &Rc<S>) -> Option<(Seat<S>, bool)> {
        let mut taken = self.taken.borrow_mut();
        let mut put_out = None;
        if taken.len() >= self.max {
            let stage = |index: &usize| taken[*index].stage.get();
            // Of several the first, who came first.
            let goes = (0..taken.len()).min_by_key(stage);
            let goes = goes.filter(|index| stage(index) != Stage::Busy)?;
            put_out = Some(taken.remove(goes));
        }
        let number = self.next.replace(self.next.get() + 1);
        let stage = Rc::<Cell<Stage>>::default();
        taken.push(Taken { number, stream: Rc::downgrade(stream), stage: stage.clone() });
        drop(taken);
        let stream = put_out.as_ref().and_then(|own| own.stream.upgrade());
        stream.inspect(|stream| stream.close());
        Some((Seat { seats: self.clone(), number, stage }, put_out.is_some()))
    }
}

/// Given back when it is dropped.
pub struct Seat<S: ByteStream> {
    seats: Rc<Seats<S>>,
    number: u64,
    stage: Rc<Cell<Stage>>,
}

impl<S: ByteStream> Seat<S> {
    pub fn is_at(&self, stage: Stage) {
        self.stage.set(stage);
    }
}

impl<S: ByteStream> Drop for Seat<S> {
    fn drop(&mut self) {
        self.seats.taken.borrow_mut().retain(|own| own.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use io::BufMut;
    use io::net::{DuplexEnd, duplex};
    use io::virt::VirtEnv;

    use super::*;

    struct Somebody {
        seat: Seat<DuplexEnd>,
        _stream: Rc<DuplexEnd>,
        client: DuplexEnd,
    }

    fn come(seats: &Rc<Seats<DuplexEnd>>, stage: Stage) -> Option<Somebody> {
        let (server, client) = duplex(100);
        let stream = Rc::new(server);
        let (seat, _) = seats.take(&stream)?;
        seat.is_at(stage);
        Some(Somebody { seat, _stream: stream, client })
    }

    fn is_out(somebody: &Somebody) -> bool {
        let recv = async { somebody.client.recv(BufMut::with_len(1), 0..1).await.1 };
        let told = VirtEnv::fifo(1).run_until(recv, || true);
        told.is_some()
    }

    #[test]
    fn who_asks_for_nothing_goes_first_and_who_is_served_never() {
        let seats = Seats::new(4);
        let stages = [Stage::Busy, Stage::Idle, Stage::Silent, Stage::Body];
        let all: Vec<Somebody> = stages.iter().filter_map(|stage| come(&seats, *stage)).collect();
        let mut busy = Vec::new();
        for goes in [2, 3, 1] {
            busy.push(come(&seats, Stage::Busy).expect("somebody goes"));
            let out: Vec<bool> = all.iter().map(is_out).collect();
            assert!(out[goes] && !out[0], "{goes}: {out:?}");
        }
        assert!(come(&seats, Stage::Silent).is_none(), "all are busy");
        busy[0].seat.is_at(Stage::Idle);
        drop(come(&seats, Stage::Silent).expect("one has been answered"));
        // Of those that were put out none gives its seat back twice.
        drop(all);
        assert_eq!(seats.taken.borrow().len(), 2);
    }

    #[test]
    fn the_first_of_a_silent_crowd_makes_room_for_the_next() {
        let seats = Seats::new(3);
        let crowd: Vec<Somebody> = (0..9).filter_map(|_| come(&seats, Stage::Silent)).collect();
        let out = crowd.iter().filter(|own| is_out(own)).count();
        assert_eq!((crowd.len(), out), (9, 6));
        assert!(!is_out(&crowd[8]));
    }
}
