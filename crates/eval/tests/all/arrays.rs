//! Every system is an array: what was written is read back, from the drives it should be on.

use std::rc::Rc;

use eval::array::fusion::Shape;
use eval::array::load::{Arrivals, Sizes, Span, Stream, play};
use eval::array::stand::Stand;
use eval::array::world::Shelf;
use eval::array::{Array, System};
use io::rng::Rng;
use io::{Buf, BufMut, Env, Nanos};
use model::presets::Preset;
use model::ssd::Fill;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn stand(drives: usize) -> Stand {
    let preset = Preset::DcSata;
    let drive_bytes = preset.sizes().0;
    let shelf = Shelf { fill: Fill::Fresh, ..Shelf::solid(preset, drive_bytes, drives, 1) };
    // What is filled takes time, and is not what this is about.
    let shape = Shape { volume_percent: 4, filled: false, ..Shape::new(5) };
    Stand::on(shelf, &shape).expect("drives")
}

fn bytes(rng: &mut Rng, len: u64) -> Buf {
    let mut bytes = BufMut::with_len(len as usize);
    rng.fill(&mut bytes);
    bytes.freeze()
}

async fn read(array: &dyn Array, offset: u64, len: u64) -> Vec<u8> {
    let pieces = array.read(offset, len).await.expect("nothing is wrong");
    pieces.concat()
}

/// Writes everything, then at random places, over one another, beside background work, against a
/// plain row of bytes. What nobody wrote may be anything: the product's volumes lie there.
async fn read_back(array: &dyn Array, span: u64, name: &str) {
    let mut rng = Rng::new(7);
    let mut row = Vec::new();
    for offset in (0..span).step_by(MIB as usize) {
        let data = bytes(&mut rng, MIB);
        row.extend_from_slice(&data);
        array.write(offset, data).await.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    for round in 0..240 {
        let len = (1 + rng.below(64)) * 4 * KIB;
        let offset = rng.below((span - len) / 512 + 1) * 512;
        let range = offset as usize..(offset + len) as usize;
        let data = bytes(&mut rng, len);
        row[range.clone()].copy_from_slice(&data);
        array.write(offset, data).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        if round % 40 == 0 {
            array.flush().await.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        if round % 4 == 3 {
            let len = (1 + rng.below(64)) * 4 * KIB;
            let offset = rng.below((span - len) / 512 + 1) * 512;
            let range = offset as usize..(offset + len) as usize;
            let read = read(array, offset, len).await;
            assert!(read == row[range], "{name}: {len} bytes at {offset} after {round} writes");
        }
    }
    for offset in (0..span).step_by(MIB as usize) {
        let read = read(array, offset, MIB).await;
        assert!(read == row[offset as usize..(offset + MIB) as usize], "{name}: at {offset}");
    }
}

#[test]
fn what_every_system_was_told_is_read_back() {
    const SPAN: u64 = 24 * MIB;
    let stand = stand(8);
    // It goes round several times.
    stand.nvram_bytes.set(Some(16 * MIB));
    for system in System::all() {
        let world = stand.of(system).expect("a layout").wake(1);
        world.env.block_on(async {
            let opened = stand.open(system, &world).await;
            assert!(opened.array.size() >= SPAN, "{system}: {}", opened.array.size());
            read_back(&*opened.array, SPAN, &system.to_string()).await;
            world.env.sleep_until(world.env.now() + Nanos::from_secs(2)).await;
            if let Some(served) = &opened.served {
                assert_eq!(served.trouble(), None, "{system}");
                // In the drives by now, not only in a cache.
                served.close().await;
            }
        });
        let written: u64 = world.each_counters().iter().map(|drive| drive.host_write_bytes).sum();
        assert!(written > SPAN, "{system}: {written} bytes went to the drives");
        stand.forget(system);
    }
}

/// A run of many cells keeps nothing of those that are over: tasks and timers hold the world that
/// they live in, and it holds them.
#[test]
fn nothing_is_left_of_a_world_that_ended() {
    let stand = stand(8);
    let load = Stream {
        arrivals: Arrivals::Poisson,
        rate: 2_000,
        read_percent: 30,
        reads: Sizes::one(4 * KIB),
        writes: Sizes::one(16 * KIB),
        first: 0,
        span: 16 * MIB,
        seed: 1,
    };
    let mut left = Vec::new();
    for system in System::all() {
        let world = stand.of(system).expect("a layout").wake(1);
        let remains = world.remains();
        world.env.block_on(async {
            let opened = stand.open(system, &world).await;
            let streams = [(load.clone(), Rc::default())];
            let span = Span { warmup: Nanos::ZERO, measured: Nanos::from_millis(300) };
            play(&world, &opened.array, &streams, span, || {}).await;
        });
        drop(world);
        left.extend(remains().then(|| system.to_string()));
        stand.forget(system);
    }
    assert!(left.is_empty(), "of worlds with {}", left.join(", "));
}

/// KiB that each drive wrote for some requests.
fn written(stand: &Stand, system: System, requests: &[(u64, u64)]) -> Vec<u64> {
    let world = stand.of(system).expect("a layout").wake(1);
    world.env.block_on(async {
        let opened = stand.open(system, &world).await;
        let before = world.each_counters();
        for &(offset, len) in requests {
            let data = Buf::zeroed((len * KIB) as usize);
            opened.array.write(offset * KIB, data).await.expect("nothing is wrong");
        }
        let after = world.each_counters();
        let each = after.iter().zip(&before);
        each.map(|(now, then)| (now.host_write_bytes - then.host_write_bytes) / KIB).collect()
    })
}

#[test]
fn the_write_hole_closed_costs_a_record_and_open_it_does_not() {
    let stand = stand(8);
    // The second one finds its region marked.
    let cost = |system| {
        let once: u64 = written(&stand, system, &[(64, 16)]).iter().sum();
        written(&stand, system, &[(64, 16), (640, 16)]).iter().sum::<u64>() - once
    };
    let open = "raid5-open".parse().expect("a system");
    // Data and parity; with a page and the partial parity before them.
    assert_eq!((cost(open), cost(System::RAID5)), (32, 32 + 4 + 16));
}

#[test]
fn raid5_of_29_drives_is_four_groups_and_a_spare() {
    let stand = stand(29);
    let written = written(&stand, System::RAID5, &[(0, 4 * 6 * 64)]);
    assert!(written[..28].iter().all(|&kib| kib >= 64), "{written:?}");
    assert_eq!(written[28], 0);
}

#[test]
fn volumes_of_independent_arrays_use_all_of_them() {
    let stand = stand(8);
    let system: System = "n-raid5".parse().expect("a system");
    let world = stand.of(system).expect("a layout").wake(1);
    let half = world.env.block_on(async { stand.open(system, &world).await.array.size() / 2 });
    let written = written(&stand, system, &[(0, 64), (half / KIB, 64)]);
    let (first, second) = (written[..4].iter().sum::<u64>(), written[4..].iter().sum::<u64>());
    assert!(first == second && first >= 128, "{written:?}");
}
