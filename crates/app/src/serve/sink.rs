//! Where the server's log goes: to the journal with fields if standard error ends there, to syslog
//! if asked, and to standard error.

use log::kv::{self, Key, Value, VisitSource};
use log::{Level, Record};
use syslog::{Facility, Formatter3164, Logger, LoggerBackend};
use systemd_journal_logger::{JournalLog, connected_to_journal};

use super::alerts::Severity;
use crate::error::{Failure, Outcome};
use crate::render::table::printable;
use crate::render::view::Event;

const NAME: &str = "steadyraid";

/// Takes events that somebody should know of.
pub struct Sink {
    journal: Option<JournalLog>,
    syslog: Option<Logger<LoggerBackend, Formatter3164>>,
    /// What is less than this is not written.
    level: Severity,
}

impl Sink {
    pub fn new(syslog: bool, level: Severity) -> Outcome<Sink> {
        let journal = connected_to_journal().then(JournalLog::new).transpose();
        let journal = journal.map_err(|error| Failure::new("the journal", error))?;
        let journal = journal.map(|journal| journal.with_syslog_identifier(NAME.to_owned()));
        let syslog = if syslog { Some(open_syslog()?) } else { None };
        Ok(Sink { journal, syslog, level })
    }

    pub fn put(&mut self, event: &Event) {
        if Severity::named(&event.severity) < self.level {
            return;
        }
        // Names of drives and pools may hold anything.
        let text = format!("pool {}: {}", event.pool, printable(&event.text));
        let told = self.journal.as_ref().is_some_and(|journal| in_journal(journal, event, &text));
        if let Some(syslog) = &mut self.syslog {
            let sent = match event.severity.as_str() {
                "info" => syslog.info(&text),
                "warning" => syslog.warning(&text),
                _ => syslog.err(&text),
            };
            if let Err(error) = sent {
                eprintln!("warning: syslog: {error}");
            }
        }
        if !told && event.severity != "info" {
            eprintln!("{}: {text}", event.severity);
        }
    }
}

fn open_syslog() -> Outcome<Logger<LoggerBackend, Formatter3164>> {
    let process = NAME.to_owned();
    let pid = std::process::id();
    let form = Formatter3164 { facility: Facility::LOG_DAEMON, hostname: None, process, pid };
    syslog::unix(form).map_err(|error| {
        Failure::new("syslog", error).hint("a syslog daemon listens at /dev/log; is one running?")
    })
}

fn in_journal(journal: &JournalLog, event: &Event, text: &str) -> bool {
    let level = match event.severity.as_str() {
        "info" => Level::Info,
        "warning" => Level::Warn,
        _ => Level::Error,
    };
    let fields = Fields(event);
    let mut record = Record::builder();
    record.level(level).target(NAME).key_values(&fields);
    journal.journal_send(&record.args(format_args!("{text}")).build()).is_ok()
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
