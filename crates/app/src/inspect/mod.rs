//! What is on a drive, decoded for people: labels, journal, checkpoint. Only reads, claims
//! nothing, and believes nothing: any bytes may be on a drive.

mod claim;
pub mod human;
mod journal;
mod labels;
mod slots;

use format::{Superblock, Uuid, newest};
use io::{Buf, Drive};
use serde::Serialize;

use crate::error::Outcome;
use crate::explain;

/// Bytes read at once.
const WINDOW: usize = 1 << 20;

/// What to look at besides the labels.
#[derive(Clone, Copy, Debug)]
pub struct Depth {
    pub journal: bool,
    pub checkpoint: bool,
}

/// Everything found; the document of `inspect --json`.
#[derive(Serialize)]
pub struct Report {
    pub drive: String,
    pub size: u64,
    pub align: u32,
    pub content: Content,
    /// One sentence.
    pub summary: String,
    pub labels: Vec<labels::Copy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<labels::Label>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub claim: Option<claim::Claim>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal: Option<journal::Journal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<slots::Checkpoint>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// A drive of a pool.
    Steadyraid,
    /// A drive of a pool whose labels can't be used.
    Unreadable,
    /// Somebody else's.
    Foreign,
    /// Nothing known.
    Empty,
}

pub(crate) async fn look<D: Drive>(drive: &D, depth: Depth) -> Outcome<Report> {
    let copies = labels::read(drive).await?;
    let (content, summary) = judge(drive).await?;
    let superblock = newest(copies.iter().map(|copy| copy.decoded.clone())).ok();
    let mut report = Report {
        drive: drive.name(),
        size: drive.geometry().size,
        align: drive.geometry().align,
        content,
        summary,
        labels: copies,
        label: superblock.as_ref().map(labels::Label::from),
        claim: None,
        journal: None,
        checkpoint: None,
    };
    let Some(label) = superblock else { return Ok(report) };
    report.claim = claim::read(drive).await;
    if depth.journal {
        report.journal = Some(journal::read(drive, &label).await?);
    }
    if depth.checkpoint {
        report.checkpoint = Some(slots::read(drive, &label).await?);
    }
    Ok(report)
}

async fn judge<D: Drive>(drive: &D) -> Outcome<(Content, String)> {
    let label =
        engine::read_label(drive).await.map_err(|error| explain::drive(drive.name(), &error))?;
    Ok(match label {
        engine::Label::Ours(label) => (Content::Steadyraid, describe(&label)),
        engine::Label::Foreign(foreign) => (Content::Foreign, foreign.to_string()),
        engine::Label::Empty => (Content::Empty, "nothing known is on this drive".to_owned()),
        engine::Label::Unreadable(what) | engine::Label::TooNew(what) => {
            (Content::Unreadable, what)
        }
    })
}

fn describe(label: &Superblock) -> String {
    if label.is_spare() {
        return format!("a spare of pool {}", label.pool_name);
    }
    if label.is_replacement() {
        let name = &label.pool_name;
        return format!("to replace drive {} of pool {name}, which is copied onto it", label.index);
    }
    format!("drive {} of {} of pool {}", label.index, label.members.len(), label.pool_name)
}

/// A stretch of the drive, read in windows that move forward.
struct Windows<'a, D> {
    drive: &'a D,
    end: u64,
    start: u64,
    bytes: Buf,
}

impl<'a, D: Drive> Windows<'a, D> {
    fn new(drive: &'a D, extent: format::Extent) -> Windows<'a, D> {
        let end = extent.offset.saturating_add(extent.len).min(drive.geometry().size);
        Windows { drive, end, start: extent.offset, bytes: Buf::zeroed(0) }
    }

    /// `len` bytes from `at` on, fewer at the end of the stretch.
    async fn at(&mut self, at: u64, len: usize) -> Outcome<Buf> {
        let wanted = self.end.saturating_sub(at).min(len as u64);
        let held = self.start + self.bytes.len() as u64;
        if at < self.start || at + wanted > held {
            let len = self.end.saturating_sub(at).min(WINDOW.max(len) as u64);
            let align = u64::from(self.drive.geometry().align);
            let read = self.drive.read(at, (len - len % align) as usize).await;
            self.bytes = read.map_err(|error| explain::drive(self.drive.name(), &error))?;
            self.start = at;
        }
        let from = (at - self.start) as usize;
        Ok(self.bytes.slice(from..self.bytes.len().min(from + len)))
    }
}

/// Whether bytes are of another pool: told apart from damage, since rings are not wiped.
fn is_other_pool(error: &format::FormatError, pool: &Uuid) -> bool {
    matches!(error, format::FormatError::WrongPool { found, .. } if found != pool)
}
