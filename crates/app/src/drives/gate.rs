//! What `create` may overwrite: nothing that anybody may miss, unless told to.

use engine::{Label, read_label};

use super::target::Opened;
use crate::error::{Failure, Outcome};
use crate::explain;

/// Refuses drives that hold something known. With `force`, only drives that can't be read.
pub(crate) async fn blank_or_forced(drives: &Opened, force: bool) -> Outcome<()> {
    for (path, drive) in drives.existing() {
        let label =
            read_label(drive).await.map_err(|error| explain::drive(path.display(), &error))?;
        match found(&label) {
            Some(what) if !force => {
                return Err(Failure::new(path.display(), what)
                    .hint("choose another drive, or overwrite what is there with --force"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// What a label says, if there is something to lose.
fn found(label: &Label) -> Option<String> {
    match label {
        Label::Empty => None,
        Label::Ours(label) => {
            Some(format!("belongs to SteadyRAID pool {} ({})", label.pool_name, label.pool))
        }
        Label::Foreign(foreign) => Some(format!("holds {foreign}")),
        Label::Unreadable(what) | Label::TooNew(what) => {
            Some(format!("was a SteadyRAID drive: {what}"))
        }
    }
}
