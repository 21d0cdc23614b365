//! The cloud provider interface, a simulated cloud, and the catalogue of instance types.
//!
//! Reading order: [`catalogue`] (instance types, offerings, prices), [`provider`] (the interface),
//! [`simulated`] (its simulation).

pub mod catalogue;
pub mod provider;
pub mod simulated;
