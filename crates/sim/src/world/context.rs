//! What all parts of a world share: the oracle, the story, the first failure, what is on its way.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use engine::RequestError;
use io::virt::VirtEnv;
use io::{Env, Nanos};

use crate::content::SECTOR;
use crate::failure::{Check, Failure, Spot};
use crate::oracle::{Oracle, WriteId};
use crate::story::{Extent, Story};
use crate::world::patience::Patience;

/// What happened in a world, for the report and against worlds in which nothing happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub requests: u64,
    pub no_space: u64,
    pub refused: u64,
    pub deaths: u64,
    pub deaths_in_recovery: u64,
    pub clean_closes: u64,
    pub drives_lost: u64,
    pub drives_replaced: u64,
    pub drives_joined: u64,
    pub drives_exchanged: u64,
    pub troubles: u64,
    pub records_dropped: u64,
    pub copies_healed: u64,
    pub conversions: u64,
    pub compacted: u64,
    pub merged: u64,
    pub checkpoints: u64,
    pub reconstructed: u64,
    pub audits: u64,
    /// Pages and pieces of metadata that scrubs put right.
    pub mended: u64,
    pub replays: u64,
    pub slowest: u64,
}

/// What a client asks of a volume.
#[derive(Clone)]
pub struct Asked {
    pub verb: &'static str,
    pub volume: Rc<str>,
    pub write: Option<WriteId>,
    pub offset: u64,
    pub len: u64,
    pub fua: bool,
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Asked { verb, volume, write, offset, len, fua } = self;
        write!(f, "{verb} {volume}")?;
        if let Some(write) = write {
            write!(f, " w{write}")?;
        }
        if *len > 0 {
            write!(f, " {offset}+{len}")?;
        }
        if *fua { f.write_str(" FUA") } else { Ok(()) }
    }
}

impl Asked {
    fn extent(&self) -> Option<Extent> {
        let sector = SECTOR as u64;
        // A flush concerns every page.
        (self.len > 0).then(|| Extent {
            volume: self.volume.to_string(),
            first: self.offset / sector,
            count: self.len / sector,
        })
    }
}

pub struct Context {
    pub env: VirtEnv,
    pub oracle: RefCell<Oracle>,
    pub story: RefCell<Story>,
    failure: RefCell<Option<Failure>>,
    running: RefCell<BTreeMap<u64, (Nanos, Asked)>>,
    next: Cell<u64>,
    pub tally: Cell<Tally>,
    pub patience: Cell<Patience>,
    /// Whether the pool may be full.
    pub may_be_full: bool,
    /// Whether it may refuse everything, since it has lost too many drives.
    pub is_refused: Cell<bool>,
}

impl Context {
    pub fn new(env: VirtEnv, may_be_full: bool) -> Rc<Context> {
        Rc::new(Context {
            env,
            oracle: RefCell::default(),
            story: RefCell::default(),
            failure: RefCell::default(),
            running: RefCell::default(),
            next: Cell::new(0),
            tally: Cell::default(),
            patience: Cell::default(),
            may_be_full,
            is_refused: Cell::default(),
        })
    }

    pub fn count(&self, change: impl FnOnce(&mut Tally)) {
        let mut tally = self.tally.get();
        change(&mut tally);
        self.tally.set(tally);
    }

    /// One more line of the story, if somebody listens.
    pub fn tell(&self, what: impl FnOnce() -> String) {
        if self.story.borrow().is_recording() {
            self.story.borrow_mut().tell(self.env.now(), what(), None);
        }
    }

    fn tell_request(&self, id: u64, what: &str, asked: &Asked) {
        if self.story.borrow().is_recording() {
            let text = format!("  r{id} {asked}{what}");
            self.story.borrow_mut().tell(self.env.now(), text, asked.extent());
        }
    }

    /// The first failure is the one that counts.
    pub fn fail(&self, failure: Failure) {
        self.failure.borrow_mut().get_or_insert(failure);
    }

    pub fn is_failed(&self) -> bool {
        self.failure.borrow().is_some()
    }

    pub fn take_failure(&self) -> Option<Failure> {
        self.failure.borrow_mut().take()
    }

    /// Where a failed request was, for the story.
    fn failed(check: Check, asked: &Asked, what: String) -> Failure {
        let spot = Spot { volume: asked.volume.to_string(), sector: asked.offset / SECTOR as u64 };
        Failure { check, what, spot: (asked.len > 0).then_some(spot) }
    }

    /// Runs one request under the clock. `None`: refused, for lack of space or of drives, or by
    /// mistake.
    pub async fn request<T>(
        &self,
        asked: Asked,
        request: impl Future<Output = Result<T, RequestError>>,
    ) -> Option<T> {
        let id = self.next.get();
        self.next.set(id + 1);
        let begin = self.env.now();
        self.tell_request(id, "", &asked);
        self.running.borrow_mut().insert(id, (begin, asked));
        let result = request.await;
        let (_, asked) = self.running.borrow_mut().remove(&id).expect("listed above");
        let took = self.env.now().saturating_sub(begin);
        self.count(|tally| {
            tally.requests += 1;
            tally.slowest = tally.slowest.max(took.0);
        });
        if took > self.patience.get().for_request(&asked) {
            let what = format!("stall: {asked} took {} ms", took.0 / 1_000_000);
            self.fail(Context::failed(Check::Stall, &asked, what));
        }
        match result {
            Ok(value) => {
                self.tell_request(id, ": done", &asked);
                return Some(value);
            }
            Err(RequestError::NoSpace) if self.may_be_full => {
                self.tell_request(id, ": no space", &asked);
                self.count(|tally| tally.no_space += 1);
            }
            Err(error @ RequestError::Io(_)) if self.is_refused.get() => {
                self.tell_request(id, &format!(": {error}"), &asked);
                self.count(|tally| tally.refused += 1);
            }
            Err(error) => {
                self.tell_request(id, &format!(": {error}"), &asked);
                let what = format!("{asked}: {error}");
                self.fail(Context::failed(Check::Request, &asked, what));
            }
        }
        None
    }

    /// Requests that have been on their way for too long, if there are any.
    pub fn stalled(&self) -> Option<String> {
        let (now, lost) = (self.env.now(), self.patience.get().lost);
        let running = self.running.borrow();
        // The oldest come first: one that is not late has none behind it that is.
        let late = running.values().take_while(|(begin, _)| now.saturating_sub(*begin) > lost);
        let list: Vec<String> = late.map(|(_, asked)| asked.to_string()).collect();
        (!list.is_empty()).then(|| format!("hang: {}", list.join("; ")))
    }

    /// Requests that are on their way.
    pub fn in_flight(&self) -> usize {
        self.running.borrow().len()
    }

    pub fn forget_running(&self) {
        self.running.borrow_mut().clear();
    }
}
