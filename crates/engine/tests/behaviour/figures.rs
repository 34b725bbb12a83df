//! FusionRAID's worked examples: Figures 7 and 9. (Figure 6 is `layout`'s, Figure 8 `policy`'s.)

use engine::{ConversionPolicy, CreateSpec};
use io::rng::Rng;

use crate::common::{MIB, Mirror, Virtual, World, check_all, make_pool, since, sleep, totals};

const KIB: u64 = 1 << 10;
const BLOCK: u64 = 64 * KIB;
const PAGE: u64 = 4 * KIB;

/// Stripes of 4+1, as in both figures.
fn spec(conversion: ConversionPolicy) -> CreateSpec {
    CreateSpec { width: Some(5), conversion, ..CreateSpec::new("tank") }
}

/// Two stripes carry four pairs: blocks 2, 17, 95, and one that an update has made invalid. The
/// first becomes RAID by its parity alone, the invalid block included; the other is spare again.
#[test]
fn figure_7_a_pair_of_stripes_becomes_one_by_writing_parity() {
    let world = Virtual::new(9, 64 * MIB, 7);
    world.block_on(async {
        let pool = make_pool(&world, &spec(ConversionPolicy::Eager)).await;
        pool.volume_create("v", 16 * MIB, None, None).await.expect("room");
        let volume = pool.volume("v").expect("made");
        pool.flush().await.expect("flush");
        let (mut mirror, mut rng) = (Mirror::new(16 * MIB), Rng::new(7));
        let before = totals(&pool);
        for block in [2, 17, 95, 40, 40] {
            let data = mirror.fill(&mut rng, block * BLOCK, BLOCK);
            volume.write(block * BLOCK, data, false).await.expect("write");
        }
        sleep(world.env(), 300).await;
        pool.flush().await.expect("flush");
        let (found, counters, space) = (since(&pool, before), pool.counters(), pool.status().space);
        assert_eq!((counters.conversions, counters.relocated_bytes), (1, 0));
        assert_eq!(found.read_bytes, 4 * BLOCK, "each block of the stripe that stays, once");
        let copies_and_parity = (5 * 2 + 1) * BLOCK;
        let journal = found.write_bytes - copies_and_parity;
        assert!(journal > 0 && journal <= BLOCK, "{journal} bytes of journal");
        assert_eq!(space.raid, 5 * BLOCK, "one stripe stays");
        assert_eq!(space.replicated, 2 * 5 * BLOCK, "of the update's tuple");
        check_all(&volume, &mirror, "converted").await;
    });
}

/// Block 0x02 is in the RAID area; an update of its pages 7 to 12 goes to a pair of blocks, without
/// reading, and its valid data lie in three blocks from then on.
#[test]
fn figure_9_an_update_of_pages_is_a_patch_in_a_pair_of_blocks() {
    let world = Virtual::new(9, 64 * MIB, 9);
    world.block_on(async {
        let pool = make_pool(&world, &spec(ConversionPolicy::Lazy)).await;
        pool.volume_create("v", 16 * MIB, None, None).await.expect("room");
        let volume = pool.volume("v").expect("made");
        let (mut mirror, mut rng) = (Mirror::new(16 * MIB), Rng::new(9));
        let stripe = mirror.fill(&mut rng, 0, 4 * BLOCK);
        volume.write(0, stripe, false).await.expect("write");
        pool.flush().await.expect("flush");
        assert_eq!((pool.counters().stripe_writes, pool.counters().replicated_writes), (1, 0));

        let (before, pages) = (totals(&pool), 6 * PAGE);
        let update = mirror.fill(&mut rng, 2 * BLOCK + 7 * PAGE, pages);
        volume.write(2 * BLOCK + 7 * PAGE, update, false).await.expect("write");
        let found = since(&pool, before);
        assert_eq!((found.reads, found.writes, found.write_bytes), (0, 2, 2 * pages));
        assert_eq!(pool.counters().patch_writes, 1);

        let before = totals(&pool);
        volume.read(2 * BLOCK, BLOCK as u32).await.expect("read");
        let found = since(&pool, before);
        // Pages 0 to 6 and 13 to 15 from the old place, 7 to 12 from one of the pair.
        assert_eq!((found.reads, found.read_bytes), (3, BLOCK));
        check_all(&volume, &mirror, "patched").await;
    });
}
