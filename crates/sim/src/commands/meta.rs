//! `meta`: the same world in two processes. They differ in what one process can't: addresses,
//! and so the order of whatever hangs on them.

use std::process::{Command, Output};

#[derive(clap::Args)]
pub struct Words {
    seed: u64,
}

fn whole_story(seed: u64) -> std::io::Result<Output> {
    let own = std::env::current_exe()?;
    Command::new(own).args(["replay", &seed.to_string(), "--whole"]).output()
}

pub fn run(words: &Words) -> bool {
    println!("seed {}", words.seed);
    let stories = whole_story(words.seed).and_then(|one| Ok((one, whole_story(words.seed)?)));
    let (first, second) = match stories {
        Ok(stories) => stories,
        Err(error) => {
            println!("this program does not run: {error}");
            return super::conclude(0, 1);
        }
    };
    let (one, other) = (first.stdout.split(is_end), second.stdout.split(is_end));
    let lines = one.clone().count();
    let differs = one.zip(other).enumerate().find(|(_, (one, other))| one != other);
    if let Some((number, (one, other))) = differs {
        println!("line {} differs:", number + 1);
        println!("{}\n{}", String::from_utf8_lossy(one), String::from_utf8_lossy(other));
    } else {
        println!("{lines} lines are the same");
    }
    let same = first.stdout == second.stdout && first.status == second.status;
    super::conclude(u64::from(same), u64::from(!same))
}

fn is_end(byte: &u8) -> bool {
    *byte == b'\n'
}
