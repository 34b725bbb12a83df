//! HybRAID where there is hardly a free place left: nothing waits for ever, nothing is lost, no
//! place is given away too early.

use classical::OpenOptions;
use futures_util::future::join;
use io::rng::{Rng, mix};
use io::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};
use io::{Buf, Nanos, join_all};
use schemes::Store;
use schemes::scheme::hybrid::{self, Hybrid, Spec, Tuning};

const CHUNK: u64 = 8192;
const STRIPE: u64 = 2 * CHUNK;
const SECTOR: u64 = 512;

struct Rig {
    env: VirtEnv,
    disks: Vec<Disk>,
    latency: Latency,
}

impl Rig {
    fn new(seed: u64, latency: Latency, tuning: Tuning) -> Rig {
        let disk = |at: u64| Disk::new(format!("d{at}"), 5 << 20, 512, seed ^ at);
        let rig = Rig { env: VirtEnv::new(seed), disks: (0..5).map(disk).collect(), latency };
        let spec = Spec {
            name: "tank".into(),
            split: 2,
            parity_width: 3,
            chunk: CHUNK,
            tuning,
            checksums: true,
        };
        let drives = rig.drives();
        rig.env.block_on(hybrid::create(&rig.env, &drives, &spec)).expect("it fits");
        rig
    }

    fn drives(&self) -> Vec<VirtDrive> {
        let attach = |disk: &Disk| VirtDrive::attach(&self.env, disk, self.latency);
        self.disks.iter().map(attach).collect()
    }

    fn open(&self) -> Hybrid<VirtEnv> {
        self.env
            .block_on(Hybrid::open(&self.env, self.drives(), OpenOptions::default()))
            .expect("it opens")
    }

    fn write(&self, store: &Hybrid<VirtEnv>, offset: u64, len: u64, fill: u8) {
        let data = Buf::from_slice(&vec![fill; len as usize]);
        self.env.block_on(store.write(offset, data, false)).expect("writes");
    }

    fn read(&self, store: &Hybrid<VirtEnv>, offset: u64, len: u64) -> Vec<u8> {
        self.env.block_on(store.read(offset, len)).expect("reads").to_vec()
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.env.crash();
    }
}

fn counter(store: &Hybrid<VirtEnv>, name: &str) -> u64 {
    let found = store.counters().into_iter().find(|(own, _)| *own == name);
    found.expect("there is such a counter").1
}

const RESTLESS: Tuning = Tuning {
    online_threshold: 1,
    full_mirrors_percent: 100,
    full_parity_percent: 100,
    offline_batch: 4,
};

/// Mirrors have one place left, and its number is the one that a slow read is looking at.
#[test]
fn a_place_that_is_being_read_is_not_given_to_another_stripe() {
    let slow = Latency { read: Nanos::from_millis(50), ..Latency::SSD };
    for seed in 0..20 {
        let rig = Rig::new(seed, slow, RESTLESS);
        let store = rig.open();
        let mut stripe = 0;
        while stripe == 0 || store.in_mirrors(stripe - 1) == Some(true) {
            rig.write(&store, u64::from(stripe) * STRIPE, SECTOR, 1);
            stripe += 1;
        }
        let read = store.read(0, STRIPE);
        let others = async {
            store.write(0, Buf::from_slice(&[2; STRIPE as usize]), true).await.expect("writes");
            let fresh = Buf::from_slice(&[3; SECTOR as usize]);
            store.write(u64::from(stripe) * STRIPE, fresh, false).await.expect("writes");
        };
        let (read, ()) = rig.env.block_on(join(read, others));
        let read = read.expect("reads");
        assert!(store.in_mirrors(0) == Some(false), "it moved while it was read");
        assert!([1, 2].contains(&read[0]) && !read.contains(&3), "seed {seed}: {}", read[0]);
        // Nobody reads there any more: the next one has the place.
        rig.write(&store, u64::from(stripe + 1) * STRIPE, SECTOR, 4);
        assert_eq!(store.in_mirrors(stripe + 1), Some(true));
    }
}

/// What was written to each sector last.
struct Model(Vec<u8>);

impl Model {
    fn check(&self, rig: &Rig, store: &Hybrid<VirtEnv>) {
        let read = rig.read(store, 0, store.size());
        for (at, sector) in read.chunks(SECTOR as usize).enumerate() {
            assert!(sector.iter().all(|byte| *byte == self.0[at]), "sector {at}: {}", sector[0]);
        }
        let wrong = rig.env.block_on(store.audit(0, store.size()));
        assert_eq!(wrong, Vec::<String>::new());
    }
}

/// Requests at the same time that touch no sector together, with background work.
fn round(rig: &Rig, store: &Hybrid<VirtEnv>, model: &mut Model, rng: &mut Rng) {
    let sectors = store.size() / SECTOR;
    let (mut used, mut writes) = (Vec::<(u64, u64)>::new(), Vec::new());
    for _ in 0..8 {
        let whole = rng.chance(1, 2);
        let unit = if whole { STRIPE / SECTOR } else { 1 };
        let first = rng.below(sectors / unit) * unit;
        let len = (unit * (1 + rng.below(3))).min(sectors - first);
        if used.iter().any(|(start, end)| first < *end && *start < first + len) {
            continue;
        }
        used.push((first, first + len));
        let fill = 1 + rng.below(255) as u8;
        model.0[first as usize..(first + len) as usize].fill(fill);
        let data = Buf::from_slice(&vec![fill; (len * SECTOR) as usize]);
        writes.push(store.write(first * SECTOR, data, rng.chance(1, 8)));
    }
    let background = async {
        for _ in 0..4 {
            store.work().await.expect("works");
        }
    };
    let (written, ()) = rig.env.block_on(join(join_all(writes), background));
    written.into_iter().collect::<Result<Vec<()>, _>>().expect("writes");
}

/// From empty to every stripe written and on, through restarts and power cuts.
#[test]
fn a_volume_that_is_full_altogether_works_on() {
    for seed in 0..12 {
        let rig = Rig::new(seed, Latency::SSD, Tuning { full_mirrors_percent: 50, ..RESTLESS });
        let mut rng = Rng::new(mix(seed));
        let mut store = rig.open();
        let mut model = Model(vec![0; (store.size() / SECTOR) as usize]);
        for turn in 0..12 {
            (0..12).for_each(|_| round(&rig, &store, &mut model, &mut rng));
            model.check(&rig, &store);
            if turn == 8 {
                // What is left of it, all at once.
                let all = Buf::from_slice(&vec![7; store.size() as usize]);
                rig.env.block_on(store.write(0, all, false)).expect("writes");
                model.0.fill(7);
            }
            rig.env.block_on(store.flush()).expect("flushes");
            rig.env.crash();
            rig.disks.iter().for_each(|disk| disk.power_cut(&mut rng, CutMode::Random));
            store = rig.open();
            model.check(&rig, &store);
        }
        let (mirrors, parity) = store.used();
        assert_eq!(u64::from(mirrors + parity) * STRIPE, store.size(), "all are written");
        (0..20).for_each(|_| round(&rig, &store, &mut model, &mut rng));
        model.check(&rig, &store);
        assert!(counter(&store, "writes whose tier was full") > 0);
    }
}

/// First writes when the last places are those that others have just left: they wait for the map,
/// and get them.
#[test]
fn the_last_places_are_found_in_limbo() {
    for seed in 0..20 {
        let rig = Rig::new(seed, Latency::SSD, RESTLESS);
        let store = rig.open();
        let stripes = store.size() / STRIPE;
        let all_but_two = (0..stripes - 2).map(|stripe| {
            let (tiny, large) = (SECTOR, STRIPE);
            let len = if stripe % 3 == 0 { tiny } else { large };
            store.write(stripe * STRIPE, Buf::from_slice(&vec![1; len as usize]), false)
        });
        rig.env.block_on(join_all(all_but_two));
        // One of RAID5 moves to the mirrors and one the other way, and the last two come.
        let tier = |mirrors| (0..stripes as u32).find(|s| store.in_mirrors(*s) == Some(mirrors));
        let (up, down) = (tier(false).expect("one"), tier(true).expect("one"));
        let write = |stripe: u64, len: u64| {
            store.write(stripe * STRIPE, Buf::from_slice(&vec![2; len as usize]), false)
        };
        let done = rig.env.block_on(join_all([
            write(up.into(), SECTOR),
            write(down.into(), STRIPE),
            write(stripes - 2, SECTOR),
            write(stripes - 1, STRIPE),
        ]));
        done.into_iter().collect::<Result<Vec<()>, _>>().expect("writes");
        let (mirrors, parity) = store.used();
        assert_eq!(u64::from(mirrors + parity), stripes);
        for stripe in [up.into(), down.into(), stripes - 2, stripes - 1] {
            assert_eq!(rig.read(&store, stripe * STRIPE, SECTOR), [2; SECTOR as usize]);
        }
    }
}

#[test]
fn drives_of_another_scheme_are_refused_by_name() {
    let rig = Rig::new(1, Latency::SSD, RESTLESS);
    let spec = Spec::proposed("tank", 5, CHUNK).expect("it divides");
    let odd = Spec { split: 3, ..spec.clone() };
    let made = rig.env.block_on(hybrid::create(&rig.env, &rig.drives(), &odd));
    let error = made.expect_err("no three mirrors").to_string();
    assert_eq!(error, "3 drives for the mirrors: give an even number, at least 2");
    let few = rig.drives().split_off(3);
    let made = rig.env.block_on(hybrid::create(&rig.env, &few, &spec));
    let error = made.expect_err("two drives").to_string();
    assert!(error.starts_with("0 drives left for RAID5 groups of 3"), "{error}");
}
