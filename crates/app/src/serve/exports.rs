//! The pools' volumes as exports named `POOL/VOL`. Looked up afresh for every client, so that
//! volumes made and deleted while serving come and go at once.

use std::rc::Rc;

use engine::RequestError;
use export::{Exports, Extent, Listing, Volume, VolumeError};
use io::Buf;
use io::uring::UringEnv;

use crate::pools::Pool;
use crate::render::human::shape;
use crate::size::Size;

/// All pools being served. A handle.
#[derive(Clone)]
pub struct Catalogue {
    pools: Rc<Vec<Pool>>,
}

impl Catalogue {
    pub fn new(pools: Vec<Pool>) -> Catalogue {
        Catalogue { pools: Rc::new(pools) }
    }

    pub fn pools(&self) -> &[Pool] {
        &self.pools
    }

    /// By name or UUID.
    pub fn pool(&self, name: &str) -> Option<&Pool> {
        self.pools.iter().find(|pool| pool.name() == name || pool.uuid().to_string() == name)
    }
}

impl Exports for Catalogue {
    type Volume = Exported;

    fn list(&self) -> Vec<Listing> {
        let of_pool = |pool: &Pool| {
            let name = pool.name();
            let listing = move |volume: engine::VolumeInfo| Listing {
                name: format!("{name}/{}", volume.name),
                description: describe(&volume),
            };
            pool.volumes().into_iter().map(listing)
        };
        self.pools.iter().flat_map(of_pool).collect()
    }

    fn open(&self, name: &str) -> Option<Exported> {
        let (pool, volume) = name.split_once('/')?;
        let pool = self.pools.iter().find(|candidate| candidate.name() == pool)?;
        Some(Exported(pool.volume(volume)?))
    }
}

fn describe(volume: &engine::VolumeInfo) -> String {
    let level = if volume.parity == 1 { "RAID5" } else { "RAID6" };
    format!("{} {level} {}", Size(volume.size), shape(volume.width, volume.parity))
}

/// An engine's volume in the protocol server's terms.
#[derive(Clone)]
pub struct Exported(engine::Volume<UringEnv>);

fn explain(error: RequestError) -> VolumeError {
    match error {
        RequestError::NoSpace => VolumeError::NoSpace,
        RequestError::Io(what) => VolumeError::Io(what),
        RequestError::OutOfRange => VolumeError::OutOfRange,
        RequestError::ReadOnly => VolumeError::ReadOnly,
        RequestError::Closed => VolumeError::ShuttingDown,
    }
}

impl Volume for Exported {
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
