//! One at a time at each of many things, in the order of asking.

use std::cell::RefCell;
use std::collections::BTreeMap;

use io::sync::{Permit, Turn};

/// Bounded by those who hold a lock or wait for one.
#[derive(Default)]
pub struct Locks {
    turns: RefCell<BTreeMap<u64, (Turn, usize)>>,
}

/// A lock that is held until this is dropped.
pub struct Held<'a> {
    locks: &'a Locks,
    key: u64,
    _permit: Permit,
}

impl Locks {
    pub async fn lock(&self, key: u64) -> Held<'_> {
        let turn = {
            let mut turns = self.turns.borrow_mut();
            let (turn, users) = turns.entry(key).or_default();
            *users += 1;
            turn.clone()
        };
        let permit = turn.lock().await;
        Held { locks: self, key, _permit: permit }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut turns = self.locks.turns.borrow_mut();
        let (_, users) = turns.get_mut(&self.key).expect("it is locked");
        *users -= 1;
        if *users == 0 {
            turns.remove(&self.key);
        }
    }
}
