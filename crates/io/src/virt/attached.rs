//! A disk attached to a machine: operations take time, and complete in any order.

use std::future::pending;

use super::VirtEnv;
use super::disk::Disk;
use super::port::{ModelPort, REFUSAL};
use crate::buf::{Buf, BufMut};
use crate::drive::{
    Drive, DriveError, DriveErrorKind, Durability, Geometry, Operation, check_range,
};
use crate::env::{Env, Nanos};
use crate::model::Command;
use crate::sync::oneshot;

/// How long operations take on average. Each takes between half and one and a half of that,
/// and one in [`Latency::STALL_ONE_IN`] much longer, so completions come in any order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Latency {
    pub read: Nanos,
    pub write: Nanos,
    /// What a durable write takes on top.
    pub write_through: Nanos,
    pub flush: Nanos,
    pub discard: Nanos,
    /// Added to reads and writes by their length.
    pub bytes_per_micro: u64,
}

impl Latency {
    const STALL_ONE_IN: u64 = 64;
    const STALL_FACTOR: u64 = 10;

    /// A SATA-class SSD: 500 MB/s.
    pub const SSD: Latency = Latency {
        read: Nanos::from_micros(80),
        write: Nanos::from_micros(20),
        write_through: Nanos::from_micros(60),
        flush: Nanos::from_micros(500),
        discard: Nanos::from_micros(100),
        bytes_per_micro: 500,
    };

    fn average(&self, operation: Operation, len: u64, durability: Durability) -> Nanos {
        let transfer = Nanos(len * 1_000 / self.bytes_per_micro);
        match (operation, durability) {
            (Operation::Read, _) => self.read + transfer,
            (Operation::Write, Durability::Cached) => self.write + transfer,
            (Operation::Write, Durability::Durable) => self.write + self.write_through + transfer,
            (Operation::Flush, _) => self.flush,
            (Operation::Discard, _) => self.discard,
        }
    }
}

/// What says when operations complete.
#[derive(Clone)]
pub enum Timing {
    /// Drawn from the environment's randomness.
    Latency(Latency),
    Model(ModelPort),
}

impl From<Latency> for Timing {
    fn from(latency: Latency) -> Timing {
        Timing::Latency(latency)
    }
}

impl From<ModelPort> for Timing {
    fn from(port: ModelPort) -> Timing {
        Timing::Model(port)
    }
}

/// A handle on a disk in one machine.
#[derive(Clone)]
pub struct Attached {
    env: VirtEnv,
    disk: Disk,
    timing: Timing,
    /// The disk's power cycle this handle belongs to; after a cut it is dead.
    power_cycle: u64,
}

/// What is asked, for errors and traces.
#[derive(Clone, Copy)]
struct Request {
    operation: Operation,
    offset: u64,
    len: u64,
}

impl Request {
    fn error(self, kind: DriveErrorKind) -> DriveError {
        DriveError { operation: self.operation, offset: self.offset, len: self.len, kind }
    }
}

#[derive(Clone, Copy)]
enum Phase {
    Submitted = 0,
    Completed = 1,
    Failed = 2,
}

impl Attached {
    /// Connects a disk with a machine. Writes that a machine left in flight when it crashed
    /// are decided now, if no power cut has decided them. A model becomes part of the disk: the
    /// next power cut is its as well.
    pub fn new(env: &VirtEnv, disk: &Disk, timing: impl Into<Timing>) -> Attached {
        let timing = timing.into();
        if let Timing::Model(port) = &timing {
            disk.join(port);
        }
        disk.settle();
        let power_cycle = disk.power_cycles();
        Attached { env: env.clone(), disk: disk.clone(), timing, power_cycle }
    }

    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Waits for ever if the world has been told to accept no more.
    async fn admit(&self, request: Request) -> Result<(), DriveError> {
        let Request { operation, offset, len } = request;
        check_range(self.disk.geometry(), operation, offset, len)?;
        if self.env.write_limit_reached() {
            pending::<()>().await;
        }
        self.trace(Phase::Submitted, request);
        if !self.is_gone() {
            return Ok(());
        }
        // Takes time, or a task that tries again for ever would stop the clock.
        self.env.sleep_until(self.env.now() + REFUSAL).await;
        self.trace(Phase::Failed, request);
        Err(request.error(DriveErrorKind::Removed))
    }

    /// Lets `act` happen when the operation's time has come, unless it fails; then `act` is
    /// dropped.
    async fn perform<T: 'static>(
        &self,
        request: Request,
        durability: Durability,
        act: impl FnOnce() -> T + 'static,
    ) -> Result<T, DriveError> {
        let fault = self.disk.count(request.operation, request.len);
        let (sender, receiver) = oneshot();
        let drive = self.clone();
        let event = move || sender.send(drive.finish(request, fault, act));
        let Request { operation, offset, len } = request;
        match (&self.timing, Command::new(operation, offset, len, durability)) {
            (Timing::Latency(latency), _) => {
                self.env.after(self.delay(latency, request, durability), event);
            }
            (Timing::Model(port), Some(command)) => match self.env.meter() {
                None => port.submit(command, event),
                Some(meter) => {
                    let own = port.clone();
                    port.submit(command, move || {
                        meter.set(own.phases());
                        event();
                    });
                }
            },
            (Timing::Model(_), None) => self.env.after(Nanos::ZERO, event),
        }
        match receiver.await {
            Some(result) => result,
            // The world has ended; whoever still asks is not part of it.
            None => pending().await,
        }
    }

    fn finish<T>(
        &self,
        request: Request,
        fault: Option<DriveErrorKind>,
        act: impl FnOnce() -> T,
    ) -> Result<T, DriveError> {
        let fault = if self.is_gone() { Some(DriveErrorKind::Removed) } else { fault };
        let Some(kind) = fault else {
            self.trace(Phase::Completed, request);
            return Ok(act());
        };
        self.trace(Phase::Failed, request);
        drop(act);
        if !self.is_gone() {
            self.disk.settle();
        }
        Err(request.error(kind))
    }

    fn is_gone(&self) -> bool {
        self.disk.is_failed() || self.disk.power_cycles() != self.power_cycle
    }

    fn delay(&self, latency: &Latency, request: Request, durability: Durability) -> Nanos {
        let average = latency.average(request.operation, request.len, durability).0;
        self.env.with_rng(|rng| {
            let stall = rng.chance(1, Latency::STALL_ONE_IN);
            let factor = if stall { Latency::STALL_FACTOR } else { 1 };
            Nanos(factor * (average / 2 + rng.below(average + 1)))
        })
    }

    fn trace(&self, phase: Phase, request: Request) {
        let event = (phase as u64) << 8 | request.operation as u64;
        self.env.trace([event, self.disk.id(), request.offset, request.len]);
    }
}

impl Drive for Attached {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    fn name(&self) -> String {
        self.disk.name()
    }

    /// Sees what has completed when it completes itself.
    async fn read(&self, offset: u64, len: usize) -> Result<Buf, DriveError> {
        let request = Request { operation: Operation::Read, offset, len: len as u64 };
        self.admit(request).await?;
        let disk = self.disk.clone();
        let act = move || {
            let mut bytes = BufMut::with_len(len);
            disk.with_cache(|cache| cache.read(offset, &mut bytes));
            bytes.freeze()
        };
        self.perform(request, Durability::Cached, act).await
    }

    async fn write(
        &self,
        offset: u64,
        data: Buf,
        durability: Durability,
    ) -> Result<(), DriveError> {
        let request = Request { operation: Operation::Write, offset, len: data.len() as u64 };
        self.admit(request).await?;
        self.env.count_write();
        let in_flight = (!self.disk.loses()).then(|| self.disk.submit(offset, data));
        let act = move || in_flight.into_iter().for_each(|write| write.complete(durability));
        self.perform(request, durability, act).await
    }

    async fn flush(&self) -> Result<(), DriveError> {
        let request = Request { operation: Operation::Flush, offset: 0, len: 0 };
        self.admit(request).await?;
        let disk = self.disk.clone();
        let version = disk.with_cache(|cache| cache.version());
        let act = move || disk.with_cache(|cache| cache.flush(version));
        self.perform(request, Durability::Durable, act).await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DriveError> {
        let request = Request { operation: Operation::Discard, offset, len };
        self.admit(request).await?;
        let disk = self.disk.clone();
        let act = move || disk.with_cache(|cache| cache.discard(offset, len));
        self.perform(request, Durability::Cached, act).await
    }

    /// A write that takes the time of a discard.
    async fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), DriveError> {
        let request = Request { operation: Operation::Discard, offset, len };
        self.admit(request).await?;
        self.env.count_write();
        let (disk, durability) = (self.disk.clone(), Durability::Cached);
        let in_flight = disk.submit(offset, Buf::zeroed(len as usize));
        let act = move || {
            in_flight.complete(durability);
            if disk.garbles_zeroes() {
                disk.with_cache(|cache| cache.discard(offset, len));
            }
        };
        self.perform(request, durability, act).await
    }

    fn takes_write_zeroes(&self) -> bool {
        self.disk.takes_write_zeroes()
    }
}
