//! What every scheme is to the volumes on it: a row of bytes that outlives drives and crashes.

use std::collections::BTreeMap;
use std::ops::Range;

use classical::{Array, ArrayError, Grid};
use format::{Superblock, Uuid};
use io::sync::Turn;
use io::{Buf, Drive, Env};

use crate::care::{self, AllKept};

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error(transparent)]
    Array(#[from] ArrayError),
    #[error("{len} bytes at {offset}: outside the array ({size} bytes) or no multiple of 512")]
    Range { offset: u64, len: u64, size: u64 },
    #[error("the array is too small: {size} bytes, at least {least} are needed")]
    Small { size: u64, least: u64 },
    #[error("no label of a set of arrays on any of these drives")]
    NoLabel,
    #[error("drive {name} belongs to another pool: leave it out")]
    OtherPool { name: String },
    #[error("drive {name} can't be written to: replace it")]
    NotWritten { name: String },
    #[error("drive {name} does not answer, and can't be done without: it is waited for no more")]
    Hangs { name: String },
    #[error(
        "{what}: out of date, as other drives of the pool know: {missing}, which went on without \
         it, is not here: bring that back"
    )]
    OutOfDate { what: String, missing: String },
    #[error("{what}: {hint}")]
    Shape { what: String, hint: &'static str },
    /// What the drives say makes no sense, checksums and copies notwithstanding.
    #[error("{0} is damaged: restore from a backup")]
    Damaged(String),
}

impl StoreError {
    /// A page nobody can give, and nothing else.
    pub fn is_page_lost(&self) -> bool {
        matches!(self, StoreError::Array(ArrayError::PageLost { .. }))
    }
}

/// How a scheme's counters are shown: by their names, in a fixed order.
pub type Counters = Vec<(&'static str, u64)>;

/// Those of several stores as of one.
pub fn add_up(all: impl IntoIterator<Item = (&'static str, u64)>) -> Counters {
    let (mut names, mut sums) = (Vec::new(), BTreeMap::<_, u64>::new());
    for (name, value) in all {
        if !sums.contains_key(name) {
            names.push(name);
        }
        *sums.entry(name).or_default() += value;
    }
    names.into_iter().map(|name| (name, sums[name])).collect()
}

/// Requests are multiples of 512 bytes anywhere within `size`; any number may be under way. What
/// two writes to the same bytes at the same time leave is either's. A write is durable when it was
/// answered with `fua`, or when a `flush` that began after its answer has returned.
///
/// A handle: clones name the same.
pub trait Store: Clone + 'static {
    /// Bytes it offers; never fewer than before.
    fn size(&self) -> u64;

    /// Writes of so many bytes, from a multiple of them, cost least.
    fn unit(&self) -> u64;

    /// Into so many equal parts it falls that share no drives: a volume stays in one if it can.
    fn regions(&self) -> u64 {
        1
    }

    /// Where this grain of a volume should lie: one of these parts, of which volumes take turns.
    fn region(&self, volume: u32, _grain: u32) -> Range<u64> {
        let (each, at) = (self.size() / self.regions(), u64::from(volume) % self.regions());
        each * at..each * (at + 1)
    }

    fn read(&self, offset: u64, len: u64) -> impl Future<Output = Result<Buf, StoreError>>;

    fn write(
        &self,
        offset: u64,
        data: Buf,
        fua: bool,
    ) -> impl Future<Output = Result<(), StoreError>>;

    /// Nobody needs what is in this range, until it is written again; what reads give of it till
    /// then is anything. The drives are told of what can be told, as something that can wait.
    fn discard(&self, offset: u64, len: u64) -> impl Future<Output = Result<(), StoreError>>;

    fn flush(&self) -> impl Future<Output = Result<(), StoreError>>;

    /// Makes everything durable and says so on the drives; no request is under way.
    fn close(&self) -> impl Future<Output = Result<(), StoreError>>;

    /// Does one piece of work that can wait (migration, destaging, reclaiming), beside requests.
    /// False: there is none.
    fn work(&self) -> impl Future<Output = Result<bool, StoreError>>;

    /// Stripes that a crash left to be looked at.
    fn owed(&self) -> u64;

    /// Regions of its arrays that are marked: being written, or written a short while ago. A crash
    /// now would cost a look at these. 0: it is in sync.
    fn marks(&self) -> u64;

    /// Whether it wants to be told which drives are slow.
    fn steers(&self) -> bool {
        false
    }

    /// A drive, by its place in the pool, has become slow, or quick again.
    fn steer(&self, _drive: usize, _slow: bool) {}

    /// A drive, by its place in the pool, is read only where nobody else can answer, or as any
    /// other again. It stays a member, and is written to.
    fn sit_out(&self, drive: usize, out: bool);

    /// Drives that are lost, by their place in the pool.
    fn lost(&self) -> Vec<usize>;

    /// How many drives may still die before data is lost, whichever they are.
    fn margin(&self) -> usize;

    /// How drives work together, for people: `RAID5 3+1, 2 groups`.
    fn shape(&self) -> String;

    fn counters(&self) -> Counters;

    /// What its pages lie on, to be scrubbed.
    fn kept(&self) -> AllKept;

    /// What contradicts itself in this range; nothing may be written meanwhile. For tests.
    fn audit(&self, offset: u64, len: u64) -> impl Future<Output = Vec<String>>;
}

pub fn check_range(offset: u64, len: u64, size: u64) -> Result<(), StoreError> {
    let inside = offset.checked_add(len).is_some_and(|end| end <= size);
    match inside && (offset | len).is_multiple_of(512) {
        true => Ok(()),
        false => Err(StoreError::Range { offset, len, size }),
    }
}

/// How far a drive is filled that has taken a lost one's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restoring {
    pub place: usize,
    /// Bytes, of `all`.
    pub left: u64,
    pub all: u64,
}

/// What can be done about the drives of a store while it is used.
pub trait Replace: Store {
    type Drive: Drive;

    /// Whether all data would be there without this drive, too.
    fn bears(&self, place: usize) -> bool;

    /// The drive is not used any more, and its label not believed, whether it works or not.
    fn write_off(&self, place: usize) -> impl Future<Output = Result<(), StoreError>>;

    /// Gives the place of a lost drive to a new one, or to the same that is back.
    /// [`Store::work`] fills it; it counts as lost until it has everything.
    fn replace(
        &self,
        place: usize,
        new: Self::Drive,
    ) -> impl Future<Output = Result<(), StoreError>>;

    /// New drives that do not have everything yet.
    fn restoring(&self) -> Vec<Restoring>;

    /// New drives are not filled for the time being, or are again.
    fn hold(&self, held: bool);

    /// A new drive has everything: the labels call it restoring no more.
    fn tell_whole(&self, place: usize) -> impl Future<Output = Result<(), StoreError>>;

    /// Who changes the labels of this drive and of those beside it holds it.
    fn label_turn(&self, place: usize) -> Turn;

    /// The labels of the others say from now on that the drive in this place, which is not lost, is
    /// this one, if none of them fails. What its own has to say. The turn of labels is held.
    fn relist(
        &self,
        place: usize,
        drive: Uuid,
    ) -> impl Future<Output = Result<Superblock, StoreError>>;
}

/// Replacing a drive is refused.
pub fn refuse_drive<T>(name: &str, place: usize, hint: &'static str) -> Result<T, StoreError> {
    Err(StoreError::Shape { what: format!("drive {name} in place {place}"), hint })
}

impl<E: Env> Store for Array<E> {
    fn size(&self) -> u64 {
        Array::size(self)
    }

    fn unit(&self) -> u64 {
        self.grid().stripe_bytes()
    }

    async fn read(&self, offset: u64, len: u64) -> Result<Buf, StoreError> {
        Ok(Array::read(self, offset, len).await?)
    }

    async fn write(&self, offset: u64, data: Buf, fua: bool) -> Result<(), StoreError> {
        Ok(Array::write(self, offset, data, fua).await?)
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), StoreError> {
        Ok(Array::discard(self, offset, len).await?)
    }

    async fn flush(&self) -> Result<(), StoreError> {
        Ok(Array::flush(self).await?)
    }

    async fn close(&self) -> Result<(), StoreError> {
        Ok(self.clone().close().await?)
    }

    async fn work(&self) -> Result<bool, StoreError> {
        Ok(self.rebuild().await? || self.resync().await?)
    }

    fn sit_out(&self, drive: usize, out: bool) {
        Array::sit_out(self, drive, out);
    }

    fn lost(&self) -> Vec<usize> {
        Array::lost(self)
    }

    fn owed(&self) -> u64 {
        self.owed_stripes().0
    }

    fn marks(&self) -> u64 {
        Array::marks(self)
    }

    fn margin(&self) -> usize {
        let (grid, lost) = (self.grid(), Array::lost(self));
        let gone = |group| lost.iter().filter(|drive| grid.group_of(**drive) == group).count();
        let left = (0..grid.groups()).map(|group| grid.tolerance().saturating_sub(gone(group)));
        left.min().unwrap_or(0)
    }

    fn shape(&self) -> String {
        self.grid().to_string()
    }

    fn counters(&self) -> Counters {
        Vec::new()
    }

    fn kept(&self) -> AllKept {
        care::kept([self])
    }

    async fn audit(&self, offset: u64, len: u64) -> Vec<String> {
        let wrong = self.disagreeing(offset, len).await;
        wrong.iter().map(|stripe| format!("stripe {stripe}: its drives disagree")).collect()
    }
}

impl<E: Env> Replace for Array<E> {
    type Drive = E::Drive;

    fn bears(&self, place: usize) -> bool {
        let (grid, lost) = (self.grid(), Array::lost(self));
        let group = grid.group_of(place);
        let others = lost.iter().filter(|at| **at != place && grid.group_of(**at) == group);
        others.count() < grid.tolerance()
    }

    async fn write_off(&self, place: usize) -> Result<(), StoreError> {
        Ok(Array::write_off(self, place).await?)
    }

    async fn replace(&self, place: usize, new: E::Drive) -> Result<(), StoreError> {
        check_replaced(self, place, &new)?;
        Ok(self.restore(place, new).await?)
    }

    fn restoring(&self) -> Vec<Restoring> {
        let Grid { chunk, .. } = self.grid();
        let restoring = |place| {
            let (left, all) = self.rows_left(place)?;
            Some(Restoring { place, left: left * chunk, all: all * chunk })
        };
        Array::restoring(self).into_iter().filter_map(restoring).collect()
    }

    fn hold(&self, held: bool) {
        Array::hold(self, held);
    }

    /// Its last step has told it.
    async fn tell_whole(&self, _place: usize) -> Result<(), StoreError> {
        Ok(())
    }

    fn label_turn(&self, _place: usize) -> Turn {
        Array::label_turn(self)
    }

    async fn relist(&self, place: usize, drive: Uuid) -> Result<Superblock, StoreError> {
        Ok(Array::relist(self, place, drive).await?)
    }
}

/// Refuses what can't be rebuilt, in the words of an operator.
fn check_replaced<E: Env>(
    array: &Array<E>,
    place: usize,
    new: &E::Drive,
) -> Result<(), StoreError> {
    let name = new.name();
    if !Array::lost(array).contains(&place) {
        return refuse_drive(&name, place, "nothing is lost there");
    }
    if array.rebuilt(place).is_some() {
        return refuse_drive(&name, place, "another one is being filled there");
    }
    if array.grid().tolerance() == 0 {
        let hint = "nothing has what the lost drive had: restore the volumes from a backup";
        return refuse_drive(&name, place, hint);
    }
    match array.check_replacement(place, new) {
        Ok(()) => Ok(()),
        Err(_) => refuse_drive(&name, place, "it is too small, or its unit too large"),
    }
}
