//! Opening: the map is made anew of what the segments say, and what a crash left half done in them
//! is made whole.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::rc::Rc;

use format::Uuid;
use io::sync::{Event, Turn};
use io::{Buf, Env, join_all};

use super::bytes::{Head, Header, PAGE, Summary};
use super::head::heads;
use super::medium::{Found, Medium};
use super::size::Shape;
use super::table::{Place, Table};
use super::{BLOCK, Inner, SegmentLog};
use crate::locks::RangeLocks;
use crate::store::StoreError;

/// Summaries read at once.
const SUMMARIES: usize = 16;

/// What opening knows so far.
struct Finding {
    table: Table,
    /// Of each block, while opening only.
    versions: Vec<u64>,
    /// Of each segment that was noted: when it ended.
    ended: Vec<u64>,
    newest: u64,
}

impl Finding {
    fn note(&mut self, segment: u32, summary: &Summary, is_whole: impl Fn(u32) -> bool) {
        let whole = is_whole(segment);
        self.ended[segment as usize] = summary.ended;
        self.newest = self.newest.max(summary.ended);
        for (page, held) in summary.held() {
            let (block, version) = (held.block, held.version);
            self.newest = self.newest.max(version);
            let Some(known) = self.versions.get_mut(block as usize) else { continue };
            // Of the same version the segment that ended later has what was moved, the other was
            // emptied: it may be another's by now, and nobody has scrubbed it since. Where nobody
            // knows, better one that has both places.
            let better = || {
                let Some(Place { segment: other, .. }) = self.table.find(block) else {
                    return false;
                };
                match summary.ended.cmp(&self.ended[other as usize]) {
                    Ordering::Greater => true,
                    Ordering::Less => false,
                    Ordering::Equal => whole && !is_whole(other),
                }
            };
            if *known < version || *known == version && better() {
                *known = version;
                self.table.put(block, Place { segment, page }, held.sum);
            }
        }
    }
}

impl<E: Env, M: Medium> SegmentLog<E, M> {
    /// Opens the log that is on the medium; an empty one where there is nothing of this pool.
    pub async fn open(
        env: &E,
        medium: M,
        pool: Uuid,
        shape: Shape,
        blocks: u32,
    ) -> Result<SegmentLog<E, M>, StoreError> {
        let found = medium.scan(&pool).await?;
        let mut finding = Finding {
            table: Table::new(blocks, shape, medium.numbers()),
            versions: vec![0; blocks as usize],
            ended: vec![0; medium.numbers() as usize],
            newest: 0,
        };
        let looker = Looker { medium: &medium, pool, shape };
        let mut open = Vec::new();
        for some in found.chunks(SUMMARIES) {
            let reads = some.iter().map(|Found { head }| looker.summary(head));
            for (Found { head }, summary) in some.iter().zip(join_all(reads).await) {
                finding.newest = finding.newest.max(head.born);
                match summary? {
                    Some(summary) => {
                        finding.table.adopt(head.number);
                        finding.note(head.number, &summary, |number| medium.is_whole(number));
                    }
                    None => open.push(*head),
                }
            }
        }
        let mut without = Vec::new();
        for head in open {
            let summary = looker.mend(&head).await?;
            finding.table.adopt(head.number);
            finding.note(head.number, &summary, |number| medium.is_whole(number));
            without.push((head, summary));
        }
        // What is believed is durable from here on: it may have been read from a cache.
        medium.flush().await?;
        for (head, summary) in &without {
            // Of those that hold nothing the place is free; what they say is older than the rest.
            if finding.table.live(head.number) > 0 {
                looker.write_summary(head, summary).await?;
            }
        }
        let mut table = finding.table;
        for Found { head } in &found {
            if !table.keep(head.number) {
                medium.give_back(head.number);
            }
        }
        let inner = Inner {
            env: env.clone(),
            heads: heads(medium.heads() + 1),
            medium,
            pool,
            shape,
            table: RefCell::new(table),
            next_head: Cell::new(0),
            sequence: Cell::new(finding.newest),
            locks: RangeLocks::default(),
            closing: RefCell::default(),
            close_turn: Turn::new(),
            clean_turn: Turn::new(),
            stuck: RefCell::default(),
            freed: Event::new(),
            count: Cell::default(),
        };
        Ok(SegmentLog { inner: Rc::new(inner) })
    }
}

/// Looks at segments before there is a log.
struct Looker<'a, M> {
    medium: &'a M,
    pool: Uuid,
    shape: Shape,
}

impl<M: Medium> Looker<'_, M> {
    /// `None`: not all copies have it.
    async fn summary(&self, head: &Head) -> Result<Option<Summary>, StoreError> {
        let (pages, end) = (self.shape.pages, self.shape.end());
        let (at, len) = (u64::from(end) * PAGE, u64::from(pages - end) * PAGE);
        let copies = self.medium.read_copies(head.number, at, len).await?;
        let decode = |copy: &Buf| Summary::decode(&self.pool, head, self.shape, copy);
        let mut all: Vec<Option<Summary>> = copies.iter().map(decode).collect();
        Ok(if all.iter().all(Option::is_some) { all.swap_remove(0) } else { None })
    }

    /// The records of a segment up to the first that no copy has whole. Afterwards all copies have
    /// them.
    async fn mend(&self, head: &Head) -> Result<Summary, StoreError> {
        let len = u64::from(self.shape.end()) * PAGE;
        let copies = self.medium.read_copies(head.number, 0, len).await?;
        let mut summary = Summary::default();
        let mut page = 1;
        while page < self.shape.end() {
            let at = page as usize * BLOCK;
            let whole = |copy: &Buf| {
                let header = Header::whole(&self.pool, head, page, copy.get(at..)?)?;
                Some((header, copy.clone()))
            };
            let Some((header, copy)) = copies.iter().find_map(whole) else { break };
            let end = at + (1 + header.entries.len()) * BLOCK;
            // A copy without its head is mended like the rest.
            let from = if page == 1 { 0 } else { at };
            let bytes = match page {
                1 => {
                    let first = head.encode(&self.pool);
                    Buf::from_slice(&[&first[..], &copy[at..end]].concat())
                }
                _ => copy.slice(at..end),
            };
            if copies.iter().any(|other| other[from..end] != *bytes) {
                self.medium.write(head.number, from as u64, bytes, false).await?;
            }
            summary.add(&header);
            page = (end / BLOCK) as u32;
        }
        Ok(summary)
    }

    async fn write_summary(&self, head: &Head, summary: &Summary) -> Result<(), StoreError> {
        let bytes = Buf::from_slice(&summary.encode(&self.pool, head, self.shape));
        self.medium.write(head.number, u64::from(self.shape.end()) * PAGE, bytes, true).await
    }
}
