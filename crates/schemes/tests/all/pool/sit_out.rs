//! Drives that sit out: read only for what nobody else can answer, and written to as ever.

use io::Nanos;
use schemes::pool::Decided;
use schemes::scheme::Scheme;

use super::shelf::{REDUNDANT, Shelf, TestEnv, check, volume, write};

const VICTIM: usize = 1;
/// What is moved in the background is where it belongs by then.
const SETTLED: Nanos = Nanos::from_secs(20);
const STRAGGLERS: Nanos = Nanos::from_millis(100);

fn reads(pool: &schemes::Pool<TestEnv>) -> u64 {
    pool.status().drives[VICTIM].counters.reads
}

async fn sits_out(shelf: &Shelf, name: &str) {
    let pool = shelf.open().await.expect("it opens");
    for at in 0..4 {
        write(&pool, at).await;
    }
    volume(&pool).flush().await.expect("flushes");
    shelf.rest(SETTLED).await;
    let before = reads(&pool);
    for _ in 0..4 {
        check(&pool, name, 4).await;
    }
    // Reads that were late, and are not waited for any more, are over.
    shelf.rest(STRAGGLERS).await;
    // A scheme may have moved everything elsewhere.
    let used = reads(&pool) > before;
    pool.drive_sit_out(VICTIM, true).expect("others have all");
    assert_eq!(pool.status().drives[VICTIM].decided, Decided::SitOut, "{name}");
    let before = reads(&pool);
    for _ in 0..3 {
        check(&pool, name, 4).await;
    }
    assert_eq!(reads(&pool), before, "{name}: it was read");
    // A part of a page: what lies beside it is had from the others, too.
    let part = io::Buf::from_slice(&[7; 512]);
    volume(&pool).write(5 << 20, part, true).await.expect("writes");
    assert_eq!(reads(&pool), before, "{name}: it was read for a write");
    write(&pool, 4).await;
    pool.drive_sit_out(VICTIM, false).expect("at any time");
    assert_eq!(pool.status().drives[VICTIM].decided, Decided::Automatic, "{name}");
    shelf.rest(SETTLED).await;
    let before = reads(&pool);
    for _ in 0..4 {
        check(&pool, name, 5).await;
    }
    assert!(reads(&pool) > before || !used, "{name}: it is not read any more");
    // It lacks nothing, and is read again where it is needed.
    pool.drive_sit_out(VICTIM, true).expect("others have all");
    let others = (0..shelf.disks.len()).filter(|at| *at != VICTIM);
    for other in others {
        if pool.drive_bears(other) {
            pool.drive_fail(other, false).await.expect("others have all");
            check(&pool, name, 5).await;
        }
    }
    pool.close().await.expect("closes");
}

#[test]
fn a_drive_that_sits_out_is_read_only_where_it_is_needed() {
    for (scheme, drives) in REDUNDANT {
        let shelf = Shelf::new(scheme, drives);
        shelf.env.block_on(sits_out(&shelf, scheme.name()));
    }
}

#[test]
fn a_drive_that_nobody_can_answer_for_does_not_sit_out() {
    let shelf = Shelf::new(Scheme::Raid5, 4);
    shelf.env.block_on(async {
        let pool = shelf.open().await.expect("it opens");
        pool.drive_sit_out(2, true).expect("others have all");
        pool.drive_fail(2, false).await.expect("others have all");
        let refused = pool.drive_sit_out(VICTIM, true).expect_err("it is needed");
        assert!(refused.to_string().contains("no redundancy is left"), "{refused}");
        // What was said of the drive that is gone is not said of the next one.
        assert_eq!(pool.status().drives[2].decided, Decided::Automatic);
    });
}
