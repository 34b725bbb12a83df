//! `steering`: GC-aware request steering over RAID5, RAID6 or RAID1.
//!
//! Idea: while a drive collects garbage, what would be written to it goes to a staging space on
//! drives that don't, and so do reads of what is read often; afterwards it goes back. The array
//! itself stays as it is: parity is written to its place as ever, so a redirected chunk is a member
//! of its stripe that happens to lie elsewhere. A parity chunk whose drive is busy is redirected
//! alike. Reads of a busy drive that are neither redirected nor popular wait for it, as in the
//! paper. A lost drive is rebuilt at once into the reserved space of the others, in parallel, if
//! there is room; a new drive gets it from there. Without room a new drive is filled in place, and
//! meanwhile all writes of data to its group, and popular reads, go to the staging space.
//!
//! ```text
//!  RAID5 of 5, drive 3 collects          reserved space          or a dedicated drive
//!   d0    d1    d2    d3    d4           on the other drives
//!  [ a ] [ b ] [ c ] [ D ] [ P ]         d0: [head|D]  d2: [head|D]    [head|D]
//!                      │     └ new parity, in place
//!                      └ not written now: D goes to the right, and back when d3 has collected
//! ```
//! Durable at acknowledgement (FUA or after FLUSH): data and parity as without steering, the
//! redirected ones as records whose headers say where they belong: D_Table is read from them.
//! One failure: with reserved space a redirected write has p+1 copies on drives of one group that
//! are not busy and not its own. On a dedicated drive it has one copy, of one drive of a group at a
//! time: if the dedicated drive is lost, parity still tells that drive's bytes.
//! Two failures: with a RAID6 base; with RAID5, too, once the first lost drive is whole in the
//! staging space, which is an array as redundant as the base: of w - 1 drives, labels and log of
//! its own. For that each drive reserves one and a half times its bytes / (w - 1 - p) + 3 MiB + 64
//! chunks. Two drives lost before the first was begun on wait for new ones.
//! Device writes per user write: no drive busy: as the base. Its data drive or its parity drive
//! busy: that write is replaced by c records, each a page longer; c = p+1 with reserved space, 1
//! with a dedicated drive; likewise the partial-parity log if its drive is busy. Reclaiming: one
//! write for each merged run, then a page on every drive that is not busy. A new drive filled: data
//! as if its drive were busy, parity as the base. A drive in the staging space: what would be
//! written to it is a write of a smaller RAID5 or RAID6, and one more to a new drive that has it.
//! Source: Wu et al., GC-aware Request Steering with Improved Performance and Reliability for
//! SSD-based RAIDs, MSST '18, §III. Beside the paper: D_Table is on the drives and not in NVRAM
//! (models can have it there: [`Options::table_in_nvram`]);
//! what a write must read is not asked of the busy drive; p+1 copies instead of two.

mod drive;
mod home;
mod hot;
mod open;
mod reclaim;
pub(crate) mod record;
mod recover;
mod replace;
mod scrub;
mod space;
mod spare;
mod stage;
mod table;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use classical::{Array, Redundancy, WriteHole};
use io::sync::{Event, Turn};
use io::{Buf, Drive, Env};

use crate::care::AllKept;
use crate::locks::Hold;
use crate::part::PartEnv;
use crate::popular::Popular;
use crate::set::Set;
use crate::store::{Counters, Store, StoreError, check_range};
use drive::Steered;
use hot::Ticket;
use space::Closed;
use spare::{Plan, Spare};
use stage::{Ask, Place, Stage};
use table::Entry;

pub use open::{create, open};

/// Where writes go that are meant for a busy drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Staging {
    /// So many bytes of every drive: the paper's default.
    Reserved { bytes: u64 },
    /// All of the last drive, which is not part of the array.
    Dedicated,
}

/// What an array is to be like.
#[derive(Clone, Debug)]
pub struct Spec {
    pub name: String,
    pub redundancy: Redundancy,
    /// Drives of a group of the array.
    pub width: usize,
    pub chunk: u64,
    pub staging: Staging,
    /// Every page has a checksum on other drives.
    pub checksums: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct Options {
    pub write_hole: WriteHole,
    /// Rows of each drive that R_LRU remembers.
    pub remembered: usize,
    /// Reads that make a row popular while it is remembered.
    pub popular: u32,
    /// Of the rows remembered at most so many of a hundred have a hot copy.
    pub hot_percent: usize,
    /// Bytes written back at a time, merged, and how many may be left when the drive's writes are
    /// held up to finish: by default a drive takes them in a millisecond or two.
    pub reclaim_bytes: u64,
    /// D_Table is kept in memory that outlives power cuts, as in the paper (§III.B), and drives
    /// hold nothing of it: a record is its data alone, and a write in place ends what was
    /// redirected there. For models: no such memory is served, so that what is redirected is gone
    /// with the process.
    pub table_in_nvram: bool,
}

impl Default for Options {
    fn default() -> Options {
        let write_hole = WriteHole::Closed;
        let (remembered, popular, hot_percent) = (4096, 2, 10);
        let (reclaim_bytes, table_in_nvram) = (256 << 10, false);
        Options { write_hole, remembered, popular, hot_percent, reclaim_bytes, table_in_nvram }
    }
}

/// Hot copies on their way at a time; what else is read is not copied this time. They are written
/// beside reads and must not crowd them out.
const MIGRATIONS_MAX: usize = 8;

struct Inner<E: Env> {
    env: E,
    array: Array<PartEnv<E>>,
    stage: Rc<Stage>,
    /// By their place in the array; `None`: not there.
    drives: RefCell<Vec<Option<Steered<E>>>>,
    set: RefCell<Set<E::Drive>>,
    /// A lost drive's bytes in the staging space.
    spare: RefCell<Option<Spare<E>>>,
    /// They could not be put there: not tried again before something is different.
    spare_failed: Cell<bool>,
    /// Nothing is rebuilt for the time being.
    held: Cell<bool>,
    /// Segments that are to become free for them.
    giving_up: RefCell<Option<(usize, Plan, Vec<Closed>)>>,
    /// One step of reconstruction at a time.
    mending: Turn,
    open_options: classical::OpenOptions,
    /// R_LRU of each drive.
    popular: RefCell<Vec<Popular>>,
    migrating: Cell<usize>,
    migrated: Event,
    closing: Cell<bool>,
    /// The drive that is looked at next for something to reclaim.
    next: Cell<usize>,
}

/// A handle on an open array; clones name the same.
pub struct Steering<E: Env> {
    inner: Rc<Inner<E>>,
}

impl<E: Env> Clone for Steering<E> {
    fn clone(&self) -> Steering<E> {
        Steering { inner: self.inner.clone() }
    }
}

impl<E: Env> Steering<E> {
    /// Tells that a drive, by its place in the pool, begins or ends to collect garbage.
    pub fn set_busy(&self, drive: usize, busy: bool) {
        let Inner { stage, array, spare, closing, .. } = &*self.inner;
        if closing.get() {
            return;
        }
        stage.holders[drive].busy.set(busy);
        let busy = stage.is_busy(drive);
        if drive < stage.targets.len() {
            array.avoid(drive, busy && !stage.targets[drive].spared.get());
        }
        if let Some(spare) = &*spare.borrow()
            && let Some(member) = spare.member(drive)
        {
            spare.array.avoid(member, busy);
        }
    }

    fn drives(&self) -> Vec<Steered<E>> {
        self.inner.drives.borrow().iter().flatten().cloned().collect()
    }

    /// Bytes of redirected writes, by drive, that are not back where they belong.
    pub fn away(&self) -> Vec<u64> {
        let targets = self.inner.stage.targets.iter();
        targets.map(|own| own.staged.borrow().table.away()).collect()
    }

    /// A lost drive of which nothing is missing in the staging space.
    pub fn spared(&self) -> Option<usize> {
        let place = self.inner.spare.borrow().as_ref().map(|spare| spare.place);
        place.filter(|place| !self.inner.array.lost().contains(place))
    }

    /// D_Table: drive, D_Offset, Length, Flag of every entry, and the drives that hold it.
    pub fn d_table(&self) -> Vec<(usize, u64, u64, bool, Vec<usize>)> {
        let mut all = Vec::new();
        for (target, own) in self.inner.stage.targets.iter().enumerate() {
            for (start, entry) in own.staged.borrow().table.iter() {
                let holders = entry.place.copies.iter().map(|copy| copy.holder).collect();
                all.push((target, start, entry.end - start, entry.redirected, holders));
            }
        }
        all
    }

    /// Notes a read, and asks leave to copy what of it is popular. With each the place in the
    /// request of its first byte.
    fn note_read(&self, offset: u64, len: u64) -> Vec<(Ticket<E>, u64)> {
        let Inner { stage, drives, popular, .. } = &*self.inner;
        let grid = stage.grid;
        // Of a mirror any other drive has it.
        if grid.redundancy == Redundancy::Mirror {
            return Vec::new();
        }
        let mut tickets = Vec::new();
        for share in grid.split(offset, len) {
            for (piece, at) in share.pieces {
                let (drive, row) = grid.place(share.stripe, piece.position);
                // Of what is not rebuilt yet nobody tells the drive when it is written.
                if stage.mending.get() == Some(drive) {
                    continue;
                }
                if !popular.borrow_mut()[drive].read(row) || tickets.len() == MIGRATIONS_MAX {
                    continue;
                }
                let begin = stage.data_at + row * grid.chunk + piece.start;
                let own = drives.borrow()[drive].clone();
                let ticket =
                    own.as_ref().and_then(|drive| drive.ticket(begin..begin + piece.len()));
                tickets.extend(ticket.map(|ticket| {
                    let at = at + (ticket.range.start - begin);
                    (ticket, at)
                }));
            }
        }
        tickets
    }

    /// Copies what was read to the staging space, beside the answer.
    fn migrate(&self, tickets: Vec<(Ticket<E>, u64)>, bytes: &Buf) {
        for (ticket, at) in tickets {
            let migrating = &self.inner.migrating;
            if migrating.get() == MIGRATIONS_MAX || self.inner.closing.get() {
                return;
            }
            migrating.set(migrating.get() + 1);
            let len = (ticket.range.end - ticket.range.start) as usize;
            let part = bytes.slice(at as usize..at as usize + len);
            let inner = self.inner.clone();
            self.inner.env.spawn(async move {
                ticket.store(part).await;
                inner.migrating.set(inner.migrating.get() - 1);
                inner.migrated.notify_all();
            });
        }
    }

    /// What the staging space has of some bytes. Nobody is given a hot copy that rotted: its drive
    /// has them as well.
    async fn copies_of(&self, entry: &Entry<Place>, len: u64) -> Vec<Buf> {
        let stage = &self.inner.stage;
        if !entry.redirected {
            let seen = stage.read_copies(&entry.place, entry.skip, len, Ask::One).await;
            return seen.filter(|seen| seen.right).map(|seen| seen.bytes).into_iter().collect();
        }
        let mut copies = Vec::new();
        for copy in entry.place.copies.iter() {
            let Some(space) = stage.holders[copy.holder].readable() else { continue };
            copies.extend(space.member.read(copy.at + entry.skip, len).await);
        }
        copies
    }

    /// Copies that differ, and hot ones that are not what the drive has.
    async fn audit_staged(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let stage = &self.inner.stage;
        for drive in self.drives().iter().filter(|drive| !stage.is_dead(drive.index)) {
            let own = &stage.targets[drive.index];
            let all = own.staged.borrow().table.look(0..u64::MAX);
            for (range, entry) in all {
                let Some(entry) = entry else { continue };
                let len = range.end - range.start;
                let mut held = self.copies_of(&entry, len).await;
                if !entry.redirected || entry.home {
                    held.extend(drive.part_read(range.clone()).await);
                }
                if held.windows(2).any(|pair| pair[0][..] != pair[1][..]) {
                    wrong.push(format!("drive {}: {range:?} differs from its copy", drive.index));
                }
            }
        }
        wrong
    }

    /// What of a lost drive is in the staging space, and on a new drive that is given it.
    async fn audit_spare(&self) -> Vec<String> {
        let spare = self.inner.spare.borrow().clone();
        let Some(spare) = spare else { return Vec::new() };
        let mut wrong = spare.array.disagreeing(0, spare.array.size()).await;
        let drive = self.inner.drives.borrow()[spare.place].clone();
        // Nothing is written, or moved on, between the two readings.
        let lock = &self.inner.stage.targets[spare.place].lock;
        let _all = lock.lock(0..u64::MAX, Hold::InPlace).await;
        if let Some((drive, (part, front))) =
            drive.and_then(|drive| drive.home.moving().map(|moving| (drive, moving)))
        {
            let (old, new) = (drive.part_read(0..front).await, part.read(0, front as usize).await);
            wrong.extend((front > 0 && old.as_deref() != new.ok().as_deref()).then_some(u64::MAX));
        }
        let text = |stripe| format!("drive {} in the staging space: stripe {stripe}", spare.place);
        wrong.into_iter().map(text).collect()
    }
}

/// Looking at what a crash left can wait until no drive is busy. Marks can't: of a drive that goes
/// while it is busy, as drives that fail do, all that they tell of is believed to be missing.
async fn tend<E: Env>(array: &Array<E>, busy: bool) -> Result<bool, StoreError> {
    Ok(if busy { array.rest().await? } else { array.resync().await? })
}

impl<E: Env> Store for Steering<E> {
    fn size(&self) -> u64 {
        self.inner.array.size()
    }

    fn unit(&self) -> u64 {
        self.inner.array.grid().stripe_bytes()
    }

    async fn read(&self, offset: u64, len: u64) -> Result<Buf, StoreError> {
        check_range(offset, len, self.size())?;
        let tickets = self.note_read(offset, len);
        let bytes = self.inner.array.read(offset, len).await?;
        self.migrate(tickets, &bytes);
        Ok(bytes)
    }

    async fn write(&self, offset: u64, data: Buf, fua: bool) -> Result<(), StoreError> {
        Ok(self.inner.array.write(offset, data, fua).await?)
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), StoreError> {
        Ok(self.inner.array.discard(offset, len).await?)
    }

    async fn flush(&self) -> Result<(), StoreError> {
        Ok(self.inner.array.flush().await?)
    }

    /// Everything goes back in place, also to drives that are busy.
    async fn close(&self) -> Result<(), StoreError> {
        let Inner { array, stage, spare, migrating, migrated, closing, .. } = &*self.inner;
        closing.set(true);
        // Who is just giving a drive a place is through; nobody begins to.
        drop(self.inner.mending.lock().await);
        stage.outsourcing.set(false);
        while migrating.get() > 0 {
            migrated.wait().await;
        }
        stage.holders.iter().for_each(|holder| holder.busy.set(false));
        for drive in self.drives() {
            // If it fails, the array goes without this drive, and says so now.
            let _ = drive.clear().await;
        }
        array.clone().close().await?;
        // What closing wrote of ranges that were still staged.
        for drive in self.drives() {
            let _ = drive.clear().await;
        }
        let spare = spare.borrow().clone();
        if let Some(spare) = spare {
            spare.array.clone().close().await?;
        }
        Ok(())
    }

    /// Rebuilds some rows of a lost drive, or reclaims one run of one drive that is not busy.
    async fn work(&self) -> Result<bool, StoreError> {
        let busy = self.inner.stage.holders.iter().any(|holder| holder.busy.get());
        if self.rebuild_some().await || tend(&self.inner.array, busy).await? {
            return Ok(true);
        }
        let spare = self.inner.spare.borrow().clone();
        if let Some(spare) = spare
            && tend(&spare.array, busy).await?
        {
            return Ok(true);
        }
        let next = &self.inner.next;
        let count = self.inner.drives.borrow().len();
        for _ in 0..count {
            let at = next.replace((next.get() + 1) % count);
            let Some(drive) = self.inner.drives.borrow()[at].clone() else { continue };
            if drive.reclaim_some().await {
                // Until it is done with this one.
                next.set(at);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn owed(&self) -> u64 {
        Store::owed(&self.inner.array)
    }

    fn marks(&self) -> u64 {
        let spare = self.inner.spare.borrow();
        let of_spare = spare.as_ref().map_or(0, |spare| spare.array.marks());
        Store::marks(&self.inner.array) + of_spare
    }

    fn margin(&self) -> usize {
        let Inner { array, spare, .. } = &*self.inner;
        let (own, spare) = (Store::margin(array), spare.borrow().clone());
        spare.map_or(own, |spare| own.min(Store::margin(&spare.array)))
    }

    fn shape(&self) -> String {
        let staging = match self.inner.stage.dedicated {
            Some(drive) => format!("drive {drive} for staging"),
            None => "staging space on every drive".to_owned(),
        };
        format!("{}, {staging}", self.inner.array.grid())
    }

    fn steers(&self) -> bool {
        true
    }

    fn steer(&self, drive: usize, slow: bool) {
        self.set_busy(drive, slow);
    }

    fn sit_out(&self, drive: usize, out: bool) {
        let Inner { stage, array, spare, .. } = &*self.inner;
        stage.holders[drive].sits_out.set(out);
        // What a lost drive had is in the staging space: nobody asks the drive itself.
        if drive < stage.targets.len() && !stage.targets[drive].spared.get() {
            array.sit_out(drive, out);
        }
        let spare = spare.borrow().clone();
        if let Some((spare, member)) = spare.and_then(|s| s.member(drive).map(|at| (s, at))) {
            spare.array.sit_out(member, out);
        }
    }

    fn lost(&self) -> Vec<usize> {
        let Inner { array, stage, spare, .. } = &*self.inner;
        let dedicated = stage.dedicated.filter(|&at| stage.holders[at].is_lost());
        let mut lost = array.lost();
        // Rebuilt it may be, but its own drive is lost.
        lost.extend(spare.borrow().as_ref().map(|spare| spare.place));
        lost.extend(dedicated);
        lost.sort_unstable();
        lost.dedup();
        lost
    }

    fn counters(&self) -> Counters {
        let stage = &self.inner.stage;
        let counts = &stage.counts;
        let table = |redirected| {
            let of = |own: &stage::Target| {
                let staged = own.staged.borrow();
                staged.table.iter().filter(|(_, entry)| entry.redirected == redirected).count()
            };
            stage.targets.iter().map(of).sum::<usize>() as u64
        };
        let busy = stage.holders.iter().filter(|holder| holder.busy.get()).count();
        vec![
            ("busy_drives", busy as u64),
            ("redirected_writes", counts.redirected.get()),
            ("outsourced_writes", counts.outsourced.get()),
            ("superseding_writes", counts.superseding.get()),
            ("direct_writes", counts.direct.get()),
            ("staged_reads", counts.staged_reads.get()),
            ("staged_healed", counts.healed.get()),
            ("hot_reads", counts.hot_reads.get()),
            ("busy_reads", counts.busy_reads.get()),
            ("migrated", counts.migrated.get()),
            ("reclaims", counts.reclaims.get()),
            ("reclaimed_bytes", counts.reclaimed_bytes.get()),
            ("deactivated", counts.deactivated.get()),
            ("rebuilt_rows", counts.rebuilt_rows.get()),
            ("spared_drives", counts.spared.get()),
            ("moved_bytes", counts.moved_bytes.get()),
            ("away_bytes", self.away().iter().sum()),
            ("redirected_entries", table(true)),
            ("hot_entries", table(false)),
        ]
    }

    fn kept(&self) -> AllKept {
        self.inner.kept()
    }

    async fn audit(&self, offset: u64, len: u64) -> Vec<String> {
        let stripes = self.inner.array.audit(offset, len).await;
        let staged = self.audit_staged().await;
        stripes.into_iter().chain(staged).chain(self.audit_spare().await).collect()
    }
}
