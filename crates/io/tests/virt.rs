//! The virtual world: clock, tasks, determinism, faults.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use futures_util::future::join_all;
use io::rng::Rng;
use io::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};
use io::wait::told;
use io::{Buf, Drive, DriveErrorKind, Durability, Env, Nanos, Operation, Origins, Wait};

const MIB: u64 = 1 << 20;

fn attach(env: &VirtEnv, disk: &Disk) -> VirtDrive {
    VirtDrive::attach(env, disk, Latency::SSD)
}

fn page(fill: u8) -> Buf {
    Buf::from_slice(&[fill; 4096])
}

#[test]
fn time_jumps_and_sleeps_end_in_order() {
    let env = VirtEnv::new(1);
    let order = Rc::new(RefCell::new(Vec::new()));
    for hours in [5, 1, 3, 1] {
        let (clock, order) = (env.clone(), order.clone());
        env.spawn(async move {
            clock.sleep_until(Nanos::from_secs(hours * 3600)).await;
            assert_eq!(clock.now(), Nanos::from_secs(hours * 3600));
            order.borrow_mut().push(hours);
        });
    }
    env.block_on(env.sleep_until(Nanos::from_secs(4 * 3600)));
    assert_eq!(*order.borrow(), [1, 1, 3]);
    assert_eq!((env.now(), env.tasks()), (Nanos::from_secs(4 * 3600), 1));
    env.block_on(env.sleep_until(Nanos::ZERO));
    env.block_on(env.sleep_until(Nanos::from_secs(6 * 3600)));
    assert_eq!(*order.borrow(), [1, 1, 3, 5]);
}

#[test]
fn a_dropped_sleep_leaves_no_timer() {
    let env = VirtEnv::new(1);
    env.block_on(async {
        let long = env.sleep_until(Nanos::from_secs(100));
        let short = env.sleep_until(Nanos::from_secs(1));
        futures_util::future::select(Box::pin(long), Box::pin(short)).await;
    });
    let late = Cell::new(false);
    let env_of_task = env.clone();
    env.spawn(async move { env_of_task.sleep_until(Nanos::from_secs(200)).await });
    let stopped = env.run_until(std::future::pending::<()>(), || {
        late.set(env.now() > Nanos::from_secs(1));
        late.get()
    });
    assert_eq!((stopped, env.now()), (None, Nanos::from_secs(200)));
}

#[test]
#[should_panic(expected = "deadlock")]
fn a_deadlock_is_told() {
    let env = VirtEnv::new(1);
    env.block_on(std::future::pending::<()>());
}

/// What a busy little world does: several tasks, drives and operations.
fn busy_world(env: &VirtEnv, disk_seed: u64) -> (u64, Vec<u64>) {
    let disks: Vec<Disk> =
        (0..3).map(|number| Disk::new(format!("disk:{number}"), MIB, 512, disk_seed)).collect();
    let finished = Rc::new(RefCell::new(Vec::new()));
    let mut tasks = Vec::new();
    for task in 0..12 {
        let drive = attach(env, &disks[task as usize % 3]);
        let (finished, env) = (finished.clone(), env.clone());
        tasks.push(async move {
            for round in 0..10 {
                let offset = env.random() % 256 * 4096;
                drive.write(offset, page(round), Durability::Cached).await.unwrap();
                env.yield_now().await;
                drive.read(offset, 4096).await.unwrap();
            }
            drive.flush().await.unwrap();
            finished.borrow_mut().push(task);
        });
    }
    env.block_on(join_all(tasks));
    (env.trace_hash(), finished.take())
}

#[test]
fn a_seed_is_a_run() {
    let mut hashes = Vec::new();
    for seed in 0..10 {
        let run = busy_world(&VirtEnv::new(seed), 0);
        assert_eq!(run, busy_world(&VirtEnv::new(seed), 0));
        assert_eq!(busy_world(&VirtEnv::fifo(seed), 0), busy_world(&VirtEnv::fifo(seed), 0));
        assert_ne!(run.1, (0..12).collect::<Vec<_>>(), "completions come out of order");
        hashes.push(run.0);
    }
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), 10);
}

#[test]
fn a_crash_ends_all_tasks_and_the_clock_goes_on() {
    let env = VirtEnv::new(3);
    let disk = Disk::new("disk:0", MIB, 4096, 3);
    let drive = attach(&env, &disk);
    let token = Rc::new(());
    for number in 0..20 {
        let (drive, env_of_task, token) = (drive.clone(), env.clone(), token.clone());
        env.spawn(async move {
            let _token = token;
            loop {
                drive.write(number * 4096, page(1), Durability::Cached).await.unwrap();
                env_of_task.sleep_until(env_of_task.now() + Nanos::from_millis(1)).await;
            }
        });
    }
    let stopped = env.run_until(std::future::pending::<()>(), || env.writes_issued() >= 55);
    assert_eq!(stopped, None);
    assert_eq!(env.writes_issued(), 55);
    let time = env.now();
    env.crash();
    assert_eq!((env.tasks(), Rc::strong_count(&token), env.now()), (0, 1, time));
    env.block_on(env.sleep_until(time + Nanos::from_secs(1)));
    assert_eq!(env.writes_issued(), 55);
}

#[test]
fn the_write_limit_falls_between_two_writes_of_one_poll() {
    for limit in 0..=8 {
        let env = VirtEnv::new(limit);
        let disk = Disk::new("disk:0", MIB, 4096, 0);
        let drive = attach(&env, &disk);
        env.set_write_limit(limit);
        let writes = (0..8).map(|number| drive.write(number * 4096, page(1), Durability::Cached));
        let all = async {
            join_all(writes).await;
            drive.flush().await.unwrap();
        };
        assert_eq!(env.run_until(all, || env.write_limit_reached()), None);
        assert_eq!((env.writes_issued(), disk.counters().writes), (limit, limit));
        env.crash();
        assert!(!env.write_limit_reached());
        disk.power_cut(&mut Rng::new(0), CutMode::KeepAll);
        let kept = disk.peek(0, 8 * 4096).iter().filter(|&&byte| byte == 1).count();
        assert_eq!(kept as u64, limit * 4096);
    }
}

#[test]
fn a_process_crash_decides_writes_in_flight_before_anything_else_happens() {
    let mut seen = [0; 2];
    for seed in 0..100 {
        let env = VirtEnv::new(seed);
        let disk = Disk::new("disk:0", MIB, 4096, seed);
        let drive = attach(&env, &disk);
        let write = drive.write(0, page(1), Durability::Durable);
        env.run_until(write, || env.writes_issued() == 1);
        env.crash();
        assert_eq!(disk.peek(0, 4096), [0; 4096]);
        let drive = attach(&env, &disk);
        seen[usize::from(disk.peek(0, 1)[0])] += 1;
        // Newer and durable: the old write can't come back, whatever a cut decides.
        env.block_on(drive.write(0, page(2), Durability::Durable)).unwrap();
        disk.power_cut(&mut Rng::new(seed), CutMode::KeepAll);
        assert_eq!(disk.peek(0, 4096), [2; 4096]);
    }
    assert!(seen[0] > 10 && seen[1] > 10, "{seen:?}");
}

#[test]
fn ranges_are_checked_and_take_no_time() {
    let env = VirtEnv::new(1);
    let drive = attach(&env, &Disk::new("disk:0", MIB, 4096, 1));
    for (offset, len) in [(512, 4096), (0, 512), (MIB, 4096)] {
        let error = env.block_on(drive.read(offset, len)).unwrap_err();
        assert_eq!(error.kind, DriveErrorKind::OutOfRange);
        let data = Buf::zeroed(len);
        let error = env.block_on(drive.write(offset, data, Durability::Cached)).unwrap_err();
        assert_eq!(error.kind, DriveErrorKind::OutOfRange);
    }
    assert_eq!(env.now(), Nanos::ZERO);
}

#[test]
fn armed_faults_fire_once_and_name_the_operation() {
    let env = VirtEnv::new(1);
    let disk = Disk::new("disk:0", MIB, 4096, 1);
    let drive = attach(&env, &disk);
    disk.fail_nth_write(2);
    disk.fail_nth_read(1);
    disk.fail_nth(Operation::Flush, 1, DriveErrorKind::Short);
    env.block_on(async {
        drive.write(0, page(1), Durability::Cached).await.unwrap();
        let error = drive.write(4096, page(2), Durability::Cached).await.unwrap_err();
        assert_eq!((error.operation, error.offset, error.len), (Operation::Write, 4096, 4096));
        assert_eq!(error.kind, DriveErrorKind::Os(5));
        assert!(drive.read(0, 4096).await.is_err());
        assert_eq!(drive.flush().await.unwrap_err().kind, DriveErrorKind::Short);
        assert_eq!(disk.peek_durable(0, 4096), [0; 4096], "the flush failed");
        drive.write(4096, page(3), Durability::Cached).await.unwrap();
        assert_eq!(&*drive.read(4096, 4096).await.unwrap(), &[3; 4096]);
        drive.flush().await.unwrap();
    });
    assert_eq!(disk.undecided_writes(), 0);
    let counters = disk.counters();
    assert_eq!((counters.reads, counters.writes, counters.flushes), (2, 3, 2));
    assert_eq!(counters.bytes_written, 3 * 4096);
}

#[test]
fn two_faults_due_at_once_meet_one_operation_each() {
    let env = VirtEnv::new(1);
    let disk = Disk::new("disk:0", MIB, 4096, 1);
    let drive = attach(&env, &disk);
    disk.fail_nth_read(2);
    disk.fail_nth_read(2);
    env.block_on(async {
        assert!(drive.read(0, 4096).await.is_ok());
        assert!(drive.read(0, 4096).await.is_err());
        assert!(drive.write(0, page(1), Durability::Cached).await.is_ok(), "not its operation");
        assert!(drive.read(0, 4096).await.is_err());
        assert!(drive.read(0, 4096).await.is_ok());
    });
}

#[test]
fn a_failed_write_is_old_new_or_torn() {
    let mut sectors_done = [0; 9];
    for seed in 0..400 {
        let env = VirtEnv::new(seed);
        let disk = Disk::new("disk:0", MIB, 4096, seed);
        disk.fail_nth_write(1);
        env.block_on(attach(&env, &disk).write(0, page(1), Durability::Cached)).unwrap_err();
        let bytes = disk.peek(0, 4096);
        let sectors = bytes.chunks(512).map(|sector| sector.iter().map(|&b| u64::from(b)).sum());
        let sums: Vec<u64> = sectors.collect();
        assert!(sums.iter().all(|&sum| sum == 0 || sum == 512), "sectors are atomic");
        sectors_done[sums.iter().filter(|&&sum| sum > 0).count()] += 1;
    }
    assert!(sectors_done[0] > 50 && sectors_done[8] > 50, "{sectors_done:?}");
    assert!(sectors_done[1..8].iter().all(|&count| count > 0), "{sectors_done:?}");
}

#[test]
fn a_pulled_disk_answers_removed_and_takes_its_time() {
    let env = VirtEnv::new(1);
    let disk = Disk::new("disk:0", MIB, 4096, 1);
    let drive = attach(&env, &disk);
    env.block_on(drive.write(0, page(1), Durability::Cached)).unwrap();
    let pull = async {
        env.yield_now().await;
        disk.set_failed(true);
    };
    let write = drive.write(4096, page(2), Durability::Cached);
    let (result, ()) = env.block_on(futures_util::future::join(write, pull));
    assert_eq!(result.unwrap_err().kind, DriveErrorKind::Removed);
    let before = env.now();
    assert_eq!(env.block_on(drive.read(0, 4096)).unwrap_err().kind, DriveErrorKind::Removed);
    assert!(disk.is_failed() && env.now() > before);
    disk.set_failed(false);
    assert_eq!(&*env.block_on(drive.read(0, 4096)).unwrap(), &[1; 4096]);
}

#[test]
fn after_a_power_cut_old_handles_are_dead() {
    let env = VirtEnv::new(1);
    let disk = Disk::new("disk:0", MIB, 4096, 1);
    let drive = attach(&env, &disk);
    let cut = async {
        env.yield_now().await;
        disk.power_cut(&mut Rng::new(1), CutMode::DropAll);
    };
    let write = drive.write(0, page(2), Durability::Durable);
    let (result, ()) = env.block_on(futures_util::future::join(write, cut));
    assert_eq!(result.unwrap_err().kind, DriveErrorKind::Removed);
    assert!(env.block_on(drive.flush()).is_err());
    assert_eq!(&*env.block_on(attach(&env, &disk).read(0, 4096)).unwrap(), &[0; 4096]);
}

#[test]
fn huge_disks_cost_what_is_written_and_discards_leave_garbage() {
    let env = VirtEnv::new(1);
    let disk = Disk::new("disk:0", 1 << 40, 4096, 1);
    let drive = attach(&env, &disk);
    env.block_on(async {
        for number in 0..8 {
            let offset = number * (100 << 30);
            drive.write(offset, page(number as u8 + 1), Durability::Cached).await.unwrap();
        }
        drive.flush().await.unwrap();
        assert_eq!(disk.stored_bytes(), 8 * 4096);
        drive.write(4096, page(9), Durability::Cached).await.unwrap();
        drive.discard(0, 350 << 30).await.unwrap();
        assert_eq!(disk.stored_bytes(), 4 * 4096);
        drive.flush().await.unwrap();
        let garbage = drive.read(0, 8192).await.unwrap();
        let largest = (0..=255).map(|value| garbage.iter().filter(|&&b| b == value).count()).max();
        assert!(largest < Some(80), "neither zeroes nor what was there");
        assert_eq!(&*garbage, &*drive.read(0, 8192).await.unwrap());
        drive.discard(300 << 30, 100 << 30).await.unwrap();
        drive.write(8192, page(7), Durability::Cached).await.unwrap();
        assert_eq!(&*drive.read(8192, 4096).await.unwrap(), &[7; 4096]);
        assert_eq!(&*drive.read(400 << 30, 4096).await.unwrap(), &[5; 4096]);
        assert_eq!(&*drive.read(450 << 30, 4096).await.unwrap(), &[0; 4096]);
    });
}

#[test]
fn small_discards_spoil_only_their_sectors() {
    let env = VirtEnv::new(1);
    let disk = Disk::new("disk:0", MIB, 512, 1);
    let drive = attach(&env, &disk);
    env.block_on(async {
        drive.write(0, Buf::from_slice(&[1; 16384]), Durability::Cached).await.unwrap();
        drive.discard(512, 1024).await.unwrap();
        drive.discard(3584, 8192).await.unwrap();
        drive.flush().await.unwrap();
    });
    let bytes = disk.peek(0, 16384);
    let spoiled = |sector: usize| bytes[sector * 512..][..512] != [1; 512];
    let expected = |sector| (1..3).contains(&sector) || (7..23).contains(&sector);
    assert!((0..32).all(|sector| spoiled(sector) == expected(sector)));
}

#[test]
fn corruption_hits_exactly_its_bytes_and_survives_flushes() {
    let env = VirtEnv::new(1);
    let disk = Disk::new("disk:0", MIB, 4096, 1);
    let drive = attach(&env, &disk);
    env.block_on(drive.write(0, page(1), Durability::Cached)).unwrap();
    disk.corrupt(1000, 3, 7);
    env.block_on(drive.flush()).unwrap();
    disk.power_cut(&mut Rng::new(0), CutMode::DropAll);
    let bytes = disk.peek(0, 4096);
    let changed: Vec<usize> = (0..4096).filter(|&index| bytes[index] != 1).collect();
    assert_eq!(changed, [1000, 1001, 1002]);
}

#[test]
fn a_fork_goes_its_own_way() {
    let env = VirtEnv::new(1);
    let disk = Disk::new("disk:0", MIB, 4096, 1);
    let drive = attach(&env, &disk);
    let fork = env.block_on(async {
        drive.write(0, page(1), Durability::Durable).await.unwrap();
        drive.write(4096, page(2), Durability::Cached).await.unwrap();
        let fork = disk.fork();
        drive.write(0, page(3), Durability::Durable).await.unwrap();
        attach(&env, &fork).write(4096, page(4), Durability::Cached).await.unwrap();
        fork
    });
    let fills = |disk: &Disk| [disk.peek(0, 1)[0], disk.peek(4096, 1)[0]];
    assert_eq!((fills(&disk), fills(&fork)), ([3, 2], [1, 4]));
    // What was only cached is lost on each by its own power cut.
    fork.power_cut(&mut Rng::new(0), CutMode::DropAll);
    assert_eq!((fills(&disk), fills(&fork)), ([3, 2], [1, 0]));
    assert_eq!((disk.undecided_writes(), fork.undecided_writes()), (1, 0));
}

/// What a request spawns is its own, what others do meanwhile is not; what is there at once is no
/// wait.
#[test]
fn waits_are_told_with_the_request_whose_they_are() {
    let env = VirtEnv::new(1);
    let heard = Rc::new(RefCell::new(Vec::new()));
    let (ears, clock) = (heard.clone(), env.clone());
    env.listen(Rc::new(move |origin, wait, since| {
        ears.borrow_mut().push((origin, wait, since, clock.now()));
    }));
    let millis = Nanos::from_millis;
    env.block_on(async {
        let task = env.clone();
        let request = async {
            told(&env, Wait::Lock, std::future::ready(())).await;
            told(&env, Wait::Admission, env.sleep_until(millis(2))).await;
            env.spawn(async move { told(&task, Wait::Journal, task.sleep_until(millis(7))).await });
            told(&env, Wait::Space, env.sleep_until(millis(4))).await;
        };
        let other = told(&env, Wait::Drives, env.sleep_until(millis(5)));
        futures_util::future::join(env.on_behalf(Origins::one(7), request), other).await;
        env.sleep_until(millis(9)).await;
    });
    assert!(env.origins().is_none());
    let expected = [
        (7, Wait::Admission, millis(0), millis(2)),
        (7, Wait::Space, millis(2), millis(4)),
        (7, Wait::Journal, millis(2), millis(7)),
    ];
    assert_eq!(*heard.borrow(), expected);
    env.crash();
}

/// What several requests have in common is each one's, whoever's task spawned it.
#[test]
fn shared_work_is_done_for_all_whose_it_is() {
    let env = VirtEnv::new(1);
    let heard = Rc::new(RefCell::new(Vec::new()));
    let ears = heard.clone();
    env.listen(Rc::new(move |origin, wait, _| ears.borrow_mut().push((origin, wait))));
    let millis = Nanos::from_millis;
    env.block_on(async {
        let own = env.clone();
        let request = async {
            assert_eq!(env.origins(), Origins::one(7));
            env.spawn_shared(async move {
                told(&own, Wait::Space, own.sleep_until(millis(1))).await;
                let all = Origins::of_all(&[Origins::one(9), Origins::one(7), Origins::one(9)]);
                let record = told(&own, Wait::Journal, own.sleep_until(millis(2)));
                own.on_behalf(all, record).await;
            });
            env.sleep_until(millis(3)).await;
        };
        env.on_behalf(Origins::one(7), request).await;
    });
    assert_eq!(*heard.borrow(), [(7, Wait::Journal), (9, Wait::Journal)]);
    env.crash();
}
