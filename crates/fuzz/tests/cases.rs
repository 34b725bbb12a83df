//! What the targets begin with is taken, and what the fuzzer once found is met without a panic.

use std::path::Path;

use fuzz::TARGETS;

#[test]
fn every_seed_is_taken() {
    let mut refused = Vec::new();
    for target in &TARGETS {
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{} begins with nothing", target.name);
        let numbers = (0..seeds.len()).filter(|&at| !(target.run)(&seeds[at]));
        refused.extend(
            numbers.map(|at| format!("{} {at}: {}", target.name, seeds[at].escape_ascii())),
        );
    }
    assert!(refused.is_empty(), "seeds are refused: {refused:#?}");
}

/// Bytes of a seed that are changed one at a time, from its beginning: headers and some more.
const CHANGED_MAX: usize = 200;

/// No engine, no luck: the nearest neighbours of what is taken. Most are refused, or the targets
/// would take anything.
#[test]
fn every_seed_with_a_wrong_byte_or_cut_short_is_met() {
    for target in &TARGETS {
        let (mut taken, mut all) = (0, 0);
        for seed in (target.seeds)() {
            for at in 0..seed.len().min(CHANGED_MAX) {
                for change in [0x01, 0x80, 0xff] {
                    let mut other = seed.clone();
                    other[at] ^= change;
                    taken += usize::from((target.run)(&other));
                }
                let _ = (target.run)(&seed[..at]);
                all += 3;
            }
        }
        assert!(taken < all, "{}: {taken} of {all} taken", target.name);
    }
}

#[test]
fn what_was_found_once_is_met() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    for directory in std::fs::read_dir(&cases).expect("cases are kept").flatten() {
        let name = directory.file_name().into_string().expect("ASCII");
        let target = TARGETS.iter().find(|target| target.name == name);
        let target = target.unwrap_or_else(|| panic!("cases/{name} is of no target"));
        for case in std::fs::read_dir(directory.path()).expect("a directory").flatten() {
            println!("{name}: {}", case.path().display());
            (target.run)(&std::fs::read(case.path()).expect("a file"));
        }
    }
}
