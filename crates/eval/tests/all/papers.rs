//! The list of experiments. Here rather than beside it: whoever can name a cell compiles all
//! arrays.

use std::collections::BTreeSet;

use eval::experiment::run::plan;
use eval::experiment::{Cell, Experiment, LoadSeed, Scale};
use eval::papers::{all, named};

#[test]
fn every_experiment_has_a_name_of_its_own_and_cells() {
    let all = all();
    let names: BTreeSet<&str> = all.iter().map(|experiment| experiment.name).collect();
    assert_eq!(names.len(), all.len());
    for experiment in &all {
        for scale in [Scale::Quick, Scale::Full] {
            assert!(!(experiment.cells)(scale).is_empty(), "{}", experiment.name);
        }
    }
    // Cells that several look at are told apart by their names alone.
    let refs: Vec<&Experiment> = all.iter().collect();
    for scale in [Scale::Quick, Scale::Full] {
        assert!(!plan(&refs, scale).is_empty());
    }
}

#[test]
fn experiments_are_found_by_name_and_by_paper() {
    let of = |name: &str| named(&[name.to_owned()]).map(|found| found.len());
    assert_eq!(of("ldm-fig10"), Ok(1));
    assert!(of("ldm-*").is_ok_and(|count| count >= 1));
    assert!(of("ldm-fig99").is_err_and(|error| error.contains("list")));
}

/// A scheme on drives that copy what nobody needs is not to be compared with one on drives that
/// know better.
#[test]
fn schemes_are_compared_on_untold_drives_and_on_told_ones() {
    let names = ["ours-*", "fusionraid-fig12", "fusionraid-fig14", "fusionraid-table6"];
    for experiment in named(&names.map(str::to_owned)).expect("known") {
        let cells = (experiment.cells)(Scale::Quick);
        let is_untold = |cell: &&Cell| cell.parameters.get("told") == Some(&false.into());
        let untold: Vec<&Cell> = cells.iter().filter(is_untold).collect();
        assert!(untold.len() >= 3, "{}", experiment.name);
        for cell in untold {
            let name = format!("{}/told", cell.name);
            let twin = cells.iter().find(|other| other.name == name);
            let twin = twin.unwrap_or_else(|| panic!("{}: no {name}", experiment.name));
            let mut expected = cell.parameters.clone();
            expected["told"] = true.into();
            assert_eq!(twin.parameters, expected, "{name}");
        }
    }
}

#[test]
fn the_bound_is_below_what_it_costs_to_write_at_all() {
    for home in named(&["ours-*".to_owned()]).expect("known") {
        let cells = (home.cells)(Scale::Quick);
        let bound = cells.iter().find(|cell| cell.name.ends_with("/bound")).expect("it");
        let figures = (bound.work)(LoadSeed::REPORTED).expect("arithmetic");
        let (of, name) = (|figure: &str| figures.values[&format!("all/{figure}")], home.name);
        // Firmware, link and a page of flash are some 0.04 to 0.2 ms; a whole 512 KiB at the
        // rate of one drive would be 1.9 ms.
        assert!((0.02..0.25).contains(&of("p50_ms")), "{name}: {}", of("p50_ms"));
        assert!((0.02..1.0).contains(&of("p9999_ms")), "{name}: {}", of("p9999_ms"));
        assert!(of("requests") >= 5_000.0, "{name}: {}", of("requests"));
        let written = figures.values["drives/write_amplification"];
        assert!((1.0..1.5).contains(&written), "{name}: {written}");
    }
}
