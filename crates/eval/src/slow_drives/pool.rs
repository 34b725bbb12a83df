//! Pools whose drives are queues with a known fault: what `policy::slow` sees of them.
//!
//! ```text
//!   arrivals (open) ──> queue of four channels ──> answers ──> medians of half seconds
//!                           ^ collections, stalls of the host, the scene's slowness
//! ```

use io::rng::Rng;
use policy::learn;
use policy::slow::{Answers, PERIOD, Seen};

pub const SECOND: u64 = 1_000_000_000;
const MILLI: u64 = 1_000_000;
/// Requests that a drive carries out at a time: an SSD under random reads has at least these.
const CHANNELS: usize = 4;
/// What a request takes by itself (ns): a flash page's read, a write to the drive's buffer.
const READ: u64 = 90_000;
const WRITE: u64 = 30_000;
/// Collections: so long at most (FusionRAID §2.3: 3.8 ms on average), so often.
const COLLECTION: u64 = 8 * MILLI;
const COLLECTIONS_PER_SECOND: u64 = 3;
/// Load alternates: so long (ns) each.
const PHASE: u64 = 5 * SECOND;

/// What is wrong with the slow drive, from [`BEGINS`] to [`ENDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slowness {
    None,
    /// So much (ns) on top of every request.
    Constant(u64),
    /// From nothing to so much, over the whole time.
    Ramp(u64),
    /// So much, for `on` of every `every` (ns).
    Bursts {
        add: u64,
        on: u64,
        every: u64,
    },
    /// Requests take so many times as long while the load is high.
    UnderLoad(u64),
    /// Requests take so many times as long.
    Times(u64),
}

/// What happens to all drives, or to any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Noise {
    Quiet,
    /// All drives stop together, up to 0.5 s long, every other second on average.
    HostStalls,
    /// Any one drive stops for 50 to 300 ms, four times a second in a pool.
    Neighbours,
    /// Every request of every drive takes up to 20 ms more.
    Shared,
    /// One drive has six times the load of the others, more than it can carry out at times.
    Hot,
    /// Every request of any one drive takes 20 ms more for one to four seconds, every eight on
    /// average in a pool of seven.
    Episodes,
    /// The same of any two drives at once, for 0.3 to 1.5 s, twice a second in a pool of seven.
    Pairs,
    /// Every request takes more by itself: mostly little, and up to 0.1 s.
    Tails,
}

/// What episodes add (ns).
const EPISODE: u64 = 20 * MILLI;

pub const BEGINS: u64 = 10 * SECOND;
pub const ENDS: u64 = 50 * SECOND;
pub const LENGTH: u64 = 70 * SECOND;

#[derive(Clone, Copy, Debug)]
pub struct Scene {
    pub name: &'static str,
    pub slowness: Slowness,
    pub noise: Noise,
    /// Requests a second of each drive; a quarter of that in a low phase.
    pub rate: u64,
    /// How many drives are slow, if any is, and how many the pool can do without.
    pub slow: usize,
    pub parity: usize,
}

/// One drive of a pool.
struct Drive {
    free: [u64; CHANNELS],
    /// When it stops (ns), in order.
    stops: Vec<(u64, u64)>,
    /// When requests take [`EPISODE`] more.
    episodes: Vec<(u64, u64)>,
    /// Of each period, latencies of reads and of writes.
    answers: Vec<[Vec<u64>; 2]>,
    /// When the oldest that is awaited at the end of each period arrived.
    awaited: Vec<Option<u64>>,
}

/// The drives of a pool that are slow.
pub fn slow_drives(scene: &Scene, drives: usize, seed: u64) -> Vec<usize> {
    let slow = if scene.slowness == Slowness::None { 0 } else { scene.slow };
    (0..slow).map(|at| (seed as usize + at) % drives).collect()
}

/// By period, what is seen of each drive.
pub fn record(scene: &Scene, drives: usize, seed: u64) -> Vec<Vec<Seen>> {
    let mut rng = Rng::new(seed);
    let shared = stops_of_all(scene.noise, drives, &mut rng);
    let episodes = episodes_of_all(scene.noise, drives, &mut rng);
    let slow = slow_drives(scene, drives, seed);
    let hot_one = (seed as usize + 1) % drives;
    let run = |at: usize| {
        let mut rng = Rng::new(seed * 1000 + at as u64 + 1);
        let mut stops = shared[at].clone();
        let count = COLLECTIONS_PER_SECOND * LENGTH / SECOND;
        stops.extend((0..count).map(|_| stop(&mut rng, 0, COLLECTION)));
        stops.sort_unstable();
        let slowness = if slow.contains(&at) { scene.slowness } else { Slowness::None };
        let hot = scene.noise == Noise::Hot && at == hot_one;
        Drive::new(stops, episodes[at].clone()).run(
            scene,
            slowness,
            if hot { 6 } else { 1 },
            &mut rng,
        )
    };
    let all: Vec<Vec<Seen>> = (0..drives).map(run).collect();
    let periods = (LENGTH / PERIOD) as usize;
    (0..periods).map(|period| all.iter().map(|drive| drive[period]).collect()).collect()
}

fn stop(rng: &mut Rng, least: u64, most: u64) -> (u64, u64) {
    let begin = rng.below(LENGTH);
    (begin, begin + least + rng.below(most - least))
}

fn stops_of_all(noise: Noise, drives: usize, rng: &mut Rng) -> Vec<Vec<(u64, u64)>> {
    let mut all = vec![Vec::new(); drives];
    match noise {
        Noise::HostStalls => {
            let stalls = LENGTH / SECOND / 2;
            let stalls: Vec<_> = (0..stalls).map(|_| stop(rng, 20 * MILLI, 500 * MILLI)).collect();
            all.iter_mut().for_each(|own| own.clone_from(&stalls));
        }
        Noise::Neighbours => {
            for _ in 0..4 * LENGTH / SECOND {
                let at = rng.index(drives);
                all[at].push(stop(rng, 50 * MILLI, 300 * MILLI));
            }
        }
        _ => {}
    }
    all
}

fn episodes_of_all(noise: Noise, drives: usize, rng: &mut Rng) -> Vec<Vec<(u64, u64)>> {
    let mut all = vec![Vec::new(); drives];
    let pools_of_seven = |every: u64| LENGTH / every * drives as u64 / 7;
    match noise {
        Noise::Episodes => {
            for _ in 0..pools_of_seven(8 * SECOND) {
                all[rng.index(drives)].push(stop(rng, SECOND, 4 * SECOND));
            }
        }
        Noise::Pairs => {
            for _ in 0..pools_of_seven(SECOND / 2) {
                let (span, at) = (stop(rng, 300 * MILLI, 1500 * MILLI), rng.index(drives));
                let other = (at + 1 + rng.index(drives - 1)) % drives;
                [at, other].into_iter().for_each(|at| all[at].push(span));
            }
        }
        _ => {}
    }
    all
}

fn is_high(at: u64) -> bool {
    at / PHASE % 2 == 1
}

impl Slowness {
    /// How long a request takes that takes so long by itself.
    fn take(self, at: u64, alone: u64) -> u64 {
        if !(BEGINS..ENDS).contains(&at) {
            return alone;
        }
        match self {
            Slowness::None => alone,
            Slowness::Constant(add) => alone + add,
            Slowness::Ramp(most) => {
                alone
                    + (u128::from(most) * u128::from(at - BEGINS) / u128::from(ENDS - BEGINS))
                        as u64
            }
            Slowness::Bursts { add, on, every } => alone + if at % every < on { add } else { 0 },
            Slowness::UnderLoad(times) => alone * if is_high(at) { times } else { 1 },
            Slowness::Times(times) => alone * times,
        }
    }
}

impl Drive {
    fn new(stops: Vec<(u64, u64)>, episodes: Vec<(u64, u64)>) -> Drive {
        let periods = (LENGTH / PERIOD) as usize;
        Drive {
            free: [0; CHANNELS],
            stops,
            episodes,
            answers: vec![[Vec::new(), Vec::new()]; periods],
            awaited: vec![None; periods],
        }
    }

    fn run(mut self, scene: &Scene, slowness: Slowness, load: u64, rng: &mut Rng) -> Vec<Seen> {
        let (mut at, mut next_stop) = (0, 0);
        while at < LENGTH {
            let rate = scene.rate * load / if is_high(at) { 1 } else { 4 };
            // Uniform gaps of the right mean: between regular and random.
            at += rng.below(2 * SECOND / rate) + 1;
            let kind = rng.index(2);
            let alone = [READ, WRITE][kind];
            let alone = alone + rng.below(alone);
            let is_in = |&(from, end): &(u64, u64)| (from..end).contains(&at);
            let noise = match scene.noise {
                Noise::Shared => rng.below(20 * MILLI),
                Noise::Tails => 100 * MILLI / (1 + rng.below(1000)),
                _ if self.episodes.iter().any(is_in) => EPISODE,
                _ => 0,
            };
            let took = slowness.take(at, alone) + noise;
            self.carry_out(at, kind, took, &mut next_stop);
        }
        (0..self.answers.len()).map(|period| self.seen(period)).collect()
    }

    fn carry_out(&mut self, at: u64, kind: usize, took: u64, next_stop: &mut usize) {
        // What is added is a wait of each by itself; only the request's own work is in a channel.
        let channel = (0..CHANNELS).min_by_key(|&channel| self.free[channel]).unwrap_or(0);
        let mut begin = at.max(self.free[channel]);
        while self.stops.get(*next_stop).is_some_and(|&(_, end)| end <= at) {
            *next_stop += 1;
        }
        for &(from, end) in &self.stops[*next_stop..] {
            if from > begin {
                break;
            }
            begin = begin.max(end);
        }
        let done = begin + took;
        self.free[channel] = begin + took.min(10 * READ);
        let (first, last) = ((at / PERIOD) as usize, (done / PERIOD) as usize);
        let end = last.min(self.awaited.len());
        for awaited in self.awaited.iter_mut().take(end).skip(first) {
            *awaited = Some(awaited.map_or(at, |oldest| oldest.min(at)));
        }
        if let Some(answers) = self.answers.get_mut(last) {
            answers[kind].push(done - at);
        }
    }

    fn seen(&mut self, period: usize) -> Seen {
        let end = (period as u64 + 1) * PERIOD;
        let answers = |all: &mut Vec<u64>| {
            let median = learn::median(all)?;
            Some(Answers { count: all.len() as u32, median })
        };
        let [reads, writes] = &mut self.answers[period];
        let silent = self.awaited[period].map_or(0, |oldest| end - oldest);
        let (reads, writes) = (answers(reads), answers(writes));
        let silent = if reads.is_some() || writes.is_some() { 0 } else { silent };
        Seen { reads, writes, silent, class: 0, noise: learn::SSD.least }
    }
}
