//! Whose request is next, where more wait than may go at once: deficit round robin by bytes.
//!
//! Volumes take turns. A turn is worth a [`QUANTUM`] of bytes; what a volume can't use for its
//! first request it keeps for its next turn, and loses when it has no request left. So every
//! volume that waits gets the same share of bytes, however many requests it sends and however
//! large they are. Within a volume, first come is first served.

use std::collections::{BTreeMap, VecDeque};

/// Bytes of one turn: large enough that a turn is worth a few small requests, small enough that
/// a round of many volumes is short.
pub const QUANTUM: u64 = 64 << 10;
/// A request costs at least so many bytes: a drive does not do sixteen of 4 KiB in the time of
/// one of 64 KiB, rather four.
pub const COST_MIN: u64 = 16 << 10;

#[derive(Debug)]
struct Request {
    ticket: u64,
    cost: u64,
}

#[derive(Debug)]
struct Queue {
    requests: VecDeque<Request>,
    /// Bytes it may still send in this turn.
    deficit: u64,
}

/// Requests that wait, by volume. Tickets ascend.
#[derive(Debug, Default)]
pub struct RoundRobin {
    queues: BTreeMap<u32, Queue>,
    /// Volumes with requests, in the order of their turns.
    turns: VecDeque<u32>,
}

impl RoundRobin {
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    /// Requests of a volume that wait.
    pub fn waiting(&self, volume: u32) -> usize {
        self.queues.get(&volume).map_or(0, |queue| queue.requests.len())
    }

    /// A request joins the end of its volume's queue. `ticket` is above all before it.
    pub fn push(&mut self, volume: u32, ticket: u64, bytes: u64) {
        let queue = self.queues.entry(volume).or_insert_with(|| {
            self.turns.push_back(volume);
            Queue { requests: VecDeque::new(), deficit: QUANTUM }
        });
        queue.requests.push_back(Request { ticket, cost: bytes.max(COST_MIN) });
    }

    /// Takes out the request that goes next, and names its volume.
    pub fn pop(&mut self) -> Option<(u32, u64)> {
        loop {
            let volume = *self.turns.front()?;
            let queue = self.queues.get_mut(&volume).expect("who has a turn has a queue");
            let cost = queue.requests.front().expect("queues are not empty").cost;
            if cost <= queue.deficit {
                queue.deficit -= cost;
                return self.pop_of(volume).map(|ticket| (volume, ticket));
            }
            queue.deficit += QUANTUM;
            self.turns.rotate_left(1);
        }
    }

    /// Takes out the next request of one volume, whoever's turn it is, at no cost.
    pub fn pop_of(&mut self, volume: u32) -> Option<u64> {
        let request = self.queues.get_mut(&volume)?.requests.pop_front()?;
        self.forget_if_empty(volume);
        Some(request.ticket)
    }

    /// Takes out a request that will not go. False if it isn't here.
    pub fn remove(&mut self, volume: u32, ticket: u64) -> bool {
        let Some(queue) = self.queues.get_mut(&volume) else { return false };
        let place = queue.requests.binary_search_by_key(&ticket, |request| request.ticket);
        let Ok(place) = place else { return false };
        queue.requests.remove(place);
        self.forget_if_empty(volume);
        true
    }

    fn forget_if_empty(&mut self, volume: u32) {
        if self.waiting(volume) == 0 {
            self.queues.remove(&volume);
            self.turns.retain(|&other| other != volume);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Push { volume: u32, bytes: u64 },
        Next,
        NextOf { volume: u32 },
        Remove { nth: usize },
    }

    fn any_step() -> impl Strategy<Value = Step> {
        let bytes = prop_oneof![Just(512u64), 1u64..(128 << 10), 1u64..(4 << 20)];
        prop_oneof![
            4 => (0u32..4, bytes).prop_map(|(volume, bytes)| Step::Push { volume, bytes }),
            3 => Just(Step::Next),
            1 => (0u32..4).prop_map(|volume| Step::NextOf { volume }),
            1 => (0usize..20).prop_map(|nth| Step::Remove { nth }),
        ]
    }

    /// Deficit round robin as in the textbook: one flat list of who waits, and a loop over it.
    #[derive(Default)]
    struct Oracle {
        waiting: Vec<(u32, u64, u64)>,
        turns: Vec<(u32, u64)>,
    }

    impl Oracle {
        fn first_of(&self, volume: u32) -> Option<usize> {
            self.waiting.iter().position(|request| request.0 == volume)
        }

        fn take(&mut self, place: usize) -> (u32, u64) {
            let (volume, ticket, _) = self.waiting.remove(place);
            let waiting = &self.waiting;
            self.turns.retain(|turn| waiting.iter().any(|request| request.0 == turn.0));
            (volume, ticket)
        }

        fn step(&mut self, step: &Step, ticket: u64) -> Option<(u32, u64)> {
            match *step {
                Step::Push { volume, bytes } => {
                    if self.first_of(volume).is_none() {
                        self.turns.push((volume, QUANTUM));
                    }
                    self.waiting.push((volume, ticket, bytes.max(COST_MIN)));
                    None
                }
                Step::Next => loop {
                    let (volume, deficit) = *self.turns.first()?;
                    let place = self.first_of(volume).expect("it has a turn");
                    let cost = self.waiting[place].2;
                    if cost <= deficit {
                        self.turns[0].1 -= cost;
                        return Some(self.take(place));
                    }
                    self.turns.remove(0);
                    self.turns.push((volume, deficit + QUANTUM));
                },
                Step::NextOf { volume } => {
                    let place = self.first_of(volume)?;
                    Some(self.take(place))
                }
                Step::Remove { nth } => (nth < self.waiting.len()).then(|| self.take(nth)),
            }
        }
    }

    proptest! {
        #[test]
        fn the_order_is_the_textbooks(steps in prop::collection::vec(any_step(), 1..200)) {
            let (mut order, mut oracle) = (RoundRobin::default(), Oracle::default());
            for (ticket, step) in (0u64..).zip(&steps) {
                let removed = match *step {
                    Step::Remove { nth } => oracle.waiting.get(nth).map(|r| (r.0, r.1)),
                    _ => None,
                };
                let expected = oracle.step(step, ticket);
                let found = match *step {
                    Step::Push { volume, bytes } => {
                        order.push(volume, ticket, bytes);
                        None
                    }
                    Step::Next => order.pop(),
                    Step::NextOf { volume } => order.pop_of(volume).map(|t| (volume, t)),
                    Step::Remove { .. } => {
                        removed.filter(|&(volume, ticket)| order.remove(volume, ticket))
                    }
                };
                prop_assert_eq!(found, expected);
                prop_assert_eq!(order.is_empty(), oracle.waiting.is_empty());
            }
        }

        /// Whatever sizes two volumes send: as long as both wait, neither gets ahead by more than
        /// a turn and its largest request.
        #[test]
        fn shares_are_equal(sizes in prop::collection::vec((1u64..(1 << 20), 1u64..8192), 200)) {
            let mut order = RoundRobin::default();
            for (at, &(large, small)) in (0u64..).zip(&sizes) {
                order.push(1, 2 * at, large);
                order.push(2, 2 * at + 1, small);
            }
            let cost = |ticket: u64| {
                let (large, small) = sizes[ticket as usize / 2];
                (if ticket.is_multiple_of(2) { large } else { small }).max(COST_MIN)
            };
            let mut sent = [0u64; 3];
            while order.waiting(1) > 0 && order.waiting(2) > 0 {
                let (volume, ticket) = order.pop().expect("both wait");
                sent[volume as usize] += cost(ticket);
                prop_assert!(sent[1].abs_diff(sent[2]) <= QUANTUM + (1 << 20) + COST_MIN);
            }
        }
    }

    #[test]
    fn strangers_are_not_here() {
        let mut order = RoundRobin::default();
        assert_eq!((order.pop(), order.pop_of(1), order.remove(1, 1)), (None, None, false));
        order.push(1, 1, 1);
        assert!(!order.remove(1, 2) && !order.remove(2, 1) && order.remove(1, 1));
        assert!(order.is_empty());
    }
}
