//! Hand-worked rounds.
