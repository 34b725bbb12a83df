//! What happens to drives before anything is measured: they are trimmed or not, and they settle.
//!
//! ```text
//!   aged ─┬─ trimmed: every drive discarded whole, as `create` does ─┬─ settle ─ bare, at rest
//!         └─ untrimmed ──────────────────────────────────────────────┘              │
//!                         measured <─ at rest ─ settle ─ close ─ settle ─ make, fill ┘
//! ```
//! Invariants:
//! * Trimming and settling go through the drives' own interface, in virtual time, and are the same
//!   for every system.
//! * What is measured begins on drives that collect nothing, with an array that has nothing to do:
//!   the garbage of aging and filling is not booked to the measured seconds.
//!
//! What a modelled drive does when it is idle (`model::ssd::Collection`): with `idle_after` it
//! collects after so long a silence, until `high` superblocks are free, and stops as soon as it is
//! asked for anything. `dc-sata` does (0.5 ms; 8 superblocks); others collect only while they are
//! written to, and settle at once. Garbage beyond `high` stays where it is: an untrimmed drive is
//! still full after settling, and pays for it with the next writes.

use std::fmt;

use io::{Drive, Env, ModelCounters, Nanos, join_all};

use super::world::World;

/// Whether drives know what is free when an array is made on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trim {
    /// Discarded whole before, as `create` does (and who uses md, by `blkdiscard`).
    Trimmed,
    /// Never: what was on aged drives is copied at every collection.
    Untrimmed,
}

impl Trim {
    pub const BOTH: [Trim; 2] = [Trim::Trimmed, Trim::Untrimmed];

    pub fn name(self) -> &'static str {
        match self {
            Trim::Trimmed => "trimmed",
            Trim::Untrimmed => "untrimmed",
        }
    }
}

/// As headings say it of drives that settled.
impl fmt::Display for Trim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, settled", self.name())
    }
}

/// What a comparison is made on, as a command line says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum TrimChoice {
    /// One table each
    #[default]
    Both,
    /// Drives discarded whole before arrays are made on them, as 'create' does
    Yes,
    /// Drives that were never told what is free
    No,
}

impl TrimChoice {
    pub fn all(self) -> &'static [Trim] {
        match self {
            TrimChoice::Both => &Trim::BOTH,
            TrimChoice::Yes => &Trim::BOTH[..1],
            TrimChoice::No => &Trim::BOTH[1..],
        }
    }
}

impl fmt::Display for TrimChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            TrimChoice::Both => "both",
            TrimChoice::Yes => "yes",
            TrimChoice::No => "no",
        })
    }
}

/// Of benches that make one table.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
pub struct TrimFlag {
    /// On drives that were never told what is free; otherwise they are discarded whole before
    /// arrays are made on them, as 'create' does
    #[arg(long)]
    pub untrimmed: bool,
}

impl TrimFlag {
    pub fn trim(self) -> Trim {
        if self.untrimmed { Trim::Untrimmed } else { Trim::Trimmed }
    }
}

/// Bytes of one discard: as `create` discards.
const DISCARD_BYTES: u64 = 8 << 30;
/// How often drives are looked at while they settle.
const LOOK: Nanos = Nanos::from_millis(10);
/// Drives and array are settled after so long without work: twice the longest timer of background
/// work that has something to do (1 s: `engine::limits::SYNC_INTERVAL`, `schemes::pool::WATCH`).
const QUIET: Nanos = Nanos::from_secs(2);
/// Longest time to settle. Collecting up to `high` takes a `dc-sata` some seconds, and what schemes
/// do after they were filled some minutes.
const SETTLE_MAX: Nanos = Nanos::from_secs(600);

/// Discards everything on all drives at once.
pub async fn trim(world: &World) {
    let drives = world.drives();
    let discard = async |drive: &io::virt::VirtDrive| {
        let size = drive.geometry().size;
        for at in (0..size).step_by(DISCARD_BYTES as usize) {
            let done = drive.discard(at, DISCARD_BYTES.min(size - at)).await;
            done.expect("modelled drives take discards");
        }
    };
    join_all(drives.iter().map(discard)).await;
}

/// Lets time pass, nothing asked of the drives, until they collect nothing and whatever array is
/// open on them does nothing. Returns how long that took; fails after [`SETTLE_MAX`].
pub async fn settle(world: &World) -> Result<Nanos, String> {
    let env = &world.env;
    let began = env.now();
    // A drive that was aged and never asked for anything begins to collect after its first answer.
    for drive in world.drives() {
        drive.read(0, io::PAGE).await.expect("nothing is wrong with the drives");
    }
    let (mut last, mut quiet_since) = (work(&world.counters()), env.now());
    while env.now().saturating_sub(quiet_since) < QUIET {
        env.sleep_until(env.now() + LOOK).await;
        let now = work(&world.counters());
        if now != last || world.is_collecting() {
            (last, quiet_since) = (now, env.now());
        }
        if env.now().saturating_sub(began) > SETTLE_MAX {
            let what = if world.is_collecting() { "drives collect" } else { "the array works" };
            let seconds = SETTLE_MAX.0 / 1_000_000_000;
            return Err(format!("not settled: {what} after {seconds} s without requests"));
        }
    }
    Ok(env.now().saturating_sub(began))
}

/// What only work changes.
fn work(counters: &ModelCounters) -> [u64; 5] {
    let ModelCounters { submitted, host_write_bytes, flash_write_bytes, erases, .. } = *counters;
    [submitted, host_write_bytes, flash_write_bytes, erases, counters.collections]
}
