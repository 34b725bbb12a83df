//! Pools of schemes other than `fusion`, in the same shapes.

use schemes::pool::{DriveInfo, DriveState, Status};

use super::{
    Backlog, Capacity, Counters, Drive, DriveCounters, Handling, Health, Limits, Memory, Pool,
    Rebalance, Rebuild, RebuildDrive, Recovery, Replacing, Restoring, SchemeCounter, Scrub, Slow,
    Space, Spikes, Volume, slow,
};

/// What progress is shown in: a page, whatever the scheme moves at a time.
const BLOCK: u64 = 4096;

impl From<&Status> for Pool {
    fn from(status: &Status) -> Pool {
        let (state, reason, action) = diagnosis(status);
        let (requests, health) = (&status.requests, status.health);
        let kept = [
            ("checksum_errors", health.wrong),
            ("unreadable_pages", health.refused),
            ("healed_pages", health.repaired),
            ("lost_pages", health.lost),
            ("checksum_memory_bytes", health.sums_memory),
        ];
        let counters = status.counters.iter().chain(&kept);
        let scheme_counters =
            counters.map(|(name, count)| SchemeCounter { name: (*name).to_owned(), count: *count });
        Pool {
            name: status.name.clone(),
            uuid: status.uuid.to_string(),
            state,
            reason,
            action,
            scheme: status.scheme.name().to_owned(),
            block_size: status.chunk as u32,
            parity: 0,
            width: 0,
            layout: status.shape.clone(),
            conversion: String::new(),
            replicated_percent: 0,
            journal_fill_percent: 0,
            redundancy_margin: status.margin as u8,
            surviving_copies: surviving_copies(status),
            hedge_budget: None,
            hedge_budget_bytes: None,
            write_hedge_budget: None,
            write_hedge_budget_bytes: None,
            loaded: None,
            read_only: false,
            space: space(&status.space),
            capacity: Capacity::Enough,
            drives: status.drives.iter().map(Drive::from).collect(),
            volumes: status.volumes.iter().map(Volume::from).collect(),
            waits: Vec::new(),
            counters: Counters {
                reads: requests.reads,
                read_bytes: requests.read_bytes,
                writes: requests.writes,
                write_bytes: requests.write_bytes,
                flushes: requests.flushes,
                trims: requests.trims,
                space_waits: requests.space_waits,
                space_refusals: requests.space_refusals,
                checksum_errors: health.wrong,
                healed_pages: health.repaired,
                lost_pages: health.lost,
                ..Counters::default()
            },
            memory: Memory::default(),
            recovery: Recovery { load_nanos: status.opened_in.0, ..Recovery::default() },
            spike_handling: Handling::default(),
            backlog: Backlog::default(),
            resync_stripes: status.owed,
            marks: status.marks,
            checksums: status.checksums,
            scrub: Scrub::from(&status.scrub),
            lost_pages: status.lost_pages,
            rebalance: Rebalance::default(),
            rebuild: rebuild(status),
            scheme_counters: scheme_counters.collect(),
        }
    }
}

impl From<&DriveInfo> for Drive {
    fn from(drive: &DriveInfo) -> Drive {
        let (counters, state, seen) = (&drive.counters, drive.state, &drive.seen);
        let restoring = drive.restoring.map(|own| Restoring {
            blocks: own.all.div_ceil(BLOCK),
            blocks_left: own.left.div_ceil(BLOCK),
        });
        Drive {
            index: drive.index,
            uuid: drive.uuid.to_string(),
            name: drive.name.clone(),
            state: state_name(state).to_owned(),
            size: drive.size,
            counters: DriveCounters {
                reads: counters.reads,
                writes: counters.writes,
                flushes: counters.flushes,
                read_bytes: counters.read_bytes,
                write_bytes: counters.write_bytes,
                read_errors: counters.read_errors,
                write_errors: counters.write_errors,
                discards: counters.discards,
                discard_bytes: counters.discard_bytes,
                ..DriveCounters::default()
            },
            takes_discards: drive.takes_discards,
            health: slow::of_scheme(drive).to_owned(),
            slow: drive.slow.as_ref().map(Slow::from),
            decided: drive.decided.to_string(),
            spikes: Spikes {
                stragglers: seen.stragglers,
                stragglers_total: seen.stragglers_total,
                unresponsive: seen.is_slow,
                spikes: seen.spikes,
                spike_nanos: seen.spike_nanos,
                threshold_nanos: schemes::watch::CONFIG.window,
            },
            latency: (&seen.latency).into(),
            under_way: seen.under_way,
            restoring,
            replacing: drive.replacing.as_ref().map(|own| Replacing {
                by: own.by.clone(),
                bytes: own.progress.all,
                bytes_left: own.progress.left,
            }),
        }
    }
}

fn space(space: &schemes::volumes::Space) -> Space {
    Space {
        total: space.total,
        // Whatever the scheme makes of it, it is no copy on its way to a stripe.
        raid: space.mapped,
        limbo: space.limbo,
        free: space.free,
        used: space.mapped,
        available: space.available(),
        usable: space.total,
        ..Space::default()
    }
}

/// One more than may be lost, unless something has been lost that may have been the last.
fn surviving_copies(status: &Status) -> Option<u8> {
    let is_whole =
        |drive: &DriveInfo| matches!(drive.state, DriveState::Active | DriveState::Spare);
    let known = status.margin > 0 || status.drives.iter().all(is_whole);
    known.then_some(status.margin as u8 + 1)
}

/// Drives that are filled again, whichever took the place, or copied.
fn rebuild(status: &Status) -> Rebuild {
    let drive = |drive: &DriveInfo| {
        let restored = drive.restoring.map(|own| ("restore", own));
        let copied = || drive.replacing.as_ref().map(|own| ("copy", own.progress));
        let (work, own) = restored.or_else(copied)?;
        Some(RebuildDrive {
            drive: drive.index,
            work: work.to_owned(),
            blocks: own.all.div_ceil(BLOCK),
            blocks_left: own.left.div_ceil(BLOCK),
            eta_seconds: drive.eta.map(|eta| eta.0.div_ceil(1_000_000_000)),
        })
    };
    let drives = status.drives.iter().filter_map(drive).collect();
    Rebuild { paused: status.paused, drives, ..Rebuild::default() }
}

fn state_name(state: DriveState) -> &'static str {
    match state {
        DriveState::Active => "active",
        DriveState::Missing => "missing",
        DriveState::Failed => "failed",
        DriveState::Restoring => "restoring",
        DriveState::Spare => "spare",
    }
}

impl From<&schemes::volumes::VolumeInfo> for Volume {
    fn from(volume: &schemes::volumes::VolumeInfo) -> Volume {
        Volume {
            name: volume.name.clone(),
            size: volume.size,
            width: 0,
            parity: 0,
            // Space is given in larger pieces than sizes are; the last reaches beyond the end.
            mapped_bytes: volume.mapped.min(volume.size),
            limits: Limits::default(),
            throttled: 0,
            latency: (&volume.latency).into(),
            counters: (&volume.counters).into(),
            under_way: volume.under_way,
        }
    }
}

/// State, reason and action: the first three lines an operator reads.
fn diagnosis(status: &Status) -> (Health, Option<String>, Option<String>) {
    let gone: Vec<String> = status
        .drives
        .iter()
        .filter(|drive| !matches!(drive.state, DriveState::Active | DriveState::Spare))
        .map(|drive| {
            format!("drive {} ({}) is {}", drive.index, drive.uuid, state_name(drive.state))
        })
        .collect();
    if let Some(trouble) = &status.trouble {
        let action = "see the server's log and 'steadyraid events'; stop and start the server when \
                      the drives named there are repaired";
        return (Health::Failed, Some(trouble.clone()), Some(action.to_owned()));
    }
    let (slow, slow_action) = slow::diagnosis_of_scheme(status).unzip();
    if gone.is_empty() {
        return (Health::Online, slow, slow_action);
    }
    let slow = slow.map_or_else(String::new, |reason| format!("; {reason}"));
    let lost = |drive: &DriveInfo| matches!(drive.state, DriveState::Missing | DriveState::Failed);
    let spare = status.drives.iter().any(|drive| drive.state == DriveState::Spare);
    let action = match (status.drives.iter().any(lost), status.margin) {
        (true, _) if spare && !status.paused => {
            "nothing, if the spare is large enough: it takes the place of the lost drive when \
             'serve --rebuild-after' has passed, or at once with 'steadyraid drive remove'"
        }
        (false, _) => "nothing: it is being restored, and the pool may be used meanwhile",
        (true, 0) => {
            "no redundancy is left somewhere: put another drive in its place now ('steadyraid \
             drive replace'), or take it back ('steadyraid drive online')"
        }
        (true, _) => {
            "data is still protected, but less: put another drive in its place ('steadyraid drive \
             replace'), or take it back ('steadyraid drive online')"
        }
    };
    (Health::Degraded, Some(gone.join(", ") + &slow), Some(action.to_owned()))
}
