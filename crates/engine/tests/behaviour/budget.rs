//! Second ways, and stripes that are stored as copies because a drive is slow, are paid from the
//! budgets: in operations and in bytes.

use std::cell::Cell;

use engine::{Cost, DriveHealth, HedgeBudget, SpikeHandling};
use futures_util::future::join;
use io::faulty::{Delay, Effect};
use io::{Buf, Env, Nanos};
use policy::hedge::{BYTES_SAVED_MAX, SAVED_MAX};

use crate::spikes::{Bench, VOLUME};

const BLOCK: usize = 64 << 10;
/// Of the pools of `Bench`: four blocks and their parity.
const WIDTH: usize = 5;
const STRIPE: usize = 4 * BLOCK;
const FULL: Cost = Cost { operations: SAVED_MAX, bytes: BYTES_SAVED_MAX };

fn offset(at: usize) -> u64 {
    (at * STRIPE) as u64 % VOLUME
}

/// A whole stripe once counted as one operation: a drive that stopped under large writes had 128
/// stripes written twice, on drives that had their hands full.
#[test]
fn a_second_way_of_a_stripe_costs_all_that_it_moves() {
    let bench = Bench::new(10, 21);
    bench.world.block_on(async {
        let (pool, volume) = bench.pool(1, SpikeHandling::default()).await;
        bench.arm(3, Effect::Hang(None), Some(Nanos::from_secs(1)));
        let (over, least) = (Cell::new(false), Cell::new(FULL));
        let writes = async {
            for at in 0.. {
                let data = Buf::from_slice(&[at as u8; STRIPE]);
                volume.write(offset(at), data, false).await.expect("written");
                if pool.counters().hedged_writes > 0 {
                    break;
                }
            }
            over.set(true);
        };
        let watch = async {
            while !over.get() {
                let left = pool.status().write_hedges.left;
                if left.operations < least.get().operations {
                    least.set(left);
                }
                bench.env().sleep_until(bench.env().now() + Nanos::from_micros(5)).await;
            }
        };
        join(writes, watch).await;
        assert_eq!(pool.counters().hedged_writes, 1);
        assert_eq!(FULL.beyond(least.get()), Cost::of(WIDTH, BLOCK), "while it was on its way");
        let nothing = Cost::default();
        let budget = pool.status().write_hedges;
        assert_eq!(budget, HedgeBudget { left: FULL, lost: nothing }, "it was first");
        drop(volume);
        pool.close().await.expect("closes");
    });
}

/// With a drive of five slow, a stripe is stored as two copies of each of its blocks: eight
/// operations instead of five. The three are taken from what second ways may cost.
#[test]
fn stripes_stored_as_copies_are_paid_for() {
    let bench = Bench::new(WIDTH, 22);
    bench.world.block_on(async {
        let (pool, volume) = bench.pool(1, SpikeHandling::default()).await;
        let write = async |at: usize| {
            let data = Buf::from_slice(&[at as u8; STRIPE]);
            volume.write(offset(at), data, false).await.expect("written");
        };
        for at in 0..32 {
            write(at).await;
        }
        assert_eq!(pool.counters().replicated_writes, 0);
        let slow = Delay::Constant(Nanos::from_millis(4));
        bench.arm(3, Effect::Delay(slow), Some(Nanos::from_secs(60)));
        let bypassed = || {
            let counters = pool.counters();
            (counters.replicated_writes / 4 - counters.hedge_wins) as usize
        };
        let mut at = 0;
        while bypassed() < 20 {
            write(at).await;
            at += 1;
        }
        let (status, counters) = (pool.status(), pool.counters());
        assert_eq!(status.drives[3].health, DriveHealth::Good, "nothing but slow just now");
        // Some second ways were second here, too, and of stripes that were copies from the start.
        let second = counters.hedged_writes as usize;
        let (lost, most) = (status.write_hedges.lost, 3 * (20 + second) + 8 * second);
        assert!((60..=most).contains(&(lost.operations as usize)), "{lost:?}: {counters:?}");
        assert_eq!(lost.bytes, lost.operations * BLOCK as u64);
        // They are not refused when nothing is left: 8 operations are less than 5 and then 8.
        while bypassed() < 100 {
            write(at).await;
            at += 1;
        }
        assert!(at < 300, "{at} for 100: {:?}", pool.counters());
        drop(volume);
        pool.close().await.expect("closes");
    });
}
