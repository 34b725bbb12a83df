//! What people and scripts are shown. [`view`] holds the app's own shapes (the core's types
//! are not part of any interface), [`human`] and [`json`] write them out.

pub mod human;
pub mod json;
pub mod latency;
pub mod table;
pub mod view;
pub mod waits;

use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::Failure;

/// Something could not be written to standard output: whoever asked for it does not have it.
static UNWRITTEN: AtomicBool = AtomicBool::new(false);

/// Whether all that was printed could be, as far as anybody wanted to read it.
#[cfg(not(any(test, fuzzing)))]
pub fn all_printed() -> bool {
    !UNWRITTEN.load(Ordering::Relaxed)
}

/// Writes to standard output. A reader that has gone away (`| head`) is no error.
pub fn print(text: &str) {
    let _ = print_on(text);
}

/// Warns whoever typed a command, on standard error. For verbs, which have nobody to keep waiting;
/// a server has its log.
pub fn warn(failure: &Failure) {
    let _ = writeln!(std::io::stderr(), "{}", failure.as_warning());
}

/// The same for who would go on and on: false if nobody reads any more.
#[must_use]
pub fn print_on(text: &str) -> bool {
    let mut out = std::io::stdout().lock();
    note(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

/// What became of something that was printed: whether it was.
pub fn note(printed: io::Result<()>) -> bool {
    if let Err(error) = &printed
        && error.kind() != ErrorKind::BrokenPipe
    {
        UNWRITTEN.store(true, Ordering::Relaxed);
        let _ = writeln!(std::io::stderr(), "error: standard output: {error}");
    }
    printed.is_ok()
}
