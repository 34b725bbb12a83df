//! What a day needs of memory, from hour to hour, and whether that stays flat.
//!
//! Grows with reason: map, sums and stripes with what is stored and with drives that joined,
//! which they do in the first quarter of a day only; pages of simulated disks, which are told
//! late of what is free; the oracle with what was written since the last look. The last two are not
//! the engine's and are counted apart.

use serde::Serialize;

use super::Day;
use crate::failure::{Check, Failure};

/// What may come on top of the most of the earlier looks: a tenth, and this for the engine's
/// tables (some chunks of maps and sums) and for the rest (its queues, histograms, journal, what
/// the models of drives keep, and how far the estimate for disks is off).
const TABLES_SLACK: u64 = 256 << 10;
const REST_SLACK: u64 = 2 << 20;
const TASKS_SLACK: u64 = 16;

/// How things stand when nobody asks anything.
#[derive(Clone, Debug, Serialize)]
pub struct Entry {
    /// Of the day, in virtual hours.
    pub hours: f64,
    /// Since the look before.
    pub requests: u64,
    pub deeds: u64,
    pub slowest_millis: u64,
    pub drives: usize,
    pub active: usize,
    /// Drives that may still be lost.
    pub margin: u8,
    pub volumes: usize,
    /// Bytes of volumes that hold data.
    pub stored_bytes: u64,
    /// What the engine accounts for.
    pub map_bytes: u64,
    pub stripe_bytes: u64,
    pub tuple_bytes: u64,
    pub patch_bytes: u64,
    pub sum_bytes: u64,
    pub journal_percent: u8,
    pub tasks: usize,
    pub events: usize,
    /// Buffers that wait for the next requests: as many as ever were in use at once.
    pub buffer_bytes: u64,
    /// All that is allocated, and what of it neither those nor simulated disks and the oracle have.
    pub heap_bytes: Option<u64>,
    pub rest_bytes: Option<u64>,
    pub disk_bytes: u64,
    pub oracle_bytes: u64,
    pub resident_bytes: Option<u64>,
}

impl Entry {
    pub fn tables_bytes(&self) -> u64 {
        let Entry { map_bytes, stripe_bytes, tuple_bytes, patch_bytes, sum_bytes, .. } = self;
        map_bytes + stripe_bytes + tuple_bytes + patch_bytes + sum_bytes
    }

    pub const HEADER: &str = concat!(
        " hour requests deeds slowest  drives margin volumes stored |   map stripes tuples ",
        "patches  sums  tables | tasks buffers    rest  disks  oracle resident\n",
        "                         ms  active                    MiB |   KiB     KiB    KiB ",
        "    KiB   KiB     KiB |           KiB     KiB    MiB     KiB      MiB"
    );

    /// One line of the table below the header.
    pub fn line(&self) -> String {
        let kib = |bytes: u64| bytes >> 10;
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let or_none = |value: Option<String>| value.unwrap_or_else(|| "-".into());
        format!(
            "{:5.2} {:8} {:5} {:7} {:>7} {:6} {:7} {:6.1} | {:5} {:7} {:6} {:7} {:5} {:7} | \
             {:5} {:7} {:>7} {:6.0} {:7} {:>8}",
            self.hours,
            self.requests,
            self.deeds,
            self.slowest_millis,
            format!("{}/{}", self.active, self.drives),
            self.margin,
            self.volumes,
            mib(self.stored_bytes),
            kib(self.map_bytes),
            kib(self.stripe_bytes),
            kib(self.tuple_bytes),
            kib(self.patch_bytes),
            kib(self.sum_bytes),
            kib(self.tables_bytes()),
            self.tasks,
            kib(self.buffer_bytes),
            or_none(self.rest_bytes.map(|bytes| kib(bytes).to_string())),
            mib(self.disk_bytes),
            kib(self.oracle_bytes),
            or_none(self.resident_bytes.map(|bytes| format!("{:.0}", mib(bytes)))),
        )
    }
}

impl Day {
    pub(super) fn entry(&mut self) -> Entry {
        let status = self.pool.status();
        let memory = status.memory;
        let machine = &self.world.machine;
        let beside = machine.beside.iter().map(|beside| &beside.disk);
        let disks = machine.disks.iter().chain(beside).map(|disk| disk.memory_bytes());
        let disk_bytes = disks.sum::<u64>();
        let oracle_bytes = self.world.context.oracle.borrow().memory_bytes();
        let heap_bytes = io::memory::heap_bytes();
        let buffer_bytes = io::buf::pooled_bytes();
        let theirs = disk_bytes + oracle_bytes + buffer_bytes;
        let tally = self.world.context.tally.get();
        let active = self.world.active(&self.pool).len();
        let entry = Entry {
            hours: self.hours(),
            requests: tally.requests - self.counted.0,
            deeds: self.deeds() - self.counted.1,
            slowest_millis: tally.slowest / 1_000_000,
            drives: status.drives.len(),
            active,
            margin: status.redundancy_margin,
            volumes: status.volumes.len(),
            stored_bytes: status.volumes.iter().map(|volume| volume.mapped_bytes).sum(),
            map_bytes: memory.map_bytes,
            stripe_bytes: memory.space_bytes,
            tuple_bytes: memory.tuple_bytes,
            patch_bytes: memory.patch_bytes,
            sum_bytes: memory.sum_bytes,
            journal_percent: status.journal_fill_percent,
            tasks: machine.env.tasks(),
            events: self.pool.events(0).len(),
            buffer_bytes,
            heap_bytes,
            rest_bytes: heap_bytes.map(|heap| heap.saturating_sub(theirs)),
            disk_bytes,
            oracle_bytes,
            resident_bytes: io::memory::resident_bytes(),
        };
        self.counted = (tally.requests, self.deeds());
        self.world.context.count(|tally| tally.slowest = 0);
        entry
    }
}

/// What it is, what may come on top, and how much it is.
type Figure<'a> = (&'a str, u64, &'a dyn Fn(&Entry) -> u64);

/// The most of each figure at `early` looks bounds it at `late` ones.
fn check_span(early: &[Entry], late: &[Entry], when: &str) -> Result<(), Failure> {
    let most = |of: &dyn Fn(&Entry) -> u64| early.iter().map(of).max().unwrap_or(0);
    let stored = most(&|entry| entry.stored_bytes).max(1);
    let figures: [Figure; 3] = [
        ("bytes of tables", TABLES_SLACK, &Entry::tables_bytes),
        ("bytes beside disks, oracle and buffers", REST_SLACK, &|entry| {
            entry.rest_bytes.unwrap_or(0)
        }),
        ("tasks", TASKS_SLACK, &|entry| entry.tasks as u64),
    ];
    for (what, slack, of) in figures {
        let before = most(of);
        for entry in late {
            // For as much: what stores more may take more.
            let scaled = before.max(before / 1000 * (entry.stored_bytes * 1000 / stored));
            let bound = scaled + scaled / 10 + slack;
            if of(entry) > bound {
                let (found, hours) = (of(entry), entry.hours);
                let what = format!(
                    "{what}: {found} after {hours:.2} hours, {when} at most {before}, so at most \
                     {bound} may be"
                );
                return Err(Failure::new(Check::Memory, what));
            }
        }
    }
    Ok(())
}

/// Flat over the day, and from its second half on, in which the machine that runs it stays up, as
/// well: what an engine loses is gone when it is opened again.
pub fn check_flat(entries: &[Entry], stays_up: std::ops::Range<f64>) -> Result<(), Failure> {
    let quarter = entries.len() / 4;
    if quarter > 0 {
        let (early, late) = (&entries[quarter..2 * quarter], &entries[entries.len() - quarter..]);
        check_span(early, late, "in the second quarter of the day")?;
    }
    let up: Vec<Entry> =
        entries.iter().filter(|entry| stays_up.contains(&entry.hours)).cloned().collect();
    let third = up.len() / 3;
    if third > 0 {
        check_span(&up[..third], &up[up.len() - third..], "while the machine stayed up")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(hours: f64, map_bytes: u64, rest: u64) -> Entry {
        Entry {
            hours,
            requests: 1000,
            deeds: 20,
            slowest_millis: 3,
            drives: 8,
            active: 8,
            margin: 2,
            volumes: 4,
            stored_bytes: 30 << 20,
            map_bytes,
            stripe_bytes: 50_000,
            tuple_bytes: 10_000,
            patch_bytes: 5_000,
            sum_bytes: 40_000,
            journal_percent: 3,
            tasks: 12,
            events: 100,
            buffer_bytes: 1 << 20,
            heap_bytes: Some(rest + (101 << 20)),
            rest_bytes: Some(rest),
            disk_bytes: 90 << 20,
            oracle_bytes: 10 << 20,
            resident_bytes: Some(200 << 20),
        }
    }

    fn day(of: impl Fn(u64) -> (u64, u64)) -> Vec<Entry> {
        let at = |hour| {
            let (map, rest) = of(hour);
            entry(hour as f64, map, rest)
        };
        (1..=24).map(at).collect()
    }

    fn is_flat(entries: &[Entry]) -> bool {
        check_flat(entries, 12.0..21.6).is_ok()
    }

    #[test]
    fn what_goes_up_and_down_is_flat_and_what_only_grows_is_not() {
        let base = 20 << 20;
        assert!(is_flat(&day(|hour| (100_000 + hour % 5 * 2_000, base + hour % 3 * 100_000))));
        assert!(is_flat(&day(|hour| (100_000, if hour < 6 { base / 2 } else { base }))));
        assert!(!is_flat(&day(|hour| (100_000, base + hour * 400_000))), "the rest grows");
        assert!(!is_flat(&day(|hour| (100_000 + hour * 50_000, base))), "the map does");
        // What is lost between two openings only: from the noon's on.
        let leaks =
            |hour: u64| base + hour.saturating_sub(12).min(9) * 1_000_000 * u64::from(hour < 22);
        assert!(!is_flat(&day(|hour| (100_000, leaks(hour)))), "while it stayed up");
    }

    #[test]
    fn who_stores_more_may_need_more() {
        let mut entries = day(|hour| (if hour > 17 { 2 << 20 } else { 1 << 20 }, 20 << 20));
        assert!(!is_flat(&entries));
        entries.iter_mut().skip(17).for_each(|entry| entry.stored_bytes *= 2);
        assert!(is_flat(&entries));
    }
}
