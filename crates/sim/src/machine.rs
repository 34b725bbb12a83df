//! Drives that outlive the machine they are in, and the ways a machine dies.

use std::collections::{BTreeMap, BTreeSet};

use engine::{
    CreateError, CreatePlan, CreateSpec, Label, OpenError, OpenOptions, Pool, SpikeHandling,
    create, read_label,
};
use io::faulty::{Faults, Faulty};
use io::rng::{Rng, mix};
use io::virt::{Attached, CutMode, Disk, Latency, ModelPort, VirtDrive, VirtEnv};
use io::{AnyDrive, Buf, Drive, Durability, Model, Nanos};

use crate::content::{Found, SECTOR, identify};

/// How a machine dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Death {
    /// kill -9: the drives keep their caches, writes in flight end somehow.
    Kill,
    /// The power goes, and with it what the drives had not made durable.
    Power(CutMode),
}

impl Death {
    pub const ALL: [Death; 4] = [
        Death::Kill,
        Death::Power(CutMode::DropAll),
        Death::Power(CutMode::KeepAll),
        Death::Power(CutMode::Random),
    ];

    pub fn draw(rng: &mut Rng) -> Death {
        match rng.below(8) {
            0 => Death::Kill,
            1 => Death::Power(CutMode::DropAll),
            2 => Death::Power(CutMode::KeepAll),
            _ => Death::Power(CutMode::Random),
        }
    }
}

/// A disk on which a drive is copied. Whether it is the member now the pool alone knows.
pub struct Beside {
    pub at: usize,
    pub disk: Disk,
    /// What its label calls it, if that is nobody else's name.
    pub uuid: Option<String>,
}

pub struct Machine {
    pub env: VirtEnv,
    pub disks: Vec<Disk>,
    /// What goes wrong with each of them, beside power.
    pub faults: Vec<Faults>,
    /// Disks that are to take a drive's place, and the drives that they say they are.
    pub beside: Vec<Beside>,
    /// Models that give them their timing, if they are modelled.
    ports: Vec<ModelPort>,
    /// Whether the machine sees the disks through their faults.
    with_faults: bool,
    /// When lost drives are rebuilt by the others, if at all.
    pub rebuild_after: Option<Nanos>,
    /// What pools do about spikes.
    pub spikes: SpikeHandling,
    /// Drives that are not plugged in.
    pub unplugged: BTreeSet<usize>,
    /// Drives that answered flushes and durable writes, and after the next power cut show what
    /// they held before. Canaries: the checks must notice.
    liars: BTreeMap<usize, Vec<u8>>,
    fate: Rng,
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.env.crash();
    }
}

impl Machine {
    pub fn new(seed: u64, drives: usize, bytes: u64, with_faults: bool) -> Machine {
        let disk = |at: usize| Disk::new(format!("d{at}"), bytes, 4096, seed ^ at as u64);
        Machine {
            env: VirtEnv::new(seed),
            disks: (0..drives).map(disk).collect(),
            faults: (0..drives).map(|at| Faults::new(mix(seed) ^ mix(at as u64))).collect(),
            beside: Vec::new(),
            ports: Vec::new(),
            with_faults,
            spikes: SpikeHandling::default(),
            rebuild_after: None,
            unplugged: BTreeSet::new(),
            liars: BTreeMap::new(),
            fate: Rng::new(seed ^ 0xfa7e),
        }
    }

    /// A blank drive of another size takes a drive's place.
    pub fn enlarge(&mut self, at: usize, bytes: u64, seed: u64) {
        self.disks[at] = Disk::new(format!("d{at}"), bytes, 4096, seed ^ at as u64);
    }

    /// From now on a drive takes as long as its model says.
    pub fn model(&mut self, models: Vec<Box<dyn Model>>) {
        let port = |model| ModelPort::new(&self.env, model);
        self.ports = models.into_iter().map(port).collect();
    }

    /// A drive that joins is modelled, too, if the others are.
    pub fn model_another(&mut self, model: Box<dyn Model>) {
        self.ports.push(ModelPort::new(&self.env, model));
    }

    /// Handles on the drives that are plugged in.
    pub fn drives(&self) -> Vec<VirtDrive> {
        let plugged = self.disks.iter().enumerate().filter(|(at, _)| !self.unplugged.contains(at));
        let labelled = self.beside.iter().filter(|beside| beside.uuid.is_some());
        let beside = labelled.map(|beside| self.attach(beside.at, &beside.disk));
        plugged.map(|(at, disk)| self.attach(at, disk)).chain(beside).collect()
    }

    /// A disk in a place, through what goes wrong with it there.
    pub fn attach(&self, at: usize, disk: &Disk) -> VirtDrive {
        let attached = match self.ports.get(at) {
            Some(port) => Attached::new(&self.env, disk, port.clone()),
            None => Attached::new(&self.env, disk, Latency::SSD),
        };
        // Drives that are about to join have none yet.
        if !self.with_faults || at >= self.faults.len() {
            return attached.into();
        }
        AnyDrive::new(Faulty::new(&self.env, attached, &self.faults[at])).into()
    }

    pub async fn create(&self, spec: &CreateSpec) -> Result<CreatePlan, CreateError> {
        create(&self.env, &self.drives(), spec).await
    }

    pub async fn open(&self) -> Result<Pool<VirtEnv>, OpenError> {
        let (spikes, rebuild_after) = (self.spikes, self.rebuild_after);
        let options = OpenOptions { spikes, rebuild_after, ..OpenOptions::default() };
        Pool::open(&self.env, self.drives(), options).await
    }

    pub async fn open_read_only(&self) -> Result<Pool<VirtEnv>, OpenError> {
        let options =
            OpenOptions { read_only: true, spikes: self.spikes, ..OpenOptions::default() };
        Pool::open(&self.env, self.drives(), options).await
    }

    /// From now on the drive keeps nothing over the next power cut, whatever it says.
    pub fn starts_lying(&mut self, drive: usize) {
        let disk = &self.disks[drive];
        self.liars.insert(drive, disk.peek(0, disk.geometry().size as usize));
    }

    /// Changes bytes of pages that hold clients' data, behind everybody's back.
    pub fn rot(&mut self, drive: usize) {
        let disk = &self.disks[drive];
        let bytes = disk.peek(0, disk.geometry().size as usize);
        let pages = bytes.chunks_exact(4096).enumerate();
        let data = pages.filter(|(_, page)| matches!(identify(&page[..SECTOR]), Found::Data(_)));
        let data: Vec<usize> = data.map(|(at, _)| at).collect();
        for page in data.into_iter().filter(|_| self.fate.chance(1, 2)) {
            disk.corrupt(page as u64 * 4096, SECTOR as u64, 1);
        }
    }

    /// Puts back what the drive held once. An armed write error may be in the way of the first
    /// attempts; each fires once.
    fn go_back(&self, drive: usize, held: &[u8]) {
        let disk = VirtDrive::attach(&self.env, &self.disks[drive], Latency::SSD);
        let held = Buf::from_slice(held);
        let write = || disk.write(0, held.clone(), Durability::Durable);
        while self.env.block_on(write()).is_err() {}
    }

    /// The machine stops here. Everything that ran on it is gone.
    pub fn die(&mut self, death: Death) {
        self.env.crash();
        if let Death::Power(mode) = death {
            self.cut_power(mode);
        }
        let names: Vec<_> = self.beside.iter().map(|beside| self.name_of(&beside.disk)).collect();
        let others: Vec<_> = self.disks.iter().filter(|_| !names.is_empty()).collect();
        let others: Vec<_> = others.into_iter().filter_map(|disk| self.name_of(disk)).collect();
        for (beside, name) in self.beside.iter_mut().zip(names) {
            beside.uuid = name.filter(|name| !others.contains(name));
        }
    }

    /// What a disk's label calls it.
    pub fn name_of(&self, disk: &Disk) -> Option<String> {
        Some(self.names_on(disk)?.0)
    }

    /// The same, and which drive it is to replace.
    pub fn names_on(&self, disk: &Disk) -> Option<(String, Option<String>)> {
        let drive = VirtDrive::attach(&self.env, disk, Latency::SSD);
        match self.env.block_on(read_label(&drive)) {
            Ok(Label::Ours(label)) => {
                Some((label.drive.to_string(), label.replaces.map(|old| old.to_string())))
            }
            _ => None,
        }
    }

    fn cut_power(&mut self, mode: CutMode) {
        for disk in self.disks.iter().chain(self.beside.iter().map(|beside| &beside.disk)) {
            disk.power_cut(&mut self.fate, mode);
        }
        for (drive, held) in std::mem::take(&mut self.liars) {
            let disk = &self.disks[drive];
            let was_failed = disk.is_failed();
            disk.set_failed(false);
            self.go_back(drive, &held);
            self.disks[drive].set_failed(was_failed);
        }
    }
}
