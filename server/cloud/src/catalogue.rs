//! What can be bought, and what one NodeClass makes of it.
//!
//! A [`Snapshot`] holds figures about instance types, as the cloud publishes them or as a user writes them down. [`build`]
//! turns it into the engine's [`Catalogue`] for one region and one NodeClass: labels, capacity, what is left for pods,
//! offerings with prices. [`overlay`] then changes prices and capacity as NodeOverlays say.
//!
//! Reading order: [`settings`] (the arguments), [`snapshot`], `figures` and `columns` (what is known), `labels`,
//! `capacity`, `launchable` and `offerings` (the rules), [`exchange`] (the file format of `fleetwright catalogue export` and
//! `--catalogue`).
//!
//! Rules and constants are those of Karpenter's AWS provider, so that a node planned here is the node that joins.

mod attach;
mod capacity;
mod columns;
mod embedded;
pub mod exchange;
mod figures;
mod labels;
mod launchable;
mod offerings;
pub mod overlay;
mod price;
pub mod settings;
pub mod snapshot;
pub mod threshold;

use std::collections::BTreeSet;

use engine::model::{Catalogue, InstanceType, Text};

pub use exchange::CatalogueError;
pub use labels::unknown_label_keys;
pub use overlay::{Overlay, PriceChange, apply_overlays, settle_overlays};
pub use settings::{
    AmiFamily, KubeletSettings, Market, NetworkInterface, NodeClassSettings, ReservationEntry, SubnetZone,
};
pub use snapshot::{Region, Snapshot};
pub use threshold::Threshold;

/// A catalogue and what had to be assumed to build it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Built {
    /// The catalogue of one region and one NodeClass.
    pub catalogue: Catalogue,
    /// Sentences about estimates (zones, prices, reservations) and settings without effect; sorted, without doubles.
    pub notes: Vec<String>,
}

/// The instance types of `market.region` as a NodeClass with `settings` would run them. Every type of the snapshot that is
/// offered in the region is there; offerings that cannot be launched are kept with `available: false`.
#[must_use]
pub fn build(snapshot: &Snapshot, market: &Market<'_>, settings: &NodeClassSettings) -> Built {
    let mut tally = Tally::default();
    let seller = offerings::OfferingBuilder::new(snapshot, market, settings, &mut tally);
    let writer = labels::LabelBuilder::new(snapshot, market.region, settings.ami_family);
    let check = launchable::Check::new(settings);
    let mut types = Vec::with_capacity(snapshot.types.len());
    for entry in &snapshot.types {
        let labels = writer.requirements(entry);
        let launchable = check.allows(entry, &labels);
        let offerings = seller.offerings(entry, launchable, &mut tally);
        if offerings.is_empty() {
            continue;
        }
        let room = capacity::room(&entry.machine, &entry.name, market, settings, &mut tally);
        let exotic = labels::is_exotic(&entry.name, &room.capacity);
        let (capacity, allocatable) = (room.capacity, room.allocatable);
        types.push(InstanceType { name: entry.name.clone(), labels, capacity, allocatable, exotic, offerings });
    }
    seller.conclude(&mut tally);
    let offering_keys = offerings::KEYS.iter().map(|key| Text::from(*key)).collect();
    Built { catalogue: Catalogue { types, offering_keys }, notes: tally.notes.into_iter().collect() }
}

/// What is assumed while a catalogue is built.
#[derive(Debug, Default)]
struct Tally {
    notes: BTreeSet<String>,
    /// Types priced as in another region.
    priced_elsewhere: usize,
    /// Whether some spot price is a share of the on-demand price.
    spot_estimated: bool,
}

#[cfg(test)]
mod tests;
