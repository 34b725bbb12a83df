//! Drives that are slower than their peers for seconds: what is said of them, and what to do.

use engine::{DriveHealth, DriveState, DriveStatus, PoolStatus, SlowDrive, SlowKind};
use schemars::JsonSchema;
use schemes::pool::{DriveInfo, Status};
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

/// The same of a drive of another scheme than `fusion`.
pub fn of_scheme(drive: &DriveInfo) -> &'static str {
    match (drive.state, drive.suspect, drive.slow) {
        (schemes::pool::DriveState::Active, true, _) => "suspect",
        (schemes::pool::DriveState::Active, false, Some(_)) => "slow",
        (schemes::pool::DriveState::Active, false, None) => "good",
        _ => "-",
    }
}

/// A drive that is to be looked after.
struct Warned<'a> {
    index: u16,
    name: &'a str,
    suspect: bool,
    slow: Option<SlowDrive>,
}

/// Reason and action for drives that are slow or suspect.
pub fn diagnosis(status: &PoolStatus) -> Option<(String, String)> {
    let warned = |drive: &&DriveStatus| {
        drive.state == DriveState::Active
            && (drive.slow.is_some() || drive.health == DriveHealth::Suspect)
    };
    let warned = status.drives.iter().filter(warned).map(|drive| Warned {
        index: drive.index,
        name: &drive.name,
        suspect: drive.health == DriveHealth::Suspect,
        slow: drive.slow,
    });
    of_drives(&status.name, warned.collect(), "requests use it, as the pool can't do without it")
}

/// The same of a pool of another scheme, in which nothing bypasses a drive for being slow.
pub fn diagnosis_of_scheme(status: &Status) -> Option<(String, String)> {
    let warned =
        status.drives.iter().filter(|drive| matches!(of_scheme(drive), "slow" | "suspect"));
    let warned = warned.map(|drive| Warned {
        index: drive.index,
        name: &drive.name,
        suspect: drive.suspect,
        slow: drive.slow,
    });
    of_drives(&status.name, warned.collect(), "requests use it all the same")
}

fn of_drives(pool: &str, drives: Vec<Warned>, used: &str) -> Option<(String, String)> {
    let index = drives.first()?.index;
    let reasons: Vec<String> = drives.iter().map(|drive| reason(drive, used)).collect();
    let action = format!(
        "replace it: 'steadyraid drive replace {pool} {index} NEW'; or, if it may be as slow as \
         that, 'steadyraid drive trust {pool} {index}'"
    );
    Some((reasons.join("; "), action))
}

/// `used`: what requests do with a drive that they don't bypass.
fn reason(drive: &Warned, used: &str) -> String {
    let name = format!("drive {} ({})", drive.index, drive.name);
    let what = if drive.suspect { "suspect" } else { "slow" };
    match drive.slow {
        None => format!("{name} is {what}: it was avoided too often, or for too long"),
        Some(slow) if slow.bypassed => format!("{name} is {what}: {slow}; requests bypass it"),
        Some(slow) => format!("{name} is {what}: {slow}; {used}"),
    }
}
