//! `shrink`: a smaller world that fails in the same way.

use sim::run::Case;
use sim::shrink::shrink;

use super::CaseWords;

#[derive(clap::Args)]
pub struct Words {
    #[command(flatten)]
    case: CaseWords,
    /// Worlds to run at most
    #[arg(long, value_name = "N", default_value_t = 1000)]
    tries: usize,
}

pub fn run(words: &Words) -> bool {
    let case = words.case.case();
    println!("seed {}{}", case.seed, case.reduction);
    let mut runs = 0;
    let mut fails = |case: &Case| {
        runs += 1;
        if runs % 100 == 0 {
            eprintln!("{runs} worlds, trying{}", case.reduction);
        }
        case.run().err()
    };
    let Some(shrunk) = shrink(&case, words.tries, &mut fails) else {
        println!("it passes: there is nothing to shrink");
        return super::conclude(1, 0);
    };
    println!("{}", shrunk.case.plan().describe());
    print!("{}", shrunk.case.tell().story);
    println!("FAILED after {} worlds\n{}", shrunk.tries, shrunk.case.report(&shrunk.failure));
    super::conclude(0, 1)
}
