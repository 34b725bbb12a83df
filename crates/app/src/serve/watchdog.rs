//! A thread that notices when the one that serves is stuck, and says where.
//!
//! Nobody is answered then, whatever they ask. It can't say so itself; the log's threads can.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Builder, sleep};
use std::time::Duration;

use io::Nanos;
use io::uring::Pulse;

use super::log::{Kind, Log};

/// Between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Looks that find the same round until it is told of: a second, in which this process was not
/// stopped itself.
const LOOKS: u32 = 4;

/// Times that it was stuck; clones count the same.
#[derive(Clone, Default)]
pub struct Stuck(Arc<AtomicU64>);

impl Stuck {
    pub fn times(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Looks until the environment is gone. Without a thread for it the server does without.
pub fn start(pulse: Pulse, log: Log, stuck: Stuck) {
    let mut looks = Looks::default();
    let look = move || {
        while !pulse.is_over() {
            #[expect(clippy::disallowed_methods, reason = "no shard's thread")]
            sleep(LOOK_EVERY);
            match looks.see(pulse.round()) {
                Some(Seen::Stuck) => {
                    stuck.0.fetch_add(1, Ordering::Relaxed);
                    log.warn(Kind::Stuck, stuck_at(&place(pulse.thread())));
                }
                Some(Seen::GoesOn(after)) => {
                    let text = format!("the serving thread goes on, after about {after}");
                    log.warn(Kind::Stuck, text);
                }
                None => {}
            }
        }
    };
    let _without = Builder::new().name("watchdog".to_owned()).spawn(look);
}

fn stuck_at(place: &str) -> String {
    let Nanos(least) = whole(LOOKS);
    let least = Nanos(least);
    format!("the serving thread has been stuck for {least}, and nobody is answered: it {place}")
}

fn whole(looks: u32) -> Nanos {
    Nanos((LOOK_EVERY * looks).as_nanos() as u64)
}

/// What looks at the rounds tell.
#[derive(Default)]
struct Looks {
    last: Option<u64>,
    /// How many found what the one before found.
    same: u32,
}

#[derive(Debug, PartialEq, Eq)]
enum Seen {
    Stuck,
    GoesOn(Nanos),
}

impl Looks {
    fn see(&mut self, round: Option<u64>) -> Option<Seen> {
        if round.is_some() && round == self.last {
            self.same = self.same.saturating_add(1);
            return (self.same == LOOKS).then_some(Seen::Stuck);
        }
        let was = std::mem::take(&mut self.same);
        self.last = round;
        (was >= LOOKS).then(|| Seen::GoesOn(whole(was)))
    }
}

/// Where the kernel says that a thread of this process is.
fn place(thread: u32) -> String {
    let read = |file| fs::read_to_string(format!("/proc/self/task/{thread}/{file}"));
    let stat = read("stat").unwrap_or_default();
    // The name before it is in parentheses, and may hold anything.
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    if state == Some('R') {
        return "is computing, or waits for a processor".to_owned();
    }
    let function = read("wchan").ok().filter(|name| !name.is_empty() && name != "0");
    let function = function.unwrap_or_else(|| "no function known".to_owned());
    let call = read("syscall").unwrap_or_default();
    match call.split(' ').next().filter(|number| number.parse::<i64>().is_ok()) {
        Some(number) => format!("waits in system call {number} ({function})"),
        None => format!("waits in the kernel ({function})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_round_for_a_second_is_stuck() {
        let mut looks = Looks::default();
        let mut see = |round| looks.see(round);
        assert_eq!(see(Some(1)), None);
        assert_eq!([see(Some(1)), see(Some(1)), see(Some(1))], [None, None, None]);
        assert_eq!(see(Some(1)), Some(Seen::Stuck));
        assert_eq!(see(Some(1)), None);
        assert_eq!(see(Some(2)), Some(Seen::GoesOn(Nanos::from_millis(1250))));
        assert_eq!([see(Some(2)), see(Some(2)), see(Some(3))], [None, None, None]);
    }

    #[test]
    fn who_has_nothing_to_do_is_not_stuck() {
        let mut looks = Looks::default();
        assert!((0..100).all(|_| looks.see(None).is_none()));
        // It may find the same round each time it looks, and have slept in between.
        assert!((0..100).all(|n| looks.see((n % 2 == 0).then_some(7)).is_none()));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "what is stuck is the test's own thread")]
    fn a_thread_that_sleeps_is_found_there() {
        let (to, from) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                to.send(rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned()).unwrap();
                sleep(Duration::from_millis(500));
            });
            let thread = from.recv().unwrap();
            sleep(Duration::from_millis(100));
            let place = place(thread);
            assert!(place.starts_with("waits in system call "), "{place}");
        });
    }
}
