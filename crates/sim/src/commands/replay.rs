//! `replay`: one world, told.

use super::CaseWords;

#[derive(clap::Args)]
pub struct Words {
    #[command(flatten)]
    case: CaseWords,
    /// The whole story, also of requests that are not about what failed
    #[arg(long)]
    whole: bool,
}

pub fn run(words: &Words) -> bool {
    let case = words.case.case();
    println!("seed {}{}", case.seed, case.reduction);
    println!("{}", case.plan().describe());
    let told = case.tell();
    print!("{}", if words.whole { &told.whole } else { &told.story });
    match told.result {
        Ok(report) => {
            println!("{report:#?}");
            super::conclude(1, 0)
        }
        Err(failure) => {
            println!("FAILED seed {}\n{}", case.seed, case.report(&failure));
            super::conclude(0, 1)
        }
    }
}
