//! Volumes: named block devices in a pool, and the handle that requests go through.

use std::rc::Rc;

use format::{INCOMPAT_LIMITS, Record, Superblock, VolumeId, valid_new_name};
use io::tally::{Tally, UnderWay};
use io::wait::{Wait, told};
use io::{Buf, Env, Operation};
use layout::StripeShape;

use crate::admission::Place;
use crate::api::{
    CreateError, RequestError, VolumeError, VolumeExtent, VolumeInfo, VolumeLimits, VolumeShape,
};
use crate::limits::{CLASSES_MAX, EXTENT_BLOCKS_MAX, STARVED_LOOK, VOLUMES_MAX};
use crate::planted::{self, Bug};
use crate::pool::create::default_width;
use crate::pool::shapes::Wanted;
use crate::pool::traffic::Traffic;
use crate::pool::{Inner, Pool};
use crate::shard::VolumeRecord;

impl<E: Env> Pool<E> {
    pub fn volumes(&self) -> Vec<VolumeInfo> {
        let shard = self.shard();
        let state = shard.state.borrow();
        let all = self.inner.traffic.borrow();
        let info = |volume: &VolumeRecord| {
            let class = state.space.class(volume.class);
            let traffic = all.get(&volume.id.0);
            let tally = traffic.map(|traffic| &traffic.tally);
            VolumeInfo {
                id: volume.id.0,
                name: volume.name.to_string(),
                size: volume.size,
                width: class.shape.width,
                parity: class.shape.parity,
                mapped_bytes: state.map.mapped_blocks(volume.id)
                    * u64::from(shard.geometry.block_size),
                latency: tally.map(Tally::latencies).unwrap_or_default(),
                counters: tally.map(Tally::counters).unwrap_or_default(),
                under_way: tally.map_or(0, Tally::under_way),
                limits: volume.limits,
                throttled: traffic.map_or(0, |traffic| traffic.throttled()),
            }
        };
        state.volumes.values().map(info).collect()
    }

    /// Name, size, width and parity of each volume, for lists: unlike [`Pool::volumes`] in no time.
    pub fn volume_shapes(&self) -> Vec<VolumeShape> {
        let shard = self.shard();
        let state = shard.state.borrow();
        let shape = |volume: &VolumeRecord| {
            let StripeShape { width, parity } = state.space.class(volume.class).shape;
            VolumeShape { name: volume.name.to_string(), size: volume.size, width, parity }
        };
        state.volumes.values().map(shape).collect()
    }

    pub fn volume_count(&self) -> usize {
        self.shard().state.borrow().volumes.len()
    }

    /// From now on nothing is held back by limits of volumes, until the pool is opened again: who
    /// ends a server does not wait for requests that were to be slow.
    pub fn lift_limits(&self) {
        self.inner.traffic.borrow().values().for_each(|all| all.limit(VolumeLimits::default()));
    }

    fn find(&self, name: &str) -> Option<VolumeRecord> {
        let shard = self.shard();
        let state = shard.state.borrow();
        state.volumes.values().find(|volume| *volume.name == *name).cloned()
    }

    /// Somebody has it open.
    pub fn volume_in_use(&self, name: &str) -> bool {
        let used = |volume: VolumeRecord| self.inner.handles.borrow().contains_key(&volume.id.0);
        self.find(name).is_some_and(used)
    }

    pub fn volume(&self, name: &str) -> Option<Volume<E>> {
        let volume = self.find(name)?;
        Some(Volume::new(self.inner.clone(), &volume))
    }

    /// Makes a volume; by default of the pool's own RAID level and width. It is thin: space is
    /// taken when it is written.
    pub async fn volume_create(
        &self,
        name: &str,
        size: u64,
        parity: Option<u8>,
        width: Option<u16>,
    ) -> Result<(), VolumeError> {
        let _inside = self.enter().await;
        let shard = self.shard();
        shard.check_usable()?;
        let _turn = self.inner.turn.lock().await;
        if !valid_new_name(name) {
            return Err(VolumeError::Name(name.to_owned()));
        }
        if self.find(name).is_some() {
            return Err(VolumeError::Exists(name.to_owned()));
        }
        check_size(size)?;
        let shape = self.shape_for(parity, width)?;
        let (volumes, classes) = {
            let state = shard.state.borrow();
            (state.volumes.len(), state.space.classes().count())
        };
        if volumes >= VOLUMES_MAX || classes >= CLASSES_MAX {
            return Err(VolumeError::TooMany(VOLUMES_MAX.min(CLASSES_MAX)));
        }
        let class = self.class_of(shape)?;
        let wanted = Wanted { id: None, class: &class, size };
        shard.check_shapes(&shard.state.borrow(), &wanted)?;
        self.class_add(class.clone());
        {
            let class = class.id;
            let mut state = shard.state.borrow_mut();
            let id = VolumeId(state.next_volume);
            state.next_volume += 1;
            let volume = VolumeRecord {
                id,
                name: name.into(),
                size,
                class,
                limits: VolumeLimits::default(),
            };
            shard.journal.append(&Record::VolumeCreate { id, name: name.to_owned(), size, class });
            state.map.volume_add(id);
            state.volumes.insert(id, volume);
            state.config_dirty = true;
        }
        // A checkpoint, so that the metadata has the copies a new class may want.
        shard.checkpoint(false).await?;
        Ok(())
    }

    fn shape_for(
        &self,
        parity: Option<u8>,
        width: Option<u16>,
    ) -> Result<StripeShape, VolumeError> {
        let shard = self.shard();
        let state = shard.state.borrow();
        let own = state.space.class(self.inner.default_class).shape;
        let parity = parity.unwrap_or(own.parity);
        if !(1..=2).contains(&parity) {
            return Err(CreateError::Parity(parity).into());
        }
        let same = parity == own.parity;
        let fallback = if same { own.width } else { default_width(shard.geometry.drives, parity) };
        let shape =
            StripeShape::new(width.unwrap_or(fallback), parity).map_err(CreateError::from)?;
        Ok(shape)
    }

    /// Grows a volume, or shrinks it as far as it holds no data.
    pub async fn volume_resize(&self, name: &str, size: u64) -> Result<(), VolumeError> {
        let _inside = self.enter().await;
        let shard = self.shard();
        shard.check_usable()?;
        let _turn = self.inner.turn.lock().await;
        check_size(size)?;
        let volume = self.find(name).ok_or_else(|| VolumeError::NotFound(name.to_owned()))?;
        if size < volume.size {
            let used = self.used_upto(&volume);
            if used > size {
                let name = name.to_owned();
                return Err(VolumeError::ShrinkBelowData { name, size, used });
            }
        }
        if size > volume.size {
            let state = shard.state.borrow();
            let class = state.space.class(volume.class);
            shard.check_shapes(&state, &Wanted { id: Some(volume.id), class, size })?;
        }
        {
            let mut state = shard.state.borrow_mut();
            shard.journal.append(&Record::VolumeResize { id: volume.id, size });
            state.volumes.get_mut(&volume.id).expect("just found").size = size;
            state.config_dirty = true;
        }
        shard.flush_for_client().await?;
        Ok(())
    }

    /// End of the last byte that is mapped.
    fn used_upto(&self, volume: &VolumeRecord) -> u64 {
        let shard = self.shard();
        let block_size = u64::from(shard.geometry.block_size);
        let last = shard.state.borrow().map.last_mapped_block(volume.id);
        let Some(last) = last else { return 0 };
        let (mut at, mut end) = (last * block_size, 0);
        for extent in shard.extents(volume, at, block_size, 1) {
            at += extent.len;
            end = if extent.allocated { at } else { end };
        }
        end
    }

    /// Sets what a volume may do in a second, for good; zero is no limit. In force at once,
    /// durable when this is answered.
    pub async fn volume_limit(&self, name: &str, limits: VolumeLimits) -> Result<(), VolumeError> {
        let _inside = self.enter().await;
        let shard = self.shard();
        shard.check_usable()?;
        let _turn = self.inner.turn.lock().await;
        let volume = self.find(name).ok_or_else(|| VolumeError::NotFound(name.to_owned()))?;
        // Before the first record that software without limits would stumble over.
        if shard.labels.get().features.incompat & INCOMPAT_LIMITS == 0 {
            let learn = |label: &mut Superblock| label.features.incompat |= INCOMPAT_LIMITS;
            shard.write_labels(learn).await?;
            shard.record_failures().await?;
        }
        {
            let mut state = shard.state.borrow_mut();
            let VolumeLimits { iops, bytes_per_sec } = limits;
            shard.journal.append(&Record::VolumeLimits { id: volume.id, iops, bytes_per_sec });
            state.volumes.get_mut(&volume.id).expect("just found").limits = limits;
            state.config_dirty = true;
        }
        if let Some(traffic) = self.inner.traffic.borrow().get(&volume.id.0) {
            traffic.limit(limits);
        }
        shard.flush_for_client().await?;
        Ok(())
    }

    pub async fn volume_delete(&self, name: &str) -> Result<(), VolumeError> {
        let _inside = self.enter().await;
        let shard = self.shard();
        shard.check_usable()?;
        let _turn = self.inner.turn.lock().await;
        let volume = self.find(name).ok_or_else(|| VolumeError::NotFound(name.to_owned()))?;
        if self.inner.handles.borrow().contains_key(&volume.id.0) {
            return Err(VolumeError::InUse(name.to_owned()));
        }
        let block_size = u64::from(shard.geometry.block_size);
        let whole = VolumeRecord { size: u64::MAX / 2, ..volume.clone() };
        let end = shard.state.borrow().map.last_mapped_block(volume.id);
        if let Some(last) = end {
            shard.trim(&whole, 0, (last + 1) * block_size, false).await?;
        }
        {
            let mut state = shard.state.borrow_mut();
            shard.journal.append(&Record::VolumeDelete { id: volume.id });
            state.map.volume_remove(volume.id);
            state.volumes.remove(&volume.id);
            state.config_dirty = true;
        }
        self.inner.traffic.borrow_mut().remove(&volume.id.0);
        shard.checkpoint(false).await?;
        Ok(())
    }
}

fn check_size(size: u64) -> Result<(), VolumeError> {
    let good = size > 0 && size.is_multiple_of(512) && size <= 1 << 56;
    if good { Ok(()) } else { Err(VolumeError::Size(size)) }
}

/// A volume in use. Clones count as uses; a volume in use is not deleted.
pub struct Volume<E: Env> {
    inner: Rc<Inner<E>>,
    id: VolumeId,
    traffic: Rc<Traffic>,
}

impl<E: Env> Volume<E> {
    fn new(inner: Rc<Inner<E>>, record: &VolumeRecord) -> Volume<E> {
        let id = record.id;
        *inner.handles.borrow_mut().entry(id.0).or_default() += 1;
        let new = || Rc::new(Traffic::new(id, inner.options.spikes.detect, record.limits));
        let traffic = inner.traffic.borrow_mut().entry(id.0).or_insert_with(new).clone();
        Volume { inner, id, traffic }
    }

    fn record(&self) -> Result<VolumeRecord, RequestError> {
        let shard = self.inner.shard();
        let state = shard.state.borrow();
        state.volumes.get(&self.id).cloned().ok_or(RequestError::Closed)
    }

    /// Waits for the volume's limits and then for a place among all volumes. In this order: who
    /// is held back by his own limits takes no place from others.
    async fn admit_read(&self, bytes: u64) -> Place<'_> {
        self.pass_limits(bytes).await;
        let enter = self.inner.admissions.reads.enter(&self.traffic.reads, bytes);
        told(&self.inner.env, Wait::Admission, enter).await
    }

    async fn admit_write(&self, bytes: u64) -> Place<'_> {
        self.pass_limits(bytes).await;
        let admissions = &self.inner.admissions;
        while planted::is(Bug::ReadsStarveWrites) && admissions.reads.is_used() {
            self.inner.env.sleep_until(self.inner.env.now() + STARVED_LOOK).await;
        }
        let enter = admissions.writes.enter(&self.traffic.writes, bytes);
        told(&self.inner.env, Wait::Admission, enter).await
    }

    async fn pass_limits(&self, bytes: u64) {
        if self.traffic.is_limited() {
            // Who waits while drives are added waits no longer.
            let shard = self.inner.shard();
            // Boxed: rare, and the futures of all other requests stay small.
            let passed = self.traffic.pass_limits(&shard.env, bytes, &shard.closing);
            Box::pin(told(&shard.env, Wait::Limits, passed)).await;
        }
    }

    fn begin(&self) -> UnderWay<'_> {
        self.traffic.tally.begin(&self.inner.env)
    }

    fn end<T>(
        &self,
        (operation, bytes): (Operation, u64),
        request: UnderWay<'_>,
        result: &Result<T, RequestError>,
    ) {
        self.traffic.tally.end(&self.inner.env, (operation, bytes), request, result);
    }

    pub fn size(&self) -> u64 {
        self.record().map_or(0, |volume| volume.size)
    }

    pub fn block_size(&self) -> u32 {
        self.inner.shard().geometry.block_size
    }

    pub fn is_read_only(&self) -> bool {
        self.inner.shard().read_only
    }

    pub async fn read(&self, offset: u64, len: u32) -> Result<Vec<Buf>, RequestError> {
        let (request, len) = (self.begin(), u64::from(len));
        let _place = self.admit_read(len).await;
        let _inside = self.inner.gate.enter().await;
        let (shard, record) = (self.inner.shard(), self.record()?);
        let result = shard.in_foreground(shard.read(&record, offset, len)).await;
        self.end((Operation::Read, len), request, &result);
        result
    }

    /// Done when the data is on its drives, with `fua` when it is durable there.
    pub async fn write(&self, offset: u64, data: Buf, fua: bool) -> Result<(), RequestError> {
        let (request, len) = (self.begin(), data.len() as u64);
        let _place = self.admit_write(len).await;
        let _inside = self.inner.gate.enter().await;
        let (shard, record) = (self.inner.shard(), self.record()?);
        let result = shard.in_foreground(shard.write(&record, offset, data, fua)).await;
        self.end((Operation::Write, len), request, &result);
        result
    }

    /// Makes every write that was answered before durable, on whatever volume. It waits for no
    /// limit and no place: it is the promise about writes that have passed them already, and
    /// flushes share their work, so that many cost little more than one.
    pub async fn flush(&self) -> Result<(), RequestError> {
        let request = self.begin();
        let _inside = self.inner.gate.enter().await;
        let shard = self.inner.shard();
        shard.count(|counters| counters.flushes += 1);
        let result = shard.flush_for_client().await;
        self.end((Operation::Flush, 0), request, &result);
        result
    }

    /// An operation of no bytes to the volume's limits. It needs no place: it moves no data, and
    /// may be what the writes that have all places wait for.
    pub async fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), RequestError> {
        let request = self.begin();
        self.pass_limits(0).await;
        let _inside = self.inner.gate.enter().await;
        let result = self.inner.shard().trim(&self.record()?, offset, len, fua).await;
        self.end((Operation::Discard, len), request, &result);
        result
    }

    /// A trim, or a write of so many bytes if the space must stay allocated.
    pub async fn write_zeroes(
        &self,
        offset: u64,
        len: u64,
        fua: bool,
        may_trim: bool,
    ) -> Result<(), RequestError> {
        if may_trim {
            return self.trim(offset, len, fua).await;
        }
        let request = self.begin();
        let _place = self.admit_write(len).await;
        let _inside = self.inner.gate.enter().await;
        let shard = self.inner.shard();
        let result = shard.write_zeroes(&self.record()?, offset, len, fua, may_trim).await;
        self.end((Operation::Write, len), request, &result);
        result
    }

    /// What is allocated from `offset` on; may end before `len`, so that the answer and the
    /// time it takes are bounded ([`EXTENT_BLOCKS_MAX`]).
    pub fn extents(&self, offset: u64, len: u64) -> Vec<VolumeExtent> {
        let shard = self.inner.shard();
        let found = self.record().map(|v| shard.extents(&v, offset, len, EXTENT_BLOCKS_MAX));
        found.unwrap_or_default()
    }
}

impl<E: Env> Clone for Volume<E> {
    fn clone(&self) -> Volume<E> {
        let (inner, traffic) = (self.inner.clone(), self.traffic.clone());
        *inner.handles.borrow_mut().entry(self.id.0).or_default() += 1;
        Volume { inner, id: self.id, traffic }
    }
}

impl<E: Env> Drop for Volume<E> {
    fn drop(&mut self) {
        let mut handles = self.inner.handles.borrow_mut();
        let count = handles.get_mut(&self.id.0).expect("every handle is counted");
        *count -= 1;
        if *count == 0 {
            handles.remove(&self.id.0);
        }
    }
}
