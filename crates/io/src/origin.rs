//! For which requests a task works. A request is numbered by whoever makes it; what several have
//! in common, such as a record of a log, is done for all of them.
//!
//! ```text
//!  on_behalf([7], request) ─ poll ─> its operations and waits are 7's
//!        ├─ spawn(task) ───────────> the task's are 7's, too
//!        └─ queue of a log, with origins() ─┐
//!  on_behalf([8], request) ─ queue ─────────┴─> on_behalf([7, 8], record)
//! ```

use std::rc::Rc;

/// A request.
pub type Origin = u64;

/// The requests that something is done for. Of an environment that does not tell requests apart
/// none, which costs nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origins(Option<Rc<[Origin]>>);

impl Origins {
    pub fn one(origin: Origin) -> Origins {
        Origins(Some(Rc::new([origin])))
    }

    /// Each once.
    pub fn of_all<'a>(all: impl IntoIterator<Item = &'a Origins>) -> Origins {
        let mut origins: Vec<Origin> = all.into_iter().flat_map(Origins::iter).collect();
        origins.sort_unstable();
        origins.dedup();
        Origins((!origins.is_empty()).then(|| origins.into()))
    }

    pub fn is_none(&self) -> bool {
        self.0.is_none()
    }

    pub fn iter(&self) -> impl Iterator<Item = Origin> {
        self.0.as_deref().unwrap_or_default().iter().copied()
    }
}
