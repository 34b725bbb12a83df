//! What one client may have under way, and what all of them may have the volumes work on.
//!
//! ```text
//!  header ── window ── payload ── lane ── volume ── reply sent
//!            (own)                (shared, never held while a client is waited for)
//!            └────────────────────────────────────────────────┘
//! ```
//! * A [`Window`] belongs to one connection. A [`Ticket`] of it is held from a request's arrival to
//!   the end of sending its reply, however long its client takes for either.
//! * The [`Lanes`] are shared. A place in them is held while a volume works on a request, whose
//!   payload has arrived and whose reply waits for nobody. Small requests have their own.

use std::cell::Cell;
use std::rc::Rc;

use io::sync::{Event, Permit, Semaphore};

use super::places::Places;
use crate::limits::{CLIENT_BYTES, Limits, SMALL_BYTES_MAX};

/// What the windows of all connections know of each other.
pub struct Crowd {
    pub places: Rc<Places>,
    /// Payload bytes of requests that are not answered yet.
    pub bytes: Cell<u64>,
}

impl Crowd {
    pub fn new(limits: &Limits) -> Crowd {
        Crowd { places: Rc::new(Places::new(limits)), bytes: Cell::new(0) }
    }
}

pub struct Window {
    crowd: Rc<Crowd>,
    requests_max: usize,
    bytes_max: u64,
    requests: Cell<usize>,
    bytes: Cell<u64>,
    /// Requests that a volume works on.
    working: Cell<usize>,
    /// A request has been answered, or a volume is done with one.
    changed: Event,
}

impl Window {
    pub fn new(limits: &Limits, crowd: &Rc<Crowd>) -> Rc<Window> {
        Rc::new(Window {
            crowd: crowd.clone(),
            requests_max: limits.requests,
            bytes_max: limits.window,
            requests: Cell::new(0),
            bytes: Cell::new(0),
            working: Cell::new(0),
            changed: Event::new(),
        })
    }

    /// Waits for room for a request with so many bytes of payload.
    pub async fn admit(self: &Rc<Window>, bytes: u64) -> Ticket {
        while !self.has_room(bytes) {
            self.changed.wait().await;
        }
        self.requests.set(self.requests.get() + 1);
        self.bytes.set(self.bytes.get() + bytes);
        self.crowd.bytes.set(self.crowd.bytes.get() + bytes);
        Ticket { window: self.clone(), bytes }
    }

    fn has_room(&self, bytes: u64) -> bool {
        let part = CLIENT_BYTES / self.crowd.places.established().max(1) as u64;
        let fits = self.bytes.get() + bytes <= self.bytes_max.min(part);
        // The longest request has to be admitted some time: with no other. One without payload
        // takes no bytes.
        let fits = fits || self.bytes.get() == 0 || bytes == 0;
        fits && self.requests.get() < self.requests_max
    }

    /// Counts a request that a volume works on, until what this returns is dropped.
    pub fn work(self: &Rc<Window>) -> Work {
        self.working.set(self.working.get() + 1);
        Work(self.clone())
    }

    /// Waits until every request that has arrived is answered.
    pub async fn answered(&self) {
        while self.requests.get() > 0 {
            self.changed.wait().await;
        }
    }

    /// Waits until no volume works on a request.
    pub async fn worked(&self) {
        while self.working.get() > 0 {
            self.changed.wait().await;
        }
    }
}

/// What a request occupies of its connection's window until its reply is sent.
#[must_use = "the room is given back at once"]
pub struct Ticket {
    window: Rc<Window>,
    bytes: u64,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let Window { requests, bytes, crowd, changed, .. } = &*self.window;
        requests.set(requests.get() - 1);
        bytes.set(bytes.get() - self.bytes);
        crowd.bytes.set(crowd.bytes.get() - self.bytes);
        changed.notify_all();
    }
}

/// A request that a volume works on.
#[must_use = "it is over at once"]
pub struct Work(Rc<Window>);

impl Drop for Work {
    fn drop(&mut self) {
        self.0.working.set(self.0.working.get() - 1);
        if self.0.working.get() == 0 {
            self.0.changed.notify_all();
        }
    }
}

/// What the volumes work on, over all connections.
pub struct Lanes {
    small: Semaphore,
    long: Semaphore,
}

impl Lanes {
    pub fn new(limits: &Limits) -> Lanes {
        let lane = |bytes: u64| Semaphore::new(bytes as usize);
        Lanes { small: lane(limits.small), long: lane(limits.long) }
    }

    /// Waits for room to work on so many bytes; nothing is needed for none.
    pub async fn enter(&self, bytes: u32) -> Option<Permit> {
        let lane = if bytes <= SMALL_BYTES_MAX { &self.small } else { &self.long };
        if bytes == 0 { None } else { Some(lane.acquire(bytes as usize).await) }
    }
}
