//! What the systems of an experiment stand on: the same drives, bare, with a pool of the engine's,
//! and with each scheme.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use futures_util::future::LocalBoxFuture;
use model::presets::Preset;
use schemes::scheme::{OpenOptions, Scheme};

use super::fusion::{Fusion, Shape};
use super::layout::Variant;
use super::nv::{self, NvRaid};
use super::prepare::{Trim, settle, trim};
use super::served::{Filling, Served, Told};
use super::single::Single;
use super::world::{Rest, Shelf, World};
use super::{Array, Opened, System, gc};

/// Drives at rest, settled: bare ones, and those that hold what was made on them, each when it is
/// wanted.
/// Whatever is made on them has a volume of the same part of what it offers, and is filled or not
/// like the others.
pub struct Stand {
    pub bare: Rc<Rest>,
    single: OnceCell<Rc<Rest>>,
    shelf: Shelf,
    shape: Shape,
    pooled: OnceCell<(Rc<Rest>, Regions)>,
    served: RefCell<Vec<(Scheme, Rc<Rest>)>>,
    /// Of `nv-raid`, when it is opened; a [`nv::DRIVES_PART`] of the drives unless said otherwise.
    pub nvram_bytes: Cell<Option<u64>>,
    /// Drives, the last ones, that schemes leave alone. A pool uses all: its spare space is
    /// everywhere.
    pub spares: usize,
    pub variant: Variant,
    pub online_threshold: Option<u8>,
    /// In which a scheme is filled; of none: in large whole stripes.
    pub pieces: Rc<[u64]>,
}

/// What lies where on a drive of a pool.
#[derive(Clone, Copy, Debug)]
pub struct Regions {
    journal_end: u64,
    metadata_end: u64,
}

impl Regions {
    pub fn name(self, offset: u64) -> &'static str {
        match offset {
            _ if offset < self.journal_end => "journal",
            _ if offset < self.metadata_end => "metadata",
            _ => "data",
        }
    }
}

impl Stand {
    pub fn new(
        preset: Preset,
        drive_bytes: u64,
        drives: usize,
        trim: Trim,
        shape: &Shape,
        seed: u64,
    ) -> Result<Stand, String> {
        Stand::on(Shelf { trim, ..Shelf::solid(preset, drive_bytes, drives, seed) }, shape)
    }

    pub fn on(shelf: Shelf, shape: &Shape) -> Result<Stand, String> {
        Ok(Stand {
            bare: Rc::new(bare(&shelf)?),
            single: OnceCell::new(),
            shelf,
            shape: shape.clone(),
            pooled: OnceCell::new(),
            served: RefCell::default(),
            nvram_bytes: Cell::default(),
            spares: shelf.spares,
            variant: Variant::default(),
            online_threshold: None,
            pieces: Rc::new([]),
        })
    }

    fn filling(&self) -> Filling {
        let Shape { volume_percent: percent, filled, .. } = self.shape;
        let Stand { spares, variant, online_threshold, .. } = *self;
        let pieces = self.pieces.clone();
        Filling { percent, filled, spares, variant, online_threshold, pieces }
    }

    fn pooled(&self) -> Result<Rc<Rest>, String> {
        if let Some((rest, _)) = self.pooled.get() {
            return Ok(rest.clone());
        }
        let world = self.bare.wake(self.shelf.seed);
        let plan = world.env.block_on(Fusion::make(&world, &self.shape))?;
        let journal_end = (1 << 20) + plan.journal_bytes;
        let regions = Regions { journal_end, metadata_end: journal_end + plan.metadata_bytes };
        let rest = Rc::new(world.rest());
        Ok(self.pooled.get_or_init(|| (rest, regions)).0.clone())
    }

    /// One by itself. What aging wrote lies where it is used, unless it was discarded.
    fn single(&self) -> Result<Rc<Rest>, String> {
        if self.shelf.trim == Trim::Untrimmed || !self.shape.filled {
            return Ok(self.bare.clone());
        }
        if let Some(rest) = self.single.get() {
            return Ok(rest.clone());
        }
        let world = self.bare.wake(self.shelf.seed);
        world.env.block_on(async {
            let drive = world.drives().swap_remove(0);
            Single::new(drive, self.shape.volume_percent).fill().await?;
            settle(&world).await
        })?;
        let rest = Rc::new(world.rest());
        Ok(self.single.get_or_init(|| rest).clone())
    }

    fn served(&self, scheme: Scheme) -> Result<Rc<Rest>, String> {
        let known = self.served.borrow().iter().find(|(made, _)| *made == scheme).cloned();
        if let Some((_, rest)) = known {
            return Ok(rest);
        }
        let world = self.bare.wake(self.shelf.seed);
        world.env.block_on(Served::make(&world, scheme, self.filling()))?;
        let rest = Rc::new(world.rest());
        self.served.borrow_mut().push((scheme, rest.clone()));
        Ok(rest)
    }

    /// The drives that hold it, at rest. Not every scheme is possible with any number of drives.
    pub fn of(&self, system: System) -> Result<Rc<Rest>, String> {
        match system.scheme() {
            Some(scheme) => self.served(scheme),
            None if system == System::Single => self.single(),
            None => self.pooled(),
        }
    }

    /// What lies where on the drives of a pool that was made ([`Stand::of`]).
    pub fn regions(&self, system: System) -> Option<Regions> {
        system.spikes().and_then(|_| self.pooled.get()).map(|(_, regions)| *regions)
    }

    /// Whether drives knew what is free when arrays were made on them.
    pub fn trim(&self) -> Trim {
        self.shelf.trim
    }

    /// Forgets what was made for a system; it will be made again if it is wanted again.
    pub fn forget(&self, system: System) {
        self.served.borrow_mut().retain(|(scheme, _)| Some(*scheme) != system.scheme());
    }

    /// The array on the drives of a world that was woken from [`Stand::of`] it. Behind a pointer:
    /// what waits for it elsewhere would have all arrays compiled once more.
    pub fn open<'a>(&'a self, system: System, world: &'a World) -> LocalBoxFuture<'a, Opened> {
        Box::pin(self.opened(system, world))
    }

    async fn opened(&self, system: System, world: &World) -> Opened {
        if let Some(spikes) = system.spikes() {
            return Opened::fusion(world, spikes).await;
        }
        if system == System::Single {
            return Opened::single(world, self.shape.volume_percent);
        }
        let told = match system {
            System::SteeringOracle | System::SteeringNvram => Told::Elsewhere,
            _ => Told::Watched,
        };
        let table_in_nvram = system == System::SteeringNvram;
        let write_hole = system.write_hole();
        let options = OpenOptions { write_hole, table_in_nvram, ..OpenOptions::default() };
        let served = Served::open(world, options, told, self.filling()).await;
        let (mut nv, mut looks) = (None, None);
        match system {
            System::SteeringOracle | System::SteeringNvram => {
                looks = Some(gc::tell(world, &served));
            }
            System::GcGlobal => gc::coordinate(world, served.drives()),
            System::NvRaid => {
                let all = self.shelf.drive_bytes * self.shelf.drives as u64;
                let bytes = self.nvram_bytes.get().unwrap_or(all / nv::DRIVES_PART);
                nv = Some(NvRaid::over(&world.env, served.clone(), bytes));
            }
            _ => {}
        }
        let array: Rc<dyn Array> = match &nv {
            Some(nv) => Rc::new(nv.clone()),
            None => Rc::new(served.clone()),
        };
        Opened { array, fusion: None, served: Some(served), nv, looks }
    }
}

/// Drives that nothing is made on yet, trimmed or not, settled.
fn bare(shelf: &Shelf) -> Result<Rest, String> {
    let world = Rest::of(shelf)?.wake(shelf.seed);
    world.env.block_on(async {
        if shelf.trim == Trim::Trimmed {
            trim(&world).await;
        }
        settle(&world).await
    })?;
    Ok(world.rest())
}
