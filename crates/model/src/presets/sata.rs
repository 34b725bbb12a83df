//! SATA drives: FusionRAID's consumer drives A to D, its data-centre drive E, and Intel's S4500
//! and S4600.

use io::env::Nanos;

use super::fit;
use crate::ssd::{
    Allocation, Buffer, Collection, Config, Destage, Fill, Host, MapLog, Mode, Timing, Victims,
};

/// What 6 Gbit/s leave after coding and framing.
const LINK: u64 = 550_000_000;

/// A protected buffer that is destaged continuously: what data-centre drives share.
fn data_centre() -> Config {
    Config {
        channels: 4,
        dies_per_channel: 2,
        planes: 2,
        blocks_per_plane: 1,
        pages_per_block: 64,
        page_bytes: 16 << 10,
        over_provisioning_permille: 145,
        visible_bytes: None,
        mapping_bytes: 4096,
        align: 4096,
        allocation: Allocation::Striped,
        timing: Timing {
            read: Nanos::from_micros(60),
            // With the transfer of 32 KiB (82 us) eight dies write 335 MB/s.
            program: Nanos::from_micros(700),
            erase: Nanos::from_millis(5),
            channel_bytes_per_sec: 400_000_000,
            reads_first: true,
            program_suspend: None,
            erase_suspend: None,
        },
        host: Host {
            link_bytes_per_sec: LINK,
            link_duplex: false,
            write_bytes_per_sec: Some(280_000_000),
            // Read 110 us = 19 + 13 + 60 + 10 on the channel + 7.5 on the link.
            read_overhead: Nanos::from_micros(19),
            // Write 37 us = 9 + 13 + 14.6 at the rate the drive takes them.
            write_overhead: Nanos::from_micros(9),
            // S4500 and S4600: 72,000 random reads a second.
            command: Nanos(13_400),
            queue_depth: 32,
        },
        buffer: Some(Buffer {
            bytes: 16 << 20,
            power_loss_protected: true,
            destage: Destage::Continuous,
            period: None,
            drain_blocks_host: false,
        }),
        collection: Collection {
            mode: Mode::Paced { gain_percent: 100 },
            victims: Victims::Greedy,
            low: 3,
            high: 8,
            hard: 2,
            idle_after: None,
            copies_in_flight: 256,
        },
        map_log: None,
        fill: Fill::Fresh,
    }
}

/// FusionRAID's drive E: 36/37 us, 560/280 MB/s.
pub(super) fn s4510(size: u64) -> Config {
    let mut config = data_centre();
    // Under sustained load it falls behind and then stops the host; in pauses it catches up.
    config.collection.mode = Mode::Paced { gain_percent: 45 };
    config.collection.idle_after = Some(Nanos::from_micros(500));
    config.collection.copies_in_flight = 16;
    // Under FusionRAID's evaluation load (556 scattered writes a second) full 4.85 times a
    // minute; 32 programs on 8 dies take 4 times 0.8 ms, after what
    // the dies are at.
    config.map_log = Some(MapLog { entries: 6_880, programs: 32 });
    fit(&mut config, size);
    config
}

/// Intel's S4500 (33,000 random writes a second) and S4600 (65,000): 490 MB/s, twice the dies.
fn s4x00(size: u64, over_provisioning_permille: u32) -> Config {
    let mut config = data_centre();
    config.channels = 8;
    config.pages_per_block = 64;
    config.host.link_bytes_per_sec = 500_000_000;
    config.host.write_bytes_per_sec = Some(490_000_000);
    config.host.write_overhead = Nanos::from_micros(14);
    config.over_provisioning_permille = over_provisioning_permille;
    fit(&mut config, size);
    config
}

pub(super) fn s4500(size: u64) -> Config {
    s4x00(size, 155)
}

pub(super) fn s4600(size: u64) -> Config {
    s4x00(size, 300)
}

/// FusionRAID's drives A to D: everything is written as SLC first, fast and in bursts that the
/// host waits for; so is garbage collection.
pub(super) fn consumer(size: u64) -> Config {
    let mut config = data_centre();
    config.channels = 8;
    config.dies_per_channel = 1;
    config.planes = 4;
    // A block holds a third as SLC of what it holds as TLC.
    config.pages_per_block = 48;
    // 240 GB of 256 GiB.
    config.over_provisioning_permille = 127;
    config.timing.read = Nanos::from_micros(45);
    config.timing.program = Nanos::from_micros(200);
    config.timing.channel_bytes_per_sec = 1_200_000_000;
    config.host.write_bytes_per_sec = None;
    config.host.command = Nanos::from_micros(4);
    config.host.read_overhead = Nanos::from_micros(20);
    config.host.write_overhead = Nanos::from_micros(40);
    config.buffer = Some(Buffer {
        bytes: 16 << 20,
        power_loss_protected: false,
        destage: Destage::Threshold { bytes: 10 << 20 },
        period: None,
        drain_blocks_host: true,
    });
    config.collection = Collection {
        mode: Mode::Blocking,
        victims: Victims::Greedy,
        low: 3,
        high: 23,
        hard: 2,
        idle_after: None,
        copies_in_flight: 8,
    };
    config.map_log = None;
    fit(&mut config, size);
    config
}
