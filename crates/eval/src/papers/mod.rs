//! What each paper shows, a file for each table or figure; and what we ask ourselves (`ours`).

mod fusionraid;
mod hybraid;
mod ldm;
mod ours;
mod separation;
mod steering;

use crate::experiment::Experiment;

/// Every experiment, in the order of the papers; ours last.
pub fn all() -> Vec<Experiment> {
    let papers =
        [fusionraid::all(), steering::all(), hybraid::all(), separation::all(), ldm::all()];
    papers.into_iter().flatten().chain(ours::all()).collect()
}

/// Experiments by their names; a name may end with `*`.
pub fn named(names: &[String]) -> Result<Vec<Experiment>, String> {
    let known = all();
    let mut chosen = vec![false; known.len()];
    for name in names {
        let fits = |experiment: &Experiment| match name.strip_suffix('*') {
            Some(begin) => experiment.name.starts_with(begin),
            None => experiment.name == name,
        };
        let mut found = false;
        for (experiment, chosen) in known.iter().zip(&mut chosen) {
            found |= fits(experiment);
            *chosen |= fits(experiment);
        }
        if !found {
            return Err(format!(
                "there is no experiment '{name}': 'steadyraid-eval list' names them all"
            ));
        }
    }
    Ok(known.into_iter().zip(chosen).filter_map(|(own, chosen)| chosen.then_some(own)).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::experiment::Scale;

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
            assert!(!crate::experiment::run::plan(&refs, scale).is_empty());
        }
    }

    #[test]
    fn experiments_are_found_by_name_and_by_paper() {
        let of = |name: &str| named(&[name.to_owned()]).map(|found| found.len());
        assert_eq!(of("ldm-fig10"), Ok(1));
        assert!(of("ldm-*").is_ok_and(|count| count >= 1));
        assert!(of("ldm-fig99").is_err_and(|error| error.contains("list")));
    }
}
