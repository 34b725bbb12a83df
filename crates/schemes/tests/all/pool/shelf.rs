//! A pool in virtual time, on drives that can be made to hang.

use io::faulty::{Effect, Fault};
use io::rng::Rng;
use io::virt::{CutMode, Disk, Latency, VirtDrive, VirtEnv};
use io::{Buf, Env, Faults, Faulty, Nanos};
use schemes::part::EnvOn;
use schemes::pool::{DriveState, Event, PoolVolume};
use schemes::scheme::{OpenOptions, Scheme, Spec};
use schemes::{Pool, StoreError};

pub const MIB: u64 = 1 << 20;
pub const DRIVE: u64 = 48 * MIB;
/// What is filled or copied once for each of many crashes: half the work. Not every scheme's pools
/// can be so small.
pub const SMALL: u64 = 24 * MIB;
/// What anything else takes at most.
pub const SOON: Nanos = Nanos::from_secs(3);

pub type TestEnv = EnvOn<VirtEnv, Faulty<VirtEnv, VirtDrive>>;

pub struct Shelf {
    pub env: VirtEnv,
    pub disks: Vec<Disk>,
    pub faults: Vec<Faults>,
    pub options: OpenOptions,
}

impl Drop for Shelf {
    fn drop(&mut self) {
        self.env.crash();
    }
}

impl Shelf {
    pub fn new(scheme: Scheme, drives: u64) -> Shelf {
        Shelf::seeded(scheme, drives, 1)
    }

    /// Identities are drawn from the seed.
    pub fn seeded(scheme: Scheme, drives: u64, seed: u64) -> Shelf {
        Shelf::sized(scheme, drives, seed, DRIVE)
    }

    pub fn small(scheme: Scheme, drives: u64) -> Shelf {
        Shelf::sized(scheme, drives, 1, SMALL)
    }

    fn sized(scheme: Scheme, drives: u64, seed: u64, size: u64) -> Shelf {
        let disk = |at| Disk::new(format!("d{at}"), size, 4096, at);
        let faults = (0..drives).map(Faults::new).collect();
        let disks = (0..drives).map(disk).collect();
        let options = OpenOptions::default();
        let shelf = Shelf { env: VirtEnv::fifo(seed), disks, faults, options };
        let spec = Spec::new("tank", scheme);
        let env = shelf.inside();
        shelf.env.block_on(spec.create(&env, &shelf.drives())).expect("it is made");
        shelf.env.block_on(async {
            let pool = shelf.open().await.expect("it opens");
            pool.volumes().create("vm", 16 * MIB).await.expect("it has room");
            pool.close().await.expect("closes");
        });
        shelf
    }

    /// One whose lost drives are filled by spares after so long, if at all.
    pub fn filled_after(mut self, rebuild_after: Option<Nanos>) -> Shelf {
        self.options = OpenOptions { rebuild_after, ..self.options };
        self
    }

    /// Drives with the same bytes on a machine of their own, that has just started; this one is off
    /// from now on. Many crashes of one pool need it made and filled only once.
    pub fn fork(&self) -> Shelf {
        self.env.crash();
        let faults = (0..self.disks.len() as u64).map(Faults::new).collect();
        let disks = self.disks.iter().map(Disk::fork).collect();
        Shelf { env: VirtEnv::fifo(1), disks, faults, options: self.options }
    }

    /// One more drive, of which nobody knows: its number.
    pub fn add(&mut self, size: u64) -> usize {
        let at = self.disks.len();
        self.disks.push(Disk::new(format!("d{at}"), size, 4096, at as u64));
        self.faults.push(Faults::new(at as u64));
        at
    }

    pub fn drive(&self, at: usize) -> Faulty<VirtEnv, VirtDrive> {
        self.drives().swap_remove(at)
    }

    pub fn inside(&self) -> TestEnv {
        EnvOn::new(self.env.clone())
    }

    pub fn drives(&self) -> Vec<Faulty<VirtEnv, VirtDrive>> {
        let attach = |(disk, faults): (&Disk, &Faults)| {
            let drive = VirtDrive::attach(&self.env, disk, Latency::SSD);
            Faulty::new(&self.env, drive, faults)
        };
        self.disks.iter().zip(&self.faults).map(attach).collect()
    }

    pub async fn open(&self) -> Result<Pool<TestEnv>, StoreError> {
        Pool::open(&self.inside(), self.drives(), self.options).await
    }

    /// From now on the drive answers nothing.
    pub fn hang(&self, drive: usize) {
        let armed = self.faults[drive].arm(self.env.now(), Fault::new(Effect::Hang(None)));
        armed.expect("a fault");
    }

    pub fn crash(&self) {
        self.env.crash();
        let mut fate = Rng::new(1);
        self.disks.iter().for_each(|disk| disk.power_cut(&mut fate, CutMode::Random));
    }

    /// What it gives, which takes no longer than this.
    pub async fn within<T>(&self, most: Nanos, what: &str, act: impl Future<Output = T>) -> T {
        let began = self.env.now();
        let done = act.await;
        let took = self.env.now().saturating_sub(began);
        assert!(took <= most, "{what} took {took}");
        done
    }

    pub async fn rest(&self, span: Nanos) {
        self.env.sleep_until(self.env.now() + span).await;
    }
}

pub fn pattern(seed: u64) -> Buf {
    let mut bytes = vec![0; MIB as usize];
    Rng::new(seed).fill(&mut bytes);
    Buf::from_slice(&bytes)
}

pub fn volume(pool: &Pool<TestEnv>) -> PoolVolume<TestEnv> {
    pool.volumes().volume("vm").expect("it is there")
}

pub async fn write(pool: &Pool<TestEnv>, at: u64) {
    let done = volume(pool).write(at * MIB, pattern(at), false).await;
    done.unwrap_or_else(|error| panic!("write {at}: {error}"));
}

pub async fn check(pool: &Pool<TestEnv>, name: &str, pieces: u64) {
    for at in 0..pieces {
        let read = volume(pool).read(at * MIB, MIB).await;
        let read = read.unwrap_or_else(|error| panic!("{name}: read {at}: {error}"));
        let (written, mut from) = (pattern(at), 0);
        let same = read.iter().all(|buf| {
            let (begin, end) = (from, from + buf.len());
            from = end;
            buf[..] == written[begin..end]
        });
        assert!(same && from == written.len(), "{name}: what was written to {at} is not there");
    }
}

pub fn told(pool: &Pool<TestEnv>, kind: &str, drive: u16) -> Vec<Event> {
    let events = pool.events(0).into_iter();
    events.filter(|event| event.kind == kind && event.drive == Some(drive)).collect()
}

pub fn state(pool: &Pool<TestEnv>, drive: usize) -> DriveState {
    pool.status().drives[drive].state
}

pub const REDUNDANT: [(Scheme, u64); 17] = [
    (Scheme::Raid1, 3),
    (Scheme::Raid10, 4),
    (Scheme::Raid4, 4),
    (Scheme::Raid5, 4),
    (Scheme::Raid6, 5),
    (Scheme::Raid50, 6),
    (Scheme::Raid60, 8),
    (Scheme::NRaid5, 6),
    (Scheme::ToleRaid, 4),
    (Scheme::MirrorLog, 6),
    (Scheme::LogRaid, 6),
    (Scheme::Hybrid, 6),
    (Scheme::LogMirror, 6),
    (Scheme::Hpda, 5),
    (Scheme::Steering, 5),
    (Scheme::Alternate, 4),
    (Scheme::CachedRaid5, 5),
];
