//! The cloud provider interface, a simulated cloud, and the catalogue of instance types.
//!
//! Reading order: [`catalogue`] (instance types, offerings, prices), [`provider`] (the interface),
//! [`notice`] (what a cloud says about an instance), [`simulated`] (a simulation of the interface), [`conformance`] (what
//! every provider does, as test cases).

#![warn(missing_docs)]

pub mod catalogue;
pub mod conformance;
pub mod notice;
pub mod provider;
pub mod simulated;
