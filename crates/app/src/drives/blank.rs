//! Telling drives that they hold nothing, before a pool is made of them.
//!
//! A drive that was used keeps what was on it, and copies it whenever it collects garbage: a pool
//! that is a fifth full then writes as slowly as one that is full.

use std::cell::Cell;
use std::io::IsTerminal;

use io::{Drive, join_all};

/// Told at a time: drives answer within a second or so, and there is progress to show.
const STEP_BYTES: u64 = 8 << 30;

/// Discards everything on these drives, all at once. One that can't do that is only slower.
pub async fn discard(drives: &[impl Drive]) {
    let progress = Progress {
        told: Cell::new(0),
        all: drives.iter().map(|drive| drive.geometry().size).sum(),
        shown: std::io::stderr().is_terminal(),
    };
    join_all(drives.iter().map(|drive| discard_one(drive, &progress))).await;
    progress.end();
}

async fn discard_one(drive: &impl Drive, progress: &Progress) {
    let size = drive.geometry().size;
    let mut at = 0;
    while at < size {
        let len = STEP_BYTES.min(size - at);
        if drive.discard(at, len).await.is_err() {
            return;
        }
        progress.advance(len);
        at += len;
    }
}

/// A line on standard error, if a person looks at it.
struct Progress {
    told: Cell<u64>,
    all: u64,
    shown: bool,
}

impl Progress {
    fn advance(&self, bytes: u64) {
        self.told.set(self.told.get() + bytes);
        if self.shown {
            eprint!("\r\x1b[Kdiscarding: {} %", self.told.get() * 100 / self.all.max(1));
        }
    }

    fn end(&self) {
        if self.shown && self.told.get() > 0 {
            eprint!("\r\x1b[K");
        }
    }
}
