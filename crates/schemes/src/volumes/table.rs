//! What is at the beginning of a store: the volumes, and the map of their grains.
//!
//! ```text
//!       0  table, slot 0 (64 KiB)
//!  64 KiB  table, slot 1
//! 128 KiB  page 0 of the map: slot 0, slot 1 (4 KiB each); page 1: ...
//!       .  grains, from a multiple of a grain on
//!
//! A store that grew has the same from where each further array begins on, but for the table: pages
//! of the map, which go on counting, and grains. Their numbers begin with a page of their own.
//!
//!  table   0 magic "STDYVOLS" | 8 crc32c of the rest | 12 version | 16 id of these volumes (16)
//!         32 generation (8) | 40 bytes of a grain (8) | 48 grains (4) | 52 next number (4)
//!         56 volumes (4) | 60 further arrays (4)
//!         64 per volume: number (4), length of name (4), size (8), name
//!            per further array: its id (16), where it begins (8), grains (4), 0 (4)
//!         Version 2 if there are further arrays, otherwise 1.
//!  page    0 magic "STDYGRNS" | 8 crc32c of the rest | 12 number of the page | 16 sequence (8)
//!         24 507 times: volume (4), grain of it (4), volume 0: free | 4080 id (16), after zeroes
//! ```
//! Slots are written in turn, so a torn one leaves the one before: the higher generation or
//! sequence that is whole counts.

use std::ops::Range;

use format::{ARRAYS_MAX, Uuid, valid_name};
use io::PAGE;

use super::grains::{Owner, PER_PAGE};

pub const TABLE_SLOT: u64 = 64 << 10;
pub const MAP_AT: u64 = 2 * TABLE_SLOT;
pub const PAGE_BYTES: u64 = PAGE as u64;
/// Fits the table's slot many times over; nobody looks after more by hand.
pub const VOLUMES_MAX: usize = 256;
const TABLE_MAGIC: &[u8; 8] = b"STDYVOLS";
const PAGE_MAGIC: &[u8; 8] = b"STDYGRNS";
const VERSION: u32 = 1;
const VERSION_FURTHER: u32 = 2;
const AT_CRC: usize = 8;
const AT_BODY: usize = 12;
const AT_VOLUMES: usize = 64;
const AT_OWNERS: usize = 24;
const OWNER_LEN: usize = 8;
const FURTHER_LEN: usize = 32;
/// More bytes than any store has, and few enough to be added up.
const BOUND: u64 = 1 << 60;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    pub number: u32,
    pub name: String,
    pub size: u64,
}

/// An array that the store grew by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Further {
    pub id: Uuid,
    /// The byte of the store where it begins.
    pub base: u64,
    pub grains: u32,
}

/// Grains of one array: where it begins, the first of them, how many.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    base: u64,
    pub first: u32,
    pub grains: u32,
}

impl Stretch {
    pub fn range(&self) -> Range<u32> {
        self.first..self.first + self.grains
    }

    /// Pages of the map, by their numbers.
    pub fn pages(&self) -> Range<u32> {
        let first = self.first / PER_PAGE;
        first..first + self.grains.div_ceil(PER_PAGE)
    }

    fn begin(&self, grain: u64) -> u64 {
        let pages = self.pages().len() as u32;
        self.base + Table::page_at(pages, 0).next_multiple_of(grain)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    pub id: [u8; 16],
    pub generation: u64,
    pub grain: u64,
    pub grains: u32,
    /// Numbers are never used twice: what is left of a deleted volume is nobody's.
    pub next: u32,
    pub volumes: Vec<Volume>,
    /// In the order in which they came.
    pub further: Vec<Further>,
}

fn seal(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = crc32c::crc32c(&bytes[AT_BODY..]);
    bytes[AT_CRC..AT_BODY].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn is_sealed(bytes: &[u8], magic: &[u8; 8]) -> bool {
    let body = bytes.get(AT_BODY..).map(crc32c::crc32c);
    bytes.starts_with(magic) && body.is_some() && u32_at(bytes, AT_CRC) == body
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

impl Table {
    /// Where a slot of a page of the map lies.
    pub fn page_at(page: u32, slot: u64) -> u64 {
        MAP_AT + (2 * u64::from(page) + slot) * PAGE_BYTES
    }

    /// Of each array, in order.
    pub fn stretches(&self) -> impl Iterator<Item = Stretch> + '_ {
        let further = self.further.iter().map(|further| (further.base, further.grains));
        let mut next = 0u32;
        std::iter::once((0, self.grains)).chain(further).map(move |(base, grains)| {
            let first = next;
            next = first.saturating_add(grains).checked_next_multiple_of(PER_PAGE).unwrap_or(next);
            Stretch { base, first, grains }
        })
    }

    /// Numbers are enough for all grains, no array begins within another, and all of it can be
    /// added up.
    pub fn is_sound(&self) -> bool {
        let count = |grains: u32| u64::from(grains).next_multiple_of(PER_PAGE.into());
        let all: u64 = self.further.iter().map(|further| count(further.grains)).sum();
        let numbers = all == 0 || count(self.grains) + all <= u32::MAX.into();
        let bounded = self.grain < BOUND && self.further.iter().all(|own| own.base < BOUND);
        let few = self.further.len() < ARRAYS_MAX;
        let end = |own: Stretch| {
            let bytes = u64::from(own.grains).checked_mul(self.grain)?;
            own.begin(self.grain).checked_add(bytes)
        };
        let sound = |(own, next): (Stretch, Option<u64>)| {
            end(own).is_some_and(|end| next.is_none_or(|next| end <= next))
        };
        let nexts = self.further.iter().map(|further| Some(further.base)).chain([None]);
        numbers && bounded && few && self.stretches().zip(nexts).all(sound)
    }

    /// Where the last grain ends.
    pub fn end(&self) -> u64 {
        let last = self.stretches().last().expect("there is one");
        last.begin(self.grain) + u64::from(last.grains) * self.grain
    }

    /// Where the first grain begins.
    pub fn begin(&self) -> u64 {
        self.stretches().next().expect("there is one").begin(self.grain)
    }

    /// Where a grain begins.
    pub fn place(&self, grain: u32) -> u64 {
        let own = self.stretches().find(|stretch| stretch.range().contains(&grain));
        let own = own.expect("it is one of an array's");
        own.begin(self.grain) + u64::from(grain - own.first) * self.grain
    }

    /// Where a slot of a page of the map lies.
    pub fn page_place(&self, page: u32, slot: u64) -> u64 {
        let own = self.stretches().find(|stretch| stretch.pages().contains(&page));
        let own = own.expect("it is one of an array's");
        own.base + Table::page_at(page - own.pages().start, slot)
    }

    /// Grains that begin in these bytes of one array.
    pub fn grains_within(&self, bytes: Range<u64>) -> Range<u32> {
        let own = self.stretches().filter(|stretch| stretch.base <= bytes.start).last();
        let own = own.expect("the first begins at 0");
        let begin = own.begin(self.grain);
        let number = |byte: u64| {
            let before = byte.saturating_sub(begin) / self.grain;
            own.first + before.min(own.grains.into()) as u32
        };
        number(bytes.start)..number(bytes.end)
    }

    /// As many grains as fit behind their map.
    pub fn fit(size: u64, grain: u64) -> u32 {
        let count = |grains: u64| {
            let pages = grains.div_ceil(u64::from(PER_PAGE));
            let begin = (MAP_AT + 2 * pages * PAGE_BYTES).next_multiple_of(grain);
            size.saturating_sub(begin) / grain
        };
        // The map of all is the largest there could be; what it leaves needs no larger one.
        count((size / grain).min(u32::MAX.into())).min(u32::MAX.into()) as u32
    }

    pub fn encode(&self) -> Vec<u8> {
        assert!(self.volumes.len() <= VOLUMES_MAX, "volumes are bounded");
        let mut bytes = Vec::with_capacity(TABLE_SLOT as usize);
        bytes.extend_from_slice(TABLE_MAGIC);
        bytes.extend_from_slice(&[0; 4]);
        let version = if self.further.is_empty() { VERSION } else { VERSION_FURTHER };
        bytes.extend_from_slice(&version.to_le_bytes());
        bytes.extend_from_slice(&self.id);
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        bytes.extend_from_slice(&self.grain.to_le_bytes());
        let counts = [self.volumes.len(), self.further.len()].map(|count| count as u32);
        for number in [self.grains, self.next, counts[0], counts[1]] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for volume in &self.volumes {
            bytes.extend_from_slice(&volume.number.to_le_bytes());
            bytes.extend_from_slice(&(volume.name.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&volume.size.to_le_bytes());
            bytes.extend_from_slice(volume.name.as_bytes());
        }
        for further in &self.further {
            bytes.extend_from_slice(&further.id.0);
            bytes.extend_from_slice(&further.base.to_le_bytes());
            bytes.extend_from_slice(&further.grains.to_le_bytes());
            bytes.extend_from_slice(&[0; 4]);
        }
        bytes.resize(TABLE_SLOT as usize, 0);
        seal(bytes)
    }

    /// `None`: not a whole table of this version.
    pub fn decode(bytes: &[u8]) -> Option<Table> {
        let arrays = u32_at(bytes, 60)? as usize;
        let version = if arrays == 0 { VERSION } else { VERSION_FURTHER };
        if !is_sealed(bytes, TABLE_MAGIC) || u32_at(bytes, AT_BODY)? != version {
            return None;
        }
        let mut table = Table {
            id: bytes.get(16..32)?.try_into().ok()?,
            generation: u64_at(bytes, 32)?,
            grain: u64_at(bytes, 40)?,
            grains: u32_at(bytes, 48)?,
            next: u32_at(bytes, 52)?,
            volumes: Vec::new(),
            further: Vec::new(),
        };
        let mut at = AT_VOLUMES;
        let count = u32_at(bytes, 56)?;
        if count as usize > VOLUMES_MAX {
            return None;
        }
        for _ in 0..count {
            let len = u32_at(bytes, at + 4)? as usize;
            let name = bytes.get(at + 16..(at + 16).checked_add(len)?)?;
            let name = String::from_utf8(name.to_vec()).ok()?;
            let (number, size) = (u32_at(bytes, at)?, u64_at(bytes, at + 8)?);
            if number == 0 || !valid_name(&name) {
                return None;
            }
            table.volumes.push(Volume { number, name, size });
            at += 16 + len;
        }
        for _ in 0..arrays.min(ARRAYS_MAX) {
            let id = Uuid(bytes.get(at..at + 16)?.try_into().ok()?);
            let (base, grains) = (u64_at(bytes, at + 16)?, u32_at(bytes, at + 24)?);
            table.further.push(Further { id, base, grains });
            at += FURTHER_LEN;
        }
        // Checked first: whoever reads the table adds these up.
        let whole = table.grain > 0 && table.grain.is_multiple_of(PAGE_BYTES);
        (whole && table.is_sound()).then_some(table)
    }
}

/// A page of the map.
pub fn encode_page(id: &[u8; 16], page: u32, sequence: u64, owners: &[Option<Owner>]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(PAGE_BYTES as usize);
    bytes.extend_from_slice(PAGE_MAGIC);
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&page.to_le_bytes());
    bytes.extend_from_slice(&sequence.to_le_bytes());
    for owner in owners {
        let (volume, at) = owner.map_or((0, 0), |owner| (owner.volume, owner.at));
        bytes.extend_from_slice(&volume.to_le_bytes());
        bytes.extend_from_slice(&at.to_le_bytes());
    }
    bytes.resize(PAGE_BYTES as usize - id.len(), 0);
    bytes.extend_from_slice(id);
    seal(bytes)
}

/// Sequence and owners, if this is a whole page of this number of ours.
pub fn decode_page(
    id: &[u8; 16],
    page: u32,
    count: usize,
    bytes: &[u8],
) -> Option<(u64, Vec<Option<Owner>>)> {
    let ours = is_sealed(bytes, PAGE_MAGIC) && bytes.ends_with(id) && u32_at(bytes, 12)? == page;
    if !ours {
        return None;
    }
    let owner = |entry: usize| {
        let at = AT_OWNERS + entry * OWNER_LEN;
        let (volume, at) = (u32_at(bytes, at)?, u32_at(bytes, at + 4)?);
        (volume > 0).then_some(Owner { volume, at })
    };
    Some((u64_at(bytes, 16)?, (0..count).map(owner).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: [u8; 16] = [9; 16];

    fn table() -> Table {
        let volume = |number, name: &str| Volume { number, name: name.into(), size: 12345 * 512 };
        let volumes = vec![volume(1, "a"), volume(4, "a-long-name.with_everything")];
        let further = Vec::new();
        Table { id: ID, generation: 7, grain: 1 << 18, grains: 1000, next: 5, volumes, further }
    }

    fn grown() -> Table {
        let further = |at: u8, base, grains| Further { id: Uuid([at; 16]), base, grains };
        let further = vec![further(1, 1 << 30, 507), further(2, 1 << 31, 2000)];
        Table { further, ..table() }
    }

    #[test]
    fn every_grain_and_page_has_a_place_of_its_own() {
        let (table, mut seen) = (grown(), Vec::new());
        assert_eq!(Table::decode(&table.encode()), Some(table.clone()));
        let firsts: Vec<u32> = table.stretches().map(|stretch| stretch.first).collect();
        assert_eq!(firsts, [0, 1014, 1521]);
        for stretch in table.stretches() {
            let grains = stretch.range().map(|grain| (table.place(grain), table.grain));
            let pages = stretch.pages().map(|page| (table.page_place(page, 0), 2 * PAGE_BYTES));
            seen.extend(grains.chain(pages));
        }
        seen.push((0, MAP_AT));
        seen.sort_unstable();
        assert!(seen.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0));
        assert_eq!(seen.last().map(|(at, len)| at + len), Some(table.end()));
        assert_eq!(table.grains_within(0..1 << 30), 0..1000);
        assert_eq!(table.grains_within(1 << 30..1 << 31), 1014..1521);
        let second = table.place(1014);
        assert_eq!(table.grains_within(second + 1..second + 3 * table.grain), 1014..1017);
        for (at, base) in [(0, 1 << 27), (1, 1 << 30), (1, u64::MAX)] {
            let mut wrong = table.clone();
            wrong.further[at].base = base;
            assert_eq!(Table::decode(&wrong.encode()), None, "array {at} begins at {base}");
        }
    }

    #[test]
    fn tables_are_read_back_and_damage_is_noticed() {
        let bytes = table().encode();
        assert_eq!(Table::decode(&bytes), Some(table()));
        for at in [0, 9, 12, 40, 56, 70, 65535] {
            let mut wrong = bytes.clone();
            wrong[at] ^= 4;
            assert_eq!(Table::decode(&wrong), None, "byte {at}");
        }
        assert_eq!(Table::decode(&bytes[..100]), None);
        assert_eq!(Table::decode(&[]), None);
        let mut liar = bytes.clone();
        liar[56] = 200;
        assert_eq!(Table::decode(&seal(liar)), None, "more volumes than there is room for names");
        let volume = Volume { number: 1, name: "a".into(), size: 512 };
        let full = Table { volumes: vec![volume.clone(); VOLUMES_MAX], ..table() };
        assert_eq!(Table::decode(&full.encode()), Some(full.clone()));
        let mut more = full.encode();
        more[56..60].copy_from_slice(&(VOLUMES_MAX as u32 + 1).to_le_bytes());
        let at = AT_VOLUMES + VOLUMES_MAX * 17;
        more[at..at + 17].copy_from_slice(&full.encode()[AT_VOLUMES..AT_VOLUMES + 17]);
        assert_eq!(Table::decode(&seal(more)), None, "more volumes than could be written again");
        let vast = Table { grain: 1 << 62, ..table() };
        assert_eq!(Table::decode(&vast.encode()), None, "grains beyond any store");
    }

    #[test]
    fn pages_are_read_back_and_those_of_others_refused() {
        let owner = |at: u32| (!at.is_multiple_of(3)).then_some(Owner { volume: at % 3, at });
        let owners: Vec<_> = (0..PER_PAGE).map(owner).collect();
        let bytes = encode_page(&ID, 3, 11, &owners);
        let count = PER_PAGE as usize;
        assert_eq!(bytes.len() as u64, PAGE_BYTES);
        assert_eq!(decode_page(&ID, 3, count, &bytes), Some((11, owners)));
        assert_eq!(decode_page(&ID, 2, count, &bytes), None);
        assert_eq!(decode_page(&[8; 16], 3, count, &bytes), None);
        let mut wrong = bytes;
        wrong[100] ^= 1;
        assert_eq!(decode_page(&ID, 3, count, &wrong), None);
    }

    #[test]
    fn the_map_leaves_room_for_all_it_maps() {
        for size in [1 << 20, 3 << 20, 100 << 20, (1 << 40) + 4096, 1 << 50] {
            for grain in [256 << 10, 320 << 10, 1 << 20] {
                let table = Table { grain, grains: Table::fit(size, grain), ..table() };
                let end = table.begin() + u64::from(table.grains) * grain;
                assert!(table.grains == 0 || end <= size, "{size} {grain}");
            }
        }
    }
}
