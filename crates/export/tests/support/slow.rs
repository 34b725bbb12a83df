//! A volume whose requests take random virtual time and therefore end in any order.

use std::cell::Cell;
use std::rc::Rc;

use export::ram::RamVolume;
use export::{BlockSizes, Exports, Extent, Listing, Volume, VolumeError};
use io::virt::VirtEnv;
use io::{Buf, Env, Nanos, PAGE};

#[derive(Clone)]
pub struct SlowVolume {
    pub env: VirtEnv,
    pub inner: RamVolume,
    /// Longest time a request takes.
    pub latency: Nanos,
    pub running: Rc<Cell<usize>>,
    pub most_running: Rc<Cell<usize>>,
    /// What was running when a trim came.
    pub running_at_trim: Rc<Cell<Option<usize>>>,
    /// What requests fail with, if they do.
    pub failure: Rc<Cell<Option<VolumeError>>>,
}

impl SlowVolume {
    pub fn new(env: &VirtEnv, size: u64) -> SlowVolume {
        SlowVolume {
            env: env.clone(),
            inner: RamVolume::new(size),
            latency: Nanos::from_millis(1),
            running: Rc::default(),
            most_running: Rc::default(),
            running_at_trim: Rc::default(),
            failure: Rc::default(),
        }
    }

    async fn work(&self) -> Result<(), VolumeError> {
        self.running.set(self.running.get() + 1);
        self.most_running.set(self.most_running.get().max(self.running.get()));
        let span = Nanos(self.env.random() % self.latency.0);
        self.env.sleep_until(self.env.now() + span).await;
        self.running.set(self.running.get() - 1);
        let failure = self.failure.take();
        self.failure.set(failure.clone());
        failure.map_or(Ok(()), Err)
    }
}

impl Volume for SlowVolume {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn block_sizes(&self) -> BlockSizes {
        self.inner.block_sizes()
    }

    async fn read(&self, offset: u64, len: u32) -> Result<Vec<Buf>, VolumeError> {
        self.work().await?;
        self.inner.read(offset, len).await
    }

    async fn write(&self, offset: u64, data: Buf, fua: bool) -> Result<(), VolumeError> {
        let place = data.as_ptr() as usize % PAGE;
        assert_eq!(place, (offset % PAGE as u64) as usize, "aligned in memory as on the volume");
        self.work().await?;
        self.inner.write(offset, data, fua).await
    }

    async fn flush(&self) -> Result<(), VolumeError> {
        self.work().await
    }

    async fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), VolumeError> {
        self.running_at_trim.set(Some(self.running.get()));
        self.work().await?;
        self.inner.trim(offset, len, fua).await
    }

    async fn write_zeroes(
        &self,
        offset: u64,
        len: u64,
        fua: bool,
        may_trim: bool,
    ) -> Result<(), VolumeError> {
        self.work().await?;
        self.inner.write_zeroes(offset, len, fua, may_trim).await
    }

    fn extents(&self, offset: u64, len: u64) -> Vec<Extent> {
        self.inner.extents(offset, len)
    }
}

impl Exports for SlowVolume {
    type Volume = SlowVolume;

    fn list(&self) -> Vec<Listing> {
        vec![Listing { name: "disk".into(), description: String::new() }]
    }

    fn open(&self, name: &str) -> Option<SlowVolume> {
        (name == "disk").then(|| self.clone())
    }
}
