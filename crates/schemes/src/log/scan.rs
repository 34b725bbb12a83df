//! Opening: the newest anchor, and from its tail the longest unbroken run of whole records.

use format::Uuid;

use super::record::{Anchor, HEADER, Header, PAGE};
use super::{AREA_BEGIN, Found, LOG_MIN, Place};
use crate::store::{Store, StoreError};

/// The newest anchor, and whether the other is lost: that may have been the newest.
pub async fn newest_anchor<S: Store>(
    store: &S,
    pool: &Uuid,
) -> Result<(Anchor, Option<StoreError>), StoreError> {
    let (mut newest, mut lost) = (None::<Anchor>, None);
    for place in [0, PAGE] {
        let anchor = match store.read(place, PAGE).await {
            Ok(page) => Anchor::decode(pool, &page),
            Err(error) if error.is_page_lost() => {
                lost = Some(error);
                None
            }
            Err(error) => return Err(error),
        };
        newest = [newest, anchor].into_iter().flatten().max_by_key(|anchor| anchor.sequence);
    }
    let fits = |anchor: &Anchor| {
        let end = anchor.area.checked_add(AREA_BEGIN);
        end.is_some_and(|end| (LOG_MIN..=store.size()).contains(&end))
    };
    match newest.filter(fits) {
        Some(anchor) => Ok((anchor, lost)),
        None => Err(lost.unwrap_or_else(|| StoreError::Damaged("the log".into()))),
    }
}

/// Tells every entry of the run; the position behind it. A page that is lost ends it like one that
/// was torn, unless a record tells that it had been durable: a crash leaves copies of the last
/// records that differ, and rot beside it what nobody can tell from that.
pub async fn scan<S: Store>(
    store: &S,
    pool: &Uuid,
    anchor: &Anchor,
    lost: Option<StoreError>,
    found: impl FnMut(Found),
) -> Result<u64, StoreError> {
    let mut end = anchor.tail;
    let lost = match run(store, pool, anchor, &mut end, found).await {
        Err(error) if error.is_page_lost() => Some(error),
        Err(error) => return Err(error),
        Ok(()) => lost,
    };
    match lost {
        Some(error) if was_durable(store, pool, anchor, end).await? => Err(error),
        _ => Ok(end),
    }
}

/// `end`: how far it got.
async fn run<S: Store>(
    store: &S,
    pool: &Uuid,
    anchor: &Anchor,
    end: &mut u64,
    mut found: impl FnMut(Found),
) -> Result<(), StoreError> {
    let mut epoch = anchor.floor;
    let last = anchor.tail + anchor.area;
    while *end < last {
        let record = *end;
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
                return Ok(());
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
        *end += header.bytes;
    }
    Ok(())
}

/// Some record tells that what lies at this position was durable. Looks at the whole area.
async fn was_durable<S: Store>(
    store: &S,
    pool: &Uuid,
    anchor: &Anchor,
    position: u64,
) -> Result<bool, StoreError> {
    for at in (0..anchor.area).step_by(PAGE as usize) {
        let page = match store.read(AREA_BEGIN + at, PAGE).await {
            Ok(page) => page,
            Err(error) if error.is_page_lost() => continue,
            Err(error) => return Err(error),
        };
        let header = Header::decode(pool, &page);
        let tells = |header: &Header| {
            let ours = header.position % anchor.area == at && header.epoch >= anchor.floor;
            ours && header.durable > position
        };
        if header.is_some_and(|header| tells(&header)) {
            return Ok(true);
        }
    }
    Ok(false)
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
