//! The engine's refusals, with the object they are about and a way out.

use std::fmt::Display;

use classical::GridError;
use engine::{CreateError, OpenError, VolumeError};
use format::Claim;
use io::{DriveError, Nanos};
use members::host::Refusal;
use members::host::limits::{LAPSE, SILENT};
use schemes::StoreError;

use crate::error::Failure;
use crate::render::table::printable;
use crate::size::Size;

pub const IN_USE: &str = "in use by another process";
const NAME_RULE: &str =
    "a name has 1 to 63 letters, digits, '.', '_' or '-', and is not '.' or '..'";

/// `create` was refused, or `volume create` for the shape it asked for.
pub fn create(object: impl Display, error: &CreateError) -> Failure {
    match error {
        CreateError::Name(name) => Failure::usage(format!("pool '{name}'"), NAME_RULE),
        CreateError::Parity(_) | CreateError::BlockSize(_) | CreateError::ReplicatedPercent(_) => {
            Failure::usage(object, error)
        }
        CreateError::Layout(error) => {
            Failure::usage(object, error).hint("give more drives, or a smaller --width or --parity")
        }
        CreateError::DriveTooSmall { name, size, least } => Failure::new(
            name,
            format!("{} is too small, this pool needs {} a drive", Size(*size), Size(*least)),
        )
        .hint("use a larger drive, or a smaller --block-size or --width"),
        CreateError::Drive { name, error } => drive(name, error),
        CreateError::WidthForZone { .. } | CreateError::TooLarge => Failure::new(object, error),
        CreateError::Open(error) => open(error),
    }
}

/// A drive that doesn't answer.
pub fn drive(name: impl Display, error: &DriveError) -> Failure {
    Failure::new(name, error).hint("the kernel's log ('dmesg') may say why")
}

/// A pool could not be opened.
pub fn open(error: &OpenError) -> Failure {
    match error {
        OpenError::NoDrives => Failure::usage("drives", error),
        OpenError::Drive { name, error } => drive(name, error),
        OpenError::NotOurs { name, what } => {
            Failure::new(name, format!("not a SteadyRAID drive ({what})"))
                .hint(format!("'steadyraid inspect {name}' shows what is on it"))
        }
        OpenError::OtherPool { name, found, found_uuid, expected, expected_uuid } => Failure::new(
            name,
            format!("belongs to pool {found} ({found_uuid}), not to {expected} ({expected_uuid})"),
        ),
        OpenError::Duplicate { first, second, uuid } => {
            Failure::new(second, format!("is a copy of {first} (both say they are drive {uuid})"))
                .hint("leave the copy out")
        }
        OpenError::TooManyMissing { pool, missing, drives, tolerated, list } => Failure::new(
            format!("pool {pool}"),
            format!("{missing} of {drives} drives are missing, at most {tolerated} may be"),
        )
        .hint(format!("give these drives too: {list}")),
        OpenError::Damaged { pool, what } => Failure::new(format!("pool {pool}"), what)
            .hint("restore the missing drives or a backup"),
        OpenError::Format(error) => Failure::new("drives", error),
        OpenError::Layout(error) => Failure::new("drives", error),
    }
}

/// The drives of a pool are somebody else's, when the clock shows so many seconds since 1970.
pub fn refusal(object: &str, refusal: &Refusal, now_secs: u64) -> Failure {
    match refusal {
        Refusal::Held { claim, here: true } => {
            let what = format!("process {} of this host has it open", claim.holder.process);
            Failure::new(object, what).hint("ask its server (without --drives), or stop it first")
        }
        Refusal::Held { claim, here: false } => {
            let seen = Nanos::from_secs(now_secs.saturating_sub(claim.seen_secs));
            let wait = SILENT + LAPSE;
            Failure::new(object, format!("{} has it open, last seen {seen} ago", host(claim))).hint(
                format!(
                    "close it there; if that host is gone for good, 'steadyraid serve --take-over' \
                     opens it, after {wait} in which nothing is seen of that host"
                ),
            )
        }
        Refusal::Alive(claim) => {
            Failure::new(object, format!("{} has it open, and is alive", host(claim)))
                .hint("close it there first")
        }
        Refusal::Outrun(claim) => {
            Failure::new(object, format!("{} opened it at the same time", host(claim)))
                .hint("see what became of it there")
        }
        Refusal::NoDrive(error) => {
            let why = error.map_or("none answers in time".to_owned(), |error| error.to_string());
            Failure::new(object, format!("no drive can tell whose it is, or take note: {why}"))
                .hint("see that its drives can be read and written here ('dmesg'), and try again")
        }
    }
}

/// Somebody else opened a pool that this process had open.
pub fn taken_over(object: &str, claim: &Claim) -> Failure {
    Failure::new(object, format!("{} has taken it over: nothing more is done here", host(claim)))
        .hint("to have it back close it there, then start the server here again")
}

fn host(claim: &Claim) -> String {
    // Anything may be on a drive.
    let name = printable(&claim.holder.name);
    format!("host {name} (process {})", claim.holder.process)
}

/// A pool of in-place arrays could not be made or opened.
pub fn store(object: impl Display, error: &StoreError) -> Failure {
    use classical::ArrayError as Array;
    match error {
        StoreError::Array(Array::Name(name)) => Failure::usage(format!("pool '{name}'"), NAME_RULE),
        StoreError::Array(Array::Grid(error @ GridError::Small)) => {
            Failure::new(object, error).hint("use larger drives, or a smaller --block-size")
        }
        StoreError::Array(Array::Grid(error)) => Failure::usage(object, error)
            .hint("give another number of drives, or another --width or --block-size"),
        StoreError::Array(Array::TooManyLost { .. }) => Failure::new(object, error)
            .hint("give the missing drives too; 'steadyraid list' shows how many there are"),
        StoreError::Shape { what, hint } => Failure::usage(object, what).hint(*hint),
        StoreError::Small { .. } => Failure::new(object, error).hint("use larger drives"),
        error => Failure::new(object, error),
    }
}

/// The same, of a pool that is opened without the drives `lacking`.
pub fn store_lacking(object: impl Display, error: &StoreError, lacking: &[String]) -> Failure {
    let failure = store(object, error);
    match error {
        StoreError::Array(classical::ArrayError::TooManyLost { .. }) if !lacking.is_empty() => {
            failure.hint(format!("give these drives too: {}", lacking.join(", ")))
        }
        _ => failure,
    }
}

/// A verb on a volume of a scheme other than `fusion` was refused.
pub fn other_volume(object: &str, error: &schemes::VolumeError) -> Failure {
    use schemes::VolumeError as Error;
    match error {
        Error::Name(_) => Failure::usage(format!("'{object}'"), NAME_RULE),
        Error::Size(bytes) => {
            let what = format!("a size of {bytes} bytes is not a positive multiple of 512");
            Failure::usage(object, what)
        }
        Error::Exists(_) => Failure::new(object, "exists already"),
        Error::NotFound(_) => Failure::new(object, "no such volume")
            .hint("'steadyraid volume list' shows what exists"),
        Error::ShrinkBelowData { used } => {
            Failure::new(object, format!("holds data up to {}", Size(*used)))
                .hint("discard that data first (blkdiscard, fstrim), or choose a larger size")
        }
        Error::InUse(_) => Failure::new(object, "is in use").hint("disconnect its clients first"),
        error => Failure::new(object, error),
    }
}

/// A verb on the volume `object` (`POOL/VOL`) was refused.
pub fn volume(object: &str, error: &VolumeError) -> Failure {
    match error {
        VolumeError::Name(_) => Failure::usage(format!("'{object}'"), NAME_RULE),
        VolumeError::Size(bytes) => {
            let what = format!("a size of {bytes} bytes is not a positive multiple of 512");
            Failure::usage(object, what)
        }
        VolumeError::Exists(_) => Failure::new(object, "exists already"),
        VolumeError::NotFound(_) => Failure::new(object, "no such volume")
            .hint("'steadyraid volume list' shows what exists"),
        VolumeError::ShrinkBelowData { size, used, .. } => Failure::new(
            object,
            format!("holds data beyond {} (up to {})", Size(*size), Size(*used)),
        )
        .hint("discard that data first (blkdiscard, fstrim), or choose a larger size"),
        VolumeError::InUse(_) => {
            Failure::new(object, "is in use").hint("disconnect its clients first")
        }
        VolumeError::Shape(error) => create(object, error),
        VolumeError::Crowded { .. } => Failure::new(object, error)
            .hint("use --parity and --width of another volume, or a pool of larger drives"),
        VolumeError::Request(error) => Failure::new(object, error),
        VolumeError::TooMany(_) => Failure::new(object, error),
    }
}
