//! Payloads of checkpoint objects: a piece of the map, a zone, the configuration.
//!
//! ```text
//! chunk   3264 entries of 5 bytes (a full part); then, if any block is patched:
//!         count 4, count times (entry in chunk 2, base entry 5, patches 2, patches of 10)
//!         an entry with P holds the place of its block in that list
//! zone    whose it is, as in the Zone record; tuples 4, each:
//!         n 1, n times stripe 8, slots 2, slots times (1, 1), slots times pages written 2
//!         then, if blocks of the zone's stripes lie elsewhere (feature SUBSTITUTES):
//!         count 4, each: stripe's number in the zone 4, position 1, FLBN 8
//! config  next volume 4,
//!         classes 2, each: id 1, parity 1, width 2, layout kind 1, layout digest 4
//!         volumes 4, each: id 4, size 8, class 1, name length 1, name
//!         settings 2, each: key 2, value 8; then, if any volume has limits (feature LIMITS):
//!         count 4, each: volume 4, operations per second 8, bytes per second 8
//! sums    n times sum 4 (0: not known), n at most 4080, so that they fill one slot; pages are
//!         those of the zone's data blocks: stripe by stripe, position by position
//! ```

use crate::checkpoint::{CHUNK_ENTRIES, SLOT_PAYLOAD, split};
use crate::cursor::{Reader, Writer};
use crate::entry::{BmtEntry, ENTRY_LEN, PATCH_LEN, Patch};
use crate::error::{FormatError, check};
use crate::ids::{ClassId, Flbn, MAX_BLOCK_SECTORS, StripeId, VolumeId, valid_name};
use crate::record::{
    read_name, read_owner, read_tuple, validate_class, validate_flbn, validate_tuple, write_name,
    write_owner, write_tuple,
};

/// Sums of an object: they fill one slot.
pub const SUMS_ENTRIES: usize = SLOT_PAYLOAD / 4;
const CHUNK_BYTES: usize = CHUNK_ENTRIES * ENTRY_LEN;
/// Pages of the largest block.
const MAX_PAGES: u16 = MAX_BLOCK_SECTORS / 8;

/// A patched block: its base and what lies over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchedBlock {
    pub entry_in_chunk: u16,
    /// A plain base, or unmapped.
    pub base: BmtEntry,
    pub patches: Vec<Patch>,
}

/// A piece of a volume's map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkObject {
    /// `CHUNK_ENTRIES` raw entries. The low bits of one with P mean nothing before `encode` and
    /// are its place in `patches` after `decode`.
    pub entries: Vec<u8>,
    /// In rising order of `entry_in_chunk`, one for each entry with P.
    pub patches: Vec<PatchedBlock>,
}

fn entry_at(entries: &[u8], at: usize) -> BmtEntry {
    let mut bytes = [0; ENTRY_LEN];
    bytes.copy_from_slice(&entries[at * ENTRY_LEN..][..ENTRY_LEN]);
    BmtEntry::from_bytes(bytes)
}

impl ChunkObject {
    /// The entry at a place below `CHUNK_ENTRIES`.
    pub fn entry(&self, at: usize) -> BmtEntry {
        entry_at(&self.entries, at)
    }

    /// Payload parts. Panics on a chunk whose P bits and patches do not go together.
    pub fn encode(&self) -> Vec<Vec<u8>> {
        assert_eq!(self.entries.len(), CHUNK_BYTES, "a chunk has {CHUNK_ENTRIES} entries");
        let mut parts = ChunkParts::default();
        let mut lists = self.patches.iter().peekable();
        for at in 0..CHUNK_ENTRIES {
            let entry = self.entry(at);
            let own = lists.next_if(|list| usize::from(list.entry_in_chunk) == at);
            assert_eq!(
                entry.is_patched(),
                own.is_some(),
                "this chunk must not be written: P bit and patches of entry {at}"
            );
            match own {
                None => parts.plain(entry),
                Some(list) => {
                    let patches: Vec<_> = list.patches.iter().map(Patch::pack).collect();
                    parts.patched(list.base, &patches);
                }
            }
        }
        assert!(lists.next().is_none(), "this chunk must not be written: patches out of order");
        parts.finish()
    }

    /// From payload parts in order (or one slice of all of them).
    pub fn decode<P: AsRef<[u8]>>(parts: &[P]) -> Result<ChunkObject, FormatError> {
        let bytes = join(parts);
        let mut r = Reader::new(&bytes);
        let entries = r.take(CHUNK_BYTES)?.to_vec();
        let mut patches = Vec::new();
        if r.remaining() > 0 {
            let count = r.u32()? as usize;
            check(count > 0, "patched blocks", 0)?;
            patches.reserve_exact(r.count(count, 2 + ENTRY_LEN + 2)?);
            for _ in 0..count {
                patches.push(read_patched(&mut r)?);
            }
        }
        r.end()?;
        validate_chunk(&entries, &patches)?;
        Ok(ChunkObject { entries, patches })
    }
}

/// Payload parts of a chunk, put together entry by entry: whoever has other things to do beside
/// that does some entries at a time.
#[derive(Default)]
pub struct ChunkParts {
    entries: Vec<u8>,
    /// What comes after the entries, in full parts but the last.
    lists: Vec<Vec<u8>>,
    patched: u32,
}

impl ChunkParts {
    /// The next entry, which is unmapped or a plain base.
    pub fn plain(&mut self, entry: BmtEntry) {
        assert!(!entry.is_patched(), "this chunk must not be written: {entry:?} has no patches");
        self.entry(entry);
    }

    /// The next entry has patches, over a base or none.
    pub fn patched(&mut self, base: BmtEntry, patches: &[[u8; PATCH_LEN]]) {
        let checked = patches.iter().try_for_each(|raw| Patch::unpack_checked(raw).map(|_| ()));
        let few = patches.len() <= MAX_BLOCK_SECTORS.into();
        assert!(
            checked.is_ok() && few && !base.is_patched(),
            "this chunk must not be written: {base:?}, {patches:?}"
        );
        let at = (self.entries.len() / ENTRY_LEN) as u16;
        self.entry(BmtEntry::patched(self.patched.into()));
        if self.patched == 0 {
            // Their number, which is known at the end.
            self.list(&[0; 4]);
        }
        self.patched += 1;
        self.list(&at.to_le_bytes());
        self.list(&base.to_bytes());
        self.list(&(patches.len() as u16).to_le_bytes());
        patches.iter().for_each(|patch| self.list(patch));
    }

    fn entry(&mut self, entry: BmtEntry) {
        let valid = entry.validate().is_ok() && self.entries.len() < CHUNK_BYTES;
        assert!(valid, "this chunk must not be written: {entry:?}");
        self.entries.extend(entry.to_bytes());
    }

    fn list(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.lists.last().is_none_or(|part| part.len() == SLOT_PAYLOAD) {
                self.lists.push(Vec::with_capacity(SLOT_PAYLOAD));
            }
            let part = self.lists.last_mut().expect("just made");
            let (now, later) = bytes.split_at(bytes.len().min(SLOT_PAYLOAD - part.len()));
            part.extend_from_slice(now);
            bytes = later;
        }
    }

    /// Panics unless every entry is there.
    pub fn finish(self) -> Vec<Vec<u8>> {
        let ChunkParts { entries, mut lists, patched } = self;
        assert_eq!(entries.len(), CHUNK_BYTES, "a chunk has {CHUNK_ENTRIES} entries");
        if let Some(first) = lists.first_mut() {
            first[..4].copy_from_slice(&patched.to_le_bytes());
        }
        lists.insert(0, entries);
        lists
    }
}

/// The entries of a chunk fill one part, so what follows them begins another.
const _: () = assert!(CHUNK_BYTES == SLOT_PAYLOAD);

fn read_patched(r: &mut Reader<'_>) -> Result<PatchedBlock, FormatError> {
    let (entry_in_chunk, base) = (r.u16()?, BmtEntry::from_bytes(r.array()?));
    let count = usize::from(r.u16()?);
    let mut patches = Vec::with_capacity(r.count(count, PATCH_LEN)?);
    for _ in 0..count {
        patches.push(Patch::unpack_checked(&r.array()?)?);
    }
    Ok(PatchedBlock { entry_in_chunk, base, patches })
}

/// Each patched entry names its own list, each list has its entry.
fn validate_chunk(entries: &[u8], patches: &[PatchedBlock]) -> Result<(), FormatError> {
    let mut lists = 0;
    for at in 0..CHUNK_ENTRIES {
        let entry = entry_at(entries, at);
        entry.validate()?;
        if let Some(index) = entry.as_patched() {
            let list = patches.get(lists).map(|block| usize::from(block.entry_in_chunk));
            check(index == lists as u64 && list == Some(at), "patched entry", index)?;
            lists += 1;
        }
    }
    check(lists == patches.len(), "patched blocks", patches.len() as u64)?;
    for block in patches {
        check(!block.base.is_patched(), "base of a patched block", block.base.index())?;
        let count = block.patches.len();
        check(count <= MAX_BLOCK_SECTORS.into(), "patches of a block", count as u64)?;
        block.patches.iter().try_for_each(Patch::validate)?;
    }
    Ok(())
}

/// Matched stripes of a zone and how much of each slot is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TupleImage {
    pub stripes: Vec<StripeId>,
    pub slots: Vec<[u8; 2]>,
    /// Pages written of each slot.
    pub filled: Vec<u16>,
}

impl TupleImage {
    fn validate(&self) -> Result<(), FormatError> {
        validate_tuple(&self.stripes, &self.slots)?;
        check(self.filled.len() == self.slots.len(), "slot fills", self.filled.len() as u64)?;
        let over = self.filled.iter().find(|pages| **pages > MAX_PAGES);
        check(over.is_none(), "pages of a slot", over.copied().unwrap_or(0).into())
    }
}

/// A block of a stripe that lies elsewhere than the layout has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubstituteImage {
    /// The stripe's number in its zone.
    pub index: u32,
    pub position: u8,
    pub place: Flbn,
}

/// A zone: whose it is, its tuples, and which of its stripes' blocks lie elsewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ZoneObject {
    pub class: Option<ClassId>,
    /// It lies on drives of the rounds up to this one.
    pub round: u16,
    pub tuples: Vec<TupleImage>,
    /// In rising order of stripe and position.
    pub substitutes: Vec<SubstituteImage>,
}

impl ZoneObject {
    /// Payload parts. Panics on an impossible tuple.
    pub fn encode(&self) -> Vec<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut w = Writer(&mut bytes);
        write_owner(&mut w, self.class, self.round);
        w.u32(u32::try_from(self.tuples.len()).expect("tuples of a zone"));
        for tuple in &self.tuples {
            if let Err(error) = tuple.validate() {
                panic!("this tuple must not be written: {error}: {tuple:?}");
            }
            write_tuple(&mut w, &tuple.stripes, &tuple.slots);
            tuple.filled.iter().for_each(|pages| w.u16(*pages));
        }
        write_substitutes(&mut w, &self.substitutes);
        split(&bytes)
    }

    /// From payload parts in order (or one slice of all of them).
    pub fn decode<P: AsRef<[u8]>>(parts: &[P]) -> Result<ZoneObject, FormatError> {
        let bytes = join(parts);
        let mut r = Reader::new(&bytes);
        let (class, round) = read_owner(&mut r)?;
        let count = r.u32()? as usize;
        // The smallest tuple: two stripes, one slot.
        let mut tuples = Vec::with_capacity(r.count(count, 1 + 16 + 2 + 2 + 2)?);
        for _ in 0..count {
            let (stripes, slots) = read_tuple(&mut r)?;
            let filled = (0..slots.len()).map(|_| r.u16()).collect::<Result<Vec<_>, _>>()?;
            let tuple = TupleImage { stripes, slots, filled };
            tuple.validate()?;
            tuples.push(tuple);
        }
        let substitutes = read_substitutes(&mut r)?;
        r.end()?;
        Ok(ZoneObject { class, round, tuples, substitutes })
    }
}

/// Nothing at all where there are none, as with limits.
fn write_substitutes(w: &mut Writer<'_>, substitutes: &[SubstituteImage]) {
    if substitutes.is_empty() {
        return;
    }
    assert!(validate_substitutes(substitutes).is_ok(), "substitutes out of order, or impossible");
    w.u32(u32::try_from(substitutes.len()).expect("substitutes of a zone"));
    for substitute in substitutes {
        w.u32(substitute.index);
        w.u8(substitute.position);
        w.u64(substitute.place.0);
    }
}

fn read_substitutes(r: &mut Reader<'_>) -> Result<Vec<SubstituteImage>, FormatError> {
    if r.remaining() == 0 {
        return Ok(Vec::new());
    }
    let count = r.u32()? as usize;
    check(count > 0, "substitutes of a zone", 0)?;
    let mut substitutes = Vec::with_capacity(r.count(count, 4 + 1 + 8)?);
    for _ in 0..count {
        let (index, position, place) = (r.u32()?, r.u8()?, Flbn(r.u64()?));
        substitutes.push(SubstituteImage { index, position, place });
    }
    validate_substitutes(&substitutes)?;
    Ok(substitutes)
}

fn validate_substitutes(substitutes: &[SubstituteImage]) -> Result<(), FormatError> {
    let order = |one: &SubstituteImage| (one.index, one.position);
    let rising = substitutes.windows(2).all(|pair| order(&pair[0]) < order(&pair[1]));
    check(rising, "substitutes of a zone", substitutes.len() as u64)?;
    substitutes.iter().try_for_each(|one| validate_flbn(one.place))
}

/// A class as configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassImage {
    pub id: ClassId,
    pub width: u16,
    pub parity: u8,
    pub layout_kind: u8,
    /// Of the layout's tables: software that would place blocks elsewhere must not open the pool.
    pub layout_digest: u32,
}

/// A volume as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeImage {
    pub id: VolumeId,
    pub name: String,
    pub size: u64,
    pub class: ClassId,
}

/// What a volume may do in a second; zero is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitsImage {
    pub volume: VolumeId,
    pub iops: u64,
    pub bytes_per_sec: u64,
}

impl LimitsImage {
    fn validate(&self) -> Result<(), FormatError> {
        let any = self.iops != 0 || self.bytes_per_sec != 0;
        check(any, "limits that limit nothing, of volume", self.volume.0.into())
    }
}

/// Sums of a part of a zone's pages, 0 for those that are not known. Pages past the end of the
/// list have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SumsObject {
    pub sums: Vec<u32>,
}

impl SumsObject {
    /// Payload parts: one. Panics on more sums than a slot holds.
    pub fn encode(&self) -> Vec<Vec<u8>> {
        assert!(self.sums.len() <= SUMS_ENTRIES, "{} sums do not fit a slot", self.sums.len());
        let mut bytes = Vec::with_capacity(self.sums.len() * 4);
        let mut w = Writer(&mut bytes);
        self.sums.iter().for_each(|sum| w.u32(*sum));
        split(&bytes)
    }

    /// From payload parts in order (or one slice of all of them).
    pub fn decode<P: AsRef<[u8]>>(parts: &[P]) -> Result<SumsObject, FormatError> {
        let bytes = join(parts);
        check(bytes.len() <= SUMS_ENTRIES * 4, "bytes of sums", bytes.len() as u64)?;
        let mut r = Reader::new(&bytes);
        let mut sums = Vec::with_capacity(bytes.len() / 4);
        while r.remaining() > 0 {
            sums.push(r.u32()?);
        }
        Ok(SumsObject { sums })
    }
}

/// Everything an operator has decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigObject {
    pub classes: Vec<ClassImage>,
    pub volumes: Vec<VolumeImage>,
    pub next_volume: u32,
    pub settings: Vec<(u16, u64)>,
    /// Of volumes that have any.
    pub limits: Vec<LimitsImage>,
}

impl ConfigObject {
    /// Payload parts. Panics on an impossible class or name.
    pub fn encode(&self) -> Vec<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut w = Writer(&mut bytes);
        w.u32(self.next_volume);
        w.u16(u16::try_from(self.classes.len()).expect("classes"));
        for class in &self.classes {
            assert!(validate_class(class.width, class.parity).is_ok(), "not a class: {class:?}");
            w.bytes(&[class.id.0, class.parity]);
            w.u16(class.width);
            w.u8(class.layout_kind);
            w.u32(class.layout_digest);
        }
        w.u32(u32::try_from(self.volumes.len()).expect("volumes"));
        for volume in &self.volumes {
            assert!(valid_name(&volume.name), "not a name: {volume:?}");
            w.u32(volume.id.0);
            w.u64(volume.size);
            w.u8(volume.class.0);
            write_name(&mut w, &volume.name);
        }
        w.u16(u16::try_from(self.settings.len()).expect("settings"));
        for (key, value) in &self.settings {
            w.u16(*key);
            w.u64(*value);
        }
        write_limits(&mut w, &self.limits);
        split(&bytes)
    }

    /// From payload parts in order (or one slice of all of them).
    pub fn decode<P: AsRef<[u8]>>(parts: &[P]) -> Result<ConfigObject, FormatError> {
        let bytes = join(parts);
        let mut r = Reader::new(&bytes);
        let next_volume = r.u32()?;
        let count = usize::from(r.u16()?);
        let mut classes = Vec::with_capacity(r.count(count, 9)?);
        for _ in 0..count {
            let (id, parity, width) = (ClassId(r.u8()?), r.u8()?, r.u16()?);
            validate_class(width, parity)?;
            let (layout_kind, layout_digest) = (r.u8()?, r.u32()?);
            classes.push(ClassImage { id, width, parity, layout_kind, layout_digest });
        }
        let count = r.u32()? as usize;
        let mut volumes = Vec::with_capacity(r.count(count, 4 + 8 + 1 + 2)?);
        for _ in 0..count {
            let (id, size, class) = (VolumeId(r.u32()?), r.u64()?, ClassId(r.u8()?));
            volumes.push(VolumeImage { id, name: read_name(&mut r)?, size, class });
        }
        let count = usize::from(r.u16()?);
        let mut settings = Vec::with_capacity(r.count(count, 10)?);
        for _ in 0..count {
            settings.push((r.u16()?, r.u64()?));
        }
        let limits = read_limits(&mut r)?;
        r.end()?;
        Ok(ConfigObject { classes, volumes, next_volume, settings, limits })
    }
}

/// Nothing at all where there are none: software that knows no limits reads such a pool.
fn write_limits(w: &mut Writer<'_>, limits: &[LimitsImage]) {
    if limits.is_empty() {
        return;
    }
    w.u32(u32::try_from(limits.len()).expect("limits"));
    for limit in limits {
        assert!(limit.validate().is_ok(), "not a limit: {limit:?}");
        w.u32(limit.volume.0);
        w.u64(limit.iops);
        w.u64(limit.bytes_per_sec);
    }
}

fn read_limits(r: &mut Reader<'_>) -> Result<Vec<LimitsImage>, FormatError> {
    if r.remaining() == 0 {
        return Ok(Vec::new());
    }
    let count = r.u32()? as usize;
    check(count > 0, "volumes with limits", 0)?;
    let mut limits = Vec::with_capacity(r.count(count, 4 + 8 + 8)?);
    for _ in 0..count {
        let volume = VolumeId(r.u32()?);
        let limit = LimitsImage { volume, iops: r.u64()?, bytes_per_sec: r.u64()? };
        limit.validate()?;
        limits.push(limit);
    }
    Ok(limits)
}

fn join<P: AsRef<[u8]>>(parts: &[P]) -> Vec<u8> {
    parts.iter().map(AsRef::as_ref).collect::<Vec<&[u8]>>().concat()
}
