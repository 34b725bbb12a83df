//! The page at the end of each replica that says which replicas can be trusted.
//!
//! ```text
//!    0  magic "STDYALTR" | crc32c of the rest of the page (4) | version (4)
//!   16  pool uuid (16)
//!   32  sequence (8) | window (8) | replay (8) | bytes of the cache (8)
//!   64  which replicas are current, one bit each (8)
//! ```
//! Two places, written in turn. Sequences are common to both replicas: the newest page of all knows
//! who was lost. `window`: the last one in which this replica was written to. `replay`: data in its
//! log before this position is in place.

use format::Uuid;

use crate::log::record::PAGE;

const MAGIC: &[u8; 8] = b"STDYALTR";
const VERSION: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    pub sequence: u64,
    pub window: u64,
    pub replay: u64,
    pub cache: u64,
    pub current: [bool; 2],
}

impl Page {
    pub fn encode(&self, pool: &Uuid) -> [u8; PAGE as usize] {
        let mut bytes = [0; PAGE as usize];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, MAGIC);
        put(12, &VERSION.to_le_bytes());
        put(16, &pool.0);
        put(32, &self.sequence.to_le_bytes());
        put(40, &self.window.to_le_bytes());
        put(48, &self.replay.to_le_bytes());
        put(56, &self.cache.to_le_bytes());
        let current = u64::from(self.current[0]) | u64::from(self.current[1]) << 1;
        put(64, &current.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[12..]);
        bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// The page, if it is whole, of this pool and makes sense.
    pub fn decode(pool: &Uuid, bytes: &[u8]) -> Option<Page> {
        let bytes = bytes.get(..PAGE as usize)?;
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let sealed = bytes.starts_with(MAGIC) && u32_at(8) == crc32c::crc32c(&bytes[12..]);
        if !sealed || u32_at(12) != VERSION || bytes[16..32] != pool.0 || u64_at(64) > 3 {
            return None;
        }
        Some(Page {
            sequence: u64_at(32),
            window: u64_at(40),
            replay: u64_at(48),
            cache: u64_at(56),
            current: [u64_at(64) & 1 != 0, u64_at(64) & 2 != 0],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_what_it_was_and_any_byte_that_changes_is_noticed() {
        let pool = Uuid([7; 16]);
        let page = Page { sequence: 1, window: 2, replay: 3, cache: 4, current: [true, false] };
        let whole = page.encode(&pool);
        assert_eq!(Page::decode(&pool, &whole), Some(page));
        assert_eq!(Page::decode(&Uuid([8; 16]), &whole), None);
        for at in 0..whole.len() {
            let mut torn = whole;
            torn[at] ^= 1;
            assert_eq!(Page::decode(&pool, &torn), None, "byte {at}");
        }
    }
}
