//! The ring: operations in flight, each owning the memory the kernel may touch.
//!
//! An operation lives in a slot from its start until the kernel has completed it, whatever
//! happens to the future that waits for it. A future dropped early leaves its slot behind
//! (*abandoned*); the buffer is freed only when the kernel has let go of it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::mem;
use std::os::fd::{FromRawFd, OwnedFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use io_uring::squeue::{Entry, Flags};
use io_uring::{EnterFlags, IoUring, opcode, types};

use super::handle::Handle;
use super::handover::Watch;
use super::message::Message;
use super::setup;
use super::timers::Clock;
use crate::buf::{Buf, BufMut};
use crate::env::Nanos;

/// How long a closing ring waits for the kernel to let go of buffers. A drive that takes
/// longer is broken; its buffers are then leaked, never freed under it.
const CLOSE_WAIT: Nanos = Nanos::from_secs(10);

/// `user_data` of cancel requests, whose own completions say nothing of interest.
const NOBODY: u64 = u64::MAX;

/// What an operation lends to the kernel.
pub(crate) enum Held {
    Nothing,
    Fill(BufMut),
    Bytes(#[expect(dead_code, reason = "kept alive, never read again")] Buf),
    Message(Box<Message>),
    /// Nothing is lent, but a success is a new descriptor that someone must close.
    Accept,
}

/// Everything an operation keeps alive: the descriptor too, since its number could otherwise
/// be closed and given to another file before the entry is submitted.
struct Lent {
    _file: Rc<Handle>,
    held: Held,
}

enum State {
    Free,
    Running(Lent),
    Abandoned(Lent),
    Done(i32, Held),
}

struct Slot {
    /// Tells a late cancel request from the slot's next tenant.
    generation: u32,
    state: State,
    waker: Option<Waker>,
}

#[derive(Clone, Copy)]
struct Key {
    slot: u32,
    generation: u32,
}

impl Key {
    fn to_user_data(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.slot)
    }

    fn from_user_data(data: u64) -> Key {
        Key { slot: data as u32, generation: (data >> 32) as u32 }
    }
}

/// Fields drop in this order: the ring closes before the slots go.
struct Core {
    ring: IoUring,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Entries that found the submission queue full and the kernel unable to take more. One
    /// per operation in flight, so whoever bounds those bounds this.
    backlog: VecDeque<Entry>,
    in_flight: usize,
    /// Of the entries that were not handed over yet, those of drives.
    drives: Vec<Rc<Handle>>,
    watch: Watch,
}

/// A handle on the ring of this thread.
#[derive(Clone)]
pub(crate) struct Ring(Rc<RefCell<Core>>);

impl Ring {
    pub(crate) fn new() -> io::Result<Ring> {
        let ring = setup::ring()?;
        let core = Core {
            ring,
            slots: Vec::new(),
            free: Vec::new(),
            backlog: VecDeque::new(),
            in_flight: 0,
            drives: Vec::new(),
            watch: Watch::start(),
        };
        Ok(Ring(Rc::new(RefCell::new(core))))
    }

    /// Queues an operation; the next [`Ring::submit`] or [`Ring::wait`] hands it to the kernel.
    ///
    /// # Safety
    ///
    /// `entry` may point only to memory that `held` owns, at an address that does not change
    /// when `held` moves, and must use no descriptor but `file`.
    pub(crate) unsafe fn start(&self, file: &Rc<Handle>, mut entry: Entry, held: Held) -> Op {
        let mut core = self.0.borrow_mut();
        if file.is_drive() {
            if core.watch.is_apart(file) {
                entry = entry.flags(Flags::ASYNC);
            }
            core.drives.push(file.clone());
        }
        let key = core.occupy(Lent { _file: file.clone(), held });
        core.push(entry.user_data(key.to_user_data()));
        Op { ring: self.clone(), key, finished: false }
    }

    /// Hands queued operations to the kernel and lets it post completions; never blocks, and
    /// is no system call when there is nothing to do.
    pub(crate) fn submit(&self) {
        self.0.borrow_mut().submit();
    }

    /// The same of those of drives, if there are any: handing them over may take as long as
    /// waiting, and would be taken for it.
    pub(crate) fn hand_over_drives(&self) {
        let mut core = self.0.borrow_mut();
        if !core.drives.is_empty() {
            core.submit();
        }
    }

    /// Hands over queued operations and sleeps until one completes or `timeout` has passed.
    pub(crate) fn wait(&self, timeout: Option<Duration>) {
        self.0.borrow_mut().wait(timeout);
    }

    /// Takes the completions that are there and collects whom to wake. Waking is left to the
    /// caller, because a waker may drop a task and with it futures of this ring.
    pub(crate) fn reap(&self, woken: &mut Vec<Waker>) {
        self.0.borrow_mut().reap(woken);
    }
}

impl Core {
    fn occupy(&mut self, lent: Lent) -> Key {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, state: State::Free, waker: None });
            u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 operations in flight")
        });
        let place = &mut self.slots[slot as usize];
        assert!(matches!(place.state, State::Free), "a slot has one tenant");
        // The largest generation is never used: `NOBODY` would be one of its keys.
        place.generation = (place.generation + 1) % u32::MAX;
        place.state = State::Running(lent);
        self.in_flight += 1;
        Key { slot, generation: place.generation }
    }

    fn slot(&mut self, key: Key) -> &mut Slot {
        let slot = &mut self.slots[key.slot as usize];
        assert_eq!(slot.generation, key.generation, "a slot is used by its present tenant only");
        slot
    }

    fn push(&mut self, entry: Entry) {
        self.backlog.push_back(entry);
        if !self.refill() {
            self.submit();
            self.refill();
        }
    }

    /// Moves the backlog into the submission queue; false when that is full.
    fn refill(&mut self) -> bool {
        let mut queue = self.ring.submission();
        while let Some(entry) = self.backlog.front() {
            // SAFETY: the caller of `start` promised that the entry's memory is owned by its
            // slot, and a slot lets go of it only when the entry has completed.
            if unsafe { queue.push(entry) }.is_err() {
                return false;
            }
            self.backlog.pop_front();
        }
        true
    }

    fn submit(&mut self) {
        self.refill();
        let queue = self.ring.submission();
        let count = queue.len() as u32;
        let idle = queue.is_empty() && !queue.taskrun() && !queue.cq_overflow();
        drop(queue);
        if idle {
            return;
        }
        // Asking for events makes the kernel post the completions it deferred: one call
        // instead of two when an operation is done at once.
        let flags = EnterFlags::GETEVENTS.bits();
        let submitter = self.ring.submitter();
        // SAFETY: `count` entries are queued, and no argument is given.
        let enter = || unsafe { submitter.enter::<libc::sigset_t>(count, 0, flags, None) };
        if self.drives.is_empty() {
            return tolerate(enter());
        }
        let begun = self.watch.begin();
        tolerate(enter());
        self.watch.end(&begun, &self.drives);
        self.drives.clear();
    }

    fn wait(&mut self, timeout: Option<Duration>) {
        self.refill();
        let submitter = self.ring.submitter();
        tolerate(match timeout {
            None => submitter.submit_and_wait(1),
            Some(span) => {
                let span = types::Timespec::from(span);
                submitter.submit_with_args(1, &types::SubmitArgs::new().timespec(&span))
            }
        });
    }

    fn reap(&mut self, woken: &mut Vec<Waker>) {
        loop {
            let completion = self.ring.completion().next();
            let Some(entry) = completion else { return };
            if entry.user_data() != NOBODY {
                let key = Key::from_user_data(entry.user_data());
                woken.extend(self.complete(key, entry.result()));
            }
        }
    }

    fn complete(&mut self, key: Key, result: i32) -> Option<Waker> {
        self.in_flight -= 1;
        let slot = self.slot(key);
        match mem::replace(&mut slot.state, State::Free) {
            State::Running(lent) => {
                slot.state = State::Done(result, lent.held);
                slot.waker.take()
            }
            State::Abandoned(lent) => {
                self.free.push(key.slot);
                close_unwanted(result, &lent.held);
                None
            }
            State::Free | State::Done(..) => unreachable!("one completion per operation"),
        }
    }

    /// Nobody waits for the operation any more. Hands back the waker, to be dropped when the
    /// ring is no longer borrowed.
    fn abandon(&mut self, key: Key) -> Option<Waker> {
        let slot = self.slot(key);
        let waker = slot.waker.take();
        match mem::replace(&mut slot.state, State::Free) {
            State::Running(lent) => {
                slot.state = State::Abandoned(lent);
                let cancel = opcode::AsyncCancel::new(key.to_user_data()).build();
                self.push(cancel.user_data(NOBODY));
            }
            State::Done(result, held) => {
                self.free.push(key.slot);
                close_unwanted(result, &held);
            }
            State::Free | State::Abandoned(_) => unreachable!("an operation has one future"),
        }
        waker
    }

    /// The result and what was lent, once the kernel has completed the operation.
    fn finish(&mut self, key: Key) -> Option<(i32, Held)> {
        let slot = self.slot(key);
        match mem::replace(&mut slot.state, State::Free) {
            State::Done(result, held) => {
                self.free.push(key.slot);
                Some((result, held))
            }
            other => {
                slot.state = other;
                None
            }
        }
    }
}

impl Drop for Core {
    /// Every future is gone by now and its operation cancelled; what remains is to wait until
    /// the kernel has let go of the memory.
    fn drop(&mut self) {
        let clock = Clock::start();
        while self.in_flight > 0 && clock.now() < CLOSE_WAIT {
            self.wait(Some(Duration::from_millis(100)));
            self.reap(&mut Vec::new());
        }
        if self.in_flight > 0 {
            mem::forget(mem::take(&mut self.slots));
        }
    }
}

/// One operation in flight. Dropping it cancels the operation as far as the kernel can.
pub(crate) struct Op {
    ring: Ring,
    key: Key,
    finished: bool,
}

impl Future for Op {
    type Output = (i32, Held);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<(i32, Held)> {
        let mut core = self.ring.0.borrow_mut();
        if let Some(finished) = core.finish(self.key) {
            drop(core);
            self.finished = true;
            return Poll::Ready(finished);
        }
        let earlier = core.slot(self.key).waker.replace(context.waker().clone());
        drop(core);
        drop(earlier);
        Poll::Pending
    }
}

impl Drop for Op {
    fn drop(&mut self) {
        if !self.finished {
            let waker = self.ring.0.borrow_mut().abandon(self.key);
            drop(waker);
        }
    }
}

/// Closes the descriptor of a connection that was accepted for nobody.
fn close_unwanted(result: i32, held: &Held) {
    if result >= 0 && matches!(held, Held::Accept) {
        // SAFETY: a successful accept returns a new descriptor, and nobody else saw this one.
        drop(unsafe { OwnedFd::from_raw_fd(result) });
    }
}

/// Errors of `io_uring_enter` that only mean "later": a timeout, a signal, completions to be
/// reaped first, no memory for requests right now. Any other is a bug of ours.
fn tolerate(entered: io::Result<usize>) {
    if let Err(error) = entered {
        let code = error.raw_os_error().unwrap_or(0);
        let later = [libc::ETIME, libc::EINTR, libc::EBUSY, libc::EAGAIN, libc::ENOMEM];
        assert!(later.contains(&code), "io_uring_enter failed: {error}");
    }
}
