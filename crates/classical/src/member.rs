//! The drives of an array: which are there, and which have unflushed writes.

use std::cell::{Cell, RefCell};

use io::sync::Turn;
use io::{Buf, Drive, DriveError, DriveErrorKind, Durability};

pub struct Member<D> {
    /// `None`: it was not there when the array was opened.
    drive: RefCell<Option<D>>,
    lost: Cell<bool>,
    /// Lost, and a new drive has its place: rows of it that hold what they should.
    rebuilt: Cell<Option<u64>>,
    /// It holds all that it should, and the labels do not say so yet: they call it restoring.
    untold: Cell<bool>,
    /// That one holds what it should but for what was written since it was lost.
    was_here: Cell<bool>,
    dirty: Cell<bool>,
    /// Rather not to be asked: it is slow just now.
    avoided: Cell<bool>,
    /// Not to be asked for what others can answer, until told otherwise.
    sits_out: Cell<bool>,
    in_flight: Cell<u32>,
    /// Who comes while a flush is on its way waits for it, and for one more if that came too late.
    flush_turn: Turn,
}

/// A drive can't be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;

impl<D: Drive> Member<D> {
    pub fn new(drive: Option<D>) -> Member<D> {
        let lost = Cell::new(drive.is_none());
        Member {
            drive: RefCell::new(drive),
            lost,
            rebuilt: Cell::new(None),
            untold: Cell::new(false),
            was_here: Cell::new(false),
            // Whoever used it before may have left something in its cache.
            dirty: Cell::new(true),
            avoided: Cell::new(false),
            sits_out: Cell::new(false),
            in_flight: Cell::new(0),
            flush_turn: Turn::new(),
        }
    }

    /// Also while a new drive is being filled.
    pub fn is_lost(&self) -> bool {
        self.lost.get()
    }

    /// Whether what it has in a row can't be used.
    pub fn is_lost_at(&self, row: u64) -> bool {
        self.lost.get() && self.rebuilt.get().is_none_or(|rows| row >= rows)
    }

    pub fn lose(&self) {
        self.lost.set(true);
        self.rebuilt.set(None);
        self.untold.set(false);
    }

    /// A new drive takes the place of the lost one; it holds nothing yet.
    pub fn replace(&self, drive: D) {
        assert!(self.lost.get(), "only a lost drive is replaced");
        *self.drive.borrow_mut() = Some(drive);
        self.was_here.set(false);
        self.rebuilt.set(Some(0));
        self.dirty.set(true);
    }

    /// The same, and it is the lost one.
    pub fn take_back(&self, drive: D) {
        self.replace(drive);
        self.was_here.set(true);
    }

    pub fn size(&self) -> Option<u64> {
        self.drive.borrow().as_ref().map(|drive| drive.geometry().size)
    }

    /// Rows that a new drive holds; `None`: there is none.
    pub fn rebuilt(&self) -> Option<u64> {
        self.rebuilt.get()
    }

    pub fn was_here(&self) -> bool {
        self.was_here.get()
    }

    pub fn set_rebuilt(&self, rows: u64) {
        self.rebuilt.set(self.rebuilt.get().map(|_| rows));
    }

    /// It holds all that it should.
    pub fn set_whole(&self) {
        self.lost.set(false);
        self.rebuilt.set(None);
    }

    /// The same, and the labels are to say so: until [`Self::told_whole`] a crash makes it lost
    /// again.
    pub fn set_whole_untold(&self) {
        self.set_whole();
        self.untold.set(true);
    }

    /// The labels say that it holds all, unless it was lost meanwhile.
    pub fn told_whole(&self) {
        self.untold.set(false);
    }

    pub fn is_untold(&self) -> bool {
        self.untold.get()
    }

    pub fn avoid(&self, avoided: bool) {
        self.avoided.set(avoided);
    }

    pub fn is_avoided(&self) -> bool {
        self.avoided.get() || self.sits_out.get()
    }

    pub fn sit_out(&self, out: bool) {
        self.sits_out.set(out);
    }

    pub fn sits_out(&self) -> bool {
        self.sits_out.get()
    }

    /// The device's name, and where on it a byte is: for people.
    pub fn device(&self, offset: u64) -> (String, u64) {
        let drive = self.drive.borrow();
        drive.as_ref().map_or((String::new(), offset), |d| (d.name(), d.begins_at() + offset))
    }

    /// Operations on their way.
    pub fn in_flight(&self) -> u32 {
        self.in_flight.get()
    }

    fn there(&self) -> Option<D> {
        let usable = !self.lost.get() || self.rebuilt.get().is_some();
        self.drive.borrow().as_ref().filter(|_| usable).cloned()
    }

    async fn counted<T>(&self, operation: impl Future<Output = T>) -> T {
        self.in_flight.set(self.in_flight.get() + 1);
        let done = operation.await;
        self.in_flight.set(self.in_flight.get() - 1);
        done
    }

    pub async fn read(&self, offset: u64, len: u64) -> Result<Buf, DriveError> {
        let gone = DriveError {
            operation: io::Operation::Read,
            offset,
            len,
            kind: DriveErrorKind::Removed,
        };
        let drive = self.there().ok_or(gone)?;
        self.counted(drive.read(offset, len as usize)).await
    }

    /// A drive that can't take a write holds old bytes from now on: it is lost.
    pub async fn write(&self, offset: u64, data: Buf, how: Durability) -> Result<(), Lost> {
        let drive = self.there().ok_or(Lost)?;
        let done = self.counted(drive.write(offset, data, how)).await;
        if how == Durability::Cached {
            self.dirty.set(true);
        }
        done.map_err(|_| self.lose()).map_err(|()| Lost)
    }

    /// Writes zeroes that take no space on it.
    pub async fn write_zeroes(&self, offset: u64, len: u64, how: Durability) -> Result<(), Lost> {
        let drive = self.there().ok_or(Lost)?;
        let done = self.counted(drive.write_zeroes(offset, len)).await;
        self.dirty.set(true);
        done.map_err(|_| self.lose()).map_err(|()| Lost)?;
        match how {
            Durability::Cached => Ok(()),
            Durability::Durable => self.flush().await,
        }
    }

    /// Whether it can; of one that is not there it does not matter.
    pub fn takes_write_zeroes(&self) -> bool {
        self.there().is_none_or(|drive| drive.takes_write_zeroes())
    }

    /// Makes durable what was written before.
    pub async fn flush(&self) -> Result<(), Lost> {
        let drive = self.there().ok_or(Lost)?;
        let _turn = self.flush_turn.lock().await;
        if !self.dirty.replace(false) {
            return if self.there().is_none() { Err(Lost) } else { Ok(()) };
        }
        let flushing = Flushing(&self.dirty);
        let done = self.counted(drive.flush()).await;
        std::mem::forget(flushing);
        done.map_err(|_| self.lose()).map_err(|()| Lost)
    }
}

/// A flush under way. One that is cancelled leaves all of it to the next.
struct Flushing<'a>(&'a Cell<bool>);

impl Drop for Flushing<'_> {
    fn drop(&mut self) {
        self.0.set(true);
    }
}
