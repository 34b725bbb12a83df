//! Every decoder of what schemes keep on drives, for the fuzzer: nothing else uses this.

use format::Uuid;

use crate::log::record;
use crate::page_map;
use crate::scheme::alternate::{kept, page, replica};
use crate::scheme::steering::record as steering;
use crate::segments::bytes as segments;
use crate::segments::size::Shape;
use crate::volumes::grains::{Owner, PER_PAGE};
use crate::volumes::table;

const HEAD: segments::Head = segments::Head { nonce: 99, born: 5, number: 3, mate: 17 };
/// Of the segment.
/// Without sums and with them.
const SHAPES: [Shape; 2] = [Shape { pages: 300, sums: false }, Shape { pages: 300, sums: true }];
const DRIVES: usize = 5;
/// Of what lost replicas miss: number, and bytes of data.
const KEPT: (u64, u64) = (12, 9 << 20);
/// Where a record of steering lies: drive and offset.
const HERE: (usize, u64) = (4, 20480);
const SPARED: steering::Spared =
    steering::Spared { number: 3, place: Some(2), group: 1, pool: Uuid([5; 16]), moving: true };

/// Whether any decoder takes these bytes for its own.
pub fn take(pool: &Uuid, bytes: &[u8]) -> bool {
    let taken = [
        take_log(pool, bytes),
        take_segments(pool, bytes),
        take_steering(pool, bytes),
        take_volumes(pool, bytes),
        page_map::decode(pool, 5, page_map::ENTRIES, bytes).is_some(),
        take_alternate(pool, bytes),
    ];
    taken.contains(&true)
}

fn take_alternate(pool: &Uuid, bytes: &[u8]) -> bool {
    let page = page::Page::decode(pool, bytes);
    if let Some(read) = page {
        assert_eq!(page::Page::decode(pool, &read.encode(pool)), Some(read));
        let _ = page::current(&[(0, read), (1, read)], &[true; 4]);
    }
    let record = kept::Kept::decode(pool, bytes, KEPT.0, KEPT.1);
    if let Some(record) = &record {
        let again = kept::Kept::decode(pool, &record.encode(pool), KEPT.0, KEPT.1);
        assert_eq!(again.as_ref(), Some(record));
        assert!(record.left(0) <= KEPT.1);
    }
    assert!(replica::decode_ranges(bytes).iter().all(|(_, len)| *len > 0));
    page.is_some() || record.is_some()
}

fn take_log(pool: &Uuid, bytes: &[u8]) -> bool {
    let (header, anchor) =
        (record::Header::decode(pool, bytes), record::Anchor::decode(pool, bytes));
    if let Some(header) = &header {
        assert_eq!(record::Header::decode(pool, &header.encode(pool)).as_ref(), Some(header));
    }
    if let Some(anchor) = &anchor {
        assert_eq!(record::Anchor::decode(pool, &anchor.encode(pool)).as_ref(), Some(anchor));
    }
    header.is_some() || anchor.is_some()
}

fn take_segments(pool: &Uuid, bytes: &[u8]) -> bool {
    let head = segments::Head::decode(pool, bytes);
    if let Some(head) = &head {
        assert_eq!(segments::Head::decode(pool, &head.encode(pool)).as_ref(), Some(head));
    }
    let _ = segments::Header::whole(pool, &HEAD, 6, bytes);
    let header = segments::Header::of(pool, &HEAD, 6, bytes);
    if let Some(header) = &header {
        let again = segments::Header::of(pool, &HEAD, 6, &header.encode(pool));
        assert_eq!(again.as_ref(), Some(header));
    }
    let mut known = false;
    for shape in SHAPES {
        let summary = segments::Summary::decode(pool, &HEAD, shape, bytes);
        if let Some(summary) = &summary {
            assert!(summary.held().count() <= shape.pages as usize);
            let again = summary.encode(pool, &HEAD, shape);
            let again = segments::Summary::decode(pool, &HEAD, shape, &again);
            assert_eq!(again.as_ref(), Some(summary));
        }
        known |= summary.is_some();
    }
    head.is_some() || header.is_some() || known
}

fn take_steering(pool: &Uuid, bytes: &[u8]) -> bool {
    let record = steering::decode(pool, bytes, HERE.0, HERE.1);
    if let Some(record) = &record {
        let whole = steering::encode(pool, record, &[]);
        let page = &whole[..steering::PAGE as usize];
        assert_eq!(steering::decode(pool, page, HERE.0, HERE.1).as_ref(), Some(record));
    }
    let head = steering::decode_head(pool, bytes, DRIVES);
    if let Some(head) = &head {
        let again = steering::decode_head(pool, &steering::encode_head(pool, head), DRIVES);
        assert_eq!(again.as_ref(), Some(head));
    }
    record.is_some() || head.is_some()
}

/// Volumes have an id of their own; here it is the pool's.
fn take_volumes(pool: &Uuid, bytes: &[u8]) -> bool {
    let table = table::Table::decode(bytes);
    if let Some(table) = &table {
        assert_eq!(table::Table::decode(&table.encode()).as_ref(), Some(table));
        assert!(table.begin() >= table::MAP_AT);
    }
    let page = table::decode_page(&pool.0, 2, PER_PAGE as usize, bytes);
    if let Some((sequence, owners)) = &page {
        let again = table::encode_page(&pool.0, 2, *sequence, owners);
        assert!(table::decode_page(&pool.0, 2, PER_PAGE as usize, &again).is_some());
    }
    table.is_some() || page.is_some()
}

/// Of `alternate`: a page, and what lost replicas miss.
fn alternate_samples(pool: &Uuid) -> [Vec<u8>; 2] {
    let (current, one_log) = ([true, false, true, false], true);
    let own = page::Page {
        sequence: 1,
        window: 2,
        replay: 3,
        cache: 4,
        current,
        generation: 5,
        lead: 6,
        size: 7,
        one_log,
        filling: false,
        seen: [8, 9, 10, 11],
        kept: 12,
        keeps: true,
        session: 1,
    };
    let mut record = kept::Kept::none(KEPT.1);
    record.lose(1, Some(kept::Gone::of(&own, true)), KEPT.0);
    record.mark([(5 << 20, 512)]);
    [own.encode(pool).to_vec(), record.save().encode(pool).to_vec()]
}

/// Something for each of them.
pub fn samples(pool: &Uuid) -> Vec<Vec<u8>> {
    let slot = record::Slot { kind: 2, crc: 5, address: 512, len: 9, data: 512 };
    let (slots, bytes) = (vec![slot; 2], record::record_bytes(1024));
    let header = record::Header { epoch: 3, position: 8192, bytes, durable: 4096, slots };
    let anchor = record::Anchor { epoch: 1, sequence: 2, tail: 4096, area: 8192, floor: 1 };
    let entry = segments::Entry { block: 40, crc: 1, version: 8 };
    let own = segments::Header {
        nonce: HEAD.nonce,
        sequence: 9,
        number: HEAD.number,
        page: 6,
        entries: vec![entry; 3],
    };
    let held = |block| segments::Held { block, version: 70, sum: 9 };
    let summary = segments::Summary { pages: vec![held(7), held(9)], ended: 71 };
    let volume = |number, name: &str| table::Volume { number, name: name.into(), size: 512 };
    let volumes = vec![volume(1, "a"), volume(4, "b-c")];
    let further = vec![table::Further { id: *pool, base: 1 << 30, grains: 7 }];
    let all = table::Table {
        id: pool.0,
        generation: 7,
        grain: 4096,
        grains: 9,
        next: 5,
        volumes,
        further,
    };
    let owner = Some(Owner { volume: 1, at: 2 });
    let steered = steering::Header {
        sequence: 9,
        epoch: 3,
        target: 2,
        d_offset: 8192,
        holder: HERE.0,
        r_offset: HERE.1,
        len: 1536,
        data_crc: 7,
    };
    let head = steering::Head { sequence: 4, words: (0..5).collect(), spared: SPARED, taken: 3 };
    let record = steering::encode(pool, &steered, &[]);
    let others = vec![
        header.encode(pool).to_vec(),
        anchor.encode(pool).to_vec(),
        HEAD.encode(pool).to_vec(),
        own.encode(pool).to_vec(),
        summary.encode(pool, &HEAD, SHAPES[0]),
        summary.encode(pool, &HEAD, SHAPES[1]),
        all.encode(),
        table::encode_page(&pool.0, 2, 3, &[owner, None, owner]),
        record[..steering::PAGE as usize].to_vec(),
        steering::encode_head(pool, &head).to_vec(),
        page_map::encode(pool, 5, 9, &vec![77; page_map::ENTRIES]).to_vec(),
    ];
    others.into_iter().chain(alternate_samples(pool)).collect()
}
