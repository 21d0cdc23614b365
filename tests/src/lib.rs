//! Whole processes.
