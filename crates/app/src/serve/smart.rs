//! What drives say of their own health, through smartmontools' `smartctl --json`.
//!
//! Drives are asked when somebody wants to know, each not more often than every
//! [`ASK_EVERY`], by a thread of its own: the program may take seconds, or hang with its drive.
//! Who wants to know is given what is known by then. Without the program, or the right to use it,
//! or on a drive that has nothing to say, that is nothing.

mod report;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::time::{ClockId, clock_gettime};

pub use self::report::Report;
use super::child;
use crate::wall_clock;

/// A drive's health changes in days, and asking costs it a few milliseconds.
const ASK_EVERY: Duration = Duration::from_secs(300);
/// A drive that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(20);
/// Of all pools; others are not asked.
const DRIVES_MAX: usize = 1024;
/// Longest report that is read; those of drives with all logs full have some 100 KiB.
const REPORT_BYTES_MAX: u64 = 1 << 20;
/// Where it is looked for: services and users may have no `sbin` in their path.
const PROGRAMS: [&str; 3] = ["smartctl", "/usr/sbin/smartctl", "/usr/local/sbin/smartctl"];

/// By name of drive.
type Reports = BTreeMap<String, Report>;

/// A handle on the thread that asks.
pub struct Smart {
    wanted: SyncSender<Vec<String>>,
    known: Arc<Mutex<Reports>>,
}

impl Smart {
    pub fn start() -> Smart {
        // While one list is worked through there is no use in another.
        let (wanted, taken) = sync_channel(1);
        let known = Arc::<Mutex<Reports>>::default();
        let to = known.clone();
        #[expect(
            clippy::disallowed_methods,
            reason = "it owns nothing of any shard, and may block"
        )]
        std::thread::spawn(move || serve(&taken, &to, ask_by_name, uptime));
        Smart { wanted, known }
    }

    /// What is known of these drives, and of no others. Never waits for a drive.
    pub fn reports(&self, names: Vec<String>) -> Reports {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|name, _| names.contains(name));
        let reports = known.clone();
        drop(known);
        // If the thread is at work it will be told the next time.
        let _ = self.wanted.try_send(names);
        reports
    }
}

/// Until nobody is left who could want to know.
fn serve(
    wanted: &Receiver<Vec<String>>,
    known: &Mutex<Reports>,
    mut ask: impl FnMut(&str) -> Option<Report>,
    uptime: impl Fn() -> Duration,
) {
    let mut asked: BTreeMap<String, Duration> = BTreeMap::new();
    for names in wanted {
        asked.retain(|name, _| names.contains(name));
        for name in names.into_iter().take(DRIVES_MAX) {
            let now = uptime();
            if asked.get(&name).is_some_and(|at| now.saturating_sub(*at) < ASK_EVERY) {
                continue;
            }
            asked.insert(name.clone(), now);
            // One that sleeps, or is busy with something else, is as it was.
            if let Some(report) = ask(&name) {
                known.lock().unwrap_or_else(PoisonError::into_inner).insert(name, report);
            }
        }
    }
}

fn uptime() -> Duration {
    Duration::from_secs(clock_gettime(ClockId::Boottime).tv_sec.cast_unsigned())
}

fn ask_by_name(name: &str) -> Option<Report> {
    device(Path::new(name)).and_then(|device| ask(&device))
}

/// The whole drive that this path names, or is a partition of; `None` of files.
fn device(path: &Path) -> Option<PathBuf> {
    let found = fs::metadata(path).ok()?;
    if !found.file_type().is_block_device() {
        return None;
    }
    let (major, minor) = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
    let shown = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    let whole = match shown.join("partition").exists() {
        true => shown.parent()?,
        false => &shown,
    };
    // A slash in the name of a device is an exclamation mark there.
    let name = whole.file_name()?.to_str()?.replace('!', "/");
    Some(Path::new("/dev").join(name))
}

fn ask(device: &Path) -> Option<Report> {
    let said = PROGRAMS.iter().find_map(|program| match run(program.as_ref(), device, PATIENCE) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        said => Some(said),
    });
    let mut report = Report::read(&said?.ok()?)?;
    report.at_secs = wall_clock::now_secs();
    Some(report)
}

/// What the program says. Its exit code has a bit for everything that is not as it should be, so
/// only what it says counts.
fn run(program: &OsStr, device: &Path, patience: Duration) -> io::Result<Vec<u8>> {
    // A file in memory, because a full pipe would have to be read meanwhile.
    let mut file = File::from(memfd_create("smartctl", MemfdFlags::CLOEXEC)?);
    let mut command = Command::new(program);
    // A disk that sleeps is not woken.
    command.args(["--json", "--all", "--nocheck=standby"]).arg(device);
    command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(Stdio::null());
    child::wait(&mut command.spawn()?, patience).map_err(io::Error::other)?;
    let mut said = Vec::new();
    file.rewind()?;
    file.take(REPORT_BYTES_MAX).read_to_end(&mut said)?;
    Ok(said)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn script(dir: &Path, text: &str) -> PathBuf {
        let path = dir.join("smartctl");
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("set");
        path
    }

    /// While other tests start programs, theirs hold what we write open for a moment.
    fn run_it(program: &Path, patience: Duration) -> io::Result<Vec<u8>> {
        loop {
            match run(program.as_os_str(), Path::new("/dev/sdx"), patience) {
                Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => {}
                said => return said,
            }
        }
    }

    #[test]
    fn the_program_is_given_the_drive_and_its_exit_code_does_not_matter() {
        let dir = tempfile::tempdir().expect("a directory");
        let program = script(dir.path(), "echo \"$@\"; exit 64");
        let said = run_it(&program, PATIENCE).expect("it ran");
        assert_eq!(said, b"--json --all --nocheck=standby /dev/sdx\n");
    }

    #[test]
    fn a_program_that_hangs_or_is_missing_or_says_too_much_is_borne() {
        let dir = tempfile::tempdir().expect("a directory");
        let short = Duration::from_millis(100);
        let program = script(dir.path(), "exec sleep 60");
        let error = run_it(&program, short).expect_err("it hangs");
        assert!(error.to_string().contains("was killed"), "{error}");
        let missing = dir.path().join("none");
        let error = run_it(&missing, short).expect_err("missing");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        let program = script(dir.path(), "exec head -c 3000000 /dev/zero");
        let said = run_it(&program, PATIENCE).expect("it ran");
        assert_eq!(said.len() as u64, REPORT_BYTES_MAX);
    }

    #[test]
    fn files_and_memory_are_not_asked() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("drive.img");
        fs::write(&file, "").expect("written");
        for path in [file.as_path(), Path::new("mem:3"), Path::new("/dev/null"), Path::new("")] {
            assert_eq!(device(path), None, "{path:?}");
        }
        let smart = Smart::start();
        let name = file.to_str().expect("text").to_owned();
        assert_eq!(smart.reports(vec![name, "mem:3".into()]), Reports::new());
    }

    #[test]
    fn a_drive_is_asked_once_in_five_minutes_and_keeps_what_it_said() {
        let known = Mutex::new(Reports::new());
        let (wanted, taken) = sync_channel(5);
        let names = |names: &[&str]| -> Vec<String> {
            names.iter().map(|name| (*name).to_owned()).collect()
        };
        // A minute passes with each look at the clock.
        for list in [&["a", "b"][..], &["a", "b"], &["a", "b"], &["a"], &["b"]] {
            wanted.send(names(list)).expect("there is room");
        }
        drop(wanted);
        let (mut asked, minutes) = (Vec::new(), std::cell::Cell::new(0));
        let report = Report { celsius: Some(1.0), ..Report::default() };
        let ask = |name: &str| {
            asked.push(name.to_owned());
            // Only the first time.
            (asked.len() == 1).then(|| report.clone())
        };
        let uptime = || Duration::from_secs(60 * minutes.replace(minutes.get() + 1));
        serve(&taken, &known, ask, uptime);
        // Both at once; nobody for five minutes; then "a"; and "b", which had been forgotten.
        assert_eq!(asked, ["a", "b", "a", "b"]);
        let known = known.into_inner().expect("whole");
        assert_eq!(known, Reports::from([("a".to_owned(), report)]));
    }
}
