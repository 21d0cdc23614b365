//! Prices of the nodes of the input.

use cloud::catalogue::{RegionOptions, build};
use manifests::notes::Notes;
use model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use model::node_class::NodeClassSettings;
use model::{CapacityType, Catalogue, Labels, MicroUsd, Node, NodePool, Offering};

use crate::pools::CatalogueSource;

/// The label of EKS managed node groups, whose values are `ON_DEMAND`, `SPOT` and `CAPACITY_BLOCK`.
const MANAGED_CAPACITY_TYPE: &str = "eks.amazonaws.com/capacityType";

/// Looks up the price of the machine of a node.
#[derive(Debug)]
pub struct NodePrices<'p> {
    pools: &'p [NodePool],
    /// All instance types of the region, for nodes that no NodePool could launch.
    all: Catalogue,
}

impl<'p> NodePrices<'p> {
    /// Prices of nodes of `pools`, with their overlays, and of any other machine of the region.
    #[must_use]
    pub fn new(catalogue_source: CatalogueSource<'_>, pools: &'p [NodePool]) -> Self {
        let region_options =
            RegionOptions { extra_zones: catalogue_source.zones, ..RegionOptions::new(catalogue_source.region) };
        let all = build(catalogue_source.snapshot, &region_options, &NodeClassSettings::default()).catalogue;
        Self { pools, all }
    }

    /// The price per hour of `node` by its labels; `None` when no catalogue has its instance type.
    /// Reserved capacity costs nothing. Notes what is assumed or estimated.
    pub fn price(&self, node: &Node, notes: &mut Notes) -> Option<MicroUsd> {
        let instance_type = node.labels.get(INSTANCE_TYPE)?;
        let capacity_type = capacity_type(&node.labels);
        if capacity_type == Some(CapacityType::Reserved) {
            return Some(MicroUsd(0));
        }
        let wanted = capacity_type.unwrap_or(CapacityType::OnDemand);
        let pool = self.pools.iter().find(|pool| Some(&pool.name) == node.pool.as_ref());
        let catalogues = pool.map(|pool| pool.catalogue.as_ref()).into_iter().chain([&self.all]);
        let offerings = catalogues.filter_map(|catalogue| {
            let found = catalogue.types.binary_search_by(|known| known.name.as_text().cmp(instance_type)).ok()?;
            let of_type = catalogue.types[found].offerings.iter();
            offering(of_type.filter(|offering| offering.capacity_type == wanted), node.labels.get(ZONE))
        });
        let (offering, of_zone) = offerings.min_by_key(|(_, of_zone)| !of_zone)?;
        if capacity_type.is_none() {
            notes.add("nodes have no label of their capacity type and are counted as on-demand", &node.name);
        }
        if offering.estimated || !of_zone {
            notes.add("the prices of nodes are estimates", &node.name);
        }
        Some(offering.price)
    }
}

/// The offering in `zone`, and true; without one, the cheapest of another zone.
fn offering<'o>(
    offerings: impl Iterator<Item = &'o Offering>,
    zone: Option<&model::Text>,
) -> Option<(&'o Offering, bool)> {
    let found = offerings.map(|offering| (offering, Some(offering.zone.as_text()) == zone));
    found.min_by_key(|(offering, of_zone)| (!of_zone, offering.price))
}

/// The capacity type by Karpenter's label or by that of managed node groups.
fn capacity_type(labels: &Labels) -> Option<CapacityType> {
    let known = [CapacityType::Reserved, CapacityType::Spot, CapacityType::OnDemand];
    if let Some(value) = labels.get(CAPACITY_TYPE) {
        return known.into_iter().find(|known| known.as_str() == value.as_ref());
    }
    match labels.get(MANAGED_CAPACITY_TYPE)?.as_ref() {
        "SPOT" => Some(CapacityType::Spot),
        "ON_DEMAND" => Some(CapacityType::OnDemand),
        "CAPACITY_BLOCK" => Some(CapacityType::Reserved),
        _ => None,
    }
}
