//! A few of the papers' experiments at the quick scale, to the last digit: a change in behaviour
//! is to be seen in review. `BLESS=1` writes the numbers anew:
//! `BLESS=1 cargo test --release -p eval --test all figures`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use eval::experiment::folder::{Folder, Results};
use eval::experiment::{Experiment, Scale, compare, run, summary};
use eval::papers;

/// Of each paper, what takes seconds.
const NAMES: [&str; 6] = [
    "fusionraid-fig4",
    "hybraid-fig13",
    "hybraid-fig16",
    "hybraid-table4",
    "ldm-fig10",
    "separation-fig3",
];

fn expected() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/expected")
}

fn results(names: &[&str], dir: &Path) -> Results {
    let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
    let experiments = papers::named(&names).expect("they are known");
    let all: Vec<&Experiment> = experiments.iter().collect();
    let folder = Folder::new(dir).expect("a folder");
    let failed = run::all(&run::plan(&all, Scale::Quick), &folder, 2, true).expect("written");
    assert_eq!(failed, 0, "runs that failed");
    let mut results =
        run::conclude(&all, Scale::Quick, &folder, String::new()).expect("cells are there");
    // Who made them changes with every commit, and pictures show what tables have.
    (results.made.version, results.made.commit) = (String::new(), String::new());
    results.experiments.iter_mut().for_each(|own| own.conclusion.pictures.clear());
    results
}

#[test]
fn figures_are_as_expected() {
    let dir = tempdir("figures");
    let found = results(&NAMES, &dir);
    let path = expected().join("quick.json");
    if std::env::var_os("BLESS").is_some() {
        let text = serde_json::to_string_pretty(&found).expect("plain values") + "\n";
        fs::write(&path, text).expect("written");
    }
    let known = fs::read(&path).expect("expected numbers");
    let known: Results = serde_json::from_slice(&known).expect("results");
    let (changed, all) = compare::changes(&known, &found, 0.0);
    assert!(changed.is_empty(), "{}", compare::human(&changed, all, 0.0));
    assert!(all > 50, "{all} numbers");
    assert_eq!(known, found);
    fs::remove_dir_all(dir).expect("removed");
}

#[test]
fn cells_that_are_there_are_not_run_again_and_the_report_says_what_is_missing() {
    let dir = tempdir("resumed");
    let names = ["hybraid-table4"];
    let first = results(&names, &dir);
    assert!(first.experiments[0].missing.is_empty());
    let cell = fs::read_dir(dir.join("cells")).expect("cells").next().expect("one").expect("it");
    fs::remove_file(cell.path()).expect("removed");
    let experiments = papers::named(&names.map(str::to_owned)).expect("known");
    let all: Vec<&Experiment> = experiments.iter().collect();
    let folder = Folder::new(&dir).expect("a folder");
    let partial = run::conclude(&all, Scale::Quick, &folder, String::new()).expect("concluded");
    assert_eq!(partial.experiments[0].missing.len(), 1);
    assert_eq!(partial.experiments[0].conclusion.checks[0].ours, None);
    let page = eval::experiment::page::page(&partial);
    assert!(page.contains("Not there") && page.contains("hybraid-table4/arithmetic"));
    fs::remove_dir_all(dir).expect("removed");
}

/// Or it would go on telling of experiments that are not there any more, and not of new ones.
#[test]
fn the_committed_results_have_every_experiment() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results.md");
    let text = fs::read_to_string(path).expect("committed results");
    let told: BTreeSet<&str> = summary::names(&text).collect();
    let known: BTreeSet<&str> = papers::all().iter().map(|experiment| experiment.name).collect();
    let how = "steadyraid-eval run --all --quick --summary docs/results.md";
    assert_eq!(told, known, "written by: {how}");
}

fn tempdir(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("steadyraid-{name}-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("made");
    dir
}
