//! A store of keys like RocksDB, as far as what it asks of a block device follows from it
//! (FusionRAID §5.2, real applications). Keys and tables are real, values are only lengths. What
//! is here decides; `array::kv` does it.
//!
//! ```text
//!  put ── group ── log, fsync ── memtable ─full─> L0 ─4 tables─> L1 ─too large─> L2 ── ...
//!  get ── memtables ── L0, the newest first ── of each level one table: filter? cache? a block
//! ```
//! L0 has memtables as they were; below, the tables of a level hold different ranges of keys, and
//! a level is so many times as large as the one above. A table that is too much for its level is
//! merged with those that it overlaps below (levelled compaction).

pub mod cache;
pub mod tree;
pub mod ycsb;

use std::collections::BTreeMap;

use io::Nanos;

use self::tree::Entry;

/// Levels of a tree (RocksDB's `num_levels`). The last takes whatever there is.
pub const LEVELS: usize = 7;

/// How a store is made.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes of a key with its value, which fill a block of a table.
    pub pair_bytes: u64,
    /// Bytes of a memtable that is full, and of a table.
    pub table_bytes: u64,
    pub level1_bytes: u64,
    /// A level is so many times as large as the one above.
    pub fan_out: u64,
    /// Tables in L0 at which they are merged; at which writes are slowed; at which they stop.
    pub merge_tables: usize,
    pub slow_tables: usize,
    pub stop_tables: usize,
    /// Bytes a second at which slowed writes are taken.
    pub slow_rate: u64,
}

impl Shape {
    /// RocksDB as it comes, with the paper's pairs of 4 KB (§2.1): `write_buffer_size`,
    /// `max_bytes_for_level_base` and `_multiplier`, `level0_file_num_compaction_trigger`,
    /// `_slowdown_writes_trigger`, `_stop_writes_trigger`, `delayed_write_rate`. Two memtables, a
    /// thread that writes tables of them and one that merges are its defaults, too.
    pub const ROCKSDB: Shape = Shape {
        pair_bytes: 4 << 10,
        table_bytes: 64 << 20,
        level1_bytes: 256 << 20,
        fan_out: 10,
        merge_tables: 4,
        slow_tables: 20,
        stop_tables: 36,
        slow_rate: 16 << 20,
    };

    /// Pairs of a full table.
    pub fn table_pairs(&self) -> usize {
        (self.table_bytes / self.pair_bytes) as usize
    }

    /// Bytes that a level below L0 should have at most.
    pub fn level_bytes(&self, level: usize) -> u64 {
        self.level1_bytes.saturating_mul(self.fan_out.saturating_pow(level as u32 - 1))
    }
}

/// What was put last, in memory and in the log.
#[derive(Clone, Debug, Default)]
pub struct Memtable {
    versions: BTreeMap<u32, u32>,
    /// What was put, also over one another: each takes room.
    pairs: u64,
}

impl Memtable {
    pub fn put(&mut self, key: u32, version: u32) {
        self.versions.insert(key, version);
        self.pairs += 1;
    }

    pub fn get(&self, key: u32) -> Option<u32> {
        self.versions.get(&key).copied()
    }

    pub fn is_full(&self, shape: &Shape) -> bool {
        self.pairs * shape.pair_bytes >= shape.table_bytes
    }

    /// As a table has them.
    pub fn entries(&self) -> Vec<Entry> {
        self.versions.iter().map(|(&key, &version)| Entry { key, version }).collect()
    }
}

/// What becomes of the next write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Go,
    /// After so long.
    Slow(Nanos),
    /// The memtable is full and another one begins.
    Seal,
    /// Until something has been written or merged.
    Stop,
}

/// Of a write of so many bytes: whether the memtable is full, another one is still being written,
/// and how many tables L0 has.
pub fn admit(shape: &Shape, bytes: u64, full: bool, sealed: bool, tables: usize) -> Admission {
    match (full, sealed) {
        (true, true) => Admission::Stop,
        _ if tables >= shape.stop_tables => Admission::Stop,
        (true, false) => Admission::Seal,
        _ if tables >= shape.slow_tables => {
            Admission::Slow(Nanos(bytes * 1_000_000_000 / shape.slow_rate))
        }
        _ => Admission::Go,
    }
}

/// The log: a file for each memtable, in turns in the space of [`Log::FILES`].
#[derive(Clone, Debug)]
pub struct Log {
    file_bytes: u64,
    file: u64,
    bytes: u64,
}

impl Log {
    /// Of the memtable that is filled, of the one that is written, and one that was deleted.
    const FILES: u64 = 3;
    /// A file system writes whole pages; so the last page of one group is the next one's first.
    const PAGE: u64 = 4096;
    /// With each pair: checksum, length, sequence number, of the record and of the batch.
    const HEAD: u64 = 32;

    pub fn new(shape: &Shape) -> Log {
        // A quarter more than the pairs: their heads, and the group that goes over.
        Log { file_bytes: shape.table_bytes / 4 * 5, file: 0, bytes: 0 }
    }

    /// Bytes that all of it takes.
    pub fn size(&self) -> u64 {
        Log::FILES * self.file_bytes
    }

    /// Where a group of so many pairs goes: offset, bytes.
    pub fn append(&mut self, shape: &Shape, pairs: u64) -> (u64, u64) {
        let end = self.bytes + pairs * (shape.pair_bytes + Log::HEAD);
        let from = self.bytes / Log::PAGE * Log::PAGE;
        let to = end.next_multiple_of(Log::PAGE);
        assert!(to <= self.file_bytes, "a memtable's log has room for more than a memtable");
        self.bytes = end;
        (self.file * self.file_bytes + from, to - from)
    }

    pub fn next_file(&mut self) {
        self.file = (self.file + 1) % Log::FILES;
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_stop_when_memory_or_the_first_level_is_full() {
        let shape = Shape::ROCKSDB;
        let with = |full, sealed, tables| admit(&shape, 16 << 10, full, sealed, tables);
        assert_eq!(with(false, false, 19), Admission::Go);
        assert_eq!(with(false, true, 19), Admission::Go);
        // 16 KiB at 16 MiB a second.
        assert_eq!(with(false, true, 20), Admission::Slow(Nanos(976_562)));
        assert_eq!(with(true, false, 20), Admission::Seal);
        assert_eq!(with(true, true, 0), Admission::Stop);
        assert_eq!(with(false, false, 36), Admission::Stop);
        assert_eq!(with(true, false, 36), Admission::Stop);
    }

    #[test]
    fn a_log_goes_on_where_it_ended_and_its_files_take_turns() {
        let shape = Shape::ROCKSDB;
        let mut log = Log::new(&shape);
        assert_eq!(log.append(&shape, 1), (0, 8192));
        // The page in which the first one ended is written again.
        assert_eq!(log.append(&shape, 16), (4096, 17 * 4096));
        let file = 80 << 20;
        for turn in [1, 2, 0, 1] {
            log.next_file();
            assert_eq!(log.append(&shape, 1), (turn * file, 8192));
        }
        assert_eq!(log.size(), 3 * file);
    }

    #[test]
    fn a_memtable_fills_with_what_is_put_and_holds_the_newest() {
        let shape = Shape { table_bytes: 3 << 12, ..Shape::ROCKSDB };
        let mut memtable = Memtable::default();
        for (version, key) in [7, 9, 7].into_iter().enumerate() {
            assert!(!memtable.is_full(&shape));
            memtable.put(key, version as u32);
        }
        assert!(memtable.is_full(&shape));
        assert_eq!((memtable.get(7), memtable.get(8)), (Some(2), None));
        let entry = |key, version| Entry { key, version };
        assert_eq!(memtable.entries(), [entry(7, 2), entry(9, 1)]);
    }
}
