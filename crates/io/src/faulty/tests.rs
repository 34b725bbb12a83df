//! Each kind of fault in virtual time, some on the real clock, and that a seed is a run.

use std::cell::Cell;

use futures_util::future::{join, join_all};

use super::*;
use crate::mem::MemDrive;
use crate::rng::Rng;
use crate::uring::UringEnv;
use crate::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};

const SIZE: u64 = 1 << 20;
const EIO: DriveErrorKind = DriveErrorKind::Os(5);

struct World {
    env: VirtEnv,
    disk: Disk,
    faults: Faults,
    drive: Faulty<VirtEnv, VirtDrive>,
}

impl Drop for World {
    fn drop(&mut self) {
        self.env.crash();
    }
}

/// Reads, writes and discards take 100 us, flushes 1 ms, give or take half of it.
fn world(seed: u64) -> World {
    let env = VirtEnv::new(seed);
    let disk = Disk::new("d", SIZE, 4096, seed);
    let faults = Faults::new(seed);
    let drive = Faulty::new(&env, VirtDrive::attach(&env, &disk, Latency::SSD), &faults);
    World { env, disk, faults, drive }
}

fn pages(fill: u8, count: usize) -> Buf {
    Buf::from_slice(&vec![fill; 4096 * count])
}

impl World {
    fn arm(&self, fault: Fault) -> FaultId {
        self.faults.arm(self.env.now(), fault).unwrap()
    }

    fn write(&self, page: u64, fill: u8) -> Result<(), DriveErrorKind> {
        let write = self.drive.write(page * 4096, pages(fill, 1), Durability::Cached);
        self.env.block_on(write).map_err(|error| error.kind)
    }

    fn read(&self, page: u64) -> Result<Vec<u8>, DriveErrorKind> {
        let read = self.env.block_on(self.drive.read(page * 4096, 4096));
        read.map(|bytes| bytes.to_vec()).map_err(|error| error.kind)
    }

    fn flush(&self) -> Result<(), DriveErrorKind> {
        self.env.block_on(self.drive.flush()).map_err(|error| error.kind)
    }

    fn cut(&self) -> World {
        self.env.crash();
        self.disk.power_cut(&mut Rng::new(0), CutMode::DropAll);
        let inner = VirtDrive::attach(&self.env, &self.disk, Latency::SSD);
        let drive = Faulty::new(&self.env, inner, &self.faults);
        World { env: self.env.clone(), disk: self.disk.clone(), faults: self.faults.clone(), drive }
    }
}

#[test]
fn without_faults_nothing_changes() {
    let (plain, faulty) = (VirtEnv::new(1), world(1));
    let disk = Disk::new("d", SIZE, 4096, 1);
    let drive = VirtDrive::attach(&plain, &disk, Latency::SSD);
    plain.block_on(drive.write(0, pages(1, 2), Durability::Durable)).unwrap();
    plain.block_on(drive.flush()).unwrap();
    faulty.env.block_on(faulty.drive.write(0, pages(1, 2), Durability::Durable)).unwrap();
    faulty.flush().unwrap();
    assert_eq!((plain.trace_hash(), plain.now()), (faulty.env.trace_hash(), faulty.env.now()));
    let error = faulty.env.block_on(faulty.drive.read(512, 4096)).unwrap_err();
    assert_eq!(error.kind, DriveErrorKind::OutOfRange);
}

#[test]
fn errors_once_nth_by_range_for_a_time_for_ever_and_by_chance() {
    let world = world(2);
    let error = Fault::new(Effect::Error(EIO));
    world.arm(error.clone().on(Operation::Read).nth(2));
    let results: Vec<_> = (0..4).map(|page| world.read(page).is_ok()).collect();
    assert_eq!(results, [true, false, true, true]);

    let bad = world.arm(error.clone().on(Operation::Read).within(8192..8193));
    assert_eq!(
        (world.read(1).is_ok(), world.read(2), world.read(3).is_ok()),
        (true, Err(EIO), true)
    );
    assert_eq!((world.read(2), world.write(2, 1)), (Err(EIO), Ok(())));
    assert!(world.faults.release(bad) && !world.faults.release(bad));
    assert!(world.read(2).is_ok());

    world.arm(error.clone().on(Operation::Flush).lasting(Nanos::from_secs(1)));
    assert_eq!((world.flush(), world.read(0).is_ok()), (Err(EIO), true));
    world.env.block_on(world.env.sleep_until(world.env.now() + Nanos::from_secs(1)));
    assert_eq!(world.flush(), Ok(()));

    world.arm(error.on(Operation::Discard).with_chance(250_000));
    let discard = || world.env.block_on(world.drive.discard(4096, 4096)).is_err();
    let failed = (0..400).filter(|_| discard()).count();
    assert!((60..140).contains(&failed), "{failed}");
    assert_eq!(world.faults.count(Kind::Error), 4 + failed as u64);
    assert_eq!(world.faults.armed(world.env.now()).len(), 1);
}

#[test]
fn a_failed_write_is_old_new_or_torn() {
    let mut kept = [0; 9];
    for seed in 0..200 {
        let world = world(seed);
        world.arm(Fault::new(Effect::Error(EIO)).on(Operation::Write).once());
        assert_eq!(world.write(0, 1), Err(EIO));
        let bytes = world.disk.peek(0, 4096);
        kept[bytes.chunks(512).filter(|sector| sector[0] == 1).count()] += 1;
        assert_eq!(world.write(0, 2), Ok(()));
    }
    assert!(kept[0] > 30 && kept[8] > 30 && kept[1..8].iter().sum::<i32>() > 30, "{kept:?}");
}

#[test]
fn torn_writes_keep_whole_sectors_and_may_lie() {
    for (tear, lying) in [(Tear::Prefix, false), (Tear::Sectors, true), (Tear::Prefix, true)] {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..60 {
            let world = world(seed);
            world.write(0, 1).unwrap();
            world.arm(Fault::new(Effect::Torn { tear, lying }).once());
            assert_eq!(world.write(0, 2), if lying { Ok(()) } else { Err(EIO) });
            let page = world.read(0).unwrap();
            let sector = |at: usize| &page[at * 512..][..512];
            let new: Vec<bool> = (0..8).map(|at| sector(at) == [2; 512]).collect();
            assert!((0..8).all(|at| new[at] || sector(at) == [1; 512]), "sectors are whole");
            assert!(new.contains(&false), "torn means that something is missing");
            let prefix = new.iter().skip_while(|&&new| new).all(|&new| !new);
            assert!(prefix || tear == Tear::Sectors);
            seen.insert(new);
            assert_eq!(world.faults.count(Kind::Torn), 1);
        }
        assert!(seen.len() > if tear == Tear::Prefix { 5 } else { 30 }, "{seen:?}");
    }
}

#[test]
fn lost_and_misdirected_writes() {
    let world = world(4);
    world.write(3, 1).unwrap();
    world.arm(Fault::new(Effect::Lost).once());
    world.write(3, 2).unwrap();
    assert_eq!(world.read(3).unwrap(), [1; 4096]);
    world.arm(Fault::new(Effect::Misdirected { to: Some(5 * 4096 + 17) }).once());
    world.write(3, 3).unwrap();
    assert_eq!((world.read(3).unwrap()[0], world.read(5).unwrap()[4095]), (1, 3));
    let mut places = std::collections::BTreeSet::new();
    for fill in 10..40 {
        world.arm(Fault::new(Effect::Misdirected { to: None }).once());
        world.write(3, fill).unwrap();
        let bytes = world.disk.peek(0, SIZE as usize);
        places.insert(bytes.iter().position(|&byte| byte == fill).expect("somewhere") / 4096);
    }
    assert!(places.len() > 15 && !places.contains(&3), "{places:?}");
    assert_eq!((world.faults.count(Kind::Lost), world.faults.count(Kind::Misdirected)), (1, 31));
}

#[test]
fn flipped_bits_stay_until_overwritten() {
    let world = world(5);
    world.write(0, 0).unwrap();
    world.write(1, 0).unwrap();
    world.arm(Fault::new(Effect::Flip { bits: 5 }).within(1000..1040));
    world.arm(Fault::new(Effect::Flip { bits: 1 }).within(4096..8192));
    let ones = |page| world.read(page).unwrap().iter().map(|byte| byte.count_ones()).sum::<u32>();
    assert!(matches!(ones(0), 1..=5) && ones(1) == 1);
    assert!(world.faults.flips().bytes().all(|at| (1000..1040).contains(&at) || at >= 4096));
    let before = world.read(0).unwrap();
    assert_eq!(world.read(0).unwrap(), before);
    world.env.block_on(world.drive.write(0, pages(0, 1), Durability::Durable)).unwrap();
    assert_eq!((ones(0), ones(1), world.faults.count(Kind::Flip)), (0, 1, 6));
    // Also those of a range that is cut from a larger read.
    let both = world.env.block_on(world.drive.read(0, 8192)).unwrap();
    assert_eq!(both.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
}

#[test]
fn lies_are_found_out_by_power_cuts_only() {
    let world = world(6);
    world.write(0, 1).unwrap();
    world.flush().unwrap();
    let lie = world.arm(Fault::new(Effect::Lie));
    world.write(0, 2).unwrap();
    world.flush().unwrap();
    world.env.block_on(world.drive.write(4096, pages(3, 1), Durability::Durable)).unwrap();
    assert_eq!((world.read(0).unwrap()[0], world.read(1).unwrap()[0]), (2, 3));
    assert_eq!(world.faults.count(Kind::Lie), 2, "a cached write is no lie");
    let world = world.cut();
    assert_eq!((world.read(0).unwrap()[0], world.read(1).unwrap()[0]), (1, 0));
    assert!(world.faults.release(lie), "a power cut doesn't heal the drive");
    world.write(0, 2).unwrap();
    world.flush().unwrap();
    assert_eq!(world.cut().read(0).unwrap()[0], 2);
}

#[test]
fn delays_and_ramps_add_up() {
    let world = world(7);
    let took = |page| {
        let before = world.env.now();
        world.read(page).unwrap();
        world.env.now().saturating_sub(before)
    };
    assert!(took(0) < Nanos::from_millis(2));
    let ten = Nanos::from_millis(10);
    world.arm(Fault::new(Effect::Delay(Delay::Constant(ten))).once());
    world.arm(Fault::new(Effect::Delay(Delay::Uniform { least: ten, most: ten })).once());
    assert!(took(0) >= ten + ten && took(0) < ten);
    let ramp = Ramp { percent_per_second: 100_000, percent_max: 1_000_000 };
    world.arm(Fault::new(Effect::Slow(ramp)).on(Operation::Read));
    let spans: Vec<Nanos> = (0..3)
        .map(|_| {
            world.env.block_on(world.env.sleep_until(world.env.now() + Nanos::from_secs(3)));
            (0..20).map(|_| took(0)).min().unwrap()
        })
        .collect();
    // The third begins beyond the maximum, as the second does.
    assert!(spans[0] > ten + ten && spans[0] < spans[1], "{spans:?}");
    assert!(spans[2] < spans[1] + spans[1], "{spans:?}");
    assert_eq!((world.faults.count(Kind::Delay), world.faults.count(Kind::Slow)), (2, 60));
}

#[test]
fn hangs_end_after_their_span_with_their_fault_or_by_hand() {
    let world = world(8);
    let second = Nanos::from_secs(1);
    let start = world.env.now();
    world.arm(Fault::new(Effect::Hang(Some(second))).once());
    world.read(0).unwrap();
    let ended = world.env.now();
    assert!(ended >= start + second && ended < start + second + Nanos::from_millis(5));
    assert!(world.faults.armed(ended).is_empty());

    // What is in flight isn't answered either.
    let write = world.drive.write(0, pages(1, 1), Durability::Cached);
    let hang = async {
        world.env.yield_now().await;
        world.arm(Fault::new(Effect::Hang(None)).lasting(second));
    };
    world.env.block_on(join(write, hang)).0.unwrap();
    assert!(world.env.now() >= ended + second);

    let released = Cell::new(false);
    let hang = world.arm(Fault::new(Effect::Hang(None)).on(Operation::Write));
    let release = async {
        world.env.sleep_until(world.env.now() + Nanos::from_secs(60)).await;
        released.set(true);
        world.faults.release(hang);
    };
    let write = async {
        world.drive.write(0, pages(2, 1), Durability::Cached).await.unwrap();
        assert!(released.get());
    };
    let read = async {
        world.drive.read(0, 4096).await.unwrap();
        assert!(!released.get(), "only writes hang");
    };
    world.env.block_on(join(join(write, read), release));
    assert_eq!(world.faults.count(Kind::Hang), 2, "one was in flight already");
}

#[test]
fn a_drive_that_goes_fails_what_is_in_flight_and_comes_back_as_it_was() {
    let world = world(9);
    world.write(0, 1).unwrap();
    let go = async {
        world.env.yield_now().await;
        world.arm(Fault::new(Effect::Gone).lasting(Nanos(1)));
    };
    let (read, ()) = world.env.block_on(join(world.drive.read(0, 4096), go));
    assert_eq!(read.unwrap_err().kind, DriveErrorKind::Removed, "back, but not the same");
    assert_eq!(world.read(0).unwrap()[0], 1);

    let gone = world.arm(Fault::new(Effect::Gone).on(Operation::Write).nth(2));
    world.write(1, 1).unwrap();
    assert!(!world.faults.is_gone(world.env.now()));
    let before = world.env.now();
    assert_eq!(world.write(1, 2), Err(DriveErrorKind::Removed));
    assert_eq!(
        (world.read(0), world.flush()),
        (Err(DriveErrorKind::Removed), Err(DriveErrorKind::Removed))
    );
    assert!(world.faults.is_gone(world.env.now()) && world.env.now() > before);
    world.faults.release(gone);
    assert_eq!(world.read(1).unwrap()[0], 1);
    // One that hangs and goes doesn't hang any more.
    world.arm(Fault::new(Effect::Hang(None)));
    let go = async {
        world.env.yield_now().await;
        world.arm(Fault::new(Effect::Gone));
    };
    let (read, ()) = world.env.block_on(join(world.drive.read(0, 4096), go));
    assert_eq!(read.unwrap_err().kind, DriveErrorKind::Removed);
    world.faults.release_all();
    assert!(world.read(1).is_ok());
}

#[test]
fn nonsense_is_refused_and_a_script_gone_wild_is_stopped() {
    let faults = Faults::new(1);
    let error = |fault: Fault| faults.arm(Nanos::ZERO, fault).unwrap_err();
    assert_eq!(error(Fault::new(Effect::Lost).within(5..5)), FaultError::EmptyRange);
    assert_eq!(error(Fault::new(Effect::Flip { bits: 1 })), FaultError::NoRange);
    assert_eq!(error(Fault::new(Effect::Lost).nth(0)), FaultError::NoZeroth);
    assert_eq!(error(Fault::new(Effect::Lost).with_chance(1_000_001)), FaultError::Chance);
    assert_eq!(error(Fault::new(Effect::Lost).on(Operation::Read)), FaultError::Pointless("lost"));
    let ramp = Ramp { percent_per_second: 1, percent_max: 99 };
    assert_eq!(error(Fault::new(Effect::Slow(ramp))), FaultError::Ramp);
    let delay = Delay::Uniform { least: Nanos(2), most: Nanos(1) };
    assert!(matches!(error(Fault::new(Effect::Delay(delay))), FaultError::Delay(_)));
    while faults.arm(Nanos::ZERO, Fault::new(Effect::Lost)).is_ok() {}
    assert_eq!(error(Fault::new(Effect::Lost)), FaultError::TooMany);
}

/// Some clients on a drive that follows a drawn schedule.
fn run(seed: u64) -> (u64, Vec<Injection>, Vec<u64>) {
    let world = world(seed);
    let limits = Limits {
        span: Nanos::from_millis(200),
        operations: 300,
        longest: Nanos::from_millis(50),
        bytes: SIZE,
        faults: 12,
        kinds: Kind::ALL.to_vec(),
    };
    world.faults.follow(world.env.now(), &Schedule::draw(seed, &limits)).unwrap();
    let failed = Cell::new(0);
    let client = async |number: u64| {
        let mut rng = Rng::new(seed ^ number);
        for _ in 0..60 {
            let at = rng.below(256) * 4096;
            let result = match rng.below(10) {
                0 => world.drive.flush().await,
                1 => world.drive.discard(at, 4096).await,
                2..6 => world.drive.read(at, 4096).await.map(drop),
                _ => world.drive.write(at, pages(number as u8, 1), Durability::Durable).await,
            };
            failed.set(failed.get() + u64::from(result.is_err()));
        }
    };
    world.env.block_on(join_all((0..6).map(client)));
    let counts = Kind::ALL.map(|kind| world.faults.count(kind)).to_vec();
    assert!(failed.get() >= world.faults.count(Kind::Error), "errors are seen");
    (world.env.trace_hash(), world.faults.log(), counts)
}

#[test]
fn a_seed_is_a_run_and_schedules_reach_every_kind() {
    let mut totals = vec![0; Kind::ALL.len()];
    for seed in 0..40 {
        let once = run(seed);
        if seed < 5 {
            assert_eq!(once, run(seed));
        }
        totals.iter_mut().zip(once.2).for_each(|(total, count)| *total += count);
    }
    assert!(totals.iter().all(|&total| total > 0), "{totals:?}");
    let injection = run(1).1[0].to_string();
    assert!(injection.contains(" bytes at byte "), "{injection}");
}

#[test]
fn on_the_real_clock() {
    let env = UringEnv::new().unwrap();
    let faults = Faults::new(1);
    let drive = Faulty::new(&env, MemDrive::new("mem:0", SIZE, 512), &faults);
    let arm = |fault| faults.arm(env.now(), fault).unwrap();
    env.block_on(async {
        arm(Fault::new(Effect::Error(EIO)).on(Operation::Read).once());
        assert_eq!(drive.read(0, 512).await.unwrap_err().kind, EIO);
        arm(Fault::new(Effect::Hang(Some(Nanos::from_millis(20)))).once());
        let before = env.now();
        drive.write(0, pages(1, 1), Durability::Cached).await.unwrap();
        assert!(env.now() >= before + Nanos::from_millis(20));
        arm(Fault::new(Effect::Torn { tear: Tear::Prefix, lying: true }).once());
        drive.write(0, pages(2, 1), Durability::Cached).await.unwrap();
        assert_eq!(drive.read(0, 4096).await.unwrap()[4095], 1);
        let hang = arm(Fault::new(Effect::Hang(None)));
        let release = async {
            env.sleep_until(env.now() + Nanos::from_millis(5)).await;
            assert!(faults.release(hang));
        };
        join(drive.flush(), release).await.0.unwrap();
        arm(Fault::new(Effect::Gone).lasting(Nanos::from_millis(5)));
        assert_eq!(drive.flush().await.unwrap_err().kind, DriveErrorKind::Removed);
        env.sleep_until(env.now() + Nanos::from_millis(5)).await;
        drive.flush().await.unwrap();
    });
}
