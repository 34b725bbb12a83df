//! What a system can do: it always has as many requests as keep its drives busy.

use std::cell::RefCell;
use std::rc::Rc;

use io::{Env, Nanos};

use super::System;
use super::load::{Load, Span, closed};
use super::stand::Stand;
use super::tally::Tally;

/// Requests always under way for each drive.
pub const DEPTH_EACH: usize = 16;

/// Requests of the measured span that were answered, and how long all took.
pub struct Saturated {
    pub answered: u64,
    pub took: Nanos,
}

/// Plays what `load` makes for an array of so many bytes, until the span or the load is over.
pub fn saturate<L: Load>(
    stand: &Stand,
    system: System,
    seed: u64,
    span: Span,
    load: impl FnOnce(u64) -> L,
) -> Result<Saturated, String> {
    let world = stand.of(system)?.wake(seed);
    let depth = DEPTH_EACH * world.drives().len();
    let tally = Rc::new(RefCell::new(Tally::default()));
    let took = world.env.block_on(async {
        let opened = stand.open(system, &world).await;
        let load = load(opened.array.size());
        let begin = world.env.now();
        closed(&world, &opened.array, (&load, &tally), depth, span).await;
        world.env.now().saturating_sub(begin)
    });
    let answered = tally.borrow().all().len();
    Ok(Saturated { answered, took })
}
