//! No file is forgotten: every Rust file is compiled, every integration test tests something.

use std::collections::{BTreeMap, BTreeSet};

use super::crates::Workspace;
use super::source::code_only;
use super::{Complaint, File};

pub fn check(workspace: &Workspace, files: &[File]) -> Vec<Complaint> {
    let targets: BTreeSet<&str> =
        workspace.packages.values().flat_map(|p| &p.targets).map(String::as_str).collect();
    // Outside of `crates` nothing is ours to build.
    let ours = files.iter().filter(|file| file.crate_name().is_some());
    let rust = ours.filter(|file| file.path.ends_with(".rs"));
    let sources: Vec<(&File, String)> = rust.map(|file| (file, code_only(&file.text))).collect();
    let modules = modules_by_crate(&sources);
    let macros = test_macros(&sources);
    let mut complaints = Vec::new();
    for (file, code) in &sources {
        let is_target = targets.contains(file.path.as_str());
        let declared = || {
            let known = file.crate_name().and_then(|name| modules.get(name));
            known.is_some_and(|names| names.contains(module_name(&file.path)))
        };
        if is_integration_test(&file.path) {
            if !is_target {
                complaints.push(format!("{}: no target builds this test", file.path));
            } else if !code.contains("#[test]") && !macros.iter().any(|name| code.contains(name)) {
                complaints.push(format!("{}: an integration test without a #[test]", file.path));
            }
        } else if !is_target && !declared() {
            complaints.push(format!("{}: no `mod` and no target: it is never built", file.path));
        }
    }
    complaints
}

/// `crates/X/tests/name.rs`, which Cargo makes a program of its own.
fn is_integration_test(path: &str) -> bool {
    let parts: Vec<&str> = path.split('/').collect();
    matches!(parts.as_slice(), ["crates", _, "tests", _])
}

/// The name by which another file declares this one.
fn module_name(path: &str) -> &str {
    let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
    path.rsplit('/').next().unwrap_or(path)
}

fn modules_by_crate<'a>(sources: &'a [(&File, String)]) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut modules: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (file, code) in sources {
        let Some(name) = file.crate_name() else { continue };
        let words: Vec<&str> = code.split_whitespace().collect();
        let declared = words.windows(2).filter(|pair| pair[0] == "mod");
        let declared = declared.filter_map(|pair| pair[1].strip_suffix(';'));
        modules.entry(name).or_default().extend(declared);
    }
    modules
}

/// Calls of macros that make tests: `both_runtimes!`.
fn test_macros(sources: &[(&File, String)]) -> Vec<String> {
    let with_tests = sources.iter().filter(|(_, code)| code.contains("#[test]"));
    let definitions = with_tests.flat_map(|(_, code)| code.split("macro_rules! ").skip(1));
    let names = definitions.filter_map(|after| after.split_whitespace().next());
    names.map(|name| format!("{name}!")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::crates::Package;

    fn complaints(files: &[(&str, &str)]) -> Vec<Complaint> {
        let targets = ["crates/app/src/main.rs", "crates/app/tests/cli.rs"];
        let targets = targets.into_iter().map(str::to_owned).collect();
        let mut workspace = Workspace::default();
        workspace.packages.insert("app".to_owned(), Package { targets, ..Package::default() });
        let files: Vec<File> = files.iter().map(|(path, text)| File::sample(path, text)).collect();
        check(&workspace, &files)
    }

    #[test]
    fn declared_modules_and_targets_are_fine() {
        let files = [
            ("crates/app/src/main.rs", "mod cli;\npub(crate) mod serve;"),
            ("crates/app/src/cli.rs", ""),
            ("crates/app/src/serve/mod.rs", ""),
            ("crates/app/tests/cli.rs", "#[test]\nfn t() {}"),
        ];
        assert_eq!(complaints(&files), [""; 0]);
    }

    #[test]
    fn forgotten_files_are_found() {
        let orphan = [("crates/app/src/main.rs", "// mod old;"), ("crates/app/src/old.rs", "")];
        assert!(complaints(&orphan)[0].contains("never built"));
        let other = [("crates/io/src/x.rs", "mod old;"), ("crates/app/src/old.rs", "")];
        assert!(complaints(&other).iter().any(|c| c.contains("app/src/old.rs")));
    }

    #[test]
    fn tests_that_test_nothing_are_found() {
        let unbuilt = [("crates/app/tests/lost.rs", "#[test]\nfn t() {}")];
        assert!(complaints(&unbuilt)[0].contains("no target"));
        let empty = [("crates/app/tests/cli.rs", "// #[test]\nfn t() {}")];
        assert!(complaints(&empty)[0].contains("without a #[test]"));
        let helper = ("crates/app/src/main.rs", "macro_rules! twice { () => { #[test] } }");
        let called = [helper, ("crates/app/tests/cli.rs", "twice!(one);")];
        assert_eq!(complaints(&called), [""; 0]);
    }
}
