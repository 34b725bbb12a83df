//! What keeps data whole.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Counters, Drive, Health, Pool};

/// The last scrub since the pool was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Scrub {
    /// `never`, `running`, `paused`, `done` or `stopped`.
    pub state: String,
    /// Bytes of drives read, and in use when it began.
    pub checked_bytes: u64,
    pub total_bytes: u64,
    /// Pages that were not what was written, or that a drive refused.
    pub bad_pages: u64,
    pub repaired_pages: u64,
    /// Pages of parity that did not fit their data.
    pub repaired_parity: u64,
    /// Bad pages that can't be had any more.
    pub lost_pages: u64,
    /// Copies of metadata that were damaged.
    pub metadata_repaired: u64,
    pub seconds: u64,
}

/// How far what lies on fewer drives than it could has moved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Rebalance {
    /// `idle`, `running`, or `waiting` for room.
    pub state: String,
    pub zones: u32,
    pub zones_left: u32,
}

impl Pool {
    /// A pool that misses no drive says all the same what was not as it was written.
    pub fn with_errors(mut self) -> Pool {
        let lost = (self.lost_pages > 0)
            .then(|| format!("{} pages are lost, and fail to be read", self.lost_pages));
        match (&mut self.reason, lost) {
            // What it misses comes first, and is what is to be done first.
            (Some(reason), Some(lost)) => *reason += &format!("; besides, {lost}"),
            (None, Some(lost)) => {
                self.reason = Some(lost);
                let action = "'steadyraid events' says where they were found; restore what is \
                              stored there, as a page that is written again is good, and scrub: \
                              then they are no longer counted";
                self.action = Some(action.to_owned());
            }
            _ => {}
        }
        if self.reason.is_some() || self.state != Health::Online {
            return self;
        }
        let worst = self.drives.iter().max_by_key(|drive| drive.counters.bad_pages);
        let worst = worst.filter(|drive| drive.counters.bad_pages > 0);
        if worst.is_some() || self.counters.checksum_errors > 0 {
            self.reason = Some(rotten(&self.counters, worst));
            let action = "'steadyraid scrub start' looks at the rest; if there is more each time, \
                          'steadyraid drive replace' the drive ('steadyraid events' names it)";
            self.action = Some(action.to_owned());
        }
        self
    }
}

/// Schemes beside `fusion` do not count by drive.
fn rotten(pool: &Counters, worst: Option<&Drive>) -> String {
    let (bad, healed, whose) = match worst {
        Some(drive) => {
            let own = &drive.counters;
            (own.bad_pages, own.healed_pages, format!(" of drive {}", drive.index))
        }
        None => (pool.checksum_errors, pool.healed_pages, String::new()),
    };
    format!(
        "nothing is missing, but {bad} pages{whose} were not as they were written; {healed} of \
         them are written again"
    )
}

impl From<&engine::RebalanceStatus> for Rebalance {
    fn from(status: &engine::RebalanceStatus) -> Rebalance {
        let state = match status.state {
            engine::RebalanceState::Idle => "idle",
            engine::RebalanceState::Running => "running",
            engine::RebalanceState::Waiting => "waiting",
        };
        let (zones, zones_left) = (status.zones_total, status.zones_left);
        Rebalance { state: state.to_owned(), zones, zones_left }
    }
}

impl Scrub {
    pub fn of(scrub: &engine::ScrubStatus) -> Scrub {
        use engine::ScrubState;
        let state = match scrub.state {
            ScrubState::Never => "never",
            ScrubState::Running => "running",
            ScrubState::Paused => "paused",
            ScrubState::Done => "done",
            ScrubState::Stopped => "stopped",
        };
        Scrub {
            state: state.to_owned(),
            checked_bytes: scrub.checked_bytes,
            total_bytes: scrub.total_bytes,
            bad_pages: scrub.bad_pages,
            repaired_pages: scrub.repaired_pages,
            repaired_parity: scrub.repaired_parity,
            lost_pages: scrub.lost_pages,
            metadata_repaired: scrub.metadata_repaired,
            seconds: scrub.ended_nanos.saturating_sub(scrub.started_nanos) / 1_000_000_000,
        }
    }

    pub fn percent(&self) -> u64 {
        let done = u128::from(self.checked_bytes.min(self.total_bytes)) * 100;
        done.checked_div(u128::from(self.total_bytes)).unwrap_or(100) as u64
    }

    pub fn goes_on(&self) -> bool {
        matches!(self.state.as_str(), "running" | "paused")
    }
}

impl From<&schemes::pool::ScrubStatus> for Scrub {
    fn from(scrub: &schemes::pool::ScrubStatus) -> Scrub {
        let found = scrub.found;
        Scrub {
            state: scrub.state.name().to_owned(),
            checked_bytes: found.bytes,
            total_bytes: scrub.total_bytes,
            bad_pages: found.bad,
            repaired_pages: found.repaired,
            repaired_parity: found.parity,
            lost_pages: found.lost,
            metadata_repaired: found.metadata,
            seconds: scrub.ended.0.saturating_sub(scrub.started.0) / 1_000_000_000,
        }
    }
}

/// How far what lost or leaving drives held has come elsewhere, and what returns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Rebuild {
    pub paused: bool,
    pub waits_for_space: bool,
    /// Blocks that lie elsewhere than the layout has them.
    pub substitutes: u64,
    pub drives: Vec<RebuildDrive>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RebuildDrive {
    pub drive: u16,
    /// `rebuild`, `drain`, `restore`, `return` or `copy`.
    pub work: String,
    pub blocks: u64,
    pub blocks_left: u64,
    /// Seconds, at the rate of the last ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eta_seconds: Option<u64>,
}

impl From<&engine::RebuildStatus> for Rebuild {
    fn from(status: &engine::RebuildStatus) -> Rebuild {
        use engine::RebuildWork;
        let drive = |of: &engine::RebuildProgress| RebuildDrive {
            drive: of.drive,
            work: match of.work {
                RebuildWork::Rebuild => "rebuild",
                RebuildWork::Drain => "drain",
                RebuildWork::Restore => "restore",
                RebuildWork::Return => "return",
                RebuildWork::Copy => "copy",
            }
            .to_owned(),
            blocks: of.total,
            blocks_left: of.left,
            eta_seconds: of.eta.map(|eta| eta.0.div_ceil(1_000_000_000)),
        };
        Rebuild {
            paused: status.paused,
            waits_for_space: status.waits_for_space,
            substitutes: status.substitutes,
            drives: status.drives.iter().map(drive).collect(),
        }
    }
}

impl RebuildDrive {
    pub fn percent(&self) -> u64 {
        let done = self.blocks.saturating_sub(self.blocks_left);
        (done * 100).checked_div(self.blocks).unwrap_or(100)
    }
}
