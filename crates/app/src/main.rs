//! SteadyRAID, the product binary.
fn main() {}
