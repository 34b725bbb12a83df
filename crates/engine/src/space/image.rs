//! Zones, stripes and tuples copied as they are, for `audit`.

use format::{ClassId, Flbn, StripeId};

use super::substitutes::{Home, Taken};
use super::{Kind, Space};
use crate::tuple::TupleKey;

pub struct ZoneImage {
    pub class: ClassId,
    pub round: u16,
    pub kinds: Vec<Kind>,
    pub live: Vec<u32>,
    pub free: Vec<u32>,
    pub draining: bool,
}

pub struct ClassSpaceImage {
    pub id: ClassId,
    pub zones_with_free: Vec<u32>,
    /// As counted along the way.
    pub free: u64,
    pub live_sectors: u64,
}

pub struct TupleState {
    pub stripes: Vec<StripeId>,
    pub slots: Vec<[u8; 2]>,
    pub filled: Vec<u16>,
    pub unhanded: u16,
    pub packing: u16,
    pub inflight: u32,
    pub busy: bool,
    pub listed: u64,
}

impl TupleState {
    pub fn key(&self) -> TupleKey {
        self.stripes[0]
    }
}

pub struct SpaceImage {
    pub zones: Vec<Option<ZoneImage>>,
    pub unassigned: Vec<u32>,
    pub limbo: Vec<StripeId>,
    pub classes: Vec<ClassSpaceImage>,
    /// In order of their keys, with the key each is filed under.
    pub tuples: Vec<(TupleKey, TupleState)>,
    pub lru: Vec<(u64, TupleKey)>,
    /// (replicated, raid, limbo, all) blocks, as counted along the way.
    pub blocks: (u64, u64, u64, u64),
    pub promised: u64,
    pub dirty_zones: Vec<u32>,
    /// Blocks that lie elsewhere, spare stripes, blocks that are left, and open ones by drive.
    pub substitutes: Vec<(Home, Flbn)>,
    pub spares: Vec<(StripeId, Taken)>,
    pub left: Vec<Flbn>,
    pub open: Vec<Vec<Flbn>>,
    /// Bytes of the zones and of the tuples, as accounted.
    pub memory: (u64, u64),
}

impl Space {
    pub fn image(&self) -> SpaceImage {
        let zone = |number: usize| {
            let zone = self.zones[number].as_ref()?;
            let stripes = 0..zone.kinds.len() as u32;
            Some(ZoneImage {
                class: zone.class.id,
                round: zone.round,
                kinds: zone.kinds.to_vec(),
                live: stripes.map(|index| zone.live.get(index)).collect(),
                free: zone.free.clone(),
                draining: zone.draining,
            })
        };
        let classes = self.classes.iter().filter_map(|space| {
            Some(ClassSpaceImage {
                id: space.class.as_ref()?.id,
                zones_with_free: space.zones_with_free.clone(),
                free: space.free,
                live_sectors: space.live_sectors,
            })
        });
        SpaceImage {
            zones: (0..self.zones.len()).map(zone).collect(),
            unassigned: self.unassigned.clone(),
            limbo: self.limbo.iter().map(|dead| dead.stripe).collect(),
            classes: classes.collect(),
            tuples: self.tuple_images(),
            lru: self.lru.iter().copied().collect(),
            blocks: self.blocks(),
            promised: self.promised,
            dirty_zones: self.dirty_zones.iter().copied().collect(),
            substitutes: self.substitutes().collect(),
            spares: self.spares().collect(),
            left: self.left_blocks().collect(),
            open: self.open_spares().to_vec(),
            memory: self.memory(),
        }
    }

    fn tuple_images(&self) -> Vec<(TupleKey, TupleState)> {
        let image = |tuple: &crate::tuple::Tuple| {
            let image = TupleState {
                stripes: tuple.stripes.to_vec(),
                slots: tuple.slots.to_vec(),
                filled: tuple.filled.to_vec(),
                unhanded: tuple.unhanded,
                packing: tuple.packing,
                inflight: tuple.inflight,
                busy: tuple.busy,
                listed: tuple.listed,
            };
            (tuple.key(), image)
        };
        let mut images: Vec<(TupleKey, TupleState)> = self.tuples.values().map(image).collect();
        images.sort_by_key(|(key, _)| *key);
        images
    }
}
