//! Drives that are slower than their peers for seconds: what is said of them, and what to do.

use engine::{DriveHealth, DriveState, DriveStatus, PoolStatus, SlowDrive, SlowKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Pool;

/// How a drive is slower than its peers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Slow {
    /// `reads`, `writes` or `silence`: it answers nothing.
    pub what: String,
    /// What half of them take, or for how long it has answered nothing.
    pub own_nanos: u64,
    pub peers_nanos: u64,
    /// For how long that has been so.
    pub seconds: u64,
    /// Requests bypass it if they can.
    pub bypassed: bool,
}

impl From<&SlowDrive> for Slow {
    fn from(slow: &SlowDrive) -> Slow {
        let what = match slow.what {
            SlowKind::Reads => "reads",
            SlowKind::Writes => "writes",
            SlowKind::Silence => "silence",
        };
        Slow {
            what: what.to_owned(),
            own_nanos: slow.own_nanos,
            peers_nanos: slow.peers_nanos,
            seconds: slow.lasting.0 / 1_000_000_000,
            bypassed: slow.bypassed,
        }
    }
}

/// Where the drive stands; one that is slow is not called good because the pool needs it.
pub fn health(drive: &DriveStatus) -> String {
    match drive.slow {
        Some(_) if drive.health == DriveHealth::Good => "slow".to_owned(),
        _ => drive.health.to_string(),
    }
}

impl Pool {
    /// A drive is to be looked after although the pool is whole.
    pub fn has_slow_drives(&self) -> bool {
        let warned = |drive: &super::Drive| drive.slow.is_some() || drive.health == "suspect";
        self.drives.iter().any(|drive| drive.state == "active" && warned(drive))
    }
}

/// Reason and action for drives that are slow or suspect.
pub fn diagnosis(status: &PoolStatus) -> Option<(String, String)> {
    let warned = |drive: &&DriveStatus| {
        drive.state == DriveState::Active
            && (drive.slow.is_some() || drive.health == DriveHealth::Suspect)
    };
    let drives: Vec<&DriveStatus> = status.drives.iter().filter(warned).collect();
    let first = drives.first()?;
    let reasons: Vec<String> = drives.iter().map(|drive| reason(drive)).collect();
    let action = format!(
        "replace it: 'steadyraid drive replace {pool} {index} NEW'; or, if it may be as slow as \
         that, 'steadyraid drive trust {pool} {index}'",
        pool = status.name,
        index = first.index
    );
    Some((reasons.join("; "), action))
}

fn reason(drive: &DriveStatus) -> String {
    let name = format!("drive {} ({})", drive.index, drive.name);
    let suspect = drive.health == DriveHealth::Suspect;
    let what = if suspect { "suspect" } else { "slow" };
    match drive.slow {
        None => format!("{name} is {what}: it was avoided too often, or for too long"),
        Some(slow) if slow.bypassed => format!("{name} is {what}: {slow}; requests bypass it"),
        Some(slow) => {
            format!("{name} is {what}: {slow}; requests use it, as the pool can't do without it")
        }
    }
}
