//! Simulated worlds: drives that tear and lose, oracles, power cuts
