//! All integration tests are one program: arrays are large generics, and each program compiles
//! them anew.

mod arrays;
mod experiments;
mod rebuild;
mod systems;
mod tail;
