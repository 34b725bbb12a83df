//! What `make` offers works: a target whose script nothing runs is broken one day, and nobody
//! knows.

use std::collections::{BTreeMap, BTreeSet};

use super::{Complaint, File};

/// Targets that are run as they are: all of CI, and the long versions.
const RUN: &[&str] = &["setup", "build", "lint", "test", "soak"];

/// Names of scripts in a text, as `scripts/bench.sh`.
fn scripts_in(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    let words = text.split(|c: char| !is_part(c)).filter(|word| word.ends_with(".sh"));
    let named = words.filter_map(|word| word.find("scripts/").map(|at| word[at..].to_owned()));
    named.collect()
}

/// What makes the targets of a line.
const MAKES: &str = "$(MAKE) ";

/// What each target runs; what it needs as if it made that.
fn recipes(makefile: &str) -> BTreeMap<&str, String> {
    let (mut recipes, mut target) = (BTreeMap::<&str, String>::new(), None);
    for line in makefile.lines() {
        if let Some(recipe) = line.strip_prefix('\t') {
            let text = target.and_then(|target| recipes.get_mut(target));
            text.into_iter().for_each(|text| text.extend([recipe, "\n"]));
            continue;
        }
        let is_part = |byte: u8| byte.is_ascii_lowercase() || byte == b'-';
        let is_target = |name: &str| !name.is_empty() && name.bytes().all(is_part);
        let rule = line.split_once(':').map(|(name, needs)| (name.trim(), needs));
        let rule = rule.filter(|(name, _)| is_target(name));
        target = rule.map(|(name, _)| name);
        if let Some((name, needs)) = rule {
            let text = recipes.entry(name).or_default();
            let needs = if needs.contains('=') { "" } else { needs };
            text.extend([MAKES, needs, "\n"]);
        }
    }
    recipes
}

/// The recipes of these targets, and of all that they make.
fn made<'a>(recipes: &'a BTreeMap<&str, String>, targets: &[&str]) -> Vec<&'a str> {
    let mut wanted: Vec<&str> = targets.to_vec();
    let (mut seen, mut made) = (BTreeSet::new(), Vec::new());
    while let Some(target) = wanted.pop() {
        let Some(recipe) = recipes.get(target).filter(|_| seen.insert(target)) else { continue };
        made.push(&recipe[..]);
        let makes = recipe.lines().filter(|line| line.contains(MAKES));
        wanted.extend(makes.flat_map(str::split_whitespace));
    }
    made
}

/// Targets that a page tells its readers to make.
fn asked_for(page: &str) -> BTreeSet<&str> {
    let after = page.split("`make ").skip(1);
    after.filter_map(|text| text.split(['`', ' ']).next()).collect()
}

pub fn check(files: &[File]) -> Vec<Complaint> {
    let text = |path: &str| files.iter().find(|file| file.path == path).map(|file| &file.text[..]);
    let Some(makefile) = text("Makefile") else { return Vec::new() };
    let recipes = recipes(makefile);
    let run = made(&recipes, RUN);
    let mut known: BTreeSet<String> = run.into_iter().flat_map(scripts_in).collect();
    // One that is run may run others.
    let others: Vec<String> =
        known.iter().filter_map(|path| text(path)).map(str::to_owned).collect();
    known.extend(others.iter().flat_map(|text| scripts_in(text)));
    let mut complaints = Vec::new();
    for (target, recipe) in &recipes {
        for script in scripts_in(recipe).difference(&known) {
            complaints.push(format!(
                "Makefile: nothing runs {script} of `make {target}`: have 'test' or 'soak' do it"
            ));
        }
    }
    let asked = text("README.md").map(asked_for).unwrap_or_default();
    for target in asked.into_iter().filter(|target| !recipes.contains_key(target)) {
        complaints.push(format!("README.md: there is no target `make {target}`"));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAKEFILE: &str = "CARGO := cargo\n\ntest: lint\n\tscripts/tests/all.sh\n\
                            bench: build\n\tscripts/bench.sh 5\n\nsoak: export A := 1\nsoak:\n\
                            \tscripts/tests/package.sh\ndeb:\n\tscripts/package.sh\n";

    fn complaints(makefile: &str, readme: &str) -> Vec<Complaint> {
        let files = [
            File::sample("Makefile", makefile),
            File::sample("README.md", readme),
            File::sample("scripts/tests/package.sh", "\"$root\"/scripts/package.sh\n"),
        ];
        check(&files)
    }

    #[test]
    fn a_target_whose_script_nothing_runs_is_found() {
        let found = complaints(MAKEFILE, "");
        assert!(found.len() == 1 && found[0].contains("scripts/bench.sh"), "{found:?}");
        let run = MAKEFILE.replace("soak:\n", "soak:\n\tscripts/bench.sh 1\n");
        let made = MAKEFILE.replace("soak:\n", "soak: some-more\n\t$(MAKE) bench\n");
        assert!(complaints(&made, "").is_empty());
        assert_eq!(complaints(&run, ""), [""; 0]);
        // As `make bench` was in the book, and not in the Makefile.
        let found = complaints(&run, "Say `make bench`, `make measure 5` or `make deb`.");
        assert!(found.len() == 1 && found[0].contains("make measure"), "{found:?}");
    }
}
