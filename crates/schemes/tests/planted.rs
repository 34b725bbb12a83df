//! Bugs planted in arrays, and in schemes on them, must be caught by worlds whose drives are hurt
//! at rest: each by some seed of one range.
//!
//! Caught means that the world said so of data: other bytes than were written are read, or a read
//! or the pool is refused although no more was hurt than it bears. An assertion of the product does
//! not count: the net under them is what is on trial.
//!
//! Only with the feature `planted`: `cargo test --release -p schemes --features planted --test
//! planted -- --skip battery:: --nocapture` prints which seed caught what (`docs/testing.md`).
//! A program of its own, so that what else schemes do is not compiled with planted bugs.

#[path = "all/battery/mod.rs"]
mod battery;
#[path = "all/scrub.rs"]
mod scrub;

use classical::planted::{Bug, plant};

use crate::battery::afflicted::{WRONG, one_hurt, one_lagging, one_losing, one_mixed_up};
use crate::battery::alternate::PARITY;
use crate::battery::in_place::REDUNDANT;
use crate::battery::replaced::Replaced;
use crate::battery::world::failure;

/// Worlds in which a bug must be caught.
const WORLDS_MAX: u64 = 300;

fn is_about_data(said: &str) -> bool {
    said.contains(WRONG) || said.starts_with("open: ") || said.starts_with("read: ")
}

/// Some world from this seed on fails because of the bug, and does not fail without it.
fn is_caught(bug: Bug, first: u64, world: impl Fn(u64)) {
    let noticed = |seed| {
        let planted = plant(bug);
        let said = failure(|| world(seed)).filter(|said| is_about_data(said));
        drop(planted);
        Some((seed, said?))
    };
    let caught = (first..first + WORLDS_MAX).find_map(noticed);
    let (seed, said) = caught.unwrap_or_else(|| panic!("{bug:?} lives through all worlds"));
    println!("{bug:?}: seed {seed}, {} worlds: {said}", seed - first + 1);
    world(seed);
}

#[test]
fn checksums_of_marked_regions_forgotten() {
    is_caught(Bug::ForgetMarked, 0, |seed| one_hurt(REDUNDANT[3], seed));
}

#[test]
fn checksums_of_marked_regions_of_mirrors_forgotten() {
    is_caught(Bug::ForgetMarked, 0, |seed| one_hurt(REDUNDANT[0], seed));
}

#[test]
fn an_image_of_long_ago_taken_for_a_drive() {
    is_caught(Bug::KeepStale, 0, |seed| one_hurt(REDUNDANT[1], seed));
}

#[test]
fn suspects_forgotten() {
    is_caught(Bug::ForgetSuspects, 0, |seed| one_hurt(REDUNDANT[0], seed));
}

#[test]
fn the_first_copy_believed() {
    is_caught(Bug::BelieveFirstCopy, 0, |seed| one_hurt(REDUNDANT[0], seed));
}

#[test]
fn parity_of_before_believed() {
    is_caught(Bug::BelieveOutdated, 1306, |seed| one_losing(REDUNDANT[5], seed));
}

#[test]
fn records_of_other_drives_believed() {
    is_caught(Bug::BelieveOthersRecords, 620, |seed| one_mixed_up(REDUNDANT[2], seed));
}

#[test]
fn what_was_left_alone_forgotten() {
    is_caught(Bug::ForgetLeftAlone, 0, |seed| one_lagging(REDUNDANT[4], seed));
}

#[test]
fn rot_that_is_read() {
    is_caught(Bug::ReadUnchecked, 0, |seed| one_hurt(Replaced(REDUNDANT[3]), seed));
}

#[test]
fn a_drive_that_is_whole_before_its_labels_say_so() {
    is_caught(Bug::WholeBeforeLabels, 1000, |seed| one_hurt(Replaced(REDUNDANT[5]), seed));
}

#[test]
fn an_old_page_of_checksums_believed() {
    is_caught(Bug::BelieveFoundChecksums, 1198, |seed| one_hurt(PARITY, seed));
}
