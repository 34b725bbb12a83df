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
fn worlds_1000_to_1024() {
    all(1_000..1_025);
}

#[test]
fn worlds_1025_to_1049() {
    all(1_025..1_050);
}

#[test]
fn worlds_1050_to_1074() {
    all(1_050..1_075);
}

#[test]
fn worlds_1075_to_1099() {
    all(1_075..1_100);
}

#[test]
fn worlds_1100_to_1124() {
    all(1_100..1_125);
}

#[test]
fn worlds_1125_to_1149() {
    all(1_125..1_150);
}

#[test]
fn worlds_1150_to_1174() {
    all(1_150..1_175);
}

#[test]
fn worlds_1175_to_1199() {
    all(1_175..1_200);
}
