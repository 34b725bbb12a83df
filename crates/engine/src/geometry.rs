//! Where things are: from stripe and position to drive and byte. Pure arithmetic on top of
//! `layout`.
//!
//! ```text
//! FLBN (38 bits) = zone * span + index * width + position
//!                         │      └ stripe within the zone
//!                         └ blocks a zone has on 256 drives: the same for every class
//!
//! drive:  | label | journal | metadata | zone 0 | zone 1 | ... | label |
//! zone:   | row 0: width blocks | row 1 | ...        (a row is one stripe per drive column)
//! ```

use format::{ClassId, Extent, Flbn, StripeId};
use layout::{DRIVES_MAX, DriveIndex, Layout, StripeShape};

use crate::api::CreateError;

/// One block on one drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockAddress {
    pub drive: DriveIndex,
    /// Byte on the drive.
    pub offset: u64,
}

/// A RAID level and width: how its stripes lie in a zone.
pub struct Class {
    pub id: ClassId,
    pub shape: StripeShape,
    pub layout: Layout,
    pub stripes_per_zone: u32,
}

impl Class {
    pub fn new(
        id: ClassId,
        shape: StripeShape,
        geometry: &PoolGeometry,
    ) -> Result<Class, CreateError> {
        let layout = Layout::new(geometry.drives, shape.width())?;
        let rows = geometry.zone_blocks / shape.width() as u32;
        if rows == 0 {
            return Err(CreateError::WidthForZone {
                width: shape.width,
                block_size: geometry.block_size,
                zone_bytes: geometry.zone_bytes,
            });
        }
        Ok(Class { id, shape, layout, stripes_per_zone: rows * geometry.drives as u32 })
    }

    pub fn data(&self) -> usize {
        self.shape.data()
    }

    pub fn width(&self) -> usize {
        self.shape.width()
    }

    pub fn parity(&self) -> usize {
        self.shape.parity()
    }

    pub fn copies(&self) -> usize {
        self.parity() + 1
    }

    /// Stripe number in the endless sequence of templates, reduced to one template. Zones
    /// continue where the zone before stopped, so that small zones don't repeat the first rows.
    fn template_stripe(&self, stripe: StripeId) -> u32 {
        let sequence =
            u64::from(stripe.zone) * u64::from(self.stripes_per_zone) + u64::from(stripe.index);
        (sequence % self.layout.stripes_per_template() as u64) as u32
    }

    pub fn drive(&self, stripe: StripeId, position: usize) -> DriveIndex {
        self.layout.drive(self.template_stripe(stripe), position)
    }

    /// Drives of the stripe, data first, then parity.
    pub fn drives(&self, stripe: StripeId) -> Vec<DriveIndex> {
        (0..self.width()).map(|position| self.drive(stripe, position)).collect()
    }
}

/// What the superblock says about space, in the units the engine uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolGeometry {
    pub drives: usize,
    pub block_size: u32,
    pub zone_bytes: u64,
    pub zone_count: u32,
    /// Blocks of one zone on one drive.
    pub zone_blocks: u32,
    pub zones: Extent,
}

impl PoolGeometry {
    pub fn block_sectors(&self) -> u16 {
        (self.block_size / 512) as u16
    }

    pub fn block_pages(&self) -> u16 {
        (self.block_size / 4096) as u16
    }

    fn span(&self) -> u64 {
        u64::from(self.zone_blocks) * DRIVES_MAX as u64
    }

    /// False if block numbers of this pool would not fit their 38 bits.
    pub fn fits(&self) -> bool {
        self.span().checked_mul(u64::from(self.zone_count)).is_some_and(|end| end < Flbn::MAX.0)
    }

    pub fn flbn(&self, class: &Class, stripe: StripeId, position: usize) -> Flbn {
        debug_assert!(position < class.width());
        let within = u64::from(stripe.index) * class.width() as u64 + position as u64;
        Flbn(u64::from(stripe.zone) * self.span() + within)
    }

    pub fn zone_of(&self, flbn: Flbn) -> u32 {
        (flbn.0 / self.span()) as u32
    }

    pub fn stripe_of(&self, class: &Class, flbn: Flbn) -> (StripeId, usize) {
        let within = flbn.0 % self.span();
        let width = class.width() as u64;
        let stripe = StripeId { zone: self.zone_of(flbn), index: (within / width) as u32 };
        (stripe, (within % width) as usize)
    }

    pub fn address(&self, class: &Class, stripe: StripeId, position: usize) -> BlockAddress {
        let row = u64::from(stripe.index) / self.drives as u64;
        let block = row * class.width() as u64 + position as u64;
        assert!(block < u64::from(self.zone_blocks), "stripe {stripe:?} lies outside its zone");
        let zone = self.zones.offset + u64::from(stripe.zone) * self.zone_bytes;
        BlockAddress {
            drive: class.drive(stripe, position),
            offset: zone + block * u64::from(self.block_size),
        }
    }
}
