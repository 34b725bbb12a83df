//! Drives that take the places of others, lost or not, while the pool is served.

use engine::{DriveState, DriveStatus, Label, read_label};
use io::uring::{RealDrive, UringEnv};

use super::wrap::Wrapper;
use crate::control::{Answer, Request};
use crate::drives::name::DriveName;
use crate::drives::{self, gate, target};
use crate::error::{Failure, Outcome};
use crate::pools::Pool;
use crate::pools::any::Fusion;
use crate::pools::drive::find;
use crate::size::Size;

/// Carries out a request to replace a drive of `pool`, if it is one.
pub async fn carry_out(
    env: &UringEnv,
    wrapper: &Wrapper,
    pool: &Pool,
    request: &Request,
) -> Option<Outcome<Answer>> {
    let Request::DriveReplace { drive, path, back, force, .. } = request else { return None };
    let fusion = match pool.fusion("replace drives") {
        Ok(fusion) => fusion,
        Err(failure) => return Some(Err(failure)),
    };
    let new = New { path, back: *back, force: *force };
    Some(replace(env, wrapper, fusion, drive, new).await.map(Answer::Done))
}

struct New<'a> {
    path: &'a str,
    back: bool,
    force: bool,
}

async fn replace(
    env: &UringEnv,
    wrapper: &Wrapper,
    pool: &Fusion,
    drive: &str,
    new: New<'_>,
) -> Outcome<String> {
    let lost = find(pool, drive)?;
    let object = format!("pool {}: drive {}", pool.name(), lost.index);
    check_state(&object, &lost, new.back)?;
    let name = DriveName::try_from(new.path.to_owned());
    let name = name.map_err(|error| Failure::usage(new.path, error))?;
    if name.path().exists() {
        // Requests to it from before it was lost may not be over.
        drop(drives::claim(env, name.path()).await?);
    }
    let opened = target::open_existing(env, &target::resolve(&[new.path.to_owned()])?)?;
    let own = match opened.existing().next() {
        Some((_, drive)) => is_own(pool, &lost, drive).await,
        None => false,
    };
    if new.back && !own {
        let what = format!("is not the drive that is lost there ({})", lost.uuid);
        return Err(Failure::new(new.path, what)
            .hint("'steadyraid drive replace' puts another drive in its place"));
    }
    if !own {
        gate::blank_or_forced(&opened, new.force).await?;
    }
    let made = opened.make_files(env)?;
    let drive = wrapper.named(&name, made.drives()[0].clone())?;
    pool.drive_replace(lost.index, drive).await.map_err(|error| Failure::new(&object, error))?;
    made.keep();
    let now = &pool.status().drives[usize::from(lost.index)];
    if let Some((_, bytes, _)) = now.replacing {
        let size = Size(bytes);
        return Ok(format!(
            "{object}: {size} are being copied onto {}, which then takes its place ('steadyraid \
             status' shows how far it is); name it to 'serve' from then on",
            new.path
        ));
    }
    let blocks = now.awaited.map_or(0, |(_, all)| all);
    let how = if own { "is back" } else { "has taken the place of the lost one" };
    Ok(format!(
        "{object}: {} {how}; {blocks} blocks are being restored ('steadyraid status' shows how \
         far it is); name it to 'serve' from now on",
        new.path
    ))
}

fn check_state(object: &str, drive: &DriveStatus, back: bool) -> Outcome<()> {
    match drive.state {
        _ if drive.replacing.is_some() => Err(Failure::new(object, "is being replaced already")),
        DriveState::Missing | DriveState::Failed => Ok(()),
        DriveState::Restoring => Err(Failure::new(object, "is being restored already")),
        DriveState::Active if back => Err(Failure::new(object, "is active: it is not lost")),
        DriveState::Active => Ok(()),
    }
}

/// Whether it is the drive that was in this place.
async fn is_own(pool: &Fusion, lost: &DriveStatus, drive: &RealDrive) -> bool {
    let known = |label: &format::Superblock| label.pool == pool.uuid() && label.drive == lost.uuid;
    match read_label(drive).await {
        Ok(Label::Ours(label)) => known(&label),
        _ => false,
    }
}
