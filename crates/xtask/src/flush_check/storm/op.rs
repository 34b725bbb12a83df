//! The single things that happen in a storm, as words: a step prints them, `--script` reads them.
//!
//! D is the number of a drive in the pool, S a seed, MS milliseconds.
//!
//! | word | what happens |
//! | --- | --- |
//! | `fill` | the whole of every volume is written |
//! | `load:MS` | clients write, flush and read, and go on after MS |
//! | `quiet` | the clients end when all is answered |
//! | `flush` | `quiet`, then a FLUSH of every volume |
//! | `check` | `quiet`; every sector is read and compared; a FLUSH makes that what is there |
//! | `idle:MS` | nothing |
//! | `kill`, `stop`, `start` | SIGKILL; SIGTERM; the server is started, and opens the pool |
//! | `peek:MS` | the server is started and killed after MS, wherever it is in opening |
//! | `fail:D` | `steadyraid drive fail` |
//! | `replace:D` | a lost drive is replaced by a new one, whose rebuild begins |
//! | `online:D`, `readd:D` | a lost drive is back: `drive online`; `drive replace` by itself |
//! | `copy:D` | a drive that works is replaced by a new one |
//! | `delete:D` | the drive's file is deleted, served or not |
//! | `scrub` | `steadyraid scrub start` |
//! | `slow:D` | the drive answers writes 3 ms late, as long as the server lives |
//! | `rot:D:S` | noise on 200 spots of 4 to 64 KiB |
//! | `noise:D:S` | noise on all but the first and the last MiB, where labels are |
//! | `wreck:D:S` | noise on all of it |
//! | `image:D` | a copy of the drive's file is put aside |
//! | `stale:D` | the copy is put back |
//! | `repair:S` | lost drives are replaced or taken back, rotten ones scrubbed: all are whole |
//! | `spoil` | the harness puts an older version into all copies of a flushed sector |

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Fill,
    Load(u64),
    Quiet,
    Flush,
    Check,
    Idle(u64),
    Kill,
    Stop,
    Start,
    Peek(u64),
    Fail(usize),
    Replace(usize),
    Online(usize),
    Readd(usize),
    Copy(usize),
    Delete(usize),
    Scrub,
    Slow(usize),
    Rot(usize, u64),
    Noise(usize, u64),
    Wreck(usize, u64),
    Image(usize),
    Stale(usize),
    Repair(u64),
    Spoil,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Op::Fill => write!(f, "fill"),
            Op::Load(millis) => write!(f, "load:{millis}"),
            Op::Quiet => write!(f, "quiet"),
            Op::Flush => write!(f, "flush"),
            Op::Check => write!(f, "check"),
            Op::Idle(millis) => write!(f, "idle:{millis}"),
            Op::Kill => write!(f, "kill"),
            Op::Stop => write!(f, "stop"),
            Op::Start => write!(f, "start"),
            Op::Peek(millis) => write!(f, "peek:{millis}"),
            Op::Fail(drive) => write!(f, "fail:{drive}"),
            Op::Replace(drive) => write!(f, "replace:{drive}"),
            Op::Online(drive) => write!(f, "online:{drive}"),
            Op::Readd(drive) => write!(f, "readd:{drive}"),
            Op::Copy(drive) => write!(f, "copy:{drive}"),
            Op::Delete(drive) => write!(f, "delete:{drive}"),
            Op::Scrub => write!(f, "scrub"),
            Op::Slow(drive) => write!(f, "slow:{drive}"),
            Op::Rot(drive, seed) => write!(f, "rot:{drive}:{seed}"),
            Op::Noise(drive, seed) => write!(f, "noise:{drive}:{seed}"),
            Op::Wreck(drive, seed) => write!(f, "wreck:{drive}:{seed}"),
            Op::Image(drive) => write!(f, "image:{drive}"),
            Op::Stale(drive) => write!(f, "stale:{drive}"),
            Op::Repair(seed) => write!(f, "repair:{seed}"),
            Op::Spoil => write!(f, "spoil"),
        }
    }
}

/// What a plan can do without.
pub const MAY_BE_LEFT_OUT: &[&str] = &[
    "copy", "delete", "fail", "noise", "online", "peek", "readd", "replace", "rot", "scrub",
    "slow", "stale", "wreck",
];

impl Op {
    pub fn name(self) -> String {
        self.to_string().split(':').next().unwrap_or("").to_owned()
    }
}

fn parse(word: &str) -> Result<Op, String> {
    let mut parts = word.split(':');
    let name = parts.next().unwrap_or("");
    let numbers: Result<Vec<u64>, _> = parts.map(str::parse).collect();
    let numbers = numbers.map_err(|error| format!("'{word}': {error}"))?;
    let drive = |number: u64| usize::try_from(number).map_err(|error| error.to_string());
    Ok(match (name, numbers.as_slice()) {
        ("fill", []) => Op::Fill,
        ("load", &[millis]) => Op::Load(millis),
        ("quiet", []) => Op::Quiet,
        ("flush", []) => Op::Flush,
        ("check", []) => Op::Check,
        ("idle", &[millis]) => Op::Idle(millis),
        ("kill", []) => Op::Kill,
        ("stop", []) => Op::Stop,
        ("start", []) => Op::Start,
        ("peek", &[millis]) => Op::Peek(millis),
        ("fail", &[number]) => Op::Fail(drive(number)?),
        ("replace", &[number]) => Op::Replace(drive(number)?),
        ("online", &[number]) => Op::Online(drive(number)?),
        ("readd", &[number]) => Op::Readd(drive(number)?),
        ("copy", &[number]) => Op::Copy(drive(number)?),
        ("delete", &[number]) => Op::Delete(drive(number)?),
        ("scrub", []) => Op::Scrub,
        ("slow", &[number]) => Op::Slow(drive(number)?),
        ("rot", &[number, seed]) => Op::Rot(drive(number)?, seed),
        ("noise", &[number, seed]) => Op::Noise(drive(number)?, seed),
        ("wreck", &[number, seed]) => Op::Wreck(drive(number)?, seed),
        ("image", &[number]) => Op::Image(drive(number)?),
        ("stale", &[number]) => Op::Stale(drive(number)?),
        ("repair", &[seed]) => Op::Repair(seed),
        ("spoil", []) => Op::Spoil,
        _ => return Err(format!("'{word}' is no word of a script")),
    })
}

/// The words of a script, in any number of lines.
pub fn script(text: &str) -> Result<Vec<Op>, String> {
    text.split_whitespace().map(parse).collect()
}

pub fn words(ops: &[Op]) -> String {
    ops.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_step_prints_is_read_as_a_script() {
        let text = "fill load:20 quiet flush check idle:3 kill stop start peek:9 fail:1 replace:1 \
                    online:2 readd:2 copy:0 delete:3 scrub slow:4 rot:1:77 noise:2:8 wreck:0:1 \
                    image:1 stale:1 repair:5 spoil";
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words(&script(&text).expect("all are words")), text);
    }

    #[test]
    fn other_words_are_refused() {
        for word in ["burn", "load", "load:x", "rot:1", "kill:1", "fail:-1"] {
            assert!(script(word).is_err(), "{word}");
        }
    }
}
