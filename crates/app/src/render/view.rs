//! The shapes behind `--json`, the control socket and the tables. Field names are an
//! interface: they are listed in docs/cli.md and only ever added to within a version.

use engine::{ConversionPolicy, DriveState, PoolStatus};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of every JSON document the program writes.
pub const VERSION: u32 = 1;

/// A struct of plain values with the same names as the engine's, and the copy into it.
macro_rules! mirror {
    ($(#[$doc:meta])* $name:ident = $from:ty { $($field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
        #[serde(default)]
        pub struct $name {
            $(pub $field: $type),*
        }

        impl From<&$from> for $name {
            fn from(from: &$from) -> $name {
                $name { $($field: from.$field.clone()),* }
            }
        }
    };
}

mod capacity;
mod care;
mod other;
mod server;
mod slow;
mod tail;
mod unopened;
mod waits;

pub use capacity::{Capacity, Fill};
pub use care::{Rebalance, Rebuild, RebuildDrive, Scrub};
pub use server::{DroppedMessages, NbdConnections, Server, Slices};
pub use slow::Slow;
pub use tail::{Backlog, Event, Handling, Latencies, Limits, OperationLatencies, Spikes};
pub use waits::{Wait, Waited};

mirror! {
    /// Drive space by what it is used for, in bytes; `used`, `available` and, together, `usable`
    /// are user bytes.
    Space = engine::SpaceStatus {
        total: u64, replicated: u64, raid: u64, limbo: u64, free: u64, used: u64,
        available: u64, usable: u64,
    }
}

mirror! {
    /// Operations on one drive since the pool was opened.
    DriveCounters = engine::DriveCounters {
        reads: u64, writes: u64, flushes: u64, read_bytes: u64, write_bytes: u64,
        discards: u64, discard_bytes: u64,
        read_errors: u64, write_errors: u64, bad_pages: u64, healed_pages: u64,
    }
}

mirror! {
    /// What the pool did since it was opened.
    Counters = engine::Counters {
        reads: u64, read_bytes: u64, writes: u64, write_bytes: u64, flushes: u64,
        spared_flushes: u64, trims: u64,
        replicated_writes: u64, patch_writes: u64, stripe_writes: u64,
        reconstructed_reads: u64, conversions: u64, compacted_stripes: u64,
        relocated_bytes: u64, merged_blocks: u64, journal_blocks: u64, journal_bytes: u64,
        checkpoints: u64, checkpoint_bytes: u64, space_waits: u64,
        space_refusals: u64,
        redirected_writes: u64, redirected_reads: u64, hedged_reads: u64, hedged_writes: u64,
        hedged_journal_blocks: u64, hedge_wins: u64, hedges_refused: u64,
        loads: u64, load_nanos: u64,
        checksum_errors: u64, healed_pages: u64, lost_pages: u64, mended_parity: u64,
    }
}

mirror! {
    /// Requests on one volume since the pool was opened: those answered, and those that failed.
    VolumeCounters = engine::RequestCounters {
        reads: u64, read_bytes: u64, writes: u64, write_bytes: u64, flushes: u64, trims: u64,
        errors: u64,
    }
}

mirror! {
    /// Memory that the pool's tables take.
    Memory = engine::MemoryStatus {
        map_bytes: u64, space_bytes: u64, tuple_bytes: u64, patch_bytes: u64, patches: u64,
        patch_budget_bytes: u64,
    }
}

mirror! {
    /// What opening the pool had to do.
    Recovery = engine::RecoveryReport {
        clean: bool, objects_loaded: u64, blocks_replayed: u64, records_replayed: u64,
        records_verified: u64, records_dropped: u64, copies_healed: u64, load_nanos: u64,
        replay_nanos: u64,
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Volume {
    pub name: String,
    pub size: u64,
    pub width: u16,
    pub parity: u8,
    /// How much of it holds data.
    pub mapped_bytes: u64,
    #[serde(default)]
    pub limits: Limits,
    /// Requests that waited because of the limits.
    #[serde(default)]
    pub throttled: u64,
    #[serde(default)]
    pub latency: OperationLatencies,
    #[serde(default)]
    pub counters: VolumeCounters,
    /// Requests that have come and are not answered.
    #[serde(default)]
    pub under_way: u64,
}

/// How well a pool, or a drive of it, is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Health {
    Online,
    Degraded,
    Failed,
}

impl Health {
    pub fn name(self) -> &'static str {
        match self {
            Health::Online => "online",
            Health::Degraded => "degraded",
            Health::Failed => "failed",
        }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Drive {
    pub index: u16,
    pub uuid: String,
    /// Path, or `mem:N`; empty when the drive is missing.
    pub name: String,
    /// `active`, `missing`, `failed`, `restoring`, `vacated` or `spare`.
    pub state: String,
    pub size: u64,
    pub counters: DriveCounters,
    /// What is freed is told to it. Absent of a drive that is not here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takes_discards: Option<bool>,
    /// `good`, `slow`, `avoided` or `suspect`.
    #[serde(default)]
    pub health: String,
    /// While it is slower than its peers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow: Option<Slow>,
    /// What an operator has decided: `automatic`, `sit-out` or `trusted`.
    #[serde(default)]
    pub decided: String,
    #[serde(default)]
    pub spikes: Spikes,
    #[serde(default)]
    pub latency: OperationLatencies,
    /// Operations that it has been given and has not answered.
    #[serde(default)]
    pub under_way: u64,
    /// While it is filled with what a lost drive should hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restoring: Option<Restoring>,
    /// While it is copied onto another drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replacing: Option<Replacing>,
}

/// What a drive is copied onto, and how far that is.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Replacing {
    /// Path of the new drive.
    pub by: String,
    pub bytes: u64,
    pub bytes_left: u64,
}

impl Replacing {
    fn of((by, bytes_left, bytes): (String, u64, u64)) -> Replacing {
        Replacing { by, bytes, bytes_left }
    }

    pub fn percent(&self) -> u64 {
        let done = u128::from(self.bytes.saturating_sub(self.bytes_left));
        (done * 100).checked_div(u128::from(self.bytes)).unwrap_or(0) as u64
    }
}

/// How far a drive is restored.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Restoring {
    pub blocks: u64,
    pub blocks_left: u64,
}

impl Restoring {
    pub fn percent(self) -> u64 {
        let done = self.blocks.saturating_sub(self.blocks_left);
        (done * 100).checked_div(self.blocks).unwrap_or(0)
    }
}

/// Everything that is known of a pool that is open, or of one that could not be opened.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Pool {
    pub name: String,
    pub uuid: String,
    pub state: Health,
    /// Why the state is not `online`, or what was found in a pool that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    pub scheme: String,
    pub block_size: u32,
    pub parity: u8,
    pub width: u16,
    pub layout: String,
    /// `lazy` or `eager`.
    pub conversion: String,
    pub replicated_percent: u8,
    pub journal_fill_percent: u8,
    /// Drives that may still die before data is lost.
    pub redundancy_margin: u8,
    /// In how many ways the least protected data can be had: as a copy, or from parity. Absent
    /// where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surviving_copies: Option<u8>,
    /// Drive operations that second ways of late reads, and of late writes, may cost at this
    /// moment, and bytes that they may move; absent where there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hedge_budget: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hedge_budget_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_hedge_budget: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_hedge_budget_bytes: Option<u64>,
    /// Drives are behind because of what is asked of them; absent where nobody looks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loaded: Option<bool>,
    pub read_only: bool,
    pub space: Space,
    /// Whether space runs out.
    #[serde(default)]
    pub capacity: Capacity,
    pub drives: Vec<Drive>,
    pub volumes: Vec<Volume>,
    pub counters: Counters,
    /// What clients' requests wait for, by cause. Empty of a pool that is not served.
    #[serde(default)]
    pub waits: Vec<Wait>,
    pub memory: Memory,
    pub recovery: Recovery,
    #[serde(default)]
    pub spike_handling: Handling,
    #[serde(default)]
    pub backlog: Backlog,
    /// Of schemes other than `fusion`: stripes that a crash, or making the pool, left to be looked
    /// at in the background.
    #[serde(default)]
    pub resync_stripes: u64,
    /// Of schemes other than `fusion`: regions that are marked because they are being written, were
    /// written a short while ago, or need a resync. 0: the drives are in sync.
    #[serde(default)]
    pub marks: u64,
    /// Every page of data has a checksum.
    #[serde(default)]
    pub checksums: bool,
    #[serde(default)]
    pub scrub: Scrub,
    /// Pages that can't be had any more, as far as is known: found since the pool was opened,
    /// without those that the last whole scrub did not find any more.
    #[serde(default)]
    pub lost_pages: u64,
    #[serde(default)]
    pub rebalance: Rebalance,
    #[serde(default)]
    pub rebuild: Rebuild,
    /// Of schemes other than `fusion`: what only they count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scheme_counters: Vec<SchemeCounter>,
}

/// Something that a scheme counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SchemeCounter {
    pub name: String,
    pub count: u64,
}

impl Pool {
    /// One of the engine's own, not of the schemes beside it.
    pub fn is_fusion(&self) -> bool {
        matches!(self.scheme.as_str(), "fusion" | "fusion-nd")
    }

    /// Of one that could not be opened nothing is known but what labels say.
    pub fn is_open(&self) -> bool {
        self.space.total > 0
    }
}

impl From<&PoolStatus> for Pool {
    fn from(status: &PoolStatus) -> Pool {
        let (state, reason, action) = diagnosis(status);
        let hedges = status.spike_handling.hedge;
        let hedges = hedges.then_some((status.read_hedges.left, status.write_hedges.left));
        Pool {
            name: status.name.clone(),
            uuid: status.uuid.to_string(),
            state,
            reason,
            action,
            scheme: status.scheme.to_owned(),
            block_size: status.block_size,
            parity: status.parity,
            width: status.width,
            layout: status.layout.clone(),
            conversion: conversion_name(status.conversion).to_owned(),
            replicated_percent: status.replicated_percent,
            journal_fill_percent: status.journal_fill_percent,
            redundancy_margin: status.redundancy_margin,
            surviving_copies: Some(status.surviving_copies),
            hedge_budget: hedges.map(|(reads, _)| reads.operations),
            hedge_budget_bytes: hedges.map(|(reads, _)| reads.bytes),
            write_hedge_budget: hedges.map(|(_, writes)| writes.operations),
            write_hedge_budget_bytes: hedges.map(|(_, writes)| writes.bytes),
            loaded: status.spike_handling.detect.then_some(status.loaded),
            read_only: status.read_only,
            space: (&status.space).into(),
            capacity: Capacity::Enough,
            drives: status.drives.iter().map(Drive::from).collect(),
            volumes: status.volumes.iter().map(Volume::from).collect(),
            counters: (&status.counters).into(),
            waits: Vec::new(),
            memory: (&status.memory).into(),
            recovery: (&status.recovery).into(),
            spike_handling: (&status.spike_handling).into(),
            backlog: (&status.backlog).into(),
            resync_stripes: 0,
            marks: 0,
            checksums: status.checksums,
            scrub: Scrub::of(&status.scrub),
            lost_pages: status.lost_pages,
            rebalance: (&status.rebalance).into(),
            rebuild: (&status.rebuild).into(),
            scheme_counters: Vec::new(),
        }
    }
}

impl From<&engine::DriveStatus> for Drive {
    fn from(drive: &engine::DriveStatus) -> Drive {
        Drive {
            index: drive.index,
            uuid: drive.uuid.to_string(),
            name: drive.name.clone(),
            state: drive.state.to_string(),
            size: drive.size,
            counters: (&drive.counters).into(),
            takes_discards: drive.takes_discards,
            health: slow::health(drive),
            slow: drive.slow.as_ref().map(Slow::from),
            decided: drive.decided.to_string(),
            spikes: (&drive.spikes).into(),
            latency: (&drive.latency).into(),
            under_way: drive.under_way,
            restoring: drive.awaited.map(|(blocks_left, blocks)| Restoring { blocks, blocks_left }),
            replacing: drive.replacing.clone().map(Replacing::of),
        }
    }
}

impl Drive {
    /// What people call it.
    pub fn label(&self) -> String {
        if self.name.is_empty() { self.uuid.clone() } else { self.name.clone() }
    }
}

impl From<&engine::VolumeInfo> for Volume {
    fn from(volume: &engine::VolumeInfo) -> Volume {
        Volume {
            name: volume.name.clone(),
            size: volume.size,
            width: volume.width,
            parity: volume.parity,
            mapped_bytes: volume.mapped_bytes,
            limits: (&volume.limits).into(),
            throttled: volume.throttled,
            latency: (&volume.latency).into(),
            counters: (&volume.counters).into(),
            under_way: volume.under_way,
        }
    }
}

fn conversion_name(policy: ConversionPolicy) -> &'static str {
    match policy {
        ConversionPolicy::Lazy => "lazy",
        ConversionPolicy::Eager => "eager",
    }
}

/// State, reason and action of a pool: the first three lines an operator reads.
fn diagnosis(status: &PoolStatus) -> (Health, Option<String>, Option<String>) {
    if let Some(reason) = &status.failed {
        let action = "writes are refused; repair the drives named above, then stop and start the \
                      server";
        return (Health::Failed, Some(reason.clone()), Some(action.to_owned()));
    }
    let gone: Vec<String> = status
        .drives
        .iter()
        .filter(|drive| !matches!(drive.state, DriveState::Active | DriveState::Vacated))
        .map(|drive| format!("drive {} ({}) is {}", drive.index, drive.uuid, drive.state))
        .collect();
    if gone.is_empty() {
        let (slow, action) = slow::diagnosis(status).unzip();
        let reasons: Vec<String> = vacated(status).into_iter().chain(slow).collect();
        let reason = (!reasons.is_empty()).then(|| reasons.join("; "));
        return (Health::Online, reason, action);
    }
    if gone.len() > usize::from(status.parity) {
        let reason = format!("{}: more than parity can make up for", gone.join(", "));
        let action = "find the missing drives and give them too: without them data is lost";
        return (Health::Failed, Some(reason), Some(action.to_owned()));
    }
    let action = degraded_action(status);
    let slow = slow::diagnosis(status);
    let slow = slow.map_or_else(String::new, |(reason, _)| format!("; {reason}"));
    (Health::Degraded, Some(gone.join(", ") + &slow), Some(action.to_owned()))
}

/// Drives that nothing is missed without.
fn vacated(status: &PoolStatus) -> Option<String> {
    let vacated = status.drives.iter().filter(|drive| drive.state == DriveState::Vacated);
    let vacated: Vec<String> = vacated.map(|drive| drive.index.to_string()).collect();
    (!vacated.is_empty()).then(|| {
        format!(
            "nothing is missing: the other drives hold what was on drive {}, whose place another \
             may take ('steadyraid drive replace')",
            vacated.join(", ")
        )
    })
}

/// What to do about drives that are lost.
fn degraded_action(status: &PoolStatus) -> &'static str {
    let is_lost = |drive: &engine::DriveStatus| {
        matches!(drive.state, DriveState::Missing | DriveState::Failed)
    };
    let lost = status.drives.iter().any(is_lost);
    match (status.read_only, lost, status.redundancy_margin) {
        (true, true, _) => {
            "give the missing drives too before you serve the pool: once it has been served \
             without them, all they should hold has to be written again"
        }
        (_, false, _) => "nothing: it is being restored, and the pool may be used meanwhile",
        (false, true, 0) => {
            "no redundancy is left: put another drive in its place now ('steadyraid drive \
             replace'), or take it back ('steadyraid drive online')"
        }
        (false, true, _) => {
            "data is still protected, but less: put another drive in its place ('steadyraid drive \
             replace'), or take it back ('steadyraid drive online')"
        }
    }
}

/// Where the blocks of a stripe lie.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Stripe {
    pub number: u64,
    pub blocks: Vec<StripeBlock>,
}

#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StripeBlock {
    pub drive: u16,
    /// `data`, `parity`, or `spare`: the place for a block whose own drive is lost.
    pub role: String,
    /// Among the blocks of its role.
    pub position: u16,
}

impl From<&engine::StripePlaces> for Stripe {
    fn from(places: &engine::StripePlaces) -> Stripe {
        let spare = places.spare.as_slice();
        let roles = [("data", &places.data[..]), ("parity", &places.parity[..]), ("spare", spare)];
        let of_role = |(role, drives): (&str, &[u16])| {
            let block = |(position, drive): (usize, &u16)| StripeBlock {
                drive: *drive,
                role: role.to_owned(),
                position: position as u16,
            };
            drives.iter().enumerate().map(block).collect::<Vec<_>>()
        };
        Stripe { number: places.number, blocks: roles.into_iter().flat_map(of_role).collect() }
    }
}

/// A pool as `list` knows it: served, or found on drives without opening it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Listed {
    pub name: String,
    pub uuid: String,
    pub state: Health,
    pub served: bool,
    pub drives: u32,
    pub drives_present: u32,
    /// Unknown (absent) unless the pool is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volumes: Option<u32>,
    /// Why the server could not open it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl From<&Pool> for Listed {
    fn from(pool: &Pool) -> Listed {
        let present = pool.drives.iter().filter(|drive| drive.state == "active").count();
        let members = pool.drives.iter().filter(|drive| drive.state != "spare").count();
        Listed {
            name: pool.name.clone(),
            uuid: pool.uuid.clone(),
            state: pool.state,
            served: pool.is_open(),
            drives: members as u32,
            drives_present: present as u32,
            volumes: pool.is_open().then_some(pool.volumes.len() as u32),
            reason: pool.reason.clone().filter(|_| !pool.is_open()),
        }
    }
}
