//! Room for volumes of several shapes. Space goes from shape to shape in whole zones, so each shape
//! that is used keeps some of it from all others, and a small pool has room for few.

use std::rc::Rc;

use format::VolumeId;
use io::Env;
use layout::StripeShape;

use crate::api::VolumeError;
use crate::geometry::{Class, PoolGeometry};
use crate::limits::RESERVE_STRIPES;
use crate::shard::{Shard, State};

const SECTOR: u64 = 512;

/// A volume as it is to be.
pub struct Wanted<'a> {
    /// `None`: it is to be made.
    pub id: Option<VolumeId>,
    pub class: &'a Rc<Class>,
    pub size: u64,
}

impl<E: Env> Shard<E> {
    /// Sectors of drive space that live data may take as RAID stripes: all but the replicated
    /// area, which is also the room that compaction works in.
    pub fn footprint_max(&self, state: &State, class: &Class) -> u64 {
        self.footprint_beside(state, class, used(state))
    }

    fn footprint_beside<'a>(
        &self,
        state: &State,
        class: &Class,
        all: impl Iterator<Item = &'a Rc<Class>>,
    ) -> u64 {
        let most =
            crate::pool::footprint_max(&self.geometry, class, state.settings.replicated_percent);
        // Each of the others may keep a zone that is nearly empty, and room to compact the rest in
        // (world 30377).
        let room = |other: &Rc<Class>| {
            let reserve = 2 * RESERVE_STRIPES * other.width() as u64;
            zone_sectors(&self.geometry) + reserve * u64::from(self.geometry.block_sectors())
        };
        let others = all.filter(|other| other.shape != class.shape);
        most.saturating_sub(others.map(room).sum())
    }

    /// Refuses a volume with which some shape could not be written though the pool is empty
    /// (world 21105): all that the volumes hold must fit beside what the other shapes keep, up to a
    /// zone of it. Volumes that are larger are thin. A single shape has all there is.
    pub fn check_shapes(&self, state: &State, wanted: &Wanted<'_>) -> Result<(), VolumeError> {
        let others = used(state).filter(|class| class.shape != wanted.class.shape);
        let all: Vec<_> = others.chain([wanted.class]).collect();
        let zone = zone_sectors(&self.geometry);
        let footprint = |class: &Class, size: u64| {
            ((size / SECTOR).min(zone) * class.width() as u64).div_ceil(class.data() as u64)
        };
        let others = state.volumes.values().filter(|volume| Some(volume.id) != wanted.id);
        let held = others.map(|volume| footprint(state.space.class(volume.class), volume.size));
        let least = (held.sum::<u64>() + footprint(wanted.class, wanted.size)).min(zone);
        let short =
            |class: &&&Rc<Class>| self.footprint_beside(state, class, all.iter().copied()) < least;
        let (shapes, short) = (all.len(), all.iter().find(short));
        match short.filter(|_| shapes > 1).map(|class| class.shape) {
            None => Ok(()),
            Some(StripeShape { width, parity }) => {
                Err(VolumeError::Crowded { shapes, width, parity })
            }
        }
    }
}

/// The shapes that volumes have.
pub fn used(state: &State) -> impl Iterator<Item = &Rc<Class>> {
    let has = |class: &&Rc<Class>| state.volumes.values().any(|volume| volume.class == class.id);
    state.space.classes().filter(has)
}

/// Sectors of a zone, on all drives.
fn zone_sectors(geometry: &PoolGeometry) -> u64 {
    u64::from(geometry.zone_blocks) * geometry.drives as u64 * u64::from(geometry.block_sectors())
}
