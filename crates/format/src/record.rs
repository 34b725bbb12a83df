//! Journal records: what changed in the maps.
//!
//! ```text
//! 0 | tag (1) | payload length (2) | payload |
//!
//! tag  record         payload, in order (bytes)
//!  1   Write          volume 4, block 8, range 4, place 8, crc 4
//!  2   Stripe         stripe 8, k 2, w 2, k times (0 1 | 1 1, volume 4, block 8), w times crc 4
//!  3   Tuple          n 1, n times stripe 8, slots 2, slots times (position 1, position 1)
//!  4   Convert        stripe 8
//!  5   Relocate       volume 4, block 8, range 4, from 8, to 8
//!  6   Unmap          volume 4, block 8, range 4
//!  7   UnmapBlocks    volume 4, first 8, count 8
//!  8   Zone           zone 4, (0 1 | 1 1, class 1 | 2 1, class 1, round 2 (feature LISTS))
//!  9   Class          id 1, parity 1, width 2, layout kind 1, layout digest 4
//! 10   VolumeCreate   id 4, size 8, class 1, name length 1, name
//! 11   VolumeResize   id 4, size 8
//! 12   VolumeDelete   id 4
//! 13   Setting        key 2, value 8
//! 14   VolumeLimits   id 4, operations per second 8, bytes per second 8   (feature LIMITS)
//! 15   Sums           flbn 8, first page 2, pages 2, pages times sum 4     (feature SUMS)
//! 20   Substitutes    stripe 8, n 2, n times (position 1, FLBN 8)         (feature SUBSTITUTES)
//!
//! range: start 2, length 2      stripe: zone 4, index 4
//! place: bits 0..38 FLBN, 38 W, 39..50 sector, rest zero
//! ```
//! A new tag or a longer payload is an incompatible change: it takes a feature bit or a version.

use crate::cursor::{Reader, Writer};
use crate::error::{FormatError, check};
use crate::ids::{
    ClassId, Flbn, MAX_BLOCK_PAGES, MAX_BLOCK_SECTORS, Place, SectorRange, StripeId, VolumeId,
    valid_name,
};

/// Tag and payload length.
pub const RECORD_HEADER_LEN: usize = 3;
/// Most blocks of a stripe: positions are one byte.
pub const MAX_WIDTH: usize = 256;
/// Stripes of a tuple: p + 1 for p of 1 and 2.
pub const TUPLE_STRIPES: std::ops::RangeInclusive<usize> = 2..=3;

/// One change of the maps. Absolute, except `Relocate`, which is compare-and-swap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Sectors `range` of `block` are now at `place`. `crc` is of the whole device pages written:
    /// `place.pages(range.len)` of them, from the page of `place.sector`.
    Write {
        volume: VolumeId,
        block: u64,
        range: SectorRange,
        place: Place,
        crc: u32,
    },
    /// A whole new RAID stripe: who is at each data position (`None`: zeroes), and the CRC of each
    /// of its w blocks, data then parity.
    /// With neither: the stripe was filled by compaction and was durable before this record;
    /// `Relocate` records say what is in it.
    Stripe {
        stripe: StripeId,
        blocks: Vec<Option<(VolumeId, u64)>>,
        crcs: Vec<u32>,
    },
    /// p+1 stripes are matched; `slots[t]` says which positions of stripes 1..=p go with position
    /// t of stripe 0 (with p = 1 the second is 0).
    Tuple {
        stripes: Vec<StripeId>,
        slots: Vec<[u8; 2]>,
    },
    /// The tuple whose stripe 0 this is has become a RAID stripe.
    Convert {
        stripe: StripeId,
    },
    /// If these sectors are still at `from`, they are now at `to`.
    Relocate {
        volume: VolumeId,
        block: u64,
        range: SectorRange,
        from: Place,
        to: Place,
    },
    /// These sectors now read as zero.
    Unmap {
        volume: VolumeId,
        block: u64,
        range: SectorRange,
    },
    /// These whole blocks now read as zero.
    UnmapBlocks {
        volume: VolumeId,
        first: u64,
        count: u64,
    },
    /// A zone was given to a class, on the drives of the rounds up to one, or returned (round 0).
    Zone {
        zone: u32,
        class: Option<ClassId>,
        round: u16,
    },
    /// A class came to be.
    Class {
        id: ClassId,
        width: u16,
        parity: u8,
        layout_kind: u8,
        layout_digest: u32,
    },
    VolumeCreate {
        id: VolumeId,
        name: String,
        size: u64,
        class: ClassId,
    },
    VolumeResize {
        id: VolumeId,
        size: u64,
    },
    VolumeDelete {
        id: VolumeId,
    },
    Setting {
        key: u16,
        value: u64,
    },
    /// What a volume may do in a second; zero is no limit. Only in pools with the incompatible
    /// feature [`crate::drive::INCOMPAT_LIMITS`].
    VolumeLimits {
        id: VolumeId,
        iops: u64,
        bytes_per_sec: u64,
    },
    /// Sums of pages of a physical block, from page `first` on, that the next Write or Stripe is
    /// about: they count if that does. A sum is the page's CRC32C, or 1 where that is 0, which
    /// means "not known" wherever sums are kept. Only in pools with the incompatible feature
    /// [`crate::drive::INCOMPAT_SUMS`].
    Sums {
        flbn: Flbn,
        first: u16,
        sums: Vec<u32>,
    },
    /// These blocks of a stripe, by position in rising order, lie elsewhere, and all others where
    /// the layout has them. Only in pools with the incompatible feature
    /// [`crate::drive::INCOMPAT_SUBSTITUTES`].
    Substitutes {
        stripe: StripeId,
        places: Vec<(u8, Flbn)>,
    },
}

impl Record {
    /// Number of the kind, on disk.
    pub fn tag(&self) -> u8 {
        match self {
            Record::Write { .. } => 1,
            Record::Stripe { .. } => 2,
            Record::Tuple { .. } => 3,
            Record::Convert { .. } => 4,
            Record::Relocate { .. } => 5,
            Record::Unmap { .. } => 6,
            Record::UnmapBlocks { .. } => 7,
            Record::Zone { .. } => 8,
            Record::Class { .. } => 9,
            Record::VolumeCreate { .. } => 10,
            Record::VolumeResize { .. } => 11,
            Record::VolumeDelete { .. } => 12,
            Record::Setting { .. } => 13,
            Record::VolumeLimits { .. } => 14,
            Record::Sums { .. } => 15,
            Record::Substitutes { .. } => 20,
        }
    }

    /// All that must hold of a record whoever wrote it.
    pub fn validate(&self) -> Result<(), FormatError> {
        match self {
            Record::Write { range, place, .. } => {
                range.validate()?;
                validate_place(place, range)
            }
            Record::Relocate { range, from, to, .. } => {
                range.validate()?;
                validate_place(from, range)?;
                validate_place(to, range)
            }
            Record::Unmap { range, .. } => range.validate(),
            Record::Stripe { blocks, crcs, .. } if blocks.is_empty() && crcs.is_empty() => Ok(()),
            Record::Stripe { blocks, crcs, .. } => {
                check((1..=MAX_WIDTH).contains(&crcs.len()), "stripe width", crcs.len() as u64)?;
                let data = (1..=crcs.len()).contains(&blocks.len());
                check(data, "data blocks of a stripe", blocks.len() as u64)
            }
            Record::Tuple { stripes, slots } => validate_tuple(stripes, slots),
            Record::UnmapBlocks { first, count, .. } => {
                check(first.checked_add(*count).is_some(), "unmapped blocks", *count)
            }
            Record::Class { width, parity, .. } => validate_class(*width, *parity),
            Record::Substitutes { places, .. } => {
                let rising = places.windows(2).all(|pair| pair[0].0 < pair[1].0);
                check(rising, "substitutes", places.len() as u64)?;
                places.iter().try_for_each(|(_, place)| validate_flbn(*place))
            }
            Record::VolumeCreate { name, .. } => {
                check(valid_name(name), "volume name", name.len() as u64)
            }
            Record::Sums { flbn, first, sums } => validate_sums(*flbn, *first, sums),
            Record::Convert { .. }
            | Record::Zone { .. }
            | Record::VolumeResize { .. }
            | Record::VolumeDelete { .. }
            | Record::Setting { .. }
            | Record::VolumeLimits { .. } => Ok(()),
        }
    }

    /// Appends tag, length and payload. Panics on a record that `validate` refuses: replay would
    /// stop at it and lose what follows.
    pub fn encode(&self, out: &mut Vec<u8>) {
        if let Err(error) = self.validate() {
            panic!("this record must not be written: {error}: {self:?}");
        }
        let start = out.len();
        out.extend_from_slice(&[self.tag(), 0, 0]);
        self.write(&mut Writer(out));
        let len = (out.len() - start - RECORD_HEADER_LEN) as u16;
        out[start + 1..start + RECORD_HEADER_LEN].copy_from_slice(&len.to_le_bytes());
    }

    fn write(&self, w: &mut Writer<'_>) {
        match self {
            Record::Write { volume, block, range, place, crc } => {
                write_sectors(w, *volume, *block, range);
                place.write(w);
                w.u32(*crc);
            }
            Record::Stripe { stripe, blocks, crcs } => {
                stripe.write(w);
                w.u16(blocks.len() as u16);
                w.u16(crcs.len() as u16);
                for owner in blocks {
                    w.flag(owner.is_some());
                    if let Some((volume, block)) = owner {
                        w.u32(volume.0);
                        w.u64(*block);
                    }
                }
                crcs.iter().for_each(|crc| w.u32(*crc));
            }
            Record::Tuple { stripes, slots } => write_tuple(w, stripes, slots),
            Record::Convert { stripe } => stripe.write(w),
            Record::Relocate { volume, block, range, from, to } => {
                write_sectors(w, *volume, *block, range);
                from.write(w);
                to.write(w);
            }
            Record::Unmap { volume, block, range } => write_sectors(w, *volume, *block, range),
            Record::UnmapBlocks { volume, first, count } => {
                w.u32(volume.0);
                w.u64(*first);
                w.u64(*count);
            }
            Record::Zone { zone, class, round } => {
                w.u32(*zone);
                write_owner(w, *class, *round);
            }
            Record::Class { id, width, parity, layout_kind, layout_digest } => {
                w.bytes(&[id.0, *parity]);
                w.u16(*width);
                w.u8(*layout_kind);
                w.u32(*layout_digest);
            }
            Record::VolumeCreate { id, name, size, class } => {
                w.u32(id.0);
                w.u64(*size);
                w.u8(class.0);
                write_name(w, name);
            }
            Record::VolumeResize { id, size } => {
                w.u32(id.0);
                w.u64(*size);
            }
            Record::VolumeDelete { id } => w.u32(id.0),
            Record::Setting { key, value } => {
                w.u16(*key);
                w.u64(*value);
            }
            Record::VolumeLimits { id, iops, bytes_per_sec } => {
                w.u32(id.0);
                w.u64(*iops);
                w.u64(*bytes_per_sec);
            }
            Record::Sums { flbn, first, sums } => write_sums(w, *flbn, *first, sums),
            Record::Substitutes { stripe, places } => write_substitutes(w, *stripe, places),
        }
    }

    /// The first record of `bytes` and how long it is.
    pub fn decode(bytes: &[u8]) -> Result<(Record, usize), FormatError> {
        let mut r = Reader::new(bytes);
        let record = Record::read(&mut r)?;
        Ok((record, bytes.len() - r.remaining()))
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Record, FormatError> {
        let tag = r.u8()?;
        let len = usize::from(r.u16()?);
        let mut payload = Reader::new(r.take(len)?);
        let record = Record::read_payload(tag, &mut payload)?;
        payload.end()?;
        record.validate()?;
        Ok(record)
    }

    fn read_payload(tag: u8, r: &mut Reader<'_>) -> Result<Record, FormatError> {
        Ok(match tag {
            1 => {
                let (volume, block, range) = read_sectors(r)?;
                Record::Write { volume, block, range, place: Place::read(r)?, crc: r.u32()? }
            }
            2 => read_stripe(r)?,
            3 => {
                let (stripes, slots) = read_tuple(r)?;
                Record::Tuple { stripes, slots }
            }
            4 => Record::Convert { stripe: StripeId::read(r)? },
            5 => {
                let (volume, block, range) = read_sectors(r)?;
                let (from, to) = (Place::read(r)?, Place::read(r)?);
                Record::Relocate { volume, block, range, from, to }
            }
            6 => {
                let (volume, block, range) = read_sectors(r)?;
                Record::Unmap { volume, block, range }
            }
            7 => {
                let volume = VolumeId(r.u32()?);
                Record::UnmapBlocks { volume, first: r.u64()?, count: r.u64()? }
            }
            8 => {
                let zone = r.u32()?;
                let (class, round) = read_owner(r)?;
                Record::Zone { zone, class, round }
            }
            9 => {
                let (id, parity, width) = (ClassId(r.u8()?), r.u8()?, r.u16()?);
                let (layout_kind, layout_digest) = (r.u8()?, r.u32()?);
                Record::Class { id, width, parity, layout_kind, layout_digest }
            }
            10 => {
                let (id, size, class) = (VolumeId(r.u32()?), r.u64()?, ClassId(r.u8()?));
                Record::VolumeCreate { id, name: read_name(r)?, size, class }
            }
            11 => Record::VolumeResize { id: VolumeId(r.u32()?), size: r.u64()? },
            12 => Record::VolumeDelete { id: VolumeId(r.u32()?) },
            13 => Record::Setting { key: r.u16()?, value: r.u64()? },
            14 => {
                let id = VolumeId(r.u32()?);
                Record::VolumeLimits { id, iops: r.u64()?, bytes_per_sec: r.u64()? }
            }
            15 => {
                let (flbn, first, count) = (Flbn(r.u64()?), r.u16()?, usize::from(r.u16()?));
                let mut sums = Vec::with_capacity(r.count(count, 4)?);
                for _ in 0..count {
                    sums.push(r.u32()?);
                }
                Record::Sums { flbn, first, sums }
            }
            20 => read_substitutes(r)?,
            _ => return Err(FormatError::Invalid { field: "record tag", value: tag.into() }),
        })
    }
}

fn write_substitutes(w: &mut Writer<'_>, stripe: StripeId, places: &[(u8, Flbn)]) {
    stripe.write(w);
    w.u16(places.len() as u16);
    for (position, place) in places {
        w.u8(*position);
        w.u64(place.0);
    }
}

fn read_substitutes(r: &mut Reader<'_>) -> Result<Record, FormatError> {
    let stripe = StripeId::read(r)?;
    let count = usize::from(r.u16()?);
    let mut places = Vec::with_capacity(r.count(count, 1 + 8)?);
    for _ in 0..count {
        places.push((r.u8()?, Flbn(r.u64()?)));
    }
    Ok(Record::Substitutes { stripe, places })
}

pub(crate) fn validate_flbn(flbn: Flbn) -> Result<(), FormatError> {
    check(flbn <= Flbn::MAX, "flbn", flbn.0)
}

fn validate_place(place: &Place, range: &SectorRange) -> Result<(), FormatError> {
    check(place.sector < MAX_BLOCK_SECTORS, "place sector", place.sector.into())?;
    place.validate(range.len)
}

fn write_sums(w: &mut Writer<'_>, flbn: Flbn, first: u16, sums: &[u32]) {
    w.u64(flbn.0);
    w.u16(first);
    w.u16(sums.len() as u16);
    sums.iter().for_each(|sum| w.u32(*sum));
}

fn validate_sums(flbn: Flbn, first: u16, sums: &[u32]) -> Result<(), FormatError> {
    check(flbn <= Flbn::MAX, "flbn", flbn.0)?;
    let end = usize::from(first) + sums.len();
    let inside = !sums.is_empty() && end <= usize::from(MAX_BLOCK_PAGES);
    check(inside, "pages with sums", end as u64)?;
    check(sums.iter().all(|sum| *sum != 0), "sum of a page", 0)
}

pub(crate) fn validate_tuple(stripes: &[StripeId], slots: &[[u8; 2]]) -> Result<(), FormatError> {
    check(TUPLE_STRIPES.contains(&stripes.len()), "stripes of a tuple", stripes.len() as u64)?;
    check((1..=MAX_WIDTH).contains(&slots.len()), "slots of a tuple", slots.len() as u64)
}

pub(crate) fn validate_class(width: u16, parity: u8) -> Result<(), FormatError> {
    check((2..=MAX_WIDTH).contains(&usize::from(width)), "class width", width.into())?;
    check(u16::from(parity) < width, "class parity", parity.into())
}

fn write_sectors(w: &mut Writer<'_>, volume: VolumeId, block: u64, range: &SectorRange) {
    w.u32(volume.0);
    w.u64(block);
    range.write(w);
}

fn read_sectors(r: &mut Reader<'_>) -> Result<(VolumeId, u64, SectorRange), FormatError> {
    Ok((VolumeId(r.u32()?), r.u64()?, SectorRange::read(r)?))
}

fn read_stripe(r: &mut Reader<'_>) -> Result<Record, FormatError> {
    let stripe = StripeId::read(r)?;
    let (data, width) = (usize::from(r.u16()?), usize::from(r.u16()?));
    let mut blocks = Vec::with_capacity(r.count(data, 1)?.min(MAX_WIDTH));
    for _ in 0..data {
        let owned = r.flag("block owner")?;
        blocks.push(if owned { Some((VolumeId(r.u32()?), r.u64()?)) } else { None });
    }
    let mut crcs = Vec::with_capacity(r.count(width, 4)?);
    for _ in 0..width {
        crcs.push(r.u32()?);
    }
    Ok(Record::Stripe { stripe, blocks, crcs })
}

pub(crate) fn write_tuple(w: &mut Writer<'_>, stripes: &[StripeId], slots: &[[u8; 2]]) {
    w.u8(stripes.len() as u8);
    stripes.iter().for_each(|stripe| stripe.write(w));
    w.u16(slots.len() as u16);
    slots.iter().for_each(|slot| w.bytes(slot));
}

type TupleParts = (Vec<StripeId>, Vec<[u8; 2]>);

pub(crate) fn read_tuple(r: &mut Reader<'_>) -> Result<TupleParts, FormatError> {
    let count = usize::from(r.u8()?);
    let mut stripes = Vec::with_capacity(r.count(count, 8)?);
    for _ in 0..count {
        stripes.push(StripeId::read(r)?);
    }
    let count = usize::from(r.u16()?);
    let mut slots = Vec::with_capacity(r.count(count, 2)?);
    for _ in 0..count {
        slots.push(r.array()?);
    }
    Ok((stripes, slots))
}

/// Whose a zone is, and on the drives of which rounds. The first round goes without saying.
pub(crate) fn write_owner(w: &mut Writer<'_>, class: Option<ClassId>, round: u16) {
    let Some(class) = class else { return w.u8(0) };
    w.bytes(&[1 + u8::from(round > 0), class.0]);
    if round > 0 {
        w.u16(round);
    }
}

pub(crate) fn read_owner(r: &mut Reader<'_>) -> Result<(Option<ClassId>, u16), FormatError> {
    let kind = r.u8()?;
    check(kind <= 2, "class given", kind.into())?;
    if kind == 0 {
        return Ok((None, 0));
    }
    let class = ClassId(r.u8()?);
    let round = if kind == 2 { r.u16()? } else { 0 };
    check(kind == 1 || round > 0, "round", round.into())?;
    Ok((Some(class), round))
}

pub(crate) fn write_name(w: &mut Writer<'_>, name: &str) {
    w.u8(name.len() as u8);
    w.bytes(name.as_bytes());
}

pub(crate) fn read_name(r: &mut Reader<'_>) -> Result<String, FormatError> {
    let len = usize::from(r.u8()?);
    let name = String::from_utf8_lossy(r.take(len)?).into_owned();
    check(valid_name(&name), "volume name", len as u64)?;
    Ok(name)
}
