//! A closed loop of requests against a volume: `depth` of them always in flight.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use engine::{RequestError, Volume};
use hdrhistogram::Histogram;
use io::mem::MemDrive;
use io::rng::Rng;
use io::slice::SLICE_WORK_MAX;
use io::uring::{RealDrive, UringEnv};
use io::{Buf, BufMut, Drive, Durability, Env, Nanos};

/// Longest latency that histograms tell apart, in nanoseconds.
const LATENCY_MAX: u64 = 600_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
    /// Write with FUA.
    Durable,
    /// Read the whole page round the request, then write the whole page: what a partial page
    /// would cost if the engine kept no sector-granular patches.
    PageUpdate,
}

/// Memory drives whose pages are all there: the first touch of a page costs more than any
/// request, and is not what a benchmark of ours is about.
pub async fn memory_drives(count: usize, size: u64) -> Vec<RealDrive> {
    const STEP: u64 = 1 << 20;
    let zeroes = Buf::zeroed(STEP as usize);
    let mut drives = Vec::new();
    for at in 0..count {
        let drive = MemDrive::new(format!("mem:{at}"), size, 4096);
        for offset in (0..size).step_by(STEP as usize) {
            let len = STEP.min(size - offset) as usize;
            let done = drive.write(offset, zeroes.slice(0..len), Durability::Cached).await;
            done.expect("memory drives take what fits them");
        }
        drives.push(RealDrive::from(drive));
    }
    drives
}

/// One load. Sizes in bytes, offsets are random multiples of `align`.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub kind: Kind,
    pub bytes: u64,
    pub align: u64,
    pub depth: usize,
    pub requests: u64,
    /// Part of the volume that is used.
    pub span: u64,
    pub seed: u64,
}

pub struct Outcome {
    pub requests: u64,
    pub nanos: u64,
    pub latencies: Histogram<u64>,
}

impl Outcome {
    pub fn per_second(&self) -> f64 {
        self.requests as f64 * 1e9 / self.nanos.max(1) as f64
    }

    pub fn micros(&self, quantile: f64) -> f64 {
        self.latencies.value_at_quantile(quantile) as f64 / 1e3
    }
}

struct Shared {
    left: Cell<u64>,
    rng: RefCell<Rng>,
    latencies: RefCell<Histogram<u64>>,
}

/// Random bytes that every write of a load shares; nothing in the engine depends on content.
fn payload(bytes: u64, seed: u64) -> Buf {
    let mut buf = BufMut::with_len(bytes as usize);
    Rng::new(seed).fill(&mut buf);
    buf.freeze()
}

pub async fn run<E: Env>(env: &E, volume: &Volume<E>, load: Load) -> Outcome {
    let histogram = Histogram::new_with_max(LATENCY_MAX, 3).expect("valid bounds");
    let shared = Rc::new(Shared {
        left: Cell::new(load.requests),
        rng: RefCell::new(Rng::new(load.seed)),
        latencies: RefCell::new(histogram),
    });
    let data = payload(load.bytes, load.seed);
    let begin = env.now();
    let lanes = (0..load.depth).map(|_| lane(env, volume, load, shared.clone(), data.clone()));
    let done = Rc::new(Cell::new(0));
    let event = io::sync::Event::new();
    let count = load.depth;
    for lane in lanes {
        let (done, event) = (done.clone(), event.clone());
        env.spawn(async move {
            lane.await;
            done.set(done.get() + 1);
            event.notify_all();
        });
    }
    while done.get() < count {
        event.wait().await;
    }
    let nanos = env.now().saturating_sub(begin).0;
    let latencies = shared.latencies.borrow().clone();
    Outcome { requests: load.requests, nanos, latencies }
}

fn lane<E: Env>(
    env: &E,
    volume: &Volume<E>,
    load: Load,
    shared: Rc<Shared>,
    data: Buf,
) -> impl Future<Output = ()> + 'static {
    let (env, volume) = (env.clone(), volume.clone());
    async move {
        while shared.left.get() > 0 {
            shared.left.set(shared.left.get() - 1);
            let places = (load.span - load.bytes) / load.align + 1;
            let offset = shared.rng.borrow_mut().below(places) * load.align;
            let begin = env.now();
            request(&volume, load, offset, &data).await;
            let took = env.now().saturating_sub(begin).0;
            shared.latencies.borrow_mut().saturating_record(took);
            // Memory drives complete at once: let the other lanes and the background run, as they
            // do beside clients, each of whose requests is a task.
            env.yield_now().await;
        }
    }
}

async fn request<E: Env>(volume: &Volume<E>, load: Load, offset: u64, data: &Buf) {
    let done = match load.kind {
        Kind::Read => volume.read(offset, load.bytes as u32).await.map(|_| ()),
        Kind::Write => volume.write(offset, data.clone(), false).await,
        Kind::Durable => volume.write(offset, data.clone(), true).await,
        Kind::PageUpdate => page_update(volume, offset, data).await,
    };
    if let Err(error) = done {
        panic!("{:?} of {} bytes at {offset}: {error}", load.kind, load.bytes);
    }
}

async fn page_update<E: Env>(
    volume: &Volume<E>,
    offset: u64,
    data: &Buf,
) -> Result<(), RequestError> {
    const PAGE: u64 = io::PAGE as u64;
    let start = offset / PAGE * PAGE;
    let len = (offset + data.len() as u64 - start).next_multiple_of(PAGE) as usize;
    let mut page = BufMut::with_len(len);
    let mut at = 0;
    for piece in volume.read(start, len as u32).await? {
        page[at..at + piece.len()].copy_from_slice(&piece);
        at += piece.len();
    }
    let lead = (offset - start) as usize;
    page[lead..lead + data.len()].copy_from_slice(data);
    volume.write(start, page.freeze(), false).await
}

/// Fills `span` bytes of a volume with full stripes.
pub async fn fill<E: Env>(volume: &Volume<E>, span: u64, step: u64) {
    let data = payload(step, 1);
    let mut at = 0;
    while at < span {
        let len = step.min(span - at);
        let done = volume.write(at, data.slice(0..len as usize), false).await;
        done.unwrap_or_else(|error| panic!("filling at {at}: {error}"));
        at += len;
    }
}

pub fn seconds(nanos: Nanos) -> f64 {
    nanos.0 as f64 / 1e9
}

/// For each kind of work how long it had the thread: its longest slice, and the one in a thousand.
pub fn longest_slices(env: &UringEnv) -> String {
    let slices = env.slices();
    let some = slices.iter().filter(|(_, slices)| slices.count > 0);
    let told = some.map(|(work, slices)| {
        let [longest, p999] = [slices.max_nanos, slices.p999_nanos].map(|nanos| nanos / 1000);
        format!("{} {longest} ({p999})", work.name())
    });
    told.collect::<Vec<_>>().join(", ")
}

/// For each kind of work the most of it in one slice, as counted. Unlike times it is exact, so that
/// more than its bound is a fault of the engine, and not of a busy machine.
pub fn most_work(env: &UringEnv) -> String {
    let work = env.most_work();
    for (work, most) in work {
        assert!(most <= SLICE_WORK_MAX, "{}: {most} units in one slice", work.name());
    }
    let some = work.iter().filter(|(_, most)| *most > 0);
    some.map(|(work, most)| format!("{} {most}", work.name())).collect::<Vec<_>>().join(", ")
}
