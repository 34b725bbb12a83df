//! Metrics of drives.

use std::collections::BTreeMap;
use std::fmt;

use super::family::{Family, Labels, Writer, seconds, with};
use crate::render::view::{Drive, DriveCounters, Pool};
use crate::serve::smart::Report;

fn each(
    pools: &[Pool],
    mut write: impl FnMut(Labels, &Drive, &Pool) -> fmt::Result,
) -> fmt::Result {
    for pool in pools {
        for drive in &pool.drives {
            let labels = vec![("pool", pool.name.clone()), ("drive", drive.index.to_string())];
            write(labels, drive, pool)?;
        }
    }
    Ok(())
}

pub fn write(pools: &[Pool], smart: &BTreeMap<String, Report>, to: &mut Writer) -> fmt::Result {
    states(pools, to)?;
    operations(pools, to)?;
    spikes(pools, to)?;
    own_health(pools, smart, to)?;
    own_errors(pools, smart, to)
}

fn states(pools: &[Pool], to: &mut Writer) -> fmt::Result {
    const STATES: [&str; 6] = ["active", "missing", "failed", "restoring", "vacated", "spare"];
    to.gauge("drive_info", "1; the drive's name and identity as labels", |to| {
        each(pools, |labels, drive, _| {
            let labels = with(with(labels, "name", &drive.name), "uuid", &drive.uuid);
            to.gauge(&labels, 1.0)
        })
    })?;
    to.gauge("drive_size_bytes", "How large it is", |to| {
        each(pools, |labels, drive, _| to.gauge(&labels, drive.size as f64))
    })?;
    to.gauge("drive_state", "1 for the state that the drive is in", |to| {
        each(pools, |labels, drive, _| to.state(&labels, &STATES, &drive.state))
    })?;
    const RUNGS: [&str; 4] = ["good", "slow", "avoided", "suspect"];
    let help = "1 for what the pool thinks of how the drive answers";
    to.gauge("drive_rung", help, |to| {
        each(pools, |labels, drive, _| match drive.health.as_str() {
            // Of a drive that is not used nothing is thought.
            "-" => Ok(()),
            health => to.state(&labels, &RUNGS, health),
        })
    })
}

/// Counters of each drive, by operation.
fn by_operation(
    pools: &[Pool],
    to: &mut Family,
    values: impl Fn(&DriveCounters) -> Vec<(&'static str, u64)>,
) -> fmt::Result {
    each(pools, |labels, drive, _| {
        values(&drive.counters).into_iter().try_for_each(|(kind, count)| {
            to.counter(&with(labels.clone(), "operation", kind), count as f64)
        })
    })
}

fn operations(pools: &[Pool], to: &mut Writer) -> fmt::Result {
    to.counter("drive_operations", "Operations that the drive was given", |to| {
        by_operation(pools, to, |own| {
            let flushes = ("flush", own.flushes);
            vec![("read", own.reads), ("write", own.writes), flushes, ("discard", own.discards)]
        })
    })?;
    to.counter("drive_bytes", "Bytes of these", |to| {
        by_operation(pools, to, |own| {
            let discards = ("discard", own.discard_bytes);
            vec![("read", own.read_bytes), ("write", own.write_bytes), discards]
        })
    })?;
    to.counter("drive_errors", "Operations that failed", |to| {
        by_operation(pools, to, |own| vec![("read", own.read_errors), ("write", own.write_errors)])
    })?;
    let help = "Pages of it that were not what was written, or that it refused";
    to.counter("drive_bad_pages", help, |to| {
        each(pools, |labels, drive, pool| match pool.is_fusion() {
            true => to.counter(&labels, drive.counters.bad_pages as f64),
            false => Ok(()),
        })
    })?;
    to.gauge("drive_queue_depth", "Operations that it has not answered yet", |to| {
        each(pools, |labels, drive, _| to.gauge(&labels, drive.under_way as f64))
    })?;
    to.histogram("drive_latency_seconds", "How long the drive took", |to| {
        each(pools, |labels, drive, _| to.latencies(&labels, &drive.latency))
    })
}

fn spikes(pools: &[Pool], to: &mut Writer) -> fmt::Result {
    to.gauge("drive_stragglers", "Requests that it should have answered by now", |to| {
        each(pools, |labels, drive, _| to.gauge(&labels, drive.spikes.stragglers as f64))
    })?;
    to.gauge("drive_straggler_threshold_seconds", "After how long a request is one", |to| {
        each(pools, |labels, drive, _| {
            let threshold = drive.spikes.threshold_nanos;
            to.known(&labels, (threshold > 0).then_some(seconds(threshold)))
        })
    })?;
    let help = "1 while it has so many stragglers that requests go round it if they can";
    to.gauge("drive_unresponsive", help, |to| {
        each(pools, |labels, drive, _| {
            to.gauge(&labels, f64::from(u8::from(drive.spikes.unresponsive)))
        })
    })?;
    to.counter("drive_spikes", "Times that it was unresponsive", |to| {
        each(pools, |labels, drive, _| to.counter(&labels, drive.spikes.spikes as f64))
    })?;
    to.counter("drive_spike_seconds", "How long it was that in all", |to| {
        each(pools, |labels, drive, _| to.counter(&labels, seconds(drive.spikes.spike_nanos)))
    })
}

/// A gauge of what drives say of themselves, of those that do.
fn said(
    pools: &[Pool],
    smart: &BTreeMap<String, Report>,
    to: &mut Family,
    value: impl Fn(&Report) -> Option<f64>,
) -> fmt::Result {
    each(pools, |labels, drive, _| to.known(&labels, smart.get(&drive.name).and_then(&value)))
}

fn own_health(pools: &[Pool], smart: &BTreeMap<String, Report>, to: &mut Writer) -> fmt::Result {
    to.gauge("drive_smart_passed", "1 if the drive says that it is well", |to| {
        said(pools, smart, to, |own| own.passed.map(|passed| f64::from(u8::from(passed))))
    })?;
    to.gauge("drive_temperature_celsius", "How warm it says that it is", |to| {
        said(pools, smart, to, |own| own.celsius)
    })?;
    let help = "Part of the writes it is rated for that it has had; may be more than 1";
    to.gauge("drive_wear_ratio", help, |to| said(pools, smart, to, |own| own.used_ratio))?;
    to.gauge("drive_spare_ratio", "Part of its spare blocks that it has left", |to| {
        said(pools, smart, to, |own| own.spare_ratio)
    })?;
    to.gauge("drive_smart_time_seconds", "When it said so, in seconds since 1970", |to| {
        said(pools, smart, to, |own| Some(own.at_secs as f64))
    })
}

fn own_errors(pools: &[Pool], smart: &BTreeMap<String, Report>, to: &mut Writer) -> fmt::Result {
    let count = |count: Option<u64>| count.map(|count| count as f64);
    let help = "Errors of its medium that it could not correct, in all its life";
    to.counter("drive_media_errors", help, |to| {
        each(pools, |labels, drive, _| {
            let errors = smart.get(&drive.name).and_then(|own| count(own.media_errors));
            errors.map_or(Ok(()), |errors| to.counter(&labels, errors))
        })
    })?;
    to.gauge("drive_reallocated_sectors", "Sectors that it has put others in place of", |to| {
        said(pools, smart, to, |own| count(own.reallocated))
    })?;
    to.gauge("drive_pending_sectors", "Sectors that it can't read at the moment", |to| {
        said(pools, smart, to, |own| count(own.pending))
    })
}
