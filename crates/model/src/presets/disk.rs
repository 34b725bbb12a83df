//! The hard disk of LDM's log: Seagate Savvio 10K.1, after its product manual (rev. D, §4):
//! 10,000 rpm, 4 heads, tracks of 360,000 bytes on average, 506–753 Mbit/s at the head, seeks of
//! 0.4, 4.2 and 8.3 ms (reads, with controller overhead), writes 0.4 ms more.

use io::env::Nanos;

use crate::hdd::{Config, Schedule, SeekTimes};

pub(super) fn savvio(size: u64) -> Config {
    Config {
        size,
        rpm: 10_000,
        heads: 4,
        // The manual doesn't say how many; these are steps of 2 %.
        zones: 16,
        // Average 360,000, in the proportion of the rates at the head.
        outer_track: 841 * 512,
        inner_track: 565 * 512,
        seek: SeekTimes {
            next_cylinder: Nanos::from_micros(400),
            average: Nanos::from_micros(4_200),
            full_stroke: Nanos::from_micros(8_300),
            write_settle: Nanos::from_micros(400),
        },
        // Like the manual's single track seek.
        track_switch: Nanos::from_micros(400),
        overhead: Nanos::from_micros(30),
        // SAS, 3 Gbit/s.
        link_bytes_per_second: 300_000_000,
        read_buffer: 8 << 20,
        // LDM appends to its log behind a controller with a protected cache (PERC H710).
        stream_window: Nanos::from_millis(1),
        schedule: Schedule::ShortestPositioning { depth: 32, patience: Nanos::from_millis(500) },
    }
}
