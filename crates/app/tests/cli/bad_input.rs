//! What operators get wrong, and what they are told: the cases of `cases_create` and
//! `cases_pool`, each with its exit code and message. docs/errors.md shows the same cases with
//! the whole output.
//!
//! The page is compared with what really happens; `BLESS=1 cargo test -p app --test cli
//! bad_input` writes it anew, for the diff to be read.

use std::fmt::Write;
use std::fs;

use crate::nbd::Client;
use crate::support::{BINARY, DRIVE_BYTES, Done, Scratch, Server, check_page, run};
use crate::{cases_create, cases_pool};

/// What must go on while the command runs.
#[derive(Default)]
pub struct Guards {
    pub _servers: Vec<Server>,
    pub _clients: Vec<Client>,
}

pub struct Case {
    pub name: &'static str,
    /// For the page: what is wrong here.
    pub why: &'static str,
    pub world: fn() -> (Scratch, Guards),
    pub command: &'static [&'static str],
    pub exit: i32,
    pub says: &'static str,
    /// Root may write to read-only files; run without that privilege.
    pub as_mere_user: bool,
}

pub const CASE: Case = Case {
    name: "",
    why: "",
    world: || drives(4),
    command: &[],
    exit: 3,
    says: "",
    as_mere_user: false,
};

pub fn alone(scratch: Scratch) -> (Scratch, Guards) {
    (scratch, Guards::default())
}

pub fn drives(count: usize) -> (Scratch, Guards) {
    alone(Scratch::with_drives(count))
}

pub fn pool() -> (Scratch, Guards) {
    alone(Scratch::with_pool())
}

pub fn served() -> (Scratch, Guards) {
    let scratch = Scratch::with_pool();
    let server = scratch.serve(&["."]);
    (scratch, Guards { _servers: vec![server], ..Guards::default() })
}

/// A pool that lost drives.
pub fn without(lost: &[&str]) -> (Scratch, Guards) {
    let scratch = Scratch::with_pool();
    lost.iter().for_each(|name| fs::remove_file(scratch.path(name)).expect("removed"));
    alone(scratch)
}

pub const LABEL_LEN: usize = 16384;

pub fn label_offsets() -> [u64; 4] {
    format::label_offsets(DRIVE_BYTES)
}

/// Rewrites every label of a drive as a newer version of the software would.
pub fn from_the_future(scratch: &Scratch, name: &str) {
    for offset in label_offsets() {
        let mut label = scratch.peek(name, offset, LABEL_LEN);
        label[8..10].copy_from_slice(&99u16.to_le_bytes());
        let crc = crc32c::crc32c(&label[..10]);
        let crc = crc32c::crc32c_append(crc, &label[11..12]);
        let crc = crc32c::crc32c_append(crc, &label[16..]);
        label[12..16].copy_from_slice(&crc.to_le_bytes());
        scratch.poke(name, offset, &label);
    }
}

fn carry_out(case: &Case, scratch: &Scratch) -> Done {
    if case.as_mere_user && rustix::process::geteuid().is_root() {
        let privileges = "-dac_override,-dac_read_search";
        let drop = ["setpriv", "--bounding-set", privileges, "--inh-caps", privileges, BINARY];
        return run(scratch.command(&[&drop, case.command].concat()));
    }
    scratch.run(case.command)
}

#[test]
fn every_mistake_is_explained_as_the_page_says() {
    let (mut shown, mut wrong) = (String::new(), String::new());
    for case in cases_create::CASES.iter().chain(cases_pool::CASES) {
        let (scratch, guards) = (case.world)();
        let done = carry_out(case, &scratch);
        let said = done.out.contains(case.says) || done.err.contains(case.says);
        if done.exit != case.exit || !said {
            let _ = writeln!(
                wrong,
                "{}: expected {} and '{}'; {done:?}",
                case.name, case.exit, case.says
            );
        }
        shown += &section(case, &done, &scratch);
        drop(guards);
    }
    assert!(wrong.is_empty(), "{wrong}");
    check_page("errors.md", "bad_input", &shown);
}

/// What the page shows of a case: the command, what it said that matters, its exit code.
fn section(case: &Case, done: &Done, scratch: &Scratch) -> String {
    let quoted = case
        .command
        .iter()
        .map(|word| if word.contains(' ') { format!("'{word}'") } else { (*word).to_owned() });
    let command = quoted.collect::<Vec<_>>().join(" ");
    let mut text = format!("\n### {}\n\n{}\n\n    $ steadyraid {command}\n", case.name, case.why);
    let telling = |line: &&str| line.contains(case.says);
    let lines: Vec<&str> = match done.err.contains(case.says) {
        true => done.err.lines().filter(|line| !line.is_empty()).collect(),
        false => done.out.lines().filter(telling).collect(),
    };
    for line in lines {
        let _ = writeln!(text, "    {}", masked(line.trim_end(), scratch));
    }
    let _ = writeln!(text, "\nExit code {}.", done.exit);
    text
}

/// The line without what differs from run to run.
fn masked(line: &str, scratch: &Scratch) -> String {
    let line = line.replace(&scratch.path("").display().to_string(), "/tmp/here/");
    let line = match (line.find("filesystem has "), line.find(" free")) {
        (Some(start), Some(end)) => format!("{}N GiB{}", &line[..start + 15], &line[end..]),
        _ => line,
    };
    let words = line.split_inclusive(|c: char| !c.is_ascii_hexdigit() && c != '-');
    words.map(masked_word).collect()
}

fn masked_word(word: &str) -> String {
    let digits = word.trim_end_matches(|c: char| !c.is_ascii_hexdigit());
    let rest = &word[digits.len()..];
    let looks_random = digits.bytes().any(|byte| byte.is_ascii_digit());
    match digits.len() {
        36 if digits.matches('-').count() == 4 => format!("UUID{rest}"),
        8 if looks_random => format!("CHECKSUM{rest}"),
        _ => word.to_owned(),
    }
}
