//! How full a pool is, why that matters, and what to do about it.
//!
//! ```text
//! used     0 ─────────────── 90 % ───────── 95 % ──────── 98 % ──────── 100 %
//!            enough          │ low          │ very low     │ refused, if writes were
//!            slowed: writes wait while room is made
//! ```
//! Beyond `enough` there is a reason and an action; from `low` on an event, and `status` ends
//! with 1. Slowed are also writes of a burst, while there is much room: that passes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Health, Pool, Space};
use crate::size::Size;

/// Where other arrays and filesystems warn, too.
const LOW_PERCENT: u64 = 90;
const VERY_LOW_PERCENT: u64 = 95;
/// A refusal of long ago is news no more when there is more room than this.
const FULL_PERCENT: u64 = 98;
/// So much less has to be used before it is said that there is more room again.
const CALM_PERCENT: u64 = 2;

#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Capacity {
    #[default]
    Enough,
    /// Writes wait for space to be made.
    Slowed,
    Low,
    VeryLow,
    /// Writes were refused, and there is no room.
    Refused,
}

/// What decides that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Bytes of users' data, and how many more there can be.
    pub used: u64,
    pub available: u64,
    /// Writes that got ENOSPC since the pool was opened.
    pub refusals: u64,
    pub slowed: bool,
}

impl Fill {
    pub fn percent(&self) -> u64 {
        percent(self.used, self.available)
    }

    pub fn capacity(&self) -> Capacity {
        self.capacity_at(self.percent())
    }

    /// The same as long as not much more is free than when `told` was said.
    pub fn capacity_after(&self, told: Capacity) -> Capacity {
        let now = self.capacity();
        if now >= told { now } else { self.capacity_at(self.percent() + CALM_PERCENT).min(told) }
    }

    fn capacity_at(&self, percent: u64) -> Capacity {
        match percent {
            FULL_PERCENT.. if self.refusals > 0 => Capacity::Refused,
            VERY_LOW_PERCENT.. => Capacity::VeryLow,
            LOW_PERCENT.. => Capacity::Low,
            _ if self.slowed => Capacity::Slowed,
            _ => Capacity::Enough,
        }
    }

    /// For people, if there is something to say.
    pub fn reason(&self, capacity: Capacity) -> Option<String> {
        let (percent, left) = (self.percent(), Size(self.available));
        let used = format!("{percent} % of the space is used, and {left} more can be written");
        let slowed = if self.slowed { "; writes are slowed" } else { "" };
        Some(match capacity {
            Capacity::Enough => return None,
            Capacity::Slowed => "writes are slowed while space is made for them".to_owned(),
            Capacity::Low | Capacity::VeryLow => format!("{used}{slowed}"),
            Capacity::Refused => {
                format!("writes were refused for want of space, times: {}; {used}", self.refusals)
            }
        })
    }
}

impl Capacity {
    fn action(self) -> Option<&'static str> {
        Some(match self {
            Capacity::Enough => return None,
            Capacity::Slowed => "nothing, if it passes; else write less at once, or make room",
            Capacity::Low => {
                "make room before it runs out: delete volumes, trim filesystems, or add drives \
                 ('steadyraid drive add')"
            }
            Capacity::VeryLow | Capacity::Refused => {
                "make room now, or writes fail: delete volumes, trim filesystems, or add drives \
                 ('steadyraid drive add')"
            }
        })
    }
}

fn percent(used: u64, available: u64) -> u64 {
    // Also of a pool that holds nothing: the table of what lies where may be full.
    if available == 0 {
        return 100;
    }
    let all = u128::from(used) + u128::from(available);
    (u128::from(used) * 100 / all) as u64
}

impl Space {
    /// How much of it is used by users' data; 0 of a pool that is not open.
    pub fn percent(&self) -> u64 {
        if self.total == 0 { 0 } else { percent(self.used, self.available) }
    }
}

impl Pool {
    /// Says of a pool that works, beside all else, that its space runs out.
    pub fn with_capacity(mut self, fill: &Fill) -> Pool {
        if self.state == Health::Failed || !self.is_open() {
            return self;
        }
        self.capacity = fill.capacity();
        let beside = |said: &mut Option<String>, more: Option<String>| match (said, more) {
            (Some(said), Some(more)) => *said = format!("{said}; {more}"),
            (said @ None, more) => *said = more,
            (Some(_), None) => {}
        };
        beside(&mut self.reason, fill.reason(self.capacity));
        beside(&mut self.action, self.capacity.action().map(str::to_owned));
        self
    }

    /// What volumes would hold if they were written whole.
    pub fn provisioned(&self) -> u64 {
        self.volumes.iter().map(|volume| volume.size).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: fn(u64) -> Fill =
        |used| Fill { used, available: 1000 - used, refusals: 0, slowed: false };

    #[test]
    fn marks_are_where_they_are_said_to_be() {
        let at = |used| AT(used).capacity();
        assert_eq!([at(0), at(899)], [Capacity::Enough; 2]);
        assert_eq!([at(900), at(949)], [Capacity::Low; 2]);
        assert_eq!([at(950), at(1000)], [Capacity::VeryLow; 2]);
        let refused = |used| Fill { refusals: 1, ..AT(used) }.capacity();
        assert_eq!([refused(899), refused(979)], [Capacity::Enough, Capacity::VeryLow]);
        assert_eq!([refused(980), refused(1000)], [Capacity::Refused; 2]);
        let slowed = |used| Fill { slowed: true, ..AT(used) }.capacity();
        assert_eq!([slowed(500), slowed(900)], [Capacity::Slowed, Capacity::Low]);
        let nothing = Fill { used: 0, available: 0, refusals: 0, slowed: false };
        assert_eq!(nothing.capacity(), Capacity::VeryLow);
    }

    #[test]
    fn it_goes_up_at_a_mark_and_down_well_below_it() {
        let after = |used, told| AT(used).capacity_after(told);
        assert_eq!(after(900, Capacity::Enough), Capacity::Low);
        assert_eq!(after(890, Capacity::Low), Capacity::Low);
        assert_eq!(after(879, Capacity::Low), Capacity::Enough);
        assert_eq!(after(940, Capacity::VeryLow), Capacity::VeryLow);
        assert_eq!(after(920, Capacity::VeryLow), Capacity::Low);
        assert_eq!(after(500, Capacity::Refused), Capacity::Enough);
    }

    #[test]
    fn numbers_as_large_as_there_are_make_a_percentage() {
        let most = Fill { used: u64::MAX / 2, available: u64::MAX / 2, refusals: 0, slowed: false };
        assert_eq!(most.percent(), 50);
    }
}
