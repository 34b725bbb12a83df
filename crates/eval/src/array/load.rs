//! Requests that come when they come (open loop), whether the array keeps up or not; and a
//! closed loop to find out what it can do.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use io::faulty::Delay;
use io::rng::Rng;
use io::sync::Event;
use io::virt::VirtEnv;
use io::{Buf, Env, Nanos, Origins};

use super::Array;
use super::tally::Tally;
use super::watch::Watch;
use super::world::World;

/// When requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// Each independent of the others.
    Poisson,
    /// In bursts of [`BURST`] on average, as much silence of twice that between them: three times
    /// the rate, then nothing.
    Bursty,
    /// In a burst of this length once in every so long, as a Poisson stream whose rate is that in
    /// the burst; the first begins after half of the rest.
    Periodic { every: Nanos, burst: Nanos },
}

/// Mean length of a burst; both lengths are exponential.
const BURST: Nanos = Nanos::from_millis(20);
/// Rate within a burst, as a multiple of the mean.
const BURST_FACTOR: u64 = 3;

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Arrivals::Poisson => "poisson",
            Arrivals::Bursty => "bursty",
            Arrivals::Periodic { .. } => "periodic",
        })
    }
}

/// Bytes of a request, and how likely that is: parts of the sum.
#[derive(Clone, Debug)]
pub struct Sizes(pub Vec<(u64, u64)>);

impl Sizes {
    pub fn one(bytes: u64) -> Sizes {
        Sizes(vec![(bytes, 1)])
    }

    fn draw(&self, rng: &mut Rng) -> u64 {
        let mut drawn = rng.below(self.0.iter().map(|(_, weight)| weight).sum());
        for &(bytes, weight) in &self.0 {
            if drawn < weight {
                return bytes;
            }
            drawn -= weight;
        }
        unreachable!("drawn below the sum")
    }

    fn largest(&self) -> u64 {
        self.0.iter().map(|&(bytes, _)| bytes).max().unwrap_or(0)
    }
}

/// One stream of requests. It follows from its seed and not from the array.
#[derive(Clone, Debug)]
pub struct Stream {
    pub arrivals: Arrivals,
    /// Requests a second on average.
    pub rate: u64,
    pub read_percent: u64,
    pub reads: Sizes,
    pub writes: Sizes,
    /// Part of the array it uses: first byte and bytes. Offsets are multiples of the size.
    pub first: u64,
    pub span: u64,
    pub seed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Since the beginning of the stream.
    pub at: Nanos,
    pub read: bool,
    pub offset: u64,
    pub len: u64,
}

/// How an array is asked for requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// A write is answered when it is durable (O_SYNC).
    pub durably: bool,
    /// A request is asked for in parts that end at multiples of so many bytes, each when the one
    /// before it is answered.
    pub parts: Option<u64>,
}

impl Asked {
    /// Where the parts of a request begin, and their bytes.
    fn parts(self, offset: u64, len: u64) -> impl Iterator<Item = (u64, u64)> {
        let step = self.parts.unwrap_or(u64::MAX);
        let end = offset + len;
        let mut at = offset;
        std::iter::from_fn(move || {
            let here = (step - at % step).min(end - at);
            let part = (here > 0).then_some((at, here));
            at += here;
            part
        })
    }
}

/// A load whose requests are asked for in a way of its own.
#[derive(Clone)]
pub struct AskedSo<L>(pub L, pub Asked);

impl<L: Load> Load for AskedSo<L> {
    fn requests(&self) -> Box<dyn Iterator<Item = Request>> {
        self.0.requests()
    }

    fn largest_write(&self) -> u64 {
        self.0.largest_write()
    }

    fn asked(&self) -> Asked {
        self.1
    }
}

/// What can be played.
pub trait Load: Clone + 'static {
    fn requests(&self) -> Box<dyn Iterator<Item = Request>>;
    fn largest_write(&self) -> u64;

    fn asked(&self) -> Asked {
        Asked::default()
    }

    /// Bytes that it writes in a stretch of time.
    fn written(&self, span: Span) -> u64 {
        let end = span.warmup + span.measured;
        let requests = self.requests().take_while(|request| request.at < end);
        let counted = requests.filter(|request| request.at >= span.warmup && !request.read);
        counted.map(|request| request.len).sum()
    }
}

impl Load for Stream {
    fn requests(&self) -> Box<dyn Iterator<Item = Request>> {
        Box::new(Stream::requests(self))
    }

    fn largest_write(&self) -> u64 {
        self.writes.largest()
    }
}

/// A load that ends when somebody says so.
#[derive(Clone)]
pub struct Until<L> {
    load: L,
    over: Rc<Cell<bool>>,
}

impl<L> Until<L> {
    pub fn new(load: L) -> Until<L> {
        Until { load, over: Rc::default() }
    }

    /// No request comes after the next.
    pub fn end(&self) {
        self.over.set(true);
    }
}

impl<L: Load> Load for Until<L> {
    fn requests(&self) -> Box<dyn Iterator<Item = Request>> {
        let over = self.over.clone();
        Box::new(self.load.requests().take_while(move |_| !over.get()))
    }

    fn largest_write(&self) -> u64 {
        self.load.largest_write()
    }

    fn asked(&self) -> Asked {
        self.load.asked()
    }
}

impl Stream {
    pub fn requests(&self) -> impl Iterator<Item = Request> + use<> {
        let mut clock = Clock::new(self.arrivals, self.rate, self.seed);
        let mut rng = Rng::new(self.seed ^ 1);
        let stream = self.clone();
        std::iter::from_fn(move || {
            let at = clock.next();
            let read = rng.chance(stream.read_percent, 100);
            let len = if read { &stream.reads } else { &stream.writes }.draw(&mut rng);
            let offset = stream.first + rng.below(stream.span / len) * len;
            Some(Request { at, read, offset, len })
        })
    }
}

/// The times of arrivals.
struct Clock {
    arrivals: Arrivals,
    gap: Delay,
    rng: Rng,
    now: Nanos,
    /// Of the present burst.
    end: Nanos,
}

impl Clock {
    fn new(arrivals: Arrivals, rate: u64, seed: u64) -> Clock {
        let rate = if arrivals == Arrivals::Bursty { rate * BURST_FACTOR } else { rate };
        let gap = Delay::Exponential { mean: Nanos(1_000_000_000 / rate.max(1)) };
        Clock { arrivals, gap, rng: Rng::new(seed), now: Nanos::ZERO, end: Nanos::ZERO }
    }

    fn next(&mut self) -> Nanos {
        let mut next = self.now + self.gap.draw(&mut self.rng);
        if self.arrivals == Arrivals::Bursty {
            while next > self.end {
                // Exponential gaps have no memory: the next burst starts afresh.
                let silence = Delay::Exponential { mean: Nanos(BURST.0 * (BURST_FACTOR - 1)) };
                let begin = self.end + silence.draw(&mut self.rng);
                let length = Delay::Exponential { mean: BURST }.draw(&mut self.rng);
                self.end = begin + length;
                next = begin + self.gap.draw(&mut self.rng);
            }
        }
        if let Arrivals::Periodic { every, burst } = self.arrivals {
            next = self.within_bursts(next, every, burst);
        }
        self.now = next;
        next
    }

    /// A time, or one in the next burst if it is in none.
    fn within_bursts(&mut self, time: Nanos, every: Nanos, burst: Nanos) -> Nanos {
        let lead = (every.0 - burst.0) / 2;
        let (round, at) = (time.0 / every.0, time.0 % every.0);
        let begin = match at {
            _ if at < lead => round * every.0 + lead,
            _ if at >= lead + burst.0 => (round + 1) * every.0 + lead,
            _ => return time,
        };
        let next = Nanos(begin) + self.gap.draw(&mut self.rng);
        if next.0 < begin + burst.0 { next } else { self.within_bursts(next, every, burst) }
    }
}

/// How long to run before measuring, and how long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    pub warmup: Nanos,
    pub measured: Nanos,
}

/// Counts what is under way, and wakes who waits for the last one.
#[derive(Clone, Default)]
pub struct Pending {
    count: Rc<Cell<usize>>,
    over: Event,
}

impl Pending {
    pub(super) fn begin(&self) {
        self.count.set(self.count.get() + 1);
    }

    pub(super) fn end(&self) {
        self.count.set(self.count.get() - 1);
        if self.count.get() == 0 {
            self.over.notify_all();
        }
    }

    /// Requests that came and are not answered, and those who play them.
    pub fn count(&self) -> usize {
        self.count.get()
    }

    pub(super) async fn wait(&self) {
        while self.count.get() > 0 {
            self.over.wait().await;
        }
    }
}

/// Plays streams at once, each into its tally, and waits until every request is answered. What
/// comes in the warm-up is not counted; `begin` is called when it is over.
pub async fn play<L: Load>(
    world: &World,
    array: &Rc<dyn Array>,
    streams: &[(L, Rc<RefCell<Tally>>)],
    span: Span,
    begin: impl FnOnce(),
) {
    play_counted(world, array, streams, span, &Pending::default(), begin).await;
}

/// The same; another may look how much is under way.
pub async fn play_counted<L: Load>(
    world: &World,
    array: &Rc<dyn Array>,
    streams: &[(L, Rc<RefCell<Tally>>)],
    span: Span,
    pending: &Pending,
    begin: impl FnOnce(),
) {
    for (stream, tally) in streams {
        pending.begin();
        let player =
            Player { pending: pending.clone(), ..Player::new(world, array, stream, tally) };
        let (stream, pending) = (stream.clone(), pending.clone());
        world.env.spawn(async move {
            player.play(&stream, span).await;
            pending.end();
        });
    }
    world.env.sleep_until(world.env.now() + span.warmup).await;
    begin();
    pending.wait().await;
}

#[derive(Clone)]
struct Player {
    env: VirtEnv,
    watch: Watch,
    array: Rc<dyn Array>,
    tally: Rc<RefCell<Tally>>,
    zeroes: Buf,
    start: Nanos,
    pending: Pending,
    asked: Asked,
}

impl Player {
    fn new(
        world: &World,
        array: &Rc<dyn Array>,
        load: &impl Load,
        tally: &Rc<RefCell<Tally>>,
    ) -> Player {
        Player {
            env: world.env.clone(),
            watch: world.watch.clone(),
            array: array.clone(),
            tally: tally.clone(),
            zeroes: Buf::zeroed(load.largest_write() as usize),
            start: world.env.now(),
            pending: Pending::default(),
            asked: load.asked(),
        }
    }

    async fn play(&self, load: &impl Load, span: Span) {
        let end = span.warmup + span.measured;
        for request in load.requests().take_while(|request| request.at < end) {
            self.env.sleep_until(self.start + request.at).await;
            let counted = request.at >= span.warmup;
            self.pending.begin();
            let player = self.clone();
            self.env.spawn(async move {
                player.perform(request, counted).await;
                player.pending.end();
            });
        }
    }

    async fn perform(&self, request: Request, counted: bool) {
        let Some(book) = &self.watch.book else { return self.answer(request, counted).await };
        let (origin, begin) = (book.begin(), self.env.now());
        self.env.on_behalf(Origins::one(origin), self.answer(request, counted)).await;
        book.end(origin, begin, self.env.now(), counted.then_some(request));
    }

    async fn answer(&self, request: Request, counted: bool) {
        let begin = self.env.now();
        let Request { read, offset, len, .. } = request;
        let mut done = Ok(());
        for (offset, len) in self.asked.parts(offset, len) {
            let zeroes = || self.zeroes.slice(0..len as usize);
            let part = match (read, self.asked.durably) {
                (true, _) => self.array.read(offset, len).await.map(|_| ()),
                (false, false) => self.array.write(offset, zeroes()).await,
                (false, true) => self.array.write_durably(offset, zeroes()).await,
            };
            done = done.and(part);
        }
        if counted {
            let now = self.env.now();
            self.tally.borrow_mut().record(&self.watch, read, begin, now, done.is_ok());
        }
    }
}

/// Keeps `depth` requests of the stream under way.
pub async fn closed(
    world: &World,
    array: &Rc<dyn Array>,
    (stream, tally): (&impl Load, &Rc<RefCell<Tally>>),
    depth: usize,
    span: Span,
) {
    let player = Player::new(world, array, stream, tally);
    let requests = Rc::new(RefCell::new(Load::requests(stream)));
    let begin = world.env.now() + span.warmup;
    let end = begin + span.measured;
    for _ in 0..depth {
        player.pending.begin();
        let (player, requests) = (player.clone(), requests.clone());
        world.env.spawn(async move {
            while player.env.now() < end {
                let next = requests.borrow_mut().next();
                let Some(request) = next else { break };
                let counted = player.env.now() >= begin;
                player.perform(request, counted).await;
            }
            player.pending.end();
        });
    }
    player.pending.wait().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(arrivals: Arrivals) -> Stream {
        Stream {
            arrivals,
            rate: 10_000,
            read_percent: 70,
            reads: Sizes::one(4096),
            writes: Sizes(vec![(4096, 3), (65536, 1)]),
            first: 1 << 20,
            span: 1 << 30,
            seed: 1,
        }
    }

    #[test]
    fn arrivals_have_their_rate_and_bursts_their_silence() {
        for arrivals in [Arrivals::Poisson, Arrivals::Bursty] {
            let requests: Vec<Request> = stream(arrivals).requests().take(200_000).collect();
            let seconds = requests[requests.len() - 1].at.0 as f64 / 1e9;
            assert!((18.5..21.5).contains(&seconds), "{arrivals}: {seconds} s");
            let mut empty = 0;
            let mut at = 0;
            for milli in 0..10_000 {
                let end = Nanos::from_millis(milli + 1);
                let before = at;
                while requests[at].at < end {
                    at += 1;
                }
                empty += u64::from(at == before);
            }
            // A millisecond of a Poisson stream is empty with a chance of e^-10.
            let most = if arrivals == Arrivals::Poisson { 0..10 } else { 5_000..7_500 };
            assert!(most.contains(&empty), "{arrivals}: {empty} milliseconds without a request");
        }
    }

    #[test]
    fn periodic_bursts_come_on_time_at_their_rate() {
        let (every, burst) = (Nanos::from_millis(500), Nanos::from_millis(100));
        let periodic = stream(Arrivals::Periodic { every, burst });
        let requests: Vec<Request> =
            periodic.requests().take_while(|request| request.at < Nanos::from_secs(10)).collect();
        let inside = |request: &Request| (200..300).contains(&(request.at.0 / 1_000_000 % 500));
        assert!(requests.iter().all(inside));
        // Twenty bursts of a thousand.
        assert!((19_500..20_500).contains(&requests.len()), "{}", requests.len());
        assert!(requests.is_sorted_by_key(|request| request.at));
    }

    #[test]
    fn parts_of_a_request_end_at_multiples_and_are_all_of_it() {
        let parts = |parts, offset, len| -> Vec<(u64, u64)> {
            Asked { parts, ..Asked::default() }.parts(offset, len).collect()
        };
        assert_eq!(parts(None, 5, 100), [(5, 100)]);
        assert_eq!(parts(Some(8), 5, 14), [(5, 3), (8, 8), (16, 3)]);
        assert_eq!(parts(Some(8), 8, 8), [(8, 8)]);
    }

    #[test]
    fn a_stream_is_mixed_as_asked_and_stays_in_its_span() {
        let requests: Vec<Request> = stream(Arrivals::Poisson).requests().take(10_000).collect();
        let reads = requests.iter().filter(|request| request.read).count();
        let small = requests.iter().filter(|request| request.len == 4096).count();
        assert!((6_850..7_150).contains(&reads), "{reads}");
        // All reads, and three of four writes.
        assert!((9_150..9_350).contains(&small), "{small}");
        let bounds = 1 << 20..(1 << 20) + (1 << 30);
        let fits = |r: &Request| bounds.contains(&r.offset) && r.offset + r.len <= bounds.end;
        assert!(requests.iter().all(fits));
    }
}
