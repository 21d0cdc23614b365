//! Converts old Karpenter objects to v1: v1alpha5 Provisioner and Machine, v1alpha1
//! AWSNodeTemplate, v1beta1 NodePool, NodeClaim and EC2NodeClass; and corrects v1 objects with
//! misplaced fields.
//!
//! The meaning of an old object is made explicit: a default that v1 has changed appears as a field,
//! with a note. Every changed field has a note, every interpretation of a field that is invalid in
//! its version is a guess, which [`Options::strict`] rejects, and a field that cannot be converted
//! is an error. A second run over the result changes nothing and adds no notes.
//!
//! Reading order: [`kind`] (classification), `record` (notes and errors), then one module per
//! object: `provisioner`, `pool`, `class`, `claim`, `workload`; they share `requirements`,
//! `disruption`, `selectors`, `images`, `metadata_options`. `kubelet` is last: kubelet settings
//! move from pools to their classes, which may split a class.

mod claim;
mod class;
mod context;
mod disk;
mod disruption;
mod duration;
mod images;
mod kind;
mod kubelet;
mod metadata;
mod metadata_options;
mod names;
mod pool;
mod provisioner;
mod prune;
mod record;
mod reference;
mod requirements;
mod run;
mod selectors;
mod shape;
mod workload;
pub mod yaml;

use crate::{Document, InputError};

/// Purpose of the conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Purpose {
    /// The result is written: status and the API server's bookkeeping are dropped, and every field
    /// must be convertible.
    #[default]
    Convert,
    /// The result is planned: status is kept, and fields that only launches need may be missing.
    Plan,
}

/// How to convert.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// Whether the result is written or planned.
    pub purpose: Purpose,
    /// Report fields that are invalid for their version as errors, even if they can be interpreted.
    pub strict: bool,
    /// IAM role of the nodes, for classes that name neither role nor instance profile.
    pub node_role: Option<String>,
    /// Instance profile of the nodes, for classes that name neither; `node_role` takes precedence.
    pub instance_profile: Option<String>,
}

/// Result of a conversion.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Converted {
    /// The objects, in input order; classes created for a pool directly follow it. Objects of other
    /// API groups are included.
    pub documents: Vec<Document>,
    /// The changes: `<source>#<document> <Kind>/<name> <old path>: <what and why>`, sorted; then
    /// one line for each behaviour that differs in v1 without a changed field.
    pub notes: Vec<String>,
}

/// Converts `documents`.
///
/// # Errors
/// Every field that cannot be converted; with [`Options::strict`] also every field whose meaning is
/// a guess.
pub fn convert(documents: Vec<Document>, options: &Options) -> Result<Converted, Vec<InputError>> {
    run::Run::new(options).convert(documents)
}
