//! Runs worlds so that a failure of any kind, panics included, ends in a story and one command
//! that replays it.

use std::cell::RefCell;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use crate::failure::{Failure, Panicked};
use crate::world::{Canary, Plan, Reduction, Report, World};

thread_local! {
    /// What the last panic said, while somebody catches panics on this thread.
    static CAUGHT: RefCell<Option<String>> = const { RefCell::new(None) };
}

fn words_of(info: &PanicHookInfo<'_>) -> String {
    let text = info.payload().downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| info.payload().downcast_ref::<String>().cloned());
    let place =
        info.location().map_or(String::new(), |at| format!(" at {}:{}", at.file(), at.line()));
    format!("panic: {}{place}", text.unwrap_or_default())
}

fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            let quiet = CAUGHT.with_borrow_mut(|caught| {
                caught.as_mut().map(|said| *said = words_of(info)).is_some()
            });
            if !quiet {
                before(info);
            }
        }));
    });
}

/// Turns a panic into an error that says what and where.
pub fn caught<T, E: From<Panicked>>(act: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    install_hook();
    CAUGHT.set(Some("panic".into()));
    let result = catch_unwind(AssertUnwindSafe(act));
    let said = CAUGHT.take().unwrap_or_default();
    result.unwrap_or_else(|_| Err(E::from(Panicked(said))))
}

/// A world by its seed, with what was left out of it.
#[derive(Clone, Debug, Default)]
pub struct Case {
    pub seed: u64,
    pub reduction: Reduction,
    pub canary: Option<Canary>,
}

/// A world that ran, and what it told.
pub struct Told {
    pub result: Result<Report, Failure>,
    /// What matters for the failure.
    pub story: String,
    /// All of it.
    pub whole: String,
}

impl Case {
    pub fn of(seed: u64) -> Case {
        Case { seed, ..Case::default() }
    }

    pub fn plan(&self) -> Plan {
        self.reduction.plan(self.seed)
    }

    pub fn run(&self) -> Result<Report, Failure> {
        caught(|| World::new(self.plan(), self.canary).run())
    }

    /// As `run`, and records the story.
    pub fn tell(&self) -> Told {
        let mut context = None;
        let result = caught(|| {
            let world = World::new(self.plan(), self.canary);
            let shared = context.insert(world.context());
            shared.story.borrow_mut().record();
            world.run()
        });
        let spot = result.as_ref().err().and_then(|failure| failure.spot.as_ref());
        let (story, whole) = context.map_or_else(Default::default, |context| {
            let story = context.story.borrow();
            (story.about(spot), story.whole())
        });
        Told { result, story, whole }
    }

    /// The command that runs exactly this.
    pub fn command(&self, verb: &str) -> String {
        let mut text = format!("cargo run --release -p sim -- {verb} {}", self.seed);
        let _ = write!(text, "{}", self.reduction);
        if let Some(canary) = self.canary {
            let value = clap::ValueEnum::to_possible_value(&canary).expect("none is hidden");
            let _ = write!(text, " --canary {}", value.get_name());
        }
        text
    }

    /// Everything about a failure.
    pub fn report(&self, failure: &Failure) -> String {
        let about = self.plan().describe();
        format!(
            "{:?}: {failure}\n  in {about}\n  replay: {}\n  shrink: {}",
            failure.check,
            self.command("replay"),
            self.command("shrink")
        )
    }
}

/// Runs one seed; the error says all that is needed to look at it.
pub fn seed(seed: u64) -> Result<Report, String> {
    let case = Case::of(seed);
    case.run().map_err(|failure| case.report(&failure))
}
