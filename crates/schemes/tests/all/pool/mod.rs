//! Pools of any scheme as they are served: drives that hang, and drives that take their places.

mod exchange;
mod exchange_labels;
mod grow;
mod hangs;
mod shelf;
mod sit_out;
mod slow;
mod spares;
