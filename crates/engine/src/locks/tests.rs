//! Locks among many tasks in random order: exclusive where they overlap, free where not.

use std::cell::Cell;

use futures_util::FutureExt;
use io::Env;
use io::rng::Rng;
use io::virt::VirtEnv;
use proptest::prelude::*;

use super::*;

const VOLUMES: u64 = 2;
const BLOCKS: u64 = 3;

#[derive(Default)]
struct Watch {
    held: RefCell<Vec<(VolumeId, u64, SectorRange)>>,
    /// Goes up whenever a task does anything.
    clock: Cell<u64>,
    waited: Cell<u64>,
    done: Cell<u64>,
}

impl Watch {
    fn overlaps(&self, volume: VolumeId, block: u64, range: SectorRange) -> bool {
        let same = |&(v, b, r): &(VolumeId, u64, SectorRange)| {
            (v, b) == (volume, block) && overlap(r, range)
        };
        self.held.borrow().iter().any(same)
    }
}

async fn one_task(env: VirtEnv, locks: RangeLocks, watch: Rc<Watch>, mut rng: Rng) {
    for _ in 0..30 {
        let volume = VolumeId(rng.below(VOLUMES) as u32);
        let block = rng.below(BLOCKS);
        let start = rng.below(16) as u16;
        let range = SectorRange { start, len: 1 + rng.below(u64::from(16 - start)) as u16 };
        let blocked = watch.overlaps(volume, block, range);
        let asked = watch.clock.get();
        let lock = locks.lock(volume, block, range).await;
        let at_once = watch.clock.get() == asked;
        assert!(at_once || blocked, "nothing overlapped, yet it waited");
        assert!(!watch.overlaps(volume, block, range), "two locks overlap");
        watch.clock.set(asked.max(watch.clock.get()) + 1);
        watch.waited.set(watch.waited.get() + u64::from(blocked));
        let entry = (volume, block, range);
        watch.held.borrow_mut().push(entry);
        for _ in 0..rng.below(3) {
            env.yield_now().await;
        }
        if rng.chance(1, 4) {
            env.sleep_until(env.now() + io::Nanos(rng.below(50))).await;
        }
        watch.clock.set(watch.clock.get() + 1);
        let at = watch.held.borrow().iter().position(|&other| other == entry).expect("held");
        watch.held.borrow_mut().swap_remove(at);
        drop(lock);
    }
    watch.done.set(watch.done.get() + 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// A lost wake-up would show as a deadlock, which the virtual world refuses.
    #[test]
    fn overlapping_ranges_take_turns_and_others_do_not_wait(seed in any::<u64>()) {
        let env = VirtEnv::new(seed);
        let (locks, watch) = (RangeLocks::default(), Rc::new(Watch::default()));
        for task in 0..20 {
            let rng = Rng::new(seed ^ (task << 32));
            env.spawn(one_task(env.clone(), locks.clone(), watch.clone(), rng));
        }
        env.block_on(async {
            while watch.done.get() < 20 {
                env.sleep_until(env.now() + io::Nanos(1000)).await;
                assert!(env.now() < io::Nanos(10_000_000), "some task waits for ever");
            }
        });
        prop_assert!(watch.waited.get() > 20, "the test must make tasks wait");
        let table = locks.0.borrow();
        prop_assert!(table.held.is_empty() && table.waiting.is_empty(), "nothing is left behind");
        drop(table);
        env.crash();
    }
}

#[test]
fn a_waiter_that_is_dropped_holds_up_nobody() {
    let locks = RangeLocks::default();
    let range = |start, len| SectorRange { start, len };
    let lock = |range| locks.lock(VolumeId(1), 7, range);
    let first = lock(range(0, 8)).now_or_never().expect("free");
    assert!(lock(range(4, 8)).now_or_never().is_none(), "it overlaps, waits and is dropped");
    let second = lock(range(8, 4)).now_or_never().expect("the waiter held nothing");
    drop(first);
    let third = lock(range(0, 8)).now_or_never().expect("free again");
    assert!(lock(range(7, 2)).now_or_never().is_none());
    drop((second, third));
    assert!(lock(range(0, 16)).now_or_never().is_some());
}
