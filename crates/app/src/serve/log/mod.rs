//! What the server says: its standard streams, the journal, syslog, the service manager. The
//! thread that serves never waits for any of them.
//!
//! ```text
//!                           ┌─ out ──> standard output: what is served, `ready`
//! message ── pace ── queue ─┼─ err ──> standard error: warnings, errors
//!            (kinds)        ├─ journal (with fields), if standard error ends there
//!                           ├─ syslog, if asked for
//!                           └─ notify: the service manager, if there is one
//! ```
//! * Each target has a thread and a bounded queue of its own ([`outlet`]): one that is stuck does
//!   not silence the others.
//! * A kind of message that comes too often is held back ([`pace`]).
//! * What is not written is counted, by target and reason, and the next message that is written
//!   tells how many were not.
//!
//! Nothing else under `serve` writes to standard output or standard error (`xtask tidy` sees to
//! that).

mod notify;
pub mod outlet;
mod pace;
mod sink;

use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use io::Nanos;

pub(crate) use self::notify::keep_alive;
use self::outlet::{Deadline, Dropped, Outlet, uptime};
use self::pace::Pace;
use self::sink::{Entry, Journal};
use super::alerts::Severity;
use super::limits::{
    LOG_LAST_CHANCE, LOG_LAST_WORDS, LOG_TEXT_BYTES_MAX, LOG_WAITING_MAX, NOTIFY_WAITING_MAX,
};
use crate::error::{Failure, Outcome};
use crate::render::table::printable;
use crate::render::view::{DroppedMessages, Event};

/// What a message is about. Each kind has its own bound of how often it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Starting, stopping, pools that can't be opened.
    Server,
    /// The configuration read again.
    Reload,
    /// NBD clients that break off or break rules.
    Client,
    /// NBD clients that are not let in.
    Refused,
    /// Connections that can't be accepted.
    Accept,
    /// Alerts that can't be delivered.
    Alert,
    /// The serving thread answers nobody.
    Stuck,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Server => "server",
            Kind::Reload => "reload",
            Kind::Client => "client",
            Kind::Refused => "refused",
            Kind::Accept => "accept",
            Kind::Alert => "alert",
            Kind::Stuck => "stuck",
        }
    }
}

/// A handle: clones are the same log, from any thread. Saying something never waits and never
/// fails.
#[derive(Clone)]
pub struct Log(Arc<Shared>);

struct Shared {
    out: Outlet<String>,
    err: Arc<Outlet<String>>,
    journal: Option<Outlet<Entry>>,
    notify: Option<Outlet<String>>,
    settings: Mutex<Settings>,
    pace: Mutex<Pace>,
    dropped: Counts,
}

/// What a reload may change.
struct Settings {
    syslog: Option<Outlet<(Severity, String)>>,
    /// Events below this are not written.
    level: Severity,
}

/// By target.
#[derive(Default)]
struct Counts {
    out: Arc<Dropped>,
    err: Arc<Dropped>,
    journal: Arc<Dropped>,
    syslog: Arc<Dropped>,
    notify: Arc<Dropped>,
    alerts: Arc<Dropped>,
}

impl Log {
    /// Starts threads, so signals have to be blocked before.
    pub fn start(syslog: bool, level: Severity) -> Outcome<Log> {
        let dropped = Counts::default();
        let stream = |stream: std::io::Result<File>, dropped| {
            let mut stream = stream.ok();
            let write = move |text: String| stream.as_mut().is_some_and(|to| put(to, &text));
            Outlet::start(LOG_WAITING_MAX, dropped, write)
        };
        let err = Arc::new(stream(duplicate(std::io::stderr().as_fd()), &dropped.err));
        let journal = Journal::find().map(|mut journal| {
            let (err, dropped) = (err.clone(), &dropped.journal);
            Outlet::start(LOG_WAITING_MAX, dropped, move |entry| journal.put(&entry, &err))
        });
        let notify = notify::socket().map(|socket| {
            Outlet::start(NOTIFY_WAITING_MAX, &dropped.notify, move |state: String| {
                socket.send(state.as_bytes()).is_ok()
            })
        });
        let syslog = open_syslog(syslog, &dropped)?;
        Ok(Log(Arc::new(Shared {
            out: stream(duplicate(std::io::stdout().as_fd()), &dropped.out),
            err,
            journal,
            notify,
            settings: Mutex::new(Settings { syslog, level }),
            pace: Mutex::default(),
            dropped,
        })))
    }

    /// Of a test that says nothing.
    #[cfg(test)]
    pub fn of_test() -> Log {
        Log::start(false, Severity::Info).expect("without syslog nothing can fail")
    }

    /// Checks what a reload asks for. What it returns does it, and can't fail.
    pub fn prepare(&self, syslog: bool, level: Severity) -> Outcome<impl FnOnce() + use<>> {
        let settings = Settings { syslog: open_syslog(syslog, &self.0.dropped)?, level };
        let own = self.clone();
        Ok(move || *own.settings() = settings)
    }

    fn settings(&self) -> MutexGuard<'_, Settings> {
        self.0.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To standard output: what who started the server waits for.
    pub fn say(&self, text: impl fmt::Display) {
        self.0.out.put(|_| format!("{text}\n"));
    }

    pub fn warn(&self, kind: Kind, text: impl fmt::Display) {
        self.tell(kind, format_args!("warning: {text}"));
    }

    /// What went wrong, and the hint.
    pub fn fail(&self, kind: Kind, failure: &Failure) {
        self.tell(kind, failure);
    }

    /// Something that is a pity, and that the server does without.
    pub fn warn_of(&self, kind: Kind, failure: &Failure) {
        self.tell(kind, failure.as_warning());
    }

    /// What to do about what was said before.
    pub fn hint(&self, kind: Kind, hint: &str) {
        self.tell(kind, format_args!("hint: {hint}"));
    }

    fn tell(&self, kind: Kind, text: impl fmt::Display) {
        if let Some(held_back) = self.admit(kind.name()) {
            self.err(cut(text.to_string()) + &of_held_back(held_back));
        }
    }

    fn err(&self, text: String) {
        put_line(&self.0.err, text);
    }

    fn admit(&self, kind: &str) -> Option<u64> {
        let now = Nanos(uptime().as_nanos() as u64);
        self.0.pace.lock().unwrap_or_else(PoisonError::into_inner).admit(kind, now)
    }

    /// An event of a pool: to the journal, or if it is not information to standard error; and to
    /// syslog.
    pub fn event(&self, event: &Event) {
        let severity = Severity::named(&event.severity);
        let settings = self.settings();
        if severity < settings.level {
            return;
        }
        let Some(held_back) = self.admit(&event.kind) else { return };
        // Names of drives and pools may hold anything.
        let text = cut(format!("pool {}: {}", event.pool, printable(&event.text)));
        let text = text + &of_held_back(held_back);
        if let Some(syslog) = &settings.syslog {
            syslog.put(|missed| (severity, text.clone() + &of_missed(missed)));
        }
        drop(settings);
        let entry = Entry { event: event.clone(), text };
        match &self.0.journal {
            Some(journal) => journal.put(|missed| entry.and(&of_missed(missed))),
            None => entry.to_stream().into_iter().for_each(|text| self.err(text)),
        }
    }

    /// To whoever started the server: clients may come.
    pub fn ready(&self) {
        self.say("ready");
        self.notify("READY=1");
    }

    /// Tells the service manager (`READY=1`, `STOPPING=1`), if there is one.
    pub fn notify(&self, state: impl Into<String>) {
        if let Some(notify) = &self.0.notify {
            notify.put(|_| state.into());
        }
    }

    /// Says that the configuration is being read again; `READY=1` ends it.
    pub fn notify_reloading(&self) {
        self.notify(notify::reloading());
    }

    /// Waits a little for what is to be written yet.
    pub fn drain(&self) {
        let deadline = Deadline::after(LOG_LAST_WORDS);
        let Shared { out, err, journal, notify, .. } = &*self.0;
        // First the journal, which gives to standard error what it could not have.
        let _ = journal.as_ref().is_none_or(|journal| journal.drain(deadline.left()));
        let _ = self.settings().syslog.as_ref().is_none_or(|own| own.drain(deadline.left()));
        let _ = notify.as_ref().is_none_or(|notify| notify.drain(deadline.left()));
        let _ = out.drain(deadline.left().max(LOG_LAST_CHANCE));
        let _ = err.drain(deadline.left().max(LOG_LAST_CHANCE));
    }

    /// Where alerts count what they drop.
    pub fn dropped_alerts(&self) -> &Arc<Dropped> {
        &self.0.dropped.alerts
    }

    /// All that was not written: every target and reason, since nothing and zero are not the same
    /// to who counts what was added.
    pub fn dropped(&self) -> Vec<DroppedMessages> {
        let own = &self.0.dropped;
        let targets = [
            ("stdout", &own.out),
            ("stderr", &own.err),
            ("journal", &own.journal),
            ("syslog", &own.syslog),
            ("notify", &own.notify),
            ("alerts", &own.alerts),
        ];
        let of_target = |(target, dropped): (&str, &Arc<Dropped>)| {
            let count = |reason, count: u64| DroppedMessages::new(target, reason, count);
            let read = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
            [count("full", read(&dropped.full)), count("failed", read(&dropped.failed))]
        };
        let held_back = self.0.pace.lock().unwrap_or_else(PoisonError::into_inner).held_back();
        let paced = DroppedMessages::new("all", "rate", held_back);
        targets.into_iter().flat_map(of_target).chain([paced]).collect()
    }
}

fn open_syslog(asked: bool, dropped: &Counts) -> Outcome<Option<Outlet<(Severity, String)>>> {
    if !asked {
        return Ok(None);
    }
    let mut syslog = sink::open_syslog()?;
    let write =
        move |(severity, text): (Severity, String)| sink::in_syslog(&mut syslog, severity, &text);
    Ok(Some(Outlet::start(LOG_WAITING_MAX, &dropped.syslog, write)))
}

/// Under a number of its own, so that a write that is stuck keeps none of the standard library's
/// locks, which whoever panics wants.
fn duplicate(stream: std::os::fd::BorrowedFd<'_>) -> std::io::Result<File> {
    Ok(File::from(stream.try_clone_to_owned()?))
}

/// Writes all of it, however long that takes; false if it can't.
fn put(to: &mut File, text: &str) -> bool {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        match to.write(rest) {
            Ok(0) => return false,
            Ok(count) => rest = &rest[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // Somebody who has the same pipe or terminal made it so. Full, it is stuck like any.
            Err(error) if error.kind() == ErrorKind::WouldBlock => pause(),
            Err(_) => return false,
        }
    }
    true
}

#[expect(clippy::disallowed_methods, reason = "the thread of this stream has nothing else to do")]
fn pause() {
    std::thread::sleep(Duration::from_millis(20));
}

fn put_line(to: &Outlet<String>, text: String) {
    to.put(|missed| match missed {
        0 => text + "\n",
        _ => format!("{text}{}\n", of_missed(missed)),
    });
}

fn of_missed(missed: u64) -> String {
    match missed {
        0 => String::new(),
        _ => format!(" ({missed} messages before this one were lost)"),
    }
}

fn of_held_back(held_back: u64) -> String {
    match held_back {
        0 => String::new(),
        _ => format!(" ({held_back} more of this kind before it were not written)"),
    }
}

/// At most [`LOG_TEXT_BYTES_MAX`] of it.
fn cut(mut text: String) -> String {
    if text.len() > LOG_TEXT_BYTES_MAX {
        let fits = (0..=LOG_TEXT_BYTES_MAX).rev().find(|&end| text.is_char_boundary(end));
        text.truncate(fits.unwrap_or(0));
        text.push_str("...");
    }
    text
}
