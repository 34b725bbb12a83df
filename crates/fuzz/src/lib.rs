//! Fuzz targets: parsers of what strangers send and what drives hold, and what operators ask for.
//!
//! A target gets any bytes. Where a checksum would refuse nearly all of them it is made right
//! first, so that what lies behind it is met. It may refuse what it gets, but neither panic nor
//! take long; what it takes, it must write and read again to the same. `scripts/fuzz.sh` runs the
//! targets under libFuzzer, `tests/cases.rs` what is kept in `cases/`, on any build.

mod journal;
mod labels;
mod nbd;
mod objects;
mod pages;
mod text;
pub mod verbs;

#[path = "../../export/tests/support/feed.rs"]
mod feed;
#[allow(dead_code)]
#[path = "../../format/tests/all/samples.rs"]
mod samples;

pub struct Target {
    pub name: &'static str,
    /// Whether the bytes were taken for something.
    pub run: fn(&[u8]) -> bool,
    /// What is taken, to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

pub const TARGETS: [Target; 8] = [
    Target { name: "nbd", run: nbd::run, seeds: nbd::seeds },
    Target { name: "api", run: text::api, seeds: text::api_seeds },
    Target { name: "config", run: text::config, seeds: text::config_seeds },
    Target { name: "labels", run: labels::run, seeds: labels::seeds },
    Target { name: "journal", run: journal::run, seeds: journal::seeds },
    Target { name: "objects", run: objects::run, seeds: objects::seeds },
    Target { name: "pages", run: pages::run, seeds: pages::seeds },
    Target { name: "verbs", run: verbs::run, seeds: verbs::seeds },
];

fn put(bytes: &mut [u8], at: usize, new: &[u8]) {
    bytes[at..at + new.len()].copy_from_slice(new);
}

/// The first byte says what the others are.
fn with_kind(kind: u8, bytes: &[u8]) -> Vec<u8> {
    [&[kind], bytes].concat()
}
