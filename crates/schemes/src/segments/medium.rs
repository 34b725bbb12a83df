//! What a log lies on: places for segments, and how many copies of each.

use classical::{Mending, Unread};
use format::Uuid;
use io::Buf;

use super::bytes::Head;
use crate::store::StoreError;

/// A segment that opening found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub head: Head,
}

/// Places have numbers; which of them are free is the medium's to know.
pub trait Medium: 'static {
    /// All numbers are below.
    fn numbers(&self) -> u32;

    /// Segments that writers append to in turn.
    fn heads(&self) -> usize;

    /// Most blocks of one record.
    fn record_blocks(&self) -> usize;

    /// The segments that there are, each once; their places are not free from now on.
    fn scan(&self, pool: &Uuid) -> impl Future<Output = Result<Vec<Found>, StoreError>>;

    /// A free place, and that of its second copy. `cleaner`: also of those kept for cleaning.
    fn take(&self, cleaner: bool) -> Option<(u32, u32)>;

    fn give_back(&self, number: u32);

    /// Places that writers can take one after the other.
    fn room(&self) -> u32;

    /// How many copies there would be room for where that is scarce, if this one were given back.
    fn gain(&self, number: u32) -> u32;

    /// How many copies there would be less room for where that is scarce, with one more taken.
    fn cost(&self) -> u32;

    /// Whether it is as redundant as a new one would be.
    fn is_whole(&self, number: u32) -> bool;

    /// Writes all copies; at least one is there when this returns without an error.
    fn write(
        &self,
        number: u32,
        at: u64,
        data: Buf,
        through: bool,
    ) -> impl Future<Output = Result<(), StoreError>>;

    /// `wanted`: the sums of its pages, as far as they are known. A medium that looks after what
    /// it gives by itself need not look at them.
    fn read(
        &self,
        number: u32,
        at: u64,
        len: u64,
        wanted: &[u32],
    ) -> impl Future<Output = Result<Buf, StoreError>>;

    /// The same bytes as each copy has them; those that can't be read are left out.
    fn read_copies(
        &self,
        number: u32,
        at: u64,
        len: u64,
    ) -> impl Future<Output = Result<Vec<Buf>, StoreError>>;

    fn flush(&self) -> impl Future<Output = Result<(), StoreError>>;
}

/// A medium that keeps copies by itself, so that a scrub can look at each of them.
pub trait Copied: Medium {
    /// The places of a segment that can be asked.
    fn copies(&self, number: u32) -> Vec<u32>;

    /// If every page passes for its sum, as far as these are known.
    fn read_copy(
        &self,
        place: u32,
        at: u64,
        len: u64,
        wanted: &[u32],
    ) -> impl Future<Output = Result<Buf, Unread>>;

    /// Puts a page right that could not be read, and tells it. Durable when this returns.
    fn rewrite(
        &self,
        number: u32,
        place: u32,
        at: u64,
        page: Buf,
        unread: Unread,
    ) -> impl Future<Output = ()>;

    /// No copy of a page is what was written: told once for each place and sum.
    fn tell_lost(&self, place: u32, at: u64, sum: u32, unread: Unread);

    /// What was found bad.
    fn mending(&self) -> &Mending;
}
