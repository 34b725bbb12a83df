//! Read generations: when is every read over that may have seen a place before it died?
//!
//! Reads take no locks, so a stripe may die while a read of it is on its way. A stripe is
//! tagged with the generation in which it died and reused only when no read of that or an
//! earlier generation is left (as RCU's grace periods do).

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

#[derive(Default)]
struct State {
    /// Number of the oldest generation in `active`.
    oldest: u64,
    /// Reads of each generation, oldest first; the last one is current.
    active: VecDeque<u32>,
}

#[derive(Clone, Default)]
pub struct ReadGenerations(Rc<RefCell<State>>);

pub struct ReadGuard {
    generations: ReadGenerations,
    generation: u64,
}

impl ReadGenerations {
    pub fn enter(&self) -> ReadGuard {
        let mut state = self.0.borrow_mut();
        if state.active.is_empty() {
            state.active.push_back(0);
        }
        *state.active.back_mut().expect("just filled") += 1;
        let generation = state.oldest + state.active.len() as u64 - 1;
        ReadGuard { generations: self.clone(), generation }
    }

    /// Tag for something that dies now; reads that start later are of a later generation.
    pub fn close(&self) -> u64 {
        let mut state = self.0.borrow_mut();
        match state.active.back() {
            None => {
                state.oldest += 1;
                state.oldest - 1
            }
            Some(0) if state.active.len() == 1 => {
                state.active.clear();
                state.oldest += 1;
                state.oldest - 1
            }
            // Reads that start later join the current generation, which has none yet.
            Some(0) => state.oldest + state.active.len() as u64 - 2,
            Some(_) => {
                state.active.push_back(0);
                state.oldest + state.active.len() as u64 - 2
            }
        }
    }

    /// Generations below this have no reads left.
    pub fn oldest(&self) -> u64 {
        self.0.borrow().oldest
    }
}

impl Drop for ReadGuard {
    fn drop(&mut self) {
        let mut state = self.generations.0.borrow_mut();
        let at = (self.generation - state.oldest) as usize;
        state.active[at] -= 1;
        while state.active.len() > 1 && state.active[0] == 0 {
            state.active.pop_front();
            state.oldest += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_reusable_only_after_the_reads_that_saw_it() {
        let reads = ReadGenerations::default();
        let idle = reads.close();
        assert!(idle < reads.oldest(), "nothing was reading");
        let early = reads.enter();
        let dead = reads.close();
        let late = reads.enter();
        assert!(dead >= reads.oldest(), "the early read may still be looking");
        drop(late);
        assert!(dead >= reads.oldest());
        drop(early);
        let after = reads.enter();
        assert!(dead < reads.oldest(), "only later reads are left");
        drop(after);
    }

    proptest::proptest! {
        /// A tag is over exactly when every read that began before it was given is over.
        #[test]
        fn a_generation_ends_with_its_last_read(
            steps in proptest::collection::vec(0..8_u8, 1..80)
        ) {
            let reads = ReadGenerations::default();
            let mut guards: Vec<(usize, ReadGuard)> = Vec::new();
            let mut tags: Vec<(usize, u64)> = Vec::new();
            for (now, step) in steps.into_iter().enumerate() {
                match step {
                    0..=2 => guards.push((now, reads.enter())),
                    3 | 4 => tags.push((now, reads.close())),
                    _ if guards.is_empty() => {}
                    5 => drop(guards.remove(0)),
                    6 => drop(guards.pop()),
                    _ => drop(guards.swap_remove(now % guards.len())),
                }
                proptest::prop_assert!(tags.windows(2).all(|pair| pair[0].1 <= pair[1].1));
                for &(closed, tag) in &tags {
                    let seen = guards.iter().any(|&(entered, _)| entered < closed);
                    proptest::prop_assert_eq!(tag < reads.oldest(), !seen);
                }
            }
        }
    }
}
