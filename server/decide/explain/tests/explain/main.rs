//! Explanations compared literally: small fixtures and expected sentences built by hand.

mod between_pods;
mod fixture;
mod machines;
mod notes;
mod relaxations;
mod reports;
mod scale;
