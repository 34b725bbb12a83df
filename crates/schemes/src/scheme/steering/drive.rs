//! Request redirector: a drive of the array as the array sees it.
//!
//! ```text
//!  write ─ range lock ─ hot copies of it forgotten ─ busy, or a redirected write there?
//!              │ no: in place                          │ yes: copies to other drives,
//!              │                                       │      then D_Table
//!  read  ─ D_Table ─ redirected: staging space ─ hot and busy: staging space ─ else in place
//! ```
//! The array above locks stripes, logs partial parity and keeps parity current as ever: to it the
//! drive has the bytes, wherever they are.

use std::ops::Range;
use std::rc::Rc;

use io::{
    Buf, BufMut, Drive, DriveError, DriveErrorKind, Durability, Env, Geometry, Operation, join_all,
};

use super::home::Home;
use super::record::{self, Header, PAGE};
use super::space::{Choice, holders};
use super::stage::{Ask, Copy, Place, Record, Space, Stage, count};
use super::table::Entry;
use crate::locks::Hold;
use crate::part::Part;

/// Drive `index` of the array.
pub struct Steered<E: Env> {
    pub stage: Rc<Stage>,
    pub index: usize,
    /// Where its bytes are that are not redirected.
    pub home: Rc<Home<E>>,
}

impl<E: Env> Clone for Steered<E> {
    fn clone(&self) -> Steered<E> {
        Steered { stage: self.stage.clone(), index: self.index, home: self.home.clone() }
    }
}

pub fn gone(operation: Operation, offset: u64, len: u64) -> DriveError {
    DriveError { operation, offset, len, kind: DriveErrorKind::Removed }
}

/// How an attempt to redirect a write ended.
enum Redirected {
    Done,
    /// Fewer copies than it takes, or none that is known to be whole: everything redirected must
    /// be written back before the write is answered.
    Weak,
    NoRoom,
}

impl<E: Env> Steered<E> {
    /// As the array has it.
    pub fn part(&self) -> Part {
        Part::whole(self.clone())
    }

    /// The bytes of a piece, from where D_Table says.
    async fn read_piece(
        &self,
        range: Range<u64>,
        entry: Option<Entry<Place>>,
    ) -> Result<Buf, DriveError> {
        let (stage, len) = (&self.stage, range.end - range.start);
        let busy = stage.is_target_busy(self.index);
        let aside = (busy || stage.is_outsourced(self.index)) && !stage.is_looked_at(&range);
        let counts = &stage.counts;
        if let Some(Entry { place, skip, redirected, home, .. }) = entry {
            let on_drive = !redirected || home;
            if aside || !on_drive {
                match stage.read_copies(&place, skip, len, Ask::One).await {
                    // The array above tells what is wrong with it.
                    Some(seen) if seen.right || !on_drive => {
                        count(if redirected { &counts.staged_reads } else { &counts.hot_reads });
                        return Ok(seen.bytes);
                    }
                    None if !on_drive => return Err(gone(Operation::Read, range.start, len)),
                    _ => {}
                }
            }
        }
        if busy {
            count(&counts.busy_reads);
        }
        self.home.read(range.start, len).await
    }

    /// Whatever is staged of a range, newest first.
    pub async fn read_range(&self, range: Range<u64>) -> Result<Buf, DriveError> {
        let own = &self.stage.targets[self.index];
        let mut pieces = own.staged.borrow().table.look(range.clone());
        if pieces.len() == 1 {
            let (piece, entry) = pieces.pop().expect("there is one");
            return self.read_piece(piece, entry).await;
        }
        let mut whole = BufMut::with_len((range.end - range.start) as usize);
        let reads =
            pieces.iter().map(|(piece, entry)| self.read_piece(piece.clone(), entry.clone()));
        for ((piece, _), bytes) in pieces.iter().zip(join_all(reads).await) {
            let at = (piece.start - range.start) as usize;
            let bytes = bytes?;
            whole[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(whole.freeze())
    }

    /// In place. A drive that can't take it holds old bytes: it is lost.
    pub async fn write_home(
        &self,
        offset: u64,
        data: Buf,
        how: Durability,
    ) -> Result<(), DriveError> {
        let own = &self.stage.targets[self.index];
        let done = self.home.write(offset, data, how).await;
        if how == Durability::Cached {
            own.dirty.set(true);
        }
        done.inspect_err(|_| own.dead.set(true))
    }

    /// Which drives take the copies of a write.
    fn choose(&self, bytes: u64) -> Option<Vec<usize>> {
        let stage = &self.stage;
        let lost = stage.lost();
        if let Some(dedicated) = stage.dedicated {
            let others = (0..lost.len()).filter(|&other| {
                other != self.index && stage.grid.group_of(other) == stage.grid.group_of(self.index)
            });
            // Of each stripe it holds one chunk at most: its loss is that of one drive. While a
            // lost drive is rebuilt that leaves nothing to bear, its loss is not borne anyhow.
            let alone = others.into_iter().all(|at| lost[at] || !stage.targets[at].steered.get());
            let group = stage.grid.group_of(self.index);
            let bare = stage.gone_of(group) >= stage.grid.tolerance();
            let takes = (alone || bare && stage.is_outsourced(self.index))
                && !stage.is_busy(dedicated)
                && self.has_room(dedicated, bytes);
            return takes.then(|| vec![dedicated]);
        }
        let usable: Vec<bool> = (0..lost.len())
            .map(|at| {
                !lost[at] && stage.keeps(at) && !stage.is_busy(at) && self.has_room(at, bytes)
            })
            .collect();
        let (grid, target, turn) = (&stage.grid, self.index, stage.next_turn());
        holders(&Choice { grid, target, lost: &lost, usable: &usable, turn })
    }

    fn has_room(&self, holder: usize, bytes: u64) -> bool {
        let Some(space) = self.space(holder) else { return false };
        let staged = self.stage.targets[self.index].staged.borrow();
        let open = staged.open.get(&holder);
        let fits = open.is_some_and(|(_, taken)| taken + bytes <= space.division.segment);
        fits || (space.segments.has_free() && bytes <= space.division.segment)
    }

    fn space(&self, holder: usize) -> Option<&Space> {
        let there = self.stage.holders.get(holder).filter(|holder| !holder.is_lost());
        there.and_then(|holder| holder.space.as_ref())
    }

    /// Appends a record's bytes to the segment of this drive's writes on a holder.
    fn append(&self, holder: usize, bytes: u64) -> Option<Copy> {
        let space = self.space(holder)?;
        let mut staged = self.stage.targets[self.index].staged.borrow_mut();
        let fits = |taken: u64| taken + bytes <= space.division.segment;
        if !staged.open.get(&holder).is_some_and(|(_, taken)| fits(*taken)) {
            let lease = space.segments.take()?;
            staged.segments.push(lease.clone());
            staged.open.insert(holder, (lease, 0));
        }
        let (lease, taken) = staged.open.get_mut(&holder).expect("it is open");
        let at = space.division.log_at + lease.number * space.division.segment + *taken;
        *taken += bytes;
        Some(Copy { holder, at: at + self.stage.header_len(), _lease: lease.clone() })
    }

    /// Writes copies to other drives and makes them the newest of their range. The range is held.
    async fn redirect(&self, offset: u64, data: &Buf, how: Durability) -> Redirected {
        let (stage, len) = (&self.stage, data.len() as u64);
        let header_len = stage.header_len();
        let span = header_len + len.next_multiple_of(PAGE);
        let Some(chosen) = self.choose(span) else { return Redirected::NoRoom };
        let copies: Option<Vec<Copy>> =
            chosen.iter().map(|&holder| self.append(holder, span)).collect();
        let copies = copies.expect("there is room, and nobody came between");
        if stage.dedicated.is_some() && !self.claim().await {
            return Redirected::Weak;
        }
        let (sequence, epoch) = (stage.sequence.get(), stage.epoch(self.index));
        stage.sequence.set(sequence + 1);
        let data_crc = crc32c::crc32c(data);
        let writes = copies.iter().map(async |copy| {
            let r_offset = copy.at - header_len;
            let (target, holder) = (self.index, copy.holder);
            let header = Header {
                sequence,
                epoch,
                target,
                d_offset: offset,
                holder,
                r_offset,
                len,
                data_crc,
            };
            let bytes = match stage.table_in_nvram {
                true => data.clone(),
                false => record::encode(&stage.pool, &header, data),
            };
            match self.space(holder) {
                Some(space) => space.member.write(r_offset, bytes, how).await.is_ok(),
                None => false,
            }
        });
        let written = join_all(writes).await;
        let weak = !written.iter().all(|written| *written);
        let kept = copies.into_iter().zip(written).filter(|(_, written)| *written);
        let kept: Vec<Copy> = kept.map(|(copy, _)| copy).collect();
        if !kept.is_empty() {
            let mut staged = stage.targets[self.index].staged.borrow_mut();
            let record = Rc::new(Record::of(kept, data));
            staged.table.insert(offset..offset + len, record, true);
        }
        if weak { Redirected::Weak } else { Redirected::Done }
    }

    /// The drives say that the dedicated one holds writes of this one, when this says true:
    /// without it this one is not to be trusted.
    async fn claim(&self) -> bool {
        self.stage.targets[self.index].steered.set(true);
        self.stage.heads.words.borrow_mut()[self.index] |= 1;
        self.stage.seal(self.index).await
    }

    async fn write_range(&self, offset: u64, data: Buf, how: Durability) -> Result<(), DriveError> {
        let (stage, len) = (&self.stage, data.len() as u64);
        let (own, range) = (&stage.targets[self.index], offset..offset + len);
        loop {
            let held = own.lock.lock(range.clone(), Hold::InPlace);
            self.forget_hot(range.clone());
            let held = held.await;
            if stage.is_dead(self.index) {
                return Err(gone(Operation::Write, offset, len));
            }
            let exempt = own.exempt.borrow().clone();
            let rebuilt = exempt.start <= range.start && range.end <= exempt.end;
            let busy = stage.is_target_busy(self.index) && !rebuilt;
            let outsourced = stage.is_outsourced(self.index) && !rebuilt;
            let aside = busy || outsourced && stage.is_data(self.index, offset);
            let supersedes = own.staged.borrow().table.is_redirected(&range);
            if !aside && (!supersedes || stage.table_in_nvram) {
                self.write_home(offset, data, how).await?;
                // No record on the drives says otherwise after a crash, or all do.
                if supersedes {
                    own.staged.borrow_mut().table.forget(range);
                }
                return Ok(());
            }
            match self.redirect(offset, &data, how).await {
                Redirected::Done => {
                    count(match (busy, aside) {
                        (true, _) => &stage.counts.redirected,
                        (false, true) => &stage.counts.outsourced,
                        (false, false) => &stage.counts.superseding,
                    });
                    return Ok(());
                }
                Redirected::NoRoom if !supersedes => {
                    count(&stage.counts.direct);
                    return self.write_home(offset, data, how).await;
                }
                // A record of this range must not come back after a crash: first it is void.
                Redirected::NoRoom | Redirected::Weak => {
                    drop(held);
                    self.clear().await?;
                }
            }
        }
    }

    /// False: they are to be written elsewhere, or something else is staged there.
    async fn zero_home(&self, range: Range<u64>) -> Result<bool, DriveError> {
        let (stage, own) = (&self.stage, &self.stage.targets[self.index]);
        let held = own.lock.lock(range.clone(), Hold::InPlace);
        self.forget_hot(range.clone());
        let _held = held.await;
        let len = range.end - range.start;
        if stage.is_dead(self.index) {
            return Err(gone(Operation::Discard, range.start, len));
        }
        let aside = stage.is_target_busy(self.index) || stage.is_outsourced(self.index);
        let staged = own.staged.borrow().table.is_redirected(&range);
        let Some(part) = self.home.alone().filter(|_| !aside && !staged) else {
            return Ok(false);
        };
        own.dirty.set(true);
        let done = part.write_zeroes(range.start, len).await;
        done.inspect_err(|_| own.dead.set(true)).map(|()| true)
    }

    async fn flush_all(&self) -> Result<(), DriveError> {
        let (stage, own) = (&self.stage, &self.stage.targets[self.index]);
        let staged = !own.staged.borrow().segments.is_empty();
        let spaces = stage.holders.iter().filter_map(|holder| holder.space.as_ref());
        let spaces = spaces.filter(|space| staged && !space.member.is_lost());
        let copies = join_all(spaces.map(|space| space.member.flush()));
        futures_util::future::join(copies, self.flush_home()).await.1?;
        // Copies may have gone meanwhile.
        match stage.is_dead(self.index) {
            true => Err(gone(Operation::Flush, 0, 0)),
            false => Ok(()),
        }
    }

    /// What is in place, whatever is staged.
    pub async fn part_read(&self, range: Range<u64>) -> Option<Buf> {
        self.home.read(range.start, range.end - range.start).await.ok()
    }

    /// What is in place is durable. Who comes after one that failed is told the same: records are
    /// void after this, and what the drive misses then nobody would know.
    pub async fn flush_home(&self) -> Result<(), DriveError> {
        let own = &self.stage.targets[self.index];
        let _turn = own.flush_turn.lock().await;
        if own.dirty.replace(false) {
            self.home.flush().await.inspect_err(|_| own.dead.set(true))?;
        }
        match self.stage.is_dead(self.index) {
            true => Err(gone(Operation::Flush, 0, 0)),
            false => Ok(()),
        }
    }
}

impl<E: Env> Drive for Steered<E> {
    fn geometry(&self) -> Geometry {
        // Of the whole set: what any of them can't take can't be staged there.
        let Stage { align, home_bytes: size, .. } = *self.stage;
        // After a crash some of a page may be staged and the rest not.
        Geometry { size, align, atomic: 512, rotational: false }
    }

    fn name(&self) -> String {
        self.home.name()
    }

    fn begins_at(&self) -> u64 {
        self.home.begins_at()
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Buf, DriveError> {
        io::drive::check_range(self.geometry(), Operation::Read, offset, len as u64)?;
        if self.stage.is_dead(self.index) {
            return Err(gone(Operation::Read, offset, len as u64));
        }
        self.read_range(offset..offset + len as u64).await
    }

    async fn write(&self, offset: u64, data: Buf, how: Durability) -> Result<(), DriveError> {
        io::drive::check_range(self.geometry(), Operation::Write, offset, data.len() as u64)?;
        self.write_range(offset, data, how).await
    }

    async fn flush(&self) -> Result<(), DriveError> {
        self.flush_all().await
    }

    async fn discard(&self, _offset: u64, _len: u64) -> Result<(), DriveError> {
        Ok(())
    }

    /// In place, if they would be written there.
    async fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), DriveError> {
        io::drive::check_range(self.geometry(), Operation::Discard, offset, len)?;
        if !self.zero_home(offset..offset + len).await? {
            let zeroes = Buf::zeroed(len as usize);
            self.write_range(offset, zeroes, Durability::Cached).await?;
        }
        Ok(())
    }

    fn takes_write_zeroes(&self) -> bool {
        self.home.alone().is_some_and(|part| part.takes_write_zeroes())
    }

    fn discard_granularity(&self) -> Option<u32> {
        None
    }
}
