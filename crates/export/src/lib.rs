//! Client-facing block protocols
