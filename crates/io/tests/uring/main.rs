//! The real environment on real files, loop devices, sockets, timers and signals.

mod claims;
mod drives;
mod loops;
mod sockets;
mod support;
mod tasks;
