//! What the drives of one array share: the staging space, who is busy, what is staged of whom.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use classical::Grid;
use classical::member::Member;
use format::Uuid;
use io::sync::Turn;
use io::{Buf, Durability, join_all};

use super::record::{self, Head, PAGE, Spared};
use super::space::{Division, Lease, Places, is_enough};
use super::table::Table;
use crate::locks::RangeLocks;
use crate::part::Part;

/// Counted since the array was opened.
#[derive(Default)]
pub struct Counts {
    /// Writes to a busy drive that went to the staging space.
    pub redirected: Cell<u64>,
    /// Writes to drives of a group that is being rebuilt onto a new drive, that went there, too.
    pub outsourced: Cell<u64>,
    /// Writes to drives that are not busy, of ranges with a redirected write.
    pub superseding: Cell<u64>,
    /// Writes to a busy drive because there was no room or no other drive.
    pub direct: Cell<u64>,
    /// Reads of redirected writes, and of hot copies.
    pub staged_reads: Cell<u64>,
    /// Copies of them that were not right, and were written again.
    pub healed: Cell<u64>,
    pub hot_reads: Cell<u64>,
    /// Reads of a busy drive that had to wait for it.
    pub busy_reads: Cell<u64>,
    pub migrated: Cell<u64>,
    /// Merged writes of redirected data to where it belongs.
    pub reclaims: Cell<u64>,
    pub reclaimed_bytes: Cell<u64>,
    /// Drives of which nothing was staged any more.
    pub deactivated: Cell<u64>,
    /// Rows of lost drives rebuilt, and how many drives are whole again in the staging space.
    pub rebuilt_rows: Cell<u64>,
    pub spared: Cell<u64>,
    /// Bytes moved from the staging space to a new drive.
    pub moved_bytes: Cell<u64>,
}

pub fn count(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

/// A drive as far as it holds what is meant for others.
pub struct Holder {
    /// Heads, and with reserved space the staging space after them.
    pub head: Rc<Member<Part>>,
    /// The member that the staging space is on, if there is one.
    pub space: Option<Space>,
    pub busy: Cell<bool>,
    /// It is read only where no other copy is.
    pub sits_out: Cell<bool>,
    /// A new drive took its place: of what the old one held for others it has nothing, and it holds
    /// nothing for them before the next opening.
    pub replaced: Cell<bool>,
}

pub struct Space {
    pub member: Rc<Member<Part>>,
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

/// Where bytes of a drive are staged, and what each page of them is, from the first on: the last
/// may be shorter.
pub struct Record {
    pub copies: Vec<Copy>,
    pub len: u64,
    pub sums: Vec<u32>,
}

impl Record {
    pub fn of(copies: Vec<Copy>, data: &[u8]) -> Record {
        Record { copies, len: data.len() as u64, sums: sums_of(data) }
    }

    /// Whether bytes from one of its pages on are what they should be.
    fn passes(&self, from: u64, bytes: &[u8]) -> bool {
        let sums = &self.sums[(from / PAGE) as usize..];
        sums_of(bytes).iter().zip(sums).all(|(own, sum)| own == sum)
    }
}

pub fn sums_of(data: &[u8]) -> Vec<u32> {
    data.chunks(PAGE as usize).map(crc32c::crc32c).collect()
}

/// Where an entry of D_Table lies.
pub type Place = Rc<Record>;

/// How many copies are asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Until one is right.
    One,
    All,
}

/// Bytes that were staged.
pub struct Seen {
    pub bytes: Buf,
    /// They are what was written. If not, no copy has that.
    pub right: bool,
    /// Copies that were asked and are not right, and of them those that were written again.
    pub bad: u64,
    pub repaired: u64,
}

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
    pub lock: RangeLocks,
    pub staged: RefCell<Staged>,
    /// It can't be used, or the newest bytes of it are gone with others.
    pub dead: Cell<bool>,
    /// What is being rebuilt: written in place however busy it is.
    pub exempt: RefCell<Range<u64>>,
    /// Written without being made durable.
    pub dirty: Cell<bool>,
    /// Clearing and requests flush: who comes second is not answered before the first.
    pub flush_turn: Turn,
    /// A dedicated drive holds writes of it, or is about to.
    pub steered: Cell<bool>,
    /// Its bytes are in the staging space of other drives: its own is lost.
    pub spared: Cell<bool>,
}

/// The word of each drive, as the heads tell it.
pub struct Heads {
    pub words: RefCell<Vec<u64>>,
    /// What is durable on enough drives.
    pub written: RefCell<Vec<u64>>,
    pub spared: Cell<Spared>,
    pub sequence: Cell<u64>,
    /// The last that is durable on enough drives.
    pub sealed: Cell<u64>,
    /// The last that is durable on all.
    pub taken: Cell<u64>,
    pub turn: Turn,
}

pub struct Stage {
    pub pool: Uuid,
    pub grid: Grid,
    /// Byte of each drive where its chunks begin.
    pub data_at: u64,
    /// Which drive is for staging only.
    pub dedicated: Option<usize>,
    pub align: u32,
    /// Bytes of each drive of the array.
    pub home_bytes: u64,
    /// Where the second extents end.
    pub side_bytes: u64,
    /// Whose rows are being rebuilt, wherever to.
    pub mending: Cell<Option<usize>>,
    /// A new drive that is being filled.
    pub filling: Cell<Option<usize>>,
    /// All writes of data to the group of that drive are redirected.
    pub outsourcing: Cell<bool>,
    /// Ranges of each drive that a scrub is looking at: they are read in place, copies or not.
    pub looked_at: RefCell<Vec<Range<u64>>>,
    pub holders: Vec<Holder>,
    pub targets: Vec<Target>,
    pub heads: Heads,
    pub sequence: Cell<u64>,
    /// Turns with every redirected write and every hot copy, so that they are interleaved.
    pub turn: Cell<usize>,
    pub hot_max: usize,
    /// Written back at a time, and left when writes are held up to finish.
    pub reclaim_bytes: u64,
    /// Drives hold nothing of D_Table.
    pub table_in_nvram: bool,
    pub counts: Counts,
}

impl Stage {
    /// Bytes of a record before its data: what D_Table knows of it.
    pub fn header_len(&self) -> u64 {
        if self.table_in_nvram { 0 } else { PAGE }
    }

    /// It collects garbage, or is new and being filled: one does not end the other.
    pub fn is_busy(&self, drive: usize) -> bool {
        self.holders[drive].busy.get() || self.filling.get() == Some(drive)
    }

    /// The same of the drive's own bytes, which may be elsewhere.
    pub fn is_target_busy(&self, target: usize) -> bool {
        self.is_busy(target) && !self.targets[target].spared.get()
    }

    /// A new drive of its group is being filled, and nothing else is to disturb that.
    pub fn is_outsourced(&self, target: usize) -> bool {
        let group = self.filling.get().map(|place| self.grid.group_of(place));
        self.outsourcing.get() && group == Some(self.grid.group_of(target))
    }

    pub fn is_looked_at(&self, range: &Range<u64>) -> bool {
        let looked_at = self.looked_at.borrow();
        looked_at.iter().any(|own| own.start < range.end && range.start < own.end)
    }

    /// Whether a byte of a drive is one of a data chunk.
    pub fn is_data(&self, target: usize, at: u64) -> bool {
        let (grid, Some(within)) = (&self.grid, at.checked_sub(self.data_at)) else {
            return false;
        };
        let row = within / grid.chunk;
        let stripe = row * grid.groups() as u64 + grid.group_of(target) as u64;
        let holds = |&member: &usize| grid.place(stripe, member).0 == target;
        let data = grid.width - grid.parity();
        row < grid.rows && (0..data).any(|member| holds(&member))
    }

    /// Some redirected write of a drive lies on drives of this group.
    pub fn is_staged_on(&self, target: usize, group: usize) -> bool {
        let staged = self.targets[target].staged.borrow();
        let mut places = staged.table.iter().filter(|(_, entry)| entry.redirected);
        places.any(|(_, entry)| {
            entry.place.copies.iter().any(|copy| {
                let holder = copy.holder;
                holder < self.targets.len() && self.grid.group_of(holder) == group
            })
        })
    }

    /// What was redirected of a drive's bytes, whether it is back there or not.
    pub fn staged_of(&self, target: usize) -> Vec<Range<u64>> {
        let staged = self.targets[target].staged.borrow();
        let redirected = staged.table.iter().filter(|(_, entry)| entry.redirected);
        redirected.map(|(start, entry)| start..entry.end).collect()
    }

    /// Drives of a group that have not all that they should.
    pub fn gone_of(&self, group: usize) -> usize {
        let own = group * self.grid.width..(group + 1) * self.grid.width;
        own.filter(|&at| self.is_dead(at) || self.mending.get() == Some(at)).count()
    }

    /// Nothing may be read from it as if it were the drive: it failed, or writes to it are gone
    /// with the dedicated drive.
    pub fn is_dead(&self, target: usize) -> bool {
        let own = &self.targets[target];
        let gone = || {
            let dedicated = self.dedicated.is_some_and(|at| self.holders[at].is_lost());
            dedicated && own.staged.borrow().table.is_any_away()
        };
        let lost = self.holders[target].head.is_lost() && !own.spared.get();
        own.dead.get() || lost || gone()
    }

    pub fn lost(&self) -> Vec<bool> {
        (0..self.targets.len()).map(|target| self.is_dead(target)).collect()
    }

    /// What is written to this drive for others stays there. What a new one has that is given a
    /// lost drive's bytes may go with it at any time: they are in the staging space, so that the
    /// array does not count it.
    pub fn keeps(&self, holder: usize) -> bool {
        self.targets.get(holder).is_none_or(|target| !target.spared.get())
    }

    pub fn next_turn(&self) -> usize {
        self.turn.replace(self.turn.get().wrapping_add(1))
    }

    /// The drives' word of this one is durable on enough of them when this says true. Drives that
    /// collect garbage are written only if there are too few others.
    pub async fn seal(&self, target: usize) -> bool {
        if self.table_in_nvram {
            return true;
        }
        let wanted = self.heads.words.borrow()[target];
        self.write_heads(|heads| heads.written.borrow()[target] >= wanted).await
    }

    /// The same of all that heads tell now, whatever was on enough drives before: more may be
    /// needed since.
    pub async fn seal_all(&self) -> bool {
        let wanted = self.heads.sequence.get();
        self.write_heads(|heads| heads.sealed.get() >= wanted).await
    }

    async fn write_heads(&self, is_written: impl Fn(&Heads) -> bool) -> bool {
        let _turn = self.heads.turn.lock().await;
        if is_written(&self.heads) {
            return true;
        }
        let words = self.heads.words.borrow().clone();
        let sequence = self.heads.sequence.replace(self.heads.sequence.get() + 1);
        let spared = self.heads.spared.get();
        let taken = self.heads.taken.get();
        let head = Head { sequence, words: words.clone(), spared, taken };
        let page = record::encode_head(&self.pool, &head);
        let mut holding = vec![false; self.holders.len()];
        let mut wrote = holding.clone();
        // As it is now: a drive that stops being busy meanwhile must not be left out of both.
        let all = 0..self.holders.len();
        let (busy, idle): (Vec<usize>, Vec<usize>) = all.partition(|&at| self.is_busy(at));
        for due in [idle, busy] {
            let writes = due.iter().map(|&at| {
                let at_byte = sequence % 2 * PAGE;
                self.holders[at].head.write(at_byte, page.clone(), Durability::Durable)
            });
            for (at, done) in due.iter().zip(join_all(writes).await) {
                wrote[*at] = done.is_ok();
                holding[*at] = done.is_ok() && self.keeps(*at);
            }
            // Not while one is lost: nothing may say so yet, and then it is there again.
            if wrote.iter().all(|wrote| *wrote) {
                self.heads.taken.set(sequence);
            }
            let array = &holding[..self.targets.len()];
            if is_enough(&self.grid, &self.lost(), array) {
                *self.heads.written.borrow_mut() = words;
                self.heads.sealed.set(sequence);
                return true;
            }
        }
        false
    }

    /// What the heads say of a lost drive's bytes from the next that is written on.
    pub fn tell_spared(&self, spared: Spared) {
        let number = self.heads.spared.get().number + 1;
        self.heads.spared.set(Spared { number, ..spared });
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

    /// Reads from whichever copy can be read and is right, those of drives that are not busy first.
    /// Those that are not right are written again. `None`: no copy can be read.
    pub async fn read_copies(&self, place: &Place, skip: u64, len: u64, ask: Ask) -> Option<Seen> {
        let (from, to) = (skip / PAGE * PAGE, (skip + len).next_multiple_of(PAGE).min(place.len));
        let (mut right, mut wrong) = (None, Vec::new());
        for copy in self.in_order(place) {
            let Some(space) = self.holders[copy.holder].readable() else { continue };
            match space.member.read(copy.at + from, to - from).await {
                Ok(bytes) if place.passes(from, &bytes) => {
                    right = Some(bytes);
                    if ask == Ask::One {
                        break;
                    }
                }
                Ok(bytes) => wrong.push((space, copy.at + from, Some(bytes))),
                Err(error) if error.is_refusal() => wrong.push((space, copy.at + from, None)),
                Err(_) => {}
            }
        }
        let cut = |bytes: &Buf| bytes.slice((skip - from) as usize..(skip - from + len) as usize);
        let Some(bytes) = right else {
            let any = wrong.iter().find_map(|(_, _, bytes)| bytes.as_ref());
            let bad = wrong.len() as u64;
            return any.map(|bytes| Seen { bytes: cut(bytes), right: false, bad, repaired: 0 });
        };
        let (bad, mut repaired) = (wrong.len() as u64, 0);
        for (space, at, _) in wrong {
            // One that can't take it is lost.
            if space.member.write(at, bytes.clone(), Durability::Durable).await.is_ok() {
                count(&self.counts.healed);
                repaired += 1;
            }
        }
        Some(Seen { bytes: cut(&bytes), right: true, bad, repaired })
    }

    fn in_order<'a>(&self, place: &'a Record) -> Vec<&'a Copy> {
        let (turn, count) = (self.next_turn(), place.copies.len());
        let mut order: Vec<(usize, &Copy)> = place.copies.iter().enumerate().collect();
        order.sort_by_key(|(at, copy)| {
            let rather_not = self.holders[copy.holder].sits_out.get();
            (rather_not, self.is_busy(copy.holder), (at + turn) % count)
        });
        order.into_iter().map(|(_, copy)| copy).collect()
    }
}

impl Holder {
    /// The staging space, if copies there may be read.
    pub fn readable(&self) -> Option<&Space> {
        self.space.as_ref().filter(|_| !self.replaced.get())
    }

    pub fn is_lost(&self) -> bool {
        self.replaced.get()
            || self.head.is_lost()
            || self.space.as_ref().is_some_and(|space| space.member.is_lost())
    }

    /// Nothing on it counts.
    pub fn lose(&self) {
        self.head.lose();
        self.space.iter().for_each(|space| space.member.lose());
    }
}
