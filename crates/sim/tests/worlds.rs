//! Worlds from seeds: first those that once failed, then a fixed range, in parallel.

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
fn worlds_1000_to_1079() {
    all(1000..1080);
}

#[test]
fn worlds_1080_to_1159() {
    all(1080..1160);
}

#[test]
fn worlds_1160_to_1239() {
    all(1160..1240);
}

#[test]
fn worlds_1240_to_1319() {
    all(1240..1320);
}
