//! Drives whose timing is a model's, in virtual and in real time.

mod real;
mod toy;
mod virt;
