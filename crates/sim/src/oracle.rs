//! What a volume may hold, sector by sector: the model that every read is checked against.
//!
//! ```text
//!  time ──────────────────────────────────────────────────────────────>
//!    w1 [issued ... answered]      w3 [issued ...
//!            w2 [issued ... answered]         flush [issued ... answered]
//!
//!  w1 and w2 overlap in time: either may be the newer one. The flush covers both. After a
//!  crash the sectors hold w1, w2 or w3, and never what was there before.
//! ```
//! A write supersedes another if it was issued after the other had been answered. While the
//! machine runs, a read sees nothing that an answered write supersedes. After a crash, nothing
//! is seen that a *durable* write supersedes (answered with FUA, or covered by an answered
//! FLUSH), and of each write a page shows all or nothing.

mod versions;

use std::collections::BTreeMap;

use crate::content::{Found, SECTOR, identify};
use crate::failure::Failure;
pub use versions::{VolumeModel, WriteId};

/// All volumes of a pool. One clock, since a flush covers all of them.
#[derive(Clone, Default)]
pub struct Oracle {
    clock: u64,
    volumes: BTreeMap<String, VolumeModel>,
    volumes_made: u32,
}

/// A flush on its way: covers what had been answered when it was issued.
#[derive(Clone, Copy, Debug)]
pub struct FlushId(u64);

/// What a read that is on its way may find, as far as it is known when it is issued.
pub struct ReadTicket {
    first: u64,
    issued: u64,
    allowed: Vec<versions::Versions>,
}

impl Oracle {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    pub fn volume_add(&mut self, name: &str, bytes: u64) {
        self.volumes_made += 1;
        let model = VolumeModel::new(name, self.volumes_made, bytes / SECTOR as u64);
        let old = self.volumes.insert(name.to_owned(), model);
        assert!(old.is_none(), "a volume is made once");
    }

    pub fn volume_remove(&mut self, name: &str) {
        self.volumes.remove(name).expect("only what exists is removed");
    }

    /// A volume is about to grow to so many bytes.
    pub fn grow_begins(&mut self, name: &str, bytes: u64) {
        self.volume_mut(name).grow(bytes / SECTOR as u64);
    }

    /// It was told that it has grown.
    pub fn grow_ends(&mut self, name: &str) {
        self.volume_mut(name).has_grown();
    }

    /// After recovery a volume has so many bytes; takes that for the truth, if it can be.
    pub fn found_size(&mut self, name: &str, bytes: u64) -> bool {
        self.volume_mut(name).found_size(bytes / SECTOR as u64)
    }

    pub fn names(&self) -> Vec<String> {
        self.volumes.keys().cloned().collect()
    }

    pub fn volume(&self, name: &str) -> &VolumeModel {
        &self.volumes[name]
    }

    fn volume_mut(&mut self, name: &str) -> &mut VolumeModel {
        self.volumes.get_mut(name).expect("the volume is modelled")
    }

    /// A write (or trim, with `zeroes`) is about to be issued.
    pub fn write_begins(&mut self, name: &str, offset: u64, len: u64, zeroes: bool) -> WriteId {
        let now = self.tick();
        self.volume_mut(name).begin(now, offset / SECTOR as u64, len / SECTOR as u64, zeroes)
    }

    /// The bytes that a write must carry.
    pub fn bytes_of(&self, name: &str, write: WriteId) -> Vec<u8> {
        self.volume(name).bytes_of(write)
    }

    /// The write was answered: `ok`, or with an error, and then any part of it may be done.
    pub fn write_ends(&mut self, name: &str, write: WriteId, ok: bool, durable: bool) {
        let now = self.tick();
        self.volume_mut(name).end(now, write, ok, ok && durable);
    }

    pub fn flush_begins(&mut self) -> FlushId {
        FlushId(self.tick())
    }

    /// The flush was answered without error.
    pub fn flush_ends(&mut self, flush: FlushId) {
        self.tick();
        self.volumes.values_mut().for_each(|volume| volume.flushed(flush.0));
    }

    pub fn read_begins(&mut self, name: &str, offset: u64, len: u64) -> ReadTicket {
        let issued = self.tick();
        let first = offset / SECTOR as u64;
        let allowed = self.volume(name).allowed(first, len / SECTOR as u64);
        ReadTicket { first, issued, allowed }
    }

    /// Checks what a read returned while the machine was running.
    pub fn read_ends(&self, name: &str, ticket: ReadTicket, bytes: &[u8]) -> Result<(), Failure> {
        let ReadTicket { first, issued, mut allowed } = ticket;
        let volume = self.volume(name);
        let now = volume.allowed(first, allowed.len() as u64);
        for (at, sector) in bytes.chunks_exact(SECTOR).enumerate() {
            // Writes that were issued since; the lists are in that order.
            let newest = allowed[at].last().copied().unwrap_or(0);
            allowed[at].extend(now[at].iter().copied().filter(|&version| version > newest));
            let found = identify(sector);
            volume.check_live(first + at as u64, found, &allowed[at], issued)?;
        }
        Ok(())
    }

    /// A volume is no longer than so many bytes. All that was written to it is durable.
    pub fn shrunk(&mut self, name: &str, bytes: u64) {
        self.volume_mut(name).shrunk(bytes / SECTOR as u64);
    }

    /// Forgets writes that nobody can see any more. Nothing may be on its way.
    pub fn forget_hidden(&mut self) {
        self.volumes.values_mut().for_each(VolumeModel::forget_hidden);
    }

    /// Memory that the model itself takes, about.
    pub fn memory_bytes(&self) -> u64 {
        self.volumes.values().map(VolumeModel::memory_bytes).sum()
    }

    /// The machine died: whatever was on its way has ended, nobody knows how.
    pub fn crashed(&mut self) {
        let now = self.tick();
        self.volumes.values_mut().for_each(|volume| volume.crashed(now));
    }

    /// Checks what lies at `offset` (a multiple of the page) after recovery, and takes it for
    /// the truth from now on.
    pub fn recovered(&mut self, name: &str, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        let found: Vec<Found> = bytes.chunks_exact(SECTOR).map(identify).collect();
        self.volume_mut(name).recovered(offset / SECTOR as u64, &found)
    }
}
