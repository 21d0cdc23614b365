//! The port to a cloud, its simulated twin, and the catalogue of machine types.
//!
//! Reading order: [`catalogue`] (what can be bought, and what one NodeClass makes of it), [`provider`] (the port),
//! [`simulated`] (its twin).

pub mod catalogue;
pub mod provider;
pub mod simulated;
