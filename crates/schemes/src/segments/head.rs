//! Heads: the segments that are appended to. Of each, one record is on its way at a time; blocks
//! that come meanwhile gather in the next.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use io::crc::crc32c;
use io::sync::Event;
use io::{Buf, BufMut, Env, Origins};

use super::bytes::{Entry, Head, Header, Held, PAGE, Summary};
use super::medium::Medium;
use super::table::Place;
use super::{BLOCK, Inner};
use crate::store::StoreError;

/// Segments without a summary, beside the heads: opening after a crash reads all their records.
const CLOSING_MAX: usize = 3;
/// A record that met the loss of a drive is written again so often at most: each time another
/// drive is gone.
const TRIES_MAX: usize = 4;

/// A block on its way to the log.
#[derive(Clone)]
pub struct Waiting {
    pub block: u32,
    pub data: Buf,
    /// By the cleaner: its version, and where it lay.
    pub moved: Option<(u64, Place)>,
    pub durable: bool,
}

/// For who waits until blocks are written.
#[derive(Default)]
pub struct Ticket {
    left: Cell<usize>,
    /// What was written is durable with the next flush only.
    to_flush: Cell<bool>,
    failed: Cell<bool>,
    done: Event,
    /// Whose blocks they are.
    origins: Origins,
}

impl Ticket {
    pub const TO_FLUSH: bool = true;

    /// Whether it takes a flush to make it durable.
    pub async fn done(&self) -> Result<bool, StoreError> {
        while self.left.get() > 0 {
            self.done.wait().await;
        }
        match self.failed.get() {
            false => Ok(self.to_flush.get()),
            true => Err(StoreError::Shape {
                what: "the log could not be written".into(),
                hint: "replace drives that are lost",
            }),
        }
    }

    fn count_down(&self) {
        self.left.set(self.left.get() - 1);
        if self.left.get() == 0 {
            self.done.notify_all();
        }
    }
}

/// A segment that is being appended to.
pub struct OpenSegment {
    head: Head,
    summary: Summary,
    /// Pages before are durable.
    durable: u32,
}

impl OpenSegment {
    /// The next free page.
    fn end(&self) -> u32 {
        self.summary.pages.len() as u32
    }
}

/// A segment that is full and has no summary yet.
pub struct Full {
    pub head: Head,
    pub summary: Summary,
    pub durable: bool,
}

#[derive(Default)]
pub struct LogHead {
    segment: Option<OpenSegment>,
    /// Bounded by the requests under way.
    queue: VecDeque<(Waiting, Rc<Ticket>)>,
    /// A task writes what is queued.
    running: bool,
}

impl LogHead {
    /// What of the present segment is written: its nonce, and how many pages.
    pub fn written(&self) -> Option<(u64, u32)> {
        self.segment.as_ref().map(|own| (own.head.nonce, own.end()))
    }

    /// Its segment, if it is this one, and the pages of it that are written.
    pub fn appends_to(&self, number: u32) -> Option<(Head, u32)> {
        let own = self.segment.as_ref().filter(|own| own.head.number == number);
        own.map(|own| (own.head, own.end()))
    }

    /// Nothing is on its way to its segment, which is not whole.
    pub fn is_degraded(&self, is_whole: impl Fn(u32) -> bool) -> bool {
        let segment = self.segment.as_ref();
        !self.running && segment.is_some_and(|own| !is_whole(own.head.number))
    }

    pub fn note_durable(&mut self, written: Option<(u64, u32)>) {
        let own = self.segment.as_mut().zip(written);
        if let Some((own, (_, end))) = own.filter(|(own, (nonce, _))| own.head.nonce == *nonce) {
            own.durable = own.durable.max(end);
        }
    }
}

impl<E: Env, M: Medium> Inner<E, M> {
    /// Number of the head that the cleaner appends to.
    pub fn cleaner(&self) -> usize {
        self.heads.len() - 1
    }

    /// Blocks, each once, join what a head writes next.
    pub fn join(self: &Rc<Self>, head: usize, blocks: Vec<Waiting>) -> Rc<Ticket> {
        let ticket = Rc::new(Ticket { origins: self.env.origins(), ..Ticket::default() });
        ticket.left.set(blocks.len());
        let begin = {
            let mut own = self.heads[head].borrow_mut();
            own.queue.extend(blocks.into_iter().map(|block| (block, ticket.clone())));
            !std::mem::replace(&mut own.running, true)
        };
        if begin {
            let inner = self.clone();
            self.env.spawn_shared(async move { inner.run(head).await });
        }
        ticket
    }

    /// Writes records until nothing waits.
    async fn run(self: Rc<Self>, head: usize) {
        loop {
            let waiting = origins(self.heads[head].borrow().queue.iter());
            let ready = self.env.on_behalf(waiting, self.make_ready(head)).await;
            let batch: Vec<(Waiting, Rc<Ticket>)> = {
                let mut own = self.heads[head].borrow_mut();
                let room = own.segment.as_ref().map_or(0, |own| self.room_in(own));
                // Without a segment everybody who waits is told.
                let most = if ready.is_ok() { room } else { usize::MAX };
                let count = own.queue.len().min(most);
                own.queue.drain(..count).collect()
            };
            let written = match ready {
                Ok(()) => {
                    let record = self.write_record(head, &batch);
                    self.env.on_behalf(origins(&batch), record).await
                }
                Err(error) => Err(error),
            };
            if written.is_err() {
                self.fill(head);
            }
            for (waiting, ticket) in &batch {
                match &written {
                    Ok(durable) => {
                        ticket.to_flush.set(ticket.to_flush.get() || (waiting.durable && !durable))
                    }
                    Err(_) => ticket.failed.set(true),
                }
                ticket.count_down();
            }
            let mut own = self.heads[head].borrow_mut();
            if own.queue.is_empty() {
                own.running = false;
                return;
            }
        }
    }

    /// Blocks of the next record of this segment.
    fn room_in(&self, own: &OpenSegment) -> usize {
        let free = self.shape.end().saturating_sub(own.end() + 1) as usize;
        free.min(self.medium.record_blocks())
    }

    /// The head has a segment with room for a record, as redundant as can be.
    async fn make_ready(self: &Rc<Self>, head: usize) -> Result<(), StoreError> {
        let fits = {
            let own = self.heads[head].borrow();
            let fits =
                |own: &OpenSegment| self.room_in(own) > 0 && self.medium.is_whole(own.head.number);
            own.segment.as_ref().is_some_and(fits)
        };
        if fits {
            return Ok(());
        }
        self.fill(head);
        if self.closing.borrow().len() > CLOSING_MAX {
            self.close_all().await?;
        }
        let (number, mate) = self.acquire(head == self.cleaner()).await?;
        let own = Head { nonce: self.env.random(), born: self.next_sequence(), number, mate };
        self.table.borrow_mut().begin(number);
        let segment = OpenSegment { head: own, summary: Summary::begun(), durable: 1 };
        self.heads[head].borrow_mut().segment = Some(segment);
        // What was in this place before is void before any of it is overwritten: else a crash could
        // leave its head and summary over something else.
        let page = Buf::from_slice(&own.encode(&self.pool));
        self.medium.write(number, 0, page, true).await
    }

    pub fn next_sequence(&self) -> u64 {
        let next = self.sequence.get() + 1;
        self.sequence.set(next);
        next
    }

    /// Nothing more is appended to the head's segment.
    pub fn fill(&self, head: usize) {
        let Some(own) = self.heads[head].borrow_mut().segment.take() else { return };
        let durable = own.durable == own.end();
        self.table.borrow_mut().fill(own.head.number);
        self.closing.borrow_mut().push_back(Full { head: own.head, summary: own.summary, durable });
    }

    pub fn fill_all(&self) {
        (0..self.heads.len()).for_each(|head| self.fill(head));
    }

    /// Those whose segments could have more copies, and to which nothing is being written.
    pub fn fill_degraded(&self) {
        for (head, own) in self.heads.iter().enumerate() {
            if own.borrow().is_degraded(|number| self.medium.is_whole(number)) {
                self.fill(head);
            }
        }
    }

    /// Appends a record, in another segment if a drive is lost meanwhile, and maps its blocks.
    /// Whether it is durable, if all of it was to be.
    async fn write_record(
        self: &Rc<Self>,
        head: usize,
        batch: &[(Waiting, Rc<Ticket>)],
    ) -> Result<bool, StoreError> {
        let durable = batch.iter().any(|(waiting, _)| waiting.durable);
        for _ in 0..TRIES_MAX {
            let header = self.header(head, batch);
            let record = self.encode(&header, batch);
            let at = u64::from(header.page) * PAGE;
            self.medium.write(header.number, at, record, durable).await?;
            if !self.medium.is_whole(header.number) {
                self.bump(|count| count.again += 1);
                self.make_ready(head).await?;
                // What was begun with this batch has room for it.
                let own = self.heads[head].borrow();
                let room = own.segment.as_ref().map_or(0, |own| self.room_in(own));
                assert!(room >= batch.len(), "a new segment has room for any record");
                continue;
            }
            return Ok(self.note_record(head, &header, batch, durable));
        }
        Err(StoreError::Damaged("drive after drive, while a record was written".into()))
    }

    /// Of the next record of a head's segment.
    fn header(&self, head: usize, batch: &[(Waiting, Rc<Ticket>)]) -> Header {
        let sequence = self.next_sequence();
        let entry = |(waiting, _): &(Waiting, Rc<Ticket>)| Entry {
            block: waiting.block,
            crc: crc32c(&waiting.data),
            version: waiting.moved.map_or(sequence, |(version, _)| version),
        };
        let entries = batch.iter().map(entry).collect();
        let own = self.heads[head].borrow();
        let own = own.segment.as_ref().expect("it was made ready");
        let Head { nonce, number, .. } = own.head;
        Header { nonce, sequence, number, page: own.end(), entries }
    }

    fn encode(&self, header: &Header, batch: &[(Waiting, Rc<Ticket>)]) -> Buf {
        let mut record = BufMut::with_len((1 + batch.len()) * BLOCK);
        record[..BLOCK].copy_from_slice(&header.encode(&self.pool));
        for (at, (waiting, _)) in (1..).zip(batch) {
            record[at * BLOCK..][..BLOCK].copy_from_slice(&waiting.data);
        }
        record.freeze()
    }

    fn note_record(
        &self,
        head: usize,
        header: &Header,
        batch: &[(Waiting, Rc<Ticket>)],
        through: bool,
    ) -> bool {
        let Header { number, page, ref entries, .. } = *header;
        let durable = {
            let mut own = self.heads[head].borrow_mut();
            let own = own.segment.as_mut().expect("it is being written");
            own.summary.add(header);
            let durable = through && own.durable == page;
            if durable {
                own.durable = own.end();
            }
            durable
        };
        let mut table = self.table.borrow_mut();
        let mut moved = 0;
        for (((waiting, _), entry), page) in batch.iter().zip(entries).zip(page + 1..) {
            let to = Place { segment: number, page };
            match waiting.moved {
                Some((_, from)) => moved += u64::from(table.relocate(waiting.block, from, to)),
                None => table.put(waiting.block, to, Held::of(entry).sum),
            }
        }
        drop(table);
        let appended = batch.len() as u64;
        self.bump(|count| {
            count.records += 1;
            count.blocks += appended;
            count.moved += moved;
        });
        durable
    }
}

/// Whose blocks these are.
fn origins<'a>(queued: impl IntoIterator<Item = &'a (Waiting, Rc<Ticket>)>) -> Origins {
    Origins::of_all(queued.into_iter().map(|(_, ticket)| &ticket.origins))
}

/// Fills `RefCell`s of heads.
pub fn heads(count: usize) -> Vec<RefCell<LogHead>> {
    (0..count).map(|_| RefCell::default()).collect()
}
