//! Old Karpenter objects become v1: v1alpha5 Provisioner and Machine, v1alpha1 AWSNodeTemplate, v1beta1 NodePool, NodeClaim
//! and EC2NodeClass; and v1 objects with fields in the wrong place become right.
//!
//! What an old object meant is written out: a default that v1 has changed appears as a field, with a note. Every changed
//! field has a note, every reading of what is wrong for its version is a guess that [`Options::strict`] refuses, and what
//! cannot be converted is an error. A second run over the result changes nothing and notes nothing.
//!
//! Reading order: [`kind`] (what an object is), `record` (notes and errors), then one room per object: `provisioner`, `pool`,
//! `class`, `claim`, `workload`; the rooms share `requirements`, `disruption`, `selectors`, `images`, `metadata_options`. `kubelet`
//! comes last: kubelet settings leave pools for their classes, which may split a class.

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

/// What the objects are wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Purpose {
    /// To be written out again: status and the API server's bookkeeping go, everything must be convertible.
    #[default]
    Convert,
    /// To be planned with: status is kept, and what only launching needs may stay unknown.
    Plan,
}

/// How to convert.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Options {
    /// What for.
    pub purpose: Purpose,
    /// Refuse what is wrong for its version, even where it is understood.
    pub strict: bool,
    /// IAM role of the nodes, for classes that name neither role nor instance profile.
    pub node_role: Option<String>,
    /// Instance profile of the nodes, for classes that name neither; `node_role` goes first.
    pub instance_profile: Option<String>,
}

/// What came out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Converted {
    /// The objects, in the order in which they were read; classes that a pool caused stand directly after it. Objects that
    /// are not Karpenter's are there too.
    pub documents: Vec<Document>,
    /// What was changed: `<source>#<document> <Kind>/<name> <old path>: <what and why>`, sorted; then what behaves otherwise
    /// under v1 without any field having changed, a line each.
    pub notes: Vec<String>,
}

/// Converts `documents`.
///
/// # Errors
/// Everything that cannot be converted; with [`Options::strict`] everything that had to be guessed as well.
pub fn convert(documents: Vec<Document>, options: &Options) -> Result<Converted, Vec<InputError>> {
    run::Run::new(options).convert(documents)
}
