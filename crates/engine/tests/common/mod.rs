//! The same tests on both runtimes: virtual time with modelled-free memory disks, and io_uring
//! on real files. A test is an async function generic over `Env`; `both_runtimes!` runs it.

#![allow(dead_code, reason = "each test file uses its part")]

pub mod channels;

use engine::{CreateSpec, OpenOptions, Pool, create};
use io::rng::Rng;
use io::uring::{Access, UringDrive, UringEnv, create_file};
use io::virt::{Disk, Latency, ModelPort, VirtDrive, VirtEnv};
use io::{Env, Model};

pub const MIB: u64 = 1 << 20;

/// A world that can hand out the same drives again and again.
pub trait World {
    type Env: Env;
    fn env(&self) -> &Self::Env;
    /// Ends every task, as the death of the process does.
    fn kill(&self);
    /// Handles on all drives, freshly opened.
    fn drives(&self) -> Vec<<Self::Env as Env>::Drive>;
}

/// Makes the model of a drive from its seed.
pub type MakeModel = Box<dyn Fn(u64) -> Box<dyn Model>>;

pub struct Virtual {
    env: VirtEnv,
    pub disks: Vec<Disk>,
    /// Makes a model of the time that a drive of so many bytes takes.
    pub model: Option<MakeModel>,
}

impl Virtual {
    pub fn new(drives: usize, size: u64, seed: u64) -> Virtual {
        let disk = |at| Disk::new(format!("disk{at}"), size, 4096, seed + at as u64);
        Virtual { env: VirtEnv::new(seed), disks: (0..drives).map(disk).collect(), model: None }
    }

    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.env.block_on(future)
    }
}

impl Drop for Virtual {
    fn drop(&mut self) {
        self.env.crash();
    }
}

impl World for Virtual {
    type Env = VirtEnv;
    fn env(&self) -> &VirtEnv {
        &self.env
    }
    fn kill(&self) {
        self.env.crash();
    }
    fn drives(&self) -> Vec<VirtDrive> {
        let attach = |disk: &Disk| match &self.model {
            None => VirtDrive::attach(&self.env, disk, Latency::SSD),
            Some(model) => {
                let model = model(disk.geometry().size);
                VirtDrive::attach(&self.env, disk, ModelPort::new(&self.env, model))
            }
        };
        self.disks.iter().map(attach).collect()
    }
}

pub struct Real {
    env: UringEnv,
    dir: tempfile::TempDir,
    drives: usize,
}

impl Real {
    pub fn new(drives: usize, size: u64, _seed: u64) -> Real {
        let dir = tempfile::tempdir().expect("a temporary directory");
        for at in 0..drives {
            create_file(dir.path().join(format!("d{at}.img")), size)
                .expect("space for test drives");
        }
        Real { env: UringEnv::new().expect("io_uring works here"), dir, drives }
    }

    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.env.block_on(future)
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        self.env.drop_tasks();
    }
}

impl World for Real {
    type Env = UringEnv;
    fn env(&self) -> &UringEnv {
        &self.env
    }
    fn kill(&self) {
        self.env.drop_tasks();
    }
    fn drives(&self) -> Vec<io::uring::RealDrive> {
        let open = |at| {
            let path = self.dir.path().join(format!("d{at}.img"));
            UringDrive::open(&self.env, &path, Access::ReadWrite).expect("free again").into()
        };
        (0..self.drives).map(open).collect()
    }
}

#[macro_export]
macro_rules! both_runtimes {
    ($name:ident, $drives:expr, $size:expr, $test:path) => {
        mod $name {
            use super::*;
            #[test]
            fn virtual_time() {
                let world = $crate::common::Virtual::new($drives, $size, 7);
                world.block_on($test(&world));
            }
            #[test]
            fn io_uring() {
                let world = $crate::common::Real::new($drives, $size, 7);
                world.block_on($test(&world));
            }
        }
    };
}

pub async fn make_pool<W: World>(world: &W, spec: &CreateSpec) -> Pool<W::Env> {
    let plan = create(world.env(), &world.drives(), spec).await.expect("the pool can be made");
    assert!(plan.usable_bytes > 0);
    open_pool(world).await
}

pub async fn open_pool<W: World>(world: &W) -> Pool<W::Env> {
    let opened = Pool::open(world.env(), world.drives(), OpenOptions::default()).await;
    opened.expect("the pool opens")
}

/// Bytes of a volume as they should be.
pub struct Mirror {
    pub bytes: Vec<u8>,
}

impl Mirror {
    pub fn new(size: u64) -> Mirror {
        Mirror { bytes: vec![0; size as usize] }
    }

    pub fn fill(&mut self, rng: &mut Rng, offset: u64, len: u64) -> io::Buf {
        let range = offset as usize..(offset + len) as usize;
        rng.fill(&mut self.bytes[range.clone()]);
        // As the NBD server does: the payload lies in memory as it lies in its pages.
        let lead = (offset % 4096) as usize;
        let mut buf = io::BufMut::zeroed(lead + len as usize);
        buf[lead..].copy_from_slice(&self.bytes[range]);
        buf.freeze().slice(lead..lead + len as usize)
    }

    pub fn zero(&mut self, offset: u64, len: u64) {
        self.bytes[offset as usize..(offset + len) as usize].fill(0);
    }
}

/// Reads the whole volume and compares.
pub async fn check_all<E: Env>(volume: &engine::Volume<E>, mirror: &Mirror, what: &str) {
    let step = 1 << 20;
    for start in (0..mirror.bytes.len()).step_by(step) {
        let len = step.min(mirror.bytes.len() - start);
        let pieces = volume.read(start as u64, len as u32).await.expect("readable");
        let mut at = start;
        for piece in pieces {
            let expected = &mirror.bytes[at..at + piece.len()];
            if *piece != *expected {
                let first = piece.iter().zip(expected).position(|(a, b)| a != b).unwrap();
                panic!("{what}: byte {} differs (sector {})", at + first, (at + first) / 512);
            }
            at += piece.len();
        }
        assert_eq!(at, start + len, "{what}: a read gives all its bytes");
    }
}

/// What all drives did together.
pub fn totals<E: Env>(pool: &Pool<E>) -> engine::DriveCounters {
    let mut sum = engine::DriveCounters::default();
    for drive in pool.status().drives {
        let counters = drive.counters;
        sum.reads += counters.reads;
        sum.writes += counters.writes;
        sum.flushes += counters.flushes;
        sum.read_bytes += counters.read_bytes;
        sum.write_bytes += counters.write_bytes;
    }
    sum
}

/// What all drives did since `before`.
pub fn since<E: Env>(pool: &Pool<E>, before: engine::DriveCounters) -> engine::DriveCounters {
    let now = totals(pool);
    engine::DriveCounters {
        reads: now.reads - before.reads,
        writes: now.writes - before.writes,
        flushes: now.flushes - before.flushes,
        read_bytes: now.read_bytes - before.read_bytes,
        write_bytes: now.write_bytes - before.write_bytes,
        ..now
    }
}

/// Opens the pool without the drives `gone`, read-only.
pub async fn open_without<W: World>(world: &W, gone: &[usize]) -> Pool<W::Env> {
    let drives = world.drives().into_iter().enumerate().filter(|(at, _)| !gone.contains(at));
    let drives = drives.map(|(_, drive)| drive).collect();
    let opened =
        Pool::open(world.env(), drives, OpenOptions { read_only: true, ..OpenOptions::default() })
            .await;
    opened.expect("the pool opens without some drives")
}

/// With any `lost` drives missing, every volume of the closed pool still holds its bytes: the
/// parity and the copies are what they should be.
pub async fn check_degraded<W: World>(world: &W, lost: usize, volumes: &[(&str, &Mirror)]) {
    let count = world.drives().len();
    for first in 0..count {
        let gone: Vec<usize> = (0..lost).map(|at| (first + at * (1 + first % 2)) % count).collect();
        let pool = open_without(world, &gone).await;
        for (name, mirror) in volumes {
            let volume = pool.volume(name).expect("it was made");
            check_all(&volume, mirror, &format!("{name} without drives {gone:?}")).await;
        }
        pool.close().await.expect("closes");
    }
}

pub async fn sleep<E: Env>(env: &E, millis: u64) {
    env.sleep_until(env.now() + io::Nanos::from_millis(millis)).await;
}
