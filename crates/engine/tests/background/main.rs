//! Background work in virtual time: whom it yields to, and what drives are told.

#[path = "../common/mod.rs"]
mod common;

mod discards;
mod pace;
