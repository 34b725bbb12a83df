//! Modelled disks in virtual time: exact times, crashes, power cuts; payloads kept and absent.

use std::cell::RefCell;
use std::rc::Rc;

use futures_util::future::{join, join_all};
use io::rng::Rng;
use io::virt::{CutMode, Disk, ModelPort, VirtDrive, VirtEnv};
use io::{Buf, Command, Drive, DriveErrorKind, Durability, Env, Geometry, Nanos};

use crate::toy::{SIZE, Seen, TIME, Toy};

fn page(fill: u8) -> Buf {
    Buf::from_slice(&[fill; 4096])
}

struct World {
    env: VirtEnv,
    disk: Disk,
    port: ModelPort,
    seen: Rc<RefCell<Seen>>,
}

impl World {
    fn new(period: Option<Nanos>) -> World {
        let env = VirtEnv::new(1);
        let (model, seen) = Toy::with_period(period);
        let disk = Disk::with_geometry("d", model.geometry(), 1);
        World { port: ModelPort::new(&env, model), env, disk, seen }
    }

    fn attach(&self) -> VirtDrive {
        VirtDrive::attach(&self.env, &self.disk, self.port.clone())
    }

    fn counters(&self) -> (u64, u64) {
        let counters = self.port.with_model(|_, model| model.counters());
        (counters.submitted, counters.completed)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.env.crash();
    }
}

#[test]
fn operations_take_what_the_model_says() {
    let world = World::new(None);
    let drive = world.attach();
    let ends = RefCell::new(Vec::new());
    let timed = async |number: u64| {
        drive.write(number * 4096, page(number as u8), Durability::Cached).await.unwrap();
        ends.borrow_mut().push((number, world.env.now()));
    };
    world.env.block_on(async {
        join_all((0..5).map(timed)).await;
        drive.flush().await.unwrap();
        drive.write(0, page(9), Durability::Durable).await.unwrap();
        assert_eq!(&*drive.read(0, 4096).await.unwrap(), &[9; 4096]);
        drive.discard(8192, 4096).await.unwrap();
        assert!(drive.read(0, 0).await.unwrap().is_empty());
    });
    let expected: Vec<_> = (0..5).map(|number| (number, Nanos(TIME.0 * (number + 1)))).collect();
    assert_eq!(*ends.borrow(), expected);
    assert_eq!(world.env.now(), Nanos(9 * TIME.0), "one after the other, exactly");
    let seen = world.seen.borrow();
    let durable = Command::Write { offset: 0, len: 4096, durability: Durability::Durable };
    assert_eq!(seen.commands[5], (Nanos(5 * TIME.0), Command::Flush));
    assert_eq!(seen.commands[6].1, durable);
    assert_eq!(seen.commands[7].1, Command::Read { offset: 0, len: 4096 });
    assert_eq!(seen.commands[8].1, Command::Discard { offset: 8192, len: 4096 });
    assert_eq!(seen.commands.len(), 9, "a model never sees what moves nothing");
    assert!(drive.geometry().rotational);
}

#[test]
fn what_is_done_to_a_model_from_outside_counts_at_once() {
    let world = World::new(Some(Nanos::from_millis(7)));
    let drive = world.attach();
    world.env.block_on(async {
        let force = async {
            world.port.with_model(|now, model| model.force_collection(now, true));
            drive.read(0, 512).await.unwrap();
        };
        join(drive.read(0, 512), force).await.0.unwrap();
        assert_eq!(world.env.now(), Nanos(3 * TIME.0));
        world.env.sleep_until(Nanos::from_secs(1)).await;
        drive.read(0, 512).await.unwrap();
    });
    assert_eq!(world.env.now(), Nanos::from_secs(1) + TIME);
}

#[test]
fn a_crash_lets_the_model_run_through_and_tells_nobody() {
    let world = World::new(Some(Nanos::from_millis(1)));
    let told = Rc::new(RefCell::new(0));
    for number in 0..4 {
        let (drive, told) = (world.attach(), told.clone());
        world.env.spawn(async move {
            drive.write(number * 4096, page(7), Durability::Cached).await.unwrap();
            *told.borrow_mut() += 1;
        });
    }
    let env = &world.env;
    env.run_until(std::future::pending::<()>(), || *told.borrow() == 1);
    env.crash();
    assert_eq!(world.counters(), (4, 1));
    // Whoever comes next waits for what the dead machine had asked for.
    let drive = world.attach();
    world.env.block_on(drive.read(0, 4096)).unwrap();
    assert_eq!((world.env.now(), *told.borrow()), (Nanos(5 * TIME.0), 1));
    assert_eq!(world.counters(), (5, 5));
}

#[test]
fn a_power_cut_is_the_models_too() {
    let world = World::new(None);
    let drive = world.attach();
    let cut = async {
        world.env.sleep_until(Nanos(TIME.0 / 2)).await;
        world.disk.power_cut(&mut Rng::new(1), CutMode::DropAll);
    };
    let writes = join_all((0..3).map(|at| drive.write(at * 4096, page(1), Durability::Cached)));
    let (results, ()) = world.env.block_on(join(writes, cut));
    for result in results {
        assert_eq!(result.unwrap_err().kind, DriveErrorKind::Removed);
    }
    assert!(world.env.now() < TIME, "nobody waits for what was forgotten");
    assert_eq!((world.counters(), world.seen.borrow().power_cycles), ((3, 3), 1));
    let before = world.env.now();
    let drive = world.attach();
    assert_eq!(&*world.env.block_on(drive.read(0, 4096)).unwrap(), &[0; 4096]);
    assert_eq!(world.env.now(), before + TIME);
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_busy_model_does_not_hide_a_deadlock() {
    let world = World::new(Some(Nanos(1)));
    world.env.block_on(std::future::pending::<()>());
}

#[test]
fn a_seed_is_a_run() {
    let run = |seed| {
        let env = VirtEnv::new(seed);
        let (model, _) = Toy::make();
        let disk = Disk::with_geometry("d", model.geometry(), 1);
        let drive = VirtDrive::attach(&env, &disk, ModelPort::new(&env, model));
        let task = async |number: u64| {
            for round in 0..20 {
                let offset = env.random() % (SIZE / 4096) * 4096;
                drive.write(offset, page((number + round) as u8), Durability::Cached).await?;
            }
            drive.flush().await
        };
        let results = env.block_on(join_all((0..8).map(task)));
        assert!(results.iter().all(Result::is_ok));
        (env.trace_hash(), env.now())
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5).0, run(6).0);
}

#[test]
fn protected_disks_keep_what_has_completed() {
    for seed in 0..20 {
        let env = VirtEnv::new(seed);
        let disk = Disk::new("d", SIZE, 4096, seed).with_power_loss_protection();
        let drive = VirtDrive::attach(&env, &disk, io::virt::Latency::SSD);
        env.block_on(drive.write(0, page(1), Durability::Cached)).unwrap();
        let limit = env.writes_issued() + 1;
        env.run_until(drive.write(4096, page(2), Durability::Cached), || {
            env.writes_issued() == limit
        });
        env.crash();
        disk.power_cut(&mut Rng::new(seed), CutMode::DropAll);
        assert_eq!(disk.peek(0, 4096), [1; 4096]);
        assert_eq!(disk.peek(4096, 4096), [0; 4096], "it was in flight");
    }
}

#[test]
fn pages_of_zeroes_take_no_memory_and_read_as_written() {
    let env = VirtEnv::new(1);
    let geometry = Geometry { size: 1 << 40, align: 512, atomic: 512, rotational: false };
    let disk = Disk::with_geometry("d", geometry, 1).with_zeroes_dropped();
    let attach = || VirtDrive::attach(&env, &disk, io::virt::Latency::SSD);
    let mut drive = attach();
    let (mut mirror, mut rng) = (vec![0u8; 64 * 4096], Rng::new(2));
    env.block_on(async {
        for _ in 0..400 {
            let sectors = 1 + rng.below(24);
            let offset = rng.below(512 - sectors + 1) * 512;
            let range = offset as usize..(offset + sectors * 512) as usize;
            let fill = if rng.chance(1, 2) { 0 } else { 1 + rng.below(255) as u8 };
            mirror[range.clone()].fill(fill);
            let how = if rng.chance(1, 4) { Durability::Durable } else { Durability::Cached };
            drive.write(offset, Buf::from_slice(&mirror[range]), how).await.unwrap();
            if rng.chance(1, 20) {
                disk.power_cut(&mut rng, CutMode::DropAll);
                drive = attach();
            }
        }
    });
    assert!(disk.peek(0, mirror.len()) == mirror, "nothing that completed is volatile");
    let pages = mirror.chunks(4096).filter(|page| page.iter().any(|&byte| byte != 0)).count();
    assert_eq!(disk.stored_bytes(), pages as u64 * 4096);
    env.block_on(async {
        drive.write(1 << 39, Buf::zeroed(1 << 20), Durability::Cached).await.unwrap();
        drive.discard(0, 1 << 40).await.unwrap();
    });
    assert_eq!((disk.stored_bytes(), disk.peek(0, 4096)), (0, vec![0; 4096]));
}
