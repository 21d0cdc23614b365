//! Whole pictures, keys and figures, with expectations worked out by hand.

mod feeds;
mod figures;
mod fixture;
mod keys;
mod order;
mod pictures;
