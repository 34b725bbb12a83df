//! Reads a whole volume and compares every sector with what it may hold.

use std::collections::BTreeMap;
use std::ops::Range;

use super::super::model::{Version, Wrong};
use super::super::pattern::{self, SECTOR, SECTORS_PER_PAGE};
use super::clients::{self, Target, trouble};
use super::failure::{Failure, Problem};
use super::ledger::{Excuse, Ledger};
use crate::nbd_client::Client;

const CHUNK_SECTORS: u64 = 512;

#[derive(Clone, Debug, Default)]
pub struct Report {
    pub sectors: u64,
    /// Sectors that a flushed write made certain.
    pub flushed: u64,
    /// Sectors that might be old or new.
    pub open: u64,
    pub wrong: Vec<Wrong>,
    /// No read gave them, and this was the error.
    pub unreadable: Vec<(u64, u32)>,
    /// Neither old nor new, or not readable, and that may be.
    pub excused: BTreeMap<Excuse, u64>,
    /// What is there, where that is known.
    pub found: Vec<Option<Version>>,
    /// Sectors that nobody knows anything about now.
    unknown: Vec<u64>,
}

/// Reads and compares. All that was sent has been told to the model.
pub fn read(target: &Target, client: &mut Client) -> Result<Report, Failure> {
    let sectors = target.ledger().sectors;
    if sectors * SECTOR as u64 > client.size {
        let text = format!("{} has {} bytes: it was larger", target.export, client.size);
        return Err(Failure::new(Problem::Closed, text));
    }
    let mut report = Report::default();
    let step = usize::try_from(CHUNK_SECTORS).expect("small");
    for first in (0..sectors).step_by(step) {
        range(target, client, first..sectors.min(first + CHUNK_SECTORS), &mut report)?;
    }
    Ok(report)
}

/// Reads a range; if that fails, its parts down to single sectors.
fn range(
    target: &Target,
    client: &mut Client,
    sectors: Range<u64>,
    report: &mut Report,
) -> Result<(), Failure> {
    let count = sectors.end - sectors.start;
    let mut bytes = vec![0; usize::try_from(count).expect("small") * SECTOR];
    let read = client.try_read(sectors.start * SECTOR as u64, &mut bytes);
    let error = read.map_err(|error| trouble(&target.export, &error))?;
    let ledger = target.ledger();
    if error == 0 {
        for (sector, bytes) in sectors.zip(bytes.chunks(SECTOR)) {
            report.sector(&ledger, sector, bytes);
        }
        return Ok(());
    }
    if count == 1 {
        report.unreadable(&ledger, sectors.start, error);
        return Ok(());
    }
    drop(ledger);
    let part = if count > SECTORS_PER_PAGE { SECTORS_PER_PAGE } else { 1 };
    for first in sectors.clone().step_by(usize::try_from(part).expect("small")) {
        range(target, client, first..sectors.end.min(first + part), report)?;
    }
    Ok(())
}

impl Report {
    fn sector(&mut self, ledger: &Ledger, sector: u64, bytes: &[u8]) {
        self.sectors += 1;
        self.flushed += u64::from(ledger.model.is_flushed(sector));
        self.open += u64::from(ledger.model.is_open(sector));
        let found = ledger.model.check_sector(sector, pattern::read(bytes, sector));
        match (found, ledger.excused(sector)) {
            (Ok(version), _) => self.found.push(Some(version)),
            (Err(_), Some(excuse)) => self.excuse(sector, excuse),
            (Err(wrong), None) => {
                self.wrong.push(wrong);
                self.found.push(None);
            }
        }
    }

    fn unreadable(&mut self, ledger: &Ledger, sector: u64, error: u32) {
        self.sectors += 1;
        let undecided = ledger.may_fail(&(sector..sector + 1)).then_some(Excuse::Undecided);
        match ledger.excused(sector).or(undecided) {
            Some(excuse) => self.excuse(sector, excuse),
            None => {
                self.unreadable.push((sector, error));
                self.found.push(None);
            }
        }
    }

    fn excuse(&mut self, sector: u64, excuse: Excuse) {
        *self.excused.entry(excuse).or_default() += 1;
        self.unknown.push(sector);
        self.found.push(None);
    }
}

/// Makes what was found what is there, now that somebody has read it: a flush does that. Sectors
/// that nobody knows anything about are written anew.
pub fn settle(
    target: &Target,
    client: &mut Client,
    connection: usize,
    report: &Report,
) -> Result<(), Failure> {
    for run in runs(&report.unknown) {
        clients::write(target, client, connection, &run, true)?;
    }
    clients::flush(target, client, connection)?;
    let mut ledger = target.ledger();
    ledger.fold();
    ledger.settle(&report.found);
    Ok(())
}

/// Neighbours together; a run is short enough for one request.
fn runs(sectors: &[u64]) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for &sector in sectors {
        match runs.last_mut() {
            Some(run) if run.end == sector && run.end - run.start < CHUNK_SECTORS => run.end += 1,
            _ => runs.push(sector..sector + 1),
        }
    }
    runs
}
