//! Operations on their way, oldest first: a list through a slab, so that each comes and goes in
//! constant time and the oldest is always known.

use slab::Slab;

struct Entry {
    at: u64,
    previous: Option<usize>,
    next: Option<usize>,
}

/// Bounded by the operations in flight, which those who issue them bound.
#[derive(Default)]
pub struct Outstanding {
    entries: Slab<Entry>,
    first: Option<usize>,
    last: Option<usize>,
}

impl Outstanding {
    /// An operation that begins at `at`, not before any that began earlier.
    pub fn push(&mut self, at: u64) -> usize {
        let key = self.entries.insert(Entry { at, previous: self.last, next: None });
        match self.last.replace(key) {
            Some(last) => self.entries[last].next = Some(key),
            None => self.first = Some(key),
        }
        key
    }

    /// It is over; returns when it began.
    pub fn remove(&mut self, key: usize) -> u64 {
        let Entry { at, previous, next } = self.entries.remove(key);
        match previous {
            Some(previous) => self.entries[previous].next = next,
            None => self.first = next,
        }
        match next {
            Some(next) => self.entries[next].previous = previous,
            None => self.last = previous,
        }
        at
    }

    /// When the oldest began.
    pub fn oldest(&self) -> Option<u64> {
        self.first.map(|first| self.entries[first].at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn the_oldest_is_known(steps in proptest::collection::vec((0..3_u8, 0..50_usize), 1..200)) {
            let mut outstanding = Outstanding::default();
            let mut all: Vec<(usize, u64)> = Vec::new();
            for (now, (action, pick)) in steps.into_iter().enumerate() {
                if action > 0 || all.is_empty() {
                    all.push((outstanding.push(now as u64), now as u64));
                } else {
                    let (key, at) = all.remove(pick % all.len());
                    proptest::prop_assert_eq!(outstanding.remove(key), at);
                }
                proptest::prop_assert_eq!(outstanding.oldest(), all.first().map(|&(_, at)| at));
            }
        }
    }
}
