//! The power goes after every write of the script, in every way.

use io::virt::CutMode;
use sim::cuts::{Scenario, Twist, run, writes_of};
use sim::machine::Death;

/// Every write of the script, plain, and a sample of them with more trouble.
fn everywhere(scenario: Scenario, death: Death) {
    let writes = writes_of(scenario);
    assert!(writes > 500, "the script does something");
    let mut failures = Vec::new();
    for cut in 1..=writes {
        let twist = Twist::for_cut(scenario, cut);
        let twists = if twist == Twist::NONE { vec![twist] } else { vec![Twist::NONE, twist] };
        for twist in twists {
            match run(scenario, cut, death, twist) {
                Ok(cut_happened) => assert!(cut_happened, "the script is the same every time"),
                Err(what) => failures.push(what),
            }
        }
    }
    assert!(failures.is_empty(), "{} cuts failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn raid5_everything_unflushed_is_lost() {
    everywhere(Scenario::Raid5, Death::Power(CutMode::DropAll));
}

#[test]
fn raid5_everything_is_kept() {
    everywhere(Scenario::Raid5, Death::Power(CutMode::KeepAll));
}

#[test]
fn raid5_some_is_lost_some_torn() {
    everywhere(Scenario::Raid5, Death::Power(CutMode::Random));
}

#[test]
fn raid5_killed() {
    everywhere(Scenario::Raid5, Death::Kill);
}

#[test]
fn raid6_everything_unflushed_is_lost() {
    everywhere(Scenario::Raid6, Death::Power(CutMode::DropAll));
}

#[test]
fn raid6_everything_is_kept() {
    everywhere(Scenario::Raid6, Death::Power(CutMode::KeepAll));
}

#[test]
fn raid6_some_is_lost_some_torn() {
    everywhere(Scenario::Raid6, Death::Power(CutMode::Random));
}

#[test]
fn raid6_killed() {
    everywhere(Scenario::Raid6, Death::Kill);
}

/// A drive may be the only one with the newest label, which a crash kept from the others. Opened
/// without it, the pool goes back to what the others know, and begins to erase what is newer. If
/// that opening is cut as well, and the drive comes back, it must not be believed any more.
fn drives_come_back(scenario: Scenario) {
    let mut failures = Vec::new();
    for (at, cut) in (1..=writes_of(scenario)).step_by(2).enumerate() {
        let again_after = Some([2, 4, 8, 16][at % 4]);
        let twist = Twist { drives_lost: true, again_after, come_back: true };
        failures.extend(run(scenario, cut, Death::Power(CutMode::Random), twist).err());
    }
    assert!(failures.is_empty(), "{} cuts failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn raid5_drives_come_back_after_an_opening_that_was_cut() {
    drives_come_back(Scenario::Raid5);
}

#[test]
fn raid6_drives_come_back_after_an_opening_that_was_cut() {
    drives_come_back(Scenario::Raid6);
}
