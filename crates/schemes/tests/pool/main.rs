//! Pools of any scheme as they are served: drives that hang, and drives that take their places.
//! One program, because each would be compiled with all of the arrays.

mod hangs;
mod shelf;
mod spares;
