//! Black-box tests of the binary: one file per verb, each test in a directory of its own.

mod absent;
mod alerts;
mod arrays;
mod bad_input;
mod capacity;
mod cases_create;
mod cases_pool;
mod create;
mod deleted;
mod drive;
mod events;
mod found;
mod hosts;
mod http;
mod inspect;
mod list;
mod log;
mod modelled;
mod nbd;
mod openapi;
mod reference;
mod reload;
mod room;
mod schemes;
mod serve;
mod spares;
mod status;
mod support;
mod unopened;
mod user;
mod volume;

/// A test file that nobody names here would silently not run.
#[test]
fn no_test_file_is_forgotten() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli");
    for entry in std::fs::read_dir(directory).expect("the tests are there") {
        let name = entry.expect("readable").file_name().into_string().expect("plain names");
        let module = name.strip_suffix(".rs").expect("only Rust files");
        let declared = include_str!("main.rs").contains(&format!("\nmod {module};\n"));
        assert!(declared || module == "main", "{name} is not declared in main.rs");
    }
}
