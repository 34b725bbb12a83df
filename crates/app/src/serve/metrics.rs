//! Everything countable of every pool, as OpenMetrics text. docs/metrics.md lists the names.
//!
//! Names say what is counted, labels whose: `pool`, then `drive` (its number) or `volume`.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::render::view::{Drive, DriveCounters, Latencies, OperationLatencies, Pool, Volume};

/// Bounds of histograms are the same in every scrape, four to an octave (finer than what the engine
/// tells, which is by powers of two): from 16 us to 34 s, by when a drive has failed.
const LEAST_BOUND_LOG2: u32 = 14;
const MOST_BOUND_LOG2: u32 = 35;

/// All of it. The registry wants a value of its own.
pub fn text(pools: Vec<Pool>) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Pools(pools)));
    let mut said = String::new();
    match text::encode(&mut said, &registry) {
        Ok(()) => said,
        Err(error) => unreachable!("a String takes all that is written to it: {error}"),
    }
}

#[derive(Debug)]
struct Pools(Vec<Pool>);

/// Labels of one sample.
type Labels = Vec<(&'static str, String)>;

/// A family being written.
struct Family<'a>(MetricEncoder<'a>);

impl Family<'_> {
    fn gauge(&mut self, labels: &Labels, value: f64) -> fmt::Result {
        self.0.encode_family(labels)?.encode_gauge(&value)
    }

    fn counter(&mut self, labels: &Labels, value: f64) -> fmt::Result {
        self.0.encode_family(labels)?.encode_counter::<NoLabelSet, _, f64>(&value, None)
    }

    /// Exactly one of `names` is 1: the one that is.
    fn state(&mut self, labels: &Labels, names: &[&str], is: &str) -> fmt::Result {
        for name in names {
            let mut labels = labels.clone();
            labels.push(("state", (*name).to_owned()));
            self.gauge(&labels, f64::from(u8::from(*name == is)))?;
        }
        Ok(())
    }

    fn latencies(&mut self, labels: &Labels, of: &OperationLatencies) -> fmt::Result {
        let kinds = [("read", &of.reads), ("write", &of.writes), ("flush", &of.flushes)];
        for (kind, latencies) in kinds.into_iter().filter(|(_, latencies)| latencies.count > 0) {
            let mut labels = labels.clone();
            labels.push(("operation", kind.to_owned()));
            let sum = seconds(latencies.mean_nanos) * latencies.count as f64;
            self.0.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
                sum,
                latencies.count,
                &buckets(latencies),
                None,
            )?;
        }
        Ok(())
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

/// Counts by fixed bounds, in seconds; what is above the last one is in `f64::MAX`.
fn buckets(latencies: &Latencies) -> Vec<(f64, u64)> {
    let octaves = LEAST_BOUND_LOG2..MOST_BOUND_LOG2;
    let quarters = |log2: u32| (4..8).map(move |quarter| (1u64 << log2) / 4 * quarter);
    let bounds = octaves.flat_map(quarters).chain([1 << MOST_BOUND_LOG2]);
    let mut counted = latencies.buckets.iter().peekable();
    let mut buckets = Vec::new();
    for bound in bounds {
        let mut count = 0;
        while let Some((_, own)) = counted.next_if(|(own, _)| *own <= bound) {
            count += own;
        }
        buckets.push((seconds(bound), count));
    }
    buckets.push((f64::MAX, counted.map(|(_, count)| count).sum()));
    buckets
}

struct Writer<'a>(DescriptorEncoder<'a>);

impl Writer<'_> {
    fn family(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        write: impl FnOnce(&mut Family) -> fmt::Result,
    ) -> fmt::Result {
        let name = format!("steadyraid_{name}");
        write(&mut Family(self.0.encode_descriptor(&name, help, None, kind)?))
    }

    fn gauge(
        &mut self,
        name: &str,
        help: &str,
        write: impl FnOnce(&mut Family) -> fmt::Result,
    ) -> fmt::Result {
        self.family(name, help, MetricType::Gauge, write)
    }

    fn counter(
        &mut self,
        name: &str,
        help: &str,
        write: impl FnOnce(&mut Family) -> fmt::Result,
    ) -> fmt::Result {
        self.family(name, help, MetricType::Counter, write)
    }
}

impl Collector for Pools {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let mut to = Writer(encoder);
        self.health(&mut to)?;
        self.space(&mut to)?;
        self.work(&mut to)?;
        self.care(&mut to)?;
        self.drives(&mut to)?;
        self.drive_states(&mut to)?;
        self.volumes(&mut to)
    }
}

fn of_pool(pool: &Pool) -> Labels {
    vec![("pool", pool.name.clone())]
}

fn of_drive(pool: &Pool, drive: &Drive) -> Labels {
    vec![("pool", pool.name.clone()), ("drive", drive.index.to_string())]
}

fn of_volume(pool: &Pool, volume: &Volume) -> Labels {
    vec![("pool", pool.name.clone()), ("volume", volume.name.clone())]
}

fn with(mut labels: Labels, name: &'static str, value: &str) -> Labels {
    labels.push((name, value.to_owned()));
    labels
}

impl Pools {
    /// One number of each pool.
    fn each(&self, to: &mut Family, value: impl Fn(&Pool) -> f64) -> fmt::Result {
        self.0.iter().try_for_each(|pool| to.gauge(&of_pool(pool), value(pool)))
    }

    /// Counters of each pool, told apart by a label.
    fn counters<const N: usize>(
        &self,
        to: &mut Family,
        label: &'static str,
        values: impl Fn(&Pool) -> [(&'static str, u64); N],
    ) -> fmt::Result {
        for pool in &self.0 {
            for (name, value) in values(pool) {
                to.counter(&with(of_pool(pool), label, name), value as f64)?;
            }
        }
        Ok(())
    }

    fn every_drive(&self, mut write: impl FnMut(Labels, &Drive) -> fmt::Result) -> fmt::Result {
        for pool in &self.0 {
            pool.drives.iter().try_for_each(|drive| write(of_drive(pool, drive), drive))?;
        }
        Ok(())
    }

    fn health(&self, to: &mut Writer) -> fmt::Result {
        const STATES: [&str; 3] = ["online", "degraded", "failed"];
        to.gauge("pool_state", "1 for the state that the pool is in", |to| {
            self.0.iter().try_for_each(|pool| to.state(&of_pool(pool), &STATES, pool.state.name()))
        })?;
        let help = "Drives that may still be lost before data is";
        to.gauge("pool_redundancy_margin", help, |to| {
            self.each(to, |pool| f64::from(pool.redundancy_margin))
        })
    }

    fn space(&self, to: &mut Writer) -> fmt::Result {
        to.gauge("pool_space_bytes", "Bytes of drives by what they are used for", |to| {
            for pool in &self.0 {
                let space = &pool.space;
                let kinds = [
                    ("replicated", space.replicated),
                    ("raid", space.raid),
                    ("limbo", space.limbo),
                    ("free", space.free),
                ];
                for (kind, bytes) in kinds {
                    to.gauge(&with(of_pool(pool), "area", kind), bytes as f64)?;
                }
            }
            Ok(())
        })?;
        to.gauge("pool_used_bytes", "Bytes of users' data", |to| {
            self.each(to, |pool| pool.space.used as f64)
        })?;
        to.gauge("pool_usable_bytes", "Bytes that users' data may take", |to| {
            self.each(to, |pool| pool.space.usable as f64)
        })?;
        to.gauge("pool_journal_fill_ratio", "Part of the journal that is in use", |to| {
            self.each(to, |pool| f64::from(pool.journal_fill_percent) / 100.0)
        })
    }

    fn work(&self, to: &mut Writer) -> fmt::Result {
        let help = "Tuples of replicas waiting to become RAID stripes";
        to.gauge("pool_conversion_backlog", help, |to| {
            self.each(to, |pool| pool.backlog.tuples as f64)
        })?;
        let help = "Requests sent another way than usual, because of slow drives";
        to.counter("pool_redirects", help, |to| {
            self.counters(to, "kind", |pool| {
                let counters = &pool.counters;
                [("read", counters.redirected_reads), ("write", counters.redirected_writes)]
            })
        })?;
        to.counter("pool_hedges", "Late requests sent a second way", |to| {
            self.counters(to, "kind", |pool| {
                let counters = &pool.counters;
                [
                    ("read", counters.hedged_reads),
                    ("write", counters.hedged_writes),
                    ("journal", counters.hedged_journal_blocks),
                ]
            })
        })?;
        to.counter("pool_hedges_refused", "Second ways that the budget did not allow", |to| {
            self.0.iter().try_for_each(|pool| {
                to.counter(&of_pool(pool), pool.counters.hedges_refused as f64)
            })
        })?;
        to.counter("pool_background_operations", "Done in the background, by kind", |to| {
            self.counters(to, "kind", |pool| {
                let counters = &pool.counters;
                [
                    ("conversion", counters.conversions),
                    ("compaction", counters.compacted_stripes),
                    ("checkpoint", counters.checkpoints),
                ]
            })
        })
    }

    fn care(&self, to: &mut Writer) -> fmt::Result {
        to.counter("pool_pages", "Pages found wrong, and what came of it", |to| {
            self.counters(to, "found", |pool| {
                let scrub = &pool.scrub;
                let metadata = scrub.metadata_repaired;
                [
                    ("bad", scrub.bad_pages),
                    ("repaired", scrub.repaired_pages + scrub.repaired_parity),
                    ("lost", scrub.lost_pages),
                    ("metadata_repaired", metadata),
                ]
            })
        })?;
        to.gauge("pool_scrub_running", "1 while a scrub runs", |to| {
            self.each(to, |pool| f64::from(u8::from(pool.scrub.state == "running")))
        })?;
        to.gauge("pool_scrub_progress_ratio", "Part of the scrub that is done", |to| {
            self.each(to, |pool| pool.scrub.percent() as f64 / 100.0)
        })?;
        let help = "Blocks that still have to be rebuilt or moved, by drive they are about";
        to.gauge("pool_rebuild_blocks_left", help, |to| {
            for pool in &self.0 {
                for drive in &pool.rebuild.drives {
                    let labels = with(of_pool(pool), "drive", &drive.drive.to_string());
                    let labels = with(labels, "work", &drive.work);
                    to.gauge(&labels, drive.blocks_left as f64)?;
                }
            }
            Ok(())
        })
    }

    /// Counters of each drive, by operation.
    fn drive_counters(
        &self,
        to: &mut Writer,
        name: &str,
        help: &str,
        values: impl Fn(&DriveCounters) -> Vec<(&'static str, u64)>,
    ) -> fmt::Result {
        to.counter(name, help, |to| {
            self.every_drive(|labels, drive| {
                values(&drive.counters).into_iter().try_for_each(|(kind, count)| {
                    to.counter(&with(labels.clone(), "operation", kind), count as f64)
                })
            })
        })
    }

    fn drives(&self, to: &mut Writer) -> fmt::Result {
        self.drive_counters(
            to,
            "drive_operations",
            "Operations that the drive was given",
            |own| vec![("read", own.reads), ("write", own.writes), ("flush", own.flushes)],
        )?;
        self.drive_counters(to, "drive_bytes", "Bytes of these", |own| {
            vec![("read", own.read_bytes), ("write", own.write_bytes)]
        })?;
        self.drive_counters(to, "drive_errors", "Operations that failed", |own| {
            vec![("read", own.read_errors), ("write", own.write_errors)]
        })?;
        let help = "How long the drive took";
        to.family("drive_latency_seconds", help, MetricType::Histogram, |to| {
            self.every_drive(|labels, drive| to.latencies(&labels, &drive.latency))
        })
    }

    fn drive_states(&self, to: &mut Writer) -> fmt::Result {
        const STATES: [&str; 6] = ["active", "missing", "failed", "restoring", "vacated", "spare"];
        to.gauge("drive_state", "1 for the state that the drive is in", |to| {
            self.every_drive(|labels, drive| to.state(&labels, &STATES, &drive.state))
        })?;
        to.gauge("drive_stragglers", "Requests that it should have answered by now", |to| {
            self.every_drive(|labels, drive| to.gauge(&labels, drive.spikes.stragglers as f64))
        })?;
        to.gauge("drive_unresponsive", "1 while the others go round it", |to| {
            self.every_drive(|labels, drive| {
                to.gauge(&labels, f64::from(u8::from(drive.spikes.unresponsive)))
            })
        })?;
        to.counter("drive_spikes", "Times that it was unresponsive", |to| {
            self.every_drive(|labels, drive| to.counter(&labels, drive.spikes.spikes as f64))
        })?;
        to.counter("drive_spike_seconds", "How long it was that in all", |to| {
            self.every_drive(|labels, drive| to.counter(&labels, seconds(drive.spikes.spike_nanos)))
        })
    }

    fn volumes(&self, to: &mut Writer) -> fmt::Result {
        let each = |write: &mut dyn FnMut(Labels, &Volume) -> fmt::Result| {
            for pool in &self.0 {
                pool.volumes.iter().try_for_each(|own| write(of_volume(pool, own), own))?;
            }
            Ok(())
        };
        to.gauge("volume_size_bytes", "How large it is for clients", |to| {
            each(&mut |labels, volume| to.gauge(&labels, volume.size as f64))
        })?;
        to.gauge("volume_mapped_bytes", "How much of it holds data", |to| {
            each(&mut |labels, volume| to.gauge(&labels, volume.mapped_bytes as f64))
        })?;
        let help = "How long clients waited";
        to.family("volume_latency_seconds", help, MetricType::Histogram, |to| {
            each(&mut |labels, volume| to.latencies(&labels, &volume.latency))
        })?;
        to.counter("volume_throttled", "Requests that its limits made wait", |to| {
            each(&mut |labels, volume| to.counter(&labels, volume.throttled as f64))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_every_operation_once() {
        let latencies = Latencies {
            count: 1 + 2 + 4 + 8,
            buckets: vec![(1024, 1), (16_384, 2), (20_480, 4), (1 << 40, 8)],
            ..Latencies::default()
        };
        let buckets = buckets(&latencies);
        let counts: Vec<u64> = buckets.iter().map(|(_, count)| *count).collect();
        assert_eq!((counts[0], counts[1], counts.iter().sum::<u64>()), (3, 4, latencies.count));
        assert_eq!(buckets.last(), Some(&(f64::MAX, 8)));
        assert!(buckets.is_sorted_by(|one, next| one.0 < next.0), "bounds ascend");
    }

    #[test]
    fn nothing_served_is_a_document_all_the_same() {
        let said = text(Vec::new());
        assert!(said.ends_with("# EOF\n") && said.contains("steadyraid_pool_state"), "{said}");
    }
}
