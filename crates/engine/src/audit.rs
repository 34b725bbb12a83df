//! The audit: does what the tables say agree with itself and with what lies on the drives?
//!
//! ```text
//!  tables at one moment ──> map ──> space ──> tuples ──> memory       (no drive is read)
//!          │                 └ who uses which sectors
//!          └──> checkpoint, labels ──> copies of replicated blocks ──> parity of RAID stripes
//! ```
//!
//! An oracle, plain and slow: it copies every table, reads everything live, and computes each
//! figure anew by other means than the engine keeps it. What can't be read (a drive is gone, a
//! read fails) is counted and skipped.
//!
//! Only what a reader may come to see has to agree. Copies of pages that hold nothing live may
//! differ (a crash in the middle of a write that recovery dropped), and so may blocks of stripes
//! that are free or in limbo. A RAID stripe agrees as a whole: parity is of dead blocks too.
//!
//! While it runs, requests and background work may go on: they write only to places that were
//! free. A read guard keeps what is being looked at from being freed, no longer than needed: while
//! it is held, no space can be gained.

mod bytes;
pub mod fingerprint;
mod map;
mod memory;
mod metadata;
mod parity;
mod report;
mod space;
mod substitutes;
mod sums;
mod tables;
#[cfg(test)]
mod tests;
mod tuples;

use io::Env;

use crate::pool::Pool;
use report::Findings;
use tables::Tables;

pub use fingerprint::{Fingerprint, fingerprint, replayed};
pub use report::{AuditError, AuditReport, Finding, Rule};

impl<E: Env> Pool<E> {
    /// Checks everything that must hold between requests. Best called when none is on its way:
    /// then nothing is excused.
    pub async fn audit(&self) -> Result<AuditReport, AuditError> {
        let _inside = self.enter().await;
        let shard = &*self.shard();
        let mut findings = Findings::default();
        let mut report = AuditReport::default();
        // No checkpoint is half-way through the metadata area, and no label is being replaced
        // because a drive failed meanwhile (sim seed 12749).
        let checkpoint = shard.checkpoint_turn.lock().await;
        let failure = shard.failure_turn.lock().await;
        let guard = shard.reads.enter();
        let tables = Tables::of(self);
        let uses = check_tables(&tables, &mut report, &mut findings);
        bytes::check_copies(shard, &tables, &uses, &mut report, &mut findings).await;
        drop(guard);
        metadata::check(shard, &tables, &mut report, &mut findings).await;
        drop((checkpoint, failure));
        bytes::check_parity(shard, &tables, &mut report, &mut findings).await;
        findings.conclude(report)
    }
}

/// What can be checked without the drives.
fn check_tables(tables: &Tables, report: &mut AuditReport, findings: &mut Findings) -> map::Uses {
    report.blocks = tables.map.blocks.len() as u64;
    let uses = map::check(tables, findings);
    space::check(tables, &uses, findings);
    tuples::check(tables, findings);
    substitutes::check(tables, findings);
    memory::check(tables, findings);
    sums::check(tables, &uses, findings);
    uses
}
