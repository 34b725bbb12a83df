//! Opening: the newest anchor, and from its tail the longest unbroken run of whole records.

use format::Uuid;

use super::record::{Anchor, HEADER, Header, PAGE};
use super::{AREA_BEGIN, Found, LOG_MIN, Place};
use crate::store::{Store, StoreError};

pub async fn newest_anchor<S: Store>(store: &S, pool: &Uuid) -> Result<Anchor, StoreError> {
    let mut newest: Option<Anchor> = None;
    for place in [0, PAGE] {
        let anchor = Anchor::decode(pool, &store.read(place, PAGE).await?);
        newest = [newest, anchor].into_iter().flatten().max_by_key(|anchor| anchor.sequence);
    }
    let fits = |anchor: &Anchor| {
        let end = anchor.area.checked_add(AREA_BEGIN);
        end.is_some_and(|end| (LOG_MIN..=store.size()).contains(&end))
    };
    newest.filter(fits).ok_or_else(|| StoreError::Damaged("the log".into()))
}

/// Tells every entry of the run; the position behind it.
pub async fn scan<S: Store>(
    store: &S,
    pool: &Uuid,
    anchor: &Anchor,
    mut found: impl FnMut(Found),
) -> Result<u64, StoreError> {
    let (mut record, mut epoch) = (anchor.tail, anchor.floor);
    let last = anchor.tail + anchor.area;
    while record < last {
        let page = store.read(AREA_BEGIN + record % anchor.area, PAGE).await?;
        let Some(header) = Header::decode(pool, &page) else { break };
        // One of the last time round; one that lay behind the gap of an earlier crash; one that
        // would bite its own tail.
        let stale = header.position != record || header.epoch < epoch;
        if stale || header.epoch > anchor.epoch || header.bytes > last - record {
            break;
        }
        let data = read_data(store, anchor.area, &header, &page).await?;
        let mut at = HEADER;
        let mut entries = Vec::with_capacity(header.slots.len());
        for slot in &header.slots {
            let bytes = &data[(at - HEADER) as usize..][..slot.data as usize];
            if crc32c::crc32c(bytes) != slot.crc {
                return Ok(record);
            }
            entries.push(Found {
                kind: slot.kind,
                address: slot.address,
                len: slot.len,
                data: slot.data,
                place: Place { record, at: record + at },
            });
            at += slot.data;
        }
        entries.into_iter().for_each(&mut found);
        epoch = header.epoch;
        record += header.bytes;
    }
    Ok(record)
}

/// What follows the header, of which the first page is read already.
async fn read_data<S: Store>(
    store: &S,
    area: u64,
    header: &Header,
    page: &[u8],
) -> Result<Vec<u8>, StoreError> {
    let mut data = page[HEADER as usize..].to_vec();
    let mut at = header.position + PAGE;
    let end = header.position + header.bytes;
    while at < end {
        let place = at % area;
        let len = (end - at).min(area - place);
        data.extend_from_slice(&store.read(AREA_BEGIN + place, len).await?);
        at += len;
    }
    Ok(data)
}
