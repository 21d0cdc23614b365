//! Explanations, judged by their words: small worlds built by hand, sentences worked out by hand.

mod notes;
mod relaxations;
mod room;
mod rules;
mod scale;
mod stories;
mod world;
