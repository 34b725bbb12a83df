//! All integration tests are one program: arrays are large generics, and each program compiles
//! them anew.

mod arrays;
mod bound;
mod experiments;
mod layout;
mod papers;
mod prepare;
mod rebuild;
mod systems;
mod tail;
