//! Drives that join a pool while it is served.

use io::Nanos;
use io::uring::{RealDrive, UringEnv};

use super::wrap::Wrapper;
use crate::control::ArrayShape;
use crate::drives::name::DriveName;
use crate::drives::{gate, target};
use crate::error::{Failure, Outcome};
use crate::pools::held::{self, Held};
use crate::pools::{Pool, add, array};

/// Adds `new` to a pool that is served. Returns what is said about it.
pub(crate) async fn drives(
    env: &UringEnv,
    wrapper: &Wrapper,
    Held { pool, hold, .. }: &Held,
    new: &[String],
    (shape, force): (Option<&ArrayShape>, bool),
) -> Outcome<String> {
    add::check_shape(pool, shape)?;
    let opened = target::open_named(env, new).await?;
    gate::blank_or_forced(&opened, force).await?;
    let made = opened.make_files(env).await?;
    let object = format!("pool {}", pool.name());
    let drives = held::admit(hold.as_ref(), &object, made.drives()).await?;
    let named = |(name, drive): (&String, &RealDrive)| {
        let parsed = DriveName::try_from(name.clone());
        wrapper.named(&parsed.map_err(|error| Failure::usage(name, error))?, drive.clone())
    };
    let served: Vec<RealDrive> = new.iter().zip(&drives).map(named).collect::<Outcome<_>>()?;
    let said = take_in(env, pool, (&drives, &served), (shape, force)).await?;
    made.keep();
    Ok(said)
}

/// Drives that are this host's join, as they are, or as they are served if something is wrapped
/// around them.
pub(crate) async fn take_in(
    env: &UringEnv,
    pool: &Pool,
    (drives, served): (&[RealDrive], &[RealDrive]),
    (shape, force): (Option<&ArrayShape>, bool),
) -> Outcome<String> {
    let fusion = match (pool, shape) {
        (Pool::Fusion(fusion), _) => fusion,
        (Pool::Other(other), None) => return add::spares(other, drives, served, force).await,
        (Pool::Other(other), Some(shape)) => {
            return array::grow(env, other, drives, served, (shape, force)).await;
        }
    };
    if force {
        add::wipe_labels(drives).await?;
    }
    let added = fusion.drives_add(served).await;
    let added = added.map_err(|error| add::explain(&pool.name(), &error))?;
    let Nanos(pause) = added.pause;
    let millis = pause.div_ceil(1_000_000);
    let next = "'steadyraid rebalance' moves what is there; name them to 'serve' from now on";
    Ok(format!(
        "{}; requests waited {millis} ms; {next}",
        add::say(&pool.name(), served.len(), &added.plan)
    ))
}
