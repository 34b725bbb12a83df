//! What is at the beginning of a store: the volumes, and the map of their grains.
//!
//! ```text
//!       0  table, slot 0 (64 KiB)
//!  64 KiB  table, slot 1
//! 128 KiB  page 0 of the map: slot 0, slot 1 (4 KiB each); page 1: ...
//!       .  grains, from a multiple of a grain on
//!
//!  table   0 magic "STDYVOLS" | 8 crc32c of the rest | 12 version | 16 id of these volumes (16)
//!         32 generation (8) | 40 bytes of a grain (8) | 48 grains (4) | 52 next number (4)
//!         56 volumes (4) | 60 0 (4)
//!         64 per volume: number (4), length of name (4), size (8), name
//!  page    0 magic "STDYGRNS" | 8 crc32c of the rest | 12 number of the page | 16 sequence (8)
//!         24 507 times: volume (4), grain of it (4), volume 0: free | 4080 id (16), after zeroes
//! ```
//! Slots are written in turn, so a torn one leaves the one before: the higher generation or
//! sequence that is whole counts.

use format::valid_name;
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
const AT_CRC: usize = 8;
const AT_BODY: usize = 12;
const AT_VOLUMES: usize = 64;
const AT_OWNERS: usize = 24;
const OWNER_LEN: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    pub number: u32,
    pub name: String,
    pub size: u64,
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

    pub fn pages(&self) -> u32 {
        self.grains.div_ceil(PER_PAGE)
    }

    /// Where the first grain begins.
    pub fn begin(&self) -> u64 {
        Table::page_at(self.pages(), 0).next_multiple_of(self.grain)
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
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.id);
        bytes.extend_from_slice(&self.generation.to_le_bytes());
        bytes.extend_from_slice(&self.grain.to_le_bytes());
        for number in [self.grains, self.next, self.volumes.len() as u32, 0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for volume in &self.volumes {
            bytes.extend_from_slice(&volume.number.to_le_bytes());
            bytes.extend_from_slice(&(volume.name.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&volume.size.to_le_bytes());
            bytes.extend_from_slice(volume.name.as_bytes());
        }
        bytes.resize(TABLE_SLOT as usize, 0);
        seal(bytes)
    }

    /// `None`: not a whole table of this version.
    pub fn decode(bytes: &[u8]) -> Option<Table> {
        if !is_sealed(bytes, TABLE_MAGIC) || u32_at(bytes, AT_BODY)? != VERSION {
            return None;
        }
        let mut table = Table {
            id: bytes.get(16..32)?.try_into().ok()?,
            generation: u64_at(bytes, 32)?,
            grain: u64_at(bytes, 40)?,
            grains: u32_at(bytes, 48)?,
            next: u32_at(bytes, 52)?,
            volumes: Vec::new(),
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
        let whole = table.grain > 0 && table.grain.is_multiple_of(PAGE_BYTES);
        let grains = u64::from(table.grains).checked_mul(table.grain);
        // Checked first: whoever reads the table adds these up.
        let ends = whole && grains?.checked_add(table.begin()).is_some();
        ends.then_some(table)
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
        Table { id: ID, generation: 7, grain: 1 << 18, grains: 1000, next: 5, volumes }
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
