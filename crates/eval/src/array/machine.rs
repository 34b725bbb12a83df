//! What drives of an experiment are made of. A copy goes on where the original was.

use io::model::{Command, Completion, Model, ModelCounters, Tag};
use io::{Geometry, Nanos};
use model::hdd::Hdd;
use model::presets::Preset;
use model::ssd::{Snapshot, Ssd};

#[derive(Clone)]
pub enum Machine {
    Ssd(Box<Ssd>),
    Disk(Box<Hdd>),
}

impl Machine {
    /// Old as the snapshot, but for its own seed.
    pub fn ssd(snapshot: &Snapshot, seed: u64) -> Machine {
        Machine::Ssd(Box::new(Ssd::from_snapshot(snapshot, seed)))
    }

    /// The hard disk of LDM's log.
    pub fn disk(bytes: u64, seed: u64) -> Result<Machine, String> {
        let config = Preset::Hdd10k.hdd_config(bytes);
        let config = config.ok_or("this preset is no hard disk")?;
        let disk = Hdd::new(config, seed).map_err(|error| error.to_string())?;
        Ok(Machine::Disk(Box::new(disk)))
    }

    fn model(&self) -> &dyn Model {
        match self {
            Machine::Ssd(ssd) => &**ssd,
            Machine::Disk(disk) => &**disk,
        }
    }

    fn model_mut(&mut self) -> &mut dyn Model {
        match self {
            Machine::Ssd(ssd) => &mut **ssd,
            Machine::Disk(disk) => &mut **disk,
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
