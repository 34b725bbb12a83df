//! What drives know and do when measuring begins: told what is free or not, and settled.

use std::cell::RefCell;
use std::rc::Rc;

use eval::array::System;
use eval::array::fusion::Shape;
use eval::array::load::{Arrivals, Sizes, Span, Stream, play};
use eval::array::prepare::{Trim, settle};
use eval::array::stand::Stand;
use eval::array::tally::Tally;
use eval::array::world::{Rest, Shelf, World};
use io::{Drive, Durability, Env, ModelCounters, Nanos};
use model::presets::Preset;

const KIB: u64 = 1 << 10;
const DRIVES: usize = 5;
const SYSTEMS: [System; 3] = [System::Fusion, System::RAID5_OPEN, System::Single];

fn shelf(trim: Trim) -> Shelf {
    let preset = Preset::DcSata;
    Shelf { trim, ..Shelf::solid(preset, preset.sizes().0, DRIVES, 1) }
}

fn stand(trim: Trim) -> Stand {
    // Little, so that it is quickly filled.
    let shape = Shape { volume_percent: 5, ..Shape::new(5) };
    Stand::on(shelf(trim), &shape).expect("drives")
}

/// Each drive asked for a page and then for nothing for a second: before and after that second. A
/// drive that nobody ever talked to does nothing.
fn idle_second(world: &World) -> (ModelCounters, ModelCounters) {
    world.env.block_on(async {
        for drive in world.drives() {
            drive.read(0, io::PAGE).await.expect("nothing is wrong");
        }
        let before = world.counters();
        world.env.sleep_until(world.env.now() + Nanos::from_secs(1)).await;
        (before, world.counters())
    })
}

#[test]
fn settled_drives_do_nothing_in_an_idle_second() {
    for trim in Trim::BOTH {
        let stand = stand(trim);
        for system in SYSTEMS {
            let world = stand.of(system).expect("a layout").wake(1);
            assert!(!world.is_collecting(), "{system}, {trim}");
            let (before, after) = idle_second(&world);
            assert_eq!(before, after, "{system}, {trim}");
            assert!(!world.is_collecting(), "{system}, {trim}");
        }
    }
    // So that this can fail: drives as they are when they were aged.
    let world = Rest::of(&shelf(Trim::Untrimmed)).expect("drives").wake(1);
    let (before, after) = idle_second(&world);
    assert!(after.erases > before.erases && after.collections > before.collections, "{after:?}");
}

#[test]
fn an_array_that_never_rests_is_no_settled_one() {
    let world = Rest::of(&shelf(Trim::Trimmed)).expect("drives").wake(1);
    let (env, drive) = (world.env.clone(), world.drives().swap_remove(0));
    world.env.spawn(async move {
        loop {
            let page = io::Buf::zeroed(io::PAGE);
            drive.write(0, page, Durability::Cached).await.expect("nothing is wrong");
            env.sleep_until(env.now() + Nanos::from_secs(1)).await;
        }
    });
    let error = world.env.block_on(settle(&world)).expect_err("it writes every second");
    assert!(error.contains("not settled"), "{error}");
}

/// Latencies of all requests, and what the drives did meanwhile.
fn measured(stand: &Stand, system: System, seed: u64) -> (Vec<u64>, ModelCounters, ModelCounters) {
    let world = stand.of(system).expect("a layout").wake(1);
    world.env.block_on(async {
        let opened = stand.open(system, &world).await;
        let sizes = Sizes(vec![(4 * KIB, 1), (64 * KIB, 1)]);
        let load = Stream {
            arrivals: Arrivals::Poisson,
            // All free blocks of settled drives are written in it, and more.
            rate: if system == System::Single { 2_500 } else { 5_000 },
            read_percent: 30,
            reads: sizes.clone(),
            writes: sizes,
            first: 0,
            span: opened.array.size() / (64 * KIB) * (64 * KIB),
            seed,
        };
        let tally = Rc::new(RefCell::new(Tally::with_each()));
        let span = Span { warmup: Nanos::ZERO, measured: Nanos::from_secs(4) };
        let before = world.counters();
        play(&world, &opened.array, &[(load, tally.clone())], span, || ()).await;
        assert_eq!(tally.borrow().failed, 0, "{system}");
        let each = tally.take().each().iter().map(|(_, nanos)| *nanos).collect();
        (each, before, world.counters())
    })
}

/// What aging left is copied at every collection, unless the drive was told that it is garbage.
#[test]
fn drives_that_were_told_write_less_flash_for_the_same_load() {
    let (told, untold) = (stand(Trim::Trimmed), stand(Trim::Untrimmed));
    for system in SYSTEMS {
        let [told, untold] = [&told, &untold].map(|stand| {
            let (_, before, after) = measured(stand, system, 1);
            let host = after.host_write_bytes - before.host_write_bytes;
            let flash = after.flash_write_bytes - before.flash_write_bytes;
            assert!(after.erases > before.erases, "{system}: drives collect under this load");
            flash as f64 / host as f64
        });
        assert!(told < 1.05, "{system}: told drives copy nothing: {told}");
        assert!(untold > 2.0 * told, "{system}: {untold} of untold drives, {told} of told ones");
    }
}

#[test]
fn the_same_seed_gives_the_same_figures_on_stands_made_anew() {
    for trim in Trim::BOTH {
        let run = |stand, seed| measured(stand, System::Fusion, seed);
        let (one, other) = (stand(trim), stand(trim));
        let first = run(&one, 1);
        assert!(first == run(&other, 1), "{trim}");
        assert_ne!(first.0, run(&one, 2).0, "{trim}");
    }
}
