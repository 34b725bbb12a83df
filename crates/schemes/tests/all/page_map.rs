//! A durable table through power cuts at any write, torn pages among them.

use classical::array::create;
use classical::{Array, CreateSpec, OpenOptions, Redundancy};
use format::Uuid;
use io::rng::Rng;
use io::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};
use schemes::page_map::{self, ENTRIES, PageMap};

const POOL: Uuid = Uuid([9; 16]);
/// Three pages, the last one not full.
const COUNT: usize = 2 * ENTRIES + 100;
const BASE: u64 = 8192;

struct Rig {
    env: VirtEnv,
    disks: Vec<Disk>,
}

impl Rig {
    fn new(seed: u64) -> Rig {
        let align = if seed.is_multiple_of(2) { 512 } else { 4096 };
        let disk = |at: u64| Disk::new(format!("d{at}"), 5 << 20, align, seed ^ at);
        Rig { env: VirtEnv::new(seed), disks: (0..2).map(disk).collect() }
    }

    fn drives(&self) -> Vec<VirtDrive> {
        let attach = |disk: &Disk| VirtDrive::attach(&self.env, disk, Latency::SSD);
        self.disks.iter().map(attach).collect()
    }

    fn array(&self) -> Array<VirtEnv> {
        let opened = Array::open(&self.env, self.drives(), OpenOptions::default());
        self.env.block_on(opened).expect("it opens")
    }

    /// Pages of one drive that versions lie on, each other one or so.
    fn rot(&self, rng: &mut Rng) {
        let disk = &self.disks[rng.index(2)];
        for at in (0..disk.geometry().size).step_by(4096) {
            if disk.peek(at, 8) == b"STDYMAP1" && rng.chance(1, 2) {
                disk.corrupt(at, 4096, rng.next_u64());
            }
        }
    }

    fn make(&self) {
        let (redundancy, width) = (Redundancy::Mirror, 2);
        let spec =
            CreateSpec { name: "tank".into(), redundancy, width, chunk: 8192, checksums: true };
        self.env.block_on(create(&self.env, &self.drives(), &spec)).expect("it fits");
        let array = self.array();
        let made = page_map::create(&array, BASE, &POOL, COUNT);
        self.env.block_on(made).expect("it is made");
    }
}

/// Each page holds one number all over. Versions 1, 2, 3 ... of all pages are written, until the
/// power goes at some write; then every page is its last durable version or
/// the one that was on its way.
fn one(seed: u64, rots: bool) {
    let rig = Rig::new(seed);
    rig.make();
    let mut rng = Rng::new(seed);
    // Of each page what is there for sure, and what may be.
    let mut may_be = vec![[0, 0]; COUNT.div_ceil(ENTRIES)];
    for _ in 0..6 {
        let array = rig.array();
        let opened = rig.env.block_on(PageMap::open(&array, BASE, &POOL, COUNT));
        let (map, entries) = opened.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        // As owners do: what was read may have been in a drive's cache.
        rig.env.block_on(array.flush()).expect("it flushes");
        for (page, may_be) in entries.chunks(ENTRIES).zip(&mut may_be) {
            assert!(page.iter().all(|entry| *entry == page[0]), "seed {seed}: two versions mixed");
            assert!(may_be.contains(&page[0]), "seed {seed}: {}, not {may_be:?}", page[0]);
            may_be[0] = page[0];
        }
        let version = entries.iter().copied().max().expect("there are some");
        let first = std::cell::Cell::new(version);
        rig.env.set_write_limit(rig.env.writes_issued() + rng.below(30));
        let work = async {
            loop {
                let next = vec![first.get() + 1; COUNT];
                (0..COUNT).step_by(ENTRIES).for_each(|entry| map.touch(entry));
                assert!(!map.is_durable(0));
                let taken = map.take(&map.dirty(), &next);
                assert!(!map.is_durable(0) && map.dirty().is_empty());
                map.write(taken).await.expect("writes");
                assert!(map.is_durable(0));
                first.set(first.get() + 1);
            }
        };
        let cut = rig.env.run_until(work, || rig.env.write_limit_reached()).is_none();
        assert!(cut);
        for may_be in &mut may_be {
            let sure = if first.get() > version { first.get() } else { may_be[0] };
            *may_be = [sure, first.get() + 1];
        }
        rig.env.crash();
        rig.env.set_write_limit(u64::MAX);
        let modes = [CutMode::DropAll, CutMode::KeepAll, CutMode::Random, CutMode::Random];
        let mode = modes[rng.index(modes.len())];
        rig.disks.iter().for_each(|disk| disk.power_cut(&mut rng, mode));
        if rots {
            rig.rot(&mut rng);
        }
    }
}

#[test]
fn every_page_is_one_of_its_last_two_versions() {
    (0..100).for_each(|seed| one(seed, false));
}

/// Of what was being written one drive's copy rots, as well.
#[test]
fn it_is_where_a_drive_rots_meanwhile() {
    (0..100).for_each(|seed| one(seed, true));
}

#[test]
fn a_map_without_a_whole_version_of_a_page_is_not_opened() {
    let rig = Rig::new(0);
    rig.make();
    let array = rig.array();
    let page = io::Buf::from_slice(&[1; 8192]);
    rig.env.block_on(array.write(BASE + 8192, page, true)).expect("writes");
    let opened = rig.env.block_on(PageMap::open(&array, BASE, &POOL, COUNT));
    let error = opened.err().expect("page 1 is gone").to_string();
    assert!(error.starts_with("page 1 of the map is damaged"), "{error}");
    rig.env.crash();
}
