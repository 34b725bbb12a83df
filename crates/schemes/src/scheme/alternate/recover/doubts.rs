//! What of a replica's data has no checksum that vouches for it, and should have.

use std::ops::Range;

use io::Env;

use super::Read;
use super::resync::{merged, within};
use super::standing::{Standing, lacking_max};
use crate::scheme::alternate::replica::{DONE, Inside, NUMBERED, log_bytes};
use crate::scheme::alternate::roles::Each;

/// Ranges of the data: where each begins, and its bytes.
pub type Ranges = Vec<(u64, u64)>;

/// What is not vouched for on a replica.
pub struct Doubt {
    /// Of these nobody here knows what they should be.
    pub lost: Ranges,
    /// Of these another one does.
    pub lacking: Ranges,
    pub standing: Standing,
}

pub fn all_doubts<E: Env>(
    logs: &[(usize, Read<E>)],
    trusted: &Each<bool>,
    told: &[(u64, u64)],
    (size, session): (u64, u64),
) -> Vec<Doubt> {
    let of = |(at, own): &(usize, Read<E>)| {
        let others = logs.iter().filter(|(other, _)| other != at && trusted[*other]);
        let others: Vec<&Inside<E>> = others.map(|(_, other)| &other.replica.array).collect();
        let (lost, (lacking, lacks_much)) = (own.doubts(size), own.lacking(&others, (told, size)));
        let standing = Standing {
            trusted: trusted[*at],
            lost: !lost.is_empty(),
            lacks: !lacking.is_empty(),
            lacks_much,
            says: own.says(session, &[NUMBERED, DONE]),
        };
        Doubt { lost, lacking, standing }
    };
    logs.iter().map(of).collect()
}

impl<E: Env> Read<E> {
    /// Ranges of the data whose checksums are lost.
    fn doubts(&self, size: u64) -> Ranges {
        self.of_data(self.replica.array.doubts(), size)
    }

    /// Ranges of the data whose checksums are not known here, but to another replica: they are
    /// lost, or what was to come here told only a log that has rotted; and whether they are too
    /// many for that. What logs tell of may have come to one and not yet to others.
    fn lacking(&self, others: &[&Inside<E>], (told, size): (&[(u64, u64)], u64)) -> (Ranges, bool) {
        let is_told = |(start, len): &(u64, u64)| {
            let after = told.partition_point(|(from, bytes)| from + bytes <= *start);
            told.get(after).is_some_and(|(from, _)| *from < start + len)
        };
        let known = |written| {
            let array = &self.replica.array;
            let lacking = others.iter().flat_map(|other| array.known_only_to(other, written));
            let mut lacking = self.of_data(lacking.collect(), size);
            lacking.retain(|range| !is_told(range));
            merged(lacking)
        };
        let most = lacking_max(self.replica.page().cache);
        let is_much = |ranges: &Ranges| ranges.iter().map(|(_, len)| len).sum::<u64>() > most;
        let all = known(false);
        // Where nothing was ever written there may be as much as there is.
        let lacking = if is_much(&all) { known(true) } else { all };
        let much = is_much(&lacking);
        (lacking, much)
    }

    fn of_data(&self, ranges: Vec<Range<u64>>, size: u64) -> Ranges {
        let base = log_bytes(self.replica.page().cache);
        ranges.into_iter().filter_map(|range| within(range, (base, size))).collect()
    }

    /// Ranges of the data that are marked.
    pub fn marked(&self, size: u64) -> Ranges {
        self.of_data(self.replica.array.marked(), size)
    }
}
