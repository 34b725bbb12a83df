//! The tree against a plain map, and against what arithmetic says that it writes.

use std::collections::BTreeMap;

use io::rng::Rng;

use super::super::Memtable;
use super::*;

/// Tables of 16 pairs, levels of 4, 16, 64 tables.
const SMALL: Shape = Shape {
    pair_bytes: 4096,
    table_bytes: 16 * 4096,
    level1_bytes: 4 * 16 * 4096,
    fan_out: 4,
    merge_tables: 4,
    slow_tables: 8,
    stop_tables: 12,
    slow_rate: 1 << 20,
};
const SLOTS: u64 = 1000;

/// What must be true of a tree at any time.
fn check(tree: &Tree) {
    let mut slots = tree.free.clone();
    for (level, tables) in tree.levels.iter().enumerate() {
        for table in tables {
            assert!(slots.insert(table.slot), "slot {} is taken twice", table.slot);
            assert!(table.entries.windows(2).all(|two| two[0].key < two[1].key));
            assert!((1..=SMALL.table_pairs()).contains(&table.entries.len()));
        }
        let apart = tables.windows(2).all(|two| two[0].last() < two[1].first());
        assert!(level == 0 || apart, "tables of L{level} overlap, or are not in order");
    }
    assert!(slots.into_iter().eq(0..SLOTS), "slots are lost");
}

/// Bytes that merging wrote, by the level they went to.
fn settle(tree: &mut Tree, written: &mut [u64; LEVELS]) {
    while let Some(job) = tree.pick() {
        let level = job.level + 1;
        let merged = tree.merge(job).expect("there is room");
        if !merged.moved {
            let pairs: u64 = merged.outputs.iter().map(|table| table.pairs()).sum();
            written[level] += pairs * SMALL.pair_bytes;
        }
        tree.take(&merged);
    }
}

fn newest(tree: &Tree, key: u32) -> Option<u32> {
    tree.looks(key).last().and_then(|look| look.version)
}

/// Puts until the memtable is full, and adds it.
fn fill(tree: &mut Tree, mut put: impl FnMut(&mut Memtable)) -> u64 {
    let mut memtable = Memtable::default();
    let mut bytes = 0;
    while !memtable.is_full(&SMALL) {
        put(&mut memtable);
        bytes += SMALL.pair_bytes;
    }
    let table = tree.make(memtable.entries()).expect("there is room");
    tree.add(table);
    bytes
}

#[test]
fn a_get_finds_what_a_plain_map_holds_at_every_step() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        // So few keys that most are in several levels.
        let keys = 200 + 100 * seed as u32;
        let mut tree = Tree::loaded(SMALL, SLOTS, (0..keys / 2).collect()).expect("room");
        let mut map: BTreeMap<u32, u32> = (0..keys / 2).map(|key| (key, 0)).collect();
        for round in 1..150 {
            fill(&mut tree, |memtable| {
                let key = rng.below(u64::from(keys)) as u32;
                memtable.put(key, round);
                map.insert(key, round);
            });
            check(&tree);
            // Sometimes the merging thread is late, and tables come while it works.
            for _ in 0..rng.below(4) {
                let Some(job) = tree.pick() else { break };
                let merged = tree.merge(job).expect("there is room");
                if rng.chance(1, 4) {
                    fill(&mut tree, |memtable| {
                        let key = rng.below(u64::from(keys)) as u32;
                        memtable.put(key, round);
                        map.insert(key, round);
                    });
                }
                tree.take(&merged);
                check(&tree);
            }
            for key in 0..keys + 10 {
                let known = map.get(&key).copied();
                assert_eq!(newest(&tree, key), known, "seed {seed}, round {round}, key {key}");
            }
        }
    }
}

#[test]
fn levels_keep_their_sizes_and_each_is_written_about_as_often_as_the_fan_out() {
    let mut rng = Rng::new(1);
    let draw = |rng: &mut Rng| rng.next_u64() as u32;
    // L1 to L3 full and as much again below.
    let pairs: u32 = 16 * (4 + 16 + 64 + 84);
    let keys: Vec<u32> = (0..pairs).map(|_| draw(&mut rng)).collect();
    let mut tree = Tree::loaded(SMALL, SLOTS, keys).expect("room");
    let (mut user, mut written) = (0, [0; LEVELS]);
    settle(&mut tree, &mut written);
    written = [0; LEVELS];
    for _ in 0..400 {
        user += fill(&mut tree, |memtable| memtable.put(draw(&mut rng), 1));
        settle(&mut tree, &mut written);
        let bytes = tree.bytes();
        assert!(tree.waiting() < SMALL.merge_tables);
        let over = (1..LEVELS - 1).find(|&level| bytes[level] >= SMALL.level_bytes(level));
        assert_eq!(over, None, "{bytes:?}");
    }
    // What was put is all there: hardly any of so many keys is drawn twice.
    let stored = tree.bytes().iter().sum::<u64>();
    let put = u64::from(pairs) * SMALL.pair_bytes + user;
    assert!(put - stored < 10 * SMALL.pair_bytes, "{stored} of {put}");
    let times = written.map(|bytes| bytes as f64 / user as f64);
    // Four tables are merged with L1, which has three to four: each byte is written twice.
    assert!((1.7..=2.1).contains(&times[1]), "{times:?}");
    // A level is emptied in turns: where its turn is it has had longest to fill, twice as much as
    // on average. So a table has half the fan-out's number below it, and is written itself.
    let wanted = SMALL.fan_out as f64 / 2.0 + 1.0;
    for level in [2, 3] {
        assert!((times[level] / wanted - 1.0).abs() < 0.15, "L{level}: {times:?}");
    }
}

#[test]
fn all_of_a_level_has_its_turn() {
    let mut tree = Tree::loaded(SMALL, SLOTS, (0..100).collect()).expect("room");
    let mut turns: BTreeMap<u32, u32> = BTreeMap::new();
    for _ in 0..4 * tree.levels[1].len() {
        // As full as it ever is.
        tree.shape.level1_bytes = tree.bytes()[1];
        let job = Job { lower: vec![], ..tree.pick().expect("it is full") };
        assert_eq!((job.level, job.upper.len()), (1, 1));
        *turns.entry(job.upper[0].first()).or_default() += 1;
        // It comes back as it was.
        let outputs = vec![];
        let table = job.upper[0].clone();
        tree.take(&Merged { job, outputs, moved: false });
        tree.free.remove(&table.slot);
        let at = tree.levels[1].partition_point(|other| other.first() < table.first());
        tree.levels[1].insert(at, table);
    }
    assert_eq!(turns.len(), tree.levels[1].len());
    assert!(turns.values().all(|&count| count == 4), "{turns:?}");
}

#[test]
fn filters_are_wrong_as_seldom_as_they_should_be_and_never_miss() {
    let keys = |odd: u32| (0..16 * 80).map(move |at| at * 2 + odd);
    let tree = Tree::loaded(SMALL, SLOTS, keys(0).collect()).expect("room");
    assert!(keys(0).all(|key| newest(&tree, key) == Some(0)));
    let looks = keys(1).map(|key| tree.looks(key));
    let wrong: usize = looks
        .inspect(|looks| assert!(looks.iter().all(|l| l.version.is_none())))
        .map(|looks| looks.len())
        .sum();
    // Each key is asked of about three tables.
    assert!((10..80).contains(&wrong), "{wrong}");
}

#[test]
fn a_database_too_large_is_an_error() {
    let all = Tree::loaded(SMALL, 3, (0..16 * 4).collect());
    assert_eq!(all.err(), Some(Full));
}
