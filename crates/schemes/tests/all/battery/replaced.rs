//! Worlds in which drives that are lost are replaced while requests are served: by others, or by
//! themselves when they are back; and lost again, before they are whole or after. Power fails at
//! any write.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use io::Drive;
use io::virt::{VirtDrive, VirtEnv};
use schemes::{Replace, Store, StoreError};

use crate::battery::world::{Subject, worlds};

/// Drives restored in the worlds of one scheme, for each world.
const RESTORED: u64 = 1;
/// Worlds; more with SCHEME_SEEDS.
const SEEDS: u64 = 12;

type Ask = Box<dyn Fn() -> Vec<usize>>;

thread_local! {
    /// Drives that were lost when the store was last asked. One that is whole again is not: others
    /// may be lost from then on, and with the power, too.
    static LOST: RefCell<BTreeSet<usize>> = const { RefCell::new(BTreeSet::new()) };
    /// Drives that were whole again while the store was open, all worlds together.
    static WHOLE: Cell<u64> = const { Cell::new(0) };
    /// What is lost in the store that was opened last.
    static NOW: RefCell<Option<Ask>> = const { RefCell::new(None) };
    static FILLING: RefCell<BTreeSet<usize>> = const { RefCell::new(BTreeSet::new()) };
}

fn note_lost() {
    let now = NOW.with_borrow(|now| now.as_ref().map_or_else(Vec::new, |now| now()));
    LOST.with_borrow_mut(|lost| *lost = now.into_iter().collect());
}

/// The same scheme, whose lost drives are replaced.
#[derive(Clone, Copy)]
pub struct Replaced<S>(pub S);

impl<S: Subject> Subject for Replaced<S>
where
    S::Store: Replace<Drive = VirtDrive>,
{
    type Store = S::Store;

    fn name(&self) -> String {
        format!("{}, drives replaced", self.0.name())
    }

    fn drives(&self) -> Vec<u64> {
        self.0.drives()
    }

    fn begin(&self) {
        self.0.begin();
        LOST.take();
        FILLING.take();
        NOW.take();
    }

    async fn create(&self, env: &VirtEnv, drives: &[VirtDrive]) -> Result<(), StoreError> {
        self.0.create(env, drives).await
    }

    async fn open(&self, env: &VirtEnv, drives: Vec<VirtDrive>) -> Result<S::Store, StoreError> {
        let store = self.0.open(env, drives).await?;
        LOST.take();
        FILLING.take();
        let own = store.clone();
        NOW.set(Some(Box::new(move || own.lost())));
        note_lost();
        Ok(store)
    }

    fn survives(&self, lost: &[bool]) -> bool {
        let mut lost = lost.to_vec();
        note_lost();
        LOST.with_borrow(|known| known.iter().for_each(|drive| lost[*drive] = true));
        self.0.survives(&lost)
    }

    fn by_parity(&self) -> bool {
        self.0.by_parity()
    }

    async fn tend(&self, store: &S::Store, drives: Vec<VirtDrive>) {
        note_lost();
        let lost = store.lost();
        let whole = FILLING.with_borrow_mut(|filling| {
            let before = filling.len();
            filling.retain(|drive| lost.contains(drive));
            before - filling.len()
        });
        WHOLE.set(WHOLE.get() + whole as u64);
        for place in lost {
            let name = format!("d{place}");
            let Some(drive) = drives.iter().find(|drive| drive.name() == name) else { continue };
            // Refused while one is filled there, or while it does not answer.
            if store.replace(place, drive.clone()).await.is_ok() {
                FILLING.with_borrow_mut(|filling| filling.insert(place));
            }
        }
    }

    fn hangs(&self) -> bool {
        true
    }

    fn records_first(&self) -> bool {
        self.0.records_first()
    }

    fn admits_loss(&self) -> bool {
        self.0.admits_loss()
    }

    fn may_be_refused(&self) -> bool {
        self.0.may_be_refused()
    }

    fn copies_later(&self) -> bool {
        self.0.copies_later()
    }
}

/// Drives hang and come back, or others are put in their places.
pub fn battery_replaced<S: Subject>(subject: S)
where
    S::Store: Replace<Drive = VirtDrive>,
{
    WHOLE.set(0);
    let count = worlds(Replaced(subject), SEEDS, |mut world| {
        for _ in 0..5 {
            let limit = 1 + world.rng.below(900);
            if world.session(limit) {
                world.die(false);
            }
            world.check();
            if world.rng.chance(2, 3) {
                world.restock();
            }
            if world.rng.chance(1, 2) {
                let pieces = world.rng.below(300);
                world.rest(pieces);
                world.check();
            }
        }
    });
    let whole = WHOLE.get();
    assert!(whole >= RESTORED * count, "{}: {whole} drives were restored", subject.name());
}
