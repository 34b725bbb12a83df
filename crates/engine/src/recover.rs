//! Opening a pool: checkpoint, then the journal on top of it, then one consistent shard.
//!
//! ```text
//!  labels ─> metadata slots ─> objects of the last checkpoint ─> maps
//!  rings  ─> blocks of this epoch from `journal_start`, unbroken ─> replay
//!                                                └ after the last durable one: verify data,
//!                                                  heal copies, drop what never arrived
//! ```

mod claims;
mod slots;
mod verify;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use format::{
    ChunkObject, ConfigObject, Extent, INCOMPAT_SUMS, JOURNAL_ALIGN, JOURNAL_BLOCK_MAX,
    LimitsImage, ObjectKey, Place, Record, SectorRange, StripeId, SumsObject, Superblock, VolumeId,
    ZoneObject, decode_block, peek_header,
};
use io::{Drive, PAGE, join_all};
use layout::{DriveIndex, StripeShape};

use crate::api::{OpenError, RecoveryReport, VolumeLimits};
use crate::array::Array;
use crate::checkpoint::slots::MetaSlots;
use crate::checkpoint::{apply_setting, layout_kind};
use crate::geometry::{BlockAddress, Class, PoolGeometry};
use crate::limits::{RECOVERY_READ_BYTES, RECOVERY_READS_MAX};
use crate::map::{BlockMap, Deltas};
use crate::planted::{self, Bug};
use crate::recover::claims::Claims;
use crate::recover::slots::{Parts, Slots};
use crate::shard::{Settings, VolumeRecord};
use crate::space::Space;
use crate::sums::{Sums, parts_max};

/// What recovery builds; the shard is made from it.
pub struct Recovered {
    pub map: BlockMap,
    pub space: Space,
    pub sums: Sums,
    pub volumes: BTreeMap<VolumeId, VolumeRecord>,
    pub next_volume: u32,
    pub settings: Settings,
    pub meta: MetaSlots,
    pub report: RecoveryReport,
    /// Sequence for the first new journal block.
    pub next_sequence: u64,
}

pub struct Recovery<'a, D: Drive> {
    pub label: &'a Superblock,
    pub geometry: &'a PoolGeometry,
    pub array: &'a Rc<Array<D>>,
    /// Drives with an image of before: their slots are of another time.
    pub stale: &'a [DriveIndex],
    pub read_only: bool,
}

/// Objects with the payloads of their parts.
type Objects = Vec<(ObjectKey, Vec<Vec<u8>>)>;

struct Block {
    durable: u64,
    records: Vec<Record>,
}

struct Journal {
    blocks: BTreeMap<u64, Block>,
    /// The newest block that was durable with the data of its records, as blocks say.
    durable: u64,
}

/// How a record with a checksum came through the crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Trusted,
    Dropped,
}

impl<D: Drive> Recovery<'_, D> {
    fn damaged(&self, what: impl Into<String>) -> OpenError {
        OpenError::Damaged { pool: self.label.pool_name.clone(), what: what.into() }
    }

    pub async fn load(&self, settings: Settings) -> Result<Recovered, OpenError> {
        let has_sums = self.label.features.incompat & INCOMPAT_SUMS != 0;
        let sums_max = if has_sums { parts_max(self.geometry) } else { 0 };
        let mut meta =
            MetaSlots::new(self.geometry.lists.founders(), self.label.meta.len, sums_max);
        let root = self.label.checkpoint[0];
        let Slots { parts, newest, cut_short } = self.read_slots(&meta).await;
        meta.cut_short = cut_short;
        // Slots of a checkpoint that a crash cut short look like any other: its sequence is
        // never used again.
        meta.seq = root.seq.max(newest);
        let objects = self.assemble(parts, &mut meta)?;
        let block_sectors = self.geometry.block_sectors();
        let crowd =
            usize::from(self.geometry.block_pages()) * crate::limits::PATCHES_PER_BLOCK_FACTOR;
        let mut out = Recovered {
            map: BlockMap::new(block_sectors, crowd.max(4)),
            space: Space::new(self.geometry.clone()),
            sums: Sums::new(self.geometry.clone(), has_sums),
            volumes: BTreeMap::new(),
            next_volume: 1,
            settings,
            meta,
            report: RecoveryReport::default(),
            next_sequence: root.journal_start,
        };
        out.report.objects_loaded = objects.len() as u64;
        self.apply_objects(&mut out, objects)?;
        out.map.take_dirty();
        out.space.take_dirty_zones();
        out.sums.take_dirty();
        Ok(out)
    }

    // ---- checkpoint

    /// Puts the parts of each object together and checks that the set is the one that the
    /// superblock means.
    fn assemble(&self, parts: Parts, meta: &mut MetaSlots) -> Result<Objects, OpenError> {
        let mut objects: Objects = Vec::new();
        let mut wanted = 0;
        let mut twins = Vec::new();
        for ((key, number), part) in parts {
            twins.extend(part.twins().map(|slot| (key, number, slot)));
            if number == 0 {
                wanted = part.parts;
                meta.objects.insert(key, part.stored());
                objects.push((key, vec![part.payload]));
                continue;
            }
            let current = meta.objects.get_mut(&key).filter(|s| s.seq == part.seq);
            if number < wanted
                && let Some(stored) = current
            {
                stored.slots.push(part.slot());
                objects.last_mut().expect("part 0 came first").1.push(part.payload);
            }
        }
        self.drop_dead(meta, &mut objects);
        let root = self.label.checkpoint[0];
        if meta.root() != (root.objects, root.fingerprint) {
            let what = format!(
                "checkpoint {} is incomplete: {} objects found, {} expected",
                root.seq,
                objects.len(),
                root.objects
            );
            return Err(self.damaged(what));
        }
        meta.adopt_twins(twins);
        meta.rebuild_free();
        Ok(objects)
    }

    /// Objects that a later checkpoint removed leave no trace but the fingerprint: volumes
    /// that no longer exist, zones that were returned.
    fn drop_dead(&self, meta: &mut MetaSlots, objects: &mut Objects) {
        let root = self.label.checkpoint[0];
        if meta.root() == (root.objects, root.fingerprint) {
            return;
        }
        let config = objects.iter().find(|(key, _)| *key == ObjectKey::Config);
        let Some(config) = config.and_then(|(_, parts)| ConfigObject::decode(parts).ok()) else {
            return;
        };
        let dead = |key: &ObjectKey| match key {
            ObjectKey::Chunk { volume, .. } => !config.volumes.iter().any(|v| v.id == *volume),
            _ => false,
        };
        meta.objects.retain(|key, _| !dead(key));
        objects.retain(|(key, _)| !dead(key));
    }

    fn apply_objects(&self, out: &mut Recovered, objects: Objects) -> Result<(), OpenError> {
        let config = objects.iter().find(|(key, _)| *key == ObjectKey::Config);
        if let Some((_, parts)) = config {
            let config = ConfigObject::decode(parts)?;
            for class in config.classes {
                self.add_class(out, class.id, class.width, class.parity, class.layout_digest)?;
            }
            for volume in config.volumes {
                out.map.volume_add(volume.id);
                let (id, name, size, class) =
                    (volume.id, volume.name.into(), volume.size, volume.class);
                let limits = VolumeLimits::default();
                out.volumes.insert(id, VolumeRecord { id, name, size, class, limits });
            }
            for LimitsImage { volume, iops, bytes_per_sec } in config.limits {
                set_limits(out, volume, VolumeLimits { iops, bytes_per_sec });
            }
            out.next_volume = config.next_volume;
            for (key, value) in config.settings {
                apply_setting(&mut out.settings, key, value);
            }
        }
        for (key, parts) in objects {
            match key {
                ObjectKey::Config => {}
                ObjectKey::Zone { zone } => self.load_zone(out, zone, &parts)?,
                ObjectKey::Chunk { volume, chunk } => {
                    let object = ChunkObject::decode(&parts)?;
                    out.map.import_chunk(volume, chunk, object.entries, object.patches);
                }
                // Their zones came before them.
                ObjectKey::Sums { zone, part } => {
                    let object = SumsObject::decode(&parts)?;
                    if let Some(class) = out.space.class_of_zone(zone) {
                        out.sums.import(class, zone, part, object);
                    }
                }
            }
        }
        Ok(())
    }

    fn load_zone(
        &self,
        out: &mut Recovered,
        zone: u32,
        parts: &[Vec<u8>],
    ) -> Result<(), OpenError> {
        let object = ZoneObject::decode(parts)?;
        if let Some(class) = object.class {
            self.assign_zone(out, zone, class, object.round)?;
        }
        for tuple in object.tuples {
            out.space.replay_tuple(&tuple.stripes, &tuple.slots, &tuple.filled);
        }
        out.space.load_substitutes(zone, &object.substitutes);
        Ok(())
    }

    fn assign_zone(
        &self,
        out: &mut Recovered,
        zone: u32,
        class: format::ClassId,
        round: u16,
    ) -> Result<(), OpenError> {
        let known = zone < self.geometry.zone_count && self.geometry.lists.is_known(round);
        let found = out.space.classes().find(|found| found.id == class);
        let list = || self.geometry.lists.list_at(round, zone);
        if !known || found.is_none_or(|class| class.stripes_on(list()) == 0) {
            let what = format!("zone {zone} is said to be of {class} on drives of round {round}");
            return Err(self.damaged(what));
        }
        out.space.zone_assign(zone, class, round);
        Ok(())
    }

    fn add_class(
        &self,
        out: &mut Recovered,
        id: format::ClassId,
        width: u16,
        parity: u8,
        digest: u32,
    ) -> Result<(), OpenError> {
        let shape = StripeShape::new(width, parity)?;
        let class = Class::new(id, shape, self.geometry)
            .map_err(|error| self.damaged(format!("class {width} wide: {error}")))?;
        if class.founding_layout().digest() != digest {
            return Err(self.damaged(format!(
                "this version computes another layout for {} drives, {width} wide",
                class.founding_layout().drives()
            )));
        }
        out.space.class_add(Rc::new(class));
        Ok(())
    }

    // ---- journal

    /// Replays the journal over the loaded maps.
    pub async fn replay(&self, out: &mut Recovered) -> Result<(), OpenError> {
        self.replay_from(out, 0).await
    }

    /// Replays the blocks from `first` on, again if they were replayed before.
    pub async fn replay_from(&self, out: &mut Recovered, first: u64) -> Result<(), OpenError> {
        let Journal { blocks, durable } = self.read_journal().await?;
        out.report.blocks_replayed = blocks.len() as u64;
        let mut claims = Claims::default();
        for (&sequence, block) in blocks.range(first..) {
            out.next_sequence = sequence + 1;
            for records in runs(&block.records) {
                let verdicts = self.judge(out, records, sequence > durable).await?;
                for (record, verdict) in records.iter().zip(verdicts) {
                    out.report.records_replayed += 1;
                    self.apply_claims(out, record, verdict, &mut claims);
                    if verdict == Verdict::Trusted {
                        self.apply_record(out, record)?;
                    } else {
                        out.report.records_dropped += 1;
                    }
                }
            }
        }
        Ok(())
    }

    /// Blocks of the pool's epoch from the checkpoint on, up to the first that is missing. That one
    /// was being written when the pool was left, unless others know that it was durable.
    async fn read_journal(&self) -> Result<Journal, OpenError> {
        let found = RefCell::new(BTreeMap::new());
        let scan = |index: DriveIndex| {
            let found = &found;
            async move {
                let Extent { offset, len } = self.label.journal;
                // Each read overlaps the next by one block, so that none is cut in two.
                let step = RECOVERY_READ_BYTES.max(2 * JOURNAL_BLOCK_MAX) as u64;
                let mut at = 0;
                while at < len {
                    let want = (step + JOURNAL_BLOCK_MAX as u64).min(len - at);
                    if let Ok(bytes) = self.array.read(index, offset + at, want as usize).await {
                        self.collect(&mut found.borrow_mut(), &bytes, step as usize);
                    }
                    at += step;
                }
            }
        };
        join_all(self.array.active().into_iter().map(scan)).await;
        let mut next = self.label.checkpoint[0].journal_start;
        let unbroken = |sequence: &&u64| {
            next += 1;
            **sequence == next - 1
        };
        let found: BTreeMap<u64, Block> = found.into_inner();
        let durable = found.values().map(|block| block.durable).max().unwrap_or(0);
        let count = found.keys().take_while(unbroken).count();
        let missing = self.label.checkpoint[0].journal_start + count as u64;
        if missing <= durable {
            let what = format!(
                "block {missing} of the journal, which was durable, is on none of the drives that \
                 are here"
            );
            return Err(self.damaged(what));
        }
        Ok(Journal { blocks: found.into_iter().take(count).collect(), durable })
    }

    fn collect(&self, found: &mut BTreeMap<u64, Block>, bytes: &[u8], upto: usize) {
        let start = self.label.checkpoint[0].journal_start;
        for at in (0..bytes.len().min(upto)).step_by(JOURNAL_ALIGN) {
            let Ok(header) = peek_header(&bytes[at..]) else { continue };
            let ours = header.pool == self.label.pool && header.epoch == self.label.epoch;
            if !ours || header.sequence < start || found.contains_key(&header.sequence) {
                continue;
            }
            if let Ok((header, records)) = decode_block(&bytes[at..], &self.label.pool) {
                found.insert(header.sequence, Block { durable: header.durable, records });
            }
        }
    }

    /// Decides about each record of a run. Only those that came after the last known flush
    /// and carry checksums have to be looked at. Tuples that the run itself creates are
    /// entered first, since the records after them lie in them.
    async fn judge(
        &self,
        out: &mut Recovered,
        records: &[Record],
        verify: bool,
    ) -> Result<Vec<Verdict>, OpenError> {
        if !verify {
            return Ok(vec![Verdict::Trusted; records.len()]);
        }
        let mut tuples: BTreeMap<StripeId, (&[StripeId], &[[u8; 2]])> = BTreeMap::new();
        let mut checks = Vec::with_capacity(records.len());
        for record in records {
            if let Record::Tuple { stripes, slots } = record {
                tuples.insert(stripes[0], (stripes, slots));
            }
            checks.push(match record {
                Record::Write { place, range, crc, .. } => {
                    self.write_check(&out.space, &tuples, *place, *range, *crc)
                }
                Record::Stripe { stripe, crcs, .. } if !crcs.is_empty() => {
                    self.stripe_check(&out.space, *stripe, crcs)
                }
                _ => Check::Nothing,
            });
        }
        let run = |check| async move {
            match check {
                Check::Nothing => (Verdict::Trusted, 0, 0),
                Check::Copies { places, len, crc } => self.verify_copies(places, len, crc).await,
                Check::Stripe { members, crcs, shape } => {
                    self.verify_stripe(&members, &crcs, shape).await
                }
            }
        };
        let results = join_all(checks.into_iter().map(run)).await;
        for (_, verified, healed) in &results {
            out.report.records_verified += verified;
            out.report.copies_healed += healed;
        }
        Ok(results.into_iter().map(|(verdict, ..)| verdict).collect())
    }

    fn write_check(
        &self,
        space: &Space,
        fresh: &BTreeMap<StripeId, (&[StripeId], &[[u8; 2]])>,
        place: Place,
        range: SectorRange,
        crc: u32,
    ) -> Check {
        let zone = self.geometry.zone_of(place.flbn);
        let Some(class) = space.class_of_zone(zone) else { return Check::Nothing };
        let (key, slot) = self.geometry.stripe_of(class, place.flbn);
        let known = fresh
            .get(&key)
            .and_then(|&(stripes, slots)| Some((stripes.to_vec(), *slots.get(slot)?)));
        let known = known.or_else(|| {
            let tuple = space.tuple(key)?;
            Some((tuple.stripes.to_vec(), *tuple.slots.get(slot)?))
        });
        // A tuple that ended before the checkpoint ended with all its data flushed.
        let Some((stripes, positions)) = known else { return Check::Nothing };
        let page = u64::from(place.sector) / 8 * PAGE as u64;
        let address = |(copy, &stripe): (usize, &StripeId)| {
            let position = if copy == 0 { slot } else { usize::from(positions[copy - 1]) };
            let mut at = space.address(class, stripe, position);
            at.offset += page;
            at
        };
        let places = stripes.iter().enumerate().map(address).collect();
        Check::Copies { places, len: place.pages(range.len) as usize * PAGE, crc }
    }

    fn stripe_check(&self, space: &Space, stripe: StripeId, crcs: &[u32]) -> Check {
        let Some(class) = space.class_of_zone(stripe.zone) else { return Check::Nothing };
        let address = |position| space.address(class, stripe, position);
        let members = (0..class.width()).map(address).collect();
        Check::Stripe { members, crcs: crcs.to_vec(), shape: class.shape }
    }

    /// The effect of one record on the maps. Idempotent, in order.
    fn apply_record(&self, out: &mut Recovered, record: &Record) -> Result<(), OpenError> {
        let mut ignored = Deltas::default();
        match record {
            Record::Write { volume, block, range, place, .. } => {
                if out.volumes.contains_key(volume) {
                    out.map.set(*volume, *block, *range, Some(*place), &mut ignored);
                    if !planted::is(Bug::ForgetReplayedPatch) {
                        self.note_filled(out, *place, *range);
                    }
                }
            }
            Record::Stripe { stripe, blocks, .. } => self.apply_stripe(out, *stripe, blocks),
            Record::Tuple { stripes, slots } => out.space.replay_tuple(stripes, slots, &[]),
            Record::Convert { stripe } => out.space.replay_convert(*stripe),
            Record::Substitutes { stripe, places } => out.space.replay_substitutes(*stripe, places),
            Record::Relocate { volume, block, range, from, to } => {
                if out.volumes.contains_key(volume) {
                    out.map.relocate(*volume, *block, *range, *from, *to, &mut ignored);
                }
            }
            Record::Unmap { volume, block, range } => {
                if out.volumes.contains_key(volume) {
                    out.map.set(*volume, *block, *range, None, &mut ignored);
                }
            }
            Record::UnmapBlocks { volume, first, count } => {
                let whole = SectorRange { start: 0, len: self.geometry.block_sectors() };
                for block in *first..*first + *count {
                    if out.map.is_mapped(*volume, block) {
                        out.map.set(*volume, block, whole, None, &mut ignored);
                    }
                }
            }
            Record::Zone { zone, class: Some(class), round } => {
                self.assign_zone(out, *zone, *class, *round)?;
            }
            Record::Zone { zone, class: None, .. } => out.space.zone_release(*zone),
            Record::Class { id, width, parity, layout_digest, layout_kind: kind } => {
                self.add_class(out, *id, *width, *parity, *layout_digest)?;
                debug_assert_eq!(*kind, layout_kind(out.space.class(*id).founding_layout().kind()));
            }
            Record::VolumeCreate { id, name, size, class } => {
                out.map.volume_add(*id);
                out.next_volume = out.next_volume.max(id.0 + 1);
                let (id, name, size, class) = (*id, name.as_str().into(), *size, *class);
                let limits = VolumeLimits::default();
                out.volumes.insert(id, VolumeRecord { id, name, size, class, limits });
            }
            Record::VolumeResize { id, size } => {
                if let Some(volume) = out.volumes.get_mut(id) {
                    volume.size = *size;
                }
            }
            Record::VolumeDelete { id } => {
                out.volumes.remove(id);
                out.map.volume_remove(*id);
            }
            Record::Setting { key, value } => apply_setting(&mut out.settings, *key, *value),
            Record::VolumeLimits { id, iops, bytes_per_sec } => {
                let limits = VolumeLimits { iops: *iops, bytes_per_sec: *bytes_per_sec };
                set_limits(out, *id, limits);
            }
            // With the record that they are for.
            Record::Sums { .. } => {}
        }
        Ok(())
    }

    /// Slots written further than the checkpoint knew.
    fn note_filled(&self, out: &mut Recovered, place: Place, range: SectorRange) {
        let zone = self.geometry.zone_of(place.flbn);
        out.space.replay_written(zone);
        let Some(class) = out.space.class_of_zone(zone) else { return };
        let (key, slot) = self.geometry.stripe_of(class, place.flbn);
        let upto = place.sector / 8 + place.pages(range.len) as u16;
        // The zone may have belonged to another class then: the slot is not one of this tuple.
        let tuple = out.space.tuple_mut(key);
        if let Some(filled) = tuple.and_then(|tuple| tuple.filled.get_mut(slot)) {
            *filled = (*filled).max(upto);
        }
    }

    fn apply_stripe(
        &self,
        out: &mut Recovered,
        stripe: StripeId,
        blocks: &[Option<(VolumeId, u64)>],
    ) {
        // Whatever tuple it was the head of died before the stripe could be taken again.
        out.space.replay_convert(stripe);
        let Some(class) = out.space.class_of_zone(stripe.zone).cloned() else { return };
        let whole = SectorRange { start: 0, len: self.geometry.block_sectors() };
        for (position, owner) in blocks.iter().enumerate() {
            let Some((volume, block)) = owner else { continue };
            if out.volumes.contains_key(volume) {
                let flbn = self.geometry.flbn(&class, stripe, position);
                let place = Place { flbn, replicated: false, sector: 0 };
                out.map.set(*volume, *block, whole, Some(place), &mut Deltas::default());
            }
        }
    }
}

fn set_limits(out: &mut Recovered, volume: VolumeId, limits: VolumeLimits) {
    if let Some(volume) = out.volumes.get_mut(&volume) {
        volume.limits = limits;
    }
}

/// Records that can be judged at once: at most so many, and none of them after one that changes
/// what physical addresses mean.
fn runs(records: &[Record]) -> impl Iterator<Item = &[Record]> {
    let changes = |record: &Record| {
        matches!(record, Record::Zone { .. } | Record::Class { .. } | Record::Substitutes { .. })
    };
    let split = records.split_inclusive(move |record| changes(record));
    split.flat_map(|run| run.chunks(RECOVERY_READS_MAX))
}

/// What has to be read to judge a record.
enum Check {
    Nothing,
    Copies { places: Vec<BlockAddress>, len: usize, crc: u32 },
    Stripe { members: Vec<BlockAddress>, crcs: Vec<u32>, shape: StripeShape },
}
