//! The verbs of the command line. Each returns whether all is well.

pub mod cuts;
pub mod day;
pub mod meta;
pub mod replay;
pub mod shrink;
pub mod world;

use sim::run::Case;
use sim::world::{Canary, Reduction};

/// One world: a seed, and what is left out of it.
#[derive(clap::Args, Clone)]
pub struct CaseWords {
    seed: u64,
    #[command(flatten)]
    reduction: Reduction,
    /// Drives that break their contract: the checks must notice
    #[arg(long)]
    canary: Option<Canary>,
}

impl CaseWords {
    pub fn case(&self) -> Case {
        Case { seed: self.seed, reduction: self.reduction.clone(), canary: self.canary }
    }
}

/// The verdict, in a form that scripts can look for.
pub fn conclude(passed: u64, failed: u64) -> bool {
    println!("{passed} passed, {failed} failed");
    failed == 0
}
