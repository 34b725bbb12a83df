//! One measurement: a system, a load, a slow drive.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::rc::Rc;

use engine::Counters;
use hdrhistogram::Histogram;
use io::Nanos;
use io::faulty::{Delay, Effect, Entry, Fault, Ramp, Schedule, When};

use crate::array::System;
use crate::array::load::{Arrivals, Sizes, Stream, play};
use crate::array::prepare::Trim;
use crate::array::saturated::{DEPTH_EACH, saturate};
use crate::array::stand::{Regions, Stand};
use crate::array::tally::Tally;
use crate::array::world::World;

pub use crate::array::load::Span as Timing;

/// Reads, writes, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Read,
    Write,
    Mixed,
}

impl Kind {
    fn read_percent(self) -> u64 {
        match self {
            Kind::Read => 100,
            Kind::Write => 0,
            Kind::Mixed => 70,
        }
    }
}

/// What is wrong with one drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Member {
    Fine,
    /// By so many milliseconds on 1 % of its operations.
    Delayed(u64),
    /// Every operation takes ten times as long.
    Slow,
    /// Answers nothing for a second, once.
    Hang,
    /// The same, again and again.
    Hangs,
}

impl Member {
    pub const ALL: [Member; 7] = [
        Member::Fine,
        Member::Delayed(1),
        Member::Delayed(10),
        Member::Delayed(100),
        Member::Slow,
        Member::Hang,
        Member::Hangs,
    ];

    /// What happens to the drive, and when, since the warm-up's end. What lasts throughout has
    /// begun before: with the warm-up.
    fn schedule(self, timing: Timing) -> Schedule {
        let throughout = |fault: Fault| vec![Entry { when: When::At(Nanos::ZERO), fault }];
        let hang = |at: Nanos| Entry {
            when: When::At(timing.warmup + at),
            fault: Fault::new(Effect::Hang(None)).lasting(HANG),
        };
        let entries = match self {
            Member::Fine => Vec::new(),
            Member::Delayed(millis) => {
                let delay = Delay::Constant(Nanos::from_millis(millis));
                throughout(Fault::new(Effect::Delay(delay)).with_chance(DELAYED_PER_MILLION))
            }
            Member::Slow => {
                let ramp = Ramp { percent_per_second: u32::MAX, percent_max: SLOW_PERCENT };
                throughout(Fault::new(Effect::Slow(ramp)))
            }
            Member::Hang => vec![hang(HANG)],
            Member::Hangs => {
                let times = timing.measured.0 / HANG_EVERY.0;
                (0..times).map(|n| hang(Nanos(HANG.0 + n * HANG_EVERY.0))).collect()
            }
        };
        Schedule { entries }
    }
}

const DELAYED_PER_MILLION: u32 = 10_000;
const SLOW_PERCENT: u32 = 1000;
const HANG: Nanos = Nanos::from_secs(1);
const HANG_EVERY: Nanos = Nanos::from_secs(3);
/// The drive that something is wrong with; any would do.
const SLOW_DRIVE: usize = 3;

#[derive(Clone, Copy, Debug)]
pub struct Cell {
    pub drives: usize,
    /// As the drives of the stand that it is run on.
    pub trim: Trim,
    pub kind: Kind,
    pub bytes: u64,
    pub arrivals: Arrivals,
    /// Requests a second.
    pub rate: u64,
    pub timing: Timing,
    pub member: Member,
    pub system: System,
    pub seed: u64,
}

/// What was measured.
pub struct Outcome {
    pub cell: Cell,
    pub latencies: Histogram<u64>,
    pub failed: u64,
    /// What the engine counted while it was measured.
    pub counters: Option<Counters>,
    tally: Tally,
    regions: Option<Regions>,
}

impl Cell {
    /// Runs it in a world of its own: the same cell has the same outcome.
    pub fn run(&self, stand: &Stand) -> Result<Outcome, String> {
        assert_eq!(stand.trim(), self.trim, "the cell says what it is run on");
        let world = stand.of(self.system)?.wake(self.seed);
        let (tally, counters) = world.env.block_on(self.measure(stand, &world));
        let latencies = tally.all();
        let (failed, regions) = (tally.failed, stand.regions(self.system));
        Ok(Outcome { cell: *self, latencies, failed, counters, tally, regions })
    }

    async fn measure(&self, stand: &Stand, world: &World) -> (Tally, Option<Counters>) {
        let opened = stand.open(self.system, world).await;
        let schedule = self.member.schedule(self.timing);
        let now = io::Env::now(&world.env);
        world.faults(SLOW_DRIVE).follow(now, &schedule).expect("valid faults");
        let tally = Rc::new(RefCell::new(Tally::default()));
        let streams = [(self.stream(opened.array.size()), tally.clone())];
        let before = RefCell::new(None);
        let counted = || opened.fusion.as_ref().map(|fusion| fusion.pool.counters());
        play(world, &opened.array, &streams, self.timing, || {
            before.replace(counted());
        })
        .await;
        let counters = counted().zip(before.take()).map(|(now, before)| since(now, before));
        (tally.take(), counters)
    }

    fn stream(&self, size: u64) -> Stream {
        Stream {
            arrivals: self.arrivals,
            rate: self.rate,
            read_percent: self.kind.read_percent(),
            reads: Sizes::one(self.bytes),
            writes: Sizes::one(self.bytes),
            first: 0,
            span: size / self.bytes * self.bytes,
            seed: self.seed,
        }
    }
}

/// Of what matters here, the difference.
fn since(now: Counters, before: Counters) -> Counters {
    Counters {
        redirected_writes: now.redirected_writes - before.redirected_writes,
        redirected_reads: now.redirected_reads - before.redirected_reads,
        reconstructed_reads: now.reconstructed_reads - before.reconstructed_reads,
        hedged_reads: now.hedged_reads - before.hedged_reads,
        hedged_writes: now.hedged_writes - before.hedged_writes,
        hedged_journal_blocks: now.hedged_journal_blocks - before.hedged_journal_blocks,
        hedge_wins: now.hedge_wins - before.hedge_wins,
        hedges_refused: now.hedges_refused - before.hedges_refused,
        conversions: now.conversions - before.conversions,
        compacted_stripes: now.compacted_stripes - before.compacted_stripes,
        checkpoints: now.checkpoints - before.checkpoints,
        space_waits: now.space_waits - before.space_waits,
        ..now
    }
}

impl Outcome {
    pub fn nanos(&self, quantile: f64) -> u64 {
        self.latencies.value_at_quantile(quantile)
    }

    /// What the requests slower than all but 0.1 % waited for.
    pub fn why(&self) -> String {
        let slow = (self.cell.member != Member::Fine).then_some(SLOW_DRIVE);
        let limit = self.nanos(0.999);
        let region = |at| self.regions.map_or("a place", |regions| regions.name(at));
        let mut text = String::new();
        for (what, reason) in self.tally.reasons(limit, slow, region) {
            let mean = |nanos: u64| nanos as f64 / reason.count as f64 / 1e6;
            let _ = writeln!(
                text,
                "    {:>6} x {what}: {:.2} ms before it, {:.2} ms in it; longest {:.2} ms",
                reason.count,
                mean(reason.before_nanos),
                mean(reason.operation_nanos),
                reason.max_nanos as f64 / 1e6
            );
        }
        if let Some(counters) = self.counters {
            let _ = writeln!(
                text,
                "    redirected {} writes {} reads; rebuilt {}; hedged {} reads {} writes {} \
                 journal blocks, won {}, refused {}; {} conversions, {} stripes compacted, {} \
                 checkpoints, {} waits for space",
                counters.redirected_writes,
                counters.redirected_reads,
                counters.reconstructed_reads,
                counters.hedged_reads,
                counters.hedged_writes,
                counters.hedged_journal_blocks,
                counters.hedge_wins,
                counters.hedges_refused,
                counters.conversions,
                counters.compacted_stripes,
                counters.checkpoints,
                counters.space_waits
            );
        }
        text
    }
}

/// Writes: about a third of what the slowest of the systems sustains, requests a second
/// (`eval tail --capacity`). Reads of 64 KiB: a sixth, because round a slow drive each costs as
/// many reads as a stripe has data; at a third, what is measured is the queues at the other
/// drives (docs/results-tail.md has both). Reads of 4 KiB: a tenth, so that a run takes seconds.
pub fn moderate_rate(drives: usize, kind: Kind, bytes: u64) -> u64 {
    let small = bytes <= 16 << 10;
    let of_eight = match (kind, small) {
        (Kind::Read, true) => 50_000,
        (Kind::Read, false) => 9_000,
        (Kind::Write, true) => 20_000,
        (Kind::Write, false) => 1_300,
        (Kind::Mixed, true) => 30_000,
        (Kind::Mixed, false) => 3_500,
    };
    of_eight * drives as u64 / 8
}

pub fn print_capacity(stand: &Stand, cell: &Cell, systems: &[System]) -> Result<(), String> {
    let Cell { drives, trim, kind, bytes, .. } = *cell;
    println!("{drives} drives, {trim}, {kind} of {} KiB:", bytes >> 10);
    for &system in systems {
        let load = |size| cell.stream(size);
        let saturated = saturate(stand, system, cell.seed, cell.timing, load)?;
        let depth = DEPTH_EACH * drives;
        let rate = saturated.answered as f64 * 1e9 / cell.timing.measured.0 as f64;
        println!("  {system:<14} {rate:>10.0} requests/s, {depth} under way");
    }
    Ok(())
}
