//! What the tasks of one shard wait on. Single-threaded, first come first served, and correct
//! when a waiting future is dropped half-way.
//!
//! Wakers are always called after the borrow of the waiting list has ended: a waker is foreign
//! code.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Who waits, in order. Bounded by the number of tasks and requests, which have bounds of
/// their own. Tickets ascend, so a waiter is found by binary search; a ticket that isn't in
/// the line has been served.
struct Line<T> {
    waiting: VecDeque<Waiter<T>>,
    next_ticket: u64,
}

struct Waiter<T> {
    ticket: u64,
    want: T,
    waker: Option<Waker>,
}

impl<T> Line<T> {
    const fn new() -> Line<T> {
        Line { waiting: VecDeque::new(), next_ticket: 0 }
    }

    fn join(&mut self, want: T) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiting.push_back(Waiter { ticket, want, waker: None });
        ticket
    }

    /// Takes the head out of the line if it may be served.
    fn serve_if(&mut self, may: impl FnOnce(&Waiter<T>) -> bool) -> Option<Waiter<T>> {
        if may(self.waiting.front()?) { self.waiting.pop_front() } else { None }
    }

    fn find(&self, ticket: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&ticket, |waiter| waiter.ticket).ok()
    }

    /// False if the ticket has been served; otherwise it will wake `context` then.
    fn keep_waiting(&mut self, ticket: u64, context: &Context<'_>) -> bool {
        let Some(place) = self.find(ticket) else { return false };
        match &mut self.waiting[place].waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        true
    }

    /// False if the ticket has been served.
    fn leave(&mut self, ticket: u64) -> bool {
        self.find(ticket).map(|place| self.waiting.remove(place)).is_some()
    }
}

/// Something that happens again and again. Nothing is stored: a notify reaches those who wait
/// already, nobody else.
#[derive(Clone, Default)]
pub struct Event {
    state: Rc<RefCell<EventState>>,
}

struct EventState {
    line: Line<()>,
    /// Served by `notify_one` and not yet aware of it. If such a waiter is dropped, its
    /// notification goes to the next one.
    chosen: Vec<u64>,
}

impl Default for EventState {
    fn default() -> EventState {
        EventState { line: Line::new(), chosen: Vec::new() }
    }
}

impl Event {
    pub fn new() -> Event {
        Event::default()
    }

    /// Wakes everyone who waits now.
    pub fn notify_all(&self) {
        let end = self.state.borrow().line.next_ticket;
        loop {
            let mut state = self.state.borrow_mut();
            let Some(waiter) = state.line.serve_if(|waiter| waiter.ticket < end) else { return };
            drop(state);
            waiter.waker.inspect(Waker::wake_by_ref);
        }
    }

    /// Wakes the one who waits longest.
    pub fn notify_one(&self) {
        let mut state = self.state.borrow_mut();
        let Some(waiter) = state.line.waiting.pop_front() else { return };
        state.chosen.push(waiter.ticket);
        drop(state);
        waiter.waker.inspect(Waker::wake_by_ref);
    }

    /// Waits for the next notify. The place in the line is taken by this call, not by the
    /// first poll.
    pub fn wait(&self) -> EventWait {
        let ticket = self.state.borrow_mut().line.join(());
        EventWait { event: self.clone(), ticket: Some(ticket) }
    }

    pub fn has_waiters(&self) -> bool {
        !self.state.borrow().line.waiting.is_empty()
    }
}

/// The future of [`Event::wait`].
#[must_use = "futures do nothing unless awaited"]
pub struct EventWait {
    event: Event,
    /// `None` once completed.
    ticket: Option<u64>,
}

impl EventState {
    /// True if `ticket` had been chosen by `notify_one`.
    fn unchoose(&mut self, ticket: u64) -> bool {
        let place = self.chosen.iter().position(|&chosen| chosen == ticket);
        place.map(|place| self.chosen.swap_remove(place)).is_some()
    }
}

impl Future for EventWait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(ticket) = self.ticket else { return Poll::Ready(()) };
        let mut state = self.event.state.borrow_mut();
        if state.line.keep_waiting(ticket, context) {
            return Poll::Pending;
        }
        state.unchoose(ticket);
        drop(state);
        self.ticket = None;
        Poll::Ready(())
    }
}

impl Drop for EventWait {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let mut state = self.event.state.borrow_mut();
        if state.line.leave(ticket) || !state.unchoose(ticket) {
            return;
        }
        drop(state);
        self.event.notify_one();
    }
}

/// Counts something there is a limited amount of. First come, first served: a large request
/// at the head of the line is not overtaken by small ones.
#[derive(Clone)]
pub struct Semaphore {
    state: Rc<RefCell<SemaphoreState>>,
}

struct SemaphoreState {
    available: usize,
    line: Line<usize>,
}

impl Semaphore {
    pub fn new(permits: usize) -> Semaphore {
        let state = SemaphoreState { available: permits, line: Line::new() };
        Semaphore { state: Rc::new(RefCell::new(state)) }
    }

    /// Waits for `count` permits. The place in the line is taken at the first poll. Asking
    /// for more than there will ever be waits for ever, with everyone behind.
    pub fn acquire(&self, count: usize) -> Acquire {
        Acquire { semaphore: self.clone(), count, ticket: None }
    }

    /// `count` permits if they are free and nobody waits.
    pub fn try_acquire(&self, count: usize) -> Option<Permit> {
        let mut state = self.state.borrow_mut();
        if !state.line.waiting.is_empty() || state.available < count {
            return None;
        }
        state.available -= count;
        Some(Permit { semaphore: self.clone(), count })
    }

    pub fn add_permits(&self, count: usize) {
        self.state.borrow_mut().available += count;
        self.serve();
    }

    pub fn available(&self) -> usize {
        self.state.borrow().available
    }

    pub fn has_waiters(&self) -> bool {
        !self.state.borrow().line.waiting.is_empty()
    }

    /// Gives what is available to the head of the line, as often as it suffices.
    fn serve(&self) {
        loop {
            let mut state = self.state.borrow_mut();
            let available = state.available;
            let head = state.line.serve_if(|waiter| waiter.want <= available);
            let Some(head) = head else { return };
            state.available -= head.want;
            drop(state);
            head.waker.inspect(Waker::wake_by_ref);
        }
    }
}

/// The future of [`Semaphore::acquire`].
#[must_use = "futures do nothing unless awaited"]
pub struct Acquire {
    semaphore: Semaphore,
    count: usize,
    /// `Some` while in the line, or served and not yet aware of it.
    ticket: Option<u64>,
}

impl Future for Acquire {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit> {
        let count = self.count;
        let ticket = match self.ticket {
            Some(ticket) => ticket,
            None => {
                if let Some(permit) = self.semaphore.try_acquire(count) {
                    return Poll::Ready(permit);
                }
                let ticket = self.semaphore.state.borrow_mut().line.join(count);
                self.ticket = Some(ticket);
                ticket
            }
        };
        if self.semaphore.state.borrow_mut().line.keep_waiting(ticket, context) {
            return Poll::Pending;
        }
        self.ticket = None;
        Poll::Ready(Permit { semaphore: self.semaphore.clone(), count })
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        let waiting = self.semaphore.state.borrow_mut().line.leave(ticket);
        if waiting {
            // It may have been the large request that held up the small ones behind it.
            self.semaphore.serve();
        } else {
            self.semaphore.add_permits(self.count);
        }
    }
}

/// Permits of a [`Semaphore`]; they go back when this is dropped.
#[must_use = "permits are given back at once"]
pub struct Permit {
    semaphore: Semaphore,
    count: usize,
}

impl Permit {
    pub fn count(&self) -> usize {
        self.count
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.semaphore.add_permits(self.count);
    }
}

/// One at a time, in the order of asking: for sequences of awaits that must not interleave.
#[derive(Clone)]
pub struct Turn {
    semaphore: Semaphore,
}

impl Default for Turn {
    fn default() -> Turn {
        Turn { semaphore: Semaphore::new(1) }
    }
}

impl Turn {
    pub fn new() -> Turn {
        Turn::default()
    }

    pub fn lock(&self) -> Acquire {
        self.semaphore.acquire(1)
    }

    pub fn try_lock(&self) -> Option<Permit> {
        self.semaphore.try_acquire(1)
    }
}

/// One value for one receiver.
pub fn oneshot<T>() -> (Sender<T>, Receiver<T>) {
    let state = Rc::new(RefCell::new(Oneshot { value: None, closed: false, waker: None }));
    (Sender { state: state.clone() }, Receiver { state })
}

struct Oneshot<T> {
    value: Option<T>,
    /// The sender is gone.
    closed: bool,
    waker: Option<Waker>,
}

pub struct Sender<T> {
    state: Rc<RefCell<Oneshot<T>>>,
}

impl<T> Sender<T> {
    /// The value is dropped if the receiver is gone.
    pub fn send(self, value: T) {
        // Dropping `self` wakes the receiver.
        self.state.borrow_mut().value = Some(value);
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.state.borrow_mut();
        state.closed = true;
        let waker = state.waker.take();
        drop(state);
        waker.inspect(Waker::wake_by_ref);
    }
}

/// Completes with the value, or with `None` if the sender was dropped without sending.
#[must_use = "futures do nothing unless awaited"]
pub struct Receiver<T> {
    state: Rc<RefCell<Oneshot<T>>>,
}

impl<T> Future for Receiver<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut state = self.state.borrow_mut();
        if let Some(value) = state.value.take() {
            return Poll::Ready(Some(value));
        }
        if state.closed {
            return Poll::Ready(None);
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

#[cfg(test)]
mod tests;
