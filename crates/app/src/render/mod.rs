//! What people and scripts are shown. [`view`] holds the app's own shapes (the core's types
//! are not part of any interface), [`human`] and [`json`] write them out.

pub mod human;
pub mod json;
pub mod table;
pub mod view;

use std::io::{ErrorKind, Write};

/// Writes to standard output. A reader that has gone away (`| head`) is no error.
pub fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let result = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if let Err(error) = result
        && error.kind() != ErrorKind::BrokenPipe
    {
        eprintln!("error: standard output: {error}");
    }
}
