//! What is found out about drives in use beside what they answer, and what a pool does about it.

use std::fmt;

use engine::{EventKind, Severity};
use io::Short;
use io::uring::Blocked;

use super::any::Pool;
use crate::size::Size;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// It can be read and written until the server ends, and is lost then.
    Deleted,
    /// To so many bytes.
    Shrunk(u64),
    /// Somebody wrote where its label was.
    Overwritten,
    /// Its name leads to another: it is used, and would not be found again.
    Elsewhere,
    /// Nobody was answered while requests to it were handed over.
    Blocks(Blocked),
}

impl Trouble {
    /// Why the pool is better off without the drive, if it is.
    pub(crate) fn fatal(self) -> Option<&'static str> {
        match self {
            Trouble::Deleted => Some("its file was deleted"),
            Trouble::Shrunk(_) => Some("it has become smaller"),
            Trouble::Overwritten => Some("it was overwritten"),
            Trouble::Elsewhere | Trouble::Blocks(_) => None,
        }
    }

    fn event(self) -> (Severity, EventKind) {
        match self {
            Trouble::Deleted => (Severity::Error, EventKind::DriveDeleted),
            Trouble::Shrunk(_) => (Severity::Error, EventKind::DriveShrunk),
            Trouble::Overwritten => (Severity::Error, EventKind::DriveOverwritten),
            Trouble::Elsewhere => (Severity::Warning, EventKind::DriveElsewhere),
            // It costs a little, and is seen to.
            Trouble::Blocks(_) => (Severity::Info, EventKind::DriveBlocks),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Deleted => f.write_str(
                "its file was deleted: what it holds is lost when the server ends; 'steadyraid \
                 drive replace' puts another one in its place",
            ),
            Trouble::Shrunk(size) => write!(
                f,
                "it has {} now ({size} bytes), less than it had: what lay behind that is lost",
                Size(*size)
            ),
            Trouble::Overwritten => f.write_str(
                "somebody else has written to it: its label is gone, and maybe more; find out who \
                 did before you use it again",
            ),
            Trouble::Elsewhere => f.write_str(
                "what has its name now is another file or device; it is used on, and the next \
                 start needs to be given its new name",
            ),
            Trouble::Blocks(Blocked { count, longest }) => write!(
                f,
                "requests handed over to it, maybe with others, have kept the whole server for \
                 {longest} at most, times: {count}; for a minute threads of the kernel do that"
            ),
        }
    }
}

pub(crate) fn tell(pool: &Pool, place: u16, name: &str, trouble: Trouble) {
    say(pool, Some(place), trouble.event(), format!("drive {place} ({name}): {trouble}"));
}

/// Drives lack something of this machine, or they don't any more.
pub(crate) fn tell_of_room(pool: &Pool, short: Option<Short>) {
    let (event, text) = match short {
        Some(short) => {
            let text = format!("{}: {}", no_room(&short), "requests that need it are refused");
            ((Severity::Error, EventKind::NoRoom), text)
        }
        None => {
            let text = "drives can be written again: there is room for it".to_owned();
            ((Severity::Info, EventKind::RoomAgain), text)
        }
    };
    say(pool, None, event, text);
}

/// What is lacking, for people.
pub(crate) fn no_room(short: &Short) -> String {
    format!("drives can't be written for want of what this machine has ({short})")
}

/// An event of a pool, or of one of its drives.
pub(crate) fn say(
    pool: &Pool,
    drive: Option<u16>,
    (severity, kind): (Severity, EventKind),
    text: String,
) {
    match pool {
        Pool::Fusion(pool) => pool.tell(drive, (severity, kind), text),
        Pool::Other(pool) => {
            pool.tell(drive.map(usize::from), (severity, kind.name()), text);
        }
    }
}

/// Fails a drive for this reason; why that can't be done as an error.
pub(crate) async fn give_up(pool: &Pool, place: u16, reason: &str) -> Result<(), String> {
    match pool {
        Pool::Fusion(pool) => {
            pool.drive_fail(place, reason, false).await.map_err(|error| error.to_string())
        }
        Pool::Other(pool) => {
            pool.drive_fail(place.into(), false).await.map_err(|error| error.to_string())
        }
    }
}
