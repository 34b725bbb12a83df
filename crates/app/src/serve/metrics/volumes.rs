//! Metrics of volumes.

use std::fmt;

use super::family::{Family, Labels, Writer, with};
use crate::render::view::{Pool, Volume, VolumeCounters};

fn each(pools: &[Pool], mut write: impl FnMut(Labels, &Volume) -> fmt::Result) -> fmt::Result {
    for pool in pools {
        for volume in &pool.volumes {
            write(vec![("pool", pool.name.clone()), ("volume", volume.name.clone())], volume)?;
        }
    }
    Ok(())
}

/// Counters of each volume, by operation.
fn by_operation<const N: usize>(
    pools: &[Pool],
    to: &mut Family,
    values: impl Fn(&VolumeCounters) -> [(&'static str, u64); N],
) -> fmt::Result {
    each(pools, |labels, volume| {
        values(&volume.counters).into_iter().try_for_each(|(kind, count)| {
            to.counter(&with(labels.clone(), "operation", kind), count as f64)
        })
    })
}

pub fn write(pools: &[Pool], to: &mut Writer) -> fmt::Result {
    to.gauge("volume_size_bytes", "How large it is for clients", |to| {
        each(pools, |labels, volume| to.gauge(&labels, volume.size as f64))
    })?;
    to.gauge("volume_mapped_bytes", "How much of it holds data", |to| {
        each(pools, |labels, volume| to.gauge(&labels, volume.mapped_bytes as f64))
    })?;
    to.counter("volume_operations", "Requests that were answered", |to| {
        by_operation(pools, to, |own| {
            [
                ("read", own.reads),
                ("write", own.writes),
                ("flush", own.flushes),
                ("trim", own.trims),
            ]
        })
    })?;
    to.counter("volume_bytes", "Bytes of these", |to| {
        by_operation(pools, to, |own| [("read", own.read_bytes), ("write", own.write_bytes)])
    })?;
    to.counter("volume_errors", "Requests that clients were told an error of", |to| {
        each(pools, |labels, volume| to.counter(&labels, volume.counters.errors as f64))
    })?;
    to.gauge("volume_queue_depth", "Requests that are not answered yet", |to| {
        each(pools, |labels, volume| to.gauge(&labels, volume.under_way as f64))
    })?;
    to.histogram("volume_latency_seconds", "How long clients waited", |to| {
        each(pools, |labels, volume| to.latencies(&labels, &volume.latency))
    })?;
    to.counter("volume_throttled", "Requests that its limits made wait", |to| {
        each(pools, |labels, volume| to.counter(&labels, volume.throttled as f64))
    })
}
