//! Decisions: pure functions from facts to plans
