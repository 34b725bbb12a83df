//! Which drive, which offset: pure layout arithmetic and parity
