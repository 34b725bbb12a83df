//! The tables of a store: which there are, what is merged next, where a key is.

use std::collections::BTreeSet;
use std::fmt;
use std::rc::Rc;

use io::rng::mix;

use super::{LEVELS, Shape};

/// Of a hundred tables without a key, those whose filter says that they may have it: Bloom filters
/// of ten bits a key, as RocksDB proposes.
const FALSE_POSITIVE_PERCENT: u64 = 1;

/// A key, and which of the writes to the store it is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub key: u32,
    pub version: u32,
}

/// A file: keys in order, each once.
#[derive(Debug)]
pub struct Table {
    pub number: u64,
    /// Where it is: so many times the size of a table from the first one.
    pub slot: u64,
    entries: Vec<Entry>,
}

impl Table {
    pub fn pairs(&self) -> u64 {
        self.entries.len() as u64
    }

    fn first(&self) -> u32 {
        self.entries[0].key
    }

    fn last(&self) -> u32 {
        self.entries[self.entries.len() - 1].key
    }

    fn covers(&self, key: u32) -> bool {
        (self.first()..=self.last()).contains(&key)
    }
}

/// Tables to merge into a level: those of the one above, the newest first, and what they overlap.
#[derive(Clone, Debug)]
pub struct Job {
    level: usize,
    upper: Vec<Rc<Table>>,
    lower: Vec<Rc<Table>>,
}

impl Job {
    pub fn inputs(&self) -> impl Iterator<Item = &Rc<Table>> {
        self.upper.iter().chain(&self.lower)
    }

    /// A table that overlaps nothing goes one level down as it is.
    fn is_move(&self) -> bool {
        self.upper.len() == 1 && self.lower.is_empty()
    }
}

/// What a merge leaves: tables to write before they are taken in the place of what was merged.
#[derive(Debug)]
pub struct Merged {
    pub job: Job,
    pub outputs: Vec<Rc<Table>>,
    /// They are there already.
    pub moved: bool,
}

/// A block that a get looks at.
#[derive(Clone, Debug)]
pub struct Look {
    pub table: Rc<Table>,
    pub block: u64,
    /// Of the key; none if the filter was wrong.
    pub version: Option<u32>,
}

/// No space is left for a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the array has no space for another table: it is too small for this database")
    }
}

pub struct Tree {
    shape: Shape,
    /// L0 the newest first, the others by key.
    levels: [Vec<Rc<Table>>; LEVELS],
    /// Behind the last key that was merged from each level: all of it has its turn.
    cursors: [u32; LEVELS],
    free: BTreeSet<u64>,
    next_number: u64,
}

impl Tree {
    /// An empty one, with room for so many tables.
    pub fn new(shape: Shape, slots: u64) -> Tree {
        Tree {
            shape,
            levels: Default::default(),
            cursors: [0; LEVELS],
            free: (0..slots).collect(),
            next_number: 0,
        }
    }

    /// As loading leaves it: every key once, levels full from L1 on, L0 empty. All versions are 0.
    pub fn loaded(shape: Shape, slots: u64, mut keys: Vec<u32>) -> Result<Tree, Full> {
        let mut tree = Tree::new(shape, slots);
        keys.sort_unstable();
        keys.dedup();
        let all = keys.len() as u64;
        // Up to which of so many drawn numbers a key is in a level.
        let mut ends = [0; LEVELS];
        for level in 1..LEVELS {
            let pairs = shape.level_bytes(level) / shape.pair_bytes;
            ends[level] = all.min(ends[level - 1] + pairs);
        }
        ends[LEVELS - 1] = all;
        let mut levels: [Vec<Entry>; LEVELS] = Default::default();
        for key in keys {
            let drawn = mix(u64::from(key)) % all;
            let level = ends.partition_point(|&end| end <= drawn);
            levels[level].push(Entry { key, version: 0 });
        }
        for (level, entries) in levels.into_iter().enumerate() {
            tree.levels[level] = tree.cut(entries)?;
        }
        Ok(tree)
    }

    /// A table of these, in a place of its own. Nobody finds it yet.
    pub fn make(&mut self, entries: Vec<Entry>) -> Result<Rc<Table>, Full> {
        let slot = self.free.pop_first().ok_or(Full)?;
        let number = self.next_number;
        self.next_number += 1;
        Ok(Rc::new(Table { number, slot, entries }))
    }

    /// Tables of like size, so that no sliver is left at the end.
    fn cut(&mut self, entries: Vec<Entry>) -> Result<Vec<Rc<Table>>, Full> {
        let tables = entries.len().div_ceil(self.shape.table_pairs()).max(1);
        let pairs = entries.len().div_ceil(tables).max(1);
        entries.chunks(pairs).map(|some| self.make(some.to_vec())).collect()
    }

    /// A memtable was written.
    pub fn add(&mut self, table: Rc<Table>) {
        self.levels[0].insert(0, table);
    }

    /// Tables in L0.
    pub fn waiting(&self) -> usize {
        self.levels[0].len()
    }

    /// Bytes of each level.
    pub fn bytes(&self) -> [u64; LEVELS] {
        let bytes = |tables: &Vec<Rc<Table>>| {
            tables.iter().map(|table| table.pairs() * self.shape.pair_bytes).sum()
        };
        std::array::from_fn(|level| bytes(&self.levels[level]))
    }

    /// How much too full each level is; from 1 on something is to be done.
    fn score(&self, level: usize) -> f64 {
        match level {
            0 => self.waiting() as f64 / self.shape.merge_tables as f64,
            _ => self.bytes()[level] as f64 / self.shape.level_bytes(level) as f64,
        }
    }

    /// What is to be merged next, if anything is.
    pub fn pick(&self) -> Option<Job> {
        // The last one takes whatever there is.
        let scores = (0..LEVELS - 1).map(|level| (self.score(level), level));
        let (_, level) = scores.filter(|(score, _)| *score >= 1.0).max_by(|a, b| {
            // Of two the upper one, which writes wait for.
            a.0.total_cmp(&b.0).then(b.1.cmp(&a.1))
        })?;
        let own = &self.levels[level];
        let upper = if level == 0 {
            own.clone()
        } else {
            let next = own.partition_point(|table| table.first() < self.cursors[level]);
            vec![own[next % own.len()].clone()]
        };
        let first = upper.iter().map(|table| table.first()).min()?;
        let last = upper.iter().map(|table| table.last()).max()?;
        let overlap = |table: &&Rc<Table>| table.first() <= last && table.last() >= first;
        let lower = self.levels[level + 1].iter().filter(overlap).cloned().collect();
        Some(Job { level, upper, lower })
    }

    /// The newest of each key, in new tables.
    pub fn merge(&mut self, job: Job) -> Result<Merged, Full> {
        if job.is_move() {
            return Ok(Merged { outputs: job.upper.clone(), job, moved: true });
        }
        let mut all: Vec<Entry> =
            job.inputs().flat_map(|table| table.entries.iter().copied()).collect();
        // It is stable: of each key the newest stays first.
        all.sort_by_key(|entry| entry.key);
        all.dedup_by_key(|entry| entry.key);
        let outputs = self.cut(all)?;
        Ok(Merged { job, outputs, moved: false })
    }

    /// What was merged goes, and what it was merged into is found.
    pub fn take(&mut self, merged: &Merged) {
        let Merged { job, outputs, .. } = merged;
        let gone: BTreeSet<u64> = job.inputs().map(|table| table.number).collect();
        for level in [job.level, job.level + 1] {
            self.levels[level].retain(|table| !gone.contains(&table.number));
        }
        self.free.extend(job.inputs().map(|table| table.slot));
        for table in outputs {
            self.free.remove(&table.slot);
            let below = &mut self.levels[job.level + 1];
            let at = below.partition_point(|other| other.first() < table.first());
            below.insert(at, table.clone());
        }
        let last = job.upper.iter().map(|table| table.last()).max().unwrap_or(0);
        self.cursors[job.level] = last.checked_add(1).unwrap_or(0);
    }

    /// The blocks that a get reads, until it has found the key.
    pub fn looks(&self, key: u32) -> Vec<Look> {
        let mut looks = Vec::new();
        for (level, tables) in self.levels.iter().enumerate() {
            let from = match level {
                0 => 0,
                _ => tables.partition_point(|table| table.last() < key),
            };
            let upto = if level == 0 { tables.len() } else { tables.len().min(from + 1) };
            for table in tables[from..upto].iter().filter(|table| table.covers(key)) {
                let found = table.entries.binary_search_by_key(&key, |entry| entry.key);
                let (at, version) = match found {
                    Ok(at) => (at, Some(table.entries[at].version)),
                    Err(at) if is_false_positive(table.number, key) => (at, None),
                    Err(_) => continue,
                };
                looks.push(Look { table: table.clone(), block: at as u64, version });
                if version.is_some() {
                    return looks;
                }
            }
        }
        looks
    }
}

fn is_false_positive(number: u64, key: u32) -> bool {
    mix(number << 32 | u64::from(key)) % 100 < FALSE_POSITIVE_PERCENT
}

#[cfg(test)]
mod tests;
