//! The shapes of latency: histograms, spikes, limits, backlog, events.

use engine::{PoolEvent, SpikeHandling, Threshold};
use io::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::serve::spikes::Mode;
use crate::wall_clock;

mirror! {
    /// Latencies of one kind of operation since the pool was opened.
    Latencies = engine::Latencies {
        count: u64, mean_nanos: u64, p50_nanos: u64, p99_nanos: u64, p999_nanos: u64,
        p9999_nanos: u64, max_nanos: u64, buckets: Vec<(u64, u64)>,
    }
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct OperationLatencies {
    pub reads: Latencies,
    pub writes: Latencies,
    pub flushes: Latencies,
}

impl From<&engine::OperationLatencies> for OperationLatencies {
    fn from(from: &engine::OperationLatencies) -> OperationLatencies {
        OperationLatencies {
            reads: (&from.reads).into(),
            writes: (&from.writes).into(),
            flushes: (&from.flushes).into(),
        }
    }
}

mirror! {
    /// What the spike detector of one drive has seen.
    Spikes = engine::SpikeStatus {
        stragglers: u64, stragglers_total: u64, unresponsive: bool, spikes: u64,
        spike_nanos: u64, threshold_nanos: u64,
    }
}

/// How spikes are handled.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Handling {
    /// `on`, `watch`, `paper`, `off`, or `custom`.
    pub mode: String,
    /// Absent where it is learned; then each drive has its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold_nanos: Option<u64>,
    pub slots: u8,
    pub enter: u32,
    pub leave: u32,
}

impl From<&SpikeHandling> for Handling {
    fn from(handling: &SpikeHandling) -> Handling {
        let acts = |of: &SpikeHandling| (of.detect, of.redirect, of.hedge, of.ladder);
        let mode = Mode::ALL.into_iter().find(|mode| acts(&mode.handling()) == acts(handling));
        Handling {
            mode: mode.map_or("custom", Mode::name).to_owned(),
            threshold_nanos: match handling.threshold {
                Threshold::Fixed(span) => Some(span.0),
                Threshold::Learned => None,
            },
            slots: handling.slots,
            enter: handling.enter,
            leave: handling.leave,
        }
    }
}

mirror! {
    /// Limits of one volume; zero is none.
    Limits = engine::VolumeLimits { iops: u64, bytes_per_sec: u64 }
}

mirror! {
    /// What background work has before it.
    Backlog = engine::BacklogStatus {
        tuples: u64, tuples_due: u64, limbo_stripes: u64, pressure_permille: u16,
        background_bytes: u64, pauses: u64, discard_pending_bytes: u64, discarded_bytes: u64,
    }
}

/// Something that happened to a pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    pub pool: String,
    /// Ascending without gaps from 1, since the pool was opened.
    pub sequence: u64,
    /// RFC 3339, in UTC.
    pub time: String,
    pub unix_micros: u64,
    /// `info`, `warning` or `error`.
    pub severity: String,
    pub kind: String,
    /// The drive it is about, if it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<u16>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive_name: Option<String>,
    pub text: String,
}

impl Event {
    /// `now` is what the clock shows by which events are dated.
    pub fn of_engine(pool: &str, event: &PoolEvent, now: Nanos) -> Event {
        let unix_micros = wall_clock::micros_at(event.at, now);
        Event {
            pool: pool.to_owned(),
            sequence: event.sequence,
            time: wall_clock::rfc3339(unix_micros),
            unix_micros,
            severity: event.severity.to_string(),
            kind: event.kind.name().to_owned(),
            drive: event.drive,
            drive_name: event.drive_name.clone().filter(|name| !name.is_empty()),
            text: event.text.clone(),
        }
    }

    pub fn of_scheme(pool: &str, event: &schemes::pool::Event, now: Nanos) -> Event {
        let unix_micros = wall_clock::micros_at(event.at, now);
        Event {
            pool: pool.to_owned(),
            sequence: event.sequence,
            time: wall_clock::rfc3339(unix_micros),
            unix_micros,
            severity: event.severity.to_string(),
            kind: event.kind.to_owned(),
            drive: event.drive,
            drive_name: event.drive_name.clone().filter(|name| !name.is_empty()),
            text: event.text.clone(),
        }
    }
}
