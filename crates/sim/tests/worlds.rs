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
fn worlds_1000_to_1049() {
    all(1000..1050);
}

#[test]
fn worlds_1050_to_1099() {
    all(1050..1100);
}

#[test]
fn worlds_1100_to_1149() {
    all(1100..1150);
}

#[test]
fn worlds_1150_to_1199() {
    all(1150..1200);
}
