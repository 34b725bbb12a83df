//! The label: who a drive is, where things lie on it, which checkpoint is current.
//!
//! ```text
//!        0        1        2        3        4        5        6        7
//!   0 | magic "STDYRAID"                                                      |
//!   8 | version         | copy   | 0      | crc32c                            |
//!  16 | used length                       | 0                                 |
//!  24 | compatible features                                                   |
//!  32 | incompatible features                                                 |
//!  40 | pool uuid (16)                                                        |
//!  56 | drive uuid (16)                                                       |
//!  72 | generation                                                            |
//!  80 | epoch                                                                 |
//!  88 | created, seconds since 1970                                           |
//!  96 | size of this drive                                                    |
//! 104 | bytes of a zone                                                       |
//! 112 | journal: offset, length (16)                                          |
//! 128 | metadata slots: offset, length (16)                                   |
//! 144 | zones: offset, length (16)                                            |
//! 160 | block size                        | zones                             |
//! 168 | index           | scheme          | shards          | members         |
//! 176 | clean  | n      | pool name, n bytes of 63, then 1 byte zero           |
//! 242 | group           | array           | 10 bytes zero                     |
//! 256 | per shard: checkpoint seq, first journal block, objects, fingerprint (32 each)
//!   . | per member: drive uuid (16), size (8), state (1), 0 (1), round (2), zones (4)
//!   . | of a further array: uuid of the pool (16); its own is at 40
//!   . | of a replacement: uuid of the drive whose place it is to have (16)
//!   . | zero up to 16384                                                      |
//! ```
//! The checksum covers everything except itself and `copy`, so the four copies differ in one byte.
//! Magic, version, checksum and what it covers stay as they are in all versions: damage is told
//! from "too new".

use std::ops::Range;

use crate::VERSION;
use crate::cursor::{Reader, Writer, put_u32};
use crate::error::{FormatError, check};
use crate::features::{
    Features, INCOMPAT_FURTHER, INCOMPAT_GROUPS, INCOMPAT_LEAVING, INCOMPAT_LISTS,
    INCOMPAT_REPLACES, INCOMPAT_RESTORING, INCOMPAT_SET, INCOMPAT_SPARE, INCOMPAT_SUBSTITUTES,
};
use crate::ids::{MAX_BLOCK_SECTORS, NAME_MAX, PAGE, SECTOR, Uuid, valid_name};

pub const LABEL_MAGIC: [u8; 8] = *b"STDYRAID";
/// Bytes of a label.
pub const LABEL_LEN: usize = 16384;
/// The first and the last of these on a drive belong to labels alone.
pub const LABEL_AREA: u64 = 1 << 20;
pub const MAX_MEMBERS: usize = 256;
pub const MAX_SHARDS: usize = 16;
/// `Superblock::scheme`: FusionRAID over RAID+.
pub const SCHEME_FUSION: u16 = 1;
/// In-place schemes: chunks without redundancy, mirrors, one or two parity chunks a stripe.
pub const SCHEME_STRIPES: u16 = 2;
pub const SCHEME_MIRRORS: u16 = 3;
pub const SCHEME_PARITY1: u16 = 4;
pub const SCHEME_PARITY2: u16 = 5;
/// As [`SCHEME_FUSION`], served without detection of spikes unless asked for (Fusion-ND).
pub const SCHEME_FUSION_ND: u16 = 6;
/// One parity chunk a stripe, always on the last drive of its group.
pub const SCHEME_PARITY_DRIVE: u16 = 7;
/// Sets of in-place arrays: `metadata` and `zone extent` are where these lie on each drive, and
/// `group` is the number of drives of the first of them.
pub const SCHEME_HYBRID: u16 = 16;
pub const SCHEME_CACHED_RAID5: u16 = 17;
pub const SCHEME_LOG_MIRROR: u16 = 18;
pub const SCHEME_HPDA: u16 = 19;
pub const SCHEME_ALTERNATE: u16 = 20;
pub const SCHEME_STEERING: u16 = 21;
pub const SCHEME_N_RAID5: u16 = 22;
pub const SCHEME_TOLE_RAID: u16 = 23;
pub const SCHEME_MIRROR_LOG: u16 = 24;
pub const SCHEME_LOG_RAID: u16 = 25;

/// Arrays of a pool of in-place arrays: it was made with one, and grew by the others.
pub const ARRAYS_MAX: usize = 16;
/// The place of a spare: none.
pub const SPARE_INDEX: u16 = u16::MAX;

const AT_COPY: usize = 10;
const AT_CRC: usize = 12;
const AT_LEN: usize = 16;
const ROOT_LEN: usize = 32;
const MEMBER_LEN: usize = 32;

/// A stretch of a drive, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    pub offset: u64,
    pub len: u64,
}

impl Extent {
    /// Its bytes.
    pub fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.len
    }

    /// One past the last byte, if that is a number.
    fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.len)
    }
}

/// What the pool thinks of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MemberState {
    Active = 1,
    Missing = 2,
    Failed = 3,
    /// Written like any other, and being filled with what it should hold: what it held when the
    /// pool was opened is not to be trusted.
    Restoring = 4,
    /// It is not used, and nothing is missing without it: what it held has substitutes elsewhere.
    Vacated = 5,
    /// It is used as an active one, and emptied because an operator wants it back: one at a time.
    Leaving = 6,
}

impl MemberState {
    /// The drive holds all that it should.
    pub fn is_whole(self) -> bool {
        matches!(self, MemberState::Active | MemberState::Leaving)
    }

    fn from_byte(byte: u8) -> Result<MemberState, FormatError> {
        match byte {
            1 => Ok(MemberState::Active),
            2 => Ok(MemberState::Missing),
            3 => Ok(MemberState::Failed),
            4 => Ok(MemberState::Restoring),
            5 => Ok(MemberState::Vacated),
            6 => Ok(MemberState::Leaving),
            _ => Err(FormatError::Invalid { field: "member state", value: byte.into() }),
        }
    }
}

/// One drive of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    pub drive: Uuid,
    pub state: MemberState,
    pub size: u64,
    /// When it joined: 0 with the pool, then one more with each addition. Zero without the feature
    /// LISTS.
    pub round: u16,
    /// Zones that it has, from the first on, whatever its size. Zero, for all, without the feature
    /// LISTS.
    pub zones: u32,
}

/// The checkpoint a shard starts from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointRoot {
    pub seq: u64,
    /// Sequence of the first journal block to replay.
    pub journal_start: u64,
    /// How many live objects, and the XOR of their fingerprints.
    pub objects: u64,
    pub fingerprint: u64,
}

/// A label, decoded. All drives of a pool carry the same one but for `drive`, `index`,
/// `drive_size` and the extents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    pub pool: Uuid,
    pub drive: Uuid,
    pub pool_name: String,
    /// This drive's place in `members`.
    pub index: u16,
    /// Raised with every writing of the labels.
    pub generation: u64,
    /// Raised with every opening; journal blocks of older epochs are void.
    pub epoch: u64,
    pub created_secs: u64,
    pub features: Features,
    pub clean: bool,
    pub scheme: u16,
    /// Drives of a group, of in-place schemes; 0 for others.
    pub group: u16,
    pub shards: u16,
    pub block_size: u32,
    pub zone_bytes: u64,
    /// Zones of each drive, the same number on all.
    pub zone_count: u32,
    pub drive_size: u64,
    pub journal: Extent,
    pub meta: Extent,
    pub zones: Extent,
    pub members: Vec<Member>,
    /// One for each shard.
    pub checkpoint: Vec<CheckpointRoot>,
    /// `None`: these drives are the pool, or its first array.
    pub further: Option<Further>,
    /// Of the drive's own label alone: the one that is copied onto it
    /// ([`Superblock::is_replacement`]).
    pub replaces: Option<Uuid>,
}

/// What a pool of in-place arrays grew by: an array that has all that a pool has, and belongs to
/// another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Further {
    pub pool: Uuid,
    /// Arrays that the pool had before, 1 or more.
    pub array: u16,
}

/// Where the last label area begins.
pub fn end_area(size: u64) -> u64 {
    (size / LABEL_AREA * LABEL_AREA).saturating_sub(LABEL_AREA)
}

/// Where the four labels of a drive of `size` bytes lie.
pub fn label_offsets(size: u64) -> [u64; 4] {
    let end = end_area(size);
    [64 << 10, 512 << 10, end + (64 << 10), end + (512 << 10)]
}

fn label_crc(label: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&label[..AT_COPY]);
    let crc = crc32c::crc32c_append(crc, &label[AT_COPY + 1..AT_CRC]);
    crc32c::crc32c_append(crc, &label[AT_LEN..LABEL_LEN])
}

impl Superblock {
    /// `LABEL_LEN` bytes. Panics on a label that could not be read back (see `validate`).
    pub fn encode(&self, copy: u8) -> Vec<u8> {
        if let Err(error) = self.validate() {
            panic!("this label must not be written: {error}");
        }
        let mut label = Vec::with_capacity(LABEL_LEN);
        let mut w = Writer(&mut label);
        w.bytes(&LABEL_MAGIC);
        w.u16(VERSION);
        w.u8(copy);
        w.zeros(1 + 4 + 4 + 4); // reserved, checksum and used length (below), reserved
        w.u64(self.features.compat);
        w.u64(self.features.incompat);
        w.uuid(&self.pool);
        w.uuid(&self.drive);
        let numbers =
            [self.generation, self.epoch, self.created_secs, self.drive_size, self.zone_bytes];
        numbers.into_iter().for_each(|number| w.u64(number));
        for extent in [self.journal, self.meta, self.zones] {
            w.u64(extent.offset);
            w.u64(extent.len);
        }
        w.u32(self.block_size);
        w.u32(self.zone_count);
        let counts = [self.index, self.scheme, self.shards, self.members.len() as u16];
        counts.into_iter().for_each(|count| w.u16(count));
        w.flag(self.clean);
        w.u8(self.pool_name.len() as u8);
        w.bytes(self.pool_name.as_bytes());
        w.zeros(NAME_MAX - self.pool_name.len() + 1);
        w.u16(self.group);
        w.u16(self.array());
        w.zeros(10);
        for root in &self.checkpoint {
            let fields = [root.seq, root.journal_start, root.objects, root.fingerprint];
            fields.into_iter().for_each(|field| w.u64(field));
        }
        for member in &self.members {
            w.uuid(&member.drive);
            w.u64(member.size);
            w.u8(member.state as u8);
            w.zeros(1);
            w.u16(member.round);
            w.u32(member.zones);
        }
        self.further.iter().for_each(|further| w.uuid(&further.pool));
        self.replaces.iter().for_each(|old| w.uuid(old));
        let used = label.len() as u32;
        label.resize(LABEL_LEN, 0);
        put_u32(&mut label, AT_LEN, used);
        let crc = label_crc(&label);
        put_u32(&mut label, AT_CRC, crc);
        label
    }

    /// The label in the first `LABEL_LEN` bytes, and which copy it says it is.
    pub fn decode(bytes: &[u8]) -> Result<(Superblock, u8), FormatError> {
        let mut r = Reader::new(bytes);
        check_magic(&mut r, &LABEL_MAGIC)?;
        let label = bytes.get(..LABEL_LEN).ok_or(FormatError::Truncated)?;
        let version = r.u16()?;
        let copy = r.u8()?;
        r.take(1)?;
        check_crc(label_crc(label), r.u32()?)?;
        check_version(version)?;
        let used = r.u32()?;
        let mut r = Reader::new(label.get(..used as usize).ok_or(FormatError::Truncated)?);
        Reader::new(&label[used as usize..]).zeros(LABEL_LEN - used as usize)?;
        r.take(AT_COPY + 1)?;
        r.zeros(1)?;
        r.take(8)?; // checksum, used length
        r.zeros(4)?;
        let superblock = Superblock::read(&mut r)?;
        r.end()?;
        superblock.validate()?;
        Ok((superblock, copy))
    }

    fn read(r: &mut Reader<'_>) -> Result<Superblock, FormatError> {
        let features = Features { compat: r.u64()?, incompat: r.u64()? };
        features.check()?;
        let (pool, drive) = (r.uuid()?, r.uuid()?);
        let (generation, epoch, created_secs) = (r.u64()?, r.u64()?, r.u64()?);
        let (drive_size, zone_bytes) = (r.u64()?, r.u64()?);
        let mut extent = || Ok::<_, FormatError>(Extent { offset: r.u64()?, len: r.u64()? });
        let (journal, meta, zones) = (extent()?, extent()?, extent()?);
        let (block_size, zone_count) = (r.u32()?, r.u32()?);
        let (index, scheme, shards, members) = (r.u16()?, r.u16()?, r.u16()?, r.u16()?);
        let clean = r.flag("clean")?;
        let name_len = usize::from(r.u8()?);
        check(name_len <= NAME_MAX, "pool name length", name_len as u64)?;
        let name = r.take(name_len)?;
        r.zeros(NAME_MAX - name_len + 1)?;
        let (group, array) = (r.u16()?, r.u16()?);
        r.zeros(10)?;
        let pool_name = String::from_utf8_lossy(name).into_owned();
        let roots = r.count(shards.into(), ROOT_LEN)?;
        let mut root = |_| {
            Ok(CheckpointRoot {
                seq: r.u64()?,
                journal_start: r.u64()?,
                objects: r.u64()?,
                fingerprint: r.u64()?,
            })
        };
        let checkpoint = (0..roots).map(&mut root).collect::<Result<Vec<_>, FormatError>>()?;
        let count = r.count(members.into(), MEMBER_LEN)?;
        let mut member = |_| {
            let (drive, size) = (r.uuid()?, r.u64()?);
            let state = MemberState::from_byte(r.u8()?)?;
            r.zeros(1)?;
            Ok(Member { drive, state, size, round: r.u16()?, zones: r.u32()? })
        };
        let members = (0..count).map(&mut member).collect::<Result<Vec<_>, FormatError>>()?;
        let further = match features.incompat & INCOMPAT_FURTHER {
            0 => check(array == 0, "array", array.into()).map(|()| None)?,
            _ => Some(Further { pool: r.uuid()?, array }),
        };
        let replaces = match features.incompat & INCOMPAT_REPLACES {
            0 => None,
            _ => Some(r.uuid()?),
        };
        Ok(Superblock {
            pool,
            drive,
            pool_name,
            index,
            generation,
            epoch,
            created_secs,
            features,
            clean,
            scheme,
            group,
            shards,
            block_size,
            zone_bytes,
            zone_count,
            drive_size,
            journal,
            meta,
            zones,
            members,
            checkpoint,
            further,
            replaces,
        })
    }

    /// All that must hold of a label whoever wrote it.
    pub fn validate(&self) -> Result<(), FormatError> {
        self.features.check()?;
        check(valid_name(&self.pool_name), "pool name", self.pool_name.len() as u64)?;
        self.validate_scheme()?;
        let (shards, members) = (usize::from(self.shards), self.members.len());
        check((1..=MAX_SHARDS).contains(&shards), "shards", shards as u64)?;
        check(self.checkpoint.len() == shards, "checkpoint roots", self.checkpoint.len() as u64)?;
        check((1..=MAX_MEMBERS).contains(&members), "members", members as u64)?;
        self.validate_index()?;
        let max_block = u32::from(MAX_BLOCK_SECTORS) * SECTOR as u32;
        let block = self.block_size;
        let block_fits = block > 0 && block <= max_block && block.is_multiple_of(PAGE as u32);
        check(block_fits, "block size", block.into())?;
        let whole = self.zone_bytes > 0 && self.zone_bytes.is_multiple_of(block.into());
        check(whole, "zone bytes", self.zone_bytes)?;
        let zones = self.zone_bytes.checked_mul(self.zone_count.into());
        check(zones.is_some_and(|z| z <= self.zones.len), "zones", self.zone_count.into())?;
        self.validate_lists()?;
        self.validate_extents()
    }

    /// A drive of a pool of in-place arrays that holds nothing and waits for a place. What its
    /// label says of the pool, but for the name and who it is, is as old as the label; so its
    /// generation is 0, and it outvotes nobody.
    pub fn is_spare(&self) -> bool {
        self.features.incompat & INCOMPAT_SPARE != 0
    }

    /// A drive onto which a member is copied, until the labels of others name it in that member's
    /// place, as its own does already.
    pub fn is_replacement(&self) -> bool {
        self.replaces.is_some()
    }

    /// The pool that it belongs to.
    pub fn home(&self) -> Uuid {
        self.further.map_or(self.pool, |further| further.pool)
    }

    /// Which of its arrays it is, in the order in which they came: 0 for the first, which all pools
    /// have.
    pub fn array(&self) -> u16 {
        self.further.map_or(0, |further| further.array)
    }

    fn validate_index(&self) -> Result<(), FormatError> {
        let index = u64::from(self.index);
        if !self.is_spare() {
            let own = self.members.get(usize::from(self.index));
            return check(own.is_some_and(|own| own.drive == self.drive), "index", index);
        }
        let pool = self.features.incompat & (INCOMPAT_GROUPS | INCOMPAT_SET);
        let fits = pool != 0 && self.features.incompat & INCOMPAT_LISTS == 0;
        check(fits, "features", self.features.incompat)?;
        check(self.generation == 0, "generation", self.generation)?;
        let named = self.members.iter().any(|member| member.drive == self.drive);
        check(self.index == SPARE_INDEX && !named, "index", index)
    }

    /// Zones of the drive in a place: those that a replacement has to have room for.
    pub fn zones_of(&self, index: usize) -> u32 {
        match self.features.incompat & INCOMPAT_LISTS {
            0 => self.zone_count,
            _ => self.members[index].zones,
        }
    }

    /// Rounds rise one by one, and nobody has zones that the pool, or the drive, has no room for.
    fn validate_lists(&self) -> Result<(), FormatError> {
        let listed = self.features.incompat & INCOMPAT_LISTS != 0;
        let mut last = 0;
        for member in &self.members {
            let (round, zones) = (member.round, member.zones);
            let next = round == last || u32::from(round) == u32::from(last) + 1;
            check(if listed { next } else { round == 0 }, "round", round.into())?;
            last = round;
            let fit = (1..=self.zone_count).contains(&zones) && self.has_room(member);
            check(if listed { fit } else { zones == 0 }, "zones of a drive", zones.into())?;
        }
        let first = self.members.first().map_or(0, |first| first.round);
        check(first == 0, "round", first.into())
    }

    /// For its zones, on a drive of its size.
    fn has_room(&self, member: &Member) -> bool {
        let zones = self.zone_bytes.checked_mul(member.zones.into());
        let end = zones.and_then(|zones| zones.checked_add(self.zones.offset));
        end.is_some_and(|end| end <= end_area(member.size))
    }

    fn validate_scheme(&self) -> Result<(), FormatError> {
        let (group, members) = (usize::from(self.group), self.members.len());
        let (needed, fits) = match self.scheme {
            SCHEME_FUSION | SCHEME_FUSION_ND => (0, group == 0),
            SCHEME_STRIPES..=SCHEME_PARITY2 | SCHEME_PARITY_DRIVE => {
                (INCOMPAT_GROUPS, group > 0 && members.is_multiple_of(group))
            }
            SCHEME_HYBRID..=SCHEME_LOG_RAID => (INCOMPAT_SET, group <= members),
            unknown => {
                return Err(FormatError::Invalid { field: "scheme", value: unknown.into() });
            }
        };
        let flagged = self.features.incompat & (INCOMPAT_GROUPS | INCOMPAT_SET);
        check(flagged == needed, "features", self.features.incompat)?;
        let told = self.features.incompat & INCOMPAT_FURTHER != 0;
        let of = |further: Further| (1..ARRAYS_MAX).contains(&further.array.into()) && needed != 0;
        let right = told == self.further.is_some() && self.further.is_none_or(of);
        check(right, "array", self.array().into())?;
        let told = self.features.incompat & INCOMPAT_REPLACES != 0;
        check(told == self.replaces.is_some(), "replaced drive", told.into())?;
        for (state, feature) in [
            (MemberState::Restoring, INCOMPAT_RESTORING),
            (MemberState::Vacated, INCOMPAT_SUBSTITUTES),
            (MemberState::Leaving, INCOMPAT_LEAVING),
        ] {
            let any = self.members.iter().any(|member| member.state == state);
            let told = self.features.incompat & feature != 0;
            check(told || !any, "member state", state as u64)?;
        }
        let leaves = |member: &&Member| member.state == MemberState::Leaving;
        let leaving = self.members.iter().filter(leaves).count();
        check(leaving <= 1, "members that leave", leaving as u64)?;
        check(fits, "group", self.group.into())
    }

    /// Page-aligned, inside the drive and outside the label areas, no two overlapping.
    fn validate_extents(&self) -> Result<(), FormatError> {
        // The pool's zones, of which this drive may have only the first.
        let own = self.zone_bytes * u64::from(self.zones_of(self.index.into()));
        let zones = match self.features.incompat & INCOMPAT_LISTS {
            0 => self.zones,
            _ => Extent { len: own, ..self.zones },
        };
        let aligned = (self.zones.offset | self.zones.len).is_multiple_of(PAGE as u64);
        check(aligned && self.zones.end().is_some(), "zone extent", self.zones.len)?;
        let mut extents =
            [(self.journal, "journal"), (self.meta, "metadata"), (zones, "zone extent")];
        extents.sort_by_key(|(extent, _)| extent.offset);
        let mut free = LABEL_AREA;
        for (extent, field) in extents {
            let aligned = (extent.offset | extent.len).is_multiple_of(PAGE as u64);
            check(aligned && extent.offset >= free, field, extent.offset)?;
            free = extent.end().ok_or(FormatError::Invalid { field, value: extent.len })?;
            check(free <= end_area(self.drive_size), field, extent.len)?;
        }
        Ok(())
    }
}

/// The label at that byte of a drive. Disks end with their last partition, so what lies at the end
/// of a disk may be the label of a drive that it only contains.
pub fn label_at(bytes: &[u8], offset: u64) -> Result<(Superblock, u8), FormatError> {
    let (label, copy) = Superblock::decode(bytes)?;
    match label_offsets(label.drive_size).get(usize::from(copy)) {
        Some(own) if *own == offset => Ok((label, copy)),
        _ => Err(FormatError::Elsewhere),
    }
}

/// The label to believe among the copies of one drive: the highest generation that is whole.
/// A copy written by newer software is an error even beside good ones, and so are copies that
/// disagree on who the drive is. Without any good copy, the error that tells most.
pub fn newest(
    copies: impl Iterator<Item = Result<(Superblock, u8), FormatError>>,
) -> Result<Superblock, FormatError> {
    let mut best: Option<Superblock> = None;
    let mut worst = FormatError::Truncated;
    for copy in copies {
        match copy {
            Err(error) if error.is_too_new() => return Err(error),
            Err(error) if matches!(worst, FormatError::Truncated | FormatError::BadMagic) => {
                if error != FormatError::Truncated {
                    worst = error;
                }
            }
            Err(_) => {}
            Ok((label, _)) => match &best {
                Some(held) if (held.pool, held.drive) != (label.pool, label.drive) => {
                    let who = |a: &Superblock, same| if same { a.drive } else { a.pool };
                    let same = held.pool == label.pool;
                    let (first, second) = (who(held, same), who(&label, same));
                    return Err(FormatError::MixedLabels { first, second });
                }
                Some(held) if held.generation >= label.generation => {}
                _ => best = Some(label),
            },
        }
    }
    best.ok_or(worst)
}

pub(crate) fn check_magic(r: &mut Reader<'_>, magic: &[u8; 8]) -> Result<(), FormatError> {
    if r.array::<8>()? == *magic { Ok(()) } else { Err(FormatError::BadMagic) }
}

pub(crate) fn check_crc(expected: u32, found: u32) -> Result<(), FormatError> {
    if expected == found { Ok(()) } else { Err(FormatError::BadChecksum { expected, found }) }
}

pub(crate) fn check_version(found: u16) -> Result<(), FormatError> {
    if found == VERSION {
        Ok(())
    } else {
        Err(FormatError::UnsupportedVersion { found, supported: VERSION })
    }
}
