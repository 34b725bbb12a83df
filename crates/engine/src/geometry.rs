//! Where things are: from stripe and position to drive and byte. Pure arithmetic on top of
//! `layout`, but for the table that says which drives a zone lies on now (`lists`).
//!
//! ```text
//! FLBN (38 bits) = zone * span + index * width + position
//!                         │      └ stripe within the zone
//!                         └ blocks a zone has on 256 drives: the same for every class
//!
//! drive:  | label | journal | metadata | zone 0 | zone 1 | ... | label |
//! zone:   | row 0: width blocks | row 1 | ...        (a row is one stripe per drive column)
//! ```

use std::cell::OnceCell;
use std::rc::Rc;

use format::{ClassId, Extent, Flbn, StripeId};
use layout::{DRIVES_MAX, DRIVES_MIN, DriveIndex, Layout, LayoutError, StripeShape};

use crate::api::CreateError;
use crate::lists::{DriveLists, ListId};

/// One block on one drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockAddress {
    pub drive: DriveIndex,
    /// Byte on the drive.
    pub offset: u64,
}

/// How a class's stripes lie on a drive list.
struct Laid {
    /// Computed when a zone of the class needs it; the same for all lists of a length.
    layout: OnceCell<Rc<Layout>>,
    /// Drives of the list.
    drives: u32,
    /// None if the list is too short.
    stripes: u32,
}

/// A RAID level and width: how its stripes lie in a zone.
pub struct Class {
    pub id: ClassId,
    pub shape: StripeShape,
    lists: Rc<DriveLists>,
    /// For each list.
    laid: Vec<Laid>,
    /// Of the drives that the pool was made of, or as many as the stripes are wide: what is
    /// recorded of the class, so that other software is noticed.
    founding: Rc<Layout>,
}

impl Class {
    pub fn new(
        id: ClassId,
        shape: StripeShape,
        geometry: &PoolGeometry,
    ) -> Result<Class, CreateError> {
        let (width, drives) = (shape.width(), geometry.lists.longest());
        if drives < width {
            return Err(LayoutError::WidthOverDrives { width, drives }.into());
        }
        let rows = geometry.zone_blocks / width as u32;
        if rows == 0 {
            return Err(CreateError::WidthForZone {
                width: shape.width,
                block_size: geometry.block_size,
                zone_bytes: geometry.zone_bytes,
            });
        }
        let lists = geometry.lists.clone();
        let founding = Rc::new(Layout::new(lists.founders().max(width), width)?);
        let laid = |drives: usize| {
            let stripes = if drives < width.max(DRIVES_MIN) { 0 } else { rows * drives as u32 };
            let layout = match drives == founding.drives() {
                true => OnceCell::from(founding.clone()),
                false => OnceCell::new(),
            };
            Laid { layout, drives: drives as u32, stripes }
        };
        let laid = lists.all().map(|(_, drives, _)| laid(drives.len())).collect();
        Ok(Class { id, shape, lists, laid, founding })
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

    /// Over as many drives as there were when the pool was made.
    pub fn founding_layout(&self) -> &Layout {
        &self.founding
    }

    /// Over the longest list that zones get now.
    pub fn newest_layout(&self) -> &Layout {
        let longest = self.lists.longest() as u32;
        let laid = self.laid.iter().find(|laid| laid.drives == longest);
        self.layout(laid.expect("it is one of the lists"))
    }

    /// Stripes of a zone on a drive list, none if that is too short for the class.
    pub fn stripes_on(&self, list: ListId) -> u32 {
        self.laid[list.index()].stripes
    }

    /// Stripes of a zone as it lies now.
    pub fn stripes_in(&self, zone: u32) -> u32 {
        self.stripes_on(self.lists.of(zone))
    }

    /// Stripes there would be if every zone that can were of this class.
    pub fn stripes(&self) -> u64 {
        let stripes = |(list, _, zones)| u64::from(self.stripes_on(list)) * u64::from(zones);
        self.lists.all().map(stripes).sum()
    }

    #[inline]
    fn layout<'a>(&'a self, laid: &'a Laid) -> &'a Rc<Layout> {
        laid.layout.get_or_init(|| self.compute(laid))
    }

    #[cold]
    fn compute(&self, laid: &Laid) -> Rc<Layout> {
        let alike = |other: &&Laid| other.drives == laid.drives;
        let known = self.laid.iter().filter(alike).find_map(|other| other.layout.get());
        let new = || {
            let layout = Layout::new(laid.drives as usize, self.width());
            Rc::new(layout.expect("a zone of the class lies on enough drives"))
        };
        known.cloned().unwrap_or_else(new)
    }

    /// Stripe number in the endless sequence of templates, reduced to one template. Zones
    /// continue where the zone before stopped, so that small zones don't repeat the first rows.
    fn template_stripe(laid: &Laid, layout: &Layout, stripe: StripeId) -> u32 {
        let sequence = u64::from(stripe.zone) * u64::from(laid.stripes) + u64::from(stripe.index);
        (sequence % layout.stripes_per_template() as u64) as u32
    }

    pub fn drive(&self, stripe: StripeId, position: usize) -> DriveIndex {
        let list = self.lists.of(stripe.zone);
        let laid = &self.laid[list.index()];
        let layout = self.layout(laid);
        let place = layout.drive(Class::template_stripe(laid, layout, stripe), position);
        self.lists.drives(list)[place.index()]
    }

    /// The drive that the layout has for a block of the stripe if its own is lost.
    pub fn spare(&self, stripe: StripeId) -> Option<DriveIndex> {
        let list = self.lists.of(stripe.zone);
        let laid = &self.laid[list.index()];
        let layout = self.layout(laid);
        let place = layout.spare(Class::template_stripe(laid, layout, stripe))?;
        Some(self.lists.drives(list)[place.index()])
    }

    /// Drives of the stripe, data first, then parity.
    pub fn drives(&self, stripe: StripeId) -> Vec<DriveIndex> {
        (0..self.width()).map(|position| self.drive(stripe, position)).collect()
    }
}

/// What the superblock says about space, in the units the engine uses.
#[derive(Clone, Debug)]
pub struct PoolGeometry {
    pub drives: usize,
    pub block_size: u32,
    pub zone_bytes: u64,
    pub zone_count: u32,
    /// Blocks of one zone on one drive.
    pub zone_blocks: u32,
    pub zones: Extent,
    /// Shared by everybody who asks where something is.
    pub lists: Rc<DriveLists>,
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

    /// Blocks of all zones that stripes of so many blocks fit, on all drives.
    pub fn blocks(&self, width: usize) -> u64 {
        let wide = self.lists.all().filter(|(_, drives, _)| drives.len() >= width.max(DRIVES_MIN));
        let blocks = wide.map(|(_, drives, zones)| drives.len() as u64 * u64::from(zones));
        blocks.sum::<u64>() * u64::from(self.zone_blocks)
    }

    /// Where a drive's zones are.
    pub fn zones_on(&self, drive: DriveIndex) -> Extent {
        let len = self.zone_bytes * u64::from(self.lists.zones_of(drive));
        Extent { len, ..self.zones }
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
        let drives = self.lists.drives(self.lists.of(stripe.zone)).len() as u64;
        let row = u64::from(stripe.index) / drives;
        let block = row * class.width() as u64 + position as u64;
        assert!(block < u64::from(self.zone_blocks), "stripe {stripe:?} lies outside its zone");
        let zone = self.zones.offset + u64::from(stripe.zone) * self.zone_bytes;
        BlockAddress {
            drive: class.drive(stripe, position),
            offset: zone + block * u64::from(self.block_size),
        }
    }
}
