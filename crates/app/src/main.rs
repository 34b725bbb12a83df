//! `steadyraid`: all of it is in the library, where the fuzzer reaches its parsers.

use std::process::ExitCode;

fn main() -> ExitCode {
    app::main()
}
