//! The store against a plain map, and what it asks of an array, over one that takes a fixed time.

use std::collections::BTreeMap;

use io::rng::Rng;

use super::super::Answer;
use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Read(u64, u64),
    Write(u64, u64),
    Flush,
}

impl Asked {
    fn is_of_table(self) -> bool {
        match self {
            Asked::Read(offset, _) | Asked::Write(offset, _) => offset >= LOG,
            Asked::Flush => false,
        }
    }
}

struct Fixed {
    env: VirtEnv,
    /// Of the log, and of tables.
    takes: [Nanos; 2],
    asked: RefCell<Vec<Asked>>,
}

const SIZE: u64 = 64 << 20;

impl Fixed {
    /// Noted when it is asked for, not when it is waited for.
    fn ask<T: 'static>(&self, asked: Asked, answer: T) -> Answer<'_, T> {
        if let Asked::Read(offset, len) | Asked::Write(offset, len) = asked {
            assert!(offset + len <= SIZE && offset % 4096 == 0 && len % 4096 == 0, "{asked:?}");
        }
        self.asked.borrow_mut().push(asked);
        let until = self.env.now() + self.takes[usize::from(asked.is_of_table())];
        Box::pin(async move {
            self.env.sleep_until(until).await;
            Ok(answer)
        })
    }
}

impl Array for Fixed {
    fn size(&self) -> u64 {
        SIZE
    }

    fn read(&self, offset: u64, len: u64) -> Answer<'_, Vec<Buf>> {
        self.ask(Asked::Read(offset, len), vec![])
    }

    fn write(&self, offset: u64, data: Buf) -> Answer<'_> {
        self.ask(Asked::Write(offset, data.len() as u64), ())
    }

    fn flush(&self) -> Answer<'_> {
        self.ask(Asked::Flush, ())
    }
}

/// Tables of a mebibyte.
const SHAPE: Shape = Shape {
    pair_bytes: 4096,
    table_bytes: 1 << 20,
    level1_bytes: 4 << 20,
    fan_out: 4,
    merge_tables: 2,
    slow_tables: 3,
    stop_tables: 4,
    slow_rate: 16 << 20,
};
const LOG: u64 = 3 * (5 << 18);

/// In a world where the log and tables of the array take so many microseconds.
fn with<F: Future<Output = ()>>(takes: [u64; 2], test: impl FnOnce(Rc<Fixed>, Kv) -> F) {
    let env = VirtEnv::fifo(1);
    let takes = takes.map(Nanos::from_micros);
    let array = Rc::new(Fixed { env: env.clone(), takes, asked: RefCell::default() });
    let shared: Rc<dyn Array> = array.clone();
    let kv = Kv::open(&env, &shared, SHAPE, (2000, 1)).expect("there is room");
    env.block_on(test(array, kv));
    env.crash();
}

#[test]
fn what_was_put_last_is_found_while_tables_are_written_and_merged() {
    with([100, 100], |_, kv| async move {
        let mut rng = Rng::new(3);
        let mut map: BTreeMap<u32, u32> = (0..2000).map(|item| (key(item), 0)).collect();
        for version in 1..6000 {
            let put = key(rng.below(2500) as u32);
            kv.put(put).await.expect("nothing is wrong");
            map.insert(put, version);
            let wanted = key(rng.below(2600) as u32);
            assert_eq!(kv.get(wanted).await, Ok(map.get(&wanted).copied()), "after {version}");
        }
        let seen = kv.seen();
        assert_eq!(seen.put_bytes, 5999 * 4096);
        // Memtables alone would be as much as was put.
        assert!(seen.table_bytes > 2 * seen.put_bytes, "{seen:?}");
        assert!(seen.block_reads > 0 && seen.block_reads < seen.gets, "{seen:?}");
        assert_eq!(kv.trouble(), None);
    });
}

#[test]
fn puts_are_durable_in_groups() {
    with([1000, 1000], |array, kv| async move {
        let before = array.env.now();
        let puts = (0..CLIENTS as u32).map(|item| kv.put(key(item)));
        assert!(join_all(puts).await.into_iter().all(|done| done.is_ok()));
        // The first has a group of its own at most, all others the next.
        let seen = kv.seen();
        assert!(seen.groups <= 2, "{seen:?}");
        assert_eq!(array.env.now().saturating_sub(before), Nanos(2_000_000 * seen.groups));
        let asked = array.asked.borrow();
        let logged = asked.chunks(2).all(|two| match two {
            [Asked::Write(offset, len), Asked::Flush] => offset + len <= LOG,
            _ => false,
        });
        assert!(logged, "{asked:?}");
    });
}

#[test]
fn tables_are_read_and_written_in_large_requests_and_flushed_and_writers_wait() {
    // Memtables fill faster than they are written.
    with([1000, 50_000], |array, kv| async move {
        let writers = (0..CLIENTS as u32).map(|client| {
            let kv = kv.clone();
            async move {
                for round in 0..200 {
                    kv.put(key(client * 200 + round)).await.expect("nothing is wrong");
                }
            }
        });
        join_all(writers).await;
        let seen = kv.seen();
        assert!(seen.stopped > 0, "{seen:?}");
        let asked = array.asked.borrow();
        let tables: Vec<&Asked> = asked.iter().filter(|asked| asked.is_of_table()).collect();
        let large = tables.iter().filter(|asked| match asked {
            Asked::Read(_, len) | Asked::Write(_, len) => *len == REQUEST,
            Asked::Flush => false,
        });
        assert!(large.count() * 3 > tables.len(), "{} requests", tables.len());
        let flushes = asked.iter().filter(|asked| **asked == Asked::Flush).count() as u64;
        assert!(flushes > seen.groups, "each table is flushed as well");
    });
}
