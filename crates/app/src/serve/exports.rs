//! The pools' volumes as exports named `POOL/VOL`. Looked up afresh for every client, so that
//! volumes made and deleted while serving come and go at once.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::pin::pin;
use std::rc::Rc;

use engine::RequestError;
use export::limits::EXTENTS_MAX;
use export::{Exports, Extent, Listing, Volume, VolumeError};
use format::Uuid;
use futures_util::future::{Either, select};
use io::Buf;
use io::uring::UringEnv;

use super::room::Room;
use crate::pools::any::ExportShape;
use crate::pools::held::{Held, Hold};
use crate::pools::{Pool, any};
use crate::render::view;
use crate::size::Size;

/// All pools being served, and those that should be and could not be opened. A handle.
#[derive(Clone, Default)]
pub struct Catalogue {
    pools: Rc<RefCell<Vec<Held>>>,
    unopened: Rc<RefCell<Vec<view::Pool>>>,
    /// Drives that an operator took out of use: they come back when he says so.
    kept_out: Rc<RefCell<BTreeSet<Uuid>>>,
    /// Pools that another host has taken: they are opened again when an operator says so.
    given_up: Rc<RefCell<BTreeSet<String>>>,
}

impl Catalogue {
    /// Handles on all of them.
    pub fn pools(&self) -> Vec<Pool> {
        self.pools.borrow().iter().map(|held| held.pool.clone()).collect()
    }

    pub(crate) fn held(&self) -> Vec<Held> {
        self.pools.borrow().clone()
    }

    pub(crate) fn add(&self, held: Held) {
        let uuid = held.pool.uuid();
        self.given_up.borrow_mut().remove(&uuid);
        self.unopened.borrow_mut().retain(|own| own.uuid != uuid);
        self.pools.borrow_mut().push(held);
    }

    /// True while a pool is without drives, or could not be opened.
    pub fn lacks_drives(&self) -> bool {
        let lost = |pool: &Pool| !pool.lost_drives().is_empty();
        !self.unopened.borrow().is_empty() || self.pools().iter().any(lost)
    }

    pub fn keep_out(&self, drive: Uuid) {
        self.kept_out.borrow_mut().insert(drive);
    }

    /// It is a drive like any other again.
    pub fn let_in(&self, drive: Uuid) {
        self.kept_out.borrow_mut().remove(&drive);
    }

    pub fn is_kept_out(&self, drive: Uuid) -> bool {
        self.kept_out.borrow().contains(&drive)
    }

    /// It could not be opened, and is to be as soon as it can.
    pub fn is_awaited(&self, uuid: &str) -> bool {
        let unopened = self.unopened.borrow().iter().any(|pool| pool.uuid == uuid);
        unopened && !self.given_up.borrow().contains(uuid)
    }

    /// One that is served no more: another host has it.
    pub fn remove(&self, pool: &Pool) {
        let uuid = pool.uuid();
        self.given_up.borrow_mut().insert(uuid.clone());
        self.pools.borrow_mut().retain(|own| own.pool.uuid() != uuid);
    }

    /// One that could not be opened. What it is called, if that, and why, was not known before.
    pub fn refuse(&self, pool: view::Pool) -> Option<String> {
        let uuid = pool.uuid.clone();
        let mut unopened = self.unopened.borrow_mut();
        let known = unopened.iter().any(|own| own.uuid == uuid && own.reason == pool.reason);
        unopened.retain(|own| own.uuid != uuid);
        unopened.push(pool);
        drop(unopened);
        let own = self.unopened().into_iter().find(|own| own.uuid == uuid && !known);
        own.map(|own| own.name)
    }

    /// By name or UUID.
    pub(crate) fn pool(&self, name: &str) -> Option<Held> {
        let is_called = |pool: &Pool| pool.name() == name || pool.uuid() == name;
        self.held().into_iter().find(|held| is_called(&held.pool))
    }

    /// By name: exports have that, never the UUID.
    fn named(&self, name: &str) -> Option<Held> {
        self.held().into_iter().find(|held| held.pool.name() == name)
    }

    /// Those that could not be opened. Of several pools of one name these are called by their UUID:
    /// events and metrics know pools by name.
    pub fn unopened(&self) -> Vec<view::Pool> {
        let mut taken: BTreeSet<String> = self.pools().iter().map(Pool::name).collect();
        let mut unopened = self.unopened.borrow().clone();
        for pool in &mut unopened {
            if !taken.insert(pool.name.clone()) {
                pool.name.clone_from(&pool.uuid);
            }
        }
        unopened
    }

    /// All of them, those that are served first.
    pub fn views(&self) -> Vec<view::Pool> {
        self.held().iter().map(Held::view).chain(self.unopened()).collect()
    }
}

impl Exports for Catalogue {
    type Volume = Exported;

    fn list(&self) -> Vec<Listing> {
        self.pools().iter().flat_map(of_pool).collect()
    }

    fn count(&self) -> usize {
        self.pools.borrow().iter().map(|held| held.pool.exports_count()).sum()
    }

    fn describe(&self, name: &str) -> Option<String> {
        let (pool, _) = name.split_once('/')?;
        let found =
            of_pool(&self.named(pool)?.pool).into_iter().find(|listing| listing.name == name);
        found.map(|listing| listing.description)
    }

    fn open(&self, name: &str) -> Option<Exported> {
        let (pool, volume) = name.split_once('/')?;
        let Held { pool, hold, room, waits } = self.named(pool)?;
        let volume = match pool.volume(volume)? {
            any::Volume::Fusion(volume) => Kind::Fusion(Fusion(volume)),
            any::Volume::Other(volume) => Kind::Other(Other(volume)),
        };
        waits.count();
        Some(Exported { volume, hold, room })
    }
}

pub fn of_pool(pool: &Pool) -> Vec<Listing> {
    let name = pool.name();
    let listing = |export: ExportShape| Listing {
        name: format!("{name}/{}", export.volume),
        description: format!("{} {}", Size(export.size), export.shape),
    };
    pool.exports().into_iter().map(listing).collect()
}

/// A volume in the protocol server's terms.
#[derive(Clone)]
pub struct Exported {
    volume: Kind,
    hold: Option<Hold>,
    room: Option<Room>,
}

impl Exported {
    /// What comes of a request, unless another host takes the pool over: nobody hears of it then.
    async fn while_held<T>(
        &self,
        request: impl Future<Output = Result<T, VolumeError>>,
    ) -> Result<T, VolumeError> {
        let Some(hold) = &self.hold else { return request.await };
        let request = async {
            let done = request.await;
            // No drive may have been needed for it.
            match hold.pass().await {
                true => done,
                false => Err(VolumeError::Io("nobody knows whose the drives are".to_owned())),
            }
        };
        match select(pin!(request), pin!(hold.until_lost())).await {
            Either::Left((done, _)) => done,
            Either::Right(_) => Err(VolumeError::ShuttingDown),
        }
    }

    /// The same of one that may write to drives.
    async fn with_room<T: 'static>(
        &self,
        request: impl Future<Output = Result<T, VolumeError>> + 'static,
    ) -> Result<T, VolumeError> {
        match &self.room {
            Some(room) => self.while_held(room.request(request)).await,
            None => self.while_held(request).await,
        }
    }
}

#[derive(Clone)]
enum Kind {
    Fusion(Fusion),
    Other(Other),
}

/// An engine's volume.
#[derive(Clone)]
struct Fusion(engine::Volume<UringEnv>);

fn explain(error: RequestError) -> VolumeError {
    match error {
        RequestError::NoSpace => VolumeError::NoSpace,
        RequestError::Io(what) => VolumeError::Io(what),
        RequestError::OutOfRange => VolumeError::OutOfRange,
        RequestError::ReadOnly => VolumeError::ReadOnly,
        RequestError::Closed => VolumeError::ShuttingDown,
    }
}

impl Volume for Fusion {
    fn size(&self) -> u64 {
        self.0.size()
    }

    async fn read(&self, offset: u64, len: u32) -> Result<Vec<Buf>, VolumeError> {
        self.0.read(offset, len).await.map_err(explain)
    }

    async fn write(&self, offset: u64, data: Buf, fua: bool) -> Result<(), VolumeError> {
        self.0.write(offset, data, fua).await.map_err(explain)
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        self.0.flush().await.map_err(explain)
    }

    async fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), VolumeError> {
        self.0.trim(offset, len, fua).await.map_err(explain)
    }

    async fn write_zeroes(
        &self,
        offset: u64,
        len: u64,
        fua: bool,
        may_trim: bool,
    ) -> Result<(), VolumeError> {
        self.0.write_zeroes(offset, len, fua, may_trim).await.map_err(explain)
    }

    fn extents(&self, offset: u64, len: u64) -> Vec<Extent> {
        let extents = self.0.extents(offset, len).into_iter();
        extents.map(|extent| Extent { len: extent.len, allocated: extent.allocated }).collect()
    }
}

/// A volume of any other scheme.
#[derive(Clone)]
struct Other(schemes::pool::PoolVolume<UringEnv>);

fn explain_other(error: schemes::VolumeError) -> VolumeError {
    match error {
        schemes::VolumeError::NoSpace => VolumeError::NoSpace,
        schemes::VolumeError::OutOfRange => VolumeError::OutOfRange,
        error => VolumeError::Io(error.to_string()),
    }
}

impl Volume for Other {
    fn size(&self) -> u64 {
        self.0.size()
    }

    async fn read(&self, offset: u64, len: u32) -> Result<Vec<Buf>, VolumeError> {
        self.0.read(offset, len.into()).await.map_err(explain_other)
    }

    async fn write(&self, offset: u64, data: Buf, fua: bool) -> Result<(), VolumeError> {
        self.0.write(offset, data, fua).await.map_err(explain_other)
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        self.0.flush().await.map_err(explain_other)
    }

    async fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), VolumeError> {
        self.0.trim(offset, len, fua).await.map_err(explain_other)
    }

    async fn write_zeroes(
        &self,
        offset: u64,
        len: u64,
        fua: bool,
        may_trim: bool,
    ) -> Result<(), VolumeError> {
        self.0.write_zeroes(offset, len, fua, may_trim).await.map_err(explain_other)
    }

    fn extents(&self, offset: u64, len: u64) -> Vec<Extent> {
        let extents = self.0.extents(offset, len, EXTENTS_MAX).into_iter();
        extents.map(|extent| Extent { len: extent.len, allocated: extent.mapped }).collect()
    }
}

/// The same of a volume of either kind.
macro_rules! of_either {
    ($exported:expr, $volume:ident => $request:expr) => {
        match $exported.volume.clone() {
            Kind::Fusion($volume) => $request,
            Kind::Other($volume) => $request,
        }
    };
}

impl Volume for Exported {
    fn size(&self) -> u64 {
        of_either!(self, volume => volume.size())
    }

    async fn read(&self, offset: u64, len: u32) -> Result<Vec<Buf>, VolumeError> {
        of_either!(self, volume => self.while_held(volume.read(offset, len)).await)
    }

    async fn write(&self, offset: u64, data: Buf, fua: bool) -> Result<(), VolumeError> {
        of_either!(self, volume => {
            self.with_room(async move { volume.write(offset, data, fua).await }).await
        })
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        of_either!(self, volume => self.with_room(async move { volume.flush().await }).await)
    }

    async fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), VolumeError> {
        of_either!(self, volume => {
            self.with_room(async move { volume.trim(offset, len, fua).await }).await
        })
    }

    async fn write_zeroes(
        &self,
        offset: u64,
        len: u64,
        fua: bool,
        may_trim: bool,
    ) -> Result<(), VolumeError> {
        of_either!(self, volume => {
            let zeroed = async move { volume.write_zeroes(offset, len, fua, may_trim).await };
            self.with_room(zeroed).await
        })
    }

    fn extents(&self, offset: u64, len: u64) -> Vec<Extent> {
        of_either!(self, volume => volume.extents(offset, len))
    }
}
