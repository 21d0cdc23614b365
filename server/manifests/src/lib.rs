//! Parsing: bytes of YAML or JSON become one [`PlanningInput`](model::input::PlanningInput),
//! notes, or errors with their location.
//!
//! Pure: no files, no network, no clock. The caller of [`read`] opens the files; the result depends
//! on the bytes and the [`Options`] alone, never on the order of sources or documents.
//!
//! Reading order: [`document`] (bytes to objects), [`cursor`] (typed access, errors with paths),
//! `inventory` (the objects, each once), [`pod`] and [`cluster`] (Kubernetes objects),
//! [`karpenter`] (Karpenter's), `scheduler` (its configuration), `assemble` (the planning input).
//! [`legacy`] converts older objects, [`fields`] documents every field, [`schema`] defines the
//! custom resources.

mod assemble;
pub mod cluster;
pub mod cursor;
pub mod document;
mod error;
pub mod fields;
mod inventory;
pub mod karpenter;
mod kinds;
pub mod legacy;
mod notes;
pub mod pod;
mod scheduler;
pub mod schema;
mod selector;
pub mod syntax;

pub use assemble::volumes::{VolumeUser, Volumes};
pub use cursor::{Cursor, ObjectLocation, Problems};
pub use document::Document;
pub use error::{InputError, MAX_ERRORS};

use std::borrow::Borrow;

use model::Timestamp;
use model::input::{MinValuesPolicy, PlanningInput, PreferencePolicy};

use self::document::{Detail, ValueBudget};
use self::inventory::Inventory;
use self::notes::Notes;

/// One input file, or standard input.
#[derive(Debug, Clone)]
pub struct Source {
    /// A path, or `-` for standard input.
    pub name: String,
    /// Content: YAML or JSON, in UTF-8.
    pub bytes: Vec<u8>,
}

/// Options of a run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The region; `None` derives it from the input.
    pub region: Option<String>,
    /// Zones of the region, for NodeClasses that have no status; each must be a zone of the region
    /// that is planned in.
    pub zones: Vec<String>,
    /// Whether a region is accepted when neither the catalogue nor the input names its zones.
    /// Nothing can be launched there until an EC2NodeClass has subnets in its status; a server
    /// starts without them.
    pub allow_no_zones: bool,
    /// A catalogue file that replaces the built-in catalogue.
    pub catalogue: Option<Source>,
    /// The scheduler's configuration, for its default topology spread constraints: kube-scheduler's
    /// own file, or Karpenter's short form of it. With it, Services are read for their selectors.
    pub scheduler_config: Option<Source>,
    /// (id, free instances) of capacity reservations.
    pub reservations: Vec<(String, i64)>,
    /// Report fields that are invalid for their version as errors, even if they can be interpreted.
    pub strict: bool,
    /// Whether preferences of pods are respected.
    pub preferences: PreferencePolicy,
    /// What happens when `minValues` cannot be met.
    pub min_values: MinValuesPolicy,
    /// Maximum number of steps of the search for cheaper packings.
    pub search_steps: u64,
    /// Seed of the search.
    pub seed: u64,
    /// The time of the plan; opt-in delays are evaluated against it.
    pub now: Timestamp,
    /// Maximum number of vCPUs of a launched node, in every pool.
    pub max_node_vcpu: Option<i64>,
    /// Minimum number of launched nodes, in every pool.
    pub min_nodes: Option<i64>,
}

/// Result of reading.
#[derive(Debug, Clone)]
pub struct Captured {
    /// The planning input.
    pub input: PlanningInput,
    /// Notes for the user, sorted, without duplicates.
    pub notes: Vec<String>,
    /// The region that is planned in.
    pub region: String,
}

/// Parses `sources` into one planning input. Sources passed by value are dropped as they are
/// parsed. The order of sources and documents does not matter.
///
/// # Errors
/// Every object that an API server would reject, and every contradiction, in order of source and
/// document, at most [`MAX_ERRORS`].
pub fn read<S: Borrow<Source>>(
    sources: impl IntoIterator<Item = S>,
    options: &Options,
) -> Result<Captured, Vec<InputError>> {
    let (problems, mut notes) = (Problems::default(), Notes::default());
    let documents = parse_all(sources, &problems);
    if !problems.is_empty() {
        return Err(problems.into_errors());
    }
    let documents = convert_legacy(documents, options, &problems, &mut notes);
    if !problems.is_empty() {
        return Err(problems.into_errors());
    }
    let inventory = Inventory::new(documents, &problems, &mut notes);
    let mut captured = assemble::assemble(inventory, options, &problems, &mut notes);
    if !problems.is_empty() {
        return Err(problems.into_errors());
    }
    captured.notes = notes.into_lines();
    Ok(captured)
}

/// Converts Karpenter's older objects to v1.
fn convert_legacy(
    documents: Vec<Document>,
    options: &Options,
    problems: &Problems,
    notes: &mut Notes,
) -> Vec<Document> {
    let how = legacy::Options { purpose: legacy::Purpose::Plan, strict: options.strict, ..legacy::Options::default() };
    match legacy::convert(documents, &how) {
        Ok(converted) => {
            converted.notes.into_iter().for_each(|note| notes.line(note));
            converted.documents
        }
        Err(errors) => {
            errors.into_iter().for_each(|error| problems.add(error));
            Vec::new()
        }
    }
}

fn parse_all<S: Borrow<Source>>(sources: impl IntoIterator<Item = S>, problems: &Problems) -> Vec<Document> {
    let allowance = ValueBudget::default();
    let mut documents = Vec::new();
    for source in sources {
        match document::parse(source.borrow(), &allowance, Detail::Planning) {
            Ok(parsed) => documents.extend(parsed),
            Err(errors) => errors.into_iter().for_each(|error| problems.add(error)),
        }
    }
    documents
}
