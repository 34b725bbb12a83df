//! A stretch of a drive as a drive, so that arrays can lie side by side on the same drives.

pub mod hang;
mod slot;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::rc::Rc;

use format::{Extent, Uuid};
use io::drive::check_range;
use io::gate::Shut;
use io::twin::Twin;
use io::{
    AnyDrive, Buf, BufMut, Drive, DriveError, DriveErrorKind, Durability, Env, Geometry, Nanos,
    Operation, Origins, Wait,
};

use self::hang::Patience;
use self::slot::Slot;
use crate::watch::{Seen, Watch};

/// Operations on a part since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartCounters {
    pub reads: u64,
    pub writes: u64,
    pub flushes: u64,
    pub read_bytes: u64,
    pub write_bytes: u64,
    pub read_errors: u64,
    pub write_errors: u64,
    /// What it was told that it need not keep.
    pub discards: u64,
    pub discard_bytes: u64,
}

#[derive(Clone, Debug)]
pub struct Part {
    slot: Rc<Slot>,
    /// Of all clones: another drive may take its place.
    geometry: Rc<Cell<Geometry>>,
    extent: Extent,
    counters: Rc<Cell<PartCounters>>,
    /// What was written in a rehearsal, sector by sector.
    rehearsed: Option<Rc<RefCell<BTreeMap<u64, Buf>>>>,
    watch: Option<Watch>,
    /// `None`: it is waited for whatever happens.
    patience: Option<Patience>,
    zeroed: bool,
    identity: Option<[u8; 16]>,
}

const SECTOR: usize = 512;
/// Opening a pool writes labels, intents and the stripes that a crash caught: far less than this.
const REHEARSED_MAX: usize = (64 << 20) / SECTOR;

impl Part {
    pub fn new(drive: impl Drive, extent: Extent) -> Part {
        let end = extent.offset.checked_add(extent.len);
        assert!(end.is_some_and(|end| end <= drive.geometry().size), "a part lies on its drive");
        let (counters, zeroed) = (Rc::default(), drive.holds_zeroes());
        let whole = drive.geometry();
        let at_unit = extent.offset.is_multiple_of(u64::from(whole.atomic));
        let atomic = if at_unit { whole.atomic } else { 512 };
        let geometry = Geometry { size: extent.len, atomic, ..whole };
        let geometry = Rc::new(Cell::new(geometry));
        Part {
            slot: Slot::new(AnyDrive::new(drive)),
            geometry,
            extent,
            counters,
            rehearsed: None,
            watch: None,
            patience: None,
            zeroed,
            identity: None,
        }
    }

    /// The drive is not used any more, by this handle, its clones and the parts of them, and is
    /// somebody else's as soon as what is under way is over.
    pub fn let_go(&self) {
        self.slot.let_go();
    }

    fn drive(
        &self,
        (operation, offset, len): (Operation, u64, u64),
    ) -> Result<AnyDrive, DriveError> {
        let gone = DriveError { operation, offset, len, kind: DriveErrorKind::Removed };
        self.slot.drive().ok_or(gone)
    }

    pub fn is_let_go(&self) -> bool {
        self.slot.is_let_go()
    }

    /// Whether these are the same, or one a clone of the other.
    pub fn is_same(&self, other: &Part) -> bool {
        Rc::ptr_eq(&self.slot, &other.slot)
    }

    /// What is written is due to be copied onto another drive from now on, or not any more.
    pub fn set_twin(&self, twin: Option<Rc<Twin>>) {
        self.slot.set_twin(twin);
    }

    /// Waits until writes are over that began before the drive had its twin.
    pub async fn settle(&self) {
        self.slot.settle().await;
    }

    /// Holds back reads and flushes, and waits until none is under way.
    pub async fn shut(&self) -> Shut {
        self.slot.shut().await
    }

    /// The drive as it is now, whoever is held back and whatever has its place later.
    pub fn beside(&self) -> Option<Part> {
        let geometry = Rc::new(Cell::new(self.geometry.get()));
        Some(Part { slot: Slot::new(self.slot.drive()?), geometry, ..self.clone() })
    }

    /// The other part's drive takes the place of this one, for all clones, with an empty record.
    /// The two must hold the same, and nobody be using this one.
    pub fn exchange(&self, other: &Part) {
        let drive = other.slot.drive().expect("a drive that was let go replaces none");
        self.slot.exchange(drive);
        self.geometry.set(other.geometry.get());
        self.counters.set(PartCounters::default());
    }

    /// All of a drive.
    pub fn whole(drive: impl Drive) -> Part {
        let extent = Extent { offset: 0, len: drive.geometry().size };
        Part::new(drive, extent)
    }

    /// The same drive, on which nothing is written: what is, only this handle and its clones see.
    pub fn rehearsal(self) -> Part {
        Part { rehearsed: Some(Rc::default()), ..self }
    }

    /// The same drive, whose operations this watch sees.
    pub fn watched(self, watch: Watch) -> Part {
        Part { watch: Some(watch), ..self }
    }

    /// The same drive, which fails if it does not answer.
    pub fn with_patience(self, patience: Patience) -> Part {
        Part { patience: Some(patience), ..self }
    }

    pub fn patience(&self) -> Option<&Patience> {
        self.patience.as_ref()
    }

    /// It was given up because it does not answer.
    pub fn hangs(&self) -> bool {
        self.patience.as_ref().is_some_and(Patience::hangs)
    }

    /// The same drive, known to hold nothing but zeroes. Arrays that are made on such drives agree
    /// from the start and are not synchronized: what md calls `--assume-clean`. If it is not true,
    /// a lost drive's bytes are rebuilt wrong wherever they were never written.
    pub fn zeroed(self) -> Part {
        Part { zeroed: true, ..self }
    }

    /// The same drive, which stays who it is ([`Drive::identity`]).
    pub fn with_identity(self, identity: Uuid) -> Part {
        Part { identity: Some(identity.0), ..self }
    }

    /// Its watch says so; without one it never is.
    pub fn is_slow(&self) -> bool {
        self.watch.as_ref().is_some_and(Watch::is_slow)
    }

    pub fn watch(&self) -> Option<&Watch> {
        self.watch.as_ref()
    }

    /// What its watch has seen; nothing without one.
    pub fn seen(&self) -> Seen {
        self.watch.as_ref().map(Watch::seen).unwrap_or_default()
    }

    /// The answer of the drive, as long as it is waited for, and seen by its watch, if it has one.
    async fn answer<T: 'static>(
        &self,
        (operation, offset, len): (Operation, u64, u64),
        asked: impl Future<Output = Result<T, DriveError>> + 'static,
    ) -> Result<T, DriveError> {
        let watch = self.watch.clone();
        let asked = async move {
            let ticket = watch.as_ref().map(|watch| watch.begin(operation));
            let done = asked.await;
            if let Some((watch, ticket)) = watch.as_ref().zip(ticket) {
                watch.end(ticket);
            }
            done
        };
        match &self.patience {
            None => asked.await,
            Some(patience) => {
                let late = DriveError { operation, offset, len, kind: DriveErrorKind::Hangs };
                patience.wait_for(asked, late).await
            }
        }
    }

    /// Tells the drive that it need not keep a range. In a rehearsal zeroes are there then.
    async fn freed<F>(
        &self,
        offset: u64,
        len: u64,
        free: impl FnOnce(AnyDrive, u64) -> F,
    ) -> Result<(), DriveError>
    where
        F: Future<Output = Result<(), DriveError>> + 'static,
    {
        let place = self.place(Operation::Discard, offset, len)?;
        let what = (Operation::Discard, place, len);
        let writing = self.slot.writing(place..place + len).await;
        let drive = self.drive(what)?;
        if self.rehearsed.is_some() {
            return self.rehearse(place, &Buf::zeroed(len as usize));
        }
        let freed = free(drive, place);
        let freed = async move {
            let _writing = writing;
            freed.await
        };
        let done = self.answer(what, freed).await;
        self.count(|counters| {
            counters.discards += 1;
            counters.discard_bytes += len;
            counters.write_errors += u64::from(done.is_err());
        });
        done
    }

    fn rehearse(&self, place: u64, data: &Buf) -> Result<(), DriveError> {
        let mut sectors = self.rehearsed.as_ref().expect("it is a rehearsal").borrow_mut();
        for at in (0..data.len()).step_by(SECTOR) {
            sectors.insert(place + at as u64, data.slice(at..at + SECTOR));
        }
        let (operation, len) = (Operation::Write, data.len() as u64);
        let full = DriveError { operation, offset: place, len, kind: DriveErrorKind::Short };
        if sectors.len() > REHEARSED_MAX { Err(full) } else { Ok(()) }
    }

    /// What was read, with what was written in the rehearsal.
    fn patched(&self, place: u64, read: Buf) -> Buf {
        let Some(sectors) = self.rehearsed.as_ref().map(|sectors| sectors.borrow()) else {
            return read;
        };
        let mut patches = sectors.range(place..place + read.len() as u64).peekable();
        if patches.peek().is_none() {
            return read;
        }
        let mut bytes = BufMut::from_slice(&read);
        for (at, sector) in patches {
            bytes[(at - place) as usize..][..SECTOR].copy_from_slice(sector);
        }
        bytes.freeze()
    }

    pub fn counters(&self) -> PartCounters {
        self.counters.get()
    }

    fn count(&self, how: impl FnOnce(&mut PartCounters)) {
        let mut counters = self.counters.get();
        how(&mut counters);
        self.counters.set(counters);
    }

    fn place(&self, operation: Operation, offset: u64, len: u64) -> Result<u64, DriveError> {
        check_range(self.geometry(), operation, offset, len)?;
        Ok(self.extent.offset + offset)
    }
}

impl Drive for Part {
    fn geometry(&self) -> Geometry {
        self.geometry.get()
    }

    fn name(&self) -> String {
        self.slot.name()
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Buf, DriveError> {
        let place = self.place(Operation::Read, offset, len as u64)?;
        let what = (Operation::Read, place, len as u64);
        let asking = self.slot.asking().await;
        let done = match self.drive(what) {
            Ok(drive) => {
                let read = async move {
                    let _asking = asking;
                    drive.read(place, len).await
                };
                self.answer(what, read).await
            }
            Err(gone) => Err(gone),
        };
        let done = done.map(|read| self.patched(place, read));
        self.count(|counters| {
            counters.reads += 1;
            counters.read_bytes += len as u64;
            counters.read_errors += u64::from(done.is_err());
        });
        done
    }

    async fn write(&self, offset: u64, data: Buf, how: Durability) -> Result<(), DriveError> {
        let place = self.place(Operation::Write, offset, data.len() as u64)?;
        let len = data.len() as u64;
        let what = (Operation::Write, place, len);
        let writing = self.slot.writing(place..place + len).await;
        let done = match (&self.rehearsed, self.drive(what)) {
            (_, Err(gone)) => Err(gone),
            (Some(_), _) => self.rehearse(place, &data),
            (None, Ok(drive)) => {
                let write = async move {
                    let _writing = writing;
                    drive.write(place, data, how).await
                };
                self.answer(what, write).await
            }
        };
        self.count(|counters| {
            counters.writes += 1;
            counters.write_bytes += len;
            counters.write_errors += u64::from(done.is_err());
        });
        done
    }

    async fn flush(&self) -> Result<(), DriveError> {
        self.count(|counters| counters.flushes += 1);
        let what = (Operation::Flush, 0, 0);
        let asking = self.slot.asking().await;
        let drive = self.drive(what)?;
        let flush = async move {
            let _asking = asking;
            drive.flush().await
        };
        self.answer(what, flush).await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DriveError> {
        let discarded = |drive: AnyDrive, place| async move { drive.discard(place, len).await };
        self.freed(offset, len, discarded).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), DriveError> {
        let zeroed = |drive: AnyDrive, place| async move { drive.write_zeroes(place, len).await };
        self.freed(offset, len, zeroed).await
    }

    fn takes_write_zeroes(&self) -> bool {
        self.slot.drive().is_some_and(|drive| drive.takes_write_zeroes())
    }

    fn discard_granularity(&self) -> Option<u32> {
        self.slot.drive().and_then(|drive| drive.discard_granularity())
    }

    fn is_short(&self) -> bool {
        self.slot.drive().is_some_and(|drive| drive.is_short())
    }

    fn begins_at(&self) -> u64 {
        self.slot.begins_at() + self.extent.offset
    }

    fn holds_zeroes(&self) -> bool {
        self.zeroed
    }

    fn identity(&self) -> Option<[u8; 16]> {
        self.identity
    }
}

/// The same world with drives of another kind.
#[derive(Clone)]
pub struct EnvOn<E, D> {
    env: E,
    drives: PhantomData<fn() -> D>,
}

/// A world whose drives are parts of drives.
pub type PartEnv<E> = EnvOn<<E as Env>::Root, Part>;

/// The same world with parts of its drives.
pub fn on_parts<E: Env>(env: &E) -> PartEnv<E> {
    EnvOn::new(env.root())
}

impl<E, D> EnvOn<E, D> {
    pub fn new(env: E) -> EnvOn<E, D> {
        EnvOn { env, drives: PhantomData }
    }
}

impl<E: Env, D: Drive> Env for EnvOn<E, D> {
    type Drive = D;
    type Root = E::Root;

    fn root(&self) -> E::Root {
        self.env.root()
    }

    fn now(&self) -> Nanos {
        self.env.now()
    }

    fn recent(&self) -> Nanos {
        self.env.recent()
    }

    fn sleep_until(&self, deadline: Nanos) -> impl Future<Output = ()> + 'static {
        self.env.sleep_until(deadline)
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.env.spawn(task);
    }

    fn spawn_shared(&self, task: impl Future<Output = ()> + 'static) {
        self.env.spawn_shared(task);
    }

    fn origins(&self) -> Origins {
        self.env.origins()
    }

    fn on_behalf<F: Future>(&self, origins: Origins, future: F) -> impl Future<Output = F::Output> {
        self.env.on_behalf(origins, future)
    }

    fn waited(&self, wait: Wait, since: Nanos) {
        self.env.waited(wait, since);
    }

    fn random(&self) -> u64 {
        self.env.random()
    }
}
