//! What is known of a volume's requests since the pool was opened, whoever holds it: how many they
//! were, how long they took, and what its limits let through.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;

use format::VolumeId;
use futures_util::future::select;
use io::sync::{Event, Turn};
use io::tally::Tally;
use io::{Env, Nanos};
use policy::limit::Limiter;

use crate::admission::Lane;
use crate::api::VolumeLimits;
use crate::limits::LIMIT_SLEEP_MAX;

/// One of a volume, shared by its handles.
pub struct Traffic {
    pub tally: Tally,
    pub reads: Rc<Lane>,
    pub writes: Rc<Lane>,
    limiter: RefCell<Limiter>,
    is_limited: Cell<bool>,
    /// Requests that the limits hold back go one after the other.
    turn: Turn,
    limits_changed: Event,
    throttled: Cell<u64>,
}

impl Traffic {
    /// `is_timed`: latencies are recorded (`SpikeHandling::detect`).
    pub fn new(volume: VolumeId, is_timed: bool, limits: VolumeLimits) -> Traffic {
        let traffic = Traffic {
            tally: Tally::new(is_timed),
            reads: Rc::new(Lane::new(volume.0)),
            writes: Rc::new(Lane::new(volume.0)),
            limiter: RefCell::default(),
            is_limited: Cell::new(false),
            turn: Turn::new(),
            limits_changed: Event::new(),
            throttled: Cell::new(0),
        };
        traffic.limit(limits);
        traffic
    }

    // ---- limits

    /// The limits from now on, with a whole burst at hand. Requests that wait look again.
    pub fn limit(&self, limits: VolumeLimits) {
        let limiter = Limiter::new(limits.iops, limits.bytes_per_sec);
        self.is_limited.set(!limiter.is_none());
        self.limiter.replace(limiter);
        self.limits_changed.notify_all();
    }

    pub fn is_limited(&self) -> bool {
        self.is_limited.get()
    }

    /// Requests that the limits held back.
    pub fn throttled(&self) -> u64 {
        self.throttled.get()
    }

    /// Waits until the limits let a request of so many bytes go, or until `closing`: first come,
    /// first served. Nothing is taken for a request that is dropped while it waits.
    pub async fn pass_limits<E: Env>(&self, env: &E, bytes: u64, closing: &Cell<bool>) {
        let came = env.now();
        let _turn = self.turn.lock().await;
        while !self.try_take(bytes, env.now()) && !closing.get() {
            let ready = Nanos(self.limiter.borrow().ready(bytes));
            let changed = pin!(self.limits_changed.wait());
            let due = pin!(env.sleep_until(ready.min(env.now() + LIMIT_SLEEP_MAX)));
            select(changed, due).await;
        }
        if env.now() > came {
            self.throttled.set(self.throttled.get() + 1);
        }
    }

    fn try_take(&self, bytes: u64, now: Nanos) -> bool {
        let mut limiter = self.limiter.borrow_mut();
        let ready = limiter.ready(bytes) <= now.0;
        if ready {
            limiter.take(bytes, now.0);
        }
        ready
    }
}
