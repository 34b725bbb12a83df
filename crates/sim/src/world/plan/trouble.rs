//! What goes wrong with drives in a world, beside power and plugs.

use std::fmt;

use io::Nanos;
use io::rng::Rng;

use super::Plan;

/// One thing that goes wrong with one drive in one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Its name, for the reduction of worlds.
    pub number: usize,
    pub session: u64,
    pub drive: usize,
    /// Already while the pool is opened, not only once clients run.
    pub from_opening: bool,
    pub what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The `nth` write from then on fails, with any part of it done.
    WriteError {
        nth: u64,
    },
    ReadError {
        nth: u64,
    },
    FlushError {
        nth: u64,
    },
    /// The drive says no more than that it is gone.
    Dies {
        after: Nanos,
    },
    /// Everything takes so many times as long.
    Slow {
        factor: u64,
    },
}

impl What {
    /// True if data may be lost with it: only as many drives as the parity bears may have such
    /// trouble. Slowness may hit any.
    pub fn costs_redundancy(&self) -> bool {
        !matches!(self, What::Slow { .. })
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::WriteError { nth } => write!(f, "fails its {nth}. write"),
            What::ReadError { nth } => write!(f, "fails its {nth}. read"),
            What::FlushError { nth } => write!(f, "fails its {nth}. flush"),
            What::Dies { after } => write!(f, "dies after {} us", after.0 / 1000),
            What::Slow { factor } => write!(f, "is {factor} times slower"),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Trouble { number, drive, from_opening, what, .. } = self;
        let when = if *from_opening { "from the opening on, " } else { "" };
        write!(f, "trouble {number}: {when}drive {drive} {what}")
    }
}

fn draw_loss(rng: &mut Rng) -> What {
    match rng.below(6) {
        0 | 1 => What::WriteError { nth: 1 + rng.below(200) },
        2 | 3 => What::ReadError { nth: 1 + rng.below(100) },
        4 => What::FlushError { nth: 1 + rng.below(10) },
        _ => What::Dies { after: Nanos::from_micros(rng.below(100_000)) },
    }
}

fn draw_delay(rng: &mut Rng) -> What {
    What::Slow { factor: 2 << rng.below(5) }
}

/// Trouble for all sessions of a world.
pub(super) fn draw(plan: &mut Plan, rng: &mut Rng) {
    let delays = rng.chance(1, 3);
    for session in plan.sessions.clone() {
        let mut add = |drive, from_opening, what| {
            let number = plan.troubles.len() + 1;
            plan.troubles.push(Trouble { number, session, drive, from_opening, what });
        };
        for &victim in &plan.victims {
            if rng.chance(3, 4) {
                add(victim, rng.chance(1, 3), draw_loss(rng));
            }
        }
        if delays && rng.chance(1, 2) {
            let drive = rng.index(plan.drives);
            add(drive, rng.chance(1, 4), draw_delay(rng));
        }
    }
}
