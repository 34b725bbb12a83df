//! What in-place arrays and schemes keep on drives: logs, intents, sums, maps, heads.
//!
//! First byte: how many pages of 4 KiB the rest is filled up to; 0: one sector less than a page.
//! All these structures have their checksum at byte 8, of what follows it, and most their pool at
//! byte 16 (of a page of volumes, at its end).

use crate::samples::POOL;
use crate::{put, with_kind};

const PAGE: usize = 4096;
const PAGES_MAX: usize = 16;
const AT_CRC: usize = 8;
const AT_POOL: usize = 16;
const OF_VOLUMES: &[u8] = b"STDYGRNS";

pub fn run(bytes: &[u8]) -> bool {
    let Some((&pages, rest)) = bytes.split_first() else { return false };
    let len = match usize::from(pages) {
        0 => PAGE - 512,
        pages => pages.min(PAGES_MAX) * PAGE,
    };
    let mut page = rest[..rest.len().min(len)].to_vec();
    page.resize(len, 0);
    let at = if page.starts_with(OF_VOLUMES) { len - POOL.0.len() } else { AT_POOL };
    put(&mut page, at, &POOL.0);
    let crc = crc32c::crc32c(&page[AT_CRC + 4..]);
    put(&mut page, AT_CRC, &crc.to_le_bytes());
    // What is cut short, too.
    let _ = take(rest);
    take(&page)
}

fn take(bytes: &[u8]) -> bool {
    // Not one or the other: both get everything.
    classical::hostile::take(&POOL, bytes) | schemes::hostile::take(&POOL, bytes)
}

pub fn seeds() -> Vec<Vec<u8>> {
    let all = [classical::hostile::samples(&POOL), schemes::hostile::samples(&POOL)].concat();
    let seed = |bytes: &Vec<u8>| {
        let pages = bytes.len().div_ceil(PAGE) as u8;
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        with_kind(pages, &bytes[..used])
    };
    all.iter().map(seed).collect()
}
