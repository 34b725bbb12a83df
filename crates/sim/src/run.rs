//! Runs seeds so that a failure of any kind, panics included, ends in one line to replay it.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use crate::world::{Plan, Report, run_plan};

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
pub fn caught<T>(act: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    install_hook();
    CAUGHT.set(Some("panic".into()));
    let result = catch_unwind(AssertUnwindSafe(act));
    let said = CAUGHT.take().unwrap_or_default();
    result.unwrap_or(Err(said))
}

/// Runs one seed; the error says all that is needed to look at it.
pub fn seed(seed: u64) -> Result<Report, String> {
    let plan = Plan::from_seed(seed);
    let about = plan.describe();
    caught(|| run_plan(plan, None)).map_err(|what| {
        format!("{what}\n  in {about}\n  replay: cargo run --release -p sim -- replay {seed}")
    })
}
