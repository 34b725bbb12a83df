//! One user of a range at a time, in the order of asking.
//!
//! ```text
//!   held or waiting     #1 [0, 8)   #2 [4, 12)   #3 [20, 24)   #4 [0, all)
//!   granted             #1                       #3            #2 after #1, #4 after all
//! ```
//! Who comes first to any byte of a range has it first, so nobody starves: the lock of everything
//! is granted when those before it are done. Each asks for one range only, so nobody waits in a
//! circle.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;

use io::sync::Event;

/// Bounded by the requests under way.
#[derive(Default)]
pub struct RangeLock {
    ranges: RefCell<BTreeMap<u64, Range<u64>>>,
    next: Cell<u64>,
    released: Event,
}

/// A range of a [`RangeLock`], until this is dropped.
#[must_use = "the range is free again at once"]
pub struct Held<'a> {
    lock: &'a RangeLock,
    number: u64,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.lock.ranges.borrow_mut().remove(&self.number);
        self.lock.released.notify_all();
    }
}

fn meet(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

impl RangeLock {
    /// The place in the order is taken by this call, not by the first poll.
    pub fn lock(&self, range: Range<u64>) -> impl Future<Output = Held<'_>> {
        let number = self.next.replace(self.next.get() + 1);
        self.ranges.borrow_mut().insert(number, range.clone());
        let held = Held { lock: self, number };
        async move {
            while self.is_behind(number, &range) {
                self.released.wait().await;
            }
            held
        }
    }

    fn is_behind(&self, number: u64, range: &Range<u64>) -> bool {
        self.ranges.borrow().range(..number).any(|(_, before)| meet(before, range))
    }

    /// Whether anybody has or wants a byte of it.
    pub fn is_wanted(&self, range: &Range<u64>) -> bool {
        self.ranges.borrow().values().any(|held| meet(held, range))
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use io::virt::VirtEnv;
    use io::{Env, Nanos};

    use super::*;

    #[test]
    fn ranges_are_granted_in_the_order_of_asking() {
        let env = VirtEnv::fifo(1);
        let (lock, told) = (Rc::new(RangeLock::default()), Rc::new(RefCell::new(Vec::new())));
        for (name, range) in [("a", 0..8), ("b", 4..12), ("c", 20..24), ("all", 0..u64::MAX)]
            .into_iter()
            .chain([("d", 30..31)])
        {
            let (lock, told, env) = (lock.clone(), told.clone(), env.clone());
            env.clone().spawn(async move {
                let _held = lock.lock(range).await;
                told.borrow_mut().push((name, env.now().0));
                env.sleep_until(env.now() + Nanos(10)).await;
            });
        }
        env.block_on(env.sleep_until(Nanos(1000)));
        assert_eq!(*told.borrow(), [("a", 0), ("c", 0), ("b", 10), ("all", 20), ("d", 30)]);
        assert!(!lock.is_wanted(&(0..u64::MAX)));
    }
}
