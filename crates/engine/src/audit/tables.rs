//! All tables of a pool, copied at one moment.

use std::collections::BTreeMap;
use std::rc::Rc;

use format::{ClassId, Flbn, ObjectKey, StripeId, Superblock, VolumeId};
use io::Env;

use crate::api::{MemoryStatus, SpaceStatus};
use crate::checkpoint::image::MetaImage;
use crate::geometry::{BlockAddress, Class, PoolGeometry};
use crate::map::image::MapImage;
use crate::pool::Pool;
use crate::shard::{PackedSlot, VolumeRecord};
use crate::space::Kind;
use crate::space::image::{SpaceImage, TupleState, ZoneImage};
use crate::sums::Sums;
use crate::tuple::TupleKey;

/// What a class has open for writing.
pub struct OpenImage {
    pub class: ClassId,
    pub spare: Vec<(TupleKey, usize)>,
    pub packed: Vec<PackedSlot>,
}

pub struct Tables {
    pub geometry: PoolGeometry,
    pub label: Superblock,
    pub classes: BTreeMap<ClassId, Rc<Class>>,
    pub volumes: BTreeMap<VolumeId, VolumeRecord>,
    pub map: MapImage,
    pub space: SpaceImage,
    pub open: Vec<OpenImage>,
    pub meta: MetaImage,
    pub sums: Sums,
    pub status: SpaceStatus,
    pub memory: MemoryStatus,
    /// Nothing holds a part of a block for writing.
    pub locks_free: bool,
    /// Writes that were left to themselves may still be on their way to where they began.
    pub left: bool,
    /// The pool has given up: what was under way was left as it was.
    pub failed: bool,
}

impl Tables {
    pub fn of<E: Env>(pool: &Pool<E>) -> Tables {
        let shard = pool.shard();
        let (status, memory) = (pool.space_status(), pool.memory());
        let state = shard.state.borrow();
        let (map, space) = (state.map.image(), state.space.image());
        let meta = shard.meta_image(|key| match key {
            ObjectKey::Sums { zone, part } => state.sums.is_dirty(zone, part),
            _ => is_dirty(&map, &space, state.config_dirty, key),
        });
        let open = state.open.iter().map(|(&class, open)| OpenImage {
            class,
            spare: open.spare.iter().copied().collect(),
            packed: open.packed.iter().flatten().copied().collect(),
        });
        Tables {
            geometry: shard.geometry.clone(),
            label: shard.labels.get(),
            classes: state.space.classes().map(|class| (class.id, class.clone())).collect(),
            volumes: state.volumes.clone(),
            map,
            space,
            open: open.collect(),
            meta,
            sums: state.sums.clone(),
            status,
            memory,
            locks_free: shard.locks.is_free(),
            left: shard.array.leftovers.count() > 0,
            failed: shard.failure.borrow().is_some(),
        }
    }

    /// Zone and class of a stripe that exists.
    pub fn zone(&self, stripe: StripeId) -> Option<(&ZoneImage, &Rc<Class>)> {
        let zone = self.space.zones.get(stripe.zone as usize)?.as_ref()?;
        let class = self.classes.get(&zone.class)?;
        ((stripe.index as usize) < zone.kinds.len()).then_some((zone, class))
    }

    pub fn kind(&self, stripe: StripeId) -> Option<Kind> {
        self.zone(stripe).map(|(zone, _)| zone.kinds[stripe.index as usize])
    }

    pub fn tuple(&self, key: TupleKey) -> Option<&TupleState> {
        let at = self.space.tuples.binary_search_by_key(&key, |(key, _)| *key).ok()?;
        Some(&self.space.tuples[at].1)
    }

    /// Stripe and position of a physical block, with its class, if there is such a block.
    pub fn locate(&self, flbn: Flbn) -> Option<(StripeId, usize, &Rc<Class>)> {
        let zone = self.geometry.zone_of(flbn);
        let (_, class) = self.zone(StripeId { zone, index: 0 })?;
        let (stripe, position) = self.geometry.stripe_of(class, flbn);
        self.zone(stripe)?;
        (position < class.data()).then_some((stripe, position, class))
    }

    /// Where a block of a stripe is.
    pub fn address(&self, class: &Class, stripe: StripeId, position: usize) -> BlockAddress {
        let home = (stripe, position as u8);
        let all = &self.space.substitutes;
        let found = all.binary_search_by_key(&home, |(home, _)| *home).ok();
        let spare = found.and_then(|at| self.spare_of(all[at].1));
        let (stripe, position) = spare.unwrap_or((stripe, position));
        let class = self.zone(stripe).map_or(class, |(_, class)| class);
        self.geometry.address(class, stripe, position)
    }

    /// Stripe and position of any physical block, if there is such a block.
    pub fn spare_of(&self, block: Flbn) -> Option<(StripeId, usize)> {
        let zone = self.geometry.zone_of(block);
        let (_, class) = self.zone(StripeId { zone, index: 0 })?;
        let (stripe, position) = self.geometry.stripe_of(class, block);
        self.zone(stripe).map(|_| (stripe, position))
    }

    pub fn stripes(&self) -> impl Iterator<Item = (StripeId, &ZoneImage)> {
        let numbered = self.space.zones.iter().enumerate();
        let zones = numbered.filter_map(|(zone, image)| Some((zone as u32, image.as_ref()?)));
        zones.flat_map(|(zone, image)| {
            (0..image.kinds.len() as u32).map(move |index| (StripeId { zone, index }, image))
        })
    }

    pub fn volume_name(&self, volume: VolumeId) -> String {
        match self.volumes.get(&volume) {
            Some(record) => format!("volume {}", record.name),
            None => format!("volume number {} (unknown)", volume.0),
        }
    }

    /// A stripe with its drives, for a sentence.
    pub fn stripe_name(&self, stripe: StripeId) -> String {
        let StripeId { zone, index } = stripe;
        let Some((_, class)) = self.zone(stripe) else {
            return format!("stripe {index} of zone {zone} (which does not exist)");
        };
        let drives: Vec<String> = class.drives(stripe).iter().map(|d| d.to_string()).collect();
        let drives = drives.join(" ");
        format!("stripe {index} of zone {zone} ({}, drives {drives})", class.shape)
    }
}

/// True if the object is to be written by the next checkpoint.
fn is_dirty(map: &MapImage, space: &SpaceImage, config_dirty: bool, key: ObjectKey) -> bool {
    match key {
        ObjectKey::Config | ObjectKey::Sums { .. } => config_dirty,
        ObjectKey::Zone { zone } => space.dirty_zones.contains(&zone),
        ObjectKey::Chunk { volume, chunk } => {
            let this = map.chunks.iter().find(|c| (c.volume, c.chunk) == (volume, chunk));
            this.is_none_or(|chunk| chunk.dirty)
        }
    }
}
