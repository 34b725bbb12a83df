//! Worlds from seeds: first those that once failed, then a fixed range, in parallel. Thousands of
//! smaller ones are run by `make test` beside this.

use sim::run;

/// Runs seeds; all of them, so that one failure does not hide another.
fn all(seeds: impl Iterator<Item = u64>) {
    let failures: Vec<String> = seeds.filter_map(|seed| run::seed(seed).err()).collect();
    assert!(failures.is_empty(), "{} worlds failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn seeds_that_once_failed() {
    let text = include_str!("seeds.txt");
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let seed = |line: &str| line.split_once(':').expect("seed: story").0.parse();
    all(lines.map(|line| seed(line).expect("a number")));
}

#[test]
fn worlds_1000_to_1074() {
    all(1000..1075);
}

#[test]
fn worlds_1075_to_1149() {
    all(1075..1150);
}

#[test]
fn worlds_1150_to_1224() {
    all(1150..1225);
}

#[test]
fn worlds_1225_to_1299() {
    all(1225..1300);
}
