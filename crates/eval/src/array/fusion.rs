//! A pool of ours as an array of an experiment.

use engine::{ConversionPolicy, CreatePlan, CreateSpec, OpenOptions, Pool, SpikeHandling, Volume};
use io::virt::VirtEnv;
use io::{Buf, join_all};

use super::prepare::settle;
use super::world::World;
use super::{Answer, Array};

const VOLUME: &str = "v";

/// How a pool is made and filled before anything is measured.
#[derive(Clone, Debug)]
pub struct Shape {
    pub width: u16,
    pub conversion: ConversionPolicy,
    pub replicated_percent: u8,
    /// The volume, in percent of what the pool can hold.
    pub volume_percent: u64,
    /// It is filled with full stripes.
    pub filled: bool,
}

impl Shape {
    pub fn new(width: u16) -> Shape {
        Shape {
            width,
            conversion: ConversionPolicy::default(),
            replicated_percent: CreateSpec::REPLICATED_PERCENT_DEFAULT,
            volume_percent: 50,
            filled: true,
        }
    }

    fn stripe_bytes(&self) -> u64 {
        (u64::from(self.width) - 1) * u64::from(CreateSpec::BLOCK_SIZE_DEFAULT)
    }
}

pub struct Fusion {
    pub pool: Pool<VirtEnv>,
    pub volume: Volume<VirtEnv>,
}

impl Fusion {
    /// Makes a pool with a volume on the world's drives, and closes it when it has settled.
    pub async fn make(world: &World, shape: &Shape) -> Result<CreatePlan, String> {
        let spec = CreateSpec {
            width: Some(shape.width),
            conversion: shape.conversion,
            replicated_percent: shape.replicated_percent,
            ..CreateSpec::new("eval")
        };
        let drives = world.drives();
        let plan = engine::create(&world.env, &drives, &spec).await.expect("a pool");
        let options = OpenOptions { spikes: SpikeHandling::OFF, ..OpenOptions::default() };
        let pool = Pool::open(&world.env, drives, options).await.expect("it opens");
        let step = shape.stripe_bytes();
        let size = plan.usable_bytes * shape.volume_percent / 100 / step * step;
        pool.volume_create(VOLUME, size, None, None).await.expect("a volume");
        let volume = pool.volume(VOLUME).expect("just made");
        if shape.filled {
            fill(&volume, step).await;
        }
        drop(volume);
        settle(world).await?;
        pool.close().await.expect("it closes");
        settle(world).await?;
        Ok(plan)
    }

    pub async fn open(world: &World, spikes: SpikeHandling) -> Fusion {
        Fusion::open_with(world, OpenOptions { spikes, ..OpenOptions::default() }).await
    }

    pub async fn open_with(world: &World, options: OpenOptions) -> Fusion {
        let pool = Pool::open(&world.env, world.drives(), options).await.expect("it opens");
        let volume = pool.volume(VOLUME).expect("it was made");
        Fusion { pool, volume }
    }
}

impl Array for Fusion {
    fn size(&self) -> u64 {
        self.volume.size()
    }

    fn read(&self, offset: u64, len: u64) -> Answer<'_, Vec<Buf>> {
        Box::pin(async move {
            let done = self.volume.read(offset, len as u32).await;
            done.map(|pieces| pieces.into_iter().collect()).map_err(|error| error.to_string())
        })
    }

    fn write(&self, offset: u64, data: Buf) -> Answer<'_> {
        Box::pin(async move {
            self.volume.write(offset, data, false).await.map_err(|error| error.to_string())
        })
    }

    fn flush(&self) -> Answer<'_> {
        Box::pin(async move { self.volume.flush().await.map_err(|error| error.to_string()) })
    }
}

/// Writes the whole volume in steps of a stripe, so many of them at once.
async fn fill(volume: &Volume<VirtEnv>, step: u64) {
    const AT_ONCE: u64 = 4;
    let zeroes = Buf::zeroed(step as usize);
    for first in (0..volume.size()).step_by((AT_ONCE * step) as usize) {
        let offsets = (0..AT_ONCE).map(|at| first + at * step).filter(|&at| at < volume.size());
        let writes = offsets.map(|offset| volume.write(offset, zeroes.clone(), false));
        for done in join_all(writes).await {
            done.expect("there is room");
        }
    }
}
