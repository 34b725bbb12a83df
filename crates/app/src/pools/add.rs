//! Drives that join a pool that nobody serves (`serve::add`: one that is served).

use engine::{AddError, AddPlan, Label, read_label};
use io::uring::{RealDrive, UringEnv};
use io::{Buf, Drive, Durability};

use super::any::{Other, Pool};
use super::array;
use super::held::{self, Claimed, Others};
use crate::control::ArrayShape;
use crate::drives::name::DriveName;
use crate::drives::{gate, target};
use crate::error::{Failure, Outcome};
use crate::explain;
use crate::size::Size;

/// Adds `new` to the pool on the drives given. Returns what is said about it.
pub(crate) async fn drives(
    env: &UringEnv,
    sources: &[DriveName],
    pool: &str,
    new: &[String],
    (shape, force): (Option<&ArrayShape>, bool),
) -> Outcome<String> {
    let groups = super::matching(env, sources, Some(pool)).await?;
    let [group] = groups.as_slice() else {
        let what = format!("{} pools have this name on these drives", groups.len());
        return Err(Failure::new(pool, what).hint("give the UUID instead of the name"));
    };
    let object = format!("pool {}", group.name);
    if group.scheme().is_some() {
        let opened = target::open_named(env, new).await?;
        gate::blank_or_forced(&opened, force).await?;
        let made = opened.make_files(env).await?;
        let unserved = super::open(env, group).await?;
        let Pool::Other(other) = &unserved.pool else {
            unreachable!("its label has a scheme of in-place arrays");
        };
        let add = async {
            let hold = unserved.hold.as_ref();
            let drives = &held::admit(hold, &object, made.drives()).await?;
            match shape {
                None => spares(other, drives, drives, force).await,
                Some(shape) => array::grow(env, other, drives, drives, (shape, force)).await,
            }
        };
        let done = held::while_held(unserved.hold.as_ref(), &object, add).await;
        unserved.close().await?;
        let said = done?;
        made.keep();
        return Ok(said);
    }
    if shape.is_some() {
        return Err(no_arrays(pool));
    }
    let opened = target::open_named(env, new).await?;
    gate::blank_or_forced(&opened, force).await?;
    let made = opened.make_files(env).await?;
    let (_, Claimed { drives, hold }) =
        super::claim(env, group, Others::Respect, crate::render::warn).await?;
    let add = async {
        let new = held::admit(Some(&hold), &object, made.drives()).await?;
        if force {
            wipe_labels(&new).await?;
        }
        engine::add_drives(env, &drives, &new).await.map_err(|error| explain(pool, &error))
    };
    let plan = hold.release_after(held::while_held(Some(&hold), &object, add)).await?;
    made.keep();
    let next = "'steadyraid rebalance' moves what is there, while the pool is served";
    Ok(format!("{}; {next}", say(pool, new.len(), &plan)))
}

fn no_arrays(pool: &str) -> Failure {
    let what = "its scheme, fusion, has no arrays: it grows by any number of drives";
    Failure::new(format!("pool {pool}"), what).hint("leave --array out")
}

/// Only pools that are made of arrays grow by one.
pub fn check_shape(pool: &Pool, shape: Option<&ArrayShape>) -> Outcome<()> {
    match (pool, shape) {
        (Pool::Fusion(fusion), Some(_)) => Err(no_arrays(&fusion.name())),
        _ => Ok(()),
    }
}

/// Makes spares of drives, which are served as others if something is wrapped around them.
pub(crate) async fn spares(
    pool: &Other,
    drives: &[RealDrive],
    served: &[RealDrive],
    force: bool,
) -> Outcome<String> {
    if force {
        wipe_labels(drives).await?;
    }
    for drive in served {
        let done = pool.spare_add(drive.clone()).await;
        done.map_err(|error| Failure::new(format!("pool {}", pool.name()), error))?;
    }
    let count = served.len();
    Ok(format!(
        "pool {}: {count} spares added; each takes the place of a drive that is lost; name them to \
         'serve' from now on",
        pool.name()
    ))
}

pub fn say(pool: &str, added: usize, plan: &AddPlan) -> String {
    let unused = match plan.unused_bytes {
        0 => String::new(),
        bytes => format!(", {} of larger drives can't be used", Size(bytes)),
    };
    format!(
        "pool {pool}: {added} drives added, {} now; {} usable once it is rebalanced{unused}",
        plan.drives,
        Size(plan.usable_bytes),
    )
}

/// Whoever forces knows that they hold something.
pub(crate) async fn wipe_labels(drives: &[impl Drive]) -> Outcome<()> {
    for drive in drives {
        wipe_label(drive).await?;
    }
    Ok(())
}

async fn wipe_label<D: Drive>(drive: &D) -> Outcome<()> {
    let failed = |error| explain::drive(drive.name(), &error);
    if matches!(read_label(drive).await.map_err(failed)?, Label::Empty) {
        return Ok(());
    }
    let (size, len) = (drive.geometry().size / 4096 * 4096, 1 << 20);
    for at in [0, size.saturating_sub(len)] {
        let zeroes = Buf::zeroed(len.min(size) as usize);
        drive.write(at, zeroes, Durability::Durable).await.map_err(failed)?;
    }
    Ok(())
}

pub fn explain(pool: &str, error: &AddError) -> Failure {
    match error {
        AddError::Open(error) => explain::open(error),
        AddError::Drive { name, error } => explain::drive(name, error),
        AddError::NotClean { .. } => {
            Failure::new(format!("pool {pool}"), "was not closed in order")
                .hint("serve it once, and stop the server")
        }
        AddError::Missing { index, .. } => {
            let what = format!("place {index} has no whole drive: lost, vacated or being restored");
            Failure::new(format!("pool {pool}"), what).hint(
                "'steadyraid drive replace' gives the place a drive, and the pool grows then; of a \
                 pool that is not served --drives has to name all drives",
            )
        }
        AddError::Busy { what, .. } => {
            Failure::new(format!("pool {pool}"), what).hint("try again when that is over")
        }
        error => Failure::new(format!("pool {pool}"), error),
    }
}
