//! What the pool's clients are doing now, for whoever should keep out of their way.
//!
//! Two latencies are followed: of requests that met background work on the drives, and of those
//! that did not. Their ratio is the harm that background work does, whatever the drives, the
//! request sizes or the queue depth are just now. Each is a high quantile, kept as one number
//! that every request moves a little (stochastic approximation): up by an eighth when it took
//! longer, down by a 512th when not, which is at rest where one in 64 takes longer.

use std::cell::Cell;

use io::Nanos;

#[derive(Clone, Copy, Default)]
struct State {
    in_flight: u32,
    /// When the last request was over.
    ended: Nanos,
    /// Groups of background operations on their way, and begun so far.
    groups: u32,
    groups_begun: u64,
    beside: u64,
    alone: u64,
}

#[derive(Default)]
pub struct Foreground {
    state: Cell<State>,
}

/// A request on its way. Dropped without [`Request::done`] it was never answered.
pub struct Request<'a> {
    foreground: &'a Foreground,
    started: Nanos,
    /// Groups begun by then; `None` if one was on its way.
    undisturbed: Option<u64>,
}

impl Foreground {
    /// A read or write comes in.
    #[inline]
    pub fn begin(&self, now: Nanos) -> Request<'_> {
        let mut state = self.state.get();
        state.in_flight += 1;
        self.state.set(state);
        let undisturbed = (state.groups == 0).then_some(state.groups_begun);
        Request { foreground: self, started: now, undisturbed }
    }

    pub fn in_flight(&self) -> u32 {
        self.state.get().in_flight
    }

    /// Since the last request was over; zero while there are any.
    pub fn idle_nanos(&self, now: Nanos) -> u64 {
        let state = self.state.get();
        if state.in_flight > 0 { 0 } else { now.saturating_sub(state.ended).0 }
    }

    /// High quantiles in nanoseconds (beside background work, without); zero: none yet.
    pub fn latencies(&self) -> (u64, u64) {
        let state = self.state.get();
        (state.beside, state.alone)
    }

    pub fn group_begun(&self) {
        let mut state = self.state.get();
        state.groups += 1;
        state.groups_begun += 1;
        // Harm done long ago is forgotten by and by, or the little work it leaves us would need
        // as long again to learn that there is none any more.
        if state.beside > state.alone {
            state.beside -= (state.beside - state.alone) / 64;
        }
        self.state.set(state);
    }

    pub fn group_over(&self) {
        let mut state = self.state.get();
        state.groups -= 1;
        self.state.set(state);
    }
}

impl Request<'_> {
    /// It was answered.
    #[inline]
    pub fn done(self, now: Nanos) {
        let mut state = self.foreground.state.get();
        state.ended = now;
        let took = now.saturating_sub(self.started).0;
        if self.undisturbed == Some(state.groups_begun) {
            state.alone = follow(state.alone, took);
        } else {
            state.beside = follow(state.beside, took);
        }
        self.foreground.state.set(state);
    }
}

impl Drop for Request<'_> {
    #[inline]
    fn drop(&mut self) {
        let mut state = self.foreground.state.get();
        state.in_flight -= 1;
        self.foreground.state.set(state);
    }
}

#[inline]
fn follow(quantile: u64, took: u64) -> u64 {
    match quantile {
        0 => took,
        _ if took > quantile => quantile + quantile / 8 + 1,
        _ => quantile - quantile / 512,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use io::rng::Rng;

    fn request(foreground: &Foreground, at: u64, took: u64) {
        foreground.begin(Nanos(at)).done(Nanos(at + took));
    }

    #[test]
    fn requests_are_counted_and_then_the_pool_is_idle() {
        let foreground = Foreground::default();
        let first = foreground.begin(Nanos(10));
        let second = foreground.begin(Nanos(20));
        first.done(Nanos(30));
        assert_eq!((foreground.in_flight(), foreground.idle_nanos(Nanos(90))), (1, 0));
        second.done(Nanos(40));
        assert_eq!((foreground.in_flight(), foreground.idle_nanos(Nanos(90))), (0, 50));
        drop(foreground.begin(Nanos(95)));
        assert_eq!(foreground.in_flight(), 0, "one that is given up counts no longer");
    }

    #[test]
    fn who_met_background_work_at_any_time_was_beside_it() {
        let foreground = Foreground::default();
        let before = foreground.begin(Nanos(0));
        foreground.group_begun();
        let during = foreground.begin(Nanos(0));
        before.done(Nanos(700));
        assert_eq!(foreground.latencies(), (700, 0));
        foreground.group_over();
        during.done(Nanos(100));
        assert_eq!(foreground.latencies(), (700 - 1, 0));
        request(&foreground, 200, 55);
        assert_eq!(foreground.latencies(), (699, 55));
    }

    /// Against sorting: within a factor of 1.5 of the 98.4th percentile, and again after the
    /// latencies have changed.
    #[test]
    fn the_quantile_is_followed() {
        let (foreground, mut rng) = (Foreground::default(), Rng::new(5));
        for scale in [1, 20, 4] {
            let mut all: Vec<u64> =
                (0..8000).map(|_| scale * (80_000 + rng.below(40_000) * rng.below(5))).collect();
            all.iter().for_each(|&took| request(&foreground, 0, took));
            all.sort_unstable();
            let (exact, (_, found)) = (all[all.len() * 63 / 64], foreground.latencies());
            assert!(found * 2 > exact && found * 2 < exact * 3, "{found} ns, exactly {exact}");
        }
    }

    #[test]
    fn old_harm_is_forgotten() {
        let foreground = Foreground::default();
        request(&foreground, 0, 100_000);
        foreground.group_begun();
        request(&foreground, 0, 900_000);
        for _ in 0..400 {
            foreground.group_over();
            foreground.group_begun();
        }
        let (beside, alone) = foreground.latencies();
        assert!(beside < alone + alone / 50, "{beside} and {alone} ns");
    }
}
