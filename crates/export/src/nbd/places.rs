//! Places for connections: who has one, and who has to go when there are no more.
//!
//! ```text
//! connect ──> in the handshake ──> established
//!             (unauthenticated,     (never put out for others)
//!              put out for others)
//! ```
//! * Unix sockets and TCP have places of their own, and so have the two states: strangers never
//!   take a place that somebody needs who is served, nor one of this machine.
//! * When a newcomer finds the places for handshakes taken, whoever has most of them loses one
//!   ([`Origin`]): the one that has been silent for longest, or else the oldest. So one that
//!   connects without end takes places from itself.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;

use super::link::Closed;
use crate::limits::Limits;

/// How a client came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    #[default]
    Unix,
    Tcp,
}

/// Who counts as one, of many connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    #[default]
    Unknown,
    Address(IpAddr),
    Process(u32),
}

/// Where a client comes from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Peer {
    pub transport: Transport,
    pub origin: Origin,
}

/// A connection in the handshake, as far as it may be put out.
pub trait Guest {
    /// It has said nothing yet.
    fn is_silent(&self) -> bool;

    fn put_out(&self, why: Closed);
}

struct Waiting {
    number: u64,
    origin: Origin,
    guest: Rc<dyn Guest>,
}

/// Those that came one way.
#[derive(Default)]
struct Side {
    /// In the handshake, in the order of their coming.
    waiting: RefCell<Vec<Waiting>>,
    established: Cell<usize>,
}

/// Connections of one transport, counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    pub handshaking: usize,
    pub established: usize,
}

pub struct Places {
    unix: Side,
    tcp: Side,
    handshakes_max: usize,
    established_max: usize,
    next: Cell<u64>,
}

impl Places {
    pub fn new(limits: &Limits) -> Places {
        let (handshakes_max, established_max) = (limits.handshakes, limits.connections);
        let (unix, tcp, next) = Default::default();
        Places { unix, tcp, handshakes_max, established_max, next }
    }

    fn side(&self, transport: Transport) -> &Side {
        match transport {
            Transport::Unix => &self.unix,
            Transport::Tcp => &self.tcp,
        }
    }

    pub fn counted(&self, transport: Transport) -> Counted {
        let side = self.side(transport);
        let handshaking = side.waiting.borrow().len();
        Counted { handshaking, established: side.established.get() }
    }

    /// Connections that have chosen an export, whichever way they came.
    pub fn established(&self) -> usize {
        self.unix.established.get() + self.tcp.established.get()
    }

    /// All places of those who are served are taken.
    pub fn is_full(&self, transport: Transport) -> bool {
        self.side(transport).established.get() >= self.established_max
    }

    /// A place for the handshake, if need be that of somebody else.
    pub fn enter(self: &Rc<Places>, peer: Peer, guest: Rc<dyn Guest>) -> Place {
        let mut waiting = self.side(peer.transport).waiting.borrow_mut();
        let put_out = (waiting.len() >= self.handshakes_max).then(|| {
            let index = who_goes(&waiting);
            waiting.remove(index)
        });
        let number = self.next.replace(self.next.get() + 1);
        waiting.push(Waiting { number, origin: peer.origin, guest });
        drop(waiting);
        if let Some(Waiting { guest, .. }) = put_out {
            guest.put_out(Closed::Crowded);
        }
        let is_established = Cell::new(false);
        Place { places: self.clone(), transport: peer.transport, number, is_established }
    }
}

/// The index of the one that has to go, of some.
fn who_goes(waiting: &[Waiting]) -> usize {
    let count = |of: &Waiting| waiting.iter().filter(|own| own.origin == of.origin).count();
    let counts: Vec<usize> = waiting.iter().map(count).collect();
    let most = counts.iter().max().copied();
    let mut may = (0..waiting.len()).filter(|&index| Some(counts[index]) == most);
    let silent = may.clone().find(|&index| waiting[index].guest.is_silent());
    silent.or(may.next()).unwrap_or(0)
}

/// Given back when it is dropped.
pub struct Place {
    places: Rc<Places>,
    transport: Transport,
    number: u64,
    is_established: Cell<bool>,
}

impl Place {
    /// The handshake is over; false if there is no place to be served.
    pub fn establish(&self) -> bool {
        if self.places.is_full(self.transport) {
            return false;
        }
        self.leave_handshake();
        let established = &self.places.side(self.transport).established;
        established.set(established.get() + 1);
        self.is_established.set(true);
        true
    }

    fn leave_handshake(&self) {
        let mut waiting = self.places.side(self.transport).waiting.borrow_mut();
        waiting.retain(|own| own.number != self.number);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_established.get() {
            let established = &self.places.side(self.transport).established;
            established.set(established.get() - 1);
        } else {
            self.leave_handshake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Somebody {
        has_spoken: Cell<bool>,
        was_put_out: Cell<bool>,
    }

    impl Guest for Somebody {
        fn is_silent(&self) -> bool {
            !self.has_spoken.get()
        }

        fn put_out(&self, why: Closed) {
            assert_eq!(why, Closed::Crowded);
            assert!(!self.was_put_out.replace(true), "once");
        }
    }

    fn places(handshakes: usize, connections: usize) -> Rc<Places> {
        Rc::new(Places::new(&Limits { handshakes, connections, ..Limits::default() }))
    }

    fn come(places: &Rc<Places>, process: u32) -> (Rc<Somebody>, Place) {
        let somebody = Rc::new(Somebody::default());
        let peer = Peer { transport: Transport::Unix, origin: Origin::Process(process) };
        (somebody.clone(), places.enter(peer, somebody))
    }

    #[test]
    fn who_connects_without_end_takes_places_from_itself() {
        let places = places(8, 8);
        let patient: Vec<_> = (0..3).map(|process| come(&places, process)).collect();
        let flood: Vec<_> = (0..1000).map(|_| come(&places, 77)).collect();
        assert!(patient.iter().all(|(own, _)| !own.was_put_out.get()));
        let left = flood.iter().filter(|(own, _)| !own.was_put_out.get()).count();
        assert_eq!((left, places.counted(Transport::Unix).handshaking), (5, 8));
        // A newcomer takes a place of the flood's, too.
        let (late, _place) = come(&places, 5);
        assert!(!late.was_put_out.get() && patient.iter().all(|(own, _)| !own.was_put_out.get()));
        drop((patient, flood));
        assert_eq!(places.counted(Transport::Unix).handshaking, 1);
    }

    #[test]
    fn the_silent_go_before_those_that_speak_and_the_oldest_first() {
        let places = places(4, 4);
        let all: Vec<_> = (0..4).map(|_| come(&places, 1)).collect();
        all[0].0.has_spoken.set(true);
        all[2].0.has_spoken.set(true);
        let gone = |all: &[(Rc<Somebody>, Place)]| -> Vec<usize> {
            (0..4).filter(|&index| all[index].0.was_put_out.get()).collect()
        };
        let speaks = || {
            let newcomer = come(&places, 1);
            newcomer.0.has_spoken.set(true);
            newcomer
        };
        let newcomers = [speaks(), speaks()];
        assert_eq!(gone(&all), [1, 3]);
        let more = speaks();
        assert_eq!(gone(&all), [0, 1, 3]);
        drop((newcomers, more));
    }

    #[test]
    fn those_who_are_served_stay_and_each_way_to_come_has_its_own_places() {
        let places = places(2, 2);
        let served = [come(&places, 1), come(&places, 1)];
        assert!(served.iter().all(|(_, place)| place.establish()));
        let (_, third) = come(&places, 2);
        assert!(!third.establish() && places.is_full(Transport::Unix));
        assert!(!places.is_full(Transport::Tcp));
        let flood: Vec<_> = (0..10).map(|_| come(&places, 3)).collect();
        assert!(served.iter().all(|(own, _)| !own.was_put_out.get()));
        drop((flood, third));
        let unix = places.counted(Transport::Unix);
        assert_eq!(unix, Counted { handshaking: 0, established: 2 });
        assert_eq!(places.counted(Transport::Tcp).established, 0);
        drop(served);
        assert_eq!(places.counted(Transport::Unix).established, 0);
    }
}
