//! Open pools: getting one from its drives, and carrying out requests on it. The same code
//! serves verbs with `--drives` and the control socket.

pub mod add;
pub mod any;
pub mod array;
mod care;
pub mod drive;
pub(crate) mod held;
pub(crate) mod trouble;
mod volume;

use engine::OpenOptions;
use io::Nanos;
use io::uring::{Access, OpenError, RealDrive, UringDrive, UringEnv};
use schemes::StoreError;
use schemes::scheme::Scheme;

use self::held::{Claimed, ClientWaits, Held, Others};
use crate::control::{Answer, Request};
use crate::drives;
use crate::drives::name::DriveName;
use crate::drives::scan::{self, Group};
use crate::error::{Failure, Outcome};
use crate::explain;
use crate::render::{view, warn};

pub use any::Pool;

/// How pools are opened, whichever scheme they have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Opening {
    /// To be looked at: nothing is written.
    pub read_only: bool,
    pub spikes: engine::SpikeHandling,
    /// Of schemes that write in place.
    pub write_hole: classical::WriteHole,
    /// How long after the loss of a drive the others take over what it held.
    pub rebuild_after: Option<Nanos>,
}

/// Claims the drives of a group and opens the pool on them, as they are: what a model adds to
/// them is for those who are served.
pub(crate) async fn open(env: &UringEnv, group: &Group) -> Outcome<Held> {
    let (_, Claimed { drives, hold }) = claim(env, group, Others::Respect, warn).await?;
    let open = open_group(env, drives, group, Opening::default());
    let name = object(group);
    let pool = hold.release_unless(held::while_held(Some(&hold), &name, open)).await?;
    Ok(Held { pool, hold: Some(hold), room: None, waits: ClientWaits::new(env) })
}

/// The drives of a group, for this host and this process, with their names. `warn` is told of those
/// that are left out.
pub(crate) async fn claim(
    env: &UringEnv,
    group: &Group,
    others: Others,
    warn: impl Fn(&Failure),
) -> Outcome<(Vec<DriveName>, Claimed)> {
    let (names, locked) = lock(env, group, warn).await?;
    let claimed = held::take(env, &object(group), &locked, others).await?;
    Ok((names, claimed))
}

/// Also to be looked at: a pool that is being written to has no state to show.
async fn look_at(env: &UringEnv, group: &Group) -> Outcome<Pool> {
    group.may_be_opened()?;
    if !group.is_known_without(&[]) {
        return Err(out_of_date(group, None));
    }
    let Locked { drives, read_only, .. } = lock_each(env, group).await?;
    let mut locked = drives;
    for (name, _) in read_only {
        locked.push(drives::open(env, name.path(), Access::ReadOnly).await?);
    }
    held::check(&object(group), &locked).await?;
    let options = Opening { read_only: true, ..Opening::default() };
    let drives = locked.into_iter().map(RealDrive::from).collect();
    open_group(env, drives, group, options).await
}

/// Keeps others on this host away. Who can't be written is left out: he would be failed at the
/// first write.
async fn lock(
    env: &UringEnv,
    group: &Group,
    warn: impl Fn(&Failure),
) -> Outcome<(Vec<DriveName>, Vec<UringDrive>)> {
    group.may_be_opened()?;
    let Locked { names, drives, mut read_only } = lock_each(env, group).await?;
    let left_out: Vec<DriveName> = read_only.iter().map(|(name, _)| name.clone()).collect();
    if !group.is_known_without(&left_out) {
        return Err(out_of_date(group, read_only.pop().map(|(_, failure)| failure)));
    }
    for (_, failure) in read_only {
        let what = format!("{}, and is left out of pool {}", failure.what, group.name);
        warn(&Failure { what, ..failure });
    }
    Ok((names, drives))
}

/// The drives of a group that can be written, with their names, and those that can only be read.
#[derive(Default)]
struct Locked {
    names: Vec<DriveName>,
    drives: Vec<UringDrive>,
    read_only: Vec<(DriveName, Failure)>,
}

async fn lock_each(env: &UringEnv, group: &Group) -> Outcome<Locked> {
    let mut locked = Locked::default();
    for name in &group.drives {
        match drives::lock(env, name.path()).await {
            Ok(drive) => {
                locked.names.push(name.clone());
                locked.drives.push(drive);
            }
            Err(error) => {
                let failure = drives::refused(name.path(), &error);
                if !matches!(error, OpenError::ReadOnly { .. }) {
                    return Err(failure);
                }
                locked.read_only.push((name.clone(), failure));
            }
        }
    }
    Ok(locked)
}

/// With a drive that can't be used something goes that the others don't know of.
fn out_of_date(group: &Group, read_only: Option<Failure>) -> Failure {
    let what = "the drive that knows best what the pool holds can't be used";
    match read_only {
        Some(Failure { object: drive, what: why, hint, .. }) => {
            let what = format!("{what}: {drive} {why}");
            Failure { hint, ..Failure::new(object(group), what) }
        }
        None => Failure::new(object(group), format!("{what}: it has become smaller"))
            .hint("make it as large as it was"),
    }
}

fn object(group: &Group) -> String {
    format!("pool {}", group.name)
}

/// The pool of a group, on its drives. If too many are missing, it is told which.
pub(crate) async fn open_group(
    env: &UringEnv,
    drives: Vec<RealDrive>,
    group: &Group,
    opening: Opening,
) -> Outcome<Pool> {
    if group.scheme().is_none() {
        return open_drives(env, drives, None, opening).await;
    }
    let opened = open_arrays(env, drives, opening).await;
    opened.map_err(|error| explain::store_lacking(object(group), &error, &group.lacking()))
}

async fn open_arrays(
    env: &UringEnv,
    drives: Vec<RealDrive>,
    opening: Opening,
) -> Result<Pool, StoreError> {
    let Opening { read_only, write_hole, rebuild_after, .. } = opening;
    let options = schemes::scheme::OpenOptions {
        write_hole,
        rebuild_after,
        rehearsal: read_only,
        ..Default::default()
    };
    Ok(Pool::Other(schemes::Pool::open(env, drives, options).await?))
}

pub(crate) async fn open_drives(
    env: &UringEnv,
    drives: Vec<RealDrive>,
    scheme: Option<Scheme>,
    opening: Opening,
) -> Outcome<Pool> {
    if scheme.is_some() {
        let opened = open_arrays(env, drives, opening).await;
        return opened.map_err(|error| explain::store("drives", &error));
    }
    let Opening { read_only, spikes, rebuild_after, .. } = opening;
    let options = OpenOptions { read_only, spikes, rebuild_after, ..OpenOptions::default() };
    let opened = engine::Pool::open(env, drives, options).await;
    opened.map(Pool::Fusion).map_err(|error| explain::open(&error))
}

/// Views of the pools on these drives: at least one.
pub(crate) async fn status_unserved(
    env: &UringEnv,
    sources: &[DriveName],
    name: Option<&str>,
) -> Outcome<Vec<view::Pool>> {
    let mut views = Vec::new();
    for group in matching(env, sources, name).await? {
        let pool = look_at(env, &group).await?;
        let mut view = pool.view();
        view.read_only = true;
        views.push(view);
    }
    Ok(views)
}

/// Opens the pool that `request` is about, carries it out, closes the pool.
pub(crate) async fn change_unserved(
    env: &UringEnv,
    sources: &[DriveName],
    request: &Request,
) -> Outcome<Answer> {
    let groups = matching(env, sources, request.pool()).await?;
    let [group] = groups.as_slice() else {
        let what = format!("{} pools have this name on these drives", groups.len());
        return Err(Failure::new(request.pool().unwrap_or("pool"), what)
            .hint("give the UUID instead of the name ('steadyraid list --drives' shows it)"));
    };
    let held = open(env, group).await?;
    let applied = apply(&held.pool, request);
    let answer = held::while_held(held.hold.as_ref(), &object(group), applied).await;
    let closed = held.close().await;
    let answer = answer?;
    closed?;
    Ok(answer)
}

async fn matching(
    env: &UringEnv,
    sources: &[DriveName],
    name: Option<&str>,
) -> Outcome<Vec<Group>> {
    let mut groups = scan::groups(env, sources, warn).await?;
    if groups.is_empty() {
        return Err(Failure::new("--drives", "no SteadyRAID pool was found there"));
    }
    if let Some(name) = name {
        groups.retain(|group| group.is_called(name));
        if groups.is_empty() {
            return Err(Failure::new(name, "no such pool on these drives")
                .hint("'steadyraid list --drives' shows what is there"));
        }
    }
    Ok(groups)
}

impl Request {
    /// The pool a request is about, by name or UUID; `None` for all.
    pub fn pool(&self) -> Option<&str> {
        match self {
            Request::Status { pool } | Request::Events { pool, .. } => pool.as_deref(),
            Request::Stripe { pool, .. }
            | Request::VolumeCreate { pool, .. }
            | Request::VolumeResize { pool, .. }
            | Request::VolumeDelete { pool, .. }
            | Request::VolumeLimit { pool, .. }
            | Request::DriveDecide { pool, .. }
            | Request::DriveFail { pool, .. }
            | Request::DriveReplace { pool, .. }
            | Request::DriveAdd { pool, .. }
            | Request::Scrub { pool, .. }
            | Request::DriveRemove { pool, .. }
            | Request::Rebuild { pool, .. }
            | Request::Rebalance { pool, .. }
            | Request::Fault { pool, .. }
            | Request::FaultRelease { pool, .. }
            | Request::FaultCounts { pool, .. } => Some(pool),
        }
    }

    /// It makes, alters or deletes a volume, or a drive is written because of it.
    pub(crate) fn changes_what_is_stored(&self) -> bool {
        matches!(
            self,
            Request::VolumeCreate { .. }
                | Request::VolumeResize { .. }
                | Request::VolumeDelete { .. }
                | Request::DriveReplace { .. }
                | Request::DriveAdd { .. }
                | Request::DriveRemove { .. }
        )
    }
}

/// Carries out a request on the pool it is about.
pub(crate) async fn apply(pool: &Pool, request: &Request) -> Outcome<Answer> {
    match request {
        Request::Status { .. } => Ok(Answer::Pools(vec![pool.view()])),
        Request::Stripe { number, .. } => stripe(pool, *number),
        Request::DriveDecide { drive, decision, .. } => drive::decide(pool, drive, *decision),
        Request::DriveFail { drive, force, offline, .. } => {
            drive::fail(pool, drive, *force, *offline).await
        }
        Request::DriveReplace { .. } => {
            Err(Failure::usage("drive replace", "only a server does that"))
        }
        Request::DriveAdd { .. } => Err(Failure::usage("drive add", "only a server does that")),
        Request::DriveRemove { drive, stop, .. } => drive::remove(pool, drive, *stop).await,
        Request::Rebuild { pause, .. } => Ok(care::rebuild(pool, *pause)),
        Request::Rebalance { stop, .. } => {
            care::rebalance(pool.fusion("be rebalanced")?, *stop).await
        }
        Request::Scrub { action, .. } => care::scrub(pool, *action),
        Request::Fault { .. } | Request::FaultRelease { .. } | Request::FaultCounts { .. } => {
            Err(Failure::usage("faults", "only a server takes them"))
        }
        Request::Events { .. } => Err(Failure::usage("events", "only a server has them")),
        Request::VolumeCreate { .. }
        | Request::VolumeResize { .. }
        | Request::VolumeDelete { .. }
        | Request::VolumeLimit { .. } => volume::change(pool, request).await,
    }
}

fn stripe(pool: &Pool, number: u64) -> Outcome<Answer> {
    let places = pool.fusion("show its stripes")?.stripe(number);
    let places = places.ok_or_else(|| {
        Failure::usage(format!("stripe {number}"), format!("pool {} has fewer", pool.name()))
    })?;
    Ok(Answer::Stripe((&places).into()))
}
