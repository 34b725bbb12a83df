//! What will happen: events in the order of their time, then of their making.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use io::Nanos;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The firmware has understood the command in this slot.
    Fetched(u32),
    /// Its data is here.
    Arrived(u32),
    /// The host knows that it is done.
    Finished(u32),
    /// The die has sensed a page; void if its turn isn't this one any more.
    Sensed { die: u32, turn: u32 },
    /// The die is done with its operation; void likewise.
    DieDone { die: u32, turn: u32 },
    /// Time to drain the buffer.
    Drain,
    /// The host was silent for long; void if it came back since.
    Silent { count: u32 },
}

/// An event and its place in the order: its time, then its number.
#[derive(Clone, Copy, Debug)]
struct Due {
    time: u64,
    made: u64,
    event: Event,
}

impl Due {
    fn place(&self) -> u128 {
        u128::from(self.time) << 64 | u128::from(self.made)
    }
}

/// The first is the greatest: that is what a heap gives first. No two have one place, so that
/// events need not be compared.
impl Ord for Due {
    fn cmp(&self, other: &Due) -> Ordering {
        other.place().cmp(&self.place())
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Due) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Due {
    fn eq(&self, other: &Due) -> bool {
        self.place() == other.place()
    }
}

impl Eq for Due {}

/// Bounded by what can be under way: two events a die, one a command, two timers.
#[derive(Clone, Debug, Default)]
pub struct Events {
    heap: BinaryHeap<Due>,
    made: u64,
}

impl Events {
    #[inline]
    pub fn at(&mut self, time: Nanos, event: Event) {
        self.made += 1;
        self.heap.push(Due { time: time.0, made: self.made, event });
    }

    #[inline]
    pub fn next_time(&self) -> Option<Nanos> {
        self.heap.peek().map(|due| Nanos(due.time))
    }

    /// The next event, if it is not later than `now`.
    #[inline]
    pub fn pop_until(&mut self, now: Nanos) -> Option<(Nanos, Event)> {
        if self.next_time()? > now {
            return None;
        }
        let Due { time, event, .. } = self.heap.pop()?;
        Some((Nanos(time), event))
    }

    pub fn clear(&mut self) {
        self.heap.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_are_broken_by_the_order_of_making() {
        let mut events = Events::default();
        events.at(Nanos(5), Event::Fetched(9));
        events.at(Nanos(5), Event::Drain);
        events.at(Nanos(5), Event::Fetched(1));
        events.at(Nanos(4), Event::Finished(2));
        let order: Vec<Event> =
            std::iter::from_fn(|| events.pop_until(Nanos(5)).map(|(_, event)| event)).collect();
        let expected = [Event::Finished(2), Event::Fetched(9), Event::Drain, Event::Fetched(1)];
        assert_eq!(order, expected);
    }

    #[test]
    fn nothing_happens_before_its_time() {
        let mut events = Events::default();
        events.at(Nanos(5), Event::Drain);
        assert_eq!(events.pop_until(Nanos(4)), None);
        assert_eq!(events.next_time(), Some(Nanos(5)));
    }
}
