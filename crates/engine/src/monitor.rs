//! What each drive's answers tell: stragglers and spikes (FusionRAID §4.3), what is usual, how
//! old the oldest operation is. The array reports every operation here; reads, writes and the
//! journal ask here whom to go round and for how long to wait.

mod outstanding;
mod watch;

use std::cell::{Cell, RefCell};

use io::{Nanos, Operation};
use layout::DriveIndex;
use members::slow::{self, Peers};
use policy::hedge::{self, Budget, Cost, Spent};
use policy::learn;
use policy::load::{self, LoadGuard};
use policy::slow::Seen;
use policy::stall::Stalls;

use crate::api::{
    DriveHealth, DriveOverride, HedgeBudget, OperationLatencies, SpikeHandling, SpikeStatus,
};
use crate::limits::{HANG_AFTER, LOAD_LOOK, MUTE_DEADLINES, MUTE_MIN};
use crate::planted::{self, Bug};
use watch::Ticket;
pub use watch::Watch;

/// Tells the time at next to no cost ([`io::Env::recent`]).
pub type Clock = Box<dyn Fn() -> Nanos>;

/// What is sent a second way: reads and writes have deadlines and budgets of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hedged {
    Reads,
    Writes,
}

pub struct Monitor {
    handling: SpikeHandling,
    clock: Clock,
    watches: Vec<RefCell<Watch>>,
    /// How long (ns) a read or a write may take before it is late; of reads, what most and what
    /// half of them keep within, once that is known.
    read_deadline: Cell<Option<(u64, u64)>>,
    write_deadline: Cell<u64>,
    read_budget: Cell<Budget>,
    write_budget: Cell<Budget>,
    guard: Cell<LoadGuard>,
    /// Losses that the volume with the least redundancy bears.
    bears: Cell<usize>,
    /// When the drives are looked at again for the guard.
    look_at: Cell<u64>,
    pub stalls: RefCell<Stalls>,
    peers: RefCell<Peers>,
    /// Operations have begun since the last tick; with none there is nothing to judge.
    stirred: Cell<bool>,
    pub stirring: io::sync::Event,
}

impl Monitor {
    /// `rotational`: for each drive, whether it is a disk.
    pub fn new(handling: SpikeHandling, clock: Clock, rotational: &[bool]) -> Monitor {
        let now = clock();
        let watch = |&rotational| RefCell::new(Watch::new(&handling, rotational, now.0));
        Monitor {
            watches: rotational.iter().map(watch).collect(),
            handling,
            clock,
            read_deadline: Cell::new(None),
            write_deadline: Cell::new(hedge::DEADLINE_INITIAL),
            read_budget: Cell::default(),
            write_budget: Cell::default(),
            guard: Cell::default(),
            bears: Cell::new(1),
            look_at: Cell::new(0),
            stalls: RefCell::default(),
            peers: RefCell::new(Peers::new(now.0)),
            stirred: Cell::new(false),
            stirring: io::sync::Event::new(),
        }
    }

    /// What was learned of these drives, and said, while another had them. Nothing is under way.
    pub fn inherit(&self, before: &Monitor) {
        self.read_deadline.set(before.read_deadline.get());
        self.write_deadline.set(before.write_deadline.get());
        for (own, before) in self.watches.iter().zip(&before.watches) {
            if own.borrow().oldest().is_none() && before.borrow().oldest().is_none() {
                own.swap(before);
            }
        }
    }

    pub fn handling(&self) -> &SpikeHandling {
        &self.handling
    }

    pub fn now(&self) -> u64 {
        (self.clock)().0
    }

    pub fn watch(&self, drive: DriveIndex) -> &RefCell<Watch> {
        &self.watches[usize::from(drive.0)]
    }

    // ---- what the array reports

    pub fn begin(&self, drive: DriveIndex, operation: Operation) -> Option<Ticket> {
        if !self.handling.detect {
            return None;
        }
        if !self.stirred.replace(true) {
            self.stirring.notify_all();
        }
        Some(self.watch(drive).borrow_mut().begin(self.now(), operation))
    }

    pub fn end(&self, drive: DriveIndex, ticket: Option<Ticket>, operation: Operation) {
        if let Some(ticket) = ticket {
            self.watch(drive).borrow_mut().end(self.now(), ticket, operation);
        }
    }

    // ---- whom to go round

    /// Requests go round this drive if they can.
    pub fn is_shunned(&self, drive: DriveIndex) -> bool {
        if !self.handling.redirect {
            return false;
        }
        let mut watch = self.watch(drive).borrow_mut();
        match watch.decided {
            DriveOverride::SitOut => true,
            DriveOverride::Trusted => false,
            DriveOverride::Automatic if watch.health != DriveHealth::Good => true,
            DriveOverride::Automatic => {
                let unresponsive = watch.is_unresponsive(self.now());
                drop(watch);
                unresponsive && (!self.is_loaded() || self.hangs(drive))
            }
        }
    }

    /// So many drives are unresponsive that it is no spike, but load: then nothing goes round them,
    /// nor a second way, but for what does not answer at all.
    pub fn is_loaded(&self) -> bool {
        self.guard().is_loaded()
    }

    fn guard(&self) -> LoadGuard {
        let (now, mut guard) = (self.now(), self.guard.get());
        if now < self.look_at.get() {
            return guard;
        }
        self.look_at.set(now + LOAD_LOOK.0);
        let slow = |watch: &&RefCell<Watch>| watch.borrow_mut().is_unresponsive(now);
        let unresponsive = self.watches.iter().filter(slow).count();
        if !planted::is(Bug::LoadForEver) || !guard.is_loaded() {
            guard.note(now, unresponsive, load::most(self.watches.len(), self.bears.get()));
        }
        self.guard.set(guard);
        guard
    }

    /// How many drives every volume can do without.
    pub fn set_bears(&self, losses: usize) {
        self.bears.set(losses);
    }

    /// How often it was load, this time included, and for how many nanoseconds in all.
    pub fn loads(&self) -> (u64, u64) {
        let guard = self.guard();
        (guard.count(), guard.nanos(self.now()))
    }

    /// Order of preference among drives: shunned ones last, then by stragglers.
    pub fn rank(&self, drive: DriveIndex) -> (bool, u32) {
        (self.is_shunned(drive), self.watch(drive).borrow().stragglers())
    }

    /// It has answered nothing for so long that no load explains it.
    pub fn hangs(&self, drive: DriveIndex) -> bool {
        self.watch(drive).borrow().silent_for(self.now()) >= HANG_AFTER.0
    }

    /// The drive answers nothing at all, for longer than garbage collection takes: unlike in an
    /// overload, where some drive is always behind but all go on answering.
    pub fn is_mute(&self, drive: DriveIndex) -> bool {
        let usual = self.read_deadline.get().map_or(hedge::DEADLINE_INITIAL, |(most, _)| most);
        let mute = MUTE_MIN.0.max(MUTE_DEADLINES * usual);
        self.watch(drive).borrow().silent_for(self.now()) >= mute
    }

    // ---- how long to wait

    /// After how long (ns) a read of this drive is late; `None`: never. None is before half of all
    /// are done, whatever is usual for drives of its class.
    pub fn read_deadline(&self, drive: DriveIndex) -> Option<u64> {
        let class = self.watch(drive).borrow().learning.hedge_most;
        let learned = |(most, half): (u64, u64)| most.min(class.max(half));
        let learned = self.read_deadline.get().map_or(hedge::DEADLINE_INITIAL, learned);
        self.handling.hedge.then_some(learned)
    }

    pub fn write_deadline(&self) -> Option<u64> {
        self.handling.hedge.then(|| self.write_deadline.get())
    }

    fn budget(&self, hedged: Hedged) -> &Cell<Budget> {
        match hedged {
            Hedged::Reads => &self.read_budget,
            Hedged::Writes => &self.write_budget,
        }
    }

    /// A request was sent at this cost; now and then one may be sent twice. What reads' second ways
    /// may cost is a share of all requests: writes keep drives busy as well.
    pub fn earn(&self, hedged: Hedged, cost: Cost) {
        self.change(Hedged::Reads, |budget| budget.earn(cost));
        if hedged == Hedged::Writes {
            self.change(Hedged::Writes, |budget| budget.earn(cost));
        }
    }

    /// May something that has waited for `age` (ns) be done at this cost?
    pub fn spend(&self, hedged: Hedged, age: u64, cost: Cost) -> Option<Spent> {
        let loaded = self.is_loaded();
        self.change(hedged, |budget| match loaded {
            true => budget.is_beyond(age).then(Spent::default),
            false => budget.spend(age, cost),
        })
    }

    /// May a request that is not late yet, or has just become so, go another way at this cost?
    pub fn spend_early(&self, hedged: Hedged, cost: Cost) -> Option<Spent> {
        if self.is_loaded() {
            return None;
        }
        self.change(hedged, |budget| budget.spend_early(cost))
    }

    /// A request that was sent a second way at this cost is over.
    pub fn settle(&self, hedged: Hedged, spent: Spent, second_was_first: bool) {
        self.change(hedged, |budget| match second_was_first && !planted::is(Bug::KeepBudget) {
            true => budget.give_back(spent),
            // What was won and kept back is not lost either: it is gone.
            false if second_was_first => {}
            false => budget.lose(spent),
        });
    }

    fn change<T>(&self, hedged: Hedged, with: impl FnOnce(&mut Budget) -> T) -> T {
        let cell = self.budget(hedged);
        let mut budget = cell.get();
        let answer = with(&mut budget);
        cell.set(budget);
        answer
    }

    pub fn hedge_budget(&self, hedged: Hedged) -> HedgeBudget {
        let budget = self.budget(hedged).get();
        HedgeBudget { left: budget.left(), lost: budget.lost() }
    }

    // ---- what is learned, every tick

    /// True if anything was asked of any drive since the last call, or is still outstanding.
    pub fn is_stirred(&self) -> bool {
        let busy = |watch: &RefCell<Watch>| watch.borrow().oldest().is_some();
        self.stirred.replace(false) || self.watches.iter().any(busy)
    }

    /// Takes what is usual from all drives' recent answers.
    pub fn learn(&self) {
        let now = self.now();
        let quantiles: Vec<[Option<u64>; 4]> =
            self.watches.iter().map(|watch| watch.borrow().quantiles()).collect();
        let of =
            |kind: usize| -> Vec<u64> { quantiles.iter().filter_map(|all| all[kind]).collect() };
        let (mut reads, mut writes) = (of(0), of(1));
        let half = learn::median(&mut of(3));
        self.read_deadline.set(half.map(|half| (hedge::deadline(&mut reads), half)));
        self.write_deadline.set(hedge::deadline(&mut writes));
        let beyond = hedge::beyond(&mut reads).max(hedge::beyond(&mut writes));
        for hedged in [Hedged::Reads, Hedged::Writes] {
            self.change(hedged, |budget| *budget = budget.with_beyond(beyond));
        }
        for (at, watch) in self.watches.iter().enumerate() {
            let peers = quantiles.iter().enumerate().filter(|&(other, _)| other != at);
            let mut peers: Vec<u64> = peers.filter_map(|(_, all)| all[2]).collect();
            let mut watch = watch.borrow_mut();
            let slow_from = learn::slow_from(watch.learning, quantiles[at][2], &mut peers);
            watch.set_slow_from(now, slow_from);
        }
    }

    /// Compares the drives that count, if a period is over: which are slow from now on, or are not
    /// any more, and whether it is to be told that too many are at once.
    pub fn compare(&self, counts: impl Fn(DriveIndex) -> bool) -> (Vec<DriveIndex>, bool) {
        let (now, mut peers) = (self.now(), self.peers.borrow_mut());
        if !peers.is_due(now) {
            return (Vec::new(), false);
        }
        let index = |at: usize| DriveIndex(at as u16);
        let seen = |(at, watch): (usize, &RefCell<Watch>)| {
            let seen = watch.borrow_mut().end_period(now);
            if counts(index(at)) { seen } else { slow::uncounted(seen) }
        };
        let all: Vec<Seen> = self.watches.iter().enumerate().map(seen).collect();
        let (findings, shared) = peers.judge(now, &all, self.bears.get());
        let changed = |&at: &usize| self.watches[at].borrow_mut().verdict.note(now, findings[at]);
        ((0..findings.len()).filter(changed).map(index).collect(), shared)
    }

    /// For how long (ns) an operation that began then has been awaited while we listened.
    pub fn heard(&self, begin: u64) -> u64 {
        let (age, stalled) = (self.now().saturating_sub(begin), self.stalls.borrow().since(begin));
        age.saturating_sub(stalled)
    }

    /// The long reads of opening say nothing of what clients' requests will take: with them, no
    /// read would be late, and no drive slow, for the first thousands of these. The more there is
    /// to load, the longer: with sums of pages it was seconds.
    pub fn forget_reads(&self) {
        self.watches.iter().for_each(|watch| watch.borrow_mut().forget_reads());
    }

    pub fn spikes(&self, drive: DriveIndex) -> SpikeStatus {
        self.watch(drive).borrow_mut().status(self.now())
    }

    pub fn latencies(&self, drive: DriveIndex) -> OperationLatencies {
        self.watch(drive).borrow().latencies()
    }
}
