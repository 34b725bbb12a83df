//! Which cell a thread runs next.
//!
//! Making drives old and filling what lies on them takes longer than most measurements, and a
//! thread keeps what it made last (`bed.rs`). So cells follow each other that look at the same:
//!
//! ```text
//!  thread 1   raid50 on A ─ raid50 on A ─ fusion on A ┐ no more on A: the dearest bed that nobody
//!  thread 2   hybrid on B ─ raid5 on B ───────────────┘ has; none: help with the dearest there is
//! ```

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Cell;

/// Parameters that say what drives there are and how they are filled.
const BED: [&str; 13] = [
    "preset",
    "drives_are",
    "told",
    "drive_bytes",
    "drives",
    "hard_disks",
    "disk_percent",
    "disk_cache_bytes",
    "spares",
    "width",
    "filled_percent",
    "variant",
    "seed",
];

/// The drives that a cell looks at, and what is made on them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Made {
    bed: String,
    system: String,
}

fn told(parameters: &Map<String, Value>, name: &str) -> String {
    parameters.get(name).map(Value::to_string).unwrap_or_default()
}

impl Made {
    fn of(cell: &Cell) -> Made {
        // Without drives it has nothing in common with others.
        let bed = match cell.parameters.contains_key(BED[0]) {
            true => BED.map(|name| told(&cell.parameters, name)).join(" "),
            false => cell.name.clone(),
        };
        Made { bed, system: told(&cell.parameters, "system") }
    }
}

/// Cells that nobody has begun.
pub struct Queue<'a> {
    /// By what they look at; of each the dearest last.
    left: BTreeMap<Made, Vec<&'a Cell>>,
    /// What each thread made last.
    threads: Vec<Option<Made>>,
}

impl<'a> Queue<'a> {
    pub fn new(cells: impl IntoIterator<Item = &'a Cell>, threads: usize) -> Queue<'a> {
        let mut left: BTreeMap<Made, Vec<&Cell>> = BTreeMap::new();
        for cell in cells {
            left.entry(Made::of(cell)).or_default().push(cell);
        }
        left.values_mut().for_each(|cells| cells.sort_by(|a, b| a.cost.total_cmp(&b.cost)));
        Queue { left, threads: vec![None; threads] }
    }

    pub fn count(&self) -> usize {
        self.left.values().map(Vec::len).sum()
    }

    /// Seconds of a core that all of them take, about.
    pub fn cost(&self) -> f64 {
        self.left.values().flatten().map(|cell| cell.cost).sum()
    }

    pub fn clear(&mut self) {
        self.left.clear();
    }

    /// The next for a thread.
    pub fn take(&mut self, thread: usize) -> Option<&'a Cell> {
        let made = self.choose(thread)?;
        let cells = self.left.get_mut(&made).expect("it was chosen among them");
        let next = cells.pop();
        if cells.is_empty() {
            self.left.remove(&made);
        }
        self.threads[thread] = Some(made);
        next
    }

    fn choose(&self, thread: usize) -> Option<Made> {
        let last = self.threads[thread].as_ref();
        if let Some(last) = last.filter(|last| self.left.contains_key(*last)) {
            return Some(last.clone());
        }
        let mut beds: BTreeMap<&str, f64> = BTreeMap::new();
        for (made, cells) in &self.left {
            let cost: f64 = cells.iter().map(|cell| cell.cost).sum();
            *beds.entry(&made.bed).or_default() += cost;
        }
        let own = |bed: &str| last.is_some_and(|last| last.bed == bed);
        let others = |bed: &str| {
            let mut others = self.threads.iter().enumerate().filter(|(at, _)| *at != thread);
            others.any(|(_, made)| made.as_ref().is_some_and(|made| made.bed == bed))
        };
        let rank = |bed: &str| (own(bed), !others(bed));
        let by_rank =
            |a: &(&str, f64), b: &(&str, f64)| rank(a.0).cmp(&rank(b.0)).then(a.1.total_cmp(&b.1));
        let (bed, _) = beds.into_iter().max_by(by_rank)?;
        // Of one that another thread has: rather not the system that it is at.
        let taken = |made: &&Made| self.threads.iter().flatten().any(|other| other == *made);
        self.left.keys().filter(|made| made.bed == bed).min_by_key(taken).cloned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::Figures;
    use super::*;

    fn cell(name: &str, preset: &str, system: &str, cost: f64) -> Cell {
        let parameters = json!({ "preset": preset, "system": system });
        Cell::new(name, cost, parameters, || Ok(Figures::default()))
    }

    #[test]
    fn a_thread_stays_with_its_drives_and_then_helps() {
        let cells = [
            cell("a1", "a", "x", 5.0),
            cell("b1", "b", "x", 3.0),
            cell("a2", "a", "y", 5.0),
            cell("a3", "a", "x", 1.0),
            cell("b2", "b", "x", 2.0),
        ];
        let mut queue = Queue::new(&cells, 2);
        assert_eq!((queue.count(), queue.cost()), (5, 16.0));
        let mut take = |thread| queue.take(thread).map(|cell| cell.name.as_str());
        // The dearest bed first, the dearest of it first; the other thread takes the other bed.
        assert_eq!((take(0), take(1)), (Some("a1"), Some("b1")));
        // What is made already, though there is something dearer; then it helps with the rest.
        assert_eq!((take(0), take(1)), (Some("a3"), Some("b2")));
        assert_eq!((take(1), take(0)), (Some("a2"), None));
    }

    #[test]
    fn cells_without_drives_have_nothing_in_common() {
        let plain = |name: &str| Cell::new(name, 1.0, json!({}), || Ok(Figures::default()));
        let cells = [plain("one"), plain("two")];
        let mut queue = Queue::new(&cells, 1);
        assert!(queue.take(0).is_some() && queue.take(0).is_some() && queue.take(0).is_none());
    }
}
