//! What drives of an experiment are made of. A copy goes on where the original was.

use io::model::{Command, Completion, Model, ModelCounters, Tag};
use io::{Geometry, Nanos};
use model::hdd::Hdd;
use model::presets::Preset;
use model::ssd::{Snapshot, Ssd};

use super::cached::Cached;

#[derive(Clone)]
pub enum Machine {
    Ssd(Box<Ssd>),
    Disk(Box<Hdd>),
    Cached(Box<Cached>),
}

impl Machine {
    /// Old as the snapshot, but for its own seed.
    pub fn ssd(snapshot: &Snapshot, seed: u64) -> Machine {
        Machine::Ssd(Box::new(Ssd::from_snapshot(snapshot, seed)))
    }

    /// The hard disk of LDM's log, with so many bytes of protected cache before it.
    pub fn disk(bytes: u64, cache: u64, seed: u64) -> Result<Machine, String> {
        let config = Preset::Hdd10k.hdd_config(bytes);
        let config = config.ok_or("this preset is no hard disk")?;
        let machine = match cache {
            0 => Hdd::new(config, seed).map(|disk| Machine::Disk(Box::new(disk))),
            _ => Cached::new(config, cache, seed).map(|disk| Machine::Cached(Box::new(disk))),
        };
        machine.map_err(|error| error.to_string())
    }

    fn model(&self) -> &dyn Model {
        match self {
            Machine::Ssd(ssd) => &**ssd,
            Machine::Disk(disk) => &**disk,
            Machine::Cached(disk) => &**disk,
        }
    }

    fn model_mut(&mut self) -> &mut dyn Model {
        match self {
            Machine::Ssd(ssd) => &mut **ssd,
            Machine::Disk(disk) => &mut **disk,
            Machine::Cached(disk) => &mut **disk,
        }
    }
}

impl Model for Machine {
    fn geometry(&self) -> Geometry {
        self.model().geometry()
    }

    fn submit(&mut self, now: Nanos, tag: Tag, command: Command) {
        self.model_mut().submit(now, tag, command);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.model().next_event()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        self.model_mut().advance(now, done);
    }

    fn in_flight(&self) -> usize {
        self.model().in_flight()
    }

    fn power_cycle(&mut self, now: Nanos) {
        self.model_mut().power_cycle(now);
    }

    fn counters(&self) -> ModelCounters {
        self.model().counters()
    }

    fn is_collecting(&self) -> bool {
        self.model().is_collecting()
    }

    fn force_collection(&mut self, now: Nanos, on: bool) {
        self.model_mut().force_collection(now, on);
    }
}
