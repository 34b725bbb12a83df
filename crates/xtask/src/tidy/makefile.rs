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

/// What each target runs.
fn recipes(makefile: &str) -> BTreeMap<&str, String> {
    let (mut recipes, mut target) = (BTreeMap::<&str, String>::new(), None);
    for line in makefile.lines() {
        if let Some(recipe) = line.strip_prefix('\t') {
            let text = target.and_then(|target| recipes.get_mut(target));
            text.into_iter().for_each(|text| text.extend([recipe, "\n"]));
            continue;
        }
        let name = line.split_once(':').map(|(name, _)| name.trim());
        let is_target = |name: &&str| name.bytes().all(|byte| byte.is_ascii_lowercase());
        target = name.filter(is_target).filter(|name| !name.is_empty());
        if let Some(name) = target {
            recipes.entry(name).or_default();
        }
    }
    recipes
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
    let run = RUN.iter().filter_map(|target| recipes.get(target));
    let mut known: BTreeSet<String> = run.flat_map(|recipe| scripts_in(recipe)).collect();
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
        assert_eq!(complaints(&run, ""), [""; 0]);
        // As `make bench` was in the book, and not in the Makefile.
        let found = complaints(&run, "Say `make bench`, `make measure 5` or `make deb`.");
        assert!(found.len() == 1 && found[0].contains("make measure"), "{found:?}");
    }
}
