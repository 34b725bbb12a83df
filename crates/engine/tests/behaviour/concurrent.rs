//! Writes at the same time: to the same bytes in one order for ever, beside each other as if
//! alone.

use engine::{ConversionPolicy, CreateSpec, Volume};
use futures_util::future::join_all;
use io::rng::Rng;
use io::virt::VirtEnv;
use io::{Buf, Env};

use crate::common::{MIB, Mirror, Virtual, World, check_all, check_degraded, make_pool, open_pool};

const SECTORS: usize = 400;

/// A write that marks its sectors with its number.
struct Marked {
    start: usize,
    len: usize,
    number: u8,
}

impl Marked {
    fn random(rng: &mut Rng, number: u8) -> Marked {
        let start = rng.index(SECTORS - 1);
        let len = 1 + rng.index(SECTORS - start);
        Marked { start, len, number }
    }

    fn bytes(&self) -> Buf {
        Buf::from_slice(&vec![self.number; self.len * 512])
    }

    fn covers(&self, sector: usize) -> bool {
        (self.start..self.start + self.len).contains(&sector)
    }
}

async fn marks<E: Env>(volume: &Volume<E>) -> Vec<u8> {
    let pieces = volume.read(0, (SECTORS * 512) as u32).await.expect("readable");
    let bytes = pieces.concat();
    let sector = |sector: &[u8]| {
        assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is never torn");
        sector[0]
    };
    bytes.chunks(512).map(sector).collect()
}

/// Writes of one block or less are atomic towards each other; of larger ones each block is.
fn check_order(found: &[u8], before: &[u8], writes: &[Marked]) {
    for (sector, mark) in found.iter().enumerate() {
        let allowed = writes.iter().any(|write| write.covers(sector) && write.number == *mark);
        let untouched = !writes.iter().any(|write| write.covers(sector));
        assert!(allowed || (untouched && before[sector] == *mark), "sector {sector}: {mark}");
    }
    for block in 0..SECTORS.div_ceil(128) {
        let sectors = block * 128..SECTORS.min(block * 128 + 128);
        for (a, b) in (0..writes.len()).flat_map(|a| (0..a).map(move |b| (a, b))) {
            let both: Vec<u8> = sectors
                .clone()
                .filter(|&sector| writes[a].covers(sector) && writes[b].covers(sector))
                .map(|sector| found[sector])
                .collect();
            let won = |number| both.contains(&number);
            let mixed = won(writes[a].number) && won(writes[b].number);
            assert!(!mixed, "block {block}: writes {a} and {b} are mixed");
        }
    }
}

#[test]
fn overlapping_writes_end_in_one_order_and_stay_there() {
    for seed in 0..12 {
        let world = Virtual::new(5, 48 * MIB, seed);
        world.block_on(async {
            let mut rng = Rng::new(seed);
            let pool = make_pool(&world, &CreateSpec::new("tank")).await;
            pool.volume_create("v", 4 * MIB, None, None).await.expect("room");
            let volume = pool.volume("v").expect("made");
            let mut before = marks(&volume).await;
            let mut number = 0;
            for _ in 0..8 {
                let mut one = || {
                    number += 1;
                    Marked::random(&mut rng, number)
                };
                let writes: Vec<Marked> = (0..6).map(|_| one()).collect();
                let issue = |write: &Marked| {
                    volume.write(
                        write.start as u64 * 512,
                        write.bytes(),
                        write.number.is_multiple_of(5),
                    )
                };
                let done = join_all(writes.iter().map(issue)).await;
                assert!(done.iter().all(Result::is_ok));
                let found = marks(&volume).await;
                check_order(&found, &before, &writes);
                before = found;
            }
            pool.flush().await.expect("flush");
            drop((volume, pool));
            // Without closing: from the journal alone.
            world.kill();
        });
        let before = world.block_on(async {
            let pool = open_pool(&world).await;
            let found = marks(&pool.volume("v").expect("made")).await;
            pool.close().await.expect("closes");
            found
        });
        world.block_on(async {
            let pool = open_pool(&world).await;
            assert_eq!(marks(&pool.volume("v").expect("made")).await, before);
            pool.close().await.expect("closes");
        });
    }
}

/// Each task has sectors of its own that share pages and blocks with those of others.
async fn interleaved(volume: Volume<VirtEnv>, task: u64, tasks: u64, seed: u64) -> Vec<(u64, u8)> {
    let mut rng = Rng::new(seed ^ task);
    let mut mine = vec![0; 60];
    for round in 1..40_u8 {
        let at = rng.index(mine.len());
        let sector = at as u64 * tasks + task;
        match rng.below(8) {
            0 => {
                volume.trim(sector * 512, 512, false).await.expect("trim");
                mine[at] = 0;
            }
            1 => {
                let found = volume.read(sector * 512, 512).await.expect("read");
                assert!(found.iter().all(|bytes| bytes.iter().all(|b| *b == mine[at])));
            }
            _ => {
                let data = Buf::from_slice(&[round; 512]);
                volume.write(sector * 512, data, rng.chance(1, 20)).await.expect("write");
                mine[at] = round;
            }
        }
    }
    mine.into_iter().enumerate().map(|(at, mark)| (at as u64 * tasks + task, mark)).collect()
}

#[test]
fn neighbouring_sectors_do_not_disturb_each_other() {
    for seed in 0..4 {
        let world = Virtual::new(6, 48 * MIB, seed);
        let mut mirror = Mirror::new(4 * MIB);
        world.block_on(async {
            let conversion = ConversionPolicy::Eager;
            let spec = CreateSpec { parity: 2, conversion, ..CreateSpec::new("tank") };
            let pool = make_pool(&world, &spec).await;
            pool.volume_create("v", 4 * MIB, None, None).await.expect("room");
            let volume = pool.volume("v").expect("made");
            let tasks = (0..40).map(|task| interleaved(volume.clone(), task, 40, seed));
            for (sector, mark) in join_all(tasks).await.into_iter().flatten() {
                let from = sector as usize * 512;
                mirror.bytes[from..from + 512].fill(mark);
            }
            check_all(&volume, &mirror, "written").await;
            drop(volume);
            pool.close().await.expect("closes");
            check_degraded(&world, 2, &[("v", &mirror)]).await;
        });
    }
}
