//! The simplest model there is: one operation after another, each takes the same time. It keeps
//! its owner to the contract.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use io::{Command, Completion, Geometry, Model, ModelCounters, Nanos, Tag};

pub const SIZE: u64 = 1 << 20;
/// What each operation takes.
pub const TIME: Nanos = Nanos::from_micros(100);

#[derive(Default)]
pub struct Seen {
    pub commands: Vec<(Nanos, Command)>,
    pub counters: ModelCounters,
    pub in_flight: usize,
    pub power_cycles: u64,
}

pub struct Toy {
    seen: Rc<RefCell<Seen>>,
    queue: VecDeque<Completion>,
    now: Nanos,
    free_at: Nanos,
    /// Something of its own that it does again and again.
    period: Option<Nanos>,
    next_own: Nanos,
}

impl Toy {
    pub fn make() -> (Box<dyn Model>, Rc<RefCell<Seen>>) {
        Toy::with_period(None)
    }

    pub fn with_period(period: Option<Nanos>) -> (Box<dyn Model>, Rc<RefCell<Seen>>) {
        let seen = Rc::new(RefCell::new(Seen::default()));
        let toy = Toy {
            seen: seen.clone(),
            queue: VecDeque::new(),
            now: Nanos::ZERO,
            free_at: Nanos::ZERO,
            period,
            next_own: period.unwrap_or_default(),
        };
        (Box::new(toy), seen)
    }

    fn tell(&mut self, now: Nanos) {
        assert!(now >= self.now, "time goes back from {:?} to {now:?}", self.now);
        self.now = now;
        self.seen.borrow_mut().in_flight = self.queue.len();
    }
}

impl Model for Toy {
    fn geometry(&self) -> Geometry {
        Geometry { size: SIZE, align: 512, atomic: 512, rotational: true }
    }

    fn submit(&mut self, now: Nanos, tag: Tag, command: Command) {
        assert!(self.next_event().is_none_or(|next| next > now), "not collected before");
        self.tell(now);
        self.free_at = self.free_at.max(now) + TIME;
        self.queue.push_back(Completion::new(tag, self.free_at));
        let seen = &mut *self.seen.borrow_mut();
        seen.commands.push((now, command));
        seen.counters.submitted += 1;
        seen.in_flight = self.queue.len();
    }

    fn next_event(&self) -> Option<Nanos> {
        let own = self.period.map(|_| self.next_own);
        self.queue.front().map(|first| first.at).into_iter().chain(own).min()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        while self.queue.front().is_some_and(|first| first.at <= now) {
            done.extend(self.queue.pop_front());
            self.seen.borrow_mut().counters.completed += 1;
        }
        if let Some(period) = self.period {
            while self.next_own <= now {
                self.next_own = self.next_own + period;
            }
        }
        self.tell(now);
    }

    fn in_flight(&self) -> usize {
        self.queue.len()
    }

    fn power_cycle(&mut self, now: Nanos) {
        let seen = self.seen.clone();
        seen.borrow_mut().counters.completed += self.queue.len() as u64;
        seen.borrow_mut().power_cycles += 1;
        self.queue.clear();
        self.free_at = now;
        self.tell(now);
    }

    fn counters(&self) -> ModelCounters {
        self.seen.borrow().counters
    }

    fn force_collection(&mut self, now: Nanos, _on: bool) {
        self.free_at = self.free_at.max(now) + TIME;
    }
}
