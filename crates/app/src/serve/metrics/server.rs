//! Metrics of the server and its process.

use std::fmt;

use super::family::{Family, Writer};
use crate::render::view::{DroppedMessages, Latencies};
use crate::serve::doings::{Doings, Process};

type Counted = Vec<(&'static str, u64)>;

/// As they are now.
#[derive(Debug)]
pub struct Facts {
    process: Process,
    nbd_clients: u64,
    nbd_accepted: u64,
    nbd_refused: Counted,
    http_refused: Counted,
    reloads: Counted,
    stuck: u64,
    slices: Vec<(&'static str, Latencies)>,
    dropped: Vec<DroppedMessages>,
    nbd_connections: Vec<(&'static str, export::Counted)>,
}

impl Facts {
    pub fn of(doings: &Doings) -> Facts {
        Facts {
            process: doings.process(),
            nbd_clients: doings.nbd_clients(),
            nbd_accepted: doings.nbd_accepted(),
            nbd_refused: doings.nbd_refused.all(),
            http_refused: doings.http_refused.all(),
            reloads: doings.reloads.all(),
            stuck: doings.stuck.times(),
            slices: doings.slices(),
            dropped: doings.log.dropped(),
            nbd_connections: doings.nbd_connections(),
        }
    }
}

fn counters(to: &mut Family, label: &'static str, counted: &Counted) -> fmt::Result {
    counted
        .iter()
        .try_for_each(|(name, count)| to.counter(&vec![(label, (*name).to_owned())], *count as f64))
}

pub fn write(facts: &Facts, to: &mut Writer) -> fmt::Result {
    let none = Vec::new();
    to.gauge("build_info", "1; the version as a label", |to| {
        to.gauge(&vec![("version", env!("CARGO_PKG_VERSION").to_owned())], 1.0)
    })?;
    to.gauge("nbd_clients", "NBD clients that are connected", |to| {
        to.gauge(&none, facts.nbd_clients as f64)
    })?;
    let help = "NBD connections, by how they came, and whether they have chosen an export";
    to.gauge("nbd_places", help, |to| {
        facts.nbd_connections.iter().try_for_each(|(way, counted)| {
            let states = [("handshake", counted.handshaking), ("established", counted.established)];
            states.iter().try_for_each(|(state, count)| {
                let way = ("transport", (*way).to_owned());
                to.gauge(&vec![way, ("state", (*state).to_owned())], *count as f64)
            })
        })
    })?;
    to.counter("nbd_connections", "NBD connections that were taken", |to| {
        to.counter(&none, facts.nbd_accepted as f64)
    })?;
    to.counter("nbd_refused", "NBD clients that were not let in or were put out, by why", |to| {
        counters(to, "reason", &facts.nbd_refused)
    })?;
    to.counter("http_refused", "HTTP requests that were refused, by why", |to| {
        counters(to, "reason", &facts.http_refused)
    })?;
    to.counter("config_reloads", "Times that the configuration was read again", |to| {
        counters(to, "result", &facts.reloads)
    })?;
    let help = "Times that the thread which serves was stuck for over a second";
    to.counter("stuck", help, |to| to.counter(&none, facts.stuck as f64))?;
    let help = "How long one task at a time had the thread which serves, by what it did";
    to.histogram("slice_seconds", help, |to| {
        let work = |name: &'static str| vec![("work", name.to_owned())];
        facts.slices.iter().try_for_each(|(name, slices)| to.spans(&work(name), slices))
    })?;
    let help = "Messages of the log, and alerts, that were not written, by target and why";
    to.counter("log_dropped", help, |to| {
        facts.dropped.iter().try_for_each(|dropped| {
            let target = ("target", dropped.target.clone());
            to.counter(&vec![target, ("reason", dropped.reason.clone())], dropped.count as f64)
        })
    })?;
    process(&facts.process, to)
}

fn process(process: &Process, to: &mut Writer) -> fmt::Result {
    let none = Vec::new();
    let help = "When the process was started, in seconds since 1970";
    to.gauge("process_start_time_seconds", help, |to| {
        to.gauge(&none, process.started_secs as f64)
    })?;
    to.counter("process_cpu_seconds", "Time that it has had of processors", |to| {
        to.counter(&none, process.cpu_seconds)
    })?;
    to.gauge("process_resident_memory_bytes", "Memory that it has", |to| {
        to.known(&none, process.resident_bytes.map(|bytes| bytes as f64))
    })?;
    to.gauge("process_open_fds", "Files and sockets that it has open", |to| {
        to.known(&none, process.open_files.map(|count| count as f64))
    })
}
