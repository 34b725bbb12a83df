//! The journal on virtual drives: order, copies, failing drives, full rings.

use std::collections::{BTreeMap, BTreeSet};

use format::{Extent, JOURNAL_ALIGN, decode_block};
use io::rng::Rng;
use io::virt::{Disk, Latency, VirtDrive, VirtEnv};
use io::{Nanos, join_all};

use super::*;
use crate::api::{DriveState, SpikeHandling};

const RING: u64 = 256 << 10;
const AT: u64 = 64 << 10;

struct World {
    env: VirtEnv,
    disks: Vec<Disk>,
    array: Rc<Array<VirtDrive>>,
    journal: Rc<Journal<VirtEnv>>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.env.crash();
    }
}

fn world(drives: usize, copies: usize, seed: u64) -> World {
    world_with_rings(drives, copies, seed, RING)
}

fn world_with_rings(drives: usize, copies: usize, seed: u64, len: u64) -> World {
    let env = VirtEnv::new(seed);
    let size = 4 * len;
    let disk = |at| Disk::new(format!("d{at}"), size, 4096, seed + at as u64);
    let disks: Vec<Disk> = (0..drives).map(disk).collect();
    let member = |(at, disk): (usize, &Disk)| {
        let drive = VirtDrive::attach(&env, disk, Latency::SSD);
        (Uuid([at as u8; 16]), size, DriveState::Active, Some(drive))
    };
    let members = disks.iter().enumerate().map(member).collect();
    let own = env.clone();
    let clock = Box::new(move || own.now());
    let array = Rc::new(Array::new(members, SpikeHandling::default(), clock));
    let ring = Extent { offset: AT, len };
    let identity = JournalIdentity { pool: Uuid([7; 16]), shard: 0, epoch: 3, ring };
    let journal = Journal::new(env.clone(), array.clone(), identity, 1, copies);
    World { env, disks, array, journal }
}

fn record(value: u64) -> Record {
    Record::Setting { key: 1, value }
}

/// A record of about a kilobyte.
fn large(value: u64) -> Record {
    let stripe = format::StripeId { zone: value as u32, index: 0 };
    Record::Stripe { stripe, blocks: vec![None; 120], crcs: vec![value as u32; 240] }
}

/// Block by sequence: the records, and the drives that hold it durably.
fn on_drives(world: &World) -> BTreeMap<u64, (Vec<Record>, BTreeSet<usize>)> {
    let mut found: BTreeMap<u64, (Vec<Record>, BTreeSet<usize>)> = BTreeMap::new();
    for (drive, disk) in world.disks.iter().enumerate().filter(|(_, disk)| !disk.is_failed()) {
        let bytes = disk.peek_durable(AT, world.journal.identity.ring.len as usize);
        for at in (0..bytes.len()).step_by(JOURNAL_ALIGN) {
            let Ok((header, records)) = decode_block(&bytes[at..], &Uuid([7; 16])) else {
                continue;
            };
            assert_eq!((header.epoch, header.shard), (3, 0));
            let block = found.entry(header.sequence).or_default();
            assert!(block.0.is_empty() || block.0 == records, "copies are equal");
            block.0 = records;
            assert!(block.1.insert(drive), "one copy a drive");
        }
    }
    found
}

/// Every block up to `sequence` lies on so many drives that have not failed.
fn check_copies(world: &World, sequence: u64, copies: usize) {
    let found = on_drives(world);
    for number in 1..=sequence {
        let drives = found.get(&number).map_or(0, |(_, drives)| drives.len());
        assert!(drives >= copies, "block {number} of {sequence} has {drives} copies, not {copies}");
    }
}

async fn append_and_commit(world: Rc<World>, value: u64, copies: usize) -> u64 {
    let sequence = world.journal.append(&record(value));
    assert!(world.journal.commit(sequence).await, "nothing has failed");
    check_copies(&world, sequence, copies);
    sequence
}

#[test]
fn what_is_committed_is_on_its_drives_with_all_before_it() {
    for (drives, copies, seed) in [(3, 2, 1), (5, 2, 2), (5, 3, 3), (7, 3, 4)] {
        let world = Rc::new(world(drives, copies, seed));
        let mut rng = Rng::new(seed);
        world.env.block_on(async {
            let mut committed = 0;
            for round in 0..12 {
                let count = 1 + rng.below(20);
                let tasks =
                    (0..count).map(|at| append_and_commit(world.clone(), round * 100 + at, copies));
                committed = *join_all(tasks).await.iter().max().expect("at least one");
            }
            let found = on_drives(&world);
            assert_eq!(
                found.keys().copied().collect::<Vec<_>>(),
                (1..=committed).collect::<Vec<_>>()
            );
            let values = found.values().flat_map(|(records, _)| records);
            let values: Vec<u64> = values
                .map(|record| match record {
                    Record::Setting { value, .. } => *value,
                    other => panic!("nobody wrote {other:?}"),
                })
                .collect();
            assert!(values.is_sorted(), "records lie in the order of appending");
        });
        // Copies are spread over all drives.
        let used = on_drives(&world).into_values().flat_map(|(_, drives)| drives);
        assert_eq!(used.collect::<BTreeSet<_>>().len(), drives);
    }
}

#[test]
fn those_who_commit_together_share_blocks() {
    let world = Rc::new(world(4, 2, 9));
    world.env.block_on(async {
        let tasks = (0..500).map(|at| append_and_commit(world.clone(), at, 2));
        join_all(tasks).await;
    });
    let blocks = world.journal.stats().blocks;
    assert!(blocks <= 2 * JOURNAL_WRITES_MAX as u64, "500 commits took {blocks} blocks");
}

#[test]
fn one_commit_takes_the_time_of_one_durable_write() {
    let world = Rc::new(world(5, 2, 4));
    let mut spans: Vec<Nanos> = Vec::new();
    world.env.block_on(async {
        for value in 0..101 {
            let begin = world.env.now();
            append_and_commit(world.clone(), value, 2).await;
            spans.push(world.env.now().saturating_sub(begin));
        }
    });
    spans.sort();
    // A durable write of a page: 80 us and its transfer, half more or less; stalls are rare.
    assert!(spans[50] <= Nanos::from_micros(140), "{:?}", spans[50]);
}

#[test]
fn copies_of_failing_drives_go_to_others() {
    for seed in 0..20 {
        let world = Rc::new(world(5, 3, seed));
        let mut rng = Rng::new(seed);
        world.env.block_on(async {
            for value in 0..20 {
                append_and_commit(world.clone(), value, 3).await;
            }
            // One dies at its next write, one is pulled out while blocks are under way.
            world.disks[rng.index(2)].fail_nth_write(1 + rng.below(3));
            let pulled = world.disks[2 + rng.index(3)].clone();
            let env = world.env.clone();
            let when = env.now() + Nanos(rng.below(200_000));
            world.env.spawn(async move {
                env.sleep_until(when).await;
                pulled.set_failed(true);
            });
            for value in 20..60 {
                let sequence = world.journal.append(&record(value));
                assert!(world.journal.commit(sequence).await);
            }
            let active: Vec<usize> =
                world.array.active().iter().map(|index| index.index()).collect();
            assert_eq!(active.len(), 3, "two drives have failed");
            let last = world.journal.append(&record(60));
            assert!(world.journal.commit(last).await);
            let found = on_drives(&world);
            assert_eq!(found[&last].1.len(), 3, "new blocks have all copies that can be had");
            let least = found.values().map(|(_, drives)| drives.len()).min();
            assert!(least >= Some(1), "two failures leave one of three copies");
            assert_eq!(found.len() as u64, last, "no block is lost");
        });
    }
}

#[test]
fn with_no_drive_left_commits_fail_and_nobody_waits() {
    let world = Rc::new(world(3, 2, 5));
    world.env.block_on(async {
        append_and_commit(world.clone(), 1, 2).await;
        world.disks.iter().for_each(|disk| disk.set_failed(true));
        let tasks = (0..10).map(|value| {
            let journal = world.journal.clone();
            async move {
                let sequence = journal.append(&record(value));
                journal.commit(sequence).await
            }
        });
        assert!(join_all(tasks).await.into_iter().all(|committed| !committed));
        assert!(world.journal.is_failed());
        world.journal.reserve().await;
    });
}

/// The pool fails while everybody waits for a checkpoint that will not be.
#[test]
fn nobody_waits_for_room_in_a_journal_that_is_given_up() {
    let world = Rc::new(world(3, 2, 7));
    world.env.block_on(async {
        let through = Rc::new(Cell::new(0));
        for task in 0..4 {
            let (world, through) = (world.clone(), through.clone());
            world.env.clone().spawn(async move {
                for at in 0..2000 {
                    world.journal.reserve().await;
                    if through.get() > 0 {
                        break;
                    }
                    let sequence = world.journal.append(&large(task * 10_000 + at));
                    assert!(world.journal.commit(sequence).await, "it waits instead of failing");
                }
                through.set(through.get() + 1);
            });
        }
        world.env.sleep_until(world.env.now() + Nanos::from_secs(5)).await;
        assert_eq!(through.get(), 0, "the ring is full");
        through.set(1);
        world.journal.give_up();
        world.env.sleep_until(world.env.now() + Nanos::from_secs(1)).await;
        assert_eq!(through.get(), 5, "all four went on");
    });
}

#[test]
fn with_all_drives_inactive_a_reservation_ends_in_a_failed_commit() {
    let world = Rc::new(world(3, 2, 5));
    world.env.block_on(async {
        world.array.indexes().for_each(|index| world.array.fail(index, "told to"));
        world.journal.reserve().await;
        let sequence = world.journal.append(&record(1));
        assert!(!world.journal.commit(sequence).await);
    });
}

/// Writers in a full ring wait for `forget_before`, and nothing that may be needed is
/// overwritten.
#[test]
fn a_full_ring_makes_writers_wait_and_forgetting_lets_them_on() {
    let world = Rc::new(world(3, 2, 6));
    let appended = Rc::new(Cell::new(0_u64));
    let total = 3000;
    world.env.block_on(async {
        for task in 0..10 {
            let (world, appended) = (world.clone(), appended.clone());
            world.env.clone().spawn(async move {
                for at in 0..total / 10 {
                    world.journal.reserve().await;
                    let sequence = world.journal.append(&large(task * 1000 + at));
                    appended.set(appended.get() + 1);
                    assert!(world.journal.commit(sequence).await, "it waits instead of failing");
                }
            });
        }
        let (mut start, mut fullest, mut stuck) = (1, 0, 0);
        while appended.get() < total {
            world.env.sleep_until(world.env.now() + Nanos::from_millis(20)).await;
            fullest = fullest.max(world.journal.fill_percent());
            stuck += u64::from(!world.journal.has_room());
            let found = on_drives(&world);
            let newest = world.journal.latest().min(*found.keys().last().expect("some"));
            assert!((start..newest).all(|number| found.contains_key(&number)), "from {start}");
            start = newest.saturating_sub(1).max(start);
            world.journal.note_durable(world.journal.settled());
            world.journal.forget_before(start);
        }
        assert!(fullest > 70 && stuck > 5, "the test must fill the ring: {fullest} %, {stuck}");
    });
}

#[test]
fn durable_is_what_is_written_with_its_data() {
    let world = Rc::new(world(3, 2, 8));
    let journal = &world.journal;
    world.env.block_on(async {
        let first = journal.append_with_data(&[record(1)]);
        assert!(journal.commit(first).await);
        let second = journal.append_with_data(&[record(2)]);
        assert!(journal.commit(second).await);
        assert_eq!(journal.settled(), first - 1, "data of the first is under way");
        journal.data_done(second);
        assert_eq!(journal.settled(), first - 1, "later data does not help");
        journal.note_durable(journal.settled());
        assert_eq!(journal.durable(), first - 1);
        journal.data_done(first);
        assert_eq!(journal.settled(), second);
        let third = journal.append(&record(3));
        assert_eq!(journal.settled(), second, "an open block is not settled");
        assert!(journal.is_dirty());
        journal.note_durable(third);
        assert_eq!(journal.durable(), second, "an unwritten block is not durable");
        assert!(journal.commit(third).await);
        journal.note_durable(journal.settled());
        assert_eq!((journal.durable(), journal.is_dirty()), (third, false));
        assert!(journal.commit(journal.seal()).await, "nothing new: nothing to wait for");
    });
}

/// A checkpoint may begin with any block: sums without what they are for, or that without its sums,
/// would leave a block that rots in silence.
#[test]
fn sums_are_in_the_block_of_their_record() {
    let world = Rc::new(world(3, 2, 9));
    let mut rng = Rng::new(9);
    world.env.block_on(async {
        for number in 0..400 {
            world.journal.reserve().await;
            let stripe = format::StripeId { zone: number, index: 0 };
            let sums = |at| Record::Sums {
                flbn: format::Flbn(u64::from(number) * 16 + at),
                first: 0,
                sums: vec![number.max(1); 16],
            };
            let mut records: Vec<Record> = (0..1 + rng.below(8)).map(sums).collect();
            records.push(Record::Stripe { stripe, blocks: Vec::new(), crcs: Vec::new() });
            let sequence = world.journal.append_all(&records);
            if rng.chance(1, 20) {
                assert!(world.journal.commit(sequence).await, "nothing has failed");
                world.journal.note_durable(world.journal.settled());
                world.journal.forget_before(sequence);
            }
        }
        let newest = world.journal.latest();
        assert!(world.journal.commit(newest).await, "nothing has failed");
        let found = on_drives(&world);
        assert!(found.len() > 10, "blocks were sealed because they were full");
        for (number, (records, _)) in found {
            let last = records.last().expect("none is empty");
            assert!(matches!(last, Record::Stripe { .. }), "block {number} ends with its sums");
        }
    });
}

/// 256 blocks of 1 MiB have more sums than a block of the journal has room for.
#[test]
fn records_that_fit_no_block_together_lie_in_several_in_their_order() {
    let world = Rc::new(world_with_rings(3, 2, 11, 2 << 20));
    let sums = |at| Record::Sums { flbn: format::Flbn(at), first: 0, sums: vec![7; 256] };
    let records: Vec<Record> = (0..256).map(sums).collect();
    world.env.block_on(async {
        let sequence = world.journal.append_with_data(&records);
        assert!(world.journal.commit(sequence).await, "nothing has failed");
        assert_eq!(world.journal.settled(), sequence - 1, "its data is under way");
        world.journal.data_done(sequence);
        assert_eq!(world.journal.settled(), sequence);
        check_copies(&world, sequence, 2);
    });
    let found = on_drives(&world);
    assert!(found.len() > 1, "they fit a block");
    let all: Vec<Record> = found.into_values().flat_map(|(records, _)| records).collect();
    assert_eq!(all, records);
}
