//! What is promised of a lost drive, where virtual time makes it exact.

use clap::Parser;
use eval::array::System;
use eval::rebuild::{Case, Options, Speed, Times};
use io::Nanos;

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    options: Options,
}

const DRIVES: usize = 29;

/// Nobody is there: all that drives do is for the rebuild, metadata included.
#[test]
fn all_drives_have_the_same_part_in_a_rebuild_and_a_spare_has_all_of_it() {
    let options = Arguments::parse_from(["rebuild", "--seconds", "1", "--warmup", "1"]).options;
    let stand = options.stand(DRIVES, 0, 4).expect("drives");
    let pool = options.case(System::Fusion, DRIVES, false).run(&stand).expect("a pool");
    assert!(pool.is_over && pool.trouble.is_none(), "{:?} {:?}", pool.took, pool.trouble);
    let (read, written) = pool.balance();
    assert!(read <= 1.05 && written <= 1.05, "read {read}, written {written}: {:?}", pool.drives);
    // A drive's part of all blocks: data, and a seventh of parity.
    let part = pool.stored as f64 * 7.0 / 6.0 / DRIVES as f64;
    let restored = pool.restored as f64 / part;
    assert!((0.98..=1.02).contains(&restored), "{restored} of what a drive holds");

    // The whole drive in its turn takes minutes, and is the same throughout.
    let speed = Speed::AtMost(50_000_000);
    let mut spare = Case { speed, ..options.case(System::RAID5, DRIVES, false) };
    spare.times.during_max = Nanos::from_secs(2);
    let spare = spare.run(&stand).expect("an array");
    assert!(!spare.is_over && spare.trouble.is_none(), "{:?}", spare.trouble);
    // As fast as it may, but for its beginning, in which the drive's sums are made room for, and
    // one piece.
    assert!((47e6..=51e6).contains(&spare.rate()), "{}", spare.rate());
    let wrote = |at: usize| spare.drives[at].1;
    assert!(wrote(DRIVES - 1) >= spare.restored, "the spare is filled");
    assert!((0..DRIVES - 1).all(|at| wrote(at) < 1 << 20), "the others are only read");
    let read = |at: usize| spare.drives[at].0;
    assert!((7..DRIVES - 1).all(|at| read(at) == 0), "other groups have no part in it");
    assert!(read(DRIVES - 1) < 1 << 20, "it might be the lost one, back: it is looked at");
}

/// An hour of requests that nothing holds back would be millions under way.
#[test]
fn a_rebuild_of_an_array_that_falls_behind_is_not_waited_for() {
    let options = Arguments::parse_from(["rebuild", "--rate", "40000", "--warmup", "0"]).options;
    let stand = options.stand(8, 1, 4).expect("drives");
    let mut case = options.case(System::RAID5, 8, true);
    case.times = Times { before: Nanos::ZERO, during_max: Nanos::from_secs(3600), ..case.times };
    let outcome = case.run(&stand).expect("an array");
    assert!(!outcome.keeps_up && !outcome.is_over, "{:?}", outcome.took);
    assert!(outcome.took < Nanos::from_secs(10), "{:?}", outcome.took);
}
