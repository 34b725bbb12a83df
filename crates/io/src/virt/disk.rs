//! A disk: its content, its faults, its counters. It outlives machines and power cuts.

use std::cell::RefCell;
use std::rc::Rc;

use super::cache::{Cache, CutMode};
use super::platter::SECTOR;
use super::port::ModelPort;
use crate::buf::Buf;
use crate::drive::{DriveErrorKind, Durability, Geometry, Operation};
use crate::rng::{Rng, mix};

/// Input/output error, what a drive with a bad sector answers.
const EIO: i32 = 5;

/// A handle on one virtual disk. Use it through [`VirtDrive`](super::VirtDrive).
#[derive(Clone)]
pub struct Disk {
    state: Rc<RefCell<DiskState>>,
}

struct DiskState {
    name: String,
    geometry: Geometry,
    /// Names the disk in traces.
    id: u64,
    cache: Cache,
    /// Decides what is left of failed and abandoned writes.
    rng: Rng,
    counters: Counters,
    failed: bool,
    /// Armed by a test, each fires once.
    faults: Vec<Fault>,
    power_cycles: u64,
    /// What gives it its timing, if it was attached with one.
    model: Option<ModelPort>,
    takes_write_zeroes: bool,
    /// What it gives after such a command is anything.
    garbles_zeroes: bool,
    /// Of a million writes these are answered and not done.
    loses: u32,
}

#[derive(Clone)]
struct Fault {
    operation: Operation,
    /// So many operations are still to come, this one included.
    countdown: u64,
    kind: DriveErrorKind,
}

/// What a disk was asked for. Failed operations count, refused ones (disk gone) don't.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub reads: u64,
    pub writes: u64,
    pub flushes: u64,
    pub discards: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub bytes_discarded: u64,
}

impl Disk {
    /// An empty disk. `seed` decides garbage and torn writes.
    pub fn new(name: impl Into<String>, size: u64, align: u32, seed: u64) -> Disk {
        let geometry = Geometry { size, align, atomic: SECTOR as u32, rotational: false };
        Disk::with_geometry(name, geometry, seed)
    }

    pub fn with_geometry(name: impl Into<String>, geometry: Geometry, seed: u64) -> Disk {
        let Geometry { size, align, atomic, .. } = geometry;
        assert!(align.is_power_of_two() && align >= 512 && size.is_multiple_of(u64::from(align)));
        // So every write is made of whole units.
        assert!(atomic.is_power_of_two() && (SECTOR as u32..=align).contains(&atomic));
        let name = name.into();
        let id = name.bytes().fold(0, |id, byte| mix(id ^ u64::from(byte) ^ 0x100));
        let state = DiskState {
            name,
            geometry,
            id,
            cache: Cache::new(mix(seed) ^ id, u64::from(atomic)),
            rng: Rng::new(seed ^ id),
            counters: Counters::default(),
            failed: false,
            faults: Vec::new(),
            power_cycles: 0,
            model: None,
            takes_write_zeroes: true,
            garbles_zeroes: false,
            loses: 0,
        };
        Disk { state: Rc::new(RefCell::new(state)) }
    }

    /// Whole units of reads and writes are old or new after a power cut; else sectors of 512 bytes.
    pub fn without_torn_units(self) -> Disk {
        let atomic = {
            let mut state = self.state.borrow_mut();
            state.geometry.atomic = state.geometry.align;
            u64::from(state.geometry.atomic)
        };
        self.with_cache(|cache| cache.tear_at(atomic));
        self
    }

    /// It has no command for zeroes that take no space.
    pub fn without_write_zeroes(self) -> Disk {
        self.state.borrow_mut().takes_write_zeroes = false;
        self
    }

    /// From now on it takes zeroes as a discard, after which it gives anything: a drive that lies.
    pub fn garble_zeroes(&self) {
        self.state.borrow_mut().garbles_zeroes = true;
    }

    /// From now on it answers so many of a million writes without doing them: a drive that lies.
    pub fn lose_writes(&self, per_million: u32) {
        self.state.borrow_mut().loses = per_million;
    }

    /// Whether it does so with the next.
    pub(super) fn loses(&self) -> bool {
        let mut state = self.state.borrow_mut();
        let per_million = u64::from(state.loses);
        per_million > 0 && state.rng.chance(per_million, 1_000_000)
    }

    pub(super) fn garbles_zeroes(&self) -> bool {
        self.state.borrow().garbles_zeroes
    }

    pub(super) fn takes_write_zeroes(&self) -> bool {
        self.state.borrow().takes_write_zeroes
    }

    /// With capacitors: every write that has completed survives a power cut.
    pub fn with_power_loss_protection(self) -> Disk {
        self.with_cache(Cache::protect);
        self
    }

    /// Keeps no page that is all zeroes, so that runs whose clients write zeroes cost the
    /// memory of metadata alone. Nothing is volatile: what has completed survives.
    pub fn with_zeroes_dropped(self) -> Disk {
        self.with_cache(Cache::drop_zeroes);
        self
    }

    pub fn name(&self) -> String {
        self.state.borrow().name.clone()
    }

    pub fn geometry(&self) -> Geometry {
        self.state.borrow().geometry
    }

    pub fn counters(&self) -> Counters {
        self.state.borrow().counters
    }

    /// Decides the fate of every write that isn't durable. Every drive attached before is dead
    /// from then on: its operations fail with [`DriveErrorKind::Removed`].
    pub fn power_cut(&self, rng: &mut Rng, mode: CutMode) {
        let mut state = self.state.borrow_mut();
        state.power_cycles += 1;
        state.cache.power_cut(rng, mode);
        let model = state.model.clone();
        // The model lets events happen, which come back here.
        drop(state);
        if let Some(port) = model {
            port.power_cycle();
        }
    }

    /// Pulls the disk out (all operations fail, also those in flight) or puts it back.
    pub fn set_failed(&self, failed: bool) {
        self.state.borrow_mut().failed = failed;
        if !failed {
            self.settle();
        }
    }

    pub fn is_failed(&self) -> bool {
        self.state.borrow().failed
    }

    /// A disk of its own that holds the same, what is only cached included. Writes in flight are
    /// undecided on it, as if its machine had crashed. It has no model until it is attached.
    pub fn fork(&self) -> Disk {
        let state = self.state.borrow();
        let fork = DiskState {
            name: state.name.clone(),
            cache: state.cache.fork(),
            rng: state.rng.clone(),
            faults: state.faults.clone(),
            model: None,
            ..*state
        };
        Disk { state: Rc::new(RefCell::new(fork)) }
    }

    /// From now on `seed` decides about torn writes: copies need not tear alike.
    pub fn reseed(&self, seed: u64) {
        let mut state = self.state.borrow_mut();
        state.rng = Rng::new(seed ^ state.id);
    }

    /// Lets the `n`th write from now fail (1 is the next), with any part of it done.
    pub fn fail_nth_write(&self, n: u64) {
        self.fail_nth(Operation::Write, n, DriveErrorKind::Os(EIO));
    }

    /// Lets the `n`th read from now fail (1 is the next).
    pub fn fail_nth_read(&self, n: u64) {
        self.fail_nth(Operation::Read, n, DriveErrorKind::Os(EIO));
    }

    pub fn fail_nth(&self, operation: Operation, n: u64, kind: DriveErrorKind) {
        assert!(n > 0, "the next operation is number 1");
        self.state.borrow_mut().faults.push(Fault { operation, countdown: n, kind });
    }

    /// Changes every byte of the range behind everybody's back.
    pub fn corrupt(&self, offset: u64, len: u64, seed: u64) {
        assert!(offset + len <= self.geometry().size, "corrupts what is there");
        self.state.borrow_mut().cache.corrupt(offset, len, seed);
    }

    /// Changes whole sectors to these behind everybody's back.
    pub fn mix_up(&self, offset: u64, bytes: &[u8]) {
        self.with_cache(|cache| cache.put(offset, Buf::from_slice(bytes)));
    }

    /// What a read would return now. Takes no time, never fails.
    pub fn peek(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.state.borrow().cache.read(offset, &mut bytes);
        bytes
    }

    /// What a read would return after a power cut that loses all it can.
    pub fn peek_durable(&self, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.state.borrow().cache.read_durable(offset, &mut bytes);
        bytes
    }

    /// Number of writes whose fate a power cut would decide.
    pub fn undecided_writes(&self) -> usize {
        self.state.borrow().cache.undecided()
    }

    /// Memory the content takes.
    pub fn stored_bytes(&self) -> u64 {
        self.state.borrow().cache.stored_bytes()
    }

    /// Memory that the disk takes in all, about.
    pub fn memory_bytes(&self) -> u64 {
        self.state.borrow().cache.memory_bytes()
    }

    /// Takes a model as the disk's own.
    pub(super) fn join(&self, port: &ModelPort) {
        let modelled = port.with_model(|_, model| model.geometry());
        assert_eq!(modelled.size, self.geometry().size, "the model of another drive");
        assert!(self.geometry().align >= modelled.align, "finer than its model");
        self.state.borrow_mut().model = Some(port.clone());
    }

    pub(super) fn id(&self) -> u64 {
        self.state.borrow().id
    }

    pub(super) fn power_cycles(&self) -> u64 {
        self.state.borrow().power_cycles
    }

    /// Decides what became of writes whose machine crashed.
    pub(super) fn settle(&self) {
        let state = &mut *self.state.borrow_mut();
        state.cache.settle(&mut state.rng);
    }

    /// Counts an operation; says if a fault was armed for it.
    pub(super) fn count(&self, operation: Operation, len: u64) -> Option<DriveErrorKind> {
        let state = &mut *self.state.borrow_mut();
        let counters = &mut state.counters;
        match operation {
            Operation::Read => {
                counters.reads += 1;
                counters.bytes_read += len;
            }
            Operation::Write => {
                counters.writes += 1;
                counters.bytes_written += len;
            }
            Operation::Flush => counters.flushes += 1,
            Operation::Discard => {
                counters.discards += 1;
                counters.bytes_discarded += len;
            }
        }
        // Two may be due at one operation: the second meets the next of its kind.
        let meets = |fault: &Fault| fault.operation == operation;
        state.faults.iter_mut().filter(|fault| meets(fault)).for_each(|fault| {
            fault.countdown = fault.countdown.saturating_sub(1);
        });
        let due = state.faults.iter().position(|fault| meets(fault) && fault.countdown == 0)?;
        Some(state.faults.swap_remove(due).kind)
    }

    pub(super) fn with_cache<T>(&self, act: impl FnOnce(&mut Cache) -> T) -> T {
        act(&mut self.state.borrow_mut().cache)
    }

    pub(super) fn submit(&self, offset: u64, data: Buf) -> InFlight {
        let id = self.with_cache(|cache| cache.submit(offset, data));
        InFlight { disk: self.clone(), id }
    }
}

/// A write in flight. Dropped without completion it stays undecided.
pub(super) struct InFlight {
    disk: Disk,
    id: u64,
}

impl InFlight {
    pub(super) fn complete(self, durability: Durability) {
        self.disk.with_cache(|cache| cache.complete(self.id, durability));
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.disk.with_cache(|cache| cache.abandon(self.id));
    }
}
