//! The volatile cache against an oracle that only knows the contract of `Drive`.
//!
//! Every write has a number and fills its sectors with it. The oracle remembers per sector
//! which writes completed in which order, which is known durable, and which are in flight.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use io::rng::Rng;
use io::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};
use io::{Buf, BufMut, Drive, Durability, Env, Nanos};

const SECTORS: u64 = 96;
const SECTOR: usize = 512;

#[derive(Clone, Default)]
struct Sector {
    /// Completed writes from the durable one on; the last is what reads see.
    history: Vec<u64>,
    in_flight: BTreeSet<u64>,
}

impl Sector {
    fn durable(&self) -> u64 {
        self.history.first().copied().unwrap_or(0)
    }

    fn newest(&self) -> u64 {
        self.history.last().copied().unwrap_or(0)
    }

    fn may_survive(&self) -> BTreeSet<u64> {
        let initial = if self.history.is_empty() { Some(0) } else { None };
        self.history.iter().chain(&self.in_flight).copied().chain(initial).collect()
    }

    fn complete(&mut self, write: u64, durability: Durability) {
        self.in_flight.remove(&write);
        if self.history.is_empty() || durability == Durability::Durable {
            self.history = if durability == Durability::Durable { vec![] } else { vec![0] };
        }
        self.history.push(write);
    }

    /// What had completed when the flush started is the oldest that may survive.
    fn flush(&mut self, newest_at_start: u64) {
        if let Some(place) = self.history.iter().position(|&write| write == newest_at_start) {
            self.history.drain(..place);
        }
    }
}

#[derive(Default)]
struct Oracle {
    sectors: Vec<Sector>,
    last_write: u64,
}

type SharedOracle = Rc<RefCell<Oracle>>;

fn numbers(bytes: &[u8]) -> Vec<u64> {
    let number = |sector: &[u8]| {
        let words: Vec<u64> =
            sector.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        assert!(words.iter().all(|&word| word == words[0]), "a torn sector");
        words[0]
    };
    bytes.chunks(SECTOR).map(number).collect()
}

fn filled(write: u64, sectors: u64) -> Buf {
    let mut data = BufMut::with_len(sectors as usize * SECTOR);
    data.chunks_mut(8).for_each(|word| word.copy_from_slice(&write.to_le_bytes()));
    data.freeze()
}

fn draw_range(rng: &mut Rng) -> std::ops::Range<usize> {
    let len = 1 + rng.below(20);
    let first = rng.below(SECTORS - len + 1) as usize;
    first..first + len as usize
}

async fn write_some(drive: &VirtDrive, oracle: &SharedOracle, rng: &mut Rng) {
    let durability = if rng.chance(1, 4) { Durability::Durable } else { Durability::Cached };
    let range = draw_range(rng);
    let write = {
        let mut oracle = oracle.borrow_mut();
        oracle.last_write += 1;
        let write = oracle.last_write;
        oracle.sectors[range.clone()].iter_mut().for_each(|sector| {
            sector.in_flight.insert(write);
        });
        write
    };
    let data = filled(write, range.len() as u64);
    drive.write((range.start * SECTOR) as u64, data, durability).await.unwrap();
    let sectors = &mut oracle.borrow_mut().sectors;
    sectors[range].iter_mut().for_each(|sector| sector.complete(write, durability));
}

async fn read_some(drive: &VirtDrive, oracle: &SharedOracle, rng: &mut Rng) {
    let range = draw_range(rng);
    let offset = (range.start * SECTOR) as u64;
    let bytes = drive.read(offset, range.len() * SECTOR).await.unwrap();
    let oracle = oracle.borrow();
    let newest: Vec<u64> = oracle.sectors[range].iter().map(Sector::newest).collect();
    assert_eq!(numbers(&bytes), newest);
}

async fn flush(drive: &VirtDrive, oracle: &SharedOracle) {
    let newest: Vec<u64> = oracle.borrow().sectors.iter().map(Sector::newest).collect();
    drive.flush().await.unwrap();
    let sectors = &mut oracle.borrow_mut().sectors;
    sectors.iter_mut().zip(newest).for_each(|(sector, newest)| sector.flush(newest));
}

/// Four tasks work on one drive until `stop_at` writes have been issued, then the power fails.
fn run_and_stop(seed: u64, stop_at: u64) -> (Disk, Oracle) {
    let (env, oracle) = (VirtEnv::new(seed), SharedOracle::default());
    oracle.borrow_mut().sectors.resize(SECTORS as usize, Sector::default());
    let disk = Disk::new("disk:0", SECTORS * SECTOR as u64, 512, seed);
    for task in 0..4 {
        let drive = VirtDrive::attach(&env, &disk, Latency::SSD);
        let (env_of_task, oracle) = (env.clone(), oracle.clone());
        let mut rng = Rng::new(seed * 10 + task);
        env.spawn(async move {
            loop {
                match rng.below(10) {
                    0 => flush(&drive, &oracle).await,
                    1..4 => read_some(&drive, &oracle, &mut rng).await,
                    4 => {
                        let pause = Nanos::from_micros(rng.below(300));
                        env_of_task.sleep_until(env_of_task.now() + pause).await;
                    }
                    _ => write_some(&drive, &oracle, &mut rng).await,
                }
            }
        });
    }
    env.run_until(std::future::pending::<()>(), || env.writes_issued() >= stop_at);
    env.crash();
    (disk, oracle.take())
}

fn content(disk: &Disk) -> Vec<u64> {
    numbers(&disk.peek(0, SECTORS as usize * SECTOR))
}

#[test]
fn reads_see_the_newest_and_a_cut_keeps_what_a_flush_promised() {
    for seed in 0..300 {
        let (disk, oracle) = run_and_stop(seed, 1 + seed % 97);
        let newest: Vec<u64> = oracle.sectors.iter().map(Sector::newest).collect();
        assert_eq!(content(&disk), newest, "seed {seed}");
        disk.power_cut(&mut Rng::new(seed), CutMode::Random);
        for (number, (kept, sector)) in content(&disk).into_iter().zip(&oracle.sectors).enumerate()
        {
            let allowed = sector.may_survive();
            assert!(
                allowed.contains(&kept),
                "seed {seed} sector {number}: kept {kept}, allowed {allowed:?}"
            );
        }
        assert_eq!(disk.undecided_writes(), 0);
    }
}

#[test]
fn the_extreme_cuts_keep_the_oldest_and_the_newest() {
    for seed in 0..100 {
        let (disk, oracle) = run_and_stop(seed, 60);
        let durable: Vec<u64> = oracle.sectors.iter().map(Sector::durable).collect();
        assert_eq!(numbers(&disk.peek_durable(0, SECTORS as usize * SECTOR)), durable);
        disk.power_cut(&mut Rng::new(0), CutMode::DropAll);
        assert_eq!(content(&disk), durable, "seed {seed}");

        let (disk, oracle) = run_and_stop(seed, 60);
        disk.power_cut(&mut Rng::new(0), CutMode::KeepAll);
        for (kept, sector) in content(&disk).into_iter().zip(&oracle.sectors) {
            assert_eq!(kept, sector.in_flight.last().copied().unwrap_or(sector.newest()));
        }
    }
}

/// One run, many fates: every allowed fate of every sector is reached by some cut.
#[test]
fn random_cuts_reach_every_allowed_fate() {
    let mut reached: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
    for cut in 0..600 {
        let (disk, _) = run_and_stop(7, 80);
        disk.power_cut(&mut Rng::new(cut), CutMode::Random);
        for (number, kept) in content(&disk).into_iter().enumerate() {
            reached.entry(number).or_default().insert(kept);
        }
    }
    let (_, oracle) = run_and_stop(7, 80);
    let allowed: Vec<_> = oracle.sectors.iter().map(Sector::may_survive).collect();
    assert!(allowed.iter().any(|fates| fates.len() > 2));
    assert_eq!(reached.into_values().collect::<Vec<_>>(), allowed);
}

/// Two writes to different places, neither flushed: the later may survive without the earlier.
#[test]
fn a_cut_reorders_and_tears() {
    let (mut later_only, mut torn) = (false, false);
    for seed in 0..200 {
        let env = VirtEnv::new(seed);
        let disk = Disk::new("disk:0", 1 << 20, 4096, seed);
        let drive = VirtDrive::attach(&env, &disk, Latency::SSD);
        env.block_on(async {
            drive.write(0, filled(1, 8), Durability::Cached).await.unwrap();
            drive.write(4096, filled(2, 8), Durability::Cached).await.unwrap();
        });
        disk.power_cut(&mut Rng::new(seed), CutMode::Random);
        let (first, second) = (numbers(&disk.peek(0, 4096)), numbers(&disk.peek(4096, 4096)));
        later_only |= first == [0; 8] && second == [2; 8];
        torn |= first.contains(&0) && first.contains(&1);
    }
    assert!(later_only && torn);
}

/// A second life on the same platter: what the first cut decided is the ground of the next.
#[test]
fn a_platter_serves_machine_after_machine() {
    let disk = Disk::new("disk:0", SECTORS * SECTOR as u64, 512, 1);
    let mut expected = vec![0; SECTORS as usize];
    for life in 1..50 {
        let env = VirtEnv::new(life);
        let drive = VirtDrive::attach(&env, &disk, Latency::SSD);
        assert_eq!(content(&disk), expected);
        let mut rng = Rng::new(life);
        env.block_on(async {
            for write in 0..5 {
                let range = draw_range(&mut rng);
                let data = filled(life * 100 + write, range.len() as u64);
                drive.write((range.start * SECTOR) as u64, data, Durability::Cached).await.unwrap();
                expected[range].fill(life * 100 + write);
            }
        });
        if life % 2 == 0 {
            env.block_on(drive.flush()).unwrap();
            env.crash();
            disk.power_cut(&mut rng, CutMode::Random);
        } else {
            env.crash();
            disk.power_cut(&mut rng, CutMode::Random);
            expected = content(&disk);
        }
    }
}
