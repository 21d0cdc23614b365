//! The rehearsal.
