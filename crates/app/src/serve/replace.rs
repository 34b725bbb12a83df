//! Drives that take the places of others, lost or not, while the pool is served.

use engine::{Label, read_label};
use format::{Member, MemberState, Superblock};
use io::uring::{RealDrive, UringDrive, UringEnv};

use super::wrap::Wrapper;
use crate::control::{Answer, Decision, Request};
use crate::drives::name::DriveName;
use crate::drives::{self, gate, target};
use crate::error::{Failure, Outcome};
use crate::pools::Pool;
use crate::pools::drive::{decide, find_in};
use crate::pools::held::{self, Held};
use crate::render::view;
use crate::size::Size;

/// Carries out a request to replace a drive of `pool`, if it is one.
pub(crate) async fn carry_out(
    env: &UringEnv,
    wrapper: &Wrapper,
    held: &Held,
    request: &Request,
) -> Option<Outcome<Answer>> {
    let Request::DriveReplace { drive, path, back, force, .. } = request else { return None };
    if *back && let Some(ended) = end_sitting(&held.pool, drive) {
        return Some(ended);
    }
    let new = New { path, back: *back, force: *force };
    Some(replace(env, wrapper, held, drive, new).await.map(Answer::Done))
}

/// A drive that sits out is there, and lacks nothing.
fn end_sitting(pool: &Pool, drive: &str) -> Option<Outcome<Answer>> {
    let own = find_in(pool, drive).ok()?;
    let sits_out = own.state == "active" && own.decided == "sit-out";
    sits_out.then(|| decide(pool, drive, Decision::Auto))
}

struct New<'a> {
    path: &'a str,
    back: bool,
    force: bool,
}

async fn replace(
    env: &UringEnv,
    wrapper: &Wrapper,
    Held { pool, hold, .. }: &Held,
    drive: &str,
    new: New<'_>,
) -> Outcome<String> {
    let lost = find_in(pool, drive)?;
    let object = format!("pool {}: drive {}", pool.name(), lost.index);
    check_state(&object, &lost, new.back)?;
    let name = DriveName::try_from(new.path.to_owned());
    let name = name.map_err(|error| Failure::usage(new.path, error))?;
    if let Pool::Other(pool) = pool {
        // What serves it has it open as long as it might use it.
        pool.drive_let_go(lost.index.into());
    }
    let path = name.path().to_owned();
    if drives::apart(env, move || path.exists()).await? {
        drives::until_let_go(env, name.path(), &lost.name).await?;
    }
    let opened = target::open_named(env, &[new.path.to_owned()]).await?;
    let label = match opened.existing().next() {
        Some((_, drive)) => own_label(pool, &lost, drive).await,
        None => None,
    };
    let own = label.is_some();
    if label.is_some_and(|label| went_on_alone(&label, &pool.view().drives)) && !new.force {
        let what = format!("{} went on without the drives that serve the pool", new.path);
        return Err(Failure::new(&object, what).hint(
            "it may hold acknowledged writes that these lack; 'steadyraid drive replace --force' \
             gives it what these have instead",
        ));
    }
    if new.back && !own {
        let what = format!("is not the drive that is lost there ({})", lost.uuid);
        return Err(Failure::new(new.path, what)
            .hint("'steadyraid drive replace' puts another drive in its place"));
    }
    if !own {
        gate::blank_or_forced(&opened, new.force).await?;
    }
    let made = opened.make_files(env).await?;
    let claimed = held::admit(hold.as_ref(), &object, made.drives()).await?;
    let drive = wrapper.named(&name, claimed[0].clone())?;
    give(pool, lost.index, drive).await.map_err(|what| Failure::new(&object, what))?;
    made.keep();
    let view = pool.view();
    let now = &view.drives[usize::from(lost.index)];
    if let Some(copying) = &now.replacing {
        let size = Size(copying.bytes);
        return Ok(format!(
            "{object}: {size} are being copied onto {}, which then takes its place ('steadyraid \
             status' shows how far it is); name both to 'serve' until then, it alone from then on",
            new.path
        ));
    }
    let blocks = now.restoring.map_or(0, |restoring| restoring.blocks);
    let how = if own { "is back" } else { "has taken the place of the lost one" };
    Ok(format!(
        "{object}: {} {how}; {blocks} blocks are being restored ('steadyraid status' shows how \
         far it is); name it to 'serve' from now on",
        new.path
    ))
}

async fn give(pool: &Pool, place: u16, drive: RealDrive) -> Result<(), String> {
    let done = match pool {
        Pool::Fusion(pool) => {
            pool.drive_replace(place, drive).await.map_err(|error| error.to_string())
        }
        Pool::Other(pool) => {
            pool.drive_replace(place.into(), drive).await.map_err(|error| error.to_string())
        }
    };
    done.map(|_| ())
}

fn check_state(object: &str, drive: &view::Drive, back: bool) -> Outcome<()> {
    match drive.state.as_str() {
        _ if drive.replacing.is_some() => Err(Failure::new(object, "is being replaced already")),
        "missing" | "failed" | "vacated" => Ok(()),
        "restoring" => Err(Failure::new(object, "is being restored already")),
        _ if !back => Ok(()),
        _ => Err(Failure::new(object, "is active: it is not lost")
            .hint("'steadyraid drive fail' takes it out of use first")),
    }
}

/// Its label, if it is the drive that was in this place.
async fn own_label(pool: &Pool, lost: &view::Drive, drive: &UringDrive) -> Option<Superblock> {
    let known = |label: &Superblock| {
        label.pool.to_string() == pool.uuid() && label.drive.to_string() == lost.uuid
    };
    match read_label(drive).await {
        Ok(Label::Ours(label)) if known(&label) => Some(*label),
        _ => None,
    }
}

/// Whether it has written off all drives of its array that are used now, so that both went on.
fn went_on_alone(label: &Superblock, drives: &[view::Drive]) -> bool {
    let is_used = |member: &&Member| {
        let uuid = member.drive.to_string();
        drives.iter().any(|drive| drive.uuid == uuid && drive.state == "active")
    };
    let mut used = label.members.iter().filter(is_used).peekable();
    let is_written_off =
        |member: &Member| matches!(member.state, MemberState::Missing | MemberState::Failed);
    used.peek().is_some() && used.all(is_written_off)
}
