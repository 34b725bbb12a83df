//! A drive that does so many operations at once, each in the same time; others queue.

use std::collections::VecDeque;

use io::{Command, Completion, Geometry, Model, ModelCounters, Nanos, Tag};

pub struct Channels {
    size: u64,
    time: Nanos,
    /// When each channel is free.
    free_at: Vec<Nanos>,
    /// In the order of their ends: all take the same time.
    queue: VecDeque<Completion>,
    counters: ModelCounters,
}

impl Channels {
    pub fn new(size: u64, channels: usize, time: Nanos) -> Channels {
        let free_at = vec![Nanos::ZERO; channels];
        let counters = ModelCounters::default();
        Channels { size, time, free_at, queue: VecDeque::new(), counters }
    }
}

impl Model for Channels {
    fn geometry(&self) -> Geometry {
        Geometry { size: self.size, align: 4096, atomic: 512, rotational: false }
    }

    fn submit(&mut self, now: Nanos, tag: Tag, _command: Command) {
        let first = self.free_at.iter_mut().min().expect("a drive has channels");
        *first = now.max(*first) + self.time;
        self.queue.push_back(Completion::new(tag, *first));
        self.counters.submitted += 1;
    }

    fn next_event(&self) -> Option<Nanos> {
        self.queue.front().map(|first| first.at)
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        while self.queue.front().is_some_and(|first| first.at <= now) {
            done.extend(self.queue.pop_front());
            self.counters.completed += 1;
        }
    }

    fn in_flight(&self) -> usize {
        self.queue.len()
    }

    fn power_cycle(&mut self, now: Nanos) {
        self.counters.completed += self.queue.len() as u64;
        self.queue.clear();
        self.free_at.fill(now);
    }

    fn counters(&self) -> ModelCounters {
        self.counters
    }
}
