//! The classical arrays do as little as such arrays can.

use std::rc::Rc;

use eval::array::Array;
use eval::array::raid5::Raid5;
use eval::array::raid10::Raid10;
use eval::array::world::{Rest, Shelf, World};
use futures_util::future::join_all;
use io::{Buf, Env, ModelCounters};
use model::presets::Preset;
use model::ssd::Fill;

const KIB: u64 = 1 << 10;

fn world(drives: usize) -> World {
    let preset = Preset::DcSata;
    let drive_bytes = preset.sizes().0;
    let shelf = Shelf { preset, fill: Fill::Fresh, drive_bytes, drives, seed: 1 };
    Rest::of(&shelf).expect("drives").wake(1)
}

/// KiB that the drives read and wrote.
fn moved(world: &World, array: &dyn Array, requests: &[(bool, u64, u64)]) -> (u64, u64) {
    let before = world.counters();
    world.env.block_on(async {
        for &(read, offset, len) in requests {
            let zeroes = Buf::zeroed(len as usize);
            let answer = if read { array.read(offset, len) } else { array.write(offset, zeroes) };
            answer.await.expect("nothing is wrong with the drives");
        }
    });
    let now: ModelCounters = world.counters();
    let read = (now.host_read_bytes - before.host_read_bytes) / KIB;
    (read, (now.host_write_bytes - before.host_write_bytes) / KIB)
}

#[test]
fn raid5_writes_read_as_little_as_they_can() {
    let world = world(8);
    let array = Raid5::over(world.drives());
    let write = |offset, len| moved(&world, &array, &[(false, offset * KIB, len * KIB)]);
    // Data and parity, read and written.
    assert_eq!(write(12, 4), (8, 8));
    assert_eq!(write(64, 64), (128, 128));
    // Five of seven chunks: the other two are read instead of five and the parity.
    assert_eq!(write(0, 5 * 64), (128, 6 * 64));
    // A full stripe, and one across two stripes.
    assert_eq!(write(7 * 64, 7 * 64), (0, 8 * 64));
    assert_eq!(write(6 * 64, 2 * 64), (2 * 128, 2 * 128));
    assert_eq!(moved(&world, &array, &[(true, 60 * KIB, 8 * KIB)]), (8, 0));
}

#[test]
fn raid50_uses_four_groups_and_leaves_a_spare() {
    let world = world(29);
    let array = Raid5::over(world.drives());
    let stripe = 6 * 64 * KIB;
    assert!(array.size().is_multiple_of(4 * stripe));
    moved(&world, &array, &[(false, 0, 4 * stripe)]);
    let drives = world.each_counters();
    assert!(drives[..28].iter().all(|drive| drive.host_write_bytes == 64 * KIB));
    assert_eq!(drives[28].host_write_bytes, 0);
}

#[test]
fn raid10_writes_both_and_reads_the_less_busy() {
    let world = world(8);
    let array = Rc::new(Raid10::over(world.drives()));
    assert_eq!(moved(&world, &*array, &[(false, 60 * KIB, 8 * KIB)]), (0, 16));
    let before = world.each_counters();
    world.env.block_on(async {
        let reads = (0..10).map(|_| array.read(0, 4 * KIB));
        join_all(reads).await;
    });
    let after = world.each_counters();
    let read = |at: usize| after[at].host_read_bytes - before[at].host_read_bytes;
    assert_eq!((read(0), read(1)), (20 * KIB, 20 * KIB));
    assert!(world.env.now().0 > 0);
}

/// Two writers of one stripe must not both read the old parity.
#[test]
fn raid5_has_one_writer_a_stripe() {
    let world = world(8);
    let array = Rc::new(Raid5::over(world.drives()));
    let time = |offsets: [u64; 2]| {
        let begin = world.env.now();
        world.env.block_on(async {
            let write = |offset: &u64| array.write(offset * KIB, Buf::zeroed(4096));
            join_all(offsets.iter().map(write)).await;
        });
        world.env.now().0 - begin.0
    };
    // The first one brings what is read into the drives' memory.
    time([0, 4]);
    time([448, 452]);
    let (together, apart) = (time([0, 4]), time([0, 452]));
    assert!(together > apart * 3 / 2, "{together} ns, apart {apart} ns");
}
