//! Every decoder of what in-place arrays keep on drives, for the fuzzer: nothing else uses this.

use format::Uuid;

use crate::checksum_log::page;
use crate::grid::Piece;
use crate::{intents, kept, log, sums};

/// Of the log's slots.
const CHUNK: u64 = 64 << 10;
const REGIONS: usize = 1000;
const DRIVES: usize = 9;

/// Whether any decoder takes these bytes for its own.
pub fn take(pool: &Uuid, bytes: &[u8]) -> bool {
    let record = log::decode(pool, bytes, CHUNK);
    if let Some(log::Slot { record, parity, partial }) = &record {
        let again = log::encode(pool, record, parity.unwrap_or_default(), partial);
        assert!(log::decode(pool, &again, CHUNK).is_some());
    }
    let marks = intents::decode(pool, bytes, REGIONS);
    let kept = kept::decode(pool, bytes, REGIONS, DRIVES);
    let sums = sums::decode(pool, bytes);
    if sums.is_some() {
        assert_eq!(sums::sums_in(bytes).count() as u64, sums::PER_PAGE);
    }
    let logged = page::decode(pool, bytes);
    if let Some(header) = &logged {
        assert_eq!(page::entries_of(header, bytes).count(), header.entries);
    }
    logged.is_some() || record.is_some() || marks.is_some() || kept.is_some() || sums.is_some()
}

/// Something for each of them.
pub fn samples(pool: &Uuid) -> Vec<Vec<u8>> {
    let pieces = vec![Piece { position: 1, start: 512, end: 4608 }];
    let sums = vec![log::PageSum { member: 1, start: 4096, old: 0, new: 77 }];
    let record = log::Record {
        epoch: 2,
        sequence: 3,
        stripe: 4,
        start: 512,
        end: 4608,
        pieces,
        sums,
        sums_logged: false,
    };
    let entry = page::Entry { drive: 1, page: 2, checksum: 3 };
    let header = page::Header {
        number: 4,
        version: 5,
        tail: 3,
        first: 6,
        entries: 1,
        settled: 7,
        opening: 8,
        before: 9,
        onto: 9,
        doubted: false,
        agreed: false,
        records: 10,
    };
    let logged = page::encode(pool, &header, &[entry]);
    let header = sums::Header { drive: 1, number: 2, age: (3, 4) };
    let bits = vec![true, false, true];
    let marks = intents::Page {
        sequence: 5,
        opening: 6,
        kept: 7,
        doubted: intents::Doubted { suspect: 8, unrecorded: 9 },
        bits: bits.clone(),
    };
    let gone = vec![None, Some(kept::Gone { opening: 6, first: 4, last: 5 })];
    let kept = kept::Record { sequence: 7, opening: 6, before: 3, bits, gone };
    vec![
        logged,
        log::encode(pool, &record, 0, &[7; 4096]),
        log::encode(pool, &record, 1, &[]),
        intents::encode(pool, &marks),
        kept::encode(pool, &kept),
        sums::encode(pool, &header, &[sums::LOST, 77]),
    ]
}
