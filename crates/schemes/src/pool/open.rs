//! Which array of which pool each drive is of, and the pool's arrays one behind the other.

use format::{MemberState, Superblock};
use io::{Drive, Env};

use super::spares::{SPARES_MAX, Spare};
use super::{PoolVolumes, hangs};
use crate::any::AnyStore;
use crate::joined::Joined;
use crate::part::{Part, on_parts};
use crate::scheme::{OpenOptions, Scheme};
use crate::store::StoreError;
use crate::volumes::{self, Further, Volumes};

/// A drive, and what it says of itself.
pub(super) type Found = (Part, Option<Superblock>);

/// The newest label of a pool's first array.
pub(super) fn first_label(found: &[Found]) -> Result<Superblock, StoreError> {
    let members = || found.iter().filter_map(|(_, own)| own.as_ref()).filter(|own| !own.is_spare());
    let first = members().filter(|own| own.further.is_none()).max_by_key(|own| own.generation);
    match (first, members().next()) {
        (Some(first), _) => Ok(first.clone()),
        (None, Some(other)) => absent(&other.pool_name, 0),
        (None, None) => Err(StoreError::NoLabel),
    }
}

fn absent<T>(pool: &str, array: usize) -> Result<T, StoreError> {
    let what = format!("array {array} of pool {pool}: none of its drives is here");
    Err(StoreError::Shape { what, hint: "give all drives of the pool" })
}

/// Drives that may be an array's: who opens it knows which to believe. The first refuses drives of
/// other pools.
fn of_array(found: &[Found], array: &Superblock) -> Vec<Part> {
    let first = array.further.is_none();
    let may_be = |own: &Option<Superblock>| match own {
        Some(own) if own.is_spare() => false,
        Some(own) => own.pool == array.pool || first && own.home() != array.pool,
        None => first,
    };
    found.iter().filter(|(_, own)| may_be(own)).map(|(part, _)| part.clone()).collect()
}

/// Whether all its drives are there, and were well when its labels were written.
fn is_whole(found: &[Found], array: &Superblock) -> bool {
    let own = || found.iter().filter_map(|(_, own)| own.as_ref());
    let is_there = |drive| own().any(|own| own.drive == drive);
    let active = array.members.iter().all(|listed| listed.state == MemberState::Active);
    active && array.members.iter().map(|listed| listed.drive).all(is_there)
}

async fn open_array<E: Env<Drive = Part>>(
    inside: &E,
    found: &[Found],
    array: &Superblock,
    options: OpenOptions,
) -> Result<AnyStore<E>, StoreError> {
    let parts = of_array(found, array);
    let redundant = Scheme::of(array).is_some_and(|scheme| scheme != Scheme::Raid0);
    hangs::spare_at_most_one(&parts, redundant && is_whole(found, array));
    AnyStore::open(inside, parts, options).await
}

/// The pool's arrays one behind the other, and the label of each.
async fn join<E: Env<Drive = Part>>(
    inside: &E,
    found: &[Found],
    first: &Superblock,
    options: OpenOptions,
) -> Result<(Joined<AnyStore<E>>, Vec<Superblock>), StoreError> {
    let store = open_array(inside, found, first, options).await?;
    let further = volumes::further(&store).await?;
    let (joined, mut arrays) = (Joined::new(store, first.members.len()), vec![first.clone()]);
    for Further { id, base, .. } in further {
        let labels = found.iter().filter_map(|(_, own)| own.as_ref());
        let own = labels.filter(|own| own.pool == id && !own.is_spare());
        let Some(label) = own.max_by_key(|own| own.generation).cloned() else {
            return absent(&arrays[0].pool_name, arrays.len());
        };
        let store = open_array(inside, found, &label, options).await?;
        if joined.push(store, label.members.len()) != base {
            return Err(StoreError::Damaged("the table of volumes".into()));
        }
        arrays.push(label);
    }
    Ok((joined, arrays))
}

/// Only an open first array tells which others there are, and opening it without a drive tells the
/// others that this one is lost. So a pool of several arrays that lacks drives is opened without
/// writing to them first: one that is refused loses no drive by the attempt.
async fn check_further<E: Env<Drive = Part>>(
    inside: &E,
    found: &[Found],
    first: &Superblock,
    options: OpenOptions,
) -> Result<(), StoreError> {
    let labels = found.iter().filter_map(|(_, own)| own.as_ref());
    let further: Vec<&Superblock> = labels.filter(|own| own.further.is_some()).collect();
    let is_one = further.is_empty();
    if is_one || further.into_iter().chain([first]).all(|array| is_whole(found, array)) {
        return Ok(());
    }
    let rehearse = |(part, own): &Found| (part.clone().rehearsal(), own.clone());
    let found: Vec<Found> = found.iter().map(rehearse).collect();
    join(inside, &found, first, options).await.map(drop)
}

/// The volumes on these drives, and the label of each array.
pub(super) async fn volumes<E: Env>(
    env: &E,
    found: Vec<Found>,
    first: Superblock,
    options: OpenOptions,
) -> Result<(PoolVolumes<E>, Vec<Superblock>), StoreError> {
    let inside = on_parts(env);
    let asked: Vec<Part> = found.iter().map(|(part, _)| part.clone()).collect();
    let opened = async move {
        check_further(&inside, &found, &first, options).await?;
        let (joined, arrays) = join(&inside, &found, &first, options).await?;
        Ok((Volumes::open(&inside, joined).await?, arrays))
    };
    hangs::end_in_time(env, || hangs::needed(asked.iter()), opened).await
}

/// Drives by what they are to a pool.
pub(super) struct Sorted {
    pub places: Vec<Option<Part>>,
    pub spares: Vec<Spare>,
    /// Of arrays that a crash kept from becoming the pool's.
    pub strangers: Vec<String>,
}

pub(super) fn sort(arrays: &[Superblock], found: Vec<Found>) -> Sorted {
    let pool = arrays[0].pool;
    // Of all drives in their places: whose, in which array's labels, and where in that.
    let listed = || {
        let of = |array: &'_ Superblock| {
            let id = array.pool;
            let drives = array.members.iter().map(|listed| listed.drive).enumerate();
            drives.map(move |(index, drive)| (id, index, drive)).collect::<Vec<_>>()
        };
        arrays.iter().flat_map(of)
    };
    let places = vec![None; listed().count()];
    let mut sorted = Sorted { places, spares: Vec::new(), strangers: Vec::new() };
    for (part, own) in found {
        let Some(own) = own.filter(|own| own.home() == pool) else { continue };
        let is_spare = own.is_spare();
        // One that another has replaced is no member any more; a spare that is one was just given
        // its place.
        let place = listed().position(|(id, index, drive)| {
            drive == own.drive && (is_spare || id == own.pool && index == usize::from(own.index))
        });
        match place {
            Some(place) => sorted.places[place] = Some(part),
            None if is_spare && sorted.spares.len() < SPARES_MAX => {
                sorted.spares.push(Spare { identity: own.drive, part });
            }
            None if !is_spare && arrays.iter().all(|array| array.pool != own.pool) => {
                sorted.strangers.push(part.name());
            }
            None => {}
        }
    }
    sorted
}
