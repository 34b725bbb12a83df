//! Events in the journal, with fields, and in syslog. For the threads of these.

use log::kv::{self, Key, Value, VisitSource};
use log::{Level, Record};
use syslog::{Facility, Formatter3164, Logger, LoggerBackend};
use systemd_journal_logger::{JournalLog, connected_to_journal};

use super::outlet::Outlet;
use crate::error::{Failure, Outcome};
use crate::render::view::Event;
use crate::serve::alerts::Severity;

const NAME: &str = "steadyraid";

/// An event as it is written.
pub struct Entry {
    pub event: Event,
    pub text: String,
}

impl Entry {
    pub fn and(mut self, more: &str) -> Entry {
        self.text += more;
        self
    }

    /// As a line of standard error, if it is worth one.
    pub fn to_stream(&self) -> Option<String> {
        let severity = &self.event.severity;
        (severity != "info").then(|| format!("{severity}: {}", self.text))
    }
}

/// The journal, once it could be reached: also that may take its time.
pub struct Journal(Option<JournalLog>);

impl Journal {
    /// `None` if standard error does not end there.
    pub fn find() -> Option<Journal> {
        connected_to_journal().then_some(Journal(None))
    }

    fn reach(&mut self) -> std::io::Result<&JournalLog> {
        let journal = match self.0.take() {
            Some(journal) => journal,
            None => JournalLog::new()?.with_syslog_identifier(NAME.to_owned()),
        };
        Ok(self.0.insert(journal))
    }

    /// False if the journal does not take it: then it goes to standard error.
    pub fn put(&mut self, entry: &Entry, otherwise: &Outlet<String>) -> bool {
        let level = match entry.event.severity.as_str() {
            "info" => Level::Info,
            "warning" => Level::Warn,
            _ => Level::Error,
        };
        let (fields, text) = (Fields(&entry.event), &entry.text);
        let sent = self.reach().and_then(|journal| {
            let mut record = Record::builder();
            record.level(level).target(NAME).key_values(&fields);
            journal.journal_send(&record.args(format_args!("{text}")).build())
        });
        if sent.is_err() {
            entry.to_stream().into_iter().for_each(|text| super::put_line(otherwise, text));
        }
        sent.is_ok()
    }
}

/// Fields of the journal's entry.
struct Fields<'a>(&'a Event);

impl kv::Source for Fields<'_> {
    fn visit<'kvs>(&'kvs self, visitor: &mut dyn VisitSource<'kvs>) -> Result<(), kv::Error> {
        let event = self.0;
        let mut put =
            |key, value: &'kvs str| visitor.visit_pair(Key::from_str(key), Value::from(value));
        put("STEADYRAID_POOL", &event.pool)?;
        put("STEADYRAID_EVENT", &event.kind)?;
        put("STEADYRAID_DRIVE_NAME", event.drive_name.as_deref().unwrap_or(""))?;
        match event.drive {
            Some(drive) => {
                visitor.visit_pair(Key::from_str("STEADYRAID_DRIVE"), Value::from(drive))
            }
            None => Ok(()),
        }
    }
}

pub type Syslog = Logger<LoggerBackend, Formatter3164>;

pub fn open_syslog() -> Outcome<Syslog> {
    let process = NAME.to_owned();
    let pid = std::process::id();
    let form = Formatter3164 { facility: Facility::LOG_DAEMON, hostname: None, process, pid };
    syslog::unix(form).map_err(|error| {
        Failure::new("syslog", error).hint("a syslog daemon listens at /dev/log; is one running?")
    })
}

/// False if it could not be sent, to a daemon that was started again neither.
pub fn in_syslog(syslog: &mut Syslog, severity: Severity, text: &str) -> bool {
    let send = |syslog: &mut Syslog| {
        let sent = match severity {
            Severity::Info => syslog.info(text),
            Severity::Warning => syslog.warning(text),
            Severity::Error => syslog.err(text),
        };
        sent.is_ok()
    };
    if send(syslog) {
        return true;
    }
    match open_syslog() {
        Ok(again) => {
            *syslog = again;
            send(syslog)
        }
        Err(_) => false,
    }
}
