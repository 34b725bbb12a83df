//! What happens to the drives of a [`World`].

use std::fs;
use std::path::PathBuf;

use super::super::random::Random;
use super::failure::{Failure, Problem};
use super::harm;
use super::ledger::Excuse;
use super::op::Op;
use super::slots::Condition::{self, Lost, Rebuilding, Suspect};
use super::slots::Image;
use super::tool::{PATIENCE, Said};
use super::world::{DRIVE_SIZE, World};

/// What came of asking for a rebuild of a drive.
pub enum Rebuild {
    Begun,
    /// Refused until the rebuild of another drive is over.
    Later,
    Refused(String),
}

fn is_busy(said: &Said) -> bool {
    let texts = ["wait until that is done", "is being replaced already"];
    texts.iter().any(|text| said.text.contains(text))
}

fn refused(op: Op, text: &str) -> Failure {
    Failure::new(Problem::Refused, format!("{op}: {}", text.replace('\n', " | ")))
}

impl World {
    /// A drive is hurt: may it be? Not if more are faulty by now than the plan knew of: a replica
    /// is lost, and comes back, as a whole.
    fn hurt(&mut self, drive: usize, condition: Condition) -> Result<Option<PathBuf>, Failure> {
        let Some(slot) = self.slots.slots.get_mut(drive) else {
            return Err(Failure::harness(format!("there is no drive {drive}")));
        };
        let before = std::mem::replace(&mut slot.condition, condition);
        let path = slot.path.clone();
        if !self.slots.within() {
            if !self.may_overload {
                self.slots.slots[drive].condition = before;
                self.counts.left_out += 1;
                return Ok(None);
            }
            self.overloaded = true;
        }
        self.counts.faults += 1;
        if self.server.is_none() {
            self.excuse(Excuse::LostWithCrash);
        }
        Ok(Some(path))
    }

    /// Noise in one way or another.
    pub(super) fn rot(&mut self, op: Op) -> Result<(), Failure> {
        let (Op::Rot(drive, seed) | Op::Noise(drive, seed) | Op::Wreck(drive, seed)) = op else {
            unreachable!("these are noise")
        };
        let Some(path) = self.unserved()?.hurt(drive, Suspect)? else { return Ok(()) };
        let done = match op {
            Op::Rot(..) => harm::rot(&path, seed),
            _ => harm::overwrite(&path, seed, matches!(op, Op::Noise(..))),
        };
        done.map_err(Failure::harness)
    }

    pub(super) fn delete(&mut self, drive: usize) -> Result<(), Failure> {
        let Some(path) = self.hurt(drive, Lost)? else { return Ok(()) };
        self.deleted |= self.server.is_some();
        fs::remove_file(path).map_err(Failure::harness)
    }

    pub(super) fn image(&mut self, drive: usize) -> Result<(), Failure> {
        self.unserved()?;
        let copy = self.tool.folder.join(format!("image{drive}"));
        let Some(slot) = self.slots.slots.get_mut(drive) else {
            return Err(Failure::harness(format!("there is no drive {drive}")));
        };
        harm::copy(&slot.path, &copy).map_err(Failure::harness)?;
        slot.image = Some(Image { of: slot.path.clone(), copy, life: self.life });
        Ok(())
    }

    pub(super) fn stale(&mut self, drive: usize) -> Result<(), Failure> {
        let Some(path) = self.unserved()?.hurt(drive, Suspect)? else { return Ok(()) };
        match &self.slots.slots[drive].image {
            Some(image) if image.of == path => {
                harm::copy(&image.copy, &path).map_err(Failure::harness)
            }
            _ => Err(Failure::harness(format!("there is no copy of drive {drive}"))),
        }
    }

    pub(super) fn fail(&mut self, drive: usize) -> Result<(), Failure> {
        if self.served()?.hurt(drive, Lost)?.is_none() {
            return Ok(());
        }
        self.tolerate(|world| world.give_up(drive))
    }

    fn new_file(&mut self) -> PathBuf {
        self.files += 1;
        self.tool.drives().join(format!("n{}", self.files))
    }

    fn is_active(&self, drive: usize) -> Result<bool, Failure> {
        Ok(self.tool.status()?.drives[drive].state == "active")
    }

    /// The pool does so, unless it has at this moment.
    fn give_up(&self, drive: usize) -> Result<(), Failure> {
        let said = self.tool.ask(&["drive", "fail", "tank", &drive.to_string(), "--force"])?;
        match said.code != Some(0) && self.is_active(drive)? {
            true => Err(refused(Op::Fail(drive), &said.text)),
            false => Ok(()),
        }
    }

    /// A lost drive is replaced or taken back: its rebuild begins.
    pub(super) fn rebuild(&mut self, op: Op) -> Result<Rebuild, Failure> {
        self.served()?.refresh()?;
        let (Op::Replace(drive) | Op::Online(drive) | Op::Readd(drive)) = op else {
            unreachable!("these begin a rebuild")
        };
        let slot = &self.slots.slots[drive];
        if slot.condition != Lost {
            return Ok(Rebuild::Begun);
        }
        let (path, number) = (slot.path.display().to_string(), drive.to_string());
        // Its file was deleted, and the pool has not noticed: somebody has to say so.
        if self.is_active(drive)? {
            self.give_up(drive)?;
        }
        let (words, new) = match op {
            Op::Online(_) => (vec!["online", "tank", &number, &path], None),
            Op::Readd(_) => (vec!["replace", "tank", &number, &path, "--force"], None),
            _ => (vec!["replace", "tank", &number], Some(self.new_file())),
        };
        let sized = new.as_ref().map(|new| format!("{}:{DRIVE_SIZE}", new.display()));
        let words =
            [&["drive"], words.as_slice(), &sized.iter().map(String::as_str).collect::<Vec<_>>()];
        let said = self.tool.ask(&words.concat())?;
        if said.code != Some(0) {
            return Ok(if is_busy(&said) { Rebuild::Later } else { Rebuild::Refused(said.text) });
        }
        let slot = &mut self.slots.slots[drive];
        slot.path = new.unwrap_or_else(|| slot.path.clone());
        slot.condition = Rebuilding;
        Ok(Rebuild::Begun)
    }

    /// Beside a load. The same drive may be refused, because it is not one of the pool's any more,
    /// and a new one, because another one has to be replaced first.
    pub(super) fn begin_rebuild(&mut self, op: Op) -> Result<(), Failure> {
        match self.rebuild(op)? {
            Rebuild::Refused(text) if matches!(op, Op::Replace(_)) && self.slots.faulty() < 2 => {
                Err(refused(op, &text))
            }
            _ => Ok(()),
        }
    }

    pub(super) fn start_scrub(&mut self) -> Result<(), Failure> {
        let said = self.served()?.tool.ask(&["scrub", "start", "tank"])?;
        if said.code == Some(0) || said.text.contains("already") || self.overloaded {
            return Ok(());
        }
        Err(refused(Op::Scrub, &said.text))
    }

    pub(super) fn copy(&mut self, drive: usize) -> Result<(), Failure> {
        let new = format!("{}:{DRIVE_SIZE}", self.served()?.new_file().display());
        let said = self.tool.ask(&["drive", "replace", "tank", &drive.to_string(), &new])?;
        if said.code == Some(0) || is_busy(&said) || self.overloaded {
            return Ok(());
        }
        Err(refused(Op::Copy(drive), &said.text))
    }

    /// All drives are whole again.
    pub(super) fn repair(&mut self, seed: u64) -> Result<(), Failure> {
        if self.served()?.overloaded {
            return Ok(());
        }
        let mut random = Random::new(seed);
        self.wait(&["restore"])?;
        self.refresh()?;
        // Some schemes rebuild one drive after the other, some a replica as a whole and
        // not before those of it that are gone were replaced.
        for _ in 0..self.slots.slots.len() {
            let lost = self.slots.are(Lost);
            if lost.is_empty() {
                break;
            }
            let mut refusals = Vec::new();
            for &drive in &lost {
                refusals.extend(self.rebuild_somehow(drive, &mut random)?);
            }
            if refusals.len() == lost.len() {
                return Err(Failure::new(Problem::Refused, refusals.join("; ")));
            }
            self.wait(&["restore"])?;
            self.refresh()?;
        }
        self.wait(&["online"])?;
        self.refresh()?;
        if !self.slots.are(Suspect).is_empty() {
            self.scrub()?;
        }
        match self.slots.faulty() {
            0 => Ok(()),
            _ => {
                let text = format!("after all was put right: {}", self.slots);
                Err(Failure::new(Problem::Refused, text))
            }
        }
    }

    /// The same drive if it is there and is taken, or else a new one. Returns why neither.
    fn rebuild_somehow(
        &mut self,
        drive: usize,
        random: &mut Random,
    ) -> Result<Option<String>, Failure> {
        let old = self.slots.slots[drive].path.clone();
        let (back, online, stays) = (random.percent(50), random.percent(50), random.percent(50));
        let ways = [Op::Online(drive), Op::Readd(drive), Op::Replace(drive)];
        let first = if !back || !old.exists() { 2 } else { usize::from(!online) };
        let mut refusal = None;
        for way in &ways[first..] {
            match self.rebuild(*way)? {
                Rebuild::Begun => {
                    refusal = None;
                    break;
                }
                Rebuild::Later => return Ok(None),
                Rebuild::Refused(text) => refusal = Some(refused(*way, &text).text),
            }
        }
        if old.exists() && !stays && self.slots.slots[drive].path != old {
            fs::remove_file(old).map_err(Failure::harness)?;
        }
        Ok(refusal)
    }

    fn wait(&mut self, what: &[&str]) -> Result<(), Failure> {
        let seconds = PATIENCE.as_secs().saturating_sub(5).to_string();
        let said = self.tool.ask(&[&["wait", "tank"], what, &["--timeout", &seconds]].concat())?;
        if said.code == Some(0) {
            return Ok(());
        }
        self.lives()?;
        let text = format!("wait {}: {}", what.join(" "), said.text.replace('\n', " | "));
        Err(Failure::new(Problem::Hangs, text))
    }

    /// From the start, and to the end; once more if it finds pages that may be lost.
    fn scrub(&mut self) -> Result<(), Failure> {
        loop {
            self.wait(&["scrub"])?;
            self.tool.demand(&["scrub", "start", "tank"])?;
            self.wait(&["scrub"])?;
            let lost = self.tool.lost_pages()?;
            if lost == 0 {
                self.slots.scrubbed();
                return Ok(());
            }
            // Are they? Those that may be are written again.
            let before = self.counts.undecided;
            self.check()?;
            if self.counts.undecided == before {
                let text = format!("a scrub finds {lost} pages lost, and every sector is right");
                return Err(Failure::new(Problem::Alarm, text));
            }
        }
    }

    /// The canary: what was flushed is replaced by an older version, wherever it is.
    pub(super) fn spoil(&mut self) -> Result<(), Failure> {
        self.unserved()?;
        let files: Vec<PathBuf> = self.slots.slots.iter().map(|slot| slot.path.clone()).collect();
        let ledger = self.targets[0].ledger();
        let certain = |sector: &u64| !ledger.model.is_open(*sector);
        let written = |sector: u64| {
            let version = ledger.model.newest(sector);
            (!version.zero).then_some((sector, version.sequence))
        };
        let found = (0..ledger.sectors).filter(certain).find_map(written);
        let (sector, sequence) = found.ok_or_else(|| Failure::harness("nothing is certain"))?;
        let copies = harm::spoil(&files, sector, sequence).map_err(Failure::harness)?;
        if copies < files.len() {
            let text = format!("sector {sector} was found on {copies} of {} drives", files.len());
            return Err(Failure::harness(text));
        }
        Ok(())
    }
}
