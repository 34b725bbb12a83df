//! How far rebuilding, restoring and copying are, and how long they will take.

use std::collections::{BTreeMap, VecDeque};

use io::rate::Rate;
use io::{Env, Nanos};
use layout::DriveIndex;

use crate::api::{DriveState, RebuildProgress, RebuildStatus, RebuildWork};
use crate::limits::{RATE_SAMPLES, RATE_STEP};
use crate::shard::Shard;
use crate::space::Kind;

#[derive(Default)]
pub struct Progress {
    /// Blocks to be moved when the pass began, by drive and whether they go home; and how many
    /// have been moved since work began.
    left: Vec<(u16, RebuildWork, u64)>,
    moved: u64,
    /// Of them since the pass began.
    since_pass: u64,
    /// When so many had been moved.
    samples: VecDeque<(Nanos, u64)>,
    /// Of drives that are restored or copied.
    rates: BTreeMap<u16, Rate>,
    /// Exposures, and newest journal block, when the pass began.
    pub seen: (u64, u64),
}

impl Progress {
    pub fn moved(&mut self) {
        self.moved += 1;
        self.since_pass += 1;
    }

    /// Everything is where it should be.
    pub fn over(&mut self) {
        let (seen, rates) = (self.seen, std::mem::take(&mut self.rates));
        *self = Progress { seen, rates, ..Progress::default() };
    }

    fn begin(&mut self, left: Vec<(u16, RebuildWork, u64)>) {
        self.left = left;
        self.since_pass = 0;
    }

    fn sample(&mut self, now: Nanos) {
        let due = self.samples.back().is_none_or(|&(at, _)| now.saturating_sub(at) >= RATE_STEP);
        if due {
            self.samples.push_back((now, self.moved));
            while self.samples.len() > RATE_SAMPLES {
                self.samples.pop_front();
            }
        }
    }

    /// How long so many more will take at the rate of the last samples.
    fn eta(&self, now: Nanos, left: u64) -> Option<Nanos> {
        let &(since, before) = self.samples.front()?;
        let (took, moved) = (now.saturating_sub(since).0, self.moved - before);
        let nanos = u128::from(left) * u128::from(took) / u128::from(moved.max(1));
        (moved > 0).then_some(Nanos(nanos.min(u128::from(u64::MAX)) as u64))
    }
}

impl<E: Env> Shard<E> {
    /// Counts what is to be moved now.
    pub(super) async fn count_moves(&self) {
        let mut counts = vec![[0; 2]; self.array.len()];
        for zone in 0..self.geometry.zone_count {
            self.count_zone(zone, &mut counts);
            self.env.yield_now().await;
        }
        let mut left = Vec::new();
        for (drive, [away, home]) in (0..).zip(counts) {
            let work = self.work_of(DriveIndex(drive));
            left.extend((away > 0).then_some((drive, work, away)));
            left.extend((home > 0).then_some((drive, RebuildWork::Return, home)));
        }
        self.rebuild.progress.borrow_mut().begin(left);
    }

    fn work_of(&self, index: DriveIndex) -> RebuildWork {
        match self.array.is_draining(index) {
            true => RebuildWork::Drain,
            false => RebuildWork::Rebuild,
        }
    }

    fn count_zone(&self, zone: u32, counts: &mut [[u64; 2]]) {
        let state = self.state.borrow();
        let Some((class, stripes)) = state.space.held_in(zone) else { return };
        for (stripe, kind) in stripes {
            if !matches!(kind, Kind::Raid | Kind::Tuple) {
                continue;
            }
            for position in self.moves_of(&state.space, class, stripe) {
                let home = class.drive(stripe, position);
                let away = state.space.address(class, stripe, position).drive;
                match self.is_home(home) {
                    true => counts[usize::from(home.0)][1] += 1,
                    false => counts[usize::from(away.0)][0] += 1,
                }
            }
        }
    }

    /// Drives that get what they should hold, or are copied onto others: what is left, and all.
    fn filled(&self) -> Vec<(u16, RebuildWork, (u64, u64))> {
        let work = |index: DriveIndex| {
            let member = self.array.member(index);
            let block = u64::from(self.geometry.block_size);
            let copied = || {
                let (left, all) = member.twin()?.left();
                Some((RebuildWork::Copy, (left / block, all / block)))
            };
            let (work, how_far) = match member.state() {
                DriveState::Restoring => (RebuildWork::Restore, self.array.awaited(index)?),
                _ => copied()?,
            };
            Some((index.0, work, how_far))
        };
        self.array.indexes().filter_map(work).collect()
    }

    /// Those who move things call it now and then, that the rate is known when somebody asks.
    pub fn note_rates(&self) {
        let now = self.env.now();
        let mut progress = self.rebuild.progress.borrow_mut();
        progress.sample(now);
        let filled = self.filled();
        progress.rates.retain(|drive, _| filled.iter().any(|(own, ..)| own == drive));
        for (drive, _, (left, _)) in filled {
            progress.rates.entry(drive).or_default().note(now, left);
        }
    }

    /// What goes home in a pass that has not begun yet, by drive.
    fn awaits_return(&self, progress: &Progress) -> BTreeMap<u16, u64> {
        let mut blocks = BTreeMap::new();
        if !self.rebuild.stirred.get() || !progress.left.is_empty() {
            return blocks;
        }
        let state = self.state.borrow();
        for ((stripe, position), _) in state.space.substitutes() {
            let Some(class) = state.space.class_of_zone(stripe.zone) else { continue };
            let home = class.drive(stripe, usize::from(position));
            if self.is_home(home) {
                *blocks.entry(home.0).or_default() += 1;
            }
        }
        blocks
    }

    pub fn rebuild_status(&self) -> RebuildStatus {
        self.note_rates();
        let now = self.env.now();
        let progress = self.rebuild.progress.borrow();
        let all: u64 = progress.left.iter().map(|(.., left)| left).sum();
        let done = progress.since_pass.min(all);
        let mut drives: Vec<RebuildProgress> = Vec::new();
        for &(drive, work, total) in &progress.left {
            // Of all drives alike: a pass takes the stripes as they lie.
            let left = total - total * done / all.max(1);
            let eta = progress.eta(now, all - done);
            drives.push(RebuildProgress { drive, work, left, total, eta });
        }
        // A drive whose blocks have gone is still on its way out until that is recorded.
        let known = |index: &DriveIndex| drives.iter().any(|of| of.drive == index.0);
        let wide = self.is_wide(&self.state.borrow().space);
        let leaves = |&at: &DriveIndex| wide && self.leaves(at) && !known(&at);
        let leaving: Vec<DriveIndex> = self.array.indexes().filter(leaves).collect();
        for index in leaving {
            let work = self.work_of(index);
            drives.push(RebuildProgress { drive: index.0, work, left: 0, total: 0, eta: None });
        }
        for (drive, total) in self.awaits_return(&progress) {
            let work = RebuildWork::Return;
            drives.push(RebuildProgress { drive, work, left: total, total, eta: None });
        }
        for (drive, work, (left, total)) in self.filled() {
            let eta = progress.rates.get(&drive).and_then(|rate| rate.eta(left));
            drives.push(RebuildProgress { drive, work, left, total, eta });
        }
        RebuildStatus {
            paused: self.rebuild.paused.get(),
            waits_for_space: self.rebuild.waits_for_space.get(),
            substitutes: self.state.borrow().space.substitute_count(),
            drives,
        }
    }
}
