//! Locks of ranges of bytes, for schemes that keep some bytes in place and newer ones elsewhere.
//!
//! ```text
//!               Append   Move   InPlace       in the order of asking: who waits holds back those
//!   Append        -       yes      -          after it that would pass it
//!   Move         yes       -       -
//!   InPlace       -        -       -
//! ```

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use io::sync::Event;

/// What a range is locked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// New bytes go elsewhere; what is in place stays.
    Append,
    /// What is elsewhere is brought to its place. Newer bytes may come meanwhile: they are told
    /// from what was brought by where they lie.
    Move,
    /// The bytes in place change, or what is in place must not.
    InPlace,
}

fn conflict(one: Hold, other: Hold) -> bool {
    !matches!((one, other), (Hold::Append, Hold::Move) | (Hold::Move, Hold::Append))
}

struct Ticket {
    number: u64,
    range: Range<u64>,
    hold: Hold,
}

#[derive(Default)]
struct Table {
    /// In the order of asking. As many as requests and pieces of work under way.
    tickets: Vec<Ticket>,
    next: u64,
}

impl Table {
    fn may_go(&self, number: u64) -> bool {
        let at = self.tickets.iter().position(|ticket| ticket.number == number);
        let at = at.expect("a ticket is kept until it is given back");
        let own = &self.tickets[at];
        !self.tickets[..at].iter().any(|earlier| {
            let overlap =
                earlier.range.start < own.range.end && own.range.start < earlier.range.end;
            overlap && conflict(earlier.hold, own.hold)
        })
    }
}

#[derive(Clone, Default)]
pub struct RangeLocks {
    table: Rc<RefCell<Table>>,
    given_back: Event,
}

/// Holds the range until dropped.
pub struct RangeLock {
    locks: RangeLocks,
    number: u64,
}

impl RangeLocks {
    pub async fn lock(&self, range: Range<u64>, hold: Hold) -> RangeLock {
        let number = {
            let mut table = self.table.borrow_mut();
            let number = table.next;
            table.next += 1;
            table.tickets.push(Ticket { number, range, hold });
            number
        };
        let lock = RangeLock { locks: self.clone(), number };
        while !self.table.borrow().may_go(number) {
            self.given_back.wait().await;
        }
        lock
    }
}

impl Drop for RangeLock {
    fn drop(&mut self) {
        self.locks.table.borrow_mut().tickets.retain(|ticket| ticket.number != self.number);
        self.locks.given_back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use futures_util::FutureExt;

    use super::*;

    type Waiting = Pin<Box<dyn Future<Output = RangeLock>>>;

    fn ask(locks: &RangeLocks, range: Range<u64>, hold: Hold) -> Waiting {
        let locks = locks.clone();
        let mut waiting: Waiting = Box::pin(async move { locks.lock(range, hold).await });
        // Its place in the order is taken when it is first asked.
        match waiting.as_mut().now_or_never() {
            Some(lock) => Box::pin(std::future::ready(lock)),
            None => waiting,
        }
    }

    #[test]
    fn only_appends_and_moves_pass_each_other() {
        use Hold::{Append, InPlace, Move};
        let all = [Append, Move, InPlace];
        for (one, other) in all.iter().flat_map(|one| all.map(|other| (*one, other))) {
            let locks = RangeLocks::default();
            let first = ask(&locks, 0..10, one).now_or_never().expect("nobody is there");
            let beside = ask(&locks, 10..20, other).now_or_never();
            assert!(beside.is_some());
            let mut second = ask(&locks, 9..12, other);
            drop(beside);
            let passes = (one, other) == (Append, Move) || (one, other) == (Move, Append);
            let at_once = second.as_mut().now_or_never();
            assert_eq!(at_once.is_some(), passes, "{other:?} beside {one:?}");
            drop(first);
            if !passes {
                assert!(second.now_or_never().is_some());
            }
        }
    }

    #[test]
    fn who_waits_is_not_passed() {
        let locks = RangeLocks::default();
        let append = ask(&locks, 0..4, Hold::Append).now_or_never().expect("nobody is there");
        let mut whole = ask(&locks, 0..8, Hold::InPlace);
        let mut late = ask(&locks, 6..8, Hold::Append);
        assert!(whole.as_mut().now_or_never().is_none() && late.as_mut().now_or_never().is_none());
        drop(append);
        assert!(late.as_mut().now_or_never().is_none());
        assert!(whole.now_or_never().is_some());
        assert!(late.now_or_never().is_some());
    }
}
