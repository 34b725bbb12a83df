//! Alerts: events told to somebody who does not look: a program, a webhook.
//!
//! ```text
//!  events of all pools ──> severity? ──> queue ──> thread of the target ──> program | webhook
//! ```
//! Each target has a thread of its own, since both a program and a server may take their time, and
//! the thread that serves must never wait for them.

mod program;
mod webhook;

use std::cell::RefCell;
use std::path::PathBuf;

use clap::ValueEnum;
use serde::Deserialize;

use self::webhook::Webhook;
use super::limits::{ALERT_LAST_CHANCE, ALERT_TARGETS_MAX, ALERTS_WAITING_MAX};
use super::log::outlet::{Deadline, Outlet};
use super::log::{Kind, Log};
use super::origin::Origin;
use crate::error::{Failure, Outcome};
use crate::render::view::Event;

/// How bad an event must be to be told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Everything
    Info,
    /// What somebody should look at
    #[default]
    Warning,
    /// What is failing
    Error,
}

impl Severity {
    /// Of an event, as it is shown.
    pub fn named(name: &str) -> Severity {
        match name {
            "info" => Severity::Info,
            "warning" => Severity::Warning,
            _ => Severity::Error,
        }
    }
}

/// `[[alert]]` in the configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", try_from = "Written")]
pub struct Alert {
    pub severity: Severity,
    pub target: Target,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A program and its arguments.
    Program(Vec<String>),
    Webhook(Webhook),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Written {
    #[serde(default)]
    severity: Severity,
    program: Option<Vec<String>>,
    webhook: Option<String>,
}

impl TryFrom<Written> for Alert {
    type Error = String;

    fn try_from(written: Written) -> Result<Alert, String> {
        let target = match (written.program, written.webhook) {
            (Some(words), None) => Target::Program(check_program(words)?),
            (None, Some(url)) => Target::Webhook(Webhook::parse(&url)?),
            _ => return Err("an alert has either 'program' or 'webhook'".into()),
        };
        Ok(Alert { severity: written.severity, target })
    }
}

/// A server that runs as a service has no directory and no PATH that one could rely on.
fn check_program(words: Vec<String>) -> Result<Vec<String>, String> {
    match words.first() {
        Some(program) if PathBuf::from(program).is_absolute() => Ok(words),
        Some(program) => Err(format!("program '{program}' is not an absolute path")),
        None => Err("'program' names no program".into()),
    }
}

impl Target {
    /// What it is called in messages.
    fn name(&self) -> String {
        match self {
            Target::Program(words) => format!("alert program {}", words[0]),
            Target::Webhook(webhook) => format!("alert webhook {}", webhook.shown()),
        }
    }

    fn deliver(&self, event: &Event) -> Result<(), String> {
        match self {
            Target::Program(words) => program::run(words, event),
            Target::Webhook(webhook) => webhook.post(event),
        }
    }
}

/// One target, and where events for it are put.
struct Line {
    alert: Alert,
    events: Outlet<Event>,
}

/// All targets of a server.
pub struct Alerts {
    lines: RefCell<Vec<Line>>,
    log: Log,
}

impl Alerts {
    pub fn start(alerts: &[Alert], origin: &Origin, log: &Log) -> Outcome<Alerts> {
        Alerts::check(alerts, origin)?;
        let lines = alerts.iter().map(|alert| Line::start(alert.clone(), log)).collect();
        Ok(Alerts { lines: RefCell::new(lines), log: log.clone() })
    }

    pub fn check(alerts: &[Alert], origin: &Origin) -> Outcome<()> {
        if alerts.len() > ALERT_TARGETS_MAX {
            let what = format!("{} alerts, and {ALERT_TARGETS_MAX} is the most", alerts.len());
            return Err(origin.blame(Failure::usage("[[alert]]", what), &["alert"]));
        }
        Ok(())
    }

    /// From now on these are told. Those who were already keep their place; those who are not any
    /// more still get what is on its way.
    pub fn change(&self, alerts: &[Alert]) {
        let mut before = self.lines.take();
        let line = |alert: &Alert| match before.iter().position(|line| line.alert == *alert) {
            Some(at) => before.swap_remove(at),
            None => Line::start(alert.clone(), &self.log),
        };
        self.lines.replace(alerts.iter().map(line).collect());
    }

    /// Never waits.
    pub fn tell(&self, event: &Event) {
        let severity = Severity::named(&event.severity);
        let lines = self.lines.borrow();
        lines
            .iter()
            .filter(|line| severity >= line.alert.severity)
            .for_each(|line| line.put(event));
    }

    /// Waits a little for what is on its way. Nothing is told from now on.
    pub fn end(&self, deadline: &Deadline) {
        let patience = || deadline.left().max(ALERT_LAST_CHANCE);
        let lines = self.lines.take();
        if lines.iter().any(|line| !line.events.drain(patience())) {
            let what = "alerts: some were not sent before the server stopped";
            self.log.warn(Kind::Alert, what);
        }
    }
}

impl Line {
    fn start(alert: Alert, log: &Log) -> Line {
        let (target, log) = (alert.target.clone(), log.clone());
        let dropped = log.dropped_alerts().clone();
        let events = Outlet::start(ALERTS_WAITING_MAX, &dropped, move |event| {
            let delivered = target.deliver(&event);
            if let Err(what) = &delivered {
                log.warn(Kind::Alert, format_args!("{}: {what}", target.name()));
            }
            delivered.is_ok()
        });
        Line { alert, events }
    }

    fn put(&self, event: &Event) {
        self.events.put(|missed| {
            let mut event = event.clone();
            if missed > 0 {
                event.text += &format!(" ({missed} alerts before this one were lost)");
            }
            event
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Alert, String> {
        toml::from_str(text).map_err(|error| error.message().trim_end().to_owned())
    }

    #[test]
    fn alerts_are_read_and_mistakes_refused() {
        let alert = parse("program = ['/bin/page', '-x']\nseverity = 'error'").expect("a program");
        assert_eq!(alert.target, Target::Program(vec!["/bin/page".into(), "-x".into()]));
        assert_eq!(alert.severity, Severity::Error);
        let alert = parse("webhook = 'http://127.0.0.1:9000/hook?key=1'").expect("a webhook");
        assert_eq!(alert.severity, Severity::Warning);
        assert_eq!(alert.target.name(), "alert webhook http://127.0.0.1:9000");
        let alert = parse("webhook = 'https://user:word@example.org/hook'").expect("a webhook");
        assert_eq!(alert.target.name(), "alert webhook https://example.org");
        let refused = [
            ("severity = 'error'", "an alert has either"),
            ("program = ['/a']\nwebhook = 'http://x/'", "an alert has either"),
            ("program = []", "'program' names no program"),
            ("program = ['page']", "program 'page' is not an absolute path"),
            ("webhook = 'ftp://x/'", "'ftp://x/' is not an http:// or https:// address"),
            ("webhook = 'https:///x'", "'https:///x' is not an http:// or https:// address"),
            ("webhook = 'http://x/'\nseverity = 'bad'", "unknown variant `bad`"),
            ("webhook = 'http://x/'\nwhen = 'now'", "unknown field `when`"),
        ];
        for (text, expected) in refused {
            let error = parse(text).expect_err(text);
            assert!(error.starts_with(expected), "{error:?} for {text:?}");
        }
    }
}
