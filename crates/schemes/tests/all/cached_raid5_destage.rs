//! Destaging a line whose place in the cache the drives do not know yet, cut by a power loss that a
//! drive does not survive.

use classical::OpenOptions;
use io::rng::Rng;
use io::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};
use io::{Buf, Env, Nanos};
use schemes::Store;
use schemes::scheme::cached_raid5::{self, CachedRaid5, Spec};

use crate::scrub::scrub;

const CHUNK: u64 = 8192;
const LINE: u64 = 4096;
const STRIPE: u64 = 2 * CHUNK;

struct Rig {
    env: VirtEnv,
    disks: Vec<Disk>,
}

impl Rig {
    fn drives(&self, without: Option<usize>) -> Vec<VirtDrive> {
        let there = self.disks.iter().enumerate().filter(|(at, _)| Some(*at) != without);
        there.map(|(_, disk)| VirtDrive::attach(&self.env, disk, Latency::SSD)).collect()
    }

    fn open(&self, without: Option<usize>) -> CachedRaid5<VirtEnv> {
        let opened = CachedRaid5::open(&self.env, self.drives(without), OpenOptions::default());
        self.env.block_on(opened).expect("it opens")
    }
}

/// All of a stripe is flushed. Then one sector of each of its lines is written and not flushed,
/// another one in each chunk, and
/// the lines are destaged, all chunks of the stripe in one write: the other sectors are written
/// again with what they hold. They must hold it after a cut in the middle with a drive lost, too,
/// which RAID5 in place can't promise of what is being written.
fn one(seed: u64, writes: u64) -> bool {
    let env = VirtEnv::new(seed);
    let disks = (0..5).map(|at| Disk::new(format!("d{at}"), 5 << 20, 512, seed ^ at)).collect();
    let rig = Rig { env: env.clone(), disks };
    let spec = Spec {
        name: "tank".into(),
        parity_width: 3,
        chunk: CHUNK,
        destage_percent: 1,
        checksums: true,
    };
    let drives = rig.drives(None);
    env.block_on(cached_raid5::create(&env, &drives, &spec)).expect("it fits");
    let store = rig.open(None);
    while env.block_on(store.work()).expect("works") {}
    let mut rng = Rng::new(seed);
    let mut noise = vec![0; STRIPE as usize];
    rng.fill(&mut noise);
    env.block_on(store.write(0, Buf::from_slice(&noise), true)).expect("writes");
    for line in 0..STRIPE / LINE {
        let sector = Buf::from_slice(&[7; 512]);
        let offset = line * LINE + line * LINE / CHUNK * 512;
        env.block_on(store.write(offset, sector, false)).expect("writes");
    }
    assert_eq!(store.cached().0, 4);
    env.set_write_limit(env.writes_issued() + writes);
    let limit = || env.write_limit_reached();
    let cut = env.run_until(async { while store.work().await.expect("works") {} }, limit);
    env.crash();
    rig.disks.iter().for_each(|disk| disk.power_cut(&mut rng, CutMode::Random));
    env.set_write_limit(u64::MAX);
    let lost = 2 + rng.index(3);
    let store = rig.open(Some(lost));
    let read = env.block_on(store.read(0, STRIPE)).expect("reads");
    for (at, sector) in read.chunks_exact(512).enumerate() {
        let old = sector == &noise[at * 512..][..512];
        // Of what is being written anything may come back.
        let written = at % 8 == at * 512 / CHUNK as usize;
        assert!(old || written, "seed {seed}, {writes} writes: sector {at}");
    }
    env.crash();
    cut.is_some()
}

#[test]
fn what_was_flushed_beside_what_is_destaged_is_not_harmed() {
    for seed in 0..30 {
        let done = (0..40).find(|writes| one(seed, *writes));
        assert!(done.is_some(), "so few writes are all of it");
    }
}

/// Both copies of a line rot. While it is in the cache it is lost; when it has been destaged
/// nothing of it is there any more that could be.
#[test]
fn what_rots_where_nothing_is_any_more_is_not_lost() {
    let lost_after = |destaged: bool| {
        let env = VirtEnv::new(1);
        let disks = (0..5).map(|at| Disk::new(format!("d{at}"), 5 << 20, 512, at)).collect();
        let rig = Rig { env: env.clone(), disks };
        let (name, parity_width, chunk, checksums) = ("tank".into(), 3, CHUNK, true);
        let destage_percent = if destaged { 1 } else { 100 };
        let spec = Spec { name, parity_width, chunk, destage_percent, checksums };
        env.block_on(cached_raid5::create(&env, &rig.drives(None), &spec)).expect("it fits");
        let store = rig.open(None);
        let line = Buf::from_slice(&[7; LINE as usize]);
        for at in 0..20 {
            env.block_on(store.write(at * LINE, line.clone(), true)).expect("writes");
        }
        while env.block_on(store.work()).expect("works") {}
        env.block_on(store.flush()).expect("flushes");
        for disk in &rig.disks[..2] {
            let held = |at: &u64| disk.peek(*at, LINE as usize)[..] == line[..];
            for at in (0..disk.geometry().size).step_by(LINE as usize).filter(held) {
                disk.mix_up(at, &[9; LINE as usize]);
            }
        }
        let found = env.block_on(scrub(&store));
        assert!(found.bad > 0, "{found:?}");
        found.lost
    };
    assert!(lost_after(false) >= 40);
    assert_eq!(lost_after(true), 0);
}

/// A page of RAID5 is lost, and its line was written since, in the cache, and not flushed: a crash
/// brings the page back, so that a scrub must not blank it.
#[test]
fn a_lost_page_is_blanked_only_if_the_drives_know_of_its_line_in_the_cache() {
    for flushed in [false, true] {
        let env = VirtEnv::new(4);
        let disks: Vec<Disk> =
            (0..5).map(|at| Disk::new(format!("d{at}"), 5 << 20, 4096, at)).collect();
        let rig = Rig { env: env.clone(), disks };
        let spec = Spec::proposed("tank", 5, CHUNK);
        env.block_on(cached_raid5::create(&env, &rig.drives(None), &spec)).expect("it fits");
        let store = rig.open(None);
        let mut noise = vec![0; STRIPE as usize];
        Rng::new(4).fill(&mut noise);
        env.block_on(store.write(0, Buf::from_slice(&noise), true)).expect("writes");
        let holds = |disk: &Disk, at: u64, page: &[u8]| disk.peek(at, page.len()) == page;
        // The drives know that this write is over.
        env.block_on(env.sleep_until(env.now() + Nanos::from_secs(10)));
        while env.block_on(store.work()).expect("works") {}
        let rows = (0..5 << 20).step_by(LINE as usize);
        let of_line = |at: u64| rig.disks[2..].iter().position(|d| holds(d, at, &noise[..4096]));
        let (at, own) = rows.filter_map(|at| Some((at, of_line(at)?))).next().expect("it is there");
        let beside = |d: &&Disk| holds(d, at, &noise[CHUNK as usize..][..LINE as usize]);
        for (number, disk) in rig.disks[2..].iter().enumerate() {
            if number == own || !beside(&disk) {
                disk.corrupt(at, LINE, 1);
            }
        }
        let newer = Buf::from_slice(&[9; LINE as usize]);
        env.block_on(store.write(0, newer, flushed)).expect("writes");
        assert_eq!(store.cached().0, 1);
        let found = env.block_on(scrub(&store));
        assert!(found.bad > 0, "{found:?}");
        env.crash();
        rig.disks.iter().for_each(|disk| disk.power_cut(&mut Rng::new(5), CutMode::DropAll));
        let store = rig.open(None);
        match env.block_on(store.read(0, LINE)) {
            Ok(read) => assert!(flushed && read[..] == [9; LINE as usize], "flushed: {flushed}"),
            Err(error) => assert!(!flushed && error.is_page_lost(), "{error}"),
        }
        env.crash();
    }
}
