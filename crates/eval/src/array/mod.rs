//! Arrays over modelled drives in virtual time: what the experiments compare.
//!
//! ```text
//!  load ──> Array: fusion | raid5 | raid10 ──> World's drives: watch ─ faults ─ disk + model
//!   └─ tally: latencies, and what the slow ones waited for
//! ```
//! A world follows from its drives at rest, a seed and the load: the same command gives the same
//! figures on every machine.

pub mod fusion;
pub mod load;
pub mod raid10;
pub mod raid5;
pub mod stand;
pub mod tally;
pub mod traces;
pub mod watch;
pub mod world;

use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::str::FromStr;

use engine::SpikeHandling;
use io::Buf;

use fusion::Fusion;
use raid5::Raid5;
use raid10::Raid10;
use world::World;

/// The answer to a request. An error is what its client would see.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + 'a>>;

/// A block device made of the world's drives. All bytes are zeroes: experiments are about time.
pub trait Array {
    /// Bytes it offers.
    fn size(&self) -> u64;
    fn read(&self, offset: u64, len: u64) -> Answer<'_>;
    fn write(&self, offset: u64, data: Buf) -> Answer<'_>;
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum System {
    /// As it comes.
    Fusion,
    /// Spikes are seen and nothing is done (FusionRAID's Fusion-ND).
    FusionNd,
    /// Detection and redirection as in FusionRAID §4.3, nothing more.
    FusionPaper,
    /// One parity group of 8 drives (7+1); of 29, four of 6+1, striped, and a spare (FusionRAID
    /// §5.1's RAID50).
    Raid5,
    /// Pairs, striped; of 29 drives one is a spare.
    Raid10,
}

impl System {
    pub const ALL: [System; 5] =
        [System::Fusion, System::FusionPaper, System::FusionNd, System::Raid5, System::Raid10];

    pub const fn name(self) -> &'static str {
        match self {
            System::Fusion => "fusion",
            System::FusionNd => "fusion-nd",
            System::FusionPaper => "fusion-paper",
            System::Raid5 => "raid5",
            System::Raid10 => "raid10",
        }
    }

    /// How a pool handles spikes; `None` for what isn't a pool.
    pub fn spikes(self) -> Option<SpikeHandling> {
        match self {
            System::Fusion => Some(SpikeHandling::default()),
            System::FusionNd => Some(SpikeHandling::WATCH),
            System::FusionPaper => Some(SpikeHandling::PAPER),
            System::Raid5 | System::Raid10 => None,
        }
    }

    /// The array over the world's drives, which hold a pool already if it is one.
    pub async fn open(self, world: &World) -> Opened {
        let drives = world.drives();
        if let Some(spikes) = self.spikes() {
            let fusion = Rc::new(Fusion::open(world, spikes).await);
            return Opened { array: fusion.clone(), fusion: Some(fusion) };
        }
        let array: Rc<dyn Array> = match self {
            System::Raid5 => Rc::new(Raid5::over(drives)),
            _ => Rc::new(Raid10::over(drives)),
        };
        Opened { array, fusion: None }
    }
}

/// An array, and its pool if it has one.
pub struct Opened {
    pub array: Rc<dyn Array>,
    pub fusion: Option<Rc<Fusion>>,
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for System {
    type Err = String;

    fn from_str(text: &str) -> Result<System, String> {
        let names = System::ALL.map(System::name).join(", ");
        let known = System::ALL.into_iter().find(|system| system.name() == text);
        known.ok_or_else(|| format!("'{text}' is no system we know: {names}"))
    }
}
