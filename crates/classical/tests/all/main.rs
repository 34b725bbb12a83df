//! In-place arrays: how they open, what requests cost, how a drive is rebuilt, what rot costs.
//! One program, because each would be compiled with all of the arrays.

mod opening;
mod rebuild;
mod requests;
mod returned;
mod rot;
