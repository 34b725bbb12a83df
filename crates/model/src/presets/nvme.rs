//! NVMe drives: Intel's P4500 and Samsung's Z-NAND.

use io::env::Nanos;

use super::fit;
use crate::ssd::{
    Allocation, Buffer, Collection, Config, Destage, Fill, Host, Mode, Timing, Victims,
};

/// P4500, 1 TB: reads 85 us and 279,000 a second, writes 20 us and 30,500 a second, 600 MB/s.
pub(super) fn p4500(size: u64) -> Config {
    let mut config = Config {
        channels: 8,
        dies_per_channel: 4,
        planes: 1,
        blocks_per_plane: 1,
        pages_per_block: 64,
        page_bytes: 16 << 10,
        over_provisioning_permille: 120,
        visible_bytes: None,
        mapping_bytes: 4096,
        align: 4096,
        allocation: Allocation::Striped,
        timing: Timing {
            read: Nanos::from_micros(60),
            // With the transfer of 16 KiB (20 us) 32 dies write 728 MB/s.
            program: Nanos::from_micros(700),
            erase: Nanos::from_millis(5),
            channel_bytes_per_sec: 800_000_000,
            reads_first: true,
            program_suspend: None,
            erase_suspend: None,
        },
        host: Host {
            // PCIe 3.0, four lanes.
            link_bytes_per_sec: 3_200_000_000,
            link_duplex: true,
            write_bytes_per_sec: Some(600_000_000),
            read_overhead: Nanos(15_500),
            write_overhead: Nanos(9_700),
            // 279,000 reads a second.
            command: Nanos(3_580),
            queue_depth: 256,
        },
        buffer: Some(Buffer {
            bytes: 32 << 20,
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
            copies_in_flight: 512,
        },
        map_log: None,
        fill: Fill::Fresh,
    };
    fit(&mut config, size);
    config
}

/// Z-NAND: tR 3 us, tPROG 100 us, pages of 4 KiB; reads suspend programs and erases.
pub(super) fn z_nand(size: u64) -> Config {
    let mut config = p4500(size);
    config.planes = 2;
    config.page_bytes = 4096;
    config.pages_per_block = 128;
    config.over_provisioning_permille = 200;
    config.timing.read = Nanos::from_micros(3);
    config.timing.program = Nanos::from_micros(100);
    config.timing.erase = Nanos::from_millis(1);
    config.timing.program_suspend = Some(Nanos::from_micros(5));
    config.timing.erase_suspend = Some(Nanos::from_micros(5));
    config.host.write_bytes_per_sec = None;
    config.host.read_overhead = Nanos::from_micros(4);
    config.host.write_overhead = Nanos::from_micros(8);
    config.host.command = Nanos(1_200);
    fit(&mut config, size);
    config
}
