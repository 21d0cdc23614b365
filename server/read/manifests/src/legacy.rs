//! Converts old Karpenter objects to v1: v1alpha5 Provisioner and Machine, v1alpha1
//! AWSNodeTemplate, v1beta1 NodePool, NodeClaim and EC2NodeClass; and corrects v1 objects with
//! misplaced fields.
//!
//! The meaning of an old object is made explicit: a default that v1 has changed appears as a field,
//! with a note. Every changed field has a note, every interpretation of a field that is invalid in
//! its version is a guess, which [`Options::strict`] rejects, and a field that cannot be converted
//! is an error. A second run over the result changes nothing and adds no notes.
//!
//! Reading order: `options`, [`kind`] (classification), `record` (notes and errors), then one module
//! per object: `provisioner`, `pool`, `class`, `claim`, `workload`; they share `requirements`,
//! `disruption`, `selectors`, `images`, `metadata_options`. `kubelet` is last: kubelet settings move
//! from pools to their classes, which may split a class. `run` performs the whole conversion.

mod claim;
mod class;
mod context;
mod disruption;
mod duration;
mod images;
mod kind;
mod kubelet;
mod metadata;
mod metadata_options;
mod names;
mod options;
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
pub use options::{Options, Purpose};
pub use run::Converted;

/// Converts `documents`.
///
/// # Errors
/// Every field that cannot be converted; with [`Options::strict`] also every field whose meaning is
/// a guess.
pub fn convert(documents: Vec<Document>, options: &Options) -> Result<Converted, Vec<InputError>> {
    let (converted, errors) = convert_valid(documents, options);
    if errors.is_empty() { Ok(converted) } else { Err(errors) }
}

/// Converts `documents` as far as possible, and returns the errors of [`convert`] beside the result,
/// so that everything else can be checked in the same run.
#[must_use]
pub fn convert_valid(documents: Vec<Document>, options: &Options) -> (Converted, Vec<InputError>) {
    run::Run::new(options).convert(documents)
}
