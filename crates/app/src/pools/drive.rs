//! What operators decide about drives.

use engine::{DriveHealth, DriveOverride, DriveState, DriveStatus};
use schemes::StoreError;

use super::any::{Fusion, Other, Pool};
use crate::control::{Answer, Decision};
use crate::error::{Failure, Outcome};
use crate::render::view;
use crate::size::Size;

impl From<Decision> for DriveOverride {
    fn from(decision: Decision) -> DriveOverride {
        match decision {
            Decision::SitOut => DriveOverride::SitOut,
            Decision::Trust => DriveOverride::Trusted,
            Decision::Auto => DriveOverride::Automatic,
        }
    }
}

/// The drive of this index, UUID or name.
pub fn find(pool: &Fusion, drive: &str) -> Outcome<DriveStatus> {
    let named =
        |info: &DriveStatus| [info.index.to_string(), info.uuid.to_string(), info.name.clone()];
    pick(pool.status().drives, named, drive, &pool.name())
}

/// The same of a pool of any scheme, as it is shown.
pub fn find_in(pool: &Pool, drive: &str) -> Outcome<view::Drive> {
    let named = |info: &view::Drive| [info.index.to_string(), info.uuid.clone(), info.name.clone()];
    pick(pool.view().drives, named, drive, &pool.name())
}

/// An index comes first, then a UUID: it names no other drive. A missing drive's name is empty.
fn pick<T>(
    mut drives: Vec<T>,
    named: impl Fn(&T) -> [String; 3],
    drive: &str,
    pool: &str,
) -> Outcome<T> {
    let place = |of: usize| drives.iter().position(|info| named(info)[of] == drive);
    let found = (0..3).filter(|_| !drive.is_empty()).find_map(place);
    found.map(|place| drives.swap_remove(place)).ok_or_else(|| {
        Failure::new(format!("'{drive}'"), "no such drive in this pool")
            .hint(format!("'steadyraid status {pool}' lists its drives"))
    })
}

/// What a drive is called in answers.
fn object(pool: &Fusion, drive: &DriveStatus) -> String {
    let name = if drive.name.is_empty() { drive.uuid.to_string() } else { drive.name.clone() };
    format!("pool {}: drive {} ({name})", pool.name(), drive.index)
}

fn check_active(object: &str, drive: &DriveStatus) -> Outcome<()> {
    if drive.state == DriveState::Active {
        return Ok(());
    }
    Err(not_used(object, &drive.state.to_string()))
}

fn not_used(object: &str, state: &str) -> Failure {
    Failure::new(object, format!("is {state}: it is not used at all"))
        .hint("'steadyraid drive online POOL DRIVE PATH' takes a lost drive back")
}

pub fn decide(pool: &Pool, drive: &str, decision: Decision) -> Outcome<Answer> {
    match (pool, decision) {
        (Pool::Fusion(pool), _) => decide_fusion(pool, drive, decision),
        (Pool::Other(other), _) => decide_other(other, &find_in(pool, drive)?, decision),
    }
}

/// Of other schemes: only reads are led round it, and only by an operator.
fn decide_other(pool: &Other, drive: &view::Drive, decision: Decision) -> Outcome<Answer> {
    let object = format!("pool {}: drive {} ({})", pool.name(), drive.index, drive.label());
    if drive.state != "active" {
        return Err(not_used(&object, &drive.state));
    }
    let place = drive.index.into();
    let now = match decision {
        Decision::Trust => {
            pool.drive_trust(place);
            "is trusted: it is used whatever its latency, until 'drive auto'"
        }
        Decision::SitOut | Decision::Auto => {
            let done = pool.drive_sit_out(place, decision == Decision::SitOut);
            done.map_err(|error| Failure::new(&object, error))?;
            match decision {
                Decision::SitOut => {
                    "sits out: reads are led round it until 'drive online' or 'drive auto'"
                }
                _ => "is read like any other again",
            }
        }
    };
    Ok(Answer::Done(format!("{object} {now}")))
}

fn decide_fusion(pool: &Fusion, drive: &str, decision: Decision) -> Outcome<Answer> {
    let drive = find(pool, drive)?;
    let object = object(pool, &drive);
    check_active(&object, &drive)?;
    pool.drive_decide(drive.index, decision.into())
        .map_err(|error| Failure::new(&object, error))?;
    let now = match decision {
        Decision::SitOut => "sits out: requests are led round it until 'drive auto'",
        Decision::Trust => "is trusted: it is used whatever its latency, until 'drive auto'",
        Decision::Auto => "is judged by its latency again",
    };
    Ok(Answer::Done(format!("{object} {now}")))
}

fn needed(object: &str) -> Failure {
    Failure::new(object, "is needed: without it data would be lost").hint(
        "no redundancy is left in this pool; 'drive sit-out' leads requests round a slow drive, \
         and --force does not help here",
    )
}

fn last(object: &str) -> Failure {
    let what = "without it no redundancy is left: data would be lost with the next drive";
    Failure::new(object, what).hint(
        "a failed drive misses every write from then on, and has to be replaced; 'drive sit-out' \
         leads requests round it and keeps it whole; --force fails it",
    )
}

fn failed(object: &str, left: impl std::fmt::Display, offline: bool) -> Answer {
    let (is, next) = match offline {
        true => ("offline", "'steadyraid drive online' takes it back"),
        false => ("failed", "'steadyraid drive replace' puts another in its place"),
    };
    Answer::Done(format!("{object} is {is}; {left} more may die before data is lost; {next}"))
}

pub(crate) async fn fail(pool: &Pool, drive: &str, force: bool, offline: bool) -> Outcome<Answer> {
    match pool {
        Pool::Fusion(pool) => fail_fusion(pool, drive, force, offline).await,
        Pool::Other(other) => fail_other(other, &find_in(pool, drive)?, force, offline).await,
    }
}

async fn fail_other(
    pool: &Other,
    drive: &view::Drive,
    force: bool,
    offline: bool,
) -> Outcome<Answer> {
    let name = if drive.name.is_empty() { &drive.uuid } else { &drive.name };
    let object = format!("pool {}: drive {} ({name})", pool.name(), drive.index);
    let place = usize::from(drive.index);
    match drive.state.as_str() {
        "active" if !pool.drive_bears(place) => return Err(needed(&object)),
        "active" if pool.status().margin <= 1 && !force => return Err(last(&object)),
        "active" | "restoring" => {}
        state => return Err(Failure::new(object, format!("is {state}: it is not used at all"))),
    }
    pool.drive_fail(place, offline).await.map_err(|error| Failure::new(&object, error))?;
    Ok(failed(&object, pool.status().margin, offline))
}

async fn fail_fusion(pool: &Fusion, drive: &str, force: bool, offline: bool) -> Outcome<Answer> {
    let drive = find(pool, drive)?;
    let object = object(pool, &drive);
    // One that is being restored is not counted on yet.
    let spare = drive.state == DriveState::Restoring;
    if !spare {
        check_active(&object, &drive)?;
    }
    match pool.status().redundancy_margin {
        _ if spare => {}
        0 => return Err(needed(&object)),
        1 if !force => return Err(last(&object)),
        _ => {}
    }
    if offline && drive.health == DriveHealth::Good {
        // It misses what is not in the last checkpoint that it knows: nothing, if it goes now.
        let _ = pool.checkpoint().await;
    }
    let how = if offline { "taken offline by an operator" } else { "failed by an operator" };
    pool.drive_fail(drive.index, how, false).await.map_err(|error| Failure::new(&object, error))?;
    Ok(failed(&object, pool.status().redundancy_margin, offline))
}

pub(crate) async fn remove(pool: &Pool, drive: &str, stop: bool) -> Outcome<Answer> {
    match pool {
        Pool::Fusion(pool) => remove_fusion(pool, drive, stop).await,
        Pool::Other(other) => remove_other(other, &find_in(pool, drive)?, stop).await,
    }
}

async fn remove_other(pool: &Other, drive: &view::Drive, stop: bool) -> Outcome<Answer> {
    let object = format!("pool {}: drive {} ({})", pool.name(), drive.index, drive.label());
    let failed = |error: StoreError| Failure::new(&object, error);
    let place = usize::from(drive.index);
    if stop {
        pool.exchange_stop(place).await.map_err(failed)?;
        return Ok(Answer::Done(format!("{object} stays, and is copied no more")));
    }
    match drive.state.as_str() {
        "spare" => {
            let spare = pool.status().drives.into_iter().nth(place).map(|own| own.uuid);
            pool.spare_remove(spare.unwrap_or_default()).await.map_err(failed)?;
            return Ok(Answer::Done(format!("{object} is a spare no more, and may be pulled")));
        }
        "restoring" => {
            return Err(Failure::new(object, "is being restored")
                .hint("wait until it is ('steadyraid wait POOL restore'), or fail it first"));
        }
        _ if drive.replacing.is_some() => {
            return Err(Failure::new(object, "is being replaced already"));
        }
        _ if !pool.has_spare_for(place) => {
            return Err(Failure::new(object, "can't leave: no spare fits its place").hint(
                "add a spare first ('steadyraid drive add'), or put another drive in its place \
                 ('steadyraid drive replace')",
            ));
        }
        _ => {}
    }
    pool.drive_remove(place).await.map_err(failed)?;
    let status = pool.status();
    let by = status.drives.get(place).and_then(|own| own.replacing.as_ref());
    if let Some(copied) = by {
        let size = Size(copied.progress.all);
        return Ok(Answer::Done(format!(
            "{object} serves on while {size} are copied onto the spare {}, and may be pulled when \
             that has its place ('steadyraid wait POOL restore')",
            copied.by
        )));
    }
    let margin = status.margin;
    Ok(Answer::Done(format!(
        "{object} is removed, and may be pulled; a spare has its place and is being filled, until \
         when only {margin} more may die before data is lost ('steadyraid wait POOL restore')"
    )))
}

async fn remove_fusion(pool: &Fusion, drive: &str, stop: bool) -> Outcome<Answer> {
    let drive = find(pool, drive)?;
    let object = object(pool, &drive);
    let failed = |error| Failure::new(&object, error);
    if stop {
        pool.drive_remove_stop(drive.index).await.map_err(failed)?;
        return Ok(Answer::Done(format!("{object} stays, and gets back what was moved")));
    }
    pool.drive_remove(drive.index).await.map_err(failed)?;
    Ok(Answer::Done(format!(
        "{object} is being emptied; 'steadyraid status' shows how far that is, and it may be \
         pulled when it is vacated"
    )))
}
