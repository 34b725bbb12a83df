//! What a world is like: the pool, its volumes, its clients and its dangers, from one seed.
//!
//! Seeds keep their worlds: what is drawn otherwise than before gets a range of seeds of its own
//! (see [`Generation`]), so that a seed that once failed can be looked at for ever.

pub(super) mod day;
mod first;
mod reduction;
mod swarm;
mod tails;
mod trouble;

use std::collections::BTreeSet;
use std::fmt;

use engine::{ConversionPolicy, CreateError, CreateSpec, SpikeHandling, plan_create};
use io::Geometry;
use io::faulty::Kind;
use io::rng::{Rng, mix};

pub use reduction::{Part, Reduction};
pub use trouble::{LAST_SESSION, Trouble};

pub const MIB: u64 = 1 << 20;

/// How worlds are drawn from seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// Seeds below 1,000: safety and liveness in one.
    First,
    /// Below 10,000: the same worlds with full pools and crowded blocks.
    FullPools,
    /// Below 30,000: many small worlds, faults of every kind, modelled drives, safety and
    /// liveness as separate runs, all randomness by session.
    Swarm,
    /// Below 900,000: as before, with drives that hang for long or are slow throughout, and all
    /// that is there for them; but from 500,000 to 520,000 too many drives are gone at times
    /// (`Plan::shelf`), in worlds of the kind before, from 700,000 to 780,000 one drive rots
    /// (`Plan::rots`), and from there to 800,000 one is put back (`Plan::stale`), in worlds of the
    /// kind before. From there on these two take turns, and below a million lost drives come back
    /// or are replaced (`Plan::returns`); as they do from 600,000 to 650,000, where drives that
    /// work are exchanged, too (`Plan::exchanges`).
    Tails,
}

/// Seeds of worlds in which a drive does not keep what it was given.
const ROTS: std::ops::Range<u64> = 700_000..780_000;
/// Seeds of worlds in which an image of before takes a drive's place, again and again.
const STALE: std::ops::Range<u64> = 780_000..800_000;
/// Seeds of worlds in which too many drives are gone at once, for a while.
const SHELF: std::ops::Range<u64> = 500_000..520_000;
/// Seeds of worlds in which lost drives come back or are replaced, and how far apart the seeds are
/// from which such a world is drawn: an even number, beyond all others.
const RETURNS: std::ops::Range<u64> = 900_000..1_000_000;
const RETURNS_STEP: u64 = 1 << 40;
/// Seeds of worlds in which drives that work are exchanged as well; drawn in the same way.
const EXCHANGES: std::ops::Range<u64> = 600_000..650_000;
/// Seeds of worlds whose drives differ in size, and to which drives join.
const JOINS: std::ops::Range<u64> = 800_000..850_000;
/// Seeds of worlds that are the same, and drives join pools in use as well.
const JOINS_IN_USE: std::ops::Range<u64> = 650_000..700_000;
/// Such worlds have no more drives in the beginning: they get more.
const JOINS_DRIVES_MOST: usize = 8;
/// Seeds of worlds in which drives stay away and the others take over what they held; drawn in the
/// same way.
const REBUILDS: std::ops::Range<u64> = 850_000..900_000;

impl Generation {
    pub fn of(seed: u64) -> Generation {
        match seed {
            0..1_000 => Generation::First,
            1_000..10_000 => Generation::FullPools,
            10_000..30_000 => Generation::Swarm,
            _ if ROTS.contains(&seed) || SHELF.contains(&seed) => Generation::Swarm,
            // These two take turns.
            600_000..650_000 if seed.is_multiple_of(2) => Generation::Swarm,
            30_000..850_000 => Generation::Tails,
            // As above.
            850_000..900_000 if seed.is_multiple_of(2) => Generation::Swarm,
            850_000..900_000 => Generation::Tails,
            _ if seed.is_multiple_of(2) => Generation::Swarm,
            _ => Generation::Tails,
        }
    }
}

/// What is to be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// Anything may happen within the promised redundancy, nothing may be wrong.
    Safety,
    /// Then faults stop: everything must finish, and the pool become as whole as it can.
    Liveness,
}

/// How the pool places data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// FusionRAID: replicated first, RAID later.
    Fusion,
}

impl Scheme {
    pub const ALL: [Scheme; 1] = [Scheme::Fusion];
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scheme::Fusion => "fusion",
        })
    }
}

/// How full the volumes make the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Small volumes: what matters is crashes, not space.
    Calm,
    /// Volumes near the usable size: conversion, compaction and throttling never rest.
    Pressure,
    /// More than the pool can hold: writes end in `NoSpace`.
    OverCommitted,
}

#[derive(Clone, Debug)]
pub struct VolumePlan {
    pub name: String,
    pub bytes: u64,
    pub parity: u8,
    pub width: u16,
}

/// How often clients do what, in parts of the sum.
#[derive(Clone, Debug)]
pub struct Mix {
    pub small: u64,
    pub page: u64,
    pub block: u64,
    pub stripe: u64,
    pub sequential: u64,
    pub read: u64,
    pub trim: u64,
    pub zeroes: u64,
    pub flush: u64,
    /// Writes with FUA, in percent.
    pub fua: u64,
    /// Requests that go to the first eighth of a volume, in percent.
    pub hot: u64,
    /// Bytes that hot requests fall into; 0: the first eighth.
    pub hot_bytes: u64,
    /// Longest read, and longest trim or zeroes apart from a few.
    pub long_bytes: u64,
    /// Longest pause between requests.
    pub think_micros: u64,
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub generation: Generation,
    pub run: Run,
    pub scheme: Scheme,
    pub drives: usize,
    pub drive_bytes: u64,
    /// Drives take the time that models of SSDs take; otherwise times drawn at random.
    pub modelled: bool,
    pub spec: CreateSpec,
    pub volumes: Vec<VolumePlan>,
    pub fill: Fill,
    pub clients: usize,
    pub mix: Mix,
    /// Volumes are written from end to end before anything else: without that, few requests
    /// ever meet a full pool, and compaction hardly runs.
    pub prefill: bool,
    /// Sessions by number, from 1. A number stands for what happens in it.
    pub sessions: Vec<u64>,
    /// Requests of each client in one session.
    pub requests: usize,
    /// Drives that may fail, be pulled out, come back. Never more than every parity bears.
    pub victims: Vec<usize>,
    /// Whether drives that are lost come back, or others take their places.
    pub returns: bool,
    /// A drive that does not keep what it was given.
    pub rots: Option<usize>,
    /// More drives than parity stands for are gone at times, and there when the machine starts.
    pub shelf: bool,
    /// A drive that has what it held before when the machine starts again, at times.
    pub stale: Option<usize>,
    /// Drives that are larger than others, and by how much.
    pub larger: Vec<usize>,
    pub larger_by: u64,
    /// Whether drives join, and zones move to them.
    pub joins: bool,
    /// Whether they do so while the pool is used.
    pub joins_in_use: bool,
    /// Whether drives that work are exchanged for others.
    pub exchanges: bool,
    /// Whether others take over what lost drives held, so that more may be lost.
    pub rebuilds: bool,
    /// What goes wrong with drives, beside power and plugs.
    pub troubles: Vec<Trouble>,
    /// Whether deaths hit also while a pool is being opened.
    pub deaths_in_opening: bool,
    /// Whether machines die at all, or close their pools.
    pub deaths: bool,
    /// Whether volumes are deleted.
    pub deletes: bool,
    /// Another schedule of the same events.
    pub salt: u64,
    pub tails: Tails,
}

/// What only worlds of long tails have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tails {
    /// What the pool does about spikes.
    pub spikes: SpikeHandling,
    /// Volumes of a full pool are of different classes, which take zones from each other.
    pub competing: bool,
    /// Whether volumes get limits at times,
    pub limited: bool,
    /// and grow while they are used.
    pub grows: bool,
    /// Whether pools are looked at, opened read-only, before they are opened.
    pub looks: bool,
    /// Any drive may hesitate, more of them than the parity bears.
    pub any_may_hesitate: bool,
}

impl Mix {
    /// The parts in the order in which clients know them.
    pub fn parts(&self) -> [u64; 9] {
        let Mix { small, page, block, stripe, sequential, read, trim, zeroes, flush, .. } = *self;
        [small, page, block, stripe, sequential, read, trim, zeroes, flush]
    }

    pub fn sum(&self) -> u64 {
        self.parts().iter().sum()
    }
}

/// The smallest drives that `create` accepts.
fn least_bytes(drives: usize, spec: &CreateSpec) -> Result<u64, CreateError> {
    let mut size = 8 * MIB;
    loop {
        match plan_create(&alike(drives, size), spec) {
            Ok(_) => return Ok(size),
            Err(CreateError::DriveTooSmall { least, .. }) => {
                size = least.next_multiple_of(MIB).max(size + MIB);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Drives of one size, as `plan_create` wants them.
pub fn alike(drives: usize, size: u64) -> Vec<(String, Geometry)> {
    let geometry = Geometry { size, align: 4096, atomic: 512, rotational: false };
    (0..drives).map(|at| (format!("d{at}"), geometry)).collect()
}

fn draw_shape(rng: &mut Rng, drives: usize, parity_most: u64) -> (u8, u16) {
    loop {
        let parity = 1 + rng.below(parity_most) as u16;
        let width = parity + 1 + rng.below(6) as u16;
        let fits =
            usize::from(width) <= drives && layout::Layout::new(drives, width.into()).is_ok();
        if fits && layout::StripeShape::new(width, parity as u8).is_ok() {
            return (parity as u8, width);
        }
    }
}

fn draw_spec(rng: &mut Rng, drives: usize) -> CreateSpec {
    let parity_most = if drives >= 4 { 2 } else { 1 };
    let (parity, width) = draw_shape(rng, drives, parity_most);
    let mut spec = CreateSpec::new("sim");
    spec.parity = parity;
    spec.width = Some(width);
    spec.block_size = [4 << 10, 16 << 10, 64 << 10][rng.index(3)];
    spec.replicated_percent = [2, 5, 10, 10, 30][rng.index(5)];
    let eager = rng.chance(1, 2);
    spec.conversion = if eager { ConversionPolicy::Eager } else { ConversionPolicy::Lazy };
    spec
}

impl Plan {
    pub fn from_seed(seed: u64) -> Plan {
        if ROTS.contains(&seed) {
            return Plan::draw_rot(seed);
        }
        if SHELF.contains(&seed) {
            return Plan { shelf: true, rots: None, run: Run::Safety, ..Plan::draw_rot(seed) };
        }
        if STALE.contains(&seed) {
            let plan = Plan::draw_rot(seed);
            return Plan { stale: plan.rots, rots: None, run: Run::Safety, ..plan };
        }
        let joins_in_use = JOINS_IN_USE.contains(&seed);
        if JOINS.contains(&seed) || joins_in_use {
            return Plan { joins_in_use, ..Plan::draw_joins(seed) };
        }
        if REBUILDS.contains(&seed) {
            let drawn = (1..).map(|again| Plan::draw(seed + again * RETURNS_STEP));
            let plan = drawn.into_iter().find(|plan| !plan.victims.is_empty() && plan.is_wide());
            let plan = plan.expect("every other world has victims, and many have drives to spare");
            return Plan { seed, returns: true, rebuilds: true, ..plan };
        }
        // By the seed alone: what else there is in the world stays as it was.
        let checksums = !mix(seed ^ 0x50d5).is_multiple_of(8);
        let exchanges = EXCHANGES.contains(&seed);
        if !RETURNS.contains(&seed) && !exchanges {
            let mut plan = Plan::draw(seed);
            plan.spec.checksums = checksums;
            return plan;
        }
        // A world in which drives may be lost.
        let drawn = (1..).map(|again| Plan::draw(seed + again * RETURNS_STEP));
        let plan = drawn.into_iter().find(|plan| !plan.victims.is_empty());
        let mut plan = plan.expect("every other world has victims");
        plan.spec.checksums = checksums;
        Plan { seed, returns: true, exchanges, ..plan }
    }

    /// Nothing else goes wrong that costs redundancy, nor hangs: a client's flush does without a
    /// drive that does.
    fn draw_rot(seed: u64) -> Plan {
        let mut plan = Plan { victims: Vec::new(), ..Plan::draw(seed) };
        let may_stay = |trouble: &Trouble| {
            let kind = trouble.entry.fault.effect.kind();
            matches!(kind, Kind::Delay | Kind::Slow)
        };
        plan.troubles.retain(may_stay);
        plan.rots = Some((mix(seed) % plan.drives as u64) as usize);
        plan
    }

    /// A small world whose drives differ, and do not stay alone.
    fn draw_joins(seed: u64) -> Plan {
        let mut rng = Rng::new(mix(seed) ^ 0x901d);
        let drawn = (1..).map(|again| swarm::draw(seed + again * RETURNS_STEP));
        let suits = |plan: &Plan| !plan.modelled && plan.drives <= JOINS_DRIVES_MOST;
        let plan = drawn.into_iter().find(suits).expect("most worlds are small");
        let mut all: Vec<usize> = (0..plan.drives).collect();
        rng.shuffle(&mut all);
        all.truncate(if rng.chance(1, 2) { rng.index(plan.drives + 1) } else { 0 });
        let larger_by = (1 + rng.below(12)) * 4 * MIB;
        // Some more zones than the fewest: one can be emptied while others hold what it held.
        let drive_bytes = plan.drive_bytes + rng.below(8) * 4 * MIB;
        Plan { seed, drive_bytes, larger: all, larger_by, joins: true, ..plan }
    }

    /// There are more drives than any stripe needs.
    fn is_wide(&self) -> bool {
        let widths = self.volumes.iter().map(|volume| volume.width).chain(self.spec.width);
        widths.max().is_some_and(|widest| self.drives > usize::from(widest))
    }

    fn draw(seed: u64) -> Plan {
        match Generation::of(seed) {
            Generation::Swarm => swarm::draw(seed),
            Generation::Tails => tails::draw(seed),
            generation => first::draw(seed, generation),
        }
    }

    /// Bytes of volumes that the pool can hold at its own shape.
    fn usable_bytes(&self) -> u64 {
        let drives = alike(self.drives, self.drive_bytes);
        plan_create(&drives, &self.spec).expect("least_bytes found it").usable_bytes
    }

    /// Drives that any volume can do without.
    pub(super) fn parity_least(&self) -> u8 {
        let volumes = self.volumes.iter().map(|volume| volume.parity).min();
        volumes.unwrap_or(1).min(self.spec.parity)
    }

    /// Beside all drives that ever hang there are enough for the copies of a block.
    fn has_quick_copies(&self) -> bool {
        let hangs = |trouble: &&Trouble| trouble.entry.fault.effect.kind() == Kind::Hang;
        let hanging: BTreeSet<usize> =
            self.troubles.iter().filter(hangs).map(|trouble| trouble.drive).collect();
        let parity = self.volumes.iter().map(|volume| volume.parity).max();
        let copies = 1 + usize::from(parity.unwrap_or(0).max(self.spec.parity));
        self.drives >= hanging.len() + copies
    }

    /// Requests stay quick whatever happens in the world: spikes are bypassed, at no time more
    /// drives misbehave than the parity bears and copies can do without (world 31611), no writes
    /// are held back for the last of a copy, and there is space: what dies is not used again until
    /// every drive has flushed.
    pub fn is_flat(&self) -> bool {
        let Tails { spikes, limited, any_may_hesitate, .. } = self.tails;
        let roomy = self.fill == Fill::Calm && !self.modelled;
        let roomy = roomy && !self.rebuilds && !self.exchanges && !self.joins_in_use;
        let roomy = roomy && self.has_quick_copies();
        spikes == SpikeHandling::default() && roomy && !limited && !any_may_hesitate
    }

    /// One line about the world.
    pub fn describe(&self) -> String {
        let Plan { seed, run, scheme, drives, spec, fill, clients, requests, .. } = self;
        let volumes: Vec<String> = self
            .volumes
            .iter()
            .map(|v| {
                format!("{} KiB {}+{}", v.bytes >> 10, v.width - u16::from(v.parity), v.parity)
            })
            .collect();
        format!(
            "seed {seed}: {run:?}, {scheme}, {drives} {} of {} MiB, {}+{} in {} KiB blocks, \
             {:?}, area {} %, {fill:?}, volumes [{}], {clients} clients, sessions {:?} of \
             {requests} requests, victims {:?}, {} troubles",
            if self.modelled { "modelled drives" } else { "drives" },
            self.drive_bytes >> 20,
            spec.width.unwrap_or(0) - u16::from(spec.parity),
            spec.parity,
            spec.block_size >> 10,
            spec.conversion,
            spec.replicated_percent,
            volumes.join(", "),
            self.sessions,
            self.victims,
            self.troubles.len(),
        ) + &self.describe_tails()
    }

    fn describe_tails(&self) -> String {
        if self.joins {
            let (larger, by) = (&self.larger, self.larger_by >> 20);
            return format!(", drives {larger:?} larger by {by} MiB, drives join");
        }
        match self.generation {
            Generation::Tails => format!(", {:?}", self.tails),
            _ => String::new(),
        }
    }
}
