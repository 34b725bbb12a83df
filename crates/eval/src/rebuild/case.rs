//! One rebuild: a drive is lost, and everything becomes redundant again, beside requests or alone.

use std::cell::RefCell;
use std::rc::Rc;

use engine::{OpenOptions, SpikeHandling};
use futures_util::future::join;
use io::{Env, ModelCounters, Nanos};

use crate::array::fusion::Fusion;
use crate::array::load::{Arrivals, Load, Pending, Sizes, Span, Stream, Until, play_counted};
use crate::array::served::{Served, Speed};
use crate::array::stand::Stand;
use crate::array::tally::Tally;
use crate::array::world::World;
use crate::array::{Array, System};

/// Requests, of one size, anywhere in the array.
#[derive(Clone, Copy, Debug)]
pub struct Demand {
    /// Requests a second; none: nobody is there.
    pub rate: u64,
    pub bytes: u64,
    pub read_percent: u64,
}

/// What is measured, and how long: before the loss, at most until all is redundant again, after.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub warmup: Nanos,
    pub before: Nanos,
    pub during_max: Nanos,
    pub after: Nanos,
}

#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub system: System,
    /// Of filling a drive that takes the lost one's place. A pool has its own pace.
    pub speed: Speed,
    /// The drive that is lost.
    pub lost: usize,
    pub demand: Demand,
    pub times: Times,
    pub seed: u64,
}

/// What happened.
pub struct Outcome {
    pub case: Case,
    /// How the drives work together.
    pub shape: String,
    /// User bytes stored.
    pub stored: u64,
    /// Before, during, after; the last is empty if it was not over in time.
    pub phases: [Tally; 3],
    /// From the loss to full redundancy.
    pub took: Nanos,
    pub is_over: bool,
    /// Requests were answered as they came. Where they were not, it was not waited for the end.
    pub keeps_up: bool,
    /// Bytes of the lost drive that were written elsewhere.
    pub restored: u64,
    /// Bytes that it was to be; 0 of a pool, which does not tell.
    pub whole: u64,
    /// What each drive read and wrote meanwhile, for requests and for the rebuild.
    pub drives: Vec<(u64, u64)>,
    pub trouble: Option<String>,
}

/// How often it is looked whether it is over.
const LOOK: Nanos = Nanos::from_millis(10);

/// Requests under way beside a rebuild. Those that come are not held back: of an array that can't
/// answer them there would be more and more for ever, and its rebuild waits behind them.
const UNDER_WAY_MAX: usize = 1 << 16;

/// An array that loses a drive.
enum Kept {
    Fusion(Rc<Fusion>),
    Served(Served),
}

impl Case {
    /// In a world of its own: the same case has the same outcome.
    pub fn run(&self, stand: &Stand) -> Result<Outcome, String> {
        let demand = (self.demand.rate > 0).then_some(|size: u64| self.stream(size));
        self.begin(stand, demand)
    }

    /// Under a load in place of the demand; it is told how large the array is.
    pub fn run_under<L: Load>(
        &self,
        stand: &Stand,
        load: impl FnOnce(u64) -> L,
    ) -> Result<Outcome, String> {
        self.begin(stand, Some(load))
    }

    fn begin<L: Load>(
        &self,
        stand: &Stand,
        load: Option<impl FnOnce(u64) -> L>,
    ) -> Result<Outcome, String> {
        let world = stand.of(self.system)?.wake(self.seed);
        world.env.block_on(self.measure(stand, &world, load))
    }

    async fn open(&self, stand: &Stand, world: &World) -> (Kept, Rc<dyn Array>, String) {
        if let Some(spikes) = self.system.spikes() {
            let fusion = Rc::new(open_pool(world, spikes).await);
            let status = fusion.pool.status();
            let shape = format!("{} wide over {} drives", status.width, status.drives.len());
            return (Kept::Fusion(fusion.clone()), fusion, shape);
        }
        let opened = stand.open(self.system, world).await;
        let shape = opened.shape();
        (Kept::Served(opened.served.expect("a scheme")), opened.array, shape)
    }

    async fn measure<L: Load>(
        &self,
        stand: &Stand,
        world: &World,
        load: Option<impl FnOnce(u64) -> L>,
    ) -> Result<Outcome, String> {
        let (kept, array, shape) = self.open(stand, world).await;
        let load = load.map(|load| Until::new(load(array.size())));
        let tally = Rc::new(RefCell::new(Tally::default()));
        let pending = Pending::default();
        let story = async {
            let told = self.tell(world, &kept, &tally, &pending).await;
            load.iter().for_each(Until::end);
            told
        };
        let told = match &load {
            None => story.await,
            Some(load) => {
                let streams = [(load.clone(), tally.clone())];
                let times = &self.times;
                let measured = Nanos(times.before.0 + times.during_max.0 + times.after.0);
                let span = Span { warmup: times.warmup, measured };
                join(play_counted(world, &array, &streams, span, &pending, || {}), story).await.1
            }
        };
        Ok(Outcome { shape, stored: array.size(), trouble: kept.trouble(), ..told? })
    }

    /// What happens while requests are played into the tally.
    async fn tell(
        &self,
        world: &World,
        kept: &Kept,
        tally: &RefCell<Tally>,
        pending: &Pending,
    ) -> Result<Outcome, String> {
        let Times { warmup, before, during_max, after } = self.times;
        let sleep = |span: Nanos| world.env.sleep_until(world.env.now() + span);
        sleep(warmup).await;
        tally.take();
        sleep(before).await;
        let first = tally.take();
        let (drives, margin, began) = (world.each_counters(), kept.margin(), world.env.now());
        kept.lose(self, world).await?;
        let mut lacking = 0;
        let keeps_up = || pending.count() <= UNDER_WAY_MAX;
        let is_over = || kept.margin() >= margin;
        while !is_over() && keeps_up() && world.env.now() < began + during_max {
            lacking = kept.lacking().max(lacking);
            sleep(LOOK).await;
        }
        let (is_over, keeps_up) = (is_over(), keeps_up());
        let took = world.env.now().saturating_sub(began);
        let restored = kept.restored().unwrap_or(lacking - kept.lacking());
        let (second, drives) = (tally.take(), since(&drives, &world.each_counters()));
        if is_over {
            sleep(after).await;
        }
        let phases = [first, second, tally.take()];
        let (case, shape, stored, trouble) = (*self, String::new(), 0, None);
        let whole = lacking;
        Ok(Outcome {
            case,
            shape,
            stored,
            phases,
            took,
            is_over,
            keeps_up,
            restored,
            whole,
            drives,
            trouble,
        })
    }

    fn stream(&self, size: u64) -> Stream {
        let Demand { rate, bytes, read_percent } = self.demand;
        Stream {
            arrivals: Arrivals::Poisson,
            rate,
            read_percent,
            reads: Sizes::one(bytes),
            writes: Sizes::one(bytes),
            first: 0,
            span: size / bytes * bytes,
            seed: self.seed,
        }
    }
}

/// The others take over at once what a drive held: no hot spare is waited for either.
async fn open_pool(world: &World, spikes: SpikeHandling) -> Fusion {
    let rebuild_after = Some(Nanos::ZERO);
    Fusion::open_with(world, OpenOptions { spikes, rebuild_after, ..OpenOptions::default() }).await
}

impl Kept {
    fn margin(&self) -> usize {
        match self {
            Kept::Fusion(fusion) => usize::from(fusion.pool.status().redundancy_margin),
            Kept::Served(served) => served.margin(),
        }
    }

    /// The drive is lost; a spare takes its place if there is one.
    async fn lose(&self, case: &Case, world: &World) -> Result<(), String> {
        let place = case.lost;
        match self {
            Kept::Fusion(fusion) => {
                let failed = fusion.pool.drive_fail(place as u16, "it is lost", false).await;
                failed.map_err(|error| error.to_string())
            }
            Kept::Served(served) => {
                let gone = served.write_off(place, case.speed).await;
                gone.map_err(|error| error.to_string())?;
                match world.drives().into_iter().nth(served.drives()) {
                    Some(spare) => {
                        let replaced = served.replace(place, spare).await;
                        replaced.map_err(|error| error.to_string())
                    }
                    None => Ok(()),
                }
            }
        }
    }

    /// Bytes still to be written to a drive in the lost one's place.
    fn lacking(&self) -> u64 {
        match self {
            Kept::Fusion(_) => 0,
            Kept::Served(served) => served.lacking(),
        }
    }

    /// Bytes that were given other places, where no drive is filled.
    fn restored(&self) -> Option<u64> {
        match self {
            Kept::Fusion(fusion) => {
                let status = fusion.pool.status();
                Some(status.counters.rebuilt_blocks * u64::from(status.block_size))
            }
            Kept::Served(_) => None,
        }
    }

    fn trouble(&self) -> Option<String> {
        match self {
            Kept::Fusion(fusion) => fusion.pool.status().failed,
            Kept::Served(served) => served.trouble(),
        }
    }
}

/// Bytes that each drive has read and written since.
fn since(before: &[ModelCounters], now: &[ModelCounters]) -> Vec<(u64, u64)> {
    let each = now.iter().zip(before);
    let bytes = |(now, before): (&ModelCounters, &ModelCounters)| {
        let read = now.host_read_bytes - before.host_read_bytes;
        (read, now.host_write_bytes - before.host_write_bytes)
    };
    each.map(bytes).collect()
}

impl Outcome {
    /// The most that a surviving drive read, and wrote, over their mean.
    pub fn balance(&self) -> (f64, f64) {
        let rest = || self.drives.iter().enumerate().filter(|(at, _)| *at != self.case.lost);
        let over_mean = |bytes: fn(&(u64, u64)) -> u64| {
            let each: Vec<u64> = rest().map(|(_, drive)| bytes(drive)).collect();
            let sum: u64 = each.iter().sum();
            let most = each.iter().max().copied().unwrap_or(0);
            most as f64 * each.len() as f64 / sum.max(1) as f64
        };
        (over_mean(|drive| drive.0), over_mean(|drive| drive.1))
    }

    /// Seconds until everything is redundant; if it was not waited for, at the pace so far.
    pub fn seconds(&self) -> f64 {
        let seconds = self.took.0 as f64 / 1e9;
        if self.is_over { seconds } else { seconds * self.whole as f64 / self.restored as f64 }
    }

    /// Bytes a second that were restored.
    pub fn rate(&self) -> f64 {
        self.restored as f64 * 1e9 / self.took.0.max(1) as f64
    }
}
