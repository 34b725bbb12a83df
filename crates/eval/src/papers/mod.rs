//! What each paper shows, a file for each table or figure; and what we ask ourselves (`ours`).

mod fusionraid;
mod hybraid;
mod ldm;
pub mod ours;
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
