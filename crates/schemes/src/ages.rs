//! How new each array of a set is, as the labels on all drives of the set remember.
//!
//! ```text
//!   pair   d0 ── away ───────────── back, old        the pair alone can't tell that d1 went on
//!          d1 ── goes on, age 8 ─── gone
//!   set    d0 d1 d2 d3 d4                            d2, d3, d4: the pair is of age 8. Refused
//! ```
//! A drive that was away does not know what its partner did meanwhile, and when that is gone in its
//! turn, nobody in their array does. But the labels of the set are on the drives of the other
//! arrays, too. The *age* of an array is the generation of its own labels, which rises with every
//! opening and every loss; that of an `alternate` pool is the generation of the pages of its
//! replicas. The labels of the set are told of it when the pool is opened, before anything is
//! answered, and by the pool's next work, or when it is closed, after a drive was lost. Then no
//! drive that missed it can speak for its array.
//!
//! What is refused is only what is older than the labels of the set say. They are told of an age
//! when the array's drives have it durably, so a crash before leaves the set with an older one,
//! which harms nobody. It is told with the identity of the array, so that one which was made anew
//! in its place is not measured by it. None is known of a pool that older software made or served;
//! that leaves the ages alone, and arrays only grow newer.
//!
//! What remains: a drive that is lost while the pool is served, and a crash before the next work,
//! which is a fraction of a second away unless the pool is very busy. And where no other drive is
//! there nobody knows: of two replicas of one drive each, or if all that went on are left out.

use std::cell::RefCell;
use std::ops::Range;

use classical::{Array, Assembly, OpenOptions};
use format::{CheckpointRoot, Uuid};
use io::{Drive, Env};

use crate::part::{Part, PartEnv, on_parts};
use crate::set::Set;
use crate::store::StoreError;

/// Of which array, and how new.
pub type Age = (Uuid, u64);

/// Where labels of pools with checkpoints have those.
fn to_root(&(Uuid(array), number): &Age) -> CheckpointRoot {
    let half = |at: usize| u64::from_le_bytes(array[at..at + 8].try_into().expect("8 bytes"));
    CheckpointRoot { seq: number, journal_start: 0, objects: half(0), fingerprint: half(8) }
}

fn of_root(root: &CheckpointRoot) -> Age {
    let mut array = [0; 16];
    array[..8].copy_from_slice(&root.objects.to_le_bytes());
    array[8..].copy_from_slice(&root.fingerprint.to_le_bytes());
    (Uuid(array), root.seq)
}

/// An error if the labels of a set say that one of its arrays, by its number, is newer than what is
/// here of it, on drives in these places.
pub fn check<D: Drive>(
    set: &Set<D>,
    (number, places): (usize, Range<usize>),
    (array, own): Age,
    what: impl FnOnce() -> String,
) -> Result<(), StoreError> {
    let known = set.label.checkpoint.get(number).map(of_root);
    if !known.is_some_and(|(known, age)| known == array && own < age) {
        return Ok(());
    }
    let missing = places.filter(|place| set.drive(*place).is_none());
    let missing: Vec<String> = missing.map(|place| place.to_string()).collect();
    let missing = match missing.is_empty() {
        true => "one that can't be read".to_owned(),
        false => format!("drive number {}", missing.join(" or ")),
    };
    Err(StoreError::OutOfDate { what: what(), missing })
}

/// Whether they say that one of its arrays is so new, or newer.
pub fn knows<D: Drive>(set: &Set<D>, number: usize, (array, own): Age) -> bool {
    let known = set.label.checkpoint.get(number).map(of_root);
    known.is_some_and(|(known, age)| known == array && own <= age)
}

/// The same set whose labels say this of its arrays. `None`: they do already.
fn with_ages<D: Drive>(set: &Set<D>, ages: &[Option<Age>]) -> Option<Set<D>> {
    let told = ages.iter().enumerate().filter_map(|(number, age)| Some((number, (*age)?)));
    let news: Vec<(usize, Age)> = told.filter(|(number, age)| !knows(set, *number, *age)).collect();
    if news.is_empty() {
        return None;
    }
    let mut next = set.clone();
    let roots = &mut next.label.checkpoint;
    roots.resize(roots.len().max(ages.len()), CheckpointRoot::default());
    news.iter().for_each(|(number, age)| roots[*number] = to_root(age));
    next.label.shards = next.label.checkpoint.len() as u16;
    next.label.generation += 1;
    Some(next)
}

/// The labels of a set in use say how new its arrays are; those of the lost drives are left alone.
/// Who changes the set waits.
pub async fn tell<D: Drive>(set: &RefCell<Set<D>>, ages: &[Option<Age>], lost: &[usize]) {
    let next = with_ages(&set.borrow(), ages);
    let Some(mut next) = next else { return };
    // Whatever becomes of this: no two labels of one generation differ.
    set.borrow_mut().label = next.label.clone();
    lost.iter().for_each(|place| next.forget(*place));
    // One that can't take it has an array which will find that out; the others know.
    let _ = next.write_labels().await;
}

pub async fn of_all<E: Env>(arrays: impl IntoIterator<Item = &Array<E>>) -> Vec<Option<Age>> {
    let mut ages = Vec::new();
    for array in arrays {
        ages.push(array.age().await);
    }
    ages
}

/// Opens the arrays of a set, all or none, each with its places in the set and what the drives
/// there have of it. One is refused if no drive that is here is as new as the labels say.
pub async fn open<E: Env, const COUNT: usize>(
    env: &E,
    set: &Set<E::Drive>,
    arrays: [(Range<usize>, Vec<Part>); COUNT],
    options: OpenOptions,
) -> Result<[Array<PartEnv<E>>; COUNT], StoreError> {
    let mut assemblies = Vec::new();
    for (number, (places, parts)) in arrays.into_iter().enumerate() {
        let assembly = Assembly::of(parts).await?;
        check(set, (number, places), assembly.age(), || {
            format!("drive {}", assembly.names().join(", "))
        })?;
        assemblies.push(assembly);
    }
    let (env, mut opened) = (on_parts(env), Vec::new());
    for assembly in assemblies {
        opened.push(Array::open_assembly(&env, assembly, options).await?);
    }
    Ok(opened.try_into().ok().expect("as many are opened as are given"))
}
