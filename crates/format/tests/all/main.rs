//! Tests of the bytes on disk. One binary, so that it links once.

mod claim;
mod constants;
mod golden;
mod hostile;
mod journal;
mod label;
mod map;
mod samples;
mod signature;
mod slot;
