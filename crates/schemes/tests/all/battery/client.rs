//! Clients of a world, and what each sector may hold. They share stripes but no sectors, so each
//! knows what it wrote.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use io::BufMut;
use io::rng::{Rng, mix};
use schemes::Store;

pub const SECTOR: u64 = 512;
pub const CLIENTS: u64 = 4;
/// Sectors in a row that belong to one client, then the next one's: chunks and stripes are shared.
const SHORT: u64 = 5;
/// So many sectors are divided like that.
const MIXED: u64 = 400;
/// After these each client has a row for itself that is several stripes long.
const LONG: u64 = 150;
/// Sectors of the array that are used.
pub const SPAN: u64 = MIXED + CLIENTS * LONG;

thread_local! {
    static STRANGE: RefCell<BTreeMap<u64, Vec<u8>>> = RefCell::default();
}

/// What a sector may hold: number of the write, 0 before the first.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// The last that was flushed, and all written since; the newest last.
    pub may_be: Vec<u64>,
    /// The newest is not answered yet.
    pub in_flight: bool,
}

#[derive(Default)]
pub struct Oracle {
    pub sectors: BTreeMap<u64, Expected>,
    next: u64,
}

impl Oracle {
    /// Of the next write.
    pub fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub fn of(&mut self, sector: u64) -> &mut Expected {
        let first = || Expected { may_be: vec![0], in_flight: false };
        self.sectors.entry(sector).or_insert_with(first)
    }
}

/// Stands for whatever was found where a lost chunk was being written.
pub fn strange(sector: u64) -> u64 {
    u64::MAX - sector
}

pub fn content(sector: u64, write: u64) -> [u8; SECTOR as usize] {
    let mut bytes = [0; SECTOR as usize];
    if write == strange(sector) {
        STRANGE.with(|found| bytes.copy_from_slice(&found.borrow()[&sector]));
    } else if write > 0 {
        let mut rng = Rng::new(mix(write) ^ sector);
        rng.fill(&mut bytes);
        bytes[..8].copy_from_slice(&write.to_le_bytes());
    }
    bytes
}

pub fn settle(expected: &mut Expected) {
    let newest = *expected.may_be.last().expect("it holds something");
    *expected = Expected { may_be: vec![newest], in_flight: false };
}

pub struct Client<T> {
    pub number: u64,
    pub base: u64,
    pub store: T,
    pub oracle: Rc<RefCell<Oracle>>,
    pub rng: RefCell<Rng>,
}

impl<T: Store> Client<T> {
    pub async fn work(&self, requests: usize) {
        for _ in 0..requests {
            let kind = self.rng.borrow_mut().below(10);
            match kind {
                0..6 => self.write(kind == 0).await,
                6..9 => self.read().await,
                _ => self.flush().await,
            }
        }
    }

    /// Some of the sectors in a row that are ours.
    fn draw(&self) -> (u64, u64) {
        let mut rng = self.rng.borrow_mut();
        let (first, len) = if rng.chance(1, 4) {
            (MIXED + self.number * LONG, LONG)
        } else {
            let rows = MIXED / (SHORT * CLIENTS);
            ((rng.below(rows) * CLIENTS + self.number) * SHORT, SHORT)
        };
        let start = rng.below(len);
        (first + start, 1 + rng.below(len - start))
    }

    async fn write(&self, fua: bool) {
        let (first, count) = self.draw();
        let number = {
            let mut oracle = self.oracle.borrow_mut();
            let number = oracle.number();
            for sector in first..first + count {
                let expected = oracle.of(sector);
                expected.may_be.push(number);
                expected.in_flight = true;
            }
            number
        };
        let mut data = BufMut::with_len((count * SECTOR) as usize);
        for (at, sector) in (first..first + count).enumerate() {
            data[at * SECTOR as usize..][..SECTOR as usize]
                .copy_from_slice(&content(sector, number));
        }
        let offset = (self.base + first) * SECTOR;
        let done = self.store.write(offset, data.freeze(), fua).await;
        done.unwrap_or_else(|error| panic!("write: {error}"));
        let mut oracle = self.oracle.borrow_mut();
        for sector in first..first + count {
            let expected = oracle.of(sector);
            expected.in_flight = false;
            if fua {
                settle(expected);
            }
        }
    }

    async fn read(&self) {
        let (first, count) = self.draw();
        let read = self.store.read((self.base + first) * SECTOR, count * SECTOR).await;
        let read = read.unwrap_or_else(|error| panic!("read: {error}"));
        for (sector, bytes) in (first..).zip(read.chunks_exact(SECTOR as usize)) {
            let expected = self.oracle.borrow_mut().of(sector).clone();
            let newest = *expected.may_be.last().expect("it holds something");
            let byte = (self.base + sector) * SECTOR;
            assert!(
                content(sector, newest) == bytes,
                "sector {sector}, byte {byte}: not so any more"
            );
        }
    }

    pub async fn flush(&self) {
        let before: Vec<(u64, u64)> = {
            let oracle = self.oracle.borrow();
            let done = oracle.sectors.iter().filter(|(_, expected)| !expected.in_flight);
            let newest = |(sector, expected): (&u64, &Expected)| {
                (*sector, *expected.may_be.last().expect("it holds something"))
            };
            done.map(newest).collect()
        };
        self.store.flush().await.unwrap_or_else(|error| panic!("flush: {error}"));
        let mut oracle = self.oracle.borrow_mut();
        for (sector, write) in before {
            let expected = oracle.of(sector);
            // Flushed by somebody else already, with something newer.
            let at = expected.may_be.iter().position(|may_be| *may_be == write);
            expected.may_be.drain(..at.unwrap_or(0));
        }
    }
}

pub fn found_strange(sector: u64, bytes: &[u8]) {
    STRANGE.with(|found| found.borrow_mut().insert(sector, bytes.to_vec()));
}

pub fn forget_strange() {
    STRANGE.with(|strange| strange.borrow_mut().clear());
}
