//! What the drives of one array share: the staging space, who is busy, what is staged of whom.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use classical::Grid;
use classical::member::Member;
use format::Uuid;
use futures_util::future::join_all;
use io::sync::Turn;
use io::{Buf, Drive, Durability};

use super::record::{self, PAGE};
use super::space::{Division, Lease, Places, is_enough};
use super::table::Table;
use crate::part::Part;
use crate::range_lock::RangeLock;

/// Counted since the array was opened.
#[derive(Default)]
pub struct Counts {
    /// Writes to a busy drive that went to the staging space.
    pub redirected: Cell<u64>,
    /// Writes to drives that are not busy, of ranges with a redirected write.
    pub superseding: Cell<u64>,
    /// Writes to a busy drive because there was no room or no other drive.
    pub direct: Cell<u64>,
    /// Reads of redirected writes, and of hot copies.
    pub staged_reads: Cell<u64>,
    pub hot_reads: Cell<u64>,
    /// Reads of a busy drive that had to wait for it.
    pub busy_reads: Cell<u64>,
    pub migrated: Cell<u64>,
    /// Merged writes of redirected data to where it belongs.
    pub reclaims: Cell<u64>,
    pub reclaimed_bytes: Cell<u64>,
    /// Drives of which nothing was staged any more.
    pub deactivated: Cell<u64>,
}

pub fn count(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

/// A drive as far as it holds what is meant for others.
pub struct Holder<D: Drive> {
    /// Heads, and with reserved space the staging space after them.
    pub head: Rc<Member<Part<D>>>,
    /// The member that the staging space is on, if there is one.
    pub space: Option<Space<D>>,
    pub busy: Cell<bool>,
    /// A new drive took its place: of what the old one held for others it has nothing, and it holds
    /// nothing for them before the next opening.
    pub replaced: Cell<bool>,
}

pub struct Space<D: Drive> {
    pub member: Rc<Member<Part<D>>>,
    pub division: Division,
    pub segments: Places,
    pub hot_slots: Places,
}

/// R_Offset of a copy: byte of the holder's space where its data begins.
pub struct Copy {
    pub holder: usize,
    pub at: u64,
    /// Keeps the segment or slot from being used for something else while it is read.
    pub _lease: Rc<Lease>,
}

/// Where an entry of D_Table lies.
pub type Place = Rc<Vec<Copy>>;

/// A row's hot slot, of which those parts are valid that D_Table names.
pub struct Hot {
    /// When it was last read.
    pub last: u64,
    pub holder: usize,
    pub slot: Rc<Lease>,
}

/// What is staged of one drive.
#[derive(Default)]
pub struct Staged {
    pub table: Table<Place>,
    /// All segments with records of the present epoch.
    pub segments: Vec<Rc<Lease>>,
    /// By holder: the segment that is appended to, and how much of it is taken.
    pub open: BTreeMap<usize, (Rc<Lease>, u64)>,
    /// Rows with a hot copy.
    pub hot: BTreeMap<u64, Hot>,
    /// Hot copies on their way: void when their range is written.
    pub tickets: BTreeMap<u64, Range<u64>>,
    pub next: u64,
}

/// A drive of the array, as far as its writes may be elsewhere.
pub struct Target {
    pub lock: RangeLock,
    pub staged: RefCell<Staged>,
    /// It can't be used, or the newest bytes of it are gone with others.
    pub dead: Cell<bool>,
    /// What is being rebuilt: written in place however busy it is.
    pub exempt: RefCell<Range<u64>>,
    /// Written without being made durable.
    pub dirty: Cell<bool>,
    /// A dedicated drive holds writes of it, or is about to.
    pub steered: Cell<bool>,
}

/// The word of each drive, as the heads tell it.
pub struct Heads {
    pub words: RefCell<Vec<u64>>,
    /// What is durable on enough drives.
    pub written: RefCell<Vec<u64>>,
    pub sequence: Cell<u64>,
    pub turn: Turn,
}

pub struct Stage<D: Drive> {
    pub pool: Uuid,
    pub grid: Grid,
    /// Byte of each drive where its chunks begin.
    pub data_at: u64,
    /// Which drive is for staging only.
    pub dedicated: Option<usize>,
    pub align: u32,
    pub holders: Vec<Holder<D>>,
    pub targets: Vec<Target>,
    pub heads: Heads,
    pub sequence: Cell<u64>,
    /// Turns with every redirected write and every hot copy, so that they are interleaved.
    pub turn: Cell<usize>,
    pub hot_max: usize,
    /// Written back at a time, and left when writes are held up to finish.
    pub reclaim_bytes: u64,
    pub counts: Counts,
}

impl<D: Drive> Stage<D> {
    pub fn is_busy(&self, drive: usize) -> bool {
        self.holders[drive].busy.get()
    }

    /// Nothing may be read from it as if it were the drive: it failed, or writes to it are gone
    /// with the dedicated drive.
    pub fn is_dead(&self, target: usize) -> bool {
        let own = &self.targets[target];
        let gone = || {
            let dedicated = self.dedicated.is_some_and(|at| self.holders[at].is_lost());
            dedicated && own.staged.borrow().table.is_any_away()
        };
        own.dead.get() || self.holders[target].head.is_lost() || gone()
    }

    pub fn lost(&self) -> Vec<bool> {
        (0..self.targets.len()).map(|target| self.is_dead(target)).collect()
    }

    pub fn next_turn(&self) -> usize {
        self.turn.replace(self.turn.get().wrapping_add(1))
    }

    /// The drives' word of this one is durable on enough of them when this says true. Drives that
    /// collect garbage are written only if there are too few others.
    pub async fn seal(&self, target: usize) -> bool {
        let wanted = self.heads.words.borrow()[target];
        let is_written = || self.heads.written.borrow()[target] >= wanted;
        let _turn = self.heads.turn.lock().await;
        if is_written() {
            return true;
        }
        let words = self.heads.words.borrow().clone();
        let sequence = self.heads.sequence.replace(self.heads.sequence.get() + 1);
        let page = record::encode_head(&self.pool, sequence, &words);
        let mut holding = vec![false; self.holders.len()];
        // As it is now: a drive that stops being busy meanwhile must not be left out of both.
        let all = 0..self.holders.len();
        let (busy, idle): (Vec<usize>, Vec<usize>) = all.partition(|&at| self.is_busy(at));
        for due in [idle, busy] {
            let writes = due.iter().map(|&at| {
                let at_byte = sequence % 2 * PAGE;
                self.holders[at].head.write(at_byte, page.clone(), Durability::Durable)
            });
            for (at, done) in due.iter().zip(join_all(writes).await) {
                holding[*at] = done.is_ok();
            }
            let array = &holding[..self.targets.len()];
            if is_enough(&self.grid, &self.lost(), array) {
                *self.heads.written.borrow_mut() = words;
                return true;
            }
        }
        false
    }

    /// The dedicated drive may hold writes of it.
    pub fn is_claimed(&self, target: usize) -> bool {
        self.heads.words.borrow()[target] & 1 == 1
    }

    pub fn epoch(&self, target: usize) -> u64 {
        self.heads.words.borrow()[target] / 2
    }

    /// Records of this drive are void once this is sealed.
    pub fn raise(&self, target: usize) {
        let word = &mut self.heads.words.borrow_mut()[target];
        *word = (*word / 2 + 1) * 2;
    }

    /// Reads from whichever copy can be read, those of drives that are not busy first.
    pub async fn read_copies(&self, place: &Place, skip: u64, len: u64) -> Option<Buf> {
        let turn = self.next_turn();
        let mut order: Vec<usize> = (0..place.len()).collect();
        order.sort_by_key(|at| (self.is_busy(place[*at].holder), (at + turn) % place.len()));
        for at in order {
            let Copy { holder, at, .. } = &place[at];
            let Some(space) = self.holders[*holder].readable() else { continue };
            if let Ok(bytes) = space.member.read(at + skip, len).await {
                return Some(bytes);
            }
        }
        None
    }
}

impl<D: Drive> Holder<D> {
    /// The staging space, if copies there may be read.
    pub fn readable(&self) -> Option<&Space<D>> {
        self.space.as_ref().filter(|_| !self.replaced.get())
    }

    pub fn is_lost(&self) -> bool {
        self.replaced.get()
            || self.head.is_lost()
            || self.space.as_ref().is_some_and(|space| space.member.is_lost())
    }
}
