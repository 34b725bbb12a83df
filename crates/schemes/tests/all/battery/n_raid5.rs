//! Independent RAID5 arrays.

use classical::WriteHole;
use io::Buf;
use io::virt::{Disk, Latency, VirtDrive, VirtEnv};
use schemes::scheme::n_raid5::{NRaid5, create};
use schemes::scheme::{OpenOptions, Scheme, Spec};
use schemes::{Store, StoreError};

use crate::battery::afflicted::battery_afflicted;
use crate::battery::hung::battery_hung;
use crate::battery::replaced::battery_replaced;
use crate::battery::rotten::battery_rotten;
use crate::battery::world::{CHUNK, Subject, battery};

const WIDTH: usize = 3;

#[derive(Clone, Copy)]
struct Apart;

fn spec() -> Spec {
    Spec { width: Some(WIDTH), chunk: CHUNK, ..Spec::new("tank", Scheme::NRaid5) }
}

impl Subject for Apart {
    type Store = NRaid5<VirtEnv>;

    fn name(&self) -> String {
        "n-raid5".to_owned()
    }

    fn drives(&self) -> Vec<u64> {
        vec![8 << 20; 2 * WIDTH]
    }

    async fn create(&self, env: &VirtEnv, drives: &[VirtDrive]) -> Result<(), StoreError> {
        create(env, drives, &spec()).await
    }

    async fn open(
        &self,
        env: &VirtEnv,
        drives: Vec<VirtDrive>,
    ) -> Result<NRaid5<VirtEnv>, StoreError> {
        let options = OpenOptions { write_hole: WriteHole::Closed, ..OpenOptions::default() };
        NRaid5::open(env, drives, options).await
    }

    fn survives(&self, lost: &[bool]) -> bool {
        lost.chunks(WIDTH).all(|group| group.iter().filter(|lost| **lost).count() <= 1)
    }

    fn by_parity(&self) -> bool {
        true
    }

    fn records_first(&self) -> bool {
        true
    }
}

#[test]
fn n_raid5() {
    battery(Apart);
}

/// The battery's sectors lie in one array; this request lies in both.
#[test]
fn requests_across_arrays_are_divided() {
    let env = VirtEnv::new(1);
    let disk = |(at, size)| Disk::new(format!("d{at}"), size, 512, at as u64);
    let disks: Vec<Disk> = Apart.drives().into_iter().enumerate().map(disk).collect();
    let attach = |disk| VirtDrive::attach(&env, disk, Latency::SSD);
    let drives: Vec<VirtDrive> = disks.iter().map(attach).collect();
    env.block_on(Apart.create(&env, &drives)).expect("it fits");
    let store = env.block_on(Apart.open(&env, drives)).expect("opens");
    let bytes: Vec<u8> = (0..8192u32).map(|at| (at % 251) as u8).collect();
    let at = store.size() / 2 - 1024;
    env.block_on(store.write(at, Buf::from_slice(&bytes), true)).expect("writes");
    let read = env.block_on(store.read(at, 8192)).expect("reads");
    assert!(*read == bytes);
    let end = store.size();
    assert!(matches!(env.block_on(store.read(end - 512, 1024)), Err(StoreError::Range { .. })));
    assert_eq!((store.margin(), store.lost().len(), store.regions()), (1, 0, 2));
}

#[test]
fn n_raid5_replaced() {
    battery_replaced(Apart);
}

#[test]
fn n_raid5_rotten() {
    battery_rotten(Apart);
}

#[test]
fn n_raid5_hung() {
    battery_hung(Apart);
}

#[test]
fn n_raid5_afflicted() {
    battery_afflicted(Apart);
}
