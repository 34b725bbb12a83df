//! Where sectors lie on the platters, and when they pass beneath the head.
//!
//! Reading the whole disk in order takes a fixed time for each sector; laid end to end those
//! times are one long *ribbon*:
//!
//! ```text
//! ribbon:  |── track 0: one turn ──|switch|── track 1: one turn ──|switch|── ...
//! ```
//!
//! Tracks are skewed by the time of a switch, so the ribbon taken modulo one turn is also the
//! angle at which a sector begins.

use super::config::{Config, SECTOR};

#[derive(Clone, Debug)]
struct Zone {
    first_sector: u64,
    first_track: u64,
    sectors_per_track: u64,
    /// Nanoseconds on the ribbon where the zone begins.
    start: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Disc {
    zones: Vec<Zone>,
    heads: u64,
    cylinders: u64,
    revolution: u64,
    track_switch: u64,
}

impl Disc {
    pub(super) fn new(config: &Config) -> Disc {
        let densities: Vec<u64> = (0..config.zones).map(|z| sectors_per_track(config, z)).collect();
        let one_cylinder_each = config.heads * densities.iter().sum::<u64>();
        let cylinders = (config.size / SECTOR).div_ceil(one_cylinder_each);
        let tracks = cylinders * config.heads;
        let (revolution, track_switch) = (config.revolution().0, config.track_switch.0);

        let mut zones = Vec::new();
        let mut first_sector = 0;
        for (index, sectors_per_track) in (0..).zip(densities) {
            let first_track = index * tracks;
            let start = first_track * (revolution + track_switch);
            zones.push(Zone { first_sector, first_track, sectors_per_track, start });
            first_sector += tracks * sectors_per_track;
        }
        Disc {
            zones,
            heads: config.heads,
            cylinders: cylinders * config.zones,
            revolution,
            track_switch,
        }
    }

    pub(super) fn cylinders(&self) -> u64 {
        self.cylinders
    }

    pub(super) fn track(&self, sector: u64) -> u64 {
        let zone = self.zone(sector);
        zone.first_track + (sector - zone.first_sector) / zone.sectors_per_track
    }

    pub(super) fn cylinder(&self, track: u64) -> u64 {
        track / self.heads
    }

    /// When the first edge of `sector` passes, on the ribbon.
    pub(super) fn begin(&self, sector: u64) -> u64 {
        let zone = self.zone(sector);
        let inside = sector - zone.first_sector;
        let (track, index) = (inside / zone.sectors_per_track, inside % zone.sectors_per_track);
        zone.start
            + track * (self.revolution + self.track_switch)
            + index * self.revolution / zone.sectors_per_track
    }

    /// When the last edge of `sector` passes; a switch to the next track comes after it.
    pub(super) fn end(&self, sector: u64) -> u64 {
        let zone = self.zone(sector);
        let index = (sector - zone.first_sector) % zone.sectors_per_track + 1;
        let track_begin = self.begin(sector + 1 - index);
        track_begin + index * self.revolution / zone.sectors_per_track
    }

    /// How long the platters turn from `time` until `sector` comes.
    pub(super) fn rotation(&self, time: u64, sector: u64) -> u64 {
        let (target, angle) = (self.begin(sector) % self.revolution, time % self.revolution);
        (target + self.revolution - angle) % self.revolution
    }

    fn zone(&self, sector: u64) -> &Zone {
        let after = self.zones.partition_point(|zone| zone.first_sector <= sector);
        &self.zones[after - 1]
    }
}

fn sectors_per_track(config: &Config, zone: u64) -> u64 {
    let steps = config.zones.saturating_sub(1).max(1);
    let lost = (config.outer_track - config.inner_track) * zone / steps;
    (config.outer_track - lost) / SECTOR
}
