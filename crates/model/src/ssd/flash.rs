//! Dies and channels: what they are busy with, and what waits for them.
//!
//! ```text
//!  read     |-- sense --|..channel..|-- transfer --|
//!  program  |..channel..|-- transfer --|-------- program --------|
//!  erase    |----------------- erase -----------------|
//! ```
//! A die is busy from left to right, the dots (waiting for the channel) included. Channels
//! serve in the order of asking.

use std::collections::VecDeque;

use io::Nanos;
use io::model::{Phase, Phases};

use super::config::{Config, Timing};
use super::events::{Event, Events};
use super::shape::Shape;

/// What an operation of a die is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    HostRead {
        slot: u32,
    },
    /// A write without buffer.
    HostProgram {
        slot: u32,
        place: u32,
    },
    BufferProgram {
        record: u64,
        place: u32,
    },
    /// Of what is valid in the program at `place`.
    CopyRead {
        pool: u32,
        place: u32,
    },
    /// `parts`: how many units of it came from each of the two victims.
    CopyProgram {
        pool: u32,
        place: u32,
        parts: [u16; 2],
    },
    Erase {
        block: u32,
    },
    LogProgram,
}

impl Work {
    fn is_read(&self) -> bool {
        matches!(self, Work::HostRead { .. } | Work::CopyRead { .. })
    }

    /// Of [`BUSY_WITH`], what the die is busy with.
    fn kind(&self) -> usize {
        match self {
            Work::Erase { .. } => 0,
            Work::HostProgram { .. } | Work::BufferProgram { .. } | Work::LogProgram => 1,
            Work::CopyRead { .. } => 2,
            Work::CopyProgram { .. } => 3,
            Work::HostRead { .. } => 4,
        }
    }
}

/// What those wait for that wait for a busy die.
const BUSY_WITH: [Phase; 5] =
    [Phase::Erase, Phase::Program, Phase::CollectionRead, Phase::CollectionProgram, Phase::Read];

/// How long (ns) a die has been busy with each of [`BUSY_WITH`].
type Busy = [u64; BUSY_WITH.len()];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    pub work: Work,
    pub bytes: u32,
}

/// Which of a die's queues an operation waits in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Before everything else, but for [`READS_IN_A_ROW_MAX`].
    First = 0,
    /// In order.
    Normal = 1,
    /// When nothing else waits, or before everything else if the die is `urgent`.
    Background = 2,
}

/// A read of the host that waits for its die. Of copies and programs nobody asks what they waited
/// for, and there are many: they carry nothing.
#[derive(Clone, Copy, Debug)]
struct Asked {
    since: Nanos,
    /// How long the die had been busy by then.
    busy: Busy,
}

/// What a read of the host waited for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waited {
    busy: Busy,
    /// While the die did nothing a collection held it.
    held: u64,
}

impl Waited {
    fn of(asked: &Asked, now: Nanos, busy: &Busy) -> Waited {
        let busy = std::array::from_fn(|kind| busy[kind] - asked.busy[kind]);
        let waited = Waited { busy, held: 0 };
        let held = now.saturating_sub(asked.since).saturating_sub(waited.total()).0;
        Waited { held, ..waited }
    }

    pub fn total(&self) -> Nanos {
        Nanos(self.busy.iter().sum::<u64>() + self.held)
    }

    pub fn add_to(&self, phases: &mut Phases) {
        for (phase, nanos) in BUSY_WITH.into_iter().zip(self.busy) {
            phases.add(phase, Nanos(nanos));
        }
        phases.add(Phase::Held, Nanos(self.held));
    }
}

#[derive(Clone, Copy, Debug)]
struct Running {
    operation: Operation,
    /// The die has been busy with it since then.
    since: Nanos,
    /// The cells change from here to `end`; only then can it be suspended.
    cells_from: Nanos,
    end: Nanos,
    suspensions: u32,
}

/// After so many the operation ends undisturbed, so that it ends at all.
const SUSPENSIONS_MAX: u32 = 8;

/// So many operations of the first class begin at most while another waits, which then has its
/// turn: a die that is read without a pause still programs. 16 reads are about a millisecond.
const READS_IN_A_ROW_MAX: u32 = 16;

#[derive(Clone, Debug, Default)]
struct Die {
    /// By [`Class`]. Bounded by the commands and copies in flight.
    queues: [VecDeque<Operation>; 3],
    /// Of the reads of the host in the queues; they all have one class, so in the order in which
    /// they begin.
    asked: VecDeque<Asked>,
    /// What the read of the host waited for that runs, if one does.
    waited: Waited,
    running: Option<Running>,
    suspended: Option<Running>,
    /// Operations of the first class begun since others wait.
    row: u32,
    /// Changes with every start and suspension; events of older ones are void.
    turn: u32,
    /// Background work goes first.
    urgent: bool,
    /// Collections that let nothing else happen here.
    locks: u32,
    /// With what has ended or was suspended.
    busy: Busy,
}

impl Die {
    fn busy_by(&self, now: Nanos) -> Busy {
        let mut busy = self.busy;
        if let Some(running) = &self.running {
            busy[running.operation.work.kind()] += now.saturating_sub(running.since).0;
        }
        busy
    }

    /// Nothing runs any more, from `now` on.
    fn stop(&mut self, now: Nanos) -> Option<Operation> {
        let Running { operation, since, .. } = self.running.take()?;
        self.busy[operation.work.kind()] += now.saturating_sub(since).0;
        Some(operation)
    }

    /// What is suspended goes on before anything else begins.
    fn resumes(&self) -> bool {
        let [first, ..] = &self.queues;
        first.is_empty() || self.locks > 0 || self.row >= READS_IN_A_ROW_MAX
    }

    fn pick(&mut self) -> Option<Operation> {
        let [first, normal, background] = &mut self.queues;
        let suspends = self.suspended.is_some();
        if !suspends && (self.locks > 0 || (self.urgent && !background.is_empty())) {
            return background.pop_front();
        }
        let others = suspends || !normal.is_empty() || !background.is_empty();
        // While an operation is suspended reads are all that may come between.
        if (suspends || self.row < READS_IN_A_ROW_MAX || !others)
            && let Some(operation) = first.pop_front()
        {
            self.row = if others { self.row + 1 } else { 0 };
            return Some(operation);
        }
        self.row = 0;
        normal.pop_front().or_else(|| background.pop_front())
    }
}

#[derive(Clone, Debug)]
pub struct Flash {
    timing: Timing,
    shape: Shape,
    dies: Vec<Die>,
    /// When each channel is free again.
    channels: Vec<Nanos>,
    pub bytes_read: u64,
    pub bytes_programmed: u64,
    /// What the read of the host waited for that ended last.
    pub waited: Waited,
}

impl Flash {
    pub fn new(config: &Config, shape: Shape) -> Flash {
        Flash {
            timing: config.timing,
            shape,
            dies: (0..shape.dies).map(|_| Die::default()).collect(),
            channels: vec![Nanos::ZERO; shape.channels as usize],
            bytes_read: 0,
            bytes_programmed: 0,
            waited: Waited::default(),
        }
    }

    pub fn enqueue(
        &mut self,
        now: Nanos,
        die: u32,
        class: Class,
        operation: Operation,
        events: &mut Events,
    ) {
        let state = &mut self.dies[die as usize];
        if let Work::HostRead { .. } = operation.work {
            let asked = Asked { since: now, busy: state.busy_by(now) };
            state.asked.push_back(asked);
        }
        state.queues[class as usize].push_back(operation);
        match state.running {
            None => self.start(now, die, Nanos::ZERO, events),
            Some(running) if class == Class::First && state.locks == 0 => {
                self.suspend(now, die, running, events);
            }
            Some(_) => {}
        }
    }

    /// While `on`, what waits in the background goes first.
    pub fn set_urgent(&mut self, die: u32, on: bool) {
        self.dies[die as usize].urgent = on;
    }

    /// From now on only background work starts on the die.
    pub fn lock(&mut self, die: u32) {
        self.dies[die as usize].locks += 1;
    }

    pub fn unlock(&mut self, now: Nanos, die: u32, events: &mut Events) {
        let state = &mut self.dies[die as usize];
        state.locks -= 1;
        if state.running.is_none() {
            self.start(now, die, Nanos::ZERO, events);
        }
    }

    pub fn sensed(&mut self, now: Nanos, die: u32, turn: u32, events: &mut Events) {
        let state = &self.dies[die as usize];
        let Some(running) = state.running.filter(|_| state.turn == turn) else { return };
        let end = self.transfer(now, die, running.operation.bytes);
        events.at(end, Event::DieDone { die, turn });
    }

    /// What has ended, if anything has; the next operation of the die begins.
    pub fn done(
        &mut self,
        now: Nanos,
        die: u32,
        turn: u32,
        events: &mut Events,
    ) -> Option<Operation> {
        let state = &mut self.dies[die as usize];
        if state.turn != turn {
            return None;
        }
        let operation = state.stop(now)?;
        if let Work::HostRead { .. } = operation.work {
            self.waited = state.waited;
        }
        self.start(now, die, Nanos::ZERO, events);
        Some(operation)
    }

    /// Everything under way is gone.
    pub fn power_cut(&mut self) {
        for die in &mut self.dies {
            *die = Die { turn: die.turn + 1, ..Die::default() };
        }
        self.channels.fill(Nanos::ZERO);
    }

    /// Begins the next operation of an idle die, `delay` from now.
    fn start(&mut self, now: Nanos, die: u32, delay: Nanos, events: &mut Events) {
        let state = &mut self.dies[die as usize];
        assert!(state.running.is_none(), "die {die} does one thing at a time");
        if let Some(suspended) = state.suspended
            && state.resumes()
        {
            state.suspended = None;
            state.row = 0;
            self.resume(now, die, suspended, events);
            return;
        }
        let Some(operation) = state.pick() else { return };
        state.turn += 1;
        let turn = state.turn;
        let now = now + delay;
        if let Work::HostRead { .. } = operation.work {
            let asked = state.asked.pop_front().expect("each read of the host is noted");
            state.waited = Waited::of(&asked, now, &state.busy);
        }
        let mut running =
            Running { operation, since: now, cells_from: now, end: now, suspensions: 0 };
        if operation.work.is_read() {
            self.bytes_read += u64::from(operation.bytes);
            events.at(now + self.timing.read, Event::Sensed { die, turn });
        } else {
            if let Work::Erase { .. } = operation.work {
                running.end = now + self.timing.erase;
            } else {
                self.bytes_programmed += u64::from(operation.bytes);
                running.cells_from = self.transfer(now, die, operation.bytes);
                running.end = running.cells_from + self.timing.program;
            }
            events.at(running.end, Event::DieDone { die, turn });
        }
        self.dies[die as usize].running = Some(running);
    }

    /// When the channel of the die has moved the bytes.
    fn transfer(&mut self, now: Nanos, die: u32, bytes: u32) -> Nanos {
        let channel = &mut self.channels[self.shape.channel_of(die) as usize];
        let nanos = u64::from(bytes) * 1_000_000_000 / self.timing.channel_bytes_per_sec;
        *channel = (*channel).max(now) + Nanos(nanos);
        *channel
    }

    /// Lets a waiting host read interrupt a program or an erase, if that is allowed.
    fn suspend(&mut self, now: Nanos, die: u32, running: Running, events: &mut Events) {
        let cost = match running.operation.work {
            work if work.is_read() => None,
            Work::Erase { .. } => self.timing.erase_suspend,
            _ => self.timing.program_suspend,
        };
        let Some(cost) = cost.filter(|_| running.suspensions < SUSPENSIONS_MAX) else { return };
        // The page register is taken until the transfer is over.
        let from = running.cells_from.max(now);
        if from + cost >= running.end {
            return;
        }
        let state = &mut self.dies[die as usize];
        assert!(state.suspended.is_none(), "die {die} suspends one operation at a time");
        state.stop(from + cost);
        state.turn += 1;
        let left = running.end.saturating_sub(from);
        state.suspended = Some(Running {
            cells_from: Nanos::ZERO,
            end: left,
            suspensions: running.suspensions + 1,
            ..running
        });
        self.start(now, die, from.saturating_sub(now) + cost, events);
    }

    fn resume(&mut self, now: Nanos, die: u32, suspended: Running, events: &mut Events) {
        let state = &mut self.dies[die as usize];
        state.turn += 1;
        let end = now + suspended.end;
        state.running = Some(Running { since: now, cells_from: now, end, ..suspended });
        events.at(end, Event::DieDone { die, turn: state.turn });
    }
}
