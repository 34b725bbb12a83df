//! Any drive, with faults: errors, delays, hangs, torn, lost and misdirected writes, flipped
//! bits, lies about durability, disappearance.
//!
//! ```text
//!  Schedule (drawn from a seed)  or  by hand
//!               └──────> Faults: decide(now, request) = Verdict          pure
//!                            │
//!  engine ──── Faulty ───────┴──── effects: wait, tear, lose, lie ──── the wrapped drive
//! ```
//! [`Faults`] outlives the machine, as the drive it spoils does. What it decides follows from
//! its seed and the order of operations; it never draws from the environment.
//!
//! [`fault`] what can go wrong, [`delay`] latency by distribution, [`decide`] when it does,
//! [`flips`] bits that changed at rest, [`schedule`] many faults from one seed.

pub mod decide;
pub mod delay;
pub mod fault;
mod flips;
pub mod schedule;

use crate::buf::{Buf, BufMut};
use crate::drive::{
    Drive, DriveError, DriveErrorKind, Durability, Geometry, Operation, check_range,
};
use crate::env::{Env, Nanos};

pub use decide::{Action, FaultId, Faults, Injection, Request, Verdict, Visit};
pub use delay::Delay;
pub use fault::{Effect, Fault, FaultError, Kind, Ramp, Tear, Times};
pub use flips::Flips;
pub use schedule::{Entry, Limits, Schedule, When};

/// How long a drive that is gone takes to say so: no time, and a task that tries again for
/// ever would stop a virtual clock.
const REFUSAL: Nanos = Nanos::from_micros(10);
/// What a drive writes wholly or not at all.
const SECTOR: usize = 512;

/// Wraps `D`; clones name the same drive.
#[derive(Clone)]
pub struct Faulty<E: Env, D: Drive> {
    env: E,
    drive: D,
    faults: Faults,
}

impl<E: Env, D: Drive> Faulty<E, D> {
    pub fn new(env: &E, drive: D, faults: &Faults) -> Faulty<E, D> {
        Faulty { env: env.clone(), drive, faults: faults.clone() }
    }

    /// Until the operation may be given to the drive, or is refused.
    async fn enter(&self, request: Request) -> Result<(Visit, Verdict), DriveError> {
        let Request { operation, offset, len, .. } = request;
        check_range(self.drive.geometry(), operation, offset, len)?;
        let geometry = self.drive.geometry();
        let (mut visit, verdict) = self.faults.decide(self.env.now(), geometry, request);
        if let Some((fault, until)) = verdict.hold {
            self.hold(fault, until).await;
        }
        if verdict.delay > Nanos::ZERO {
            self.env.sleep_until(self.env.now() + verdict.delay).await;
        }
        visit.began = self.env.now();
        if verdict.action == Action::Refuse || self.faults.is_lost(visit.began, &visit) {
            return Err(self.refuse(request).await);
        }
        Ok((visit, verdict))
    }

    async fn refuse(&self, request: Request) -> DriveError {
        self.env.sleep_until(self.env.now() + REFUSAL).await;
        request.error(DriveErrorKind::Removed)
    }

    /// Waits until the fault that holds the operation has ended.
    async fn hold(&self, fault: FaultId, until: Option<Nanos>) {
        while self.faults.still_holds(fault) && until.is_none_or(|end| self.env.now() < end) {
            let changed = self.faults.changed();
            match until {
                None => changed.await,
                Some(end) => {
                    let sleep = std::pin::pin!(self.env.sleep_until(end));
                    drop(futures_util::future::select(sleep, changed).await);
                }
            }
        }
    }

    /// Until the answer may be given. The drive may have become slow, have begun to hang or
    /// have gone since the operation began.
    async fn leave(&self, visit: Visit, verdict: &Verdict) -> Result<(), DriveError> {
        let now = self.env.now();
        let longer = now.saturating_sub(visit.began).0 * (verdict.slow_percent - 100);
        if longer > 0 {
            self.env.sleep_until(now + Nanos(longer / 100)).await;
        }
        while let Some((fault, until)) = self.faults.holds(self.env.now(), &visit) {
            self.hold(fault, until).await;
        }
        match self.faults.is_lost(self.env.now(), &visit) {
            true => Err(visit.request.error(DriveErrorKind::Removed)),
            false => Ok(()),
        }
    }

    async fn write_as(
        &self,
        request: Request,
        data: Buf,
        action: &Action,
    ) -> Result<(), DriveError> {
        let Request { offset, durability, .. } = request;
        match action {
            Action::Proceed => self.store(offset, data, durability).await,
            Action::Lie => self.store(offset, data, Durability::Cached).await,
            Action::Lose => Ok(()),
            Action::Misdirect { to } => self.store(*to, data, durability).await,
            Action::Tear { sectors, error } => {
                self.tear(request, data, sectors).await?;
                error.map_or(Ok(()), |kind| Err(request.error(kind)))
            }
            Action::Fail(kind) => Err(request.error(*kind)),
            Action::Refuse => unreachable!("refused when it came"),
        }
    }

    async fn store(&self, offset: u64, data: Buf, how: Durability) -> Result<(), DriveError> {
        let len = data.len() as u64;
        self.drive.write(offset, data, how).await?;
        self.faults.overwritten(offset, len);
        Ok(())
    }

    /// Writes the chosen sectors. The others are written as they are, because the drive may
    /// not take single ones; nobody else may write there at the same time.
    async fn tear(&self, request: Request, data: Buf, chosen: &[bool]) -> Result<(), DriveError> {
        let Request { offset, durability, .. } = request;
        if chosen.iter().all(|&chosen| chosen) {
            return self.store(offset, data, durability).await;
        }
        if !chosen.contains(&true) {
            return Ok(());
        }
        let old = self.drive.read(offset, data.len()).await?;
        let mut torn = BufMut::with_len(data.len());
        for (at, bytes) in torn.chunks_mut(SECTOR).enumerate() {
            let source = if chosen[at] { &data } else { &old };
            bytes.copy_from_slice(&source[at * SECTOR..at * SECTOR + bytes.len()]);
        }
        self.drive.write(offset, torn.freeze(), durability).await?;
        for at in (0..chosen.len()).filter(|&at| chosen[at]) {
            self.faults.overwritten(offset + (at * SECTOR) as u64, SECTOR as u64);
        }
        Ok(())
    }

    async fn freed(
        &self,
        offset: u64,
        len: u64,
        freed: impl Future<Output = Result<(), DriveError>>,
    ) -> Result<(), DriveError> {
        let request = Request::new(Operation::Discard, offset, len, Durability::Cached);
        let (visit, verdict) = self.enter(request).await?;
        let result = match verdict.action {
            Action::Fail(kind) => Err(request.error(kind)),
            _ => {
                self.faults.overwritten(offset, len);
                freed.await
            }
        };
        self.leave(visit, &verdict).await?;
        result
    }
}

impl<E: Env, D: Drive> Drive for Faulty<E, D> {
    fn geometry(&self) -> Geometry {
        self.drive.geometry()
    }

    fn name(&self) -> String {
        self.drive.name()
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Buf, DriveError> {
        let request = Request::new(Operation::Read, offset, len as u64, Durability::Cached);
        let (visit, verdict) = self.enter(request).await?;
        let result = match verdict.action {
            Action::Fail(kind) => Err(request.error(kind)),
            _ => self.drive.read(offset, len).await,
        };
        self.leave(visit, &verdict).await?;
        Ok(self.faults.as_read(offset, result?))
    }

    async fn write(&self, offset: u64, data: Buf, how: Durability) -> Result<(), DriveError> {
        let request = Request::new(Operation::Write, offset, data.len() as u64, how);
        let (visit, verdict) = self.enter(request).await?;
        let result = self.write_as(request, data, &verdict.action).await;
        self.leave(visit, &verdict).await?;
        result
    }

    async fn flush(&self) -> Result<(), DriveError> {
        let request = Request::new(Operation::Flush, 0, 0, Durability::Durable);
        let (visit, verdict) = self.enter(request).await?;
        let result = match verdict.action {
            Action::Fail(kind) => Err(request.error(kind)),
            Action::Lie => Ok(()),
            _ => self.drive.flush().await,
        };
        self.leave(visit, &verdict).await?;
        result
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DriveError> {
        self.freed(offset, len, self.drive.discard(offset, len)).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), DriveError> {
        self.freed(offset, len, self.drive.write_zeroes(offset, len)).await
    }

    fn takes_write_zeroes(&self) -> bool {
        self.drive.takes_write_zeroes()
    }

    fn discard_granularity(&self) -> Option<u32> {
        self.drive.discard_granularity()
    }

    fn is_short(&self) -> bool {
        self.drive.is_short()
    }
}

#[cfg(test)]
mod tests;
