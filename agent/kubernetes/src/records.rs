//! Parses objects into records of the protocol: JSON in, [`ParsedObject`] out.
//!
//! A field without a place here does not leave the cluster. The structures list the fields that
//! decisions use; environment, commands, arguments, images, contents of volumes, secrets and
//! `managedFields` are skipped while parsing. Manifests ([`manifest`]) are the exception: NodePools
//! and EC2NodeClasses are sent whole.
//!
//! Reading order: `object` and `values` (what objects of several kinds have), [`pod`] with
//! [`shape`], [`node`], [`claim`], [`policy`], [`storage`], [`manifest`], and [`unreadable`] for
//! objects that do not parse.

pub mod claim;
pub mod manifest;
pub mod node;
mod object;
pub mod pod;
pub mod policy;
pub mod shape;
pub mod storage;
pub(crate) mod unreadable;
mod values;

pub use object::{ParsedObject, Parser, parse};

#[cfg(test)]
mod tests;
