//! The command line, with a world that fails on purpose: what it prints replays exactly.

use std::process::{Command, Output};

use sim::run::Case;
use sim::world::Canary;

fn sim(words: &[&str]) -> (Output, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_steadyraid-sim")).args(words).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, text)
}

/// The words of a printed command after `--`.
fn words_of<'a>(said: &'a str, label: &str) -> Vec<&'a str> {
    let line = said.lines().find_map(|line| line.trim().strip_prefix(label));
    let (_, words) = line.expect(said).split_once("-- ").expect("words for the simulator");
    words.split(' ').collect()
}

/// What failed, without the command that depends on how it was asked for.
fn failure_of(said: &str) -> &str {
    let from = said.find("FAILED").expect(said);
    let text = &said[from..];
    text.split_once("\n  in ").map_or(text, |(text, _)| text).split_once('\n').expect("two lines").1
}

#[test]
fn worlds_print_their_seeds_first_and_the_verdict_last() {
    let (output, said) = sim(&["world", "--seeds", "10000..10004", "--jobs", "2"]);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.lines().next(), Some("seeds 10000..10004"));
    assert_eq!(said.lines().last(), Some("4 passed, 0 failed"));
    let (_, alone) = sim(&["world", "--seeds", "10000..10004"]);
    assert_eq!(alone, said, "the number of threads changes nothing");
    let (_, one) = sim(&["world", "--seed", "10000"]);
    assert_eq!(one.lines().next(), Some("seed 10000"));
    let (wrong, _) = sim(&["world", "--seeds", "7..7"]);
    assert!(!wrong.status.success());
}

#[test]
fn a_failure_is_told_replayed_and_shrunk() {
    let canary = Some(Canary::Rot);
    let seed = (10_000..).find(|&seed| Case { canary, ..Case::of(seed) }.run().is_err());
    let seed = seed.expect("some world notices").to_string();
    let (output, said) = sim(&["replay", &seed, "--canary", "rot"]);
    assert!(!output.status.success());
    assert_eq!(said.lines().next(), Some(format!("seed {seed}").as_str()));
    assert!(said.contains("the pool is open"), "a story: {said}");
    let (_, again) = sim(&words_of(&said, "replay:"));
    assert_eq!(again, said);

    let mut shrink = words_of(&said, "shrink:");
    shrink.extend(["--tries", "60"]);
    let (output, shrunk) = sim(&shrink);
    assert!(!output.status.success());
    let words = words_of(&shrunk, "replay:");
    assert!(words.len() > 4, "something was left out: {words:?}");
    let (_, replayed) = sim(&words);
    assert_eq!(failure_of(&replayed), failure_of(&shrunk));
}

#[test]
fn what_passes_is_not_shrunk() {
    let (output, said) = sim(&["shrink", "10005"]);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("nothing to shrink"));
}
