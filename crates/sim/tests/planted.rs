//! Bugs planted in the engine must be caught by the worlds, each by some seed of one range.
//!
//! Caught means that a check said so: the oracle, the audit, or the engine about its own
//! metadata. A panic does not count, though it would stop the engine from doing harm: it could
//! be our own, and the net under the assertions is what is on trial. Nor does a request that
//! takes too long: it says that something is wrong, not that data is.
//!
//! Only with the feature `planted`: `cargo test --release --workspace --features sim/planted --test
//! planted -- --nocapture` prints which seed caught what (`docs/testing.md`).

use engine::planted::{Bug, plant};
use sim::failure::{Check, Failure};
use sim::run::{Case, caught};
use sim::world::day;

/// The same for all bugs of a kind, and far from the seeds that other tests run.
const FIRST_SEED: u64 = 20_000;
/// Of worlds in which lost drives are replaced.
const FIRST_RETURN: u64 = 950_000;
/// Near a world in which second ways are first more often than the budget earns: they are rare.
const FIRST_HEDGED: u64 = 20_200;
/// Of worlds in which a drive rots.
const FIRST_ROT: u64 = 750_000;
/// Of worlds in which a drive is put back.
const FIRST_STALE: u64 = 785_000;
/// Of worlds in which too many drives are gone for a while.
const FIRST_SHELF: u64 = 510_000;
/// Of worlds in which the others take over what lost drives held.
const FIRST_REBUILD: u64 = 870_000;
/// Of worlds in which drives that work are exchanged.
const FIRST_EXCHANGE: u64 = 620_000;
/// Worlds in which a bug must be caught.
const WORLDS_MAX: u64 = 500;

fn is_about_data(failure: &Failure) -> bool {
    match failure.check {
        Check::Read | Check::Recovery | Check::Open | Check::Request => true,
        Check::Replay | Check::Audit => true,
        Check::Stall | Check::Hang | Check::Liveness => false,
        Check::Memory | Check::Panic => false,
    }
}

/// What a world says about the bug, if a check notices it that counts.
fn noticed(bug: Bug, seed: u64, counts: fn(&Failure) -> bool) -> Option<Failure> {
    let planted = plant(bug);
    let end = Case::of(seed).run();
    drop(planted);
    end.err().filter(counts)
}

/// Not about data: that nothing goes round a slow drive any more.
#[test]
fn a_load_that_never_ends() {
    let failure = is_caught(Bug::LoadForEver, |failure| failure.check == Check::Liveness);
    assert!(failure.to_string().contains("behind"), "{failure}");
}

/// Nor this: a drive that hesitated, and is quick again, is used no more.
#[test]
fn a_drive_that_is_avoided_for_ever() {
    let failure = is_caught(Bug::AvoidForEver, |failure| failure.check == Check::Liveness);
    assert!(failure.to_string().contains("quick again"), "{failure}");
}

/// Nor this: clients that read keep all others from writing.
#[test]
fn reads_that_starve_writes() {
    let failure = is_caught(Bug::ReadsStarveWrites, |failure| failure.check == Check::Liveness);
    assert!(failure.to_string().contains("beside reads"), "{failure}");
}

/// Nor this: late requests are waited for, however useful second ways are.
#[test]
fn a_budget_that_is_not_given_back() {
    let failure = is_caught(Bug::KeepBudget, |failure| failure.check == Check::Liveness);
    assert!(failure.to_string().contains("budget"), "{failure}");
}

fn first_seed(bug: Bug) -> u64 {
    match bug {
        Bug::TrustUnrestored | Bug::RestorePastConversions => FIRST_RETURN,
        Bug::RestorePastJournal => FIRST_RETURN,
        Bug::SkipSums => FIRST_ROT,
        Bug::TrustStale => FIRST_STALE,
        Bug::WriteOffAll => FIRST_SHELF,
        Bug::KeepBudget => FIRST_HEDGED,
        Bug::SubstituteBeforeDurable | Bug::KeepSubstitutes => FIRST_REBUILD,
        Bug::ForgetTwinWrites | Bug::TakeOverUnflushed | Bug::PromiseBeforeLabels => FIRST_EXCHANGE,
        _ => FIRST_SEED,
    }
}

fn is_caught(bug: Bug, counts: fn(&Failure) -> bool) -> Failure {
    let first = first_seed(bug);
    let mut seeds = first..first + WORLDS_MAX;
    let caught = seeds.find_map(|seed| Some((seed, noticed(bug, seed, counts)?)));
    let (seed, failure) = caught.unwrap_or_else(|| panic!("{bug:?} lives through all worlds"));
    let worlds = seed - first + 1;
    println!("{bug:?}: seed {seed}, {worlds} worlds, {:?}: {failure}", failure.check);
    if let Err(failure) = Case::of(seed).run() {
        panic!("seed {seed} fails without {bug:?} as well: {failure}");
    }
    failure
}

/// Hours of a day that has to notice a bug.
const HOURS: u64 = 3;
/// Days that are tried. About half of them read what rots before anything else mends it (7 of the
/// first 14), so that all of twelve miss it by chance once in 4,096 times.
const DAYS_MAX: u64 = 12;

fn is_caught_by_a_day(bug: Bug) {
    let day = |seed| caught(|| day::run(seed, HOURS, |_| {}, &mut |_| {}));
    let noticed = |seed| {
        let planted = plant(bug);
        let end = day(seed);
        drop(planted);
        end.err().filter(is_about_data)
    };
    let caught = (1..=DAYS_MAX).find_map(|seed| Some((seed, noticed(seed)?)));
    let (seed, failure) = caught.unwrap_or_else(|| panic!("{bug:?} lives through all days"));
    println!("{bug:?}: day {seed}, {:?}: {failure}", failure.check);
    // What is allocated is that of all tests that run: whether it stays flat is asked last.
    if let Some(failure) = day(seed).err().filter(is_about_data) {
        panic!("day {seed} fails without {bug:?} as well: {failure}");
    }
}

macro_rules! bugs_of_days {
    ($($name:ident: $bug:ident,)*) => {
        $(#[test]
        fn $name() {
            is_caught_by_a_day(Bug::$bug);
        })*
    };
}

bugs_of_days! {
    a_day_with_rot_that_is_read: SkipSums,
    a_day_with_a_stripe_that_keeps_its_substitutes: KeepSubstitutes,
    a_day_with_a_patch_forgotten_in_conversion: ForgetPatch,
}

macro_rules! bugs {
    ($($name:ident: $bug:ident,)*) => {
        $(#[test]
        fn $name() {
            is_caught(Bug::$bug, is_about_data);
        })*
    };
}

bugs! {
    a_skipped_journal_flush: SkipJournalFlush,
    a_journal_in_caches: CacheJournal,
    a_stripe_freed_before_its_readers_are_done: FreeBeforeReaders,
    a_stripe_freed_before_its_death_is_durable: FreeBeforeDurable,
    a_conversion_before_parity_is_durable: ConvertBeforeDurable,
    fua_answered_early: AckFuaEarly,
    a_failure_nobody_wrote_down: ForgetFailure,
    a_patch_forgotten_in_conversion: ForgetPatch,
    a_replayed_patch_forgotten_in_conversion: ForgetReplayedPatch,
    a_relocation_without_comparison: RelocateBlindly,
    a_checkpoint_sequence_used_again: ReuseCheckpointSequence,
    a_torn_write_taken_for_whole: IgnoreTornSector,
    a_torn_copy_left_torn: KeepTornCopy,
    a_flush_that_covers_too_much: SettleLate,
    rot_that_is_read: SkipSums,
    an_image_of_before_that_is_read: TrustStale,
    drives_of_a_lost_shelf_written_off: WriteOffAll,
    an_empty_drive_that_is_read: TrustUnrestored,
    parity_that_a_conversion_left_out: RestorePastConversions,
    a_journal_with_single_copies: RestorePastJournal,
    a_substitute_in_a_cache: SubstituteBeforeDurable,
    substitutes_of_a_stripes_former_life: KeepSubstitutes,
    a_copy_that_is_out_of_date: ForgetTwinWrites,
    a_copy_in_a_cache: TakeOverUnflushed,
    an_exchange_nobody_wrote_down: PromiseBeforeLabels,
}
