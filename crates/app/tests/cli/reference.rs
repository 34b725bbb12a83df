//! The command line's reference in docs/cli.md is what `--help` says, so that a changed flag
//! is seen in review.

use crate::support::{Scratch, check_page};

/// `[]` for the program itself, then every verb and what is below it, in the order of `--help`: a
/// new one can't be forgotten.
fn verbs(scratch: &Scratch) -> Vec<Vec<String>> {
    let mut all = vec![vec![]];
    let mut at = 0;
    while at < all.len() {
        let verb = all[at].clone();
        let help = help(scratch, &verb);
        let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        let names = commands
            .take_while(|line| !line.is_empty())
            // Deeper are the further lines of a text.
            .filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')))
            .filter_map(|line| line.split_whitespace().next())
            .filter(|name| *name != "help");
        let below: Vec<_> = names.map(|name| [&verb[..], &[name.to_owned()]].concat()).collect();
        at += 1;
        // Directly behind the verb they belong to; those of the program itself in their order.
        all.splice(at..at, below);
    }
    all
}

fn help(scratch: &Scratch, verb: &[String]) -> String {
    let words: Vec<&str> = verb.iter().map(String::as_str).chain(["--help"]).collect();
    scratch.run(&words).expect(0).out
}

#[test]
fn the_reference_is_what_help_says() {
    let scratch = Scratch::new();
    let section = |verb: &Vec<String>| {
        let help = help(&scratch, verb);
        let lines = help.lines().map(|line| format!("    {line}").trim_end().to_owned() + "\n");
        let title = [&["steadyraid".to_owned()], &verb[..]].concat().join(" ");
        format!("\n### {title}\n\n{}", lines.collect::<String>())
    };
    check_page("cli.md", "reference", &verbs(&scratch).iter().map(section).collect::<String>());
}

#[test]
fn every_verb_has_an_example_and_top_level_help_the_exit_codes() {
    let scratch = Scratch::new();
    let verbs = verbs(&scratch);
    assert!(verbs.len() > 30, "help is not understood: {verbs:?}");
    for verb in verbs {
        assert!(help(&scratch, &verb).contains("Example"), "{verb:?} has no example");
    }
    scratch.run(&["--help"]).expect(0).says("Exit codes:").says("powers of 1024");
    scratch.run(&["--version"]).expect(0).says("steadyraid 0.");
    scratch.run(&[]).expect(2);
    scratch.run(&["nonsense"]).expect(2);
}

#[test]
fn pages_for_packages_are_of_every_verb_and_none_is_of_what_is_hidden() {
    let scratch = Scratch::new();
    scratch.run(&["generate", "share"]).expect(0);
    let read = |path: &str| {
        let path = scratch.path("share").join(path);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"))
    };
    let verbs = verbs(&scratch);
    for verb in &verbs {
        let name = [&["steadyraid".to_owned()], &verb[..]].concat().join("-");
        let page = read(&format!("man/man1/{name}.1"));
        assert!(page.contains(".SH SYNOPSIS"), "{name}: {page}");
    }
    for file in [
        "bash-completion/completions/steadyraid",
        "zsh/vendor-completions/_steadyraid",
        "fish/vendor_completions.d/steadyraid.fish",
    ] {
        let script = read(file);
        assert!(script.contains("rebalance") && script.contains("sit-out"), "{file}");
        assert!(!script.contains("generate"), "{file} offers what is hidden");
    }
}

#[test]
fn pages_go_to_a_directory() {
    let scratch = Scratch::new();
    scratch.file("taken", 1);
    scratch.run(&["generate", "taken"]).expect(3).says("error: taken/man/man1: ");
}
