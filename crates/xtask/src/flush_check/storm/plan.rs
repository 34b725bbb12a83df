//! Chooses what happens next, from the seed and what is known of the drives.
//!
//! A step is one life of the server, or a part of one: a load in which something happens, an end
//! (kill, stop, or none), what is done to drives while nobody serves them, the next start, a
//! check, and what is done about lost drives. As long as the storm stays within what the scheme
//! bears, no more drives are faulty than that at any moment.

use super::super::random::Random;
use super::op::Op;
use super::slots::Condition::{self, Lost, Rebuilding, Suspect, Whole};

/// What is known of a drive when a step begins.
#[derive(Clone, Copy, Debug)]
pub struct Sketch {
    pub condition: Condition,
    /// Its file is there.
    pub there: bool,
    /// There is a copy of its file from before the last writes.
    pub image: bool,
}

/// Which step of how many.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub step: u64,
    pub steps: u64,
    /// In the last step but one more drives become faulty than the pool bears.
    pub beyond: bool,
}

struct Planner {
    random: Random,
    drives: Vec<Sketch>,
    bears: usize,
    ops: Vec<Op>,
}

/// The words of one step.
pub fn step(seed: u64, drives: &[Sketch], bears: usize, place: Place) -> Vec<Op> {
    let drives = drives.to_vec();
    let random = Random::new(seed ^ place.step << 32);
    let mut planner = Planner { random, drives, bears, ops: Vec::new() };
    if place.step == 1 {
        planner.ops.extend([Op::Fill, Op::Flush]);
    }
    planner.live();
    if place.beyond && place.step + 1 == place.steps {
        planner.overload();
    } else {
        planner.whole_before_the_end();
        planner.end_and_start();
    }
    if place.step == place.steps {
        planner.conclude();
    } else {
        planner.look_and_repair();
    }
    planner.ops
}

impl Planner {
    fn faulty(&self) -> usize {
        self.drives.iter().filter(|drive| drive.condition != Whole).count()
    }

    fn one(&mut self, suits: impl Fn(&Sketch) -> bool) -> Option<usize> {
        let all: Vec<usize> =
            (0..self.drives.len()).filter(|at| suits(&self.drives[*at])).collect();
        let count = all.len() as u64;
        (count > 0).then(|| all[usize::try_from(self.random.below(count)).expect("an index")])
    }

    /// A drive that may become faulty: one more, or one that is faulty already.
    fn victim(&mut self) -> Option<usize> {
        if self.faulty() < self.bears {
            return self.one(|drive| drive.condition == Whole && drive.there);
        }
        let again = self.random.percent(20);
        self.one(|drive| again && drive.condition == Suspect && drive.there)
    }

    fn load(&mut self, least: u64, most: u64) {
        let millis = least + self.random.below(most - least);
        self.ops.push(Op::Load(millis));
    }

    fn becomes(&mut self, drive: usize, condition: Condition) {
        self.drives[drive].condition = condition;
    }

    /// A load, and something that happens meanwhile.
    fn live(&mut self) {
        self.load(60, 350);
        match self.random.below(100) {
            0..22 => self.fail(),
            22..38 => self.delete_served(),
            38..48 => {
                self.ops.push(Op::Scrub);
                self.load(5, 200);
            }
            48..62 => {
                let Some(drive) = self.one(|drive| drive.condition == Whole) else { return };
                self.ops.push(Op::Slow(drive));
                self.load(60, 250);
            }
            62..70 => self.copy(),
            _ => {}
        }
        if self.random.percent(50) {
            self.rebuild();
        }
    }

    fn fail(&mut self) {
        if self.faulty() >= self.bears {
            return;
        }
        let Some(drive) = self.one(|drive| drive.condition == Whole && drive.there) else { return };
        self.ops.push(Op::Fail(drive));
        self.becomes(drive, Lost);
        self.load(30, 250);
    }

    fn delete_served(&mut self) {
        if self.faulty() >= self.bears {
            return;
        }
        let Some(drive) = self.one(|drive| drive.condition == Whole && drive.there) else { return };
        self.ops.push(Op::Delete(drive));
        self.becomes(drive, Lost);
        self.drives[drive].there = false;
        self.load(1, 300);
    }

    fn copy(&mut self) {
        if self.faulty() > 0 {
            return;
        }
        if let Some(drive) = self.one(|drive| drive.there) {
            self.ops.push(Op::Copy(drive));
            self.load(5, 250);
        }
    }

    /// The rebuild of a lost drive begins, beside the load.
    fn rebuild(&mut self) {
        let Some(drive) = self.one(|drive| drive.condition == Lost) else { return };
        let ops = [Op::Replace(drive), Op::Online(drive), Op::Readd(drive)];
        let ways = if self.drives[drive].there { 3 } else { 1 };
        let way = self.random.below(ways);
        self.ops.push(ops[usize::try_from(way).expect("an index")]);
        self.becomes(drive, Rebuilding);
        self.load(3, 200);
    }

    /// All is put right, and the end may come at once: others may become faulty with it, and what
    /// those did for the ones before is gone.
    fn whole_before_the_end(&mut self) {
        if self.faulty() == 0 || !self.random.percent(30) {
            return;
        }
        let seed = self.random.below(1 << 20);
        self.ops.push(Op::Repair(seed));
        for drive in self.drives.iter_mut().filter(|drive| drive.condition != Whole) {
            // Another one may be in its place, of which there is no image.
            *drive = Sketch { condition: Whole, there: true, image: false };
        }
    }

    /// The end of a life, what happens until the next, and its beginning. Or nothing.
    fn end_and_start(&mut self) {
        match self.random.below(100) {
            0..55 => self.ops.push(Op::Kill),
            55..67 => {
                let rest = self.random.below(600);
                self.ops.extend([Op::Flush, Op::Idle(rest), Op::Kill]);
            }
            67..88 => self.ops.push(Op::Stop),
            _ => return,
        }
        self.keep_image();
        self.hurt();
        while self.random.percent(22) {
            let millis = self.random.below(120);
            self.ops.push(Op::Peek(millis));
            self.hurt();
        }
        self.ops.push(Op::Start);
        if self.random.percent(25) {
            // While stripes are resynced and drives rebuilt.
            let millis = self.random.below(150);
            let meanwhile =
                if self.random.percent(50) { Op::Idle(millis) } else { Op::Load(millis) };
            self.ops.extend([meanwhile, Op::Kill, Op::Start]);
        }
    }

    fn keep_image(&mut self) {
        if self.random.percent(60)
            && let Some(drive) = self.one(|drive| drive.there && drive.condition == Whole)
        {
            self.ops.push(Op::Image(drive));
            // What is put aside now is not old yet.
            self.drives[drive].image = false;
        }
    }

    fn hurt(&mut self) {
        while self.random.percent(70) {
            let Some(drive) = self.victim() else { return };
            self.hurt_one(drive);
        }
    }

    fn hurt_one(&mut self, drive: usize) {
        let seed = self.random.below(1 << 20);
        let stale = self.drives[drive].image && self.random.percent(45);
        let (op, condition) = match self.random.below(100) {
            _ if stale => (Op::Stale(drive), Suspect),
            0..50 => (Op::Rot(drive, seed), Suspect),
            50..68 => (Op::Noise(drive, seed), Suspect),
            68..84 => (Op::Wreck(drive, seed), Suspect),
            _ => (Op::Delete(drive), Lost),
        };
        self.ops.push(op);
        self.becomes(drive, condition);
        self.drives[drive].there = condition != Lost;
    }

    /// One more drive than the pool bears becomes faulty, or all of two.
    fn overload(&mut self) {
        self.ops.push(if self.random.percent(70) { Op::Kill } else { Op::Stop });
        while self.faulty() <= self.bears {
            let Some(drive) = self.one(|drive| drive.condition == Whole && drive.there) else {
                break;
            };
            // If no drive knows better, an old state of all of them is a state like any other.
            if self.bears + 1 >= self.drives.len() {
                self.drives[drive].image = false;
            }
            self.hurt_one(drive);
        }
        self.ops.push(Op::Start);
    }

    fn look_and_repair(&mut self) {
        if self.random.percent(80) {
            self.ops.push(Op::Check);
        }
        let seed = self.random.below(1 << 20);
        let pressing = self.faulty() >= self.bears;
        match self.random.below(100) {
            0..55 => self.ops.push(Op::Repair(seed)),
            55..70 => self.rebuild(),
            70..80 if pressing => self.ops.push(Op::Repair(seed)),
            _ => {}
        }
    }

    /// At the end everything is whole, is left alone, killed, and there.
    fn conclude(&mut self) {
        let seed = self.random.below(1 << 20);
        self.ops.extend([Op::Check, Op::Repair(seed), Op::Check, Op::Kill, Op::Start, Op::Check]);
        self.ops.extend([Op::Stop, Op::Start, Op::Check]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEARS: usize = 1;

    /// Plays plans without a pool: what is repaired is whole, what is rebuilt may be or not.
    fn play(seed: u64, beyond: bool) -> (usize, usize, Vec<Op>) {
        let whole = Sketch { condition: Whole, there: true, image: false };
        let mut drives = vec![whole; 4];
        let (mut most, mut hurts, mut all) = (0, 0, Vec::new());
        for step in 1..=8 {
            let place = Place { step, steps: 8, beyond };
            let ops = super::step(seed, &drives, BEARS, place);
            for op in &ops {
                match *op {
                    Op::Fail(drive) => drives[drive].condition = Lost,
                    Op::Delete(drive) => {
                        drives[drive] = Sketch { condition: Lost, there: false, ..drives[drive] };
                    }
                    Op::Rot(drive, _) | Op::Noise(drive, _) | Op::Wreck(drive, _) => {
                        assert!(drives[drive].there);
                        drives[drive].condition = Suspect;
                    }
                    Op::Stale(drive) => {
                        assert!(drives[drive].image, "there is a copy to put back");
                        drives[drive].condition = Suspect;
                    }
                    Op::Image(drive) => drives[drive].image = true,
                    Op::Replace(drive) => {
                        drives[drive] = Sketch { condition: Rebuilding, there: true, image: false };
                    }
                    Op::Online(drive) | Op::Readd(drive) => {
                        assert!(drives[drive].there && drives[drive].condition == Lost);
                        drives[drive].condition = Rebuilding;
                    }
                    Op::Repair(_) => drives.iter_mut().for_each(|drive| {
                        let image = drive.image && drive.condition == Whole;
                        *drive = Sketch { condition: Whole, there: true, image };
                    }),
                    _ => continue,
                }
                hurts += 1;
                most = most.max(drives.iter().filter(|drive| drive.condition != Whole).count());
            }
            all.extend(ops);
        }
        (most, hurts, all)
    }

    #[test]
    fn a_plan_stays_within_what_the_pool_bears_and_does_everything() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..300 {
            let (most, hurts, ops) = play(seed, false);
            assert!(most <= BEARS, "seed {seed}: {}", super::super::op::words(&ops));
            assert!(hurts > 0);
            seen.extend(ops.iter().map(|op| op.to_string().split(':').next().map(str::to_owned)));
        }
        // All words but `quiet`, which is part of others, and `spoil`, which is the canary's.
        assert_eq!(seen.len(), 23, "{seen:?}");
    }

    #[test]
    fn beyond_is_one_drive_more() {
        for seed in 0..100 {
            let (most, _, ops) = play(seed, true);
            assert_eq!(most, BEARS + 1, "seed {seed}: {}", super::super::op::words(&ops));
        }
    }

    #[test]
    fn the_same_seed_plans_the_same() {
        assert_eq!(play(3, false).2, play(3, false).2);
        assert_ne!(play(3, false).2, play(4, false).2);
    }
}
