//! How much is asked at what time of a day: quiet nights, two peaks, bursts.

use std::cell::Cell;
use std::rc::Rc;

use io::rng::Rng;
use io::{Env, Nanos};

use crate::world::client::Client;

/// Requests a minute of each client, by hour: 35 on average, so that with four volumes and some
/// bursts a day has about a quarter of a million.
const PER_MINUTE: [u64; 24] =
    [8, 5, 3, 2, 2, 3, 8, 20, 45, 70, 80, 75, 50, 60, 80, 85, 75, 55, 40, 32, 25, 20, 15, 10];
/// A burst is so many times that, and at night so many a minute.
const BURST_FACTOR: u64 = 25;
const BURST_LEAST: u64 = 1_200;
/// Who pauses looks up so often: work ends when it is to end, bursts begin at once.
const PAUSE_STEP: Nanos = Nanos::from_secs(1);

/// The rate of requests over a day, however long that is.
pub struct Tide {
    begin: Nanos,
    span: Nanos,
    burst_until: Cell<Nanos>,
}

impl Tide {
    pub fn new(begin: Nanos, span: Nanos) -> Tide {
        Tide { begin, span, burst_until: Cell::new(Nanos::ZERO) }
    }

    pub fn burst(&self, until: Nanos) {
        self.burst_until.set(until);
    }

    fn is_burst(&self, now: Nanos) -> bool {
        now < self.burst_until.get()
    }

    fn per_minute(&self, now: Nanos) -> u64 {
        let part = u128::from(now.saturating_sub(self.begin).0) * PER_MINUTE.len() as u128;
        let hour = (part / u128::from(self.span.0)) as usize % PER_MINUTE.len();
        let usual = PER_MINUTE[hour];
        if self.is_burst(now) { (usual * BURST_FACTOR).max(BURST_LEAST) } else { usual }
    }

    fn pause(&self, now: Nanos, rng: &mut Rng) -> Nanos {
        let mean = 60_000_000_000 / self.per_minute(now);
        Nanos(rng.below(2 * mean))
    }
}

/// A client at work on one volume, until it is told to end.
#[derive(Clone)]
pub struct Shift {
    pub volume: Rc<str>,
    told: Rc<Cell<bool>>,
    over: Rc<Cell<bool>>,
}

impl Shift {
    pub fn begin(client: Client, tide: &Rc<Tide>) -> Shift {
        let shift = Shift { volume: client.name.clone(), told: Rc::default(), over: Rc::default() };
        let (own, tide) = (shift.clone(), tide.clone());
        let env = client.context.env.clone();
        env.spawn(own.work(client, tide));
        shift
    }

    pub fn end(&self) {
        self.told.set(true);
    }

    pub fn is_over(&self) -> bool {
        self.over.get()
    }

    async fn work(self, mut client: Client, tide: Rc<Tide>) {
        let context = client.context.clone();
        while !self.told.get() && !context.is_failed() {
            client.step().await;
            let now = context.env.now();
            let until = now + tide.pause(now, &mut client.rng);
            let quiet = !tide.is_burst(now);
            while context.env.now() < until && !self.told.get() {
                let step = context.env.now() + PAUSE_STEP;
                context.env.sleep_until(until.min(step)).await;
                if quiet && tide.is_burst(context.env.now()) {
                    break;
                }
            }
        }
        // The volume's handle goes first: then it may be deleted.
        drop(client);
        self.over.set(true);
    }
}
