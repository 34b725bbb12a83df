//! Modelled drives at rest, and the worlds that are woken from them, each like the other.
//!
//! Making an aged drive and filling a pool take longer than most measurements; so both are done
//! once, and every measurement starts from a copy.

use std::cell::RefCell;
use std::rc::Rc;

use io::faulty::Faults;
use io::model::{Command, Completion, Model, ModelCounters, Tag};
use io::rng::mix;
use io::virt::{Disk, ModelPort, VirtDrive, VirtEnv};
use io::{AnyDrive, Env, Faulty, Geometry, Nanos};
use model::presets::Preset;
use model::ssd::{Fill, Snapshot};

use super::machine::Machine;
use super::prepare::Trim;
use super::watch::{Watch, Watched};

/// What drives, and how many.
#[derive(Clone, Copy, Debug)]
pub struct Shelf {
    pub preset: Preset,
    pub fill: Fill,
    pub drive_bytes: u64,
    pub drives: usize,
    /// So many of them, the last ones but for spares, are hard disks.
    pub disks: usize,
    /// Of the size of an SSD.
    pub disk_percent: u64,
    /// Bytes of protected write cache before each of those.
    pub disk_cache: u64,
    pub spares: usize,
    pub trim: Trim,
    pub seed: u64,
}

impl Shelf {
    /// Aged SSDs, trimmed as `create` does.
    pub fn solid(preset: Preset, drive_bytes: u64, drives: usize, seed: u64) -> Shelf {
        let (disks, disk_percent, disk_cache, spares) = (0, 100, 0, 0);
        Shelf {
            preset,
            fill: Fill::Aged,
            trim: Trim::Trimmed,
            drive_bytes,
            drives,
            disks,
            disk_percent,
            disk_cache,
            spares,
            seed,
        }
    }

    fn disk_bytes(&self) -> u64 {
        const STEP: u64 = 1 << 20;
        self.drive_bytes * self.disk_percent / 100 / STEP * STEP
    }

    fn is_disk(&self, at: usize) -> bool {
        let end = self.drives.saturating_sub(self.spares);
        (end.saturating_sub(self.disks)..end).contains(&at)
    }
}

/// Drives with nothing under way.
pub struct Rest {
    at: Nanos,
    disks: Vec<Disk>,
    machines: Vec<Machine>,
}

impl Rest {
    /// Drives that hold nothing of ours: each aged or written on its own.
    pub fn of(shelf: &Shelf) -> Result<Rest, String> {
        let config = shelf.preset.ssd_config(shelf.drive_bytes);
        let config = config.ok_or("experiments with arrays want SSDs")?;
        let config = model::ssd::Config { fill: shelf.fill, ..config };
        let snapshot = Snapshot::new(config, shelf.seed).map_err(|error| error.to_string())?;
        let machine = |at: usize| {
            let seed = mix(shelf.seed ^ mix(at as u64 + 1));
            match shelf.is_disk(at) {
                true => Machine::disk(shelf.disk_bytes(), shelf.disk_cache, seed),
                false => Ok(Machine::ssd(&snapshot, seed)),
            }
        };
        let machines = (0..shelf.drives).map(machine).collect::<Result<Vec<Machine>, String>>()?;
        let disk = |(at, machine): (usize, &Machine)| {
            let name = format!("d{at}");
            Disk::with_geometry(name, machine.geometry(), shelf.seed).with_zeroes_dropped()
        };
        let disks = machines.iter().enumerate().map(disk).collect();
        Ok(Rest { at: Nanos::ZERO, disks, machines })
    }

    /// A world that goes on where these drives were put to rest.
    pub fn wake(&self, seed: u64) -> World {
        let env = VirtEnv::fifo(seed);
        env.block_on(env.sleep_until(self.at));
        let watch = Watch::new(&env);
        let each = self.disks.iter().zip(&self.machines).enumerate();
        let members = each.map(|(at, (disk, machine))| {
            let machine = Rc::new(RefCell::new(machine.clone()));
            let port = ModelPort::new(&env, Box::new(Handle(machine.clone())));
            let disk = disk.fork();
            let drive = VirtDrive::attach(&env, &disk, port.clone());
            let faults = Faults::new(mix(seed ^ at as u64));
            let faulty = Faulty::new(&env, drive, &faults);
            let drive = AnyDrive::new(Watched::new(&watch, at, faulty, port.clone()));
            Member { disk, machine, port, faults, drive: drive.into() }
        });
        let members = members.collect();
        World { env, watch, members }
    }
}

struct Member {
    disk: Disk,
    machine: Rc<RefCell<Machine>>,
    port: ModelPort,
    faults: Faults,
    drive: VirtDrive,
}

/// A machine with its drives.
pub struct World {
    pub env: VirtEnv,
    pub watch: Watch,
    members: Vec<Member>,
}

impl World {
    pub fn drives(&self) -> Vec<VirtDrive> {
        self.members.iter().map(|member| member.drive.clone()).collect()
    }

    /// The models of the first so many drives.
    pub fn ports(&self, drives: usize) -> Vec<ModelPort> {
        self.members[..drives].iter().map(|member| member.port.clone()).collect()
    }

    /// Says after the world's end whether anything of it is left.
    pub fn remains(&self) -> impl Fn() -> bool + use<> {
        let models: Vec<_> = self.members.iter().map(|one| Rc::downgrade(&one.machine)).collect();
        move || models.iter().any(|model| model.strong_count() > 0)
    }

    /// What can go wrong with a drive.
    pub fn faults(&self, drive: usize) -> &Faults {
        &self.members[drive].faults
    }

    /// What each drive has done.
    pub fn each_counters(&self) -> Vec<ModelCounters> {
        counted(&self.ports(self.members.len()))
    }

    /// What all drives have done together.
    pub fn counters(&self) -> ModelCounters {
        sum(&self.each_counters())
    }

    /// Whether any drive collects now.
    pub fn is_collecting(&self) -> bool {
        let collecting = |one: &Member| one.port.with_model(|_, model| model.is_collecting());
        self.members.iter().any(collecting)
    }

    /// Ends the machine; its drives stay as they are. Nothing may be under way.
    pub fn rest(self) -> Rest {
        let at = self.env.now();
        let machines = self.members.iter().map(|member| {
            member.port.with_model(|_, model| assert_eq!(model.in_flight(), 0, "not at rest"));
            member.machine.borrow().clone()
        });
        let machines = machines.collect();
        let disks = self.members.iter().map(|member| member.disk.fork()).collect();
        Rest { at, disks, machines }
    }
}

/// What each of these drives has done.
pub fn counted(ports: &[ModelPort]) -> Vec<ModelCounters> {
    let counters = |port: &ModelPort| port.with_model(|_, model| model.counters());
    ports.iter().map(counters).collect()
}

/// Together.
pub fn sum(each: &[ModelCounters]) -> ModelCounters {
    each.iter().fold(ModelCounters::default(), |sum, one| ModelCounters {
        submitted: sum.submitted + one.submitted,
        completed: sum.completed + one.completed,
        host_read_bytes: sum.host_read_bytes + one.host_read_bytes,
        host_write_bytes: sum.host_write_bytes + one.host_write_bytes,
        trimmed_bytes: sum.trimmed_bytes + one.trimmed_bytes,
        flash_write_bytes: sum.flash_write_bytes + one.flash_write_bytes,
        moved_bytes: sum.moved_bytes + one.moved_bytes,
        flash_read_bytes: sum.flash_read_bytes + one.flash_read_bytes,
        erases: sum.erases + one.erases,
        collections: sum.collections + one.collections,
        buffer_flushes: sum.buffer_flushes + one.buffer_flushes,
    })
}

impl Drop for World {
    /// Tasks hold the world they live in.
    fn drop(&mut self) {
        if let Some(book) = &self.watch.book {
            book.close();
        }
        self.env.crash();
    }
}

/// A model that two hold: the drive that asks it, and the world that copies it.
struct Handle(Rc<RefCell<Machine>>);

impl Model for Handle {
    fn geometry(&self) -> Geometry {
        self.0.borrow().geometry()
    }

    fn submit(&mut self, now: Nanos, tag: Tag, command: Command) {
        self.0.borrow_mut().submit(now, tag, command);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.0.borrow().next_event()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        self.0.borrow_mut().advance(now, done);
    }

    fn in_flight(&self) -> usize {
        self.0.borrow().in_flight()
    }

    fn power_cycle(&mut self, now: Nanos) {
        self.0.borrow_mut().power_cycle(now);
    }

    fn counters(&self) -> ModelCounters {
        self.0.borrow().counters()
    }

    fn is_collecting(&self) -> bool {
        self.0.borrow().is_collecting()
    }

    fn force_collection(&mut self, now: Nanos, on: bool) {
        self.0.borrow_mut().force_collection(now, on);
    }
}
