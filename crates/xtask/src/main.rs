//! Repository checks and chores. `cargo xtask` lists them.

mod clock;
mod flush_check;
mod nbd_client;
mod neighbours;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  tidy          check the rules of STYLE.md that a program can check
  flush-check   write to an NBD export, kill its server, prove what survives
  neighbours    what a client has from the server beside others that stop, flood, ...";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.first().map(String::as_str) {
        Some("tidy") => tidy::command(),
        Some("flush-check") => flush_check::command(&arguments[1..]),
        Some("neighbours") => neighbours::command(&arguments[1..]),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}
