//! A fence before drives: nothing passes but while somebody vouches that they are still ours.
//!
//! ```text
//!            until a time          vouched for again
//!  passable ─────────────> shut ─────────────────────> passable
//!      └──────── they are somebody else's ────> shut for good
//! ```
//! What is asked while it is shut waits before it reaches the drive; what a drive answered
//! meanwhile waits before anybody hears of it. Shut for good, all of it waits for ever: neither a
//! client nor the pool's own state ever learns of it.
//!
//! What tells whose they are lies on the drives themselves: nothing that passes changes it.

use std::cell::Cell;
use std::fmt;
use std::ops::Range;
use std::rc::{Rc, Weak};

use crate::buf::Buf;
use crate::drive::{Drive, DriveError, DriveErrorKind, Durability, Geometry, Operation};
use crate::env::{Env, Nanos};
use crate::shortage::{RETRY, Shortage};
use crate::sync::Event;

#[derive(Default)]
pub struct Fence {
    until: Cell<Nanos>,
    for_good: Cell<bool>,
    /// Whoever comes is turned away, and need not wait.
    closed: Cell<bool>,
    changed: Event,
}

impl Fence {
    /// Passable until then at least.
    pub fn vouch(&self, until: Nanos) {
        self.until.set(self.until.get().max(until));
        self.changed.notify_all();
    }

    /// For good.
    pub fn shut(&self) {
        self.for_good.set(true);
    }

    /// The same, by who has no use for the drive any more: nobody has to wait, so that it can be
    /// let go.
    pub fn close(&self) {
        self.shut();
        self.closed.set(true);
        self.changed.notify_all();
    }

    fn is_passable(&self, now: Nanos) -> bool {
        !self.for_good.get() && now < self.until.get()
    }

    /// Waits while it is shut; false if it is closed.
    pub async fn pass<E: Env>(&self, env: &E) -> bool {
        // The clock itself, not a recent look at it: a process may have been stopped meanwhile.
        while !self.closed.get() && !self.is_passable(env.now()) {
            self.changed.wait().await;
        }
        !self.closed.get()
    }
}

/// A drive behind a fence; clones name the same one.
pub struct Fenced<E, D> {
    inner: Rc<Inner<E, D>>,
}

impl<E, D> Clone for Fenced<E, D> {
    fn clone(&self) -> Self {
        Fenced { inner: self.inner.clone() }
    }
}

struct Inner<E, D> {
    env: E,
    drive: D,
    fence: Fence,
    /// Bytes that are left as they are, whatever is written or discarded there.
    kept: Range<u64>,
    /// Writes and discards that the drive has not ended.
    under_way: Cell<u64>,
    shortage: Rc<Shortage>,
    /// Operations that wait because of it.
    short: Cell<u64>,
}

/// Keeps nobody from closing the drive.
pub struct WeakFenced<E, D> {
    inner: Weak<Inner<E, D>>,
}

impl<E: Env, D: Drive> Fenced<E, D> {
    /// The bytes `kept` are left as they are.
    pub fn new(env: &E, drive: D, kept: Range<u64>) -> Fenced<E, D> {
        Fenced::sharing(env, drive, kept, &Rc::default())
    }

    /// One of several that tell of a shortage together.
    pub fn sharing(env: &E, drive: D, kept: Range<u64>, shortage: &Rc<Shortage>) -> Fenced<E, D> {
        let (fence, [under_way, short]) = Default::default();
        let (env, shortage) = (env.clone(), shortage.clone());
        Fenced { inner: Rc::new(Inner { env, drive, fence, kept, under_way, shortage, short }) }
    }

    /// What is behind the fence.
    pub fn bare(&self) -> &D {
        &self.inner.drive
    }

    pub fn downgrade(&self) -> WeakFenced<E, D> {
        WeakFenced { inner: Rc::downgrade(&self.inner) }
    }

    /// Nothing that passed the fence may still alter the drive.
    pub fn is_idle(&self) -> bool {
        self.inner.under_way.get() == 0
    }

    /// The fence that is before it.
    pub fn fence(&self) -> &Fence {
        &self.inner.fence
    }

    /// Asks the drive, between two looks at the fence; again, as long as this machine lacks what
    /// it needs.
    async fn through<T>(
        &self,
        (asked, offset, len): (Operation, u64, u64),
        operation: impl AsyncFn() -> Result<T, DriveError>,
    ) -> Result<T, DriveError> {
        let Inner { env, fence, shortage, short, .. } = &*self.inner;
        let kind = DriveErrorKind::Removed;
        let closed = Err(DriveError { operation: asked, offset, len, kind });
        let mut waiting = None;
        loop {
            if !fence.pass(env).await {
                return closed;
            }
            let done = self.counted(asked, operation()).await;
            if !fence.pass(env).await {
                return closed;
            }
            let lacking = done.as_ref().err().and_then(|error| shortage.waited_for(error));
            let Some(errno) = lacking else { return done };
            waiting.get_or_insert_with(|| shortage.begin(errno, short, env.now()));
            env.sleep_until(env.now() + RETRY).await;
        }
    }

    /// One that nobody waits for any more stays counted: the drive may do it yet. Reads harm
    /// nobody.
    async fn counted<T>(&self, asked: Operation, operation: impl Future<Output = T>) -> T {
        let alters = u64::from(matches!(asked, Operation::Write | Operation::Discard));
        let under_way = &self.inner.under_way;
        under_way.set(under_way.get() + alters);
        let done = operation.await;
        under_way.set(under_way.get() - alters);
        done
    }

    /// Frees a range, but for what is kept.
    async fn freed(
        &self,
        offset: u64,
        len: u64,
        free: impl AsyncFn(u64, u64) -> Result<(), DriveError>,
    ) -> Result<(), DriveError> {
        let whole = [offset..offset + len, 0..0];
        let pieces = self.around(offset, len).unwrap_or(whole);
        let mut freed = Ok(());
        for Range { start, end } in pieces.into_iter().filter(|piece| !piece.is_empty()) {
            let asked = (Operation::Discard, start, end - start);
            freed = freed.and(self.through(asked, async || free(start, end - start).await).await);
        }
        freed
    }

    /// The range without what is kept, in two pieces if that lies in it.
    fn around(&self, offset: u64, len: u64) -> Option<[Range<u64>; 2]> {
        let (kept, end) = (&self.inner.kept, offset + len);
        let touches = offset < kept.end && kept.start < end;
        touches.then(|| [offset..kept.start.max(offset), kept.end.min(end)..end])
    }
}

impl<E, D> Clone for WeakFenced<E, D> {
    fn clone(&self) -> Self {
        WeakFenced { inner: self.inner.clone() }
    }
}

impl<E, D> WeakFenced<E, D> {
    /// `None` once nobody uses the drive any more.
    pub fn upgrade(&self) -> Option<Fenced<E, D>> {
        self.inner.upgrade().map(|inner| Fenced { inner })
    }
}

impl<E: Env, D: Drive> fmt::Debug for Fenced<E, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fenced({})", self.inner.drive.name())
    }
}

impl<E: Env, D: Drive> Drive for Fenced<E, D> {
    fn geometry(&self) -> Geometry {
        self.inner.drive.geometry()
    }

    fn name(&self) -> String {
        self.inner.drive.name()
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Buf, DriveError> {
        let asked = (Operation::Read, offset, len as u64);
        self.through(asked, async || self.inner.drive.read(offset, len).await).await
    }

    async fn write(
        &self,
        offset: u64,
        data: Buf,
        durability: Durability,
    ) -> Result<(), DriveError> {
        let drive = &self.inner.drive;
        let Some(pieces) = self.around(offset, data.len() as u64) else {
            let write = async || drive.write(offset, data.clone(), durability).await;
            return self.through((Operation::Write, offset, data.len() as u64), write).await;
        };
        let mut written = Ok(());
        for piece in pieces.into_iter().filter(|piece| !piece.is_empty()) {
            let bytes = (piece.start - offset) as usize..(piece.end - offset) as usize;
            let data = data.slice(bytes);
            let write = async || drive.write(piece.start, data.clone(), durability).await;
            let asked = (Operation::Write, piece.start, data.len() as u64);
            written = written.and(self.through(asked, write).await);
        }
        written
    }

    async fn flush(&self) -> Result<(), DriveError> {
        let asked = (Operation::Flush, 0, 0);
        self.through(asked, async || self.inner.drive.flush().await).await
    }

    async fn discard(&self, offset: u64, len: u64) -> Result<(), DriveError> {
        let drive = &self.inner.drive;
        self.freed(offset, len, async |start, len| drive.discard(start, len).await).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), DriveError> {
        let drive = &self.inner.drive;
        self.freed(offset, len, async |start, len| drive.write_zeroes(start, len).await).await
    }

    fn takes_write_zeroes(&self) -> bool {
        self.inner.drive.takes_write_zeroes()
    }

    fn discard_granularity(&self) -> Option<u32> {
        self.inner.drive.discard_granularity()
    }

    fn is_short(&self) -> bool {
        self.inner.short.get() > 0
    }

    fn begins_at(&self) -> u64 {
        self.inner.drive.begins_at()
    }

    fn holds_zeroes(&self) -> bool {
        self.inner.drive.holds_zeroes()
    }

    fn identity(&self) -> Option<[u8; 16]> {
        self.inner.drive.identity()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::virt::{Disk, Latency, VirtDrive, VirtEnv};

    #[test]
    fn nothing_passes_while_it_is_shut() {
        let env = VirtEnv::new(1);
        let disk = Disk::new("d0", 1 << 20, 4096, 1);
        let drive = Fenced::new(&env, VirtDrive::attach(&env, &disk, Latency::SSD), 0..0);
        let told: Rc<RefCell<Vec<&str>>> = Rc::default();
        let (own, say, asked) = (env.clone(), told.clone(), drive.clone());
        env.spawn(async move {
            asked.write(0, Buf::from_slice(&[7; 4096]), Durability::Cached).await.unwrap();
            say.borrow_mut().push("written");
            own.sleep_until(own.now() + Nanos::from_secs(5)).await;
            asked.read(0, 4096).await.unwrap();
            say.borrow_mut().push("read");
        });
        let pause = |secs| env.sleep_until(env.now() + Nanos::from_secs(secs));
        env.block_on(pause(1));
        assert!(told.borrow().is_empty(), "nobody has vouched yet");
        let seen = env.block_on(drive.bare().read(0, 4096)).unwrap();
        assert_eq!(&seen[..2], [0, 0], "it has not reached the drive");
        drive.fence().vouch(env.now() + Nanos::from_secs(1));
        env.block_on(pause(2));
        assert_eq!(*told.borrow(), ["written"]);
        drive.fence().shut();
        drive.fence().vouch(env.now() + Nanos::from_secs(100));
        env.block_on(pause(50));
        assert_eq!(*told.borrow(), ["written"], "shut for good");
    }

    #[test]
    fn what_is_kept_stays_whatever_is_written_or_discarded_there() {
        const PAGE: u64 = 4096;
        let env = VirtEnv::new(1);
        let disk = Disk::new("d0", 1 << 20, 4096, 1);
        let bare = VirtDrive::attach(&env, &disk, Latency::SSD);
        let drive = Fenced::new(&env, bare.clone(), 2 * PAGE..4 * PAGE);
        drive.fence().vouch(Nanos::from_secs(100));
        let all = |byte, pages| Buf::from_slice(&vec![byte; pages * PAGE as usize]);
        let seen = || {
            disk.peek(0, 6 * PAGE as usize)
                .chunks(PAGE as usize)
                .map(|page| page[0])
                .collect::<Vec<u8>>()
        };
        env.block_on(bare.write(0, all(9, 6), Durability::Cached)).unwrap();
        env.block_on(drive.write(0, all(1, 6), Durability::Cached)).unwrap();
        assert_eq!(seen(), [1, 1, 9, 9, 1, 1]);
        env.block_on(drive.write(PAGE, all(2, 2), Durability::Cached)).unwrap();
        env.block_on(drive.write(3 * PAGE, all(3, 2), Durability::Cached)).unwrap();
        env.block_on(drive.write(2 * PAGE, all(4, 2), Durability::Cached)).unwrap();
        assert_eq!(seen(), [1, 2, 9, 9, 3, 1]);
        env.block_on(drive.discard(0, 6 * PAGE)).unwrap();
        assert_eq!(seen()[2..4], [9, 9]);
        env.block_on(drive.write(4 * PAGE, all(5, 1), Durability::Cached)).unwrap();
        assert_eq!(disk.peek(4 * PAGE, 1), [5]);
    }

    #[test]
    fn what_was_answered_while_it_was_shut_is_not_told() {
        let env = VirtEnv::new(1);
        let disk = Disk::new("d0", 1 << 20, 4096, 1);
        let drive = Fenced::new(&env, VirtDrive::attach(&env, &disk, Latency::SSD), 0..0);
        // Time for the write to reach the drive, none to hear of it.
        drive.fence().vouch(env.now() + Nanos(1));
        let told = Rc::new(Cell::new(false));
        let (say, asked) = (told.clone(), drive.clone());
        env.spawn(async move {
            asked.write(0, Buf::from_slice(&[7; 4096]), Durability::Cached).await.unwrap();
            say.set(true);
        });
        env.block_on(env.sleep_until(Nanos::from_secs(1)));
        let seen = env.block_on(drive.bare().read(0, 4096)).unwrap();
        assert_eq!((&seen[..2], told.get()), (&[7, 7][..], false));
        drive.fence().vouch(Nanos::from_secs(10));
        env.block_on(env.yield_now());
        env.block_on(env.sleep_until(Nanos::from_secs(2)));
        assert!(told.get());
    }

    /// A drive that has no room for the next three writes.
    fn without_room(env: &VirtEnv) -> (Disk, Fenced<VirtEnv, VirtDrive>, Rc<Shortage>) {
        let disk = Disk::new("d0", 1 << 20, 4096, 1);
        for nth in 1..=3 {
            disk.fail_nth(Operation::Write, nth, DriveErrorKind::NoRoom(libc::ENOSPC));
        }
        let shortage = Rc::<Shortage>::default();
        let bare = VirtDrive::attach(env, &disk, Latency::SSD);
        let drive = Fenced::sharing(env, bare, 0..0, &shortage);
        drive.fence().vouch(Nanos::from_secs(1));
        (disk, drive, shortage)
    }

    #[test]
    fn what_finds_no_room_waits_until_there_is_some() {
        let env = VirtEnv::new(1);
        let (disk, drive, shortage) = without_room(&env);
        let write = || drive.write(0, Buf::from_slice(&[7; 4096]), Durability::Cached);
        // Unless whoever has the drive wants to know at once.
        let refused = env.block_on(write()).unwrap_err();
        assert_eq!(refused.kind, DriveErrorKind::NoRoom(libc::ENOSPC));
        shortage.wait();
        let watched = async {
            let short = shortage.begins().await;
            assert!(short.is_space() && drive.is_short(), "{short}");
            shortage.ends().await;
            assert!(!drive.is_short());
        };
        let (written, ()) =
            env.block_on(async { futures_util::future::join(write(), watched).await });
        written.unwrap();
        assert!(env.now() >= Nanos(2 * RETRY.0), "{}", env.now());
        assert_eq!(disk.peek(0, 1), [7]);
        // Another error is none of these.
        disk.fail_nth(Operation::Write, 1, DriveErrorKind::Os(libc::EIO));
        env.block_on(write()).unwrap_err();
    }

    #[test]
    fn what_waits_for_room_does_not_pass_a_fence_that_was_shut() {
        let env = VirtEnv::new(1);
        let (disk, drive, shortage) = without_room(&env);
        shortage.wait();
        let asked = drive.clone();
        env.spawn(async move {
            let _never = asked.write(0, Buf::from_slice(&[7; 4096]), Durability::Cached).await;
        });
        env.block_on(env.sleep_until(Nanos(RETRY.0 / 2)));
        assert!(drive.is_short());
        drive.fence().shut();
        let before = disk.peek(0, 4096);
        env.block_on(env.sleep_until(Nanos::from_secs(50)));
        // The third try would have failed, the fourth would have been done.
        assert_eq!(disk.peek(0, 4096), before);
        assert!(drive.is_idle());
    }
}
