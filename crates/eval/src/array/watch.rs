//! What slow requests waited for: in virtual time, the drive's operation that ended at the same
//! instant as the request.

use std::cell::RefCell;
use std::rc::Rc;

use hdrhistogram::Histogram;
use io::virt::{ModelPort, VirtEnv};
use io::{Buf, Drive, DriveError, Durability, Env, Geometry, Nanos, Operation};

use crate::why::Book;

/// Longest latency that is told apart.
const LATENCY_MAX: Nanos = Nanos::from_secs(600);

/// One operation of a drive, when it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    pub drive: usize,
    pub operation: Operation,
    pub offset: u64,
    pub begin: Nanos,
    pub end: Nanos,
    /// The drive collected garbage at its beginning or its end.
    pub collecting: bool,
}

/// The operations that ended at the present instant.
#[derive(Clone)]
pub struct Watch {
    env: VirtEnv,
    ended: Rc<RefCell<Vec<Ended>>>,
    /// Latencies of each drive, if anybody wants them.
    each: Rc<RefCell<Vec<Histogram<u64>>>>,
    /// If anybody wants to know why requests are slow.
    pub book: Option<Book>,
}

impl Watch {
    pub fn new(env: &VirtEnv) -> Watch {
        let (ended, each, book) = (Rc::default(), Rc::default(), Book::if_asked(env));
        Watch { env: env.clone(), ended, each, book }
    }

    /// From now on the latencies of so many drives are kept.
    pub fn keep_each(&self, drives: usize) {
        let none = || Histogram::new_with_max(LATENCY_MAX.0, 3).expect("valid bounds");
        *self.each.borrow_mut() = (0..drives).map(|_| none()).collect();
    }

    /// Reads and writes of each drive, in nanoseconds.
    pub fn each(&self) -> Vec<Histogram<u64>> {
        self.each.borrow().clone()
    }

    fn note(&self, ended: Ended) {
        let data = matches!(ended.operation, Operation::Read | Operation::Write);
        if let Some(own) = self.each.borrow_mut().get_mut(ended.drive).filter(|_| data) {
            own.saturating_record(ended.end.saturating_sub(ended.begin).0);
        }
        let mut list = self.ended.borrow_mut();
        if list.last().is_some_and(|last| last.end < ended.end) {
            list.clear();
        }
        list.push(ended);
    }

    /// The longest of the operations that ended now and began at `begin` or later. Several drives
    /// seldom end something in the same nanosecond.
    pub fn last(&self, begin: Nanos) -> Option<Ended> {
        let now = self.env.now();
        let list = self.ended.borrow();
        let candidates = list.iter().filter(|ended| ended.end == now && ended.begin >= begin);
        candidates.min_by_key(|ended| ended.begin).copied()
    }
}

/// A drive whose operations are noted.
#[derive(Clone)]
pub struct Watched<D: Drive> {
    watch: Watch,
    index: usize,
    drive: D,
    port: ModelPort,
}

impl<D: Drive> Watched<D> {
    pub fn new(watch: &Watch, index: usize, drive: D, port: ModelPort) -> Watched<D> {
        Watched { watch: watch.clone(), index, drive, port }
    }

    fn is_collecting(&self) -> bool {
        self.port.with_model(|_, model| model.is_collecting())
    }

    async fn timed<T>(
        &self,
        operation: Operation,
        offset: u64,
        inner: impl Future<Output = Result<T, DriveError>>,
    ) -> Result<T, DriveError> {
        let begin = self.watch.env.now();
        let collecting = self.is_collecting();
        let result = match &self.watch.book {
            None => inner.await,
            Some(book) => self.told(book, inner).await,
        };
        let end = self.watch.env.now();
        let collecting = collecting || self.is_collecting();
        let drive = self.index;
        self.watch.note(Ended { drive, operation, offset, begin, end, collecting });
        result
    }

    /// Writes into the book whose operation it was, and where its time went.
    async fn told<T>(&self, book: &Book, inner: impl Future<Output = T>) -> T {
        let env = &self.watch.env;
        let asked = book.ask(&env.origins(), env.now());
        let (result, phases) = env.metered(inner).await;
        book.answered(&asked, env.now(), phases);
        result
    }
}

impl<D: Drive> Drive for Watched<D> {
    fn geometry(&self) -> Geometry {
        self.drive.geometry()
    }

    fn name(&self) -> String {
        self.drive.name()
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Buf, DriveError> {
        self.timed(Operation::Read, offset, self.drive.read(offset, len)).await
    }

    async fn write(&self, offset: u64, data: Buf, how: Durability) -> Result<(), DriveError> {
        self.timed(Operation::Write, offset, self.drive.write(offset, data, how)).await
    }

    async fn flush(&self) -> Result<(), DriveError> {
        self.timed(Operation::Flush, 0, self.drive.flush()).await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DriveError> {
        self.timed(Operation::Discard, offset, self.drive.discard(offset, len)).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), DriveError> {
        self.timed(Operation::Discard, offset, self.drive.write_zeroes(offset, len)).await
    }

    fn takes_write_zeroes(&self) -> bool {
        self.drive.takes_write_zeroes()
    }

    fn discard_granularity(&self) -> Option<u32> {
        self.drive.discard_granularity()
    }
}
