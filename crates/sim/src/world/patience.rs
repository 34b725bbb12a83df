//! How long requests may take.

use io::Nanos;

use super::context::Asked;
use super::plan::{Generation, Plan};

/// Bytes of one request that are worth the patience for one.
const BYTES: u64 = 2 << 20;

/// No request takes longer, for each so many of its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    pub reads_and_writes: Nanos,
    /// Also for writes with FUA.
    pub flushes: Nanos,
    /// On its way for so long, a request is lost.
    pub lost: Nanos,
}

impl Patience {
    /// Without faults, or after them.
    pub const WHOLE: Patience = Patience::all(Nanos::from_secs(1));
    /// While drives fail: with half of the drives gone, compaction has half of the places to
    /// choose from.
    pub const DEGRADED: Patience = Patience::all(Nanos::from_secs(5));
    /// While they hang as well, or collect garbage: some spells in a row, each with what waited
    /// behind it.
    pub const HANGS: Patience = Patience::all(Nanos::from_secs(20));
    /// While drives hang for a minute and nothing is done about it: two spells and what else.
    pub const LONG_HANGS: Patience =
        Patience { lost: Nanos::from_secs(300), ..Patience::all(Nanos::from_secs(150)) };
    /// The promise of flat tails: as many drives as the parity bears may hang for a minute, be
    /// slow throughout or hesitate, and requests go round them. A flush waits for a second before
    /// it does, and may have to wait for another one that slow drives hold up.
    pub const FLAT: Patience = Patience {
        reads_and_writes: Nanos::from_secs(1),
        flushes: Nanos::from_secs(3),
        lost: Nanos::from_secs(60),
    };

    const fn all(patience: Nanos) -> Patience {
        Patience { reads_and_writes: patience, flushes: patience, lost: Nanos::from_secs(30) }
    }

    pub fn of(plan: &Plan) -> Patience {
        if plan.generation >= Generation::Tails {
            return if plan.is_flat() { Patience::FLAT } else { Patience::LONG_HANGS };
        }
        let hangs = plan.troubles.iter().any(|trouble| !trouble.costs_redundancy());
        match () {
            _ if hangs || plan.modelled => Patience::HANGS,
            _ if !plan.victims.is_empty() => Patience::DEGRADED,
            _ => Patience::WHOLE,
        }
    }

    /// A long request is many short ones.
    pub fn for_request(&self, asked: &Asked) -> Nanos {
        let durable = asked.fua || asked.verb == "flush";
        let one = if durable { self.flushes } else { self.reads_and_writes };
        Nanos(one.0 * (1 + asked.len / BYTES))
    }
}

impl Default for Patience {
    fn default() -> Patience {
        Patience::WHOLE
    }
}
