//! Which fault befalls which operation. No effects here, no time but what is told.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::rc::Rc;

use super::fault::{Effect, Fault, FaultError, Kind, MILLION, Tear, Times, can_befall};
use super::flips::Flips;
use super::schedule::{Entry, Schedule, When};
use crate::buf::Buf;
use crate::drive::{DriveError, DriveErrorKind, Durability, Geometry, Operation};
use crate::env::Nanos;
use crate::rng::Rng;
use crate::sync::{Event, EventWait};

/// More faults than any story needs; a script gone wild is told so.
const ARMED_MAX: usize = 4096;
/// So many injections are remembered, the latest.
const LOG_MAX: usize = 1024;
/// Input/output error.
const EIO: i32 = 5;
const SECTOR: u64 = 512;

/// An operation as faults see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub operation: Operation,
    pub offset: u64,
    pub len: u64,
    pub durability: Durability,
}

impl Request {
    pub fn new(operation: Operation, offset: u64, len: u64, durability: Durability) -> Request {
        Request { operation, offset, len, durability }
    }

    pub(super) fn error(self, kind: DriveErrorKind) -> DriveError {
        DriveError { operation: self.operation, offset: self.offset, len: self.len, kind }
    }
}

/// What is done in the operation's place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Proceed,
    /// The drive is gone.
    Refuse,
    Fail(DriveErrorKind),
    /// Only the marked sectors are written.
    Tear {
        sectors: Vec<bool>,
        error: Option<DriveErrorKind>,
    },
    Lose,
    Misdirect {
        to: u64,
    },
    Lie,
}

/// What becomes of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Wait while this fault is armed, at most until then.
    pub hold: Option<(FaultId, Option<Nanos>)>,
    pub delay: Nanos,
    /// Of the time the drive takes; 100 is as it is.
    pub slow_percent: u64,
    pub action: Action,
}

/// Names an armed fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FaultId(pub u64);

/// One operation's stay in the drive.
#[derive(Clone, Copy, Debug)]
pub struct Visit {
    pub(super) request: Request,
    /// When the drive was given it.
    pub(super) began: Nanos,
    /// How often the drive had gone before.
    departures: u64,
}

/// What was done to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Injection {
    pub at: Nanos,
    pub kind: Kind,
    pub request: Request,
}

impl fmt::Display for Injection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Request { operation, offset, len, .. } = self.request;
        let kind = self.kind.name();
        write!(f, "{}: {kind}: {operation} of {len} bytes at byte {offset}", self.at)
    }
}

/// The control of one drive's faults; clones name the same. It belongs to the drive, not to
/// the machine, and outlives power cuts.
#[derive(Clone)]
pub struct Faults {
    state: Rc<RefCell<State>>,
    changed: Event,
}

struct State {
    rng: Rng,
    armed: BTreeMap<FaultId, Armed>,
    last_id: u64,
    /// What is to be armed at a time, then what after so many operations; the next one last.
    at_time: Vec<(Nanos, Fault)>,
    after_operations: Vec<(u64, Fault)>,
    operations: u64,
    departures: u64,
    flips: Flips,
    counts: BTreeMap<Kind, u64>,
    log: VecDeque<Injection>,
}

struct Armed {
    fault: Fault,
    since: Nanos,
    /// Operations it could have befallen.
    matched: u64,
    /// Its operation has come, and the effect lasts.
    struck: bool,
    end: Option<Nanos>,
}

impl Armed {
    fn new(fault: Fault, since: Nanos) -> Armed {
        let end = match fault.times {
            Times::For(span) => Some(since + span),
            _ => None,
        };
        Armed { fault, since, matched: 0, struck: false, end }
    }

    /// Lasting effects of it are there.
    fn is_on(&self) -> bool {
        self.struck || !matches!(self.fault.times, Times::Nth(_))
    }

    fn matches(&self, request: Request) -> bool {
        let Fault { effect, operation, range, .. } = &self.fault;
        let Request { offset, len, .. } = request;
        let hit = |range: &std::ops::Range<u64>| offset < range.end && range.start < offset + len;
        let lie_matters = *effect != Effect::Lie
            || request.operation == Operation::Flush
            || request.durability == Durability::Durable;
        operation.is_none_or(|operation| operation == request.operation)
            && can_befall(effect, request.operation)
            && lie_matters
            && range.as_ref().is_none_or(hit)
    }
}

impl Faults {
    /// None at first. The seed decides chances, delays and tears.
    pub fn new(seed: u64) -> Faults {
        let state = State {
            rng: Rng::new(seed),
            armed: BTreeMap::new(),
            last_id: 0,
            at_time: Vec::new(),
            after_operations: Vec::new(),
            operations: 0,
            departures: 0,
            flips: Flips::default(),
            counts: BTreeMap::new(),
            log: VecDeque::new(),
        };
        Faults { state: Rc::new(RefCell::new(state)), changed: Event::new() }
    }

    /// From now on.
    pub fn arm(&self, now: Nanos, fault: Fault) -> Result<FaultId, FaultError> {
        fault.check()?;
        let mut state = self.state.borrow_mut();
        state.turn(now);
        if state.armed.len() == ARMED_MAX {
            return Err(FaultError::TooMany);
        }
        let id = state.arm(now, fault);
        drop(state);
        self.changed.notify_all();
        Ok(id)
    }

    /// Arms what a schedule says, its times counted from `start` and its operations from here.
    pub fn follow(&self, start: Nanos, schedule: &Schedule) -> Result<(), FaultError> {
        let state = &mut *self.state.borrow_mut();
        for Entry { when, fault } in &schedule.entries {
            fault.check()?;
            match *when {
                When::At(at) => state.at_time.push((start + at, fault.clone())),
                When::After(count) => {
                    state.after_operations.push((state.operations + count, fault.clone()));
                }
            }
        }
        state.at_time.sort_by_key(|&(at, _)| std::cmp::Reverse(at));
        state.after_operations.sort_by_key(|&(count, _)| std::cmp::Reverse(count));
        Ok(())
    }

    /// Ends a fault; false if it had ended. Whoever it holds goes on.
    pub fn release(&self, fault: FaultId) -> bool {
        let ended = self.state.borrow_mut().armed.remove(&fault).is_some();
        self.changed.notify_all();
        ended
    }

    /// Ends all faults, also those still to come. Flipped bits stay flipped.
    pub fn release_all(&self) {
        let mut state = self.state.borrow_mut();
        state.armed.clear();
        state.at_time.clear();
        state.after_operations.clear();
        drop(state);
        self.changed.notify_all();
    }

    /// What becomes of an operation that comes now.
    pub fn decide(&self, now: Nanos, geometry: Geometry, request: Request) -> (Visit, Verdict) {
        let state = &mut *self.state.borrow_mut();
        state.operations += 1;
        state.turn(now);
        let verdict = state.decide(now, geometry, request);
        (Visit { request, began: now, departures: state.departures }, verdict)
    }

    /// How often a fault of this kind was injected: operations, or bits flipped.
    pub fn count(&self, kind: Kind) -> u64 {
        self.state.borrow().counts.get(&kind).copied().unwrap_or(0)
    }

    /// The latest injections, in order.
    pub fn log(&self) -> Vec<Injection> {
        self.state.borrow().log.iter().copied().collect()
    }

    /// What is armed now.
    pub fn armed(&self, now: Nanos) -> Vec<(FaultId, Fault)> {
        let state = &mut *self.state.borrow_mut();
        state.turn(now);
        state.armed.iter().map(|(&id, armed)| (id, armed.fault.clone())).collect()
    }

    pub fn is_gone(&self, now: Nanos) -> bool {
        let state = &mut *self.state.borrow_mut();
        state.turn(now);
        state.is_gone()
    }

    /// The bytes that read wrong at rest.
    pub fn flips(&self) -> Flips {
        self.state.borrow().flips.clone()
    }

    pub(super) fn changed(&self) -> EventWait {
        self.changed.wait()
    }

    /// Also a drive that goes lets go.
    pub(super) fn still_holds(&self, fault: FaultId) -> bool {
        let state = self.state.borrow();
        state.armed.contains_key(&fault) && !state.is_gone()
    }

    /// The fault that keeps an operation in flight from being answered now, and its end.
    pub(super) fn holds(&self, now: Nanos, visit: &Visit) -> Option<(FaultId, Option<Nanos>)> {
        let state = &mut *self.state.borrow_mut();
        state.turn(now);
        let holds = |armed: &Armed| {
            armed.fault.effect == Effect::Hang(None)
                && !matches!(armed.fault.times, Times::Nth(_))
                && armed.fault.per_million == MILLION
                && armed.matches(visit.request)
        };
        let found = state.armed.iter().find(|(_, armed)| holds(armed));
        let (&id, armed) = found.filter(|_| !state.is_gone())?;
        Some((id, armed.end))
    }

    /// True if the drive has gone since the operation came.
    pub(super) fn is_lost(&self, now: Nanos, visit: &Visit) -> bool {
        let state = &mut *self.state.borrow_mut();
        state.turn(now);
        let lost = state.is_gone() || state.departures != visit.departures;
        if lost {
            state.note(now, Kind::Gone, visit.request);
        }
        lost
    }

    pub(super) fn overwritten(&self, offset: u64, len: u64) {
        self.state.borrow_mut().flips.overwritten(offset..offset + len);
    }

    pub(super) fn as_read(&self, offset: u64, data: Buf) -> Buf {
        self.state.borrow().flips.over(offset, data)
    }
}

impl State {
    /// Arms what is due, forgets what is over.
    fn turn(&mut self, now: Nanos) {
        while let Some((at, fault)) = self.at_time.pop_if(|(at, _)| *at <= now) {
            self.arm(at, fault);
        }
        let operations = self.operations;
        while let Some((_, fault)) = self.after_operations.pop_if(|(at, _)| *at <= operations) {
            self.arm(now, fault);
        }
        self.armed.retain(|_, armed| armed.end.is_none_or(|end| now < end));
    }

    fn arm(&mut self, since: Nanos, fault: Fault) -> FaultId {
        self.last_id += 1;
        let id = FaultId(self.last_id);
        if let (Effect::Flip { bits }, Some(range)) = (&fault.effect, &fault.range) {
            self.flips.add(range.clone(), *bits, &mut self.rng);
            *self.counts.entry(Kind::Flip).or_default() += u64::from(*bits);
            return id;
        }
        let armed = Armed::new(fault, since);
        if armed.fault.effect == Effect::Gone && armed.is_on() {
            self.departures += 1;
        }
        self.armed.insert(id, armed);
        id
    }

    fn is_gone(&self) -> bool {
        self.armed.values().any(|armed| armed.fault.effect == Effect::Gone && armed.is_on())
    }

    fn note(&mut self, at: Nanos, kind: Kind, request: Request) {
        *self.counts.entry(kind).or_default() += 1;
        if self.log.len() == LOG_MAX {
            self.log.pop_front();
        }
        self.log.push_back(Injection { at, kind, request });
    }

    fn decide(&mut self, now: Nanos, geometry: Geometry, request: Request) -> Verdict {
        let mut verdict =
            Verdict { hold: None, delay: Nanos::ZERO, slow_percent: 100, action: Action::Proceed };
        if self.is_gone() {
            self.note(now, Kind::Gone, request);
            verdict.action = Action::Refuse;
            return verdict;
        }
        let ids: Vec<FaultId> = self.armed.keys().copied().collect();
        for id in ids {
            let Some(struck) = self.strike(id, now, request) else { continue };
            if self.apply(&mut verdict, id, &struck, (now, geometry, request)) {
                self.note(now, struck.fault.effect.kind(), request);
            }
        }
        verdict
    }

    /// The fault, if it befalls this operation.
    fn strike(&mut self, id: FaultId, now: Nanos, request: Request) -> Option<Struck> {
        let armed = self.armed.get_mut(&id).expect("armed");
        if armed.struck || !armed.matches(request) {
            return None;
        }
        armed.matched += 1;
        if let Times::Nth(n) = armed.fault.times
            && armed.matched < n
        {
            return None;
        }
        let chance = u64::from(armed.fault.per_million);
        let strikes = self.rng.chance(chance, u64::from(MILLION));
        let struck = Struck { fault: armed.fault.clone(), since: armed.since, end: armed.end };
        match (&armed.fault.effect, armed.fault.times) {
            (_, Times::For(_) | Times::Forever) => {}
            (Effect::Gone, _) if strikes => armed.struck = true,
            (Effect::Hang(span), _) if strikes => {
                armed.struck = true;
                armed.end = span.map(|span| now + span);
            }
            _ => drop(self.armed.remove(&id)),
        }
        strikes.then_some(struck)
    }

    /// False if it changes nothing: the first fault to decide what is done does.
    fn apply(
        &mut self,
        verdict: &mut Verdict,
        id: FaultId,
        struck: &Struck,
        (now, geometry, request): (Nanos, Geometry, Request),
    ) -> bool {
        match &struck.fault.effect {
            Effect::Delay(delay) => {
                verdict.delay = verdict.delay + delay.draw(&mut self.rng);
                return true;
            }
            Effect::Slow(ramp) => {
                let percent = ramp.percent(now.saturating_sub(struck.since));
                verdict.slow_percent = verdict.slow_percent.max(percent);
                return percent > 100;
            }
            Effect::Hang(span) => {
                let own = span.map(|span| now + span);
                verdict.hold = Some((id, own.into_iter().chain(struck.end).min()));
                return true;
            }
            Effect::Gone => {
                self.departures += 1;
                verdict.action = Action::Refuse;
                return true;
            }
            _ if verdict.action != Action::Proceed => return false,
            _ => {}
        }
        verdict.action = self.instead(&struck.fault.effect, geometry, request);
        verdict.action != Action::Proceed
    }

    fn instead(&mut self, effect: &Effect, geometry: Geometry, request: Request) -> Action {
        match effect {
            Effect::Error(kind) if request.operation == Operation::Write => {
                Action::Tear { sectors: self.partly_done(request.len), error: Some(*kind) }
            }
            Effect::Error(kind) => Action::Fail(*kind),
            Effect::Torn { tear, lying } => {
                let error = (!lying).then_some(DriveErrorKind::Os(EIO));
                Action::Tear { sectors: self.tear(*tear, request.len), error }
            }
            Effect::Lost => Action::Lose,
            Effect::Lie => Action::Lie,
            Effect::Misdirected { to } => self.elsewhere(*to, geometry, request),
            _ => unreachable!("not an effect that replaces the operation"),
        }
    }

    /// What a failed write leaves: all, nothing, or a part.
    fn partly_done(&mut self, len: u64) -> Vec<bool> {
        let sectors = (len / SECTOR) as usize;
        match self.rng.below(3) {
            0 => vec![false; sectors],
            1 => vec![true; sectors],
            _ => self.tear(Tear::Sectors, len),
        }
    }

    fn tear(&mut self, tear: Tear, len: u64) -> Vec<bool> {
        let sectors = (len / SECTOR) as usize;
        let mut chosen: Vec<bool> = match tear {
            Tear::Prefix => {
                let kept = self.rng.index(sectors.max(1));
                (0..sectors).map(|at| at < kept).collect()
            }
            Tear::Sectors => (0..sectors).map(|_| self.rng.chance(1, 2)).collect(),
        };
        if !chosen.is_empty() && !chosen.contains(&false) {
            chosen[self.rng.index(sectors)] = false;
        }
        chosen
    }

    fn elsewhere(&mut self, to: Option<u64>, geometry: Geometry, request: Request) -> Action {
        let align = u64::from(geometry.align);
        let places = (geometry.size - request.len) / align + 1;
        let to = match to {
            Some(to) => (to / align).min(places - 1) * align,
            None if places == 1 => return Action::Proceed,
            None => {
                let drawn = self.rng.below(places - 1) * align;
                if drawn < request.offset { drawn } else { drawn + align }
            }
        };
        Action::Misdirect { to }
    }
}

/// A fault that befalls an operation.
struct Struck {
    fault: Fault,
    since: Nanos,
    end: Option<Nanos>,
}
