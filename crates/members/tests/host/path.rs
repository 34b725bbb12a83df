//! The way from a host to a drive: claims may arrive late there, when who wrote them is long dead.

use std::cell::Cell;
use std::rc::Rc;

use format::{BEAT_AT, CLAIM_AT};
use io::sync::oneshot;
use io::virt::{VirtDrive, VirtEnv};
use io::{Buf, Drive, DriveError, Durability, Env, Geometry, Nanos};

/// Longer than it takes somebody else to take over.
pub const LATE_MAX_MILLIS: u64 = 25_000;

#[derive(Clone)]
pub struct Path {
    world: VirtEnv,
    drive: VirtDrive,
    late_one_in: u64,
    /// Of all drives of one process: when what is under way arrives.
    jam: Rc<Cell<Nanos>>,
    /// Is told of writes that are no claims, when they get here.
    witness: Rc<dyn Fn()>,
}

impl Path {
    pub fn new(
        world: &VirtEnv,
        drive: VirtDrive,
        late_one_in: u64,
        jam: &Rc<Cell<Nanos>>,
        witness: &Rc<dyn Fn()>,
    ) -> Path {
        let (world, jam, witness) = (world.clone(), jam.clone(), witness.clone());
        Path { world, drive, late_one_in, jam, witness }
    }

    /// When a claim arrives that is sent now, if not at once.
    fn arrival(&self) -> Option<Nanos> {
        let now = self.world.now();
        if now < self.jam.get() {
            return Some(self.jam.get());
        }
        if !self.world.random().is_multiple_of(self.late_one_in) {
            return None;
        }
        let arrival = now + Nanos::from_millis(self.world.random() % LATE_MAX_MILLIS);
        if self.world.random().is_multiple_of(2) {
            self.jam.set(arrival);
        }
        Some(arrival)
    }
}

impl Drive for Path {
    fn geometry(&self) -> Geometry {
        self.drive.geometry()
    }

    fn name(&self) -> String {
        self.drive.name()
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Buf, DriveError> {
        self.drive.read(offset, len).await
    }

    async fn write(&self, offset: u64, data: Buf, how: Durability) -> Result<(), DriveError> {
        let arrival = match [CLAIM_AT, BEAT_AT].contains(&offset) {
            true => self.arrival(),
            false => {
                (self.witness)();
                None
            }
        };
        let Some(arrival) = arrival else {
            return self.drive.write(offset, data, how).await;
        };
        // On its way whatever becomes of who sent it.
        let (world, drive) = (self.world.clone(), self.drive.clone());
        let (done, arrived) = oneshot();
        self.world.spawn(async move {
            world.sleep_until(arrival).await;
            done.send(drive.write(offset, data, how).await);
        });
        arrived.await.expect("it arrives")
    }

    async fn flush(&self) -> Result<(), DriveError> {
        self.drive.flush().await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DriveError> {
        self.drive.discard(offset, len).await
    }
}
