//! The catalogue of instance types, as one NodeClass would run them.
//!
//! A [`Snapshot`] holds data about instance types, published by the cloud or written by a user.
//! [`build`] turns it into the [`Catalogue`] of `model` for one region and one NodeClass: labels,
//! capacity, allocatable resources, offerings with prices. [`overlay`] then changes prices and
//! capacity by NodeOverlays.
//!
//! Reading order: [`model::node_class`] and `region_options` (the arguments), [`snapshot`],
//! `instance_type_info` and `columns` (the data), `labels`, `capacity`, `launchable` and
//! `offerings` (the rules), `build_notes` (their estimates), [`exchange`] (the file format of
//! `fleetwright catalogue export` and `--catalogue`), [`discovered`] (a snapshot of one region from EC2's
//! API), `reprice` (a snapshot with other prices), and [`refreshed`] (the catalogue of a region as refreshes leave it).
//!
//! Rules and constants are those of Karpenter's AWS provider, so that a planned node matches the
//! node that joins.

mod attach;
mod build_notes;
mod burstable;
mod capacity;
mod columns;
pub mod discovered;
mod embedded;
pub mod exchange;
mod instance_type_info;
mod labels;
mod launchable;
mod offerings;
pub mod overlay;
mod price;
pub mod refreshed;
mod region_options;
mod reprice;
pub mod snapshot;

use std::sync::Arc;

use model::node_class::{AmiFamily, NodeClassSettings};
use model::resources::CPU;
use model::{Catalogue, InstanceType, Requirements, Text};

use self::build_notes::BuildNotes;
pub use embedded::embedded_tables;
pub use exchange::CatalogueError;
pub use instance_type_info::{Accelerator, Gpu, Hypervisor, InstanceTypeInfo};
pub use labels::unknown_label_keys;
pub use overlay::{Overlay, PriceChange, apply_overlays, resolve_overlays};
pub use price::parse_usd;
pub use region_options::RegionOptions;
pub use reprice::{OnDemandPrices, RegionPrices, SpotPrices};
pub use snapshot::{Region, Snapshot};

/// A catalogue, and notes about estimates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// The catalogue of one region and one NodeClass.
    pub catalogue: Catalogue,
    /// Notes about estimates (zones, prices, reservations) and settings without effect; sorted,
    /// without duplicates.
    pub notes: Vec<String>,
}

/// The instance types of `region_options.region` as a NodeClass with `settings` would run them.
/// Contains every type offered in the region; offerings that cannot be launched have `available:
/// false`.
#[must_use]
pub fn build(snapshot: &Snapshot, region_options: &RegionOptions<'_>, settings: &NodeClassSettings) -> Built {
    CatalogueBuilder::new(snapshot, region_options).build(settings)
}

/// Builds the catalogues of several NodeClasses. They share the labels of instance types, which take most of the memory
/// of a catalogue.
#[derive(Debug)]
pub struct CatalogueBuilder<'a> {
    snapshot: &'a Snapshot,
    region_options: &'a RegionOptions<'a>,
    /// By family of images, the labels of each type of the snapshot.
    labels: Vec<(AmiFamily, Arc<[Arc<Requirements>]>)>,
}

impl<'a> CatalogueBuilder<'a> {
    /// A builder for NodeClasses of `region_options.region`.
    #[must_use]
    pub fn new(snapshot: &'a Snapshot, region_options: &'a RegionOptions<'a>) -> Self {
        Self { snapshot, region_options, labels: Vec::new() }
    }

    /// The catalogue of a NodeClass, as [`build`].
    pub fn build(&mut self, settings: &NodeClassSettings) -> Built {
        let labels = self.labels(settings.ami_family);
        let Self { snapshot, region_options, .. } = self;
        let mut tally = BuildNotes::default();
        let offering_builder = offerings::OfferingBuilder::new(snapshot, region_options, settings, &mut tally);
        let check = launchable::LaunchCheck::new(settings);
        let mut types = Vec::with_capacity(snapshot.types.len());
        for (entry, labels) in snapshot.types.iter().zip(labels.iter()) {
            let launchable = check.allows(entry, labels);
            let offerings = offering_builder.offerings(entry, launchable, &mut tally);
            if offerings.is_empty() {
                continue;
            }
            let allocatable = capacity::allocatable(&entry.hardware, &entry.name, region_options, settings, &mut tally);
            let exotic = labels::is_exotic(&entry.name, &allocatable.capacity);
            let (capacity, allocatable) = (allocatable.capacity, allocatable.allocatable);
            // Types of a catalogue file cost what the file states.
            let is_builtin = matches!(entry.hardware, snapshot::Hardware::Ec2(_));
            let burstable = is_builtin.then(|| burstable::burstable(&entry.name, capacity.get(CPU))).flatten();
            types.push(InstanceType {
                name: entry.name.clone(),
                labels: Arc::clone(labels),
                capacity,
                allocatable,
                exotic,
                burstable,
                offerings,
            });
        }
        offering_builder.add_estimate_notes(&mut tally);
        let offering_keys = offerings::KEYS.iter().map(|key| Text::from(*key)).collect();
        Built { catalogue: Catalogue { types, offering_keys }, notes: tally.notes.into_iter().collect() }
    }

    fn labels(&mut self, family: AmiFamily) -> Arc<[Arc<Requirements>]> {
        if let Some((_, known)) = self.labels.iter().find(|(known, _)| *known == family) {
            return Arc::clone(known);
        }
        let builder = labels::LabelBuilder::new(self.snapshot, self.region_options.region, family);
        let labels: Arc<[_]> = self.snapshot.types.iter().map(|entry| Arc::new(builder.requirements(entry))).collect();
        self.labels.push((family, Arc::clone(&labels)));
        labels
    }
}

#[cfg(test)]
mod tests;
