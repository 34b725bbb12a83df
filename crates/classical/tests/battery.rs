//! One battery over every in-place scheme: clients write and read through power cuts at any write,
//! kills, drives that die in the middle of work or with the power, and the array must hold what
//! it promised. Clients share stripes but no sectors, so each knows what it wrote.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use classical::array::create;
use classical::{Array, ArrayError, CreateSpec, OpenOptions, Redundancy, WriteHole};
use futures_util::future::join_all;
use io::rng::{Rng, mix};
use io::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};
use io::{Buf, BufMut};

const SECTOR: u64 = 512;
const CHUNK: u64 = 8192;
const DRIVE: u64 = 4 << 20;
const CLIENTS: u64 = 4;
/// Sectors in a row that belong to one client, then the next one's: chunks and stripes are shared.
const SHORT: u64 = 5;
/// So many sectors are divided like that.
const MIXED: u64 = 400;
/// After these each client has a row for itself that is several stripes long.
const LONG: u64 = 150;
/// Sectors of the array that are used.
const SPAN: u64 = MIXED + CLIENTS * LONG;

#[derive(Clone, Copy, Debug)]
struct Scheme {
    name: &'static str,
    redundancy: Redundancy,
    width: usize,
    groups: usize,
}

const SCHEMES: [Scheme; 7] = [
    Scheme { name: "raid0", redundancy: Redundancy::Parity(0), width: 3, groups: 1 },
    Scheme { name: "raid1", redundancy: Redundancy::Mirror, width: 3, groups: 1 },
    Scheme { name: "raid10", redundancy: Redundancy::Mirror, width: 2, groups: 3 },
    Scheme { name: "raid5", redundancy: Redundancy::Parity(1), width: 4, groups: 1 },
    Scheme { name: "raid6", redundancy: Redundancy::Parity(2), width: 5, groups: 1 },
    Scheme { name: "raid50", redundancy: Redundancy::Parity(1), width: 3, groups: 2 },
    Scheme { name: "raid60", redundancy: Redundancy::Parity(2), width: 4, groups: 2 },
];

/// What a sector may hold: number of the write, 0 before the first.
#[derive(Clone, Debug, Default)]
struct Expected {
    /// The last that was flushed, and all written since; the newest last.
    may_be: Vec<u64>,
    /// The newest is not answered yet.
    in_flight: bool,
}

#[derive(Default)]
struct Oracle {
    sectors: BTreeMap<u64, Expected>,
    next: u64,
}

impl Oracle {
    fn of(&mut self, sector: u64) -> &mut Expected {
        let first = || Expected { may_be: vec![0], in_flight: false };
        self.sectors.entry(sector).or_insert_with(first)
    }
}

/// Stands for whatever was found where a lost chunk was being written.
fn strange(sector: u64) -> u64 {
    u64::MAX - sector
}

fn content(sector: u64, write: u64) -> [u8; SECTOR as usize] {
    let mut bytes = [0; SECTOR as usize];
    if write == strange(sector) {
        STRANGE.with(|found| bytes.copy_from_slice(&found.borrow()[&sector]));
    } else if write > 0 {
        let mut rng = Rng::new(mix(write) ^ sector);
        rng.fill(&mut bytes);
        bytes[..8].copy_from_slice(&write.to_le_bytes());
    }
    bytes
}

struct World {
    scheme: Scheme,
    env: VirtEnv,
    disks: Vec<Disk>,
    unplugged: Vec<bool>,
    rng: Rng,
    oracle: Rc<RefCell<Oracle>>,
    base: u64,
}

impl Drop for World {
    fn drop(&mut self) {
        self.env.crash();
    }
}

impl World {
    fn new(scheme: Scheme, seed: u64) -> World {
        let count = scheme.width * scheme.groups;
        // Drives of both units.
        let align = if seed.is_multiple_of(2) { 512 } else { 4096 };
        let disk = |at: usize| Disk::new(format!("d{at}"), DRIVE, align, seed ^ at as u64);
        World {
            scheme,
            env: VirtEnv::new(seed),
            disks: (0..count).map(disk).collect(),
            unplugged: vec![false; count],
            rng: Rng::new(mix(seed)),
            oracle: Rc::default(),
            base: 0,
        }
    }

    fn drives(&self) -> Vec<VirtDrive> {
        let plugged = self.disks.iter().zip(&self.unplugged).filter(|(_, out)| !**out);
        plugged.map(|(disk, _)| VirtDrive::attach(&self.env, disk, Latency::SSD)).collect()
    }

    fn make(&mut self) {
        let Scheme { redundancy, width, .. } = self.scheme;
        let spec = CreateSpec { name: "tank".into(), redundancy, width, chunk: CHUNK };
        let grid = self.env.block_on(create(&self.env, &self.drives(), &spec)).expect("it fits");
        // Somewhere in the middle, not at a multiple of anything.
        self.base = grid.size() / SECTOR / 3;
        // Fresh drives hold noise: the first writing makes it ours.
        let array = self.env.block_on(self.open()).expect("it was just made");
        let zeroes = Buf::zeroed((SPAN * SECTOR) as usize);
        self.env.block_on(array.write(self.base * SECTOR, zeroes, false)).expect("writes");
        self.env.block_on(array.close()).expect("closes");
    }

    async fn open(&self) -> Result<Array<VirtEnv>, ArrayError> {
        Array::open(&self.env, self.drives(), OpenOptions::default()).await
    }

    /// How many more drives the group of each could lose.
    fn can_lose(&self, drive: usize) -> bool {
        let Scheme { redundancy, width, .. } = self.scheme;
        let tolerance = match redundancy {
            Redundancy::Mirror => width - 1,
            Redundancy::Parity(parity) => parity,
        };
        let group = drive / width * width;
        let gone = |at: &usize| self.unplugged[*at] || self.disks[*at].is_failed();
        (group..group + width).filter(gone).count() < tolerance
    }

    fn draw_victim(&mut self) -> Option<usize> {
        let drive = self.rng.index(self.disks.len());
        let whole = !self.unplugged[drive] && !self.disks[drive].is_failed();
        (whole && self.can_lose(drive)).then_some(drive)
    }

    /// Clients work until `limit` writes have reached the drives, or are done. True: cut.
    fn session(&mut self, limit: u64) -> bool {
        let array = self.env.block_on(self.open()).unwrap_or_else(|error| panic!("open: {error}"));
        let clients = (0..CLIENTS).map(|number| Client {
            number,
            base: self.base,
            array: array.clone(),
            oracle: self.oracle.clone(),
            rng: RefCell::new(Rng::new(self.rng.next_u64())),
        });
        let clients: Vec<Client> = clients.collect();
        let victim = if self.rng.chance(1, 3) { self.draw_victim() } else { None };
        let dies_at = self.env.writes_issued() + self.rng.below(limit.max(2));
        self.env.set_write_limit(self.env.writes_issued() + limit);
        let work = async {
            join_all(clients.iter().map(|client| client.work(40))).await;
        };
        let died = Cell::new(false);
        let stop = || {
            let due = victim.filter(|_| self.env.writes_issued() >= dies_at && !died.replace(true));
            if let Some(drive) = due {
                self.disks[drive].set_failed(true);
            }
            self.env.write_limit_reached()
        };
        let cut = self.env.run_until(work, stop).is_none();
        if !cut {
            self.env.set_write_limit(u64::MAX);
            let done = self.env.block_on(array.close());
            assert!(done.is_ok(), "close: {done:?}");
            self.oracle.borrow_mut().sectors.values_mut().for_each(settle);
        }
        cut
    }

    /// The machine stops; with it, perhaps, drives. What was being written then may be anything
    /// where a chunk is known by parity only.
    fn die(&mut self, pulled: bool) {
        self.env.crash();
        let power = self.rng.chance(3, 4);
        if power {
            let modes = [CutMode::DropAll, CutMode::KeepAll, CutMode::Random, CutMode::Random];
            let mode = modes[self.rng.index(modes.len())];
            let mut fate = Rng::new(self.rng.next_u64());
            self.disks.iter().for_each(|disk| disk.power_cut(&mut fate, mode));
        }
        let mut lost = self.disks.iter().any(Disk::is_failed) || pulled;
        for _ in 0..2 {
            if let Some(drive) = self.draw_victim().filter(|_| self.rng.chance(1, 3)) {
                self.unplugged[drive] = true;
                lost = true;
            }
        }
        let by_parity = matches!(self.scheme.redundancy, Redundancy::Parity(1..));
        let mut oracle = self.oracle.borrow_mut();
        let torn: Vec<u64> = oracle
            .sectors
            .iter()
            .filter(|(_, expected)| expected.in_flight)
            .map(|(sector, _)| *sector)
            .collect();
        if lost && by_parity {
            // Drives take whole units: a sector beside is being written with the same bytes.
            let unit = u64::from(self.disks[0].geometry().align) / SECTOR;
            for sector in torn {
                let first = (self.base + sector) / unit * unit;
                for beside in first..first + unit {
                    if let Some(own) = beside.checked_sub(self.base).filter(|own| *own < SPAN) {
                        oracle.of(own).may_be.clear();
                    }
                }
            }
        }
        oracle.sectors.values_mut().for_each(|expected| expected.in_flight = false);
    }

    /// Everything is as promised; what was read is the truth from now on.
    fn check(&mut self) {
        let array = self.env.block_on(self.open()).unwrap_or_else(|error| panic!("open: {error}"));
        let read = self.env.block_on(array.read(self.base * SECTOR, SPAN * SECTOR));
        let read = read.unwrap_or_else(|error| panic!("read: {error}"));
        let mut oracle = self.oracle.borrow_mut();
        for (at, bytes) in read.chunks_exact(SECTOR as usize).enumerate() {
            let sector = at as u64;
            let expected = oracle.of(sector);
            let found = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
            let whole = |write: &u64| content(sector, *write) == bytes;
            if let Some(write) = expected.may_be.iter().rev().find(|write| whole(write)) {
                expected.may_be = vec![*write];
            } else if expected.may_be.is_empty() {
                // Was being written when a drive was lost: whatever it is, it stays.
                STRANGE.with(|found| found.borrow_mut().insert(sector, bytes.to_vec()));
                expected.may_be = vec![strange(sector)];
            } else {
                panic!(
                    "sector {sector} holds write {found}, not one of {:?}; lost {:?}",
                    expected.may_be,
                    array.lost()
                );
            }
        }
        self.audit(&array);
        drop(oracle);
        // Not closed: what recovery did must be durable by itself.
        self.env.crash();
        self.disks.iter().for_each(|disk| disk.power_cut(&mut self.rng, CutMode::DropAll));
    }

    /// Every stripe of the part that is used agrees with its parity, or its copies.
    fn audit(&self, array: &Array<VirtEnv>) {
        let wrong = self.env.block_on(array.disagreeing(self.base * SECTOR, SPAN * SECTOR));
        assert_eq!(wrong, Vec::<u64>::new(), "stripes whose drives disagree");
    }
}

thread_local! {
    static STRANGE: RefCell<BTreeMap<u64, Vec<u8>>> = RefCell::default();
}

fn settle(expected: &mut Expected) {
    let newest = *expected.may_be.last().expect("it holds something");
    *expected = Expected { may_be: vec![newest], in_flight: false };
}

struct Client {
    number: u64,
    base: u64,
    array: Array<VirtEnv>,
    oracle: Rc<RefCell<Oracle>>,
    rng: RefCell<Rng>,
}

impl Client {
    async fn work(&self, requests: usize) {
        for _ in 0..requests {
            let kind = self.rng.borrow_mut().below(10);
            match kind {
                0..6 => self.write(kind == 0).await,
                6..9 => self.read().await,
                _ => self.flush().await,
            }
        }
    }

    /// Some of the sectors in a row that are ours.
    fn draw(&self) -> (u64, u64) {
        let mut rng = self.rng.borrow_mut();
        let (first, len) = if rng.chance(1, 4) {
            (MIXED + self.number * LONG, LONG)
        } else {
            let rows = MIXED / (SHORT * CLIENTS);
            ((rng.below(rows) * CLIENTS + self.number) * SHORT, SHORT)
        };
        let start = rng.below(len);
        (first + start, 1 + rng.below(len - start))
    }

    async fn write(&self, fua: bool) {
        let (first, count) = self.draw();
        let number = {
            let mut oracle = self.oracle.borrow_mut();
            oracle.next += 1;
            let number = oracle.next;
            for sector in first..first + count {
                let expected = oracle.of(sector);
                expected.may_be.push(number);
                expected.in_flight = true;
            }
            number
        };
        let mut data = BufMut::with_len((count * SECTOR) as usize);
        for (at, sector) in (first..first + count).enumerate() {
            data[at * SECTOR as usize..][..SECTOR as usize]
                .copy_from_slice(&content(sector, number));
        }
        let offset = (self.base + first) * SECTOR;
        let done = self.array.write(offset, data.freeze(), fua).await;
        done.unwrap_or_else(|error| panic!("write: {error}"));
        let mut oracle = self.oracle.borrow_mut();
        for sector in first..first + count {
            let expected = oracle.of(sector);
            expected.in_flight = false;
            if fua {
                settle(expected);
            }
        }
    }

    async fn read(&self) {
        let (first, count) = self.draw();
        let read = self.array.read((self.base + first) * SECTOR, count * SECTOR).await;
        let read = read.unwrap_or_else(|error| panic!("read: {error}"));
        for (sector, bytes) in (first..).zip(read.chunks_exact(SECTOR as usize)) {
            let expected = self.oracle.borrow_mut().of(sector).clone();
            let newest = *expected.may_be.last().expect("it holds something");
            assert!(content(sector, newest) == bytes, "sector {sector} is not what it was");
        }
    }

    async fn flush(&self) {
        let before: Vec<(u64, u64)> = {
            let oracle = self.oracle.borrow();
            let done = oracle.sectors.iter().filter(|(_, expected)| !expected.in_flight);
            let newest = |(sector, expected): (&u64, &Expected)| {
                (*sector, *expected.may_be.last().expect("it holds something"))
            };
            done.map(newest).collect()
        };
        self.array.flush().await.unwrap_or_else(|error| panic!("flush: {error}"));
        let mut oracle = self.oracle.borrow_mut();
        for (sector, write) in before {
            let expected = oracle.of(sector);
            // Flushed by somebody else already, with something newer.
            let at = expected.may_be.iter().position(|may_be| *may_be == write);
            expected.may_be.drain(..at.unwrap_or(0));
        }
    }
}

/// Worlds of each scheme; more with CLASSICAL_SEEDS.
const SEEDS: u64 = 200;

fn battery(scheme: Scheme) {
    let asked = std::env::var("CLASSICAL_SEEDS").ok();
    let seeds = asked.map_or(SEEDS, |count| count.parse().expect("CLASSICAL_SEEDS is a number"));
    for seed in 0..seeds {
        let run = std::panic::catch_unwind(|| {
            STRANGE.with(|strange| strange.borrow_mut().clear());
            let mut world = World::new(scheme, seed);
            world.make();
            for _ in 0..4 {
                let limit = 1 + world.rng.below(400);
                if world.session(limit) {
                    world.die(false);
                }
                world.check();
                world.check();
            }
        });
        if let Err(panic) = run {
            eprintln!("{} fails with seed {seed}", scheme.name);
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn raid0() {
    battery(SCHEMES[0]);
}

#[test]
fn raid1() {
    battery(SCHEMES[1]);
}

#[test]
fn raid10() {
    battery(SCHEMES[2]);
}

#[test]
fn raid5() {
    battery(SCHEMES[3]);
}

#[test]
fn raid6() {
    battery(SCHEMES[4]);
}

#[test]
fn raid50() {
    battery(SCHEMES[5]);
}

#[test]
fn raid60() {
    battery(SCHEMES[6]);
}

/// A cut, and a drive lost with it, with the write hole open, as md has it by default: it must be
/// noticed, and the very same worlds with it closed are in order.
#[test]
fn an_open_write_hole_is_noticed() {
    let harmed = |write_hole| {
        let world = |seed: &u64| {
            STRANGE.with(|found| found.borrow_mut().clear());
            let mut world = World::new(SCHEMES[3], *seed);
            world.make();
            world.hole(OpenOptions { write_hole });
        };
        (0..60u64).filter(|seed| std::panic::catch_unwind(|| world(seed)).is_err()).count()
    };
    assert!(harmed(WriteHole::Open) > 0);
    assert_eq!(harmed(WriteHole::Closed), 0);
}

impl World {
    /// Writes, a cut in the middle, a drive lost with it.
    fn hole(&mut self, options: OpenOptions) {
        let array =
            self.env.block_on(Array::open(&self.env, self.drives(), options)).expect("opens");
        let client = |number| Client {
            number,
            base: self.base,
            array: array.clone(),
            oracle: self.oracle.clone(),
            rng: RefCell::new(Rng::new(number + 1)),
        };
        let clients: Vec<Client> = (0..CLIENTS).map(client).collect();
        self.env.block_on(clients[0].flush());
        self.env.set_write_limit(self.env.writes_issued() + 60);
        let work = async {
            join_all(clients.iter().map(|client| client.work(40))).await;
        };
        assert!(self.env.run_until(work, || self.env.write_limit_reached()).is_none());
        let drive = self.rng.index(self.disks.len());
        self.unplugged[drive] = true;
        self.die(true);
        self.check();
    }
}
