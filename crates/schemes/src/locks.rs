//! Locks of ranges of bytes, for schemes that keep some bytes in place and newer ones elsewhere.
//!
//! ```text
//!               Append   Move   InPlace       in the order of asking: who waits holds back those
//!   Append        -       yes      -          after it that would pass it
//!   Move         yes       -       -
//!   InPlace       -        -       -
//!
//!   held or waiting     #1 [0, 8)   #2 [4, 12)   #3 [20, 24)   #4 [0, all)      of one kind
//!   behind              nobody      #1           nobody        #1, #2, #3
//! ```
//! Nobody starves: the lock of everything is granted when those before it are given back. Each asks
//! for one range only, so nobody waits in a circle. Each knows how many it is behind, and is woken
//! once; to ask or give back looks at neighbours only, however many wait.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Poll, Waker};

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

/// Longest range that is found by where it begins: requests and stripes. Longer ones are few.
const SHORT_MAX: u64 = 4 << 20;

/// First byte, and the number in the order of asking.
type Key = (u64, u64);

struct Ticket {
    end: u64,
    hold: Hold,
    /// Conflicting ones that asked before and are not given back.
    behind: usize,
    waker: Option<Waker>,
}

/// Who holds or waits: as many as requests and pieces of work under way.
#[derive(Default)]
struct Table {
    short: BTreeMap<Key, Ticket>,
    long: BTreeMap<Key, Ticket>,
    next: u64,
}

impl Table {
    fn kept(&mut self, range: &Range<u64>) -> &mut BTreeMap<Key, Ticket> {
        match range.end.saturating_sub(range.start) {
            0..=SHORT_MAX => &mut self.short,
            _ => &mut self.long,
        }
    }

    /// All that overlap it, with their numbers.
    fn meeting(&mut self, range: Range<u64>) -> impl Iterator<Item = (u64, &mut Ticket)> {
        let near = (range.start.saturating_sub(SHORT_MAX), 0)..(range.end, 0);
        let (short, long) = (self.short.range_mut(near), self.long.range_mut(..(range.end, 0)));
        let all = short.chain(long).map(|(key, ticket)| (key.1, ticket));
        all.filter(move |(_, ticket)| range.start < ticket.end)
    }

    fn ask(&mut self, range: &Range<u64>, hold: Hold) -> Key {
        let behind = self.meeting(range.clone()).filter(|(_, t)| conflict(t.hold, hold)).count();
        let key = (range.start, self.next);
        self.next += 1;
        self.kept(range).insert(key, Ticket { end: range.end, hold, behind, waker: None });
        key
    }

    /// Who may go now, in the order of asking.
    fn give_back(&mut self, range: &Range<u64>, number: u64) -> Vec<Waker> {
        let gone = self.kept(range).remove(&(range.start, number));
        let hold = gone.expect("a ticket is kept until it is given back").hold;
        let mut free: Vec<(u64, Waker)> = Vec::new();
        for (other, ticket) in self.meeting(range.clone()) {
            if other < number || !conflict(ticket.hold, hold) {
                continue;
            }
            ticket.behind -= 1;
            if ticket.behind == 0 {
                free.extend(ticket.waker.take().map(|waker| (other, waker)));
            }
        }
        free.sort_unstable_by_key(|(number, _)| *number);
        free.into_iter().map(|(_, waker)| waker).collect()
    }
}

#[derive(Clone, Default)]
pub struct RangeLocks(Rc<RefCell<Table>>);

/// Holds the range until dropped.
#[must_use = "the range is free again at once"]
pub struct RangeLock {
    locks: RangeLocks,
    range: Range<u64>,
    number: u64,
}

impl RangeLocks {
    /// The place in the order is taken by this call, not by the first poll.
    pub fn lock(&self, range: Range<u64>, hold: Hold) -> impl Future<Output = RangeLock> + use<> {
        let key = self.0.borrow_mut().ask(&range, hold);
        let lock = RangeLock { locks: self.clone(), range, number: key.1 };
        async move {
            poll_fn(|context| {
                let mut table = lock.locks.0.borrow_mut();
                let own = table.kept(&lock.range).get_mut(&key);
                let own = own.expect("a ticket is kept until it is given back");
                if own.behind == 0 {
                    return Poll::Ready(());
                }
                own.waker = Some(context.waker().clone());
                Poll::Pending
            })
            .await;
            lock
        }
    }

    /// Whether anybody has or wants a byte of it.
    pub fn is_wanted(&self, range: Range<u64>) -> bool {
        self.0.borrow_mut().meeting(range).next().is_some()
    }
}

impl Drop for RangeLock {
    fn drop(&mut self) {
        let free = self.locks.0.borrow_mut().give_back(&self.range, self.number);
        // After the borrow has ended: a waker is foreign code.
        free.iter().for_each(Waker::wake_by_ref);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::pin::Pin;

    use futures_util::FutureExt;
    use io::virt::VirtEnv;
    use io::{Env, Nanos};
    use proptest::prelude::*;

    use super::*;

    type Waiting = Pin<Box<dyn Future<Output = RangeLock>>>;

    fn ask(locks: &RangeLocks, range: Range<u64>, hold: Hold) -> Waiting {
        Box::pin(locks.lock(range, hold))
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

    #[test]
    fn ranges_are_granted_in_the_order_of_asking() {
        let env = VirtEnv::fifo(1);
        let (locks, told) = (RangeLocks::default(), Rc::new(RefCell::new(Vec::new())));
        let all = 0..u64::MAX;
        for (name, range) in
            [("a", 0..8), ("b", 4..12), ("c", 20..24), ("all", all.clone()), ("d", 30..31)]
        {
            let (locks, told, env) = (locks.clone(), told.clone(), env.clone());
            env.clone().spawn(async move {
                let _held = locks.lock(range, Hold::InPlace).await;
                told.borrow_mut().push((name, env.now().0));
                env.sleep_until(env.now() + Nanos(10)).await;
            });
        }
        env.block_on(env.sleep_until(Nanos(1000)));
        assert_eq!(*told.borrow(), [("a", 0), ("c", 0), ("b", 10), ("all", 20), ("d", 30)]);
        assert!(!locks.is_wanted(all));
    }

    /// Whoever is asked for: (first byte, bytes, kind, in what order it is given back).
    fn asked() -> impl Strategy<Value = Vec<(u64, u64, Hold, u64)>> {
        let len =
            prop_oneof![1..4u64, 1..40u64, Just(SHORT_MAX), Just(SHORT_MAX + 1), Just(1 << 40)];
        let start = prop_oneof![0..64u64, (SHORT_MAX - 4)..(SHORT_MAX + 64)];
        let hold = prop_oneof![Just(Hold::Append), Just(Hold::Move), Just(Hold::InPlace)];
        proptest::collection::vec((start, len, hold, any::<u64>()), 1..40)
    }

    proptest! {
        /// The oracle: nobody goes while one who asked before overlaps, conflicts and is there.
        /// Some give up while they wait.
        #[test]
        fn who_may_go_is_who_conflicts_with_nobody_before(asked in asked()) {
            let locks = RangeLocks::default();
            let range = |at: usize| asked[at].0..asked[at].0 + asked[at].1;
            let mut all: Vec<Option<Waiting>> = Vec::new();
            let mut held: BTreeMap<usize, RangeLock> = BTreeMap::new();
            for (at, own) in asked.iter().enumerate() {
                all.push(Some(ask(&locks, range(at), own.2)));
            }
            let mut left: Vec<usize> = (0..asked.len()).collect();
            let meet = |a: Range<u64>, b: Range<u64>| a.start < b.end && b.start < a.end;
            let holds_back = |other: usize, at: usize| {
                other < at && meet(range(other), range(at)) && conflict(asked[other].2, asked[at].2)
            };
            let before = |left: &[usize], at| left.iter().any(|&other| holds_back(other, at));
            while !left.is_empty() {
                for &at in &left {
                    let Some(waiting) = &mut all[at] else { continue };
                    let lock = waiting.as_mut().now_or_never();
                    prop_assert_eq!(lock.is_some(), !before(&left, at), "{}", at);
                    if let Some(lock) = lock {
                        all[at] = None;
                        held.insert(at, lock);
                    }
                }
                let gone = left.remove((asked[left[0]].3 % left.len() as u64) as usize);
                prop_assert!(locks.is_wanted(range(gone)));
                held.remove(&gone);
                all[gone] = None;
            }
            prop_assert!(!locks.is_wanted(0..u64::MAX));
        }

        /// A lost wake-up would show as a deadlock, which the virtual world refuses.
        #[test]
        fn everyone_is_woken(asked in asked(), seed in any::<u64>()) {
            let (env, locks) = (VirtEnv::new(seed), RangeLocks::default());
            let done = Rc::new(Cell::new(0));
            for (start, len, hold, sleep) in asked.clone() {
                let (env, locks, done) = (env.clone(), locks.clone(), done.clone());
                env.clone().spawn(async move {
                    let _held = locks.lock(start..start + len, hold).await;
                    env.sleep_until(env.now() + Nanos(sleep % 50)).await;
                    done.set(done.get() + 1);
                });
            }
            env.block_on(env.sleep_until(Nanos(100_000)));
            prop_assert_eq!(done.get(), asked.len());
        }
    }
}
