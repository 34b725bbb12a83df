//! Reads every region back and compares it with the model.

use std::fmt;
use std::path::Path;

use super::load::connect;
use super::model::{Model, Version};
use super::pattern::{self, Found, SECTOR, SECTORS_PER_PAGE};

const CHUNK_SECTORS: u64 = 2048;
/// Enough to see a pattern, few enough to read.
const COMPLAINTS_SHOWN: usize = 10;

#[derive(Clone, Debug, Default)]
pub struct Report {
    pub sectors: u64,
    /// Sectors that a flushed write made certain.
    pub flushed_sectors: u64,
    /// Sectors that may be old or new.
    pub open_sectors: u64,
    pub complaints: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { sectors, flushed_sectors, open_sectors, complaints } = self;
        write!(
            f,
            "checked {sectors} sectors: {flushed_sectors} hold a flushed write or a later one, \
             {open_sectors} may be old or new, {} pages are wrong",
            complaints.len()
        )
    }
}

impl Report {
    pub fn result(&self) -> Result<(), String> {
        if self.complaints.is_empty() {
            return Ok(());
        }
        let shown = self.complaints.iter().take(COMPLAINTS_SHOWN);
        let lines: Vec<String> = shown.map(|complaint| format!("  {complaint}")).collect();
        Err(format!("{self}\n{}", lines.join("\n")))
    }

    fn add(&mut self, other: Report) {
        self.sectors += other.sectors;
        self.flushed_sectors += other.flushed_sectors;
        self.open_sectors += other.open_sectors;
        self.complaints.extend(other.complaints);
    }
}

/// Checks all regions, one connection each, and settles the model on what it found.
pub fn run(socket: &Path, export: &str, model: &mut Model) -> Result<Report, String> {
    let shared = &*model;
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let check = |connection| scope.spawn(move || region(socket, export, shared, connection));
        let threads: Vec<_> = (0..shared.connections()).map(check).collect();
        threads.into_iter().map(|thread| thread.join().expect("a checker panicked")).collect()
    });
    let mut report = Report::default();
    for (connection, outcome) in outcomes.into_iter().enumerate() {
        let (part, versions) = outcome?;
        if part.complaints.is_empty() {
            model.settle(connection, &versions);
        }
        report.add(part);
    }
    Ok(report)
}

fn region(
    socket: &Path,
    export: &str,
    model: &Model,
    connection: usize,
) -> Result<(Report, Vec<Version>), String> {
    let mut client = connect(socket, export)?;
    let sectors = model.region(connection);
    if sectors.end * SECTOR as u64 > client.size {
        return Err(format!("the export has {} bytes: too small for the regions", client.size));
    }
    let mut report = Report::default();
    let mut versions = Vec::new();
    let mut first = sectors.start;
    while first < sectors.end {
        let count = CHUNK_SECTORS.min(sectors.end - first);
        let mut bytes = vec![0; usize::try_from(count).expect("small") * SECTOR];
        let read = client.read(first * SECTOR as u64, &mut bytes);
        read.map_err(|error| format!("verify: {error}"))?;
        chunk(model, first, &bytes, &mut report, &mut versions);
        first += count;
    }
    let _ = client.disconnect();
    Ok((report, versions))
}

fn chunk(
    model: &Model,
    first: u64,
    bytes: &[u8],
    report: &mut Report,
    versions: &mut Vec<Version>,
) {
    let step = usize::try_from(SECTORS_PER_PAGE).expect("small");
    let pages = bytes.chunks(SECTOR * step);
    for (page, bytes) in (first..).step_by(step).zip(pages) {
        let sectors = (page..).zip(bytes.chunks(SECTOR));
        let found: Vec<Found> = sectors.map(|(at, bytes)| pattern::read(bytes, at)).collect();
        match model.check(page, &found) {
            Ok(page) => versions.extend(page),
            Err(complaint) => report.complaints.push(complaint.to_string()),
        }
        for sector in page..page + SECTORS_PER_PAGE {
            report.sectors += 1;
            report.flushed_sectors += u64::from(model.is_flushed(sector));
            report.open_sectors += u64::from(model.is_open(sector));
        }
    }
}
