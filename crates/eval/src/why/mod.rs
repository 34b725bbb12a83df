//! Why was this request slow? Of every request what it asked of drives and waited for above them,
//! and of the slowest the causes along their critical paths: as shares, and as a file.
//!
//! ```text
//!  load ── Book::begin ──> array ──> drives (watched) ── operations ─┐
//!   │                        └────── waits that it tells ────────────┤
//!   └───── Book::end ────────────────────────────────────────────────┴─> path ─> Told ─> report
//! ```

mod path;
mod report;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use io::model::Phases;
use io::virt::VirtEnv;
use io::{Env, Nanos, Origin, Origins, Wait};

pub use path::{Cause, Delays};
pub use report::{Report, Share, shares};

use crate::array::load::Request;
use path::{Segment, What, critical};

/// So many of the slowest reads, and writes, are kept: one in a hundred of 20 million, 40 MB.
const SLOWEST_KEPT: usize = 200_000;

thread_local! {
    /// Whether the worlds that this thread makes keep books, and from which quantile on they
    /// report. Experiments are made of worlds in many places, which are not told apart here.
    static ASKED: Cell<Option<f64>> = const { Cell::new(None) };
    static REPORTS: RefCell<Vec<Report>> = const { RefCell::new(Vec::new()) };
}

/// Of the command line.
pub fn quantile(text: &str) -> Result<f64, String> {
    let quantile: Option<f64> = text.parse().ok();
    let valid = quantile.filter(|quantile| (0.0..1.0).contains(quantile));
    valid.ok_or_else(|| "a quantile from 0 to below 1, such as 0.99".to_owned())
}

/// Runs `work`; with a quantile every world made in it reports on the requests above that.
pub fn explained<T>(quantile: Option<f64>, work: impl FnOnce() -> T) -> (T, Vec<Report>) {
    ASKED.set(quantile);
    let done = work();
    ASKED.set(None);
    (done, REPORTS.take())
}

/// Says what came of it, and writes it into a folder if there is one: of several worlds each under
/// a number.
pub fn tell(reports: &[Report], folder: Option<&Path>, name: &str) -> Result<(), String> {
    for (at, report) in reports.iter().enumerate() {
        print!("{}", report.text());
        let number = if reports.len() > 1 { format!("-{}", at + 1) } else { String::new() };
        if let Some(folder) = folder {
            report.write(folder, &format!("{name}{number}"))?;
        }
    }
    Ok(())
}

/// A request that was answered, and why it took so long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    pub begin: Nanos,
    pub nanos: u64,
    pub offset: u64,
    pub len: u64,
    pub path: Delays,
}

/// Of requests under way what they did; of the slowest the paths. Clones name the same one.
#[derive(Clone)]
pub struct Book {
    inner: Rc<RefCell<Inner>>,
}

#[derive(Default)]
struct Inner {
    last: Origin,
    /// Bounded by the requests under way.
    open: BTreeMap<Origin, Vec<Segment>>,
    reads: Slowest,
    writes: Slowest,
}

/// The slowest requests of one kind.
#[derive(Default)]
struct Slowest {
    requests: u64,
    /// Twice [`SLOWEST_KEPT`] at most, in no order.
    told: Vec<Told>,
}

impl Book {
    /// The book of a world, if it is to be explained.
    pub fn if_asked(env: &VirtEnv) -> Option<Book> {
        ASKED.get().map(|_| Book::of(env))
    }

    /// Listens to the waits of a world.
    pub fn of(env: &VirtEnv) -> Book {
        let book = Book { inner: Rc::default() };
        let (inner, clock) = (book.inner.clone(), env.clone());
        env.listen(Rc::new(move |origin, wait, since| {
            // What it asked of drives is told better by the operations.
            if wait != Wait::Drives {
                let what = What::Wait(wait);
                let segment = Segment { begin: since, end: Some(clock.now()), what };
                inner.borrow_mut().push(origin, segment);
            }
        }));
        book
    }

    /// A request comes; what is done for it is done under this number.
    pub fn begin(&self) -> Origin {
        let mut inner = self.inner.borrow_mut();
        inner.last += 1;
        let origin = inner.last;
        inner.open.insert(origin, Vec::new());
        origin
    }

    /// It is answered, and kept if it counts.
    pub fn end(&self, origin: Origin, begin: Nanos, end: Nanos, counted: Option<Request>) {
        let mut inner = self.inner.borrow_mut();
        let segments = inner.open.remove(&origin).unwrap_or_default();
        let Some(Request { read, offset, len, .. }) = counted else { return };
        let (nanos, path) = (end.saturating_sub(begin).0, critical(&segments, begin, end));
        let slowest = if read { &mut inner.reads } else { &mut inner.writes };
        slowest.keep(Told { begin, nanos, offset, len, path });
    }

    /// A drive is asked for something, for these requests: where it is in the book of each that is
    /// under way.
    pub fn ask(&self, origins: &Origins, begin: Nanos) -> Vec<(Origin, usize)> {
        let what = What::Operation(Phases::default());
        let mut inner = self.inner.borrow_mut();
        let mut push = |origin| inner.push(origin, Segment { begin, end: None, what });
        origins.iter().filter_map(|origin| push(origin).map(|at| (origin, at))).collect()
    }

    /// It has answered.
    pub fn answered(&self, asked: &[(Origin, usize)], end: Nanos, phases: Phases) {
        let mut inner = self.inner.borrow_mut();
        for (origin, at) in asked {
            if let Some(segments) = inner.open.get_mut(origin) {
                (segments[*at].end, segments[*at].what) = (Some(end), What::Operation(phases));
            }
        }
    }

    /// The world is over: reports what [`explained`] asked for.
    pub fn close(&self) {
        let requests = |inner: &Inner| inner.reads.requests + inner.writes.requests;
        if let Some(quantile) = ASKED.get().filter(|_| requests(&self.inner.borrow()) > 0) {
            REPORTS.with_borrow_mut(|reports| reports.push(self.report(quantile)));
        }
    }

    /// The reads above a quantile of all reads that counted, and the writes likewise.
    pub fn report(&self, quantile: f64) -> Report {
        let Inner { reads, writes, .. } = &mut *self.inner.borrow_mut();
        Report { quantile, reads: reads.above(quantile), writes: writes.above(quantile) }
    }
}

impl Inner {
    fn push(&mut self, origin: Origin, segment: Segment) -> Option<usize> {
        let segments = self.open.get_mut(&origin)?;
        segments.push(segment);
        Some(segments.len() - 1)
    }
}

impl Slowest {
    fn keep(&mut self, told: Told) {
        self.requests += 1;
        self.told.push(told);
        if self.told.len() == 2 * SLOWEST_KEPT {
            self.drop_faster();
        }
    }

    /// The slowest first.
    fn above(&mut self, quantile: f64) -> Vec<Told> {
        self.drop_faster();
        let slower = (self.requests as f64 * (1.0 - quantile)).ceil() as usize;
        self.told[..slower.min(self.told.len())].to_vec()
    }

    /// Leaves the slowest, the slowest first.
    fn drop_faster(&mut self) {
        self.told.sort_by_key(|told| (std::cmp::Reverse(told.nanos), told.begin));
        self.told.truncate(SLOWEST_KEPT);
    }
}
