//! How long the start waits for drives that are not there yet.

use std::cell::RefCell;
use std::str::FromStr;

use io::uring::UringEnv;
use io::{Env, Nanos};
use serde::Deserialize;

use super::Options;
use super::log::{Kind, Log};
use super::rebuild_after::time;
use crate::drives::scan::{self, Group};
use crate::error::{Failure, Outcome};

const LOOK_EVERY: Nanos = Nanos::from_millis(500);

/// A duration like `30s`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct WaitForDrives(Nanos);

impl FromStr for WaitForDrives {
    type Err = String;

    fn from_str(text: &str) -> Result<WaitForDrives, String> {
        time(text, "no time like 30s or 10m").map(WaitForDrives)
    }
}

impl TryFrom<String> for WaitForDrives {
    type Error = String;

    fn try_from(text: String) -> Result<WaitForDrives, String> {
        text.parse()
    }
}

/// The pools on the drives given, as soon as none lacks a drive, or as they are when the time is
/// over: a pool opened too early would make its late drives out of date.
pub(super) async fn find(env: &UringEnv, options: &Options, log: &Log) -> Outcome<Vec<Group>> {
    let until = env.now() + options.wait_for_drives.0;
    let mut told = false;
    loop {
        let warnings = RefCell::new(Vec::new());
        let warn = |failure: &Failure| warnings.borrow_mut().push(failure.clone());
        let found = scan::groups(env, &options.drives, warn).await;
        let are_whole = |groups: &Vec<Group>| !groups.iter().any(Group::lacks_one);
        let complete = found.as_ref().is_ok_and(|found| !found.is_empty() && are_whole(found));
        if complete || options.drives.is_empty() || env.now() >= until {
            warnings.take().iter().for_each(|failure| log.warn_of(Kind::Server, failure));
            return found;
        }
        if !told {
            told = true;
            let left = Nanos(until.0 - env.now().0);
            log.say(format_args!("drives are missing: waiting for them, {left} at most"));
        }
        env.sleep_until(env.now() + LOOK_EVERY).await;
    }
}
