//! What all parts of a world share: the oracle, the first failure, what is on its way.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use engine::RequestError;
use io::virt::VirtEnv;
use io::{Env, Nanos};

use crate::oracle::Oracle;

/// What happened in a world, for the report and against worlds in which nothing happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub requests: u64,
    pub no_space: u64,
    pub deaths: u64,
    pub deaths_in_recovery: u64,
    pub clean_closes: u64,
    pub drives_lost: u64,
    pub records_dropped: u64,
    pub copies_healed: u64,
    pub conversions: u64,
    pub compacted: u64,
    pub merged: u64,
    pub checkpoints: u64,
    pub slowest: u64,
}

/// Bytes of one request that are worth the patience for one.
const PATIENCE_BYTES: u64 = 2 << 20;

pub struct Context {
    pub env: VirtEnv,
    pub oracle: RefCell<Oracle>,
    failure: RefCell<Option<String>>,
    running: RefCell<BTreeMap<u64, (Nanos, String)>>,
    next: Cell<u64>,
    pub tally: Cell<Tally>,
    /// No request may take longer.
    pub patience: Cell<Nanos>,
    /// Whether the pool may be full.
    pub may_be_full: bool,
}

impl Context {
    pub fn new(env: VirtEnv, may_be_full: bool) -> Rc<Context> {
        Rc::new(Context {
            env,
            oracle: RefCell::default(),
            failure: RefCell::default(),
            running: RefCell::default(),
            next: Cell::new(0),
            tally: Cell::default(),
            patience: Cell::new(Nanos::from_secs(1)),
            may_be_full,
        })
    }

    pub fn count(&self, change: impl FnOnce(&mut Tally)) {
        let mut tally = self.tally.get();
        change(&mut tally);
        self.tally.set(tally);
    }

    /// The first failure is the one that counts.
    pub fn fail(&self, what: String) {
        self.failure.borrow_mut().get_or_insert(what);
    }

    pub fn is_failed(&self) -> bool {
        self.failure.borrow().is_some()
    }

    pub fn take_failure(&self) -> Option<String> {
        self.failure.borrow_mut().take()
    }

    /// Runs one request under the clock. True: done; false: refused for lack of space.
    pub async fn request<T>(
        &self,
        what: String,
        bytes: u64,
        request: impl Future<Output = Result<T, RequestError>>,
    ) -> Option<T> {
        let id = self.next.get();
        self.next.set(id + 1);
        let begin = self.env.now();
        self.running.borrow_mut().insert(id, (begin, what));
        let result = request.await;
        let (_, what) = self.running.borrow_mut().remove(&id).expect("listed above");
        let took = self.env.now().saturating_sub(begin);
        self.count(|tally| {
            tally.requests += 1;
            tally.slowest = tally.slowest.max(took.0);
        });
        // A long request is many short ones.
        if took.0 > self.patience.get().0 * (1 + bytes / PATIENCE_BYTES) {
            self.fail(format!("stall: {what} took {} ms", took.0 / 1_000_000));
        }
        match result {
            Ok(value) => return Some(value),
            Err(RequestError::NoSpace) if self.may_be_full => {
                self.count(|tally| tally.no_space += 1);
            }
            Err(error) => self.fail(format!("{what}: {error}")),
        }
        None
    }

    /// A request that has been on its way for too long, if there is one.
    pub fn stalled(&self) -> Option<String> {
        let now = self.env.now();
        let running = self.running.borrow();
        let late =
            running.values().filter(|(begin, _)| now.saturating_sub(*begin).0 > 30 * 1_000_000_000);
        let list: Vec<&str> = late.map(|(_, what)| what.as_str()).collect();
        (!list.is_empty()).then(|| format!("hang: {}", list.join("; ")))
    }

    pub fn forget_running(&self) {
        self.running.borrow_mut().clear();
    }
}
