//! Places in the engine, so that volumes which burst share the drives (`policy::fair`).
//!
//! Only so many requests are under way at once; beyond that they queue, each volume for itself,
//! and every place that comes free goes to the volume whose turn it is. A volume with few requests
//! under way has its places for sure and waits for nobody.
//!
//! Reads have places of their own, and more of them: a drive's queue knows no priorities, so a read
//! would wait for all writes of a burst that the drives were given before it. Writes wait here
//! instead, and the drives have as many of them as keep them busy.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use policy::fair::RoundRobin;

use crate::limits::{PLACES_GUARANTEED, READS_PER_DRIVE, WRITES_PER_DRIVE};

/// The places of reads and of writes.
pub struct Admissions {
    pub reads: Admission,
    pub writes: Admission,
}

impl Admissions {
    pub fn new(drives: usize) -> Admissions {
        let admissions = Admissions { reads: Admission::default(), writes: Admission::default() };
        admissions.set_drives(drives);
        admissions
    }

    /// Who waits gets his part of further places when the next one comes free.
    pub fn set_drives(&self, drives: usize) {
        self.reads.places.set(drives * READS_PER_DRIVE);
        self.writes.places.set(drives * WRITES_PER_DRIVE);
    }
}

#[derive(Default)]
pub struct Admission {
    places: Cell<usize>,
    /// Places in use; more than `places` where volumes use what is guaranteed to them.
    taken: Cell<usize>,
    line: RefCell<Line>,
}

/// A volume, as admission knows it: its reads, or its writes.
pub struct Lane {
    volume: u32,
    under_way: Cell<usize>,
}

impl Lane {
    pub fn new(volume: u32) -> Lane {
        Lane { volume, under_way: Cell::new(0) }
    }
}

/// Who waits. Empty as long as there are places, and whoever waits in it has at least
/// [`PLACES_GUARANTEED`] requests of his volume before him. Bounded by the requests that clients
/// may send, which the exports bound.
#[derive(Default)]
struct Line {
    order: RoundRobin,
    /// By ticket. A ticket that isn't here has been served.
    waiting: BTreeMap<u64, Waiter>,
    next_ticket: u64,
}

struct Waiter {
    lane: Rc<Lane>,
    waker: Option<Waker>,
}

impl Admission {
    /// Waits for a place for a request of so many bytes. Its turn counts from the first poll.
    pub fn enter<'a>(&'a self, lane: &'a Rc<Lane>, bytes: u64) -> Enter<'a> {
        Enter { admission: self, lane, bytes, ticket: None }
    }

    /// Some request has a place.
    pub fn is_used(&self) -> bool {
        self.taken.get() > 0
    }

    /// A place without waiting, if there is one.
    fn try_enter(&self, lane: &Lane) -> bool {
        let free = self.taken.get() < self.places.get() || lane.under_way.get() < PLACES_GUARANTEED;
        if free {
            self.occupy(lane);
        }
        free
    }

    fn occupy(&self, lane: &Lane) {
        self.taken.set(self.taken.get() + 1);
        lane.under_way.set(lane.under_way.get() + 1);
    }

    /// A request is over: whoever is next gets its place.
    fn leave(&self, lane: &Lane) {
        self.taken.set(self.taken.get() - 1);
        lane.under_way.set(lane.under_way.get() - 1);
        while let Some(waker) = self.serve(lane) {
            // Wakers are foreign code: no borrow is held here.
            waker.inspect(Waker::wake_by_ref);
        }
    }

    /// Gives a place to one who waits: first to `left`, whose request has just ended, if it is
    /// below what is guaranteed to it.
    fn serve(&self, left: &Lane) -> Option<Option<Waker>> {
        let mut line = self.line.borrow_mut();
        if line.order.is_empty() {
            return None;
        }
        let own = left.under_way.get() < PLACES_GUARANTEED;
        let mut ticket = if own { line.order.pop_of(left.volume) } else { None };
        if ticket.is_none() && self.taken.get() < self.places.get() {
            ticket = line.order.pop().map(|(_, ticket)| ticket);
        }
        let waiter = line.waiting.remove(&ticket?).expect("who is in the order waits");
        self.occupy(&waiter.lane);
        Some(waiter.waker)
    }
}

impl Line {
    fn join(&mut self, lane: &Rc<Lane>, bytes: u64) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.order.push(lane.volume, ticket, bytes);
        self.waiting.insert(ticket, Waiter { lane: lane.clone(), waker: None });
        ticket
    }

    /// False if the ticket has been served; otherwise it will wake `context` then.
    fn keep_waiting(&mut self, ticket: u64, context: &Context<'_>) -> bool {
        let Some(waiter) = self.waiting.get_mut(&ticket) else { return false };
        waiter.waker = Some(context.waker().clone());
        true
    }

    /// False if the ticket has been served.
    fn give_up(&mut self, ticket: u64) -> bool {
        let Some(waiter) = self.waiting.remove(&ticket) else { return false };
        self.order.remove(waiter.lane.volume, ticket)
    }
}

/// The future of [`Admission::enter`].
#[must_use = "futures do nothing unless awaited"]
pub struct Enter<'a> {
    admission: &'a Admission,
    lane: &'a Rc<Lane>,
    bytes: u64,
    /// `Some` while in the line, or served and not yet aware of it.
    ticket: Option<u64>,
}

impl<'a> Future for Enter<'a> {
    type Output = Place<'a>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Place<'a>> {
        let (admission, lane) = (self.admission, self.lane);
        let mut ticket = self.ticket;
        if ticket.is_none() && !admission.try_enter(lane) {
            ticket = Some(admission.line.borrow_mut().join(lane, self.bytes));
        }
        self.ticket = ticket;
        if let Some(ticket) = ticket
            && admission.line.borrow_mut().keep_waiting(ticket, context)
        {
            return Poll::Pending;
        }
        self.ticket = None;
        Poll::Ready(Place { admission, lane })
    }
}

impl Drop for Enter<'_> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let waiting = self.admission.line.borrow_mut().give_up(ticket);
        if !waiting {
            self.admission.leave(self.lane);
        }
    }
}

/// A request may be under way as long as this is held.
#[must_use = "the place is given back at once"]
pub struct Place<'a> {
    admission: &'a Admission,
    lane: &'a Lane,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.admission.leave(self.lane);
    }
}

#[cfg(test)]
mod tests;
