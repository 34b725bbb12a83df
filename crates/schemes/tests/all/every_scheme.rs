//! What holds for every scheme alike: volumes that fill the pool end in an error and not in a
//! wedge, what is given back can be used again, and what is read is what was written.

use io::rng::Rng;
use io::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};
use io::{Buf, Env, Nanos};
use schemes::any::AnyStore;
use schemes::scheme::{OpenOptions, Scheme, Spec};
use schemes::store::Store;
use schemes::{VolumeError, Volumes};

use crate::scrub::scrub;

const MIB: u64 = 1 << 20;
/// Eight drives suit all schemes; so large, because the least log of `hpda` has 32 MiB.
const DRIVES: u64 = 8;
const DRIVE: u64 = 48 * MIB;
/// Longest write.
const PIECE: u64 = 4 * MIB;

type Pool = Volumes<VirtEnv, AnyStore<VirtEnv>>;

struct Shelf {
    env: VirtEnv,
    disks: Vec<Disk>,
}

impl Shelf {
    fn new(scheme: Scheme) -> Shelf {
        let env = VirtEnv::fifo(1);
        let disk = |at| Disk::new(format!("d{at}"), DRIVE, 4096, at);
        let shelf = Shelf { env, disks: (0..DRIVES).map(disk).collect() };
        let spec = Spec::new("tank", scheme);
        shelf.env.block_on(spec.create(&shelf.env, &shelf.drives())).expect("it is made");
        shelf
    }

    fn drives(&self) -> Vec<VirtDrive> {
        let attach = |disk| VirtDrive::attach(&self.env, disk, Latency::SSD);
        self.disks.iter().map(attach).collect()
    }

    fn open(&self) -> Pool {
        self.env.block_on(async {
            let store = AnyStore::open(&self.env, self.drives(), OpenOptions::default()).await;
            Volumes::open(&self.env, store.expect("it opens")).await.expect("it has volumes")
        })
    }
}

/// Bytes that say where they belong and by which write.
fn content(offset: u64, len: u64, write: u64) -> Buf {
    let word = |at: u64| ((offset / 8 + at) ^ write << 56).to_le_bytes();
    let bytes: Vec<u8> = (0..len / 8).flat_map(word).collect();
    Buf::from_slice(&bytes)
}

async fn is(pool: &Pool, offset: u64, wanted: &[u8]) -> bool {
    let volume = pool.volume("vm").expect("it is there");
    let read = volume.read(offset, wanted.len() as u64).await.expect("reads");
    read.iter().flat_map(|buf| buf.iter()).eq(wanted)
}

/// Writes until there is no space: how many bytes there was space for.
async fn fill(pool: &Pool, write: u64) -> u64 {
    let volume = pool.volume("vm").expect("it is there");
    let mut at = 0;
    loop {
        match volume.write(at, content(at, PIECE, write), false).await {
            Ok(()) => at += PIECE,
            Err(VolumeError::NoSpace) => return at,
            Err(error) => panic!("at {at}: {error}"),
        }
    }
}

async fn full_and_trimmed(env: &VirtEnv, pool: &Pool, name: &str) {
    let (total, size) = (pool.space().total, 2 * pool.space().total);
    pool.create("vm", size).await.expect("more is promised than there is");
    let volume = pool.volume("vm").expect("just made");
    let held = fill(pool, 1).await;
    assert!(held + 2 * PIECE > total, "{name}: {held} of {total} bytes");
    volume.flush().await.expect("a full pool flushes");
    // Full is full for new places only.
    volume.write(0, content(0, PIECE, 2), true).await.expect("there is space already");
    assert!(is(pool, 0, &content(0, PIECE, 2)).await, "{name}");
    assert!(is(pool, held - PIECE, &content(held - PIECE, PIECE, 1)).await, "{name}");
    volume.trim(PIECE, held / 2, false).await.expect("trims");
    volume.flush().await.expect("flushes");
    assert!(
        is(pool, 2 * PIECE, &vec![0; MIB as usize]).await,
        "{name}: zeroes where it was trimmed"
    );
    while pool.store().work().await.expect("works") {}
    env.sleep_until(env.now() + io::Nanos::from_secs(1)).await;
    let far = size - held / 4 / PIECE * PIECE;
    let far = far / PIECE * PIECE;
    volume.write(far, content(far, PIECE, 3), true).await.expect("what was trimmed is space");
    assert!(is(pool, far, &content(far, PIECE, 3)).await, "{name}");
}

#[test]
fn full_pools_say_so_and_trimmed_ones_go_on() {
    for scheme in Scheme::ALL {
        let shelf = Shelf::new(scheme);
        let pool = shelf.open();
        shelf.env.block_on(full_and_trimmed(&shelf.env, &pool, scheme.name()));
        shelf.env.block_on(pool.flush()).expect("flushes");
        drop(pool);
        shelf.env.crash();
        let mut fate = Rng::new(1);
        shelf.disks.iter().for_each(|disk| disk.power_cut(&mut fate, CutMode::DropAll));
        let pool = shelf.open();
        shelf.env.block_on(async {
            assert!(is(&pool, 0, &content(0, PIECE, 2)).await, "{}", scheme.name());
            assert!(is(&pool, 2 * PIECE, &vec![0; MIB as usize]).await, "{}", scheme.name());
            pool.close().await.expect("closes");
        });
        drop(pool);
        shelf.env.crash();
    }
}

/// Nobody is there but who does what can wait, until there is nothing.
async fn rest(env: &VirtEnv, pool: &Pool) {
    let mut idle = 0;
    while idle < 20 {
        let worked = pool.store().work().await.expect("works") || pool.work().await.expect("works");
        idle = if worked { 0 } else { idle + 1 };
        env.sleep_until(env.now() + Nanos::from_millis(50)).await;
    }
}

/// Of a volume of 16 MiB the middle is trimmed: bytes that the drives were told of, and those that
/// were written to them meanwhile.
fn trimmed(shelf: &Shelf, name: &str) -> (u64, u64) {
    let (first, len, size) = (4 * MIB, 8 * MIB, 16 * MIB);
    let sum = |of: fn(io::virt::Counters) -> u64| {
        shelf.disks.iter().map(|disk| of(disk.counters())).sum::<u64>()
    };
    let told = || (sum(|own| own.bytes_discarded), sum(|own| own.bytes_written));
    let pool = shelf.open();
    let before = shelf.env.block_on(async {
        pool.create("vm", size).await.expect("it fits");
        let volume = pool.volume("vm").expect("just made");
        for at in (0..size).step_by(PIECE as usize) {
            volume.write(at, content(at, PIECE, 1), false).await.expect("writes");
        }
        volume.flush().await.expect("flushes");
        rest(&shelf.env, &pool).await;
        volume.trim(first, len, false).await.expect("trims");
        let before = told();
        volume.flush().await.expect("flushes");
        rest(&shelf.env, &pool).await;
        before
    });
    let after = told();
    let whole = async |pool: &Pool| {
        assert!(is(pool, 0, &content(0, PIECE, 1)).await, "{name}: before it");
        // Grains that it covers in part stay.
        assert!(is(pool, first + MIB, &vec![0; 6 * MIB as usize]).await, "{name}: trimmed");
        let end = first + len;
        assert!(is(pool, end, &content(end, PIECE, 1)).await, "{name}: behind it");
    };
    shelf.env.block_on(async {
        whole(&pool).await;
        let found = scrub(pool.store()).await;
        assert_eq!((found.bad, found.parity, found.lost), (0, 0, 0), "{name}: {found:?}");
        pool.close().await.expect("closes");
    });
    drop(pool);
    // What a lost drive held still follows from the others.
    if shelf
        .env
        .block_on(AnyStore::open(&shelf.env, shelf.drives(), OpenOptions::default()))
        .is_ok_and(|store| store.margin() > 0)
    {
        shelf.env.crash();
        shelf.disks[1].set_failed(true);
        shelf.env.block_on(whole(&shelf.open()));
    }
    shelf.env.crash();
    (after.0 - before.0, after.1 - before.1)
}

#[test]
fn drives_are_told_of_what_is_trimmed() {
    for scheme in Scheme::ALL {
        let name = scheme.name();
        let (told, _) = trimmed(&Shelf::new(scheme), name);
        // They do not tell which blocks are nobody's.
        let logs = [Scheme::LogRaid, Scheme::MirrorLog].contains(&scheme);
        assert!(logs == (told == 0) && (logs || told > 6 * MIB), "{name}: told of {told} bytes");
    }
}

#[test]
fn drives_that_cannot_are_told_nothing_and_written_nothing() {
    for scheme in Scheme::ALL {
        let (mut shelf, name) = (Shelf::new(scheme), scheme.name());
        let disks = std::mem::take(&mut shelf.disks).into_iter();
        shelf.disks = disks.map(Disk::without_write_zeroes).collect();
        let (told, written) = trimmed(&shelf, name);
        assert_eq!(told, 0, "{name}");
        // The map of the volume, and what the scheme has beside.
        assert!(written < MIB, "{name}: {written} bytes written");
    }
}

/// Nobody writes for a while: the most marks that were there meanwhile.
async fn most_marks(env: &VirtEnv, store: &AnyStore<VirtEnv>, idle: Nanos) -> u64 {
    let (mut most, end) = (store.marks(), env.now() + idle);
    while env.now() < end {
        let rest = if store.work().await.expect("works") { 1 } else { 50 };
        env.sleep_until(env.now() + Nanos::from_millis(rest)).await;
        most = most.max(store.marks());
    }
    most
}

/// A pool says that it is in sync only when a crash would cost no resync.
#[test]
fn regions_are_marked_while_they_are_written_and_not_when_nobody_writes() {
    let idle = Nanos::from_secs(15);
    for scheme in Scheme::ALL {
        let (shelf, name) = (Shelf::new(scheme), scheme.name());
        let open = AnyStore::open(&shelf.env, shelf.drives(), OpenOptions::default());
        let store = shelf.env.block_on(open).expect("it opens");
        shelf.env.block_on(async {
            most_marks(&shelf.env, &store, idle).await;
            assert_eq!((store.marks(), store.owed()), (0, 0), "{name}: new and idle");
            let data = content(MIB, 64 * KIB, 1);
            store.write(MIB, data, false).await.expect("writes");
            // It writes to its arrays later; it has none.
            let later = [Scheme::Alternate, Scheme::MirrorLog].contains(&scheme);
            assert!(later || store.marks() > 0, "{name}: written");
            store.flush().await.expect("flushes");
            assert!(later || store.marks() > 0, "{name}: flushed");
            let most = most_marks(&shelf.env, &store, idle).await;
            assert_eq!(most > 0, scheme != Scheme::MirrorLog, "{name}: {most} marks");
            assert_eq!(store.marks(), 0, "{name}: idle");
        });
        drop(store);
        shelf.env.crash();
    }
}

fn written(disks: &[Disk]) -> Vec<u64> {
    disks.iter().map(|disk| disk.counters().bytes_written).collect()
}

/// Opened without these drives, with what that gives; nothing is open afterwards.
fn lost_without(shelf: &Shelf, missing: &[usize]) -> Option<Vec<usize>> {
    let there = shelf.drives().into_iter().enumerate().filter(|(at, _)| !missing.contains(at));
    let there = there.map(|(_, drive)| drive).collect();
    let open = AnyStore::open(&shelf.env, there, OpenOptions::default());
    let lost = shelf.env.block_on(open).ok().map(|store| store.lost());
    shelf.env.crash();
    lost
}

/// A pool of two groups was opened with one drive of the first missing and all of the second: it
/// was refused, but the first group had told its other drives by then that one was lost. With all
/// drives back that one was missing, although nobody had written anything.
#[test]
fn a_pool_that_is_refused_loses_nobody_by_the_attempt() {
    let drives = DRIVES as usize;
    let ends = |one: usize| (0..=drives).flat_map(move |end| [(one, 0..end), (one, end..drives)]);
    for scheme in Scheme::ALL {
        let (mut shelf, mut refused) = (Shelf::new(scheme), 0);
        for (one, range) in (0..drives).flat_map(ends) {
            let missing: Vec<usize> =
                (0..drives).filter(|at| *at == one || range.contains(at)).collect();
            let before = written(&shelf.disks);
            match lost_without(&shelf, &missing) {
                Some(_) => shelf = Shelf::new(scheme),
                None => {
                    refused += 1;
                    let name = scheme.name();
                    assert_eq!(written(&shelf.disks), before, "{name}, without {missing:?}");
                    let lost = lost_without(&shelf, &[]);
                    assert_eq!(lost, Some(vec![]), "{name}, after {missing:?}");
                }
            }
        }
        assert!(refused >= 8, "{}: refused {refused} times", scheme.name());
    }
}

const KIB: u64 = 1 << 10;
const CHUNK: u64 = 64 * KIB;

/// Operations of all drives and KiB of them, for one request.
fn cost(shelf: &Shelf, act: impl Future<Output = ()>) -> String {
    let sum = || {
        let each = shelf.disks.iter().map(Disk::counters);
        each.fold([0; 4], |sum: [u64; 4], disk| {
            let own = [disk.reads, disk.bytes_read, disk.writes, disk.bytes_written];
            std::array::from_fn(|at| sum[at] + own[at])
        })
    };
    let before = sum();
    shelf.env.block_on(async {
        act.await;
        // With what nobody waits for: checksums are committed beside.
        shelf.env.sleep_until(shelf.env.now() + Nanos::from_millis(10)).await;
    });
    let after = sum();
    let [reads, read, writes, written] = std::array::from_fn(|at| after[at] - before[at]);
    let (read, written) = (read / KIB, written / KIB);
    format!("reads {reads:>2} {read:>4}K  writes {writes:>2} {written:>4}K")
}

/// In-place schemes and their kin cost what an array of one group's width does, wherever the
/// request goes: with n pieces of b bytes in a stripe of k + p, the smaller of n + p and k − n
/// reads of b, n + p writes and p records of b + 4 KiB (none of a stripe's first write, if that
/// is all of it); mirrors c writes; without redundancy the write alone. A read is one.
#[test]
fn single_requests_cost_what_a_group_does() {
    use Scheme::{NRaid5, Raid0, Raid10, Raid50, Raid60, ToleRaid};
    let mut text = String::new();
    for (scheme, data) in
        [(Raid0, 8), (Raid10, 4), (Raid50, 3), (Raid60, 2), (NRaid5, 3), (ToleRaid, 7)]
    {
        let shelf = Shelf::new(scheme);
        let open = AnyStore::open(&shelf.env, shelf.drives(), OpenOptions::default());
        let store = shelf.env.block_on(open).expect("it opens");
        shelf.env.block_on(async { while store.work().await.expect("works") {} });
        let write = |offset, len: u64| {
            let store = store.clone();
            async move {
                let data = Buf::zeroed(len as usize);
                store.write(offset, data, false).await.expect("writes");
            }
        };
        let read = |offset, len| {
            let store = store.clone();
            async move { drop(store.read(offset, len).await.expect("reads")) }
        };
        let base = 16 * data * CHUNK;
        shelf.env.block_on(write(base, 4 * KIB));
        let mut line = |what: &str, cost: String| {
            text += &format!("{:<9} {what:<10} {cost}\n", scheme.name());
        };
        line("4K", cost(&shelf, write(base, 4 * KIB)));
        line("512 B", cost(&shelf, write(base + 512, 512)));
        line("stripe", cost(&shelf, write(base + 8 * data * CHUNK, data * CHUNK)));
        line("read", cost(&shelf, read(base, 4 * KIB)));
    }
    assert_eq!(text, GOLDEN, "\n{text}");
}

const GOLDEN: &str = "\
raid0     4K         reads  0    0K  writes  1    4K
raid0     512 B      reads  1    4K  writes  1    4K
raid0     stripe     reads  0    0K  writes 10  520K
raid0     read       reads  1    4K  writes  0    0K
raid10    4K         reads  0    0K  writes  2    8K
raid10    512 B      reads  1    4K  writes  2    8K
raid10    stripe     reads  0    0K  writes  8  512K
raid10    read       reads  1    4K  writes  0    0K
raid50    4K         reads  2    8K  writes  3   16K
raid50    512 B      reads  2    8K  writes  3   16K
raid50    stripe     reads  0    0K  writes  5  260K
raid50    read       reads  1    4K  writes  0    0K
raid60    4K         reads  1    4K  writes  5   28K
raid60    512 B      reads  2    8K  writes  5   28K
raid60    stripe     reads  0    0K  writes  6  264K
raid60    read       reads  1    4K  writes  0    0K
n-raid5   4K         reads  2    8K  writes  3   16K
n-raid5   512 B      reads  2    8K  writes  3   16K
n-raid5   stripe     reads  0    0K  writes  5  260K
n-raid5   read       reads  1    4K  writes  0    0K
tole-raid 4K         reads  2    8K  writes  3   16K
tole-raid 512 B      reads  2    8K  writes  3   16K
tole-raid stripe     reads  0    0K  writes  9  516K
tole-raid read       reads  1    4K  writes  0    0K
";
