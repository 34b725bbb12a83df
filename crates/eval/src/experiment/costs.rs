//! What cells were said to cost, beside what they took: by this the costs in the code are set.
//!
//! Cells that look at the same drives share them on one thread, so the first of them takes as much
//! longer as it takes to make these; which is first depends on what else was run.

use super::folder::{Folder, FolderError};
use super::{Cell, shown};

/// Seconds of a core.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    pub cell: String,
    pub guessed: f64,
    pub taken: f64,
}

impl Cost {
    /// How far off the guess is, whichever way: 0 if it is exact. Fractions of a second are
    /// nothing to who waits.
    fn off(&self) -> f64 {
        const LEAST: f64 = 0.5;
        (self.taken.max(LEAST) / self.guessed.max(LEAST)).ln().abs()
    }
}

/// Those that the folder has, with these parameters, the worst guesses first.
pub fn costs(cells: &[Cell], folder: &Folder) -> Result<Vec<Cost>, FolderError> {
    let mut costs = Vec::new();
    for cell in cells {
        let done = folder.read(&cell.name)?;
        if let Some(done) = done.filter(|done| done.parameters == cell.parameters) {
            let (guessed, taken) = (cell.cost, done.seconds);
            costs.push(Cost { cell: cell.name.clone(), guessed, taken });
        }
    }
    costs.sort_by(|one, other| other.off().total_cmp(&one.off()));
    Ok(costs)
}

pub fn human(costs: &[Cost], all: usize) -> String {
    let mut text = format!("{:>9} {:>9} {:>7}  cell\n", "guessed s", "taken s", "times");
    let line = |guessed: f64, taken: f64, name: &str| {
        let times = shown(taken / guessed);
        format!("{guessed:>9.1} {taken:>9.1} {times:>7}  {name}\n")
    };
    let (mut guessed, mut taken) = (0.0, 0.0);
    for cost in costs {
        text += &line(cost.guessed, cost.taken, &cost.cell);
        (guessed, taken) = (guessed + cost.guessed, taken + cost.taken);
    }
    text + &line(guessed, taken, &format!("together, {} of {all} cells", costs.len()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::folder::Made;
    use super::super::{Figures, LoadSeed, run};
    use super::*;

    fn cell(name: &str, cost: f64) -> Cell {
        Cell::new(name, cost, json!({ "name": name }), || Ok(Figures::default()))
    }

    #[test]
    fn the_worst_guess_is_first_and_what_was_not_run_is_left_out() {
        let dir = std::env::temp_dir().join(format!("steadyraid-costs-{}", std::process::id()));
        let folder = Folder::new(&dir).expect("a folder");
        let cells = [cell("near", 10.0), cell("far", 10.0), cell("not run", 1.0), cell("nil", 0.1)];
        let made = Made { version: String::new(), commit: String::new() };
        for (at, seconds) in [(0, 12.0), (1, 2.0), (3, 0.001)] {
            let done = run::one(&cells[at], &made, LoadSeed::REPORTED);
            folder.write(&super::super::folder::Done { seconds, ..done }).expect("written");
        }
        // One of another scale.
        let other = Cell::new("not run", 1.0, json!({ "seconds": 60 }), || Ok(Figures::default()));
        folder.write(&run::one(&other, &made, LoadSeed::REPORTED)).expect("written");
        let costs = costs(&cells, &folder).expect("read");
        let names: Vec<&str> = costs.iter().map(|cost| cost.cell.as_str()).collect();
        assert_eq!(names, ["far", "near", "nil"]);
        let text = human(&costs, cells.len());
        assert!(text.contains("     10.0       2.0   0.200  far\n"), "{text}");
        assert!(text.ends_with("     20.1      14.0   0.697  together, 3 of 4 cells\n"), "{text}");
        std::fs::remove_dir_all(dir).expect("removed");
    }
}
