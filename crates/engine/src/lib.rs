//! The array: carries out plans over injected drives and clock
