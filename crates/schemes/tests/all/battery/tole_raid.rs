//! RAID5 whose reads go round a slow drive, and that they do.

use io::rng::Rng;
use io::virt::{Disk, Latency, VirtDrive, VirtEnv};
use io::{AnyDrive, Buf, Env, Faults, Faulty, Nanos};
use schemes::scheme::tole_raid::{ToleRaid, create};
use schemes::scheme::{OpenOptions, Scheme, Spec};
use schemes::{Store, StoreError};

use crate::battery::afflicted::battery_afflicted;
use crate::battery::hung::battery_hung;
use crate::battery::replaced::battery_replaced;
use crate::battery::rotten::battery_rotten;
use crate::battery::world::{CHUNK, Subject, battery};

const WIDTH: usize = 4;

#[derive(Clone, Copy)]
struct Tolerant;

impl Subject for Tolerant {
    type Store = ToleRaid<VirtEnv>;

    fn name(&self) -> String {
        "tole-raid".to_owned()
    }

    fn drives(&self) -> Vec<u64> {
        vec![6 << 20; WIDTH]
    }

    async fn create(&self, env: &VirtEnv, drives: &[VirtDrive]) -> Result<(), StoreError> {
        let spec = Spec { chunk: CHUNK, ..Spec::new("tank", Scheme::ToleRaid) };
        create(env, drives, &spec).await
    }

    async fn open(
        &self,
        env: &VirtEnv,
        drives: Vec<VirtDrive>,
    ) -> Result<ToleRaid<VirtEnv>, StoreError> {
        ToleRaid::open(env, drives, OpenOptions::default()).await
    }

    fn survives(&self, lost: &[bool]) -> bool {
        lost.iter().filter(|lost| **lost).count() <= 1
    }

    fn by_parity(&self) -> bool {
        true
    }

    fn records_first(&self) -> bool {
        true
    }
}

#[test]
fn tole_raid() {
    battery(Tolerant);
}

/// One drive takes 20 ms for every operation: no read does.
#[test]
fn reads_do_not_wait_for_a_slow_drive() {
    let env = VirtEnv::new(1);
    let disk = |(at, size)| Disk::new(format!("d{at}"), size, 512, at as u64);
    let disks: Vec<Disk> = Tolerant.drives().into_iter().enumerate().map(disk).collect();
    let faults: Vec<Faults> = (0..WIDTH as u64).map(Faults::new).collect();
    let attach = |(disk, faults): (&Disk, &Faults)| -> VirtDrive {
        let drive = VirtDrive::attach(&env, disk, Latency::SSD);
        AnyDrive::new(Faulty::new(&env, drive, faults)).into()
    };
    let drives: Vec<VirtDrive> = disks.iter().zip(&faults).map(attach).collect();
    env.block_on(Tolerant.create(&env, &drives)).expect("it fits");
    let store = env.block_on(Tolerant.open(&env, drives)).expect("opens");
    let mut bytes = vec![0; 1 << 20];
    Rng::new(5).fill(&mut bytes);
    env.block_on(store.write(0, Buf::from_slice(&bytes), true)).expect("writes");
    // How long each took, the longest first.
    let longest = |reads: u64| {
        let mut took = Vec::new();
        for at in 0..reads {
            let offset = at * 37 % 255 * 4096;
            let began = env.now();
            let read = env.block_on(store.read(offset, 4096)).expect("reads");
            assert!(*read == bytes[offset as usize..offset as usize + 4096]);
            took.push(env.now().saturating_sub(began));
        }
        took.sort_by(|one, other| other.cmp(one));
        took
    };
    longest(300);
    let millis = Nanos::from_millis;
    let delay = io::faulty::Delay::Constant(millis(20));
    let slow = io::faulty::Fault::new(io::faulty::Effect::Delay(delay));
    faults[1].arm(env.now(), slow).expect("there is room");
    let took = longest(300);
    // Of the other drives one in some hundred operations takes milliseconds by itself.
    assert!(took[0] < millis(20) && took[3] < millis(3), "{:?}", &took[..4]);
    let counters = store.counters();
    assert!(counters.iter().any(|(name, count)| *name == "pieces_read_round" && *count > 30));
}

#[test]
fn tole_raid_replaced() {
    battery_replaced(Tolerant);
}

#[test]
fn tole_raid_rotten() {
    battery_rotten(Tolerant);
}

#[test]
fn tole_raid_hung() {
    battery_hung(Tolerant);
}

#[test]
fn tole_raid_afflicted() {
    battery_afflicted(Tolerant);
}
