//! Any of the loads there are, so that an experiment can have several kinds.

use super::load::{Load, Request, Stream};
use super::made::Made;
use super::recorded::Recorded;

/// Streams made up, requests of a file, or a workload.
#[derive(Clone)]
pub enum Played {
    Stream(Stream),
    Recorded(Recorded),
    Made(Made),
}

impl Load for Played {
    fn requests(&self) -> Box<dyn Iterator<Item = Request>> {
        match self {
            Played::Stream(stream) => Load::requests(stream),
            Played::Made(made) => made.requests(),
            Played::Recorded(recorded) => recorded.requests(),
        }
    }

    fn largest_write(&self) -> u64 {
        match self {
            Played::Stream(stream) => stream.largest_write(),
            Played::Made(made) => made.largest_write(),
            Played::Recorded(recorded) => recorded.largest_write(),
        }
    }
}
