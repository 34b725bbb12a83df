//! A pool of any in-place scheme grows by a further array, as zpools do by a vdev: nothing that is
//! there moves, and all volumes may use what comes.
//!
//! ```text
//!   new drives ─> an array like any pool ─> its labels: array n of this pool ─> joined
//!     ─> the table of volumes lists it (durable) ─> its grains are free
//!            └── a crash before: drives of an array that the pool does not have
//! ```

use classical::label;
use format::{ARRAYS_MAX, Further, INCOMPAT_FURTHER, Member, Superblock};
use io::{Drive, Env};

use super::{Inner, Pool, Severity};
use crate::any::AnyStore;
use crate::part::hang::Patience;
use crate::part::{Part, PartEnv, on_parts};
use crate::scheme::Spec;
use crate::store::{Store, StoreError};
use crate::watch::Watch;

/// What a crash may leave of an array that was being made.
const UNCLAIMED: &str = "unfinished-array";

fn refuse<T>(what: String, hint: &'static str) -> Result<T, StoreError> {
    Err(StoreError::Shape { what, hint })
}

impl<E: Env> Pool<E> {
    /// What another array has to be like, but for how its drives form groups.
    pub fn array_spec(&self) -> Spec {
        // Until it is claimed it is a pool of its own.
        let mut spec = Spec::new(UNCLAIMED, self.inner.scheme);
        spec.chunk = self.inner.label.block_size.into();
        spec.checksums = self.health().0;
        spec
    }

    /// Whether stripes of so many bytes go with the pool's.
    pub fn check_unit(&self, unit: u64) -> Result<(), StoreError> {
        let grain = self.inner.volumes.grain();
        match grain.is_multiple_of(unit) {
            true => Ok(()),
            false => refuse(
                format!("an array with stripes of {unit} bytes, in a pool of pieces of {grain}"),
                "give as many drives, in groups as wide, as the pool was made with",
            ),
        }
    }

    /// Makes an array of these drives, whatever is on them but labels, and grows by it. Requests
    /// go on meanwhile.
    pub async fn grow(&self, drives: Vec<E::Drive>, spec: &Spec) -> Result<(), StoreError> {
        let inner = &self.inner;
        let _turn = inner.drive_turn.lock().await;
        let part = |drive| {
            let part = Part::whole(drive).with_patience(Patience::new(&inner.env));
            part.watched(Watch::new(&inner.env))
        };
        let parts: Vec<Part> = drives.into_iter().map(part).collect();
        inner.check_new(&parts).await?;
        let inside = on_parts(&inner.env);
        let made = async {
            spec.create(&inside, &parts).await?;
            let label = inner.claim(&parts).await?;
            let store = AnyStore::open(&inside, parts.clone(), inner.options).await?;
            self.check_unit(store.unit())?;
            Ok((label, store))
        };
        let (label, store) = match made.await {
            Ok(made) => made,
            Err(error) => {
                for part in &parts {
                    let _ = label::wipe_all(part).await;
                    part.let_go();
                }
                return Err(error);
            }
        };
        inner.take_in(label, parts, store).await
    }
}

impl<E: Env> Inner<E> {
    /// What the labels of its array say of the drive in this place.
    pub(super) fn listed(&self, place: usize) -> Member {
        self.with_listed(place, |label, at| label.members[at])
    }

    /// The same with the label, and the drive's number in it.
    pub(super) fn with_listed<T>(
        &self,
        mut place: usize,
        what: impl FnOnce(&Superblock, usize) -> T,
    ) -> T {
        for label in &*self.arrays.borrow() {
            match place.checked_sub(label.members.len()) {
                Some(rest) => place = rest,
                None => return what(label, place),
            }
        }
        panic!("every drive is one of an array's");
    }

    /// The place that this label says its drive has.
    pub(super) fn place_of(&self, own: &Superblock) -> Option<usize> {
        let (arrays, mut first) = (self.arrays.borrow(), 0);
        for label in &*arrays {
            if label.pool == own.pool {
                let index = usize::from(own.index);
                return (index < label.members.len()).then_some(first + index);
            }
            first += label.members.len();
        }
        None
    }

    async fn check_new(&self, parts: &[Part]) -> Result<(), StoreError> {
        let arrays = self.arrays.borrow().len();
        let what = || format!("a further array of pool {}", self.label.pool_name);
        if self.stopping.get() {
            return refuse(what(), "the pool is being closed");
        }
        if arrays >= ARRAYS_MAX {
            return refuse(what(), "it has 16, and takes no more");
        }
        if self.volumes.further() + 1 != arrays {
            return refuse(what(), "the last one was not taken in: open the pool again first");
        }
        for part in parts {
            if label::read(part).await.is_some() {
                let hint = "it has the label of a pool: give one that is blank";
                return refuse(format!("drive {} in {}", part.name(), what()), hint);
            }
        }
        Ok(())
    }

    /// The labels of a pool that was made on these drives say that it is an array of this one.
    async fn claim(&self, parts: &[Part]) -> Result<Superblock, StoreError> {
        let array = self.arrays.borrow().len() as u16;
        let mut first = None;
        for part in parts {
            let refused = || StoreError::NotWritten { name: part.name() };
            let mut own = label::read(part).await.ok_or_else(refused)?;
            own.further = Some(Further { pool: self.label.pool, array });
            own.features.incompat |= INCOMPAT_FURTHER;
            own.pool_name.clone_from(&self.label.pool_name);
            label::write_one(&own, part).await.map_err(|_| refused())?;
            first = first.or(Some(own));
        }
        first.ok_or(StoreError::NoLabel)
    }

    /// If the table can't be written, what was joined is used by nobody.
    async fn take_in(
        self: &std::rc::Rc<Self>,
        label: Superblock,
        parts: Vec<Part>,
        store: AnyStore<PartEnv<E>>,
    ) -> Result<(), StoreError> {
        let (first, count, id) = (self.drives.borrow().len(), parts.len(), label.pool);
        self.uuids.borrow_mut().extend(label.members.iter().map(|listed| listed.drive));
        let number = self.arrays.borrow().len();
        self.arrays.borrow_mut().push(label);
        for (at, part) in parts.into_iter().enumerate() {
            self.ask_before_giving_up(first + at, &part);
            self.drives.borrow_mut().push(Some(part));
        }
        let base = self.volumes.store().push(store, count);
        self.volumes.grow(id, base).await?;
        let text = format!(
            "drives {first} to {} are array {number} of the pool, whose volumes may use {} MiB now",
            first + count - 1,
            self.volumes.space().total >> 20
        );
        self.tell(Severity::Info, "array-added", None, text);
        Ok(())
    }
}
