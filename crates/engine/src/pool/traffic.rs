//! What is known of a volume's requests since the pool was opened, whoever holds it.

use std::cell::RefCell;

use io::{Env, Nanos};

use crate::api::{OperationLatencies, RequestError};
use crate::latency::LatencyHistogram;

#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Read,
    Write,
    Flush,
}

/// One of a volume, shared by its handles.
#[derive(Default)]
pub struct Traffic {
    /// Whether latencies are recorded (`SpikeHandling::detect`).
    watched: bool,
    reads: RefCell<LatencyHistogram>,
    writes: RefCell<LatencyHistogram>,
    flushes: RefCell<LatencyHistogram>,
}

impl Traffic {
    pub fn new(watched: bool) -> Traffic {
        Traffic { watched, ..Traffic::default() }
    }

    /// Carries out a request and records how long it took if it went well: refusals come at
    /// once and would only flatter.
    pub async fn timed<E: Env, T>(
        &self,
        env: &E,
        kind: Kind,
        request: impl Future<Output = Result<T, RequestError>>,
    ) -> Result<T, RequestError> {
        if !self.watched {
            return request.await;
        }
        // The clock of the event loop is free, and right about all that waits for a drive: a
        // request comes with one look at the completions and is answered with another.
        let begin = env.recent();
        let result = request.await;
        if result.is_ok() {
            self.record(kind, env.recent().saturating_sub(begin));
        }
        result
    }

    fn record(&self, kind: Kind, took: Nanos) {
        let histogram = match kind {
            Kind::Read => &self.reads,
            Kind::Write => &self.writes,
            Kind::Flush => &self.flushes,
        };
        histogram.borrow_mut().record(took);
    }

    pub fn latencies(&self) -> OperationLatencies {
        OperationLatencies {
            reads: self.reads.borrow().summary(),
            writes: self.writes.borrow().summary(),
            flushes: self.flushes.borrow().summary(),
        }
    }
}
