//! The command line's reference in docs/cli.md is what `--help` says, so that a changed flag
//! is seen in review.

use crate::support::{Scratch, check_page};

const VERBS: [&[&str]; 19] = [
    &[],
    &["create"],
    &["volume"],
    &["volume", "create"],
    &["volume", "list"],
    &["volume", "resize"],
    &["volume", "limit"],
    &["volume", "delete"],
    &["serve"],
    &["status"],
    &["events"],
    &["drive"],
    &["drive", "sit-out"],
    &["drive", "trust"],
    &["drive", "auto"],
    &["drive", "fail"],
    &["list"],
    &["inspect"],
    &["schemes"],
];

#[test]
fn the_reference_is_what_help_says() {
    let scratch = Scratch::new();
    let section = |verb: &&[&str]| {
        let help = scratch.run(&[*verb, &["--help"]].concat()).expect(0).out;
        let lines = help.lines().map(|line| format!("    {line}").trim_end().to_owned() + "\n");
        let title = [&["steadyraid"], *verb].concat().join(" ");
        format!("\n### {title}\n\n{}", lines.collect::<String>())
    };
    check_page("cli.md", "reference", &VERBS.iter().map(section).collect::<String>());
}

#[test]
fn every_verb_has_an_example_and_top_level_help_the_exit_codes() {
    let scratch = Scratch::new();
    for verb in VERBS {
        scratch.run(&[verb, &["--help"]].concat()).expect(0).says("Example");
    }
    scratch.run(&["--help"]).expect(0).says("Exit codes:").says("powers of 1024");
    scratch.run(&["--version"]).expect(0).says("steadyraid 0.");
    scratch.run(&[]).expect(2);
    scratch.run(&["nonsense"]).expect(2);
}
