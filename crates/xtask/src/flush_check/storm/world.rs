//! A pool, its server and its clients, and everything that can happen to them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::super::pattern::Stamp;
use super::super::random::mix;
use super::super::server::{Opened, Server};
use super::check::{self, Report};
use super::clients::{self, Load, Tally, Target};
use super::failure::{Failure, Problem};
use super::ledger::{Excuse, Ledger};
use super::op::Op;
use super::plan::Sketch;
use super::schemes::Scheme;
use super::slots::Condition::{Lost, Suspect};
use super::slots::{Image, Slots};
use super::tool::Tool;
use crate::clock::pause;

/// Sectors of the volumes. Two, because some schemes keep volumes apart.
const VOLUMES: [(&str, u64); 2] = [("tank/v1", 16 << 11), ("tank/v2", 8 << 11)];
/// Clients of each volume.
const CONNECTIONS: usize = 3;
/// The harness itself is one more.
const OWN: usize = CONNECTIONS;
pub(super) const DRIVE_SIZE: &str = "64M";
/// A killed server's files and sockets may outlive it by more than a server waits for.
const ATTEMPTS_MAX: u32 = 10;

/// What happened in a storm.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub load: Tally,
    pub kills: u64,
    pub faults: u64,
    /// Faults of a plan that would have been more by then than the pool bears.
    pub left_out: u64,
    pub checks: u64,
    pub flushed_sectors: u64,
    pub open_sectors: u64,
    pub unreadable_sectors: u64,
    pub excused_lost: u64,
    pub excused_rotten: u64,
    pub undecided: u64,
    /// Drives that nobody hurt and that the pool gave up.
    pub given_up: u64,
    /// Starts that found something still in use.
    pub late_starts: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.load.add(&other.load);
        self.kills += other.kills;
        self.faults += other.faults;
        self.left_out += other.left_out;
        self.checks += other.checks;
        self.flushed_sectors += other.flushed_sectors;
        self.open_sectors += other.open_sectors;
        self.unreadable_sectors += other.unreadable_sectors;
        self.excused_lost += other.excused_lost;
        self.excused_rotten += other.excused_rotten;
        self.undecided += other.undecided;
        self.given_up += other.given_up;
        self.late_starts += other.late_starts;
    }
}

pub struct World {
    scheme: Scheme,
    pub(super) tool: Tool,
    seed: u64,
    /// More drives may become faulty than the pool bears.
    pub(super) may_overload: bool,
    /// They have: requests and commands may fail from now on.
    pub(super) overloaded: bool,
    pub(super) server: Option<Server>,
    load: Option<Load>,
    pub(super) targets: Vec<Target>,
    /// The writes of each volume that the last kill cut short.
    cut_short: Vec<Vec<Stamp>>,
    /// Those that any kill since the last check has cut short.
    unsure: Vec<Vec<Stamp>>,
    pub slots: Slots,
    /// How often the server was started.
    pub(super) life: u64,
    loads: u64,
    pub(super) files: u64,
    /// A drive's file was deleted, and the pool may not have noticed.
    pub(super) deleted: bool,
    /// The server ended so last, rather than being stopped.
    killed: bool,
    pub counts: Counts,
}

impl World {
    /// A new pool in an empty folder.
    pub fn new(
        binary: &Path,
        folder: PathBuf,
        scheme: Scheme,
        seed: u64,
        may_overload: bool,
    ) -> Result<World, Failure> {
        let tool = Tool { binary: binary.to_owned(), folder, log_read: 0 };
        fs::create_dir_all(tool.drives()).map_err(Failure::harness)?;
        let path = |at: usize| tool.drives().join(format!("d{at}"));
        let paths: Vec<PathBuf> = (0..scheme.drives).map(path).collect();
        let new = paths.iter().map(|path| format!("{}:{DRIVE_SIZE}", path.display()));
        let new: Vec<String> = new.collect();
        let mut words = vec!["create"];
        words.extend(scheme.create);
        words.push("tank");
        words.extend(new.iter().map(String::as_str));
        done(&tool, &words)?;
        let drives = tool.drives().display().to_string();
        let mut targets = Vec::new();
        for (volume, (name, sectors)) in (0u64..).zip(VOLUMES) {
            let size = (sectors * 512).to_string();
            done(&tool, &["volume", "create", name, &size, "--drives", &drives])?;
            let ledger = Arc::new(Mutex::new(Ledger::new(sectors, volume, CONNECTIONS + 1)));
            targets.push(Target { export: name.to_owned(), socket: tool.socket(), ledger });
        }
        Ok(World {
            scheme,
            seed,
            may_overload,
            overloaded: false,
            server: None,
            load: None,
            cut_short: vec![Vec::new(); targets.len()],
            unsure: vec![Vec::new(); targets.len()],
            targets,
            slots: Slots::new(paths, scheme.bears),
            life: 0,
            loads: 0,
            files: 0,
            deleted: false,
            killed: false,
            counts: Counts::default(),
            tool,
        })
    }

    /// For the planner.
    pub fn sketch(&self) -> Vec<Sketch> {
        let sketch = |slot: &super::slots::Slot| {
            let old = |image: &Image| image.of == slot.path && image.life < self.life;
            Sketch {
                condition: slot.condition,
                there: slot.path.exists(),
                image: slot.image.as_ref().is_some_and(old),
            }
        };
        self.slots.slots.iter().map(sketch).collect()
    }

    /// Is there nothing more to see, because more is faulty than the pool bears?
    pub fn is_over(&self) -> bool {
        self.overloaded && self.server.is_none()
    }

    pub fn run(&mut self, op: Op) -> Result<(), Failure> {
        match op {
            Op::Load(millis) => self.load(millis),
            Op::Idle(millis) => {
                pause(Duration::from_millis(millis));
                Ok(())
            }
            Op::Fill => self.fill(),
            Op::Quiet => self.quiet(),
            Op::Flush => self.flush(),
            Op::Check => self.check(),
            Op::Kill => self.kill(),
            Op::Stop => self.stop(),
            Op::Start => self.start(),
            Op::Peek(millis) => self.peek(millis),
            Op::Fail(drive) => self.fail(drive),
            Op::Replace(_) | Op::Online(_) | Op::Readd(_) => {
                self.tolerate(|world| world.begin_rebuild(op))
            }
            Op::Copy(drive) => self.copy(drive),
            Op::Delete(drive) => self.delete(drive),
            Op::Scrub => self.start_scrub(),
            Op::Slow(drive) => self.served()?.tolerate(|world| world.tool.slow(drive)),
            Op::Rot(..) | Op::Noise(..) | Op::Wreck(..) => self.rot(op),
            Op::Image(drive) => self.image(drive),
            Op::Stale(drive) => self.stale(drive),
            Op::Repair(seed) => self.repair(seed),
            Op::Spoil => self.spoil(),
        }
    }

    pub(super) fn served(&mut self) -> Result<&mut World, Failure> {
        match &self.server {
            Some(_) => Ok(self),
            None => Err(Failure::harness("nobody serves the pool")),
        }
    }

    pub(super) fn unserved(&mut self) -> Result<&mut World, Failure> {
        match &self.server {
            None => Ok(self),
            Some(_) => Err(Failure::harness("the pool is being served")),
        }
    }

    /// Beyond what the pool bears anything but wrong bytes and a hang may come of it.
    pub(super) fn tolerate(
        &mut self,
        what: impl FnOnce(&mut World) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match what(self) {
            Err(Failure {
                problem: Problem::Failed | Problem::Refused | Problem::Closed, ..
            }) if self.overloaded => Ok(()),
            other => other,
        }
    }

    // --- Clients ---------------------------------------------------------------------------

    fn load(&mut self, millis: u64) -> Result<(), Failure> {
        self.served()?;
        if self.load.is_none() {
            self.loads += 1;
            let seed = mix(self.seed ^ self.loads);
            self.load = Some(Load::start(&self.targets, CONNECTIONS, seed, self.overloaded)?);
        }
        pause(Duration::from_millis(millis));
        self.lives()
    }

    /// The server has not ended by itself.
    pub(super) fn lives(&mut self) -> Result<(), Failure> {
        let Some(server) = &mut self.server else { return Ok(()) };
        match server.has_ended().map_err(Failure::harness)? {
            None => Ok(()),
            Some(status) => {
                let text = format!("{status}: {}", self.tool.last_words());
                Err(Failure::new(Problem::Died, text))
            }
        }
    }

    /// Waits for the clients to end. `gone`: they lose their server, and may.
    fn end_load(&mut self, gone: bool) -> Result<(), Failure> {
        let Some(load) = self.load.take() else { return Ok(()) };
        let mut worst: Option<Failure> = None;
        for ended in load.end() {
            self.counts.load.add(&ended.tally);
            if let Some(failure) = ended.failure
                && worst.as_ref().is_none_or(|worst| failure.problem < worst.problem)
            {
                worst = Some(failure);
            }
            if ended.tally.connections_lost > 0 && !gone {
                self.lives()?;
                return Err(Failure::new(Problem::Failed, "the server closed a connection"));
            }
        }
        worst.map_or(Ok(()), Err)
    }

    fn quiet(&mut self) -> Result<(), Failure> {
        self.served()?.end_load(false)
    }

    fn fill(&mut self) -> Result<(), Failure> {
        self.quiet()?;
        for target in &self.targets {
            clients::fill(target, OWN)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.quiet()?;
        self.tolerate(|world| {
            for target in &world.targets {
                clients::flush(target, &mut target.connect()?, OWN)?;
            }
            Ok(())
        })
    }

    pub(super) fn check(&mut self) -> Result<(), Failure> {
        self.quiet()?;
        self.targets.iter().for_each(|target| drop(target.ledger().fold()));
        let reports: Vec<_> = std::thread::scope(|scope| {
            let read = |target: &Target| check::read(target, &mut target.connect()?);
            let threads: Vec<_> =
                self.targets.iter().map(|t| scope.spawn(move || read(t))).collect();
            threads.into_iter().map(|t| t.join().expect("a reader panicked")).collect()
        });
        self.counts.checks += 1;
        for (volume, report) in reports.into_iter().enumerate() {
            match report {
                Ok(report) => self.judge(volume, &report)?,
                Err(failure) => self.tolerate(|_| Err(failure))?,
            }
        }
        Ok(())
    }

    fn judge(&mut self, volume: usize, report: &Report) -> Result<(), Failure> {
        self.counts.flushed_sectors += report.flushed;
        self.counts.open_sectors += report.open;
        self.counts.unreadable_sectors += report.unreadable.len() as u64;
        let excused = |excuse| report.excused.get(&excuse).copied().unwrap_or(0);
        self.counts.excused_lost += excused(Excuse::LostWithCrash);
        self.counts.excused_rotten += excused(Excuse::RottenBefore);
        self.counts.undecided += excused(Excuse::Undecided);
        let cut_short = |sector: u64| {
            let stamps = &self.unsure[volume];
            stamps.iter().any(|stamp| stamp.sectors().contains(&sector))
        };
        let export = &self.targets[volume].export;
        let under_way = report.wrong.iter().filter(|wrong| cut_short(wrong.sector)).count();
        if let Some(failure) = Failure::of_sectors(export, &report.wrong, under_way) {
            return Err(failure);
        }
        if let Some((sector, error)) = report.unreadable.first()
            && !self.overloaded
        {
            let under_way = report.unreadable.iter().filter(|(sector, _)| cut_short(*sector));
            let text = format!(
                "{export}: {} sectors can't be read, the first is {sector} (error {error}); {} of \
                 them in writes that a kill cut short",
                report.unreadable.len(),
                under_way.count()
            );
            return Err(Failure::new(Problem::Failed, text));
        }
        self.unsure[volume].clear();
        self.tolerate(|world| {
            let target = &world.targets[volume];
            check::settle(target, &mut target.connect()?, OWN, report)
        })
    }

    // --- The server ------------------------------------------------------------------------

    fn kill(&mut self) -> Result<(), Failure> {
        self.served()?;
        let unnoticed = self.deleted && self.somebody_deleted_is_used()?;
        let server = self.server.take().expect("it is served");
        let killed = server.kill();
        self.counts.kills += 1;
        self.killed = true;
        if let Err(why) = killed {
            let text = format!("{why}: {}", self.tool.last_words());
            return Err(Failure::new(Problem::Died, text));
        }
        self.end_load(true)?;
        let fold = |target: &Target| target.ledger().fold();
        self.cut_short = self.targets.iter().map(fold).collect();
        for (unsure, cut_short) in self.unsure.iter_mut().zip(&self.cut_short) {
            unsure.extend(cut_short);
        }
        if unnoticed {
            self.excuse(Excuse::LostWithCrash);
        }
        if !self.slots.are(Suspect).is_empty() {
            self.excuse(Excuse::RottenBefore);
        }
        self.deleted = false;
        Ok(())
    }

    /// Does the pool still use a drive whose file was deleted, because it has not noticed?
    fn somebody_deleted_is_used(&mut self) -> Result<bool, Failure> {
        let status = self.tool.status()?;
        let lost = self.slots.are(Lost);
        Ok(lost.into_iter().any(|drive| status.drives[drive].state == "active"))
    }

    /// In-place arrays can't tell what was being written to several drives when one was lost, and
    /// mirrors which of two copies rotted.
    pub(super) fn excuse(&self, excuse: Excuse) {
        let rotten = !self.slots.are(Suspect).is_empty();
        for (target, cut_short) in self.targets.iter().zip(&self.cut_short) {
            if self.scheme.writes.tears_rows() {
                target.ledger().excuse(cut_short, excuse);
            }
            if self.scheme.writes.leaves_copies() && rotten && self.killed {
                target.ledger().leave_undecided();
            }
        }
    }

    fn stop(&mut self) -> Result<(), Failure> {
        let server = self.served()?.server.take().expect("it is served");
        let stopped = server.stop(Server::PATIENCE).map_err(Failure::harness)?;
        let Some(status) = stopped else {
            let text = format!("the server does not stop: {}", self.tool.last_words());
            return Err(Failure::new(Problem::Hangs, text));
        };
        self.end_load(true)?;
        for (target, cut_short) in self.targets.iter().zip(&mut self.cut_short) {
            target.ledger().fold();
            cut_short.clear();
        }
        (self.deleted, self.killed) = (false, false);
        if !status.success() && !self.overloaded {
            let text = format!("a clean stop: {status}: {}", self.tool.last_words());
            return Err(Failure::new(Problem::Refused, text));
        }
        Ok(())
    }

    fn start(&mut self) -> Result<(), Failure> {
        self.life += 1;
        let mut attempts = 0;
        loop {
            let mut command = self.unserved()?.tool.serve()?;
            let mut server = Server::start(&mut command).map_err(Failure::harness)?;
            match server.opened(Server::PATIENCE).map_err(Failure::harness)? {
                Opened::Ready => self.server = Some(server),
                // The kernel has not released yet what the killed server had.
                Opened::Ended(_) if self.is_claimed() && attempts < ATTEMPTS_MAX => {
                    attempts += 1;
                    self.counts.late_starts += 1;
                    continue;
                }
                Opened::Ended(_) if self.overloaded => return Ok(()),
                Opened::Ended(status) => {
                    let text = format!("{status}: {}", self.tool.last_words());
                    return Err(Failure::new(Problem::Closed, text));
                }
                Opened::Hangs => {
                    let text = format!("while it opens: {}", self.tool.last_words());
                    return Err(Failure::new(Problem::Hangs, text));
                }
            }
            return self.tolerate(World::refresh);
        }
    }

    fn is_claimed(&self) -> bool {
        let words = self.tool.last_words();
        words.contains("another process listens there") || words.contains("is in use")
    }

    fn peek(&mut self, millis: u64) -> Result<(), Failure> {
        let mut command = self.unserved()?.tool.serve()?;
        let server = Server::start(&mut command).map_err(Failure::harness)?;
        pause(Duration::from_millis(millis));
        let killed = server.kill();
        self.life += 1;
        self.counts.kills += 1;
        self.tolerate(|world| {
            killed.map_err(|why| {
                let text = format!("{why}: {}", world.tool.last_words());
                Failure::new(Problem::Closed, text)
            })
        })
    }

    /// What the pool says of its drives.
    pub fn quiet_refresh(&mut self) -> Result<(), Failure> {
        self.tolerate(World::refresh)
    }

    pub(super) fn refresh(&mut self) -> Result<(), Failure> {
        if self.server.is_some() {
            let status = self.tool.status()?;
            self.counts.given_up += self.slots.refresh(&status, Path::exists).len() as u64;
        }
        Ok(())
    }
}

fn done(tool: &Tool, words: &[&str]) -> Result<(), Failure> {
    let said = tool.run(words)?;
    if said.code == Some(0) {
        return Ok(());
    }
    Err(Failure::harness(format!("'{}': {}", words.join(" "), said.text.replace('\n', " | "))))
}
