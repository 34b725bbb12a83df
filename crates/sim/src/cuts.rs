//! Cuts.
