//! What an audit found: how much it looked at, and a sentence for everything that is wrong.

use std::fmt;

use crate::limits::FINDINGS_MAX;

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Copies of a replicated block agree.
    Copies,
    /// Parity agrees with the data of its stripe.
    Parity,
    /// Map entries point into stripes in use, of the volume's own class, inside the volume.
    Entries,
    /// No sector of a drive belongs to two places of volumes.
    Sharing,
    /// Patch lists are in order and within their block.
    Patches,
    /// Live sectors of every stripe and class are as many as the map says.
    Live,
    /// Zones and stripes are each in exactly one state and add up.
    Space,
    /// Tuples are p+1 stripes whose blocks match as the layout allows.
    Tuples,
    /// Blocks elsewhere than the layout has them have a place, and a drive, of their own.
    Substitutes,
    /// Tables are as large as they say, and within their bounds.
    Memory,
    /// What the last checkpoint wrote is on the drives, and what changed since is known.
    Checkpoint,
    /// Live pages have sums, and read as these say.
    Sums,
    /// Every label of every drive in use is the current one.
    Labels,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub rule: Rule,
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.rule, self.text)
    }
}

/// How much was looked at, and what could not be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// Mapped blocks of volumes.
    pub blocks: u64,
    /// Copies of replicated blocks that were compared with the first readable one.
    pub copies_compared: u64,
    pub copies_skipped: u64,
    /// RAID stripes whose parity was computed anew.
    pub stripes_checked: u64,
    pub stripes_skipped: u64,
    /// Copies of checkpoint slots and labels.
    pub metadata_checked: u64,
    pub metadata_skipped: u64,
}

impl AuditReport {
    /// True if nothing had to be left out.
    pub fn is_complete(&self) -> bool {
        self.copies_skipped == 0 && self.stripes_skipped == 0 && self.metadata_skipped == 0
    }
}

#[derive(Clone, Debug, thiserror::Error)]
pub struct AuditError {
    /// The first of them, at most [`FINDINGS_MAX`].
    pub findings: Vec<Finding>,
    /// How many there were besides.
    pub more: u64,
    pub report: AuditReport,
}

impl fmt::Display for AuditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.findings.len() as u64 + self.more;
        write!(f, "the audit found {count} {}", if count == 1 { "fault" } else { "faults" })?;
        self.findings.iter().try_for_each(|finding| write!(f, "\n  {finding}"))?;
        if self.more > 0 { write!(f, "\n  and {} more", self.more) } else { Ok(()) }
    }
}

/// Collects findings; one broken table can make very many.
#[derive(Default)]
pub struct Findings {
    list: Vec<Finding>,
    more: u64,
}

impl Findings {
    pub fn add(&mut self, rule: Rule, text: impl FnOnce() -> String) {
        if self.list.len() < FINDINGS_MAX {
            self.list.push(Finding { rule, text: text() });
        } else {
            self.more += 1;
        }
    }

    pub fn check(&mut self, holds: bool, rule: Rule, text: impl FnOnce() -> String) {
        if !holds {
            self.add(rule, text);
        }
    }

    /// Two figures for the same thing.
    pub fn same(&mut self, rule: Rule, what: &str, kept: u64, counted: u64) {
        self.check(kept == counted, rule, || {
            format!("{what}: {kept} are noted, {counted} counted")
        });
    }

    pub fn conclude(self, report: AuditReport) -> Result<AuditReport, AuditError> {
        if self.list.is_empty() {
            return Ok(report);
        }
        Err(AuditError { findings: self.list, more: self.more, report })
    }
}
