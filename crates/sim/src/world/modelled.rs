//! Drives of worlds that take their timing from a model: small SSDs, full and aged, that collect
//! garbage while clients wait. None is like another, and none like one on the market: it is the
//! engine's patience that is on trial here, not a product.

use io::Nanos;
use io::rng::{Rng, mix};
use model::ssd::{
    Allocation, Buffer, Collection, Config, Destage, Fill, Host, Mode, Ssd, Timing, Victims,
};

/// Bytes of one erase block: small, so that a small drive has many.
const PAGES_PER_BLOCK: u32 = 16;
const PAGE_BYTES: u32 = 4096;
const DIES: u32 = 4;
/// Blocks of a die beside those for data and over-provisioning: watermarks and blocks in motion.
const SPARE_BLOCKS: u32 = 16;

/// One drive of a world: all of a world are of one kind, each with its own phase and age.
pub fn drive(seed: u64, at: usize, bytes: u64) -> Ssd {
    let config = config(&mut Rng::new(mix(seed) ^ 0x55d), bytes);
    Ssd::new(config, mix(seed) ^ mix(at as u64)).expect("small drives are put together with care")
}

fn config(rng: &mut Rng, bytes: u64) -> Config {
    let over_provisioning_permille = 70 + rng.below(200) as u32;
    let superblock = u64::from(DIES * PAGES_PER_BLOCK * PAGE_BYTES);
    let raw = bytes * 1000 / u64::from(1000 - over_provisioning_permille);
    let modes = [Mode::Blocking, Mode::Preemptible, Mode::Paced { gain_percent: 100 }];
    let volatile = rng.chance(1, 2);
    Config {
        channels: 2,
        dies_per_channel: DIES / 2,
        planes: 1,
        blocks_per_plane: raw.div_ceil(superblock) as u32 + SPARE_BLOCKS,
        pages_per_block: PAGES_PER_BLOCK,
        page_bytes: PAGE_BYTES,
        over_provisioning_permille,
        visible_bytes: Some(bytes),
        mapping_bytes: 4096,
        align: 4096,
        allocation: Allocation::Striped,
        timing: Timing {
            read: Nanos::from_micros(50),
            program: Nanos::from_micros(600),
            erase: Nanos::from_millis(3),
            channel_bytes_per_sec: 400_000_000,
            reads_first: rng.chance(1, 2),
            program_suspend: None,
            erase_suspend: None,
        },
        host: Host {
            link_bytes_per_sec: 550_000_000,
            link_duplex: false,
            write_bytes_per_sec: None,
            read_overhead: Nanos::from_micros(20),
            write_overhead: Nanos::from_micros(20),
            command: Nanos::from_micros(5),
            queue_depth: 32,
        },
        buffer: Some(Buffer {
            bytes: 2 << 20,
            power_loss_protected: !volatile,
            destage: if volatile {
                Destage::Threshold { bytes: 1 << 20 }
            } else {
                Destage::Continuous
            },
            period: volatile.then_some(Nanos::from_millis(50)),
            drain_blocks_host: volatile,
        }),
        collection: Collection {
            mode: modes[rng.index(modes.len())],
            victims: Victims::Greedy,
            low: 4,
            high: 8,
            hard: 2,
            idle_after: None,
            copies_in_flight: 8,
        },
        map_log: None,
        fill: if rng.chance(3, 4) { Fill::Aged } else { Fill::Written },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_makes_drives_of_every_size() {
        for seed in 0..200 {
            let bytes = (20 + seed % 12) << 20;
            let ssd = drive(seed, 0, bytes);
            assert_eq!(io::Model::geometry(&ssd).size, bytes);
        }
    }
}
