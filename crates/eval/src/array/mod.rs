//! Arrays over modelled drives in virtual time: what the experiments compare.
//!
//! ```text
//!  load ──> Array: fusion ─────────────────────────> World's drives: watch ─ faults ─ disk + model
//!   │              served: any of the schemes ─────>                                      │
//!   │               └─ nv: a write buffer above        gc: all collect together, <────────┘
//!   │                                                      or a scheme is told
//!   └─ tally: latencies, and what the slow ones waited for
//! ```
//! Before that drives are trimmed or not, filled, and settle (`prepare`).
//!
//! A world follows from its drives at rest, a seed and the load: the same command gives the same
//! figures on every machine.

pub mod bound;
pub mod cached;
pub mod fusion;
pub mod gc;
pub mod kv;
pub mod layout;
pub mod load;
pub mod machine;
pub mod made;
pub mod nv;
pub mod played;
pub mod prepare;
pub mod recorded;
pub mod saturated;
pub mod served;
pub mod single;
pub mod stand;
pub mod system;
pub mod tally;
pub mod traces;
pub mod turns;
pub mod watch;
pub mod world;

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;

use engine::SpikeHandling;
use io::Buf;

pub use system::System;

use fusion::Fusion;
use gc::Looks;
use nv::NvRaid;
use served::Served;
use single::Single;
use world::World;

/// The answer to a request. An error is what its client would see.
pub type Answer<'a, T = ()> = Pin<Box<dyn Future<Output = Result<T, String>> + 'a>>;

/// A block device made of the world's drives. Loads write zeroes: experiments are about time.
pub trait Array {
    /// Bytes it offers.
    fn size(&self) -> u64;
    /// The bytes, in pieces.
    fn read(&self, offset: u64, len: u64) -> Answer<'_, Vec<Buf>>;
    fn write(&self, offset: u64, data: Buf) -> Answer<'_>;
    /// Answered when it is durable.
    fn write_durably(&self, offset: u64, data: Buf) -> Answer<'_> {
        Box::pin(async move {
            self.write(offset, data).await?;
            self.flush().await
        })
    }
    /// What was written before is durable.
    fn flush(&self) -> Answer<'_>;
}

/// An array, and what it is made of.
pub struct Opened {
    pub array: Rc<dyn Array>,
    pub fusion: Option<Rc<Fusion>>,
    pub served: Option<Served>,
    pub nv: Option<NvRaid>,
    /// What a scheme was told of its drives by their models.
    pub looks: Option<Rc<Cell<Looks>>>,
}

impl Opened {
    /// A pool of ours.
    pub async fn fusion(world: &World, spikes: SpikeHandling) -> Opened {
        let fusion = Rc::new(Fusion::open(world, spikes).await);
        let array = fusion.clone();
        Opened { array, fusion: Some(fusion), served: None, nv: None, looks: None }
    }

    /// The first drive by itself.
    pub fn single(world: &World, percent: u64) -> Opened {
        let drive = world.drives().swap_remove(0);
        let array = Rc::new(Single::new(drive, percent));
        Opened { array, fusion: None, served: None, nv: None, looks: None }
    }

    /// How its drives work together, for people.
    pub fn shape(&self) -> String {
        match (&self.fusion, &self.served) {
            (Some(fusion), _) => {
                let status = fusion.pool.status();
                format!("stripes of {} over {} drives", status.width, status.drives.len())
            }
            (_, Some(served)) => served.shape(),
            _ => String::new(),
        }
    }
}
