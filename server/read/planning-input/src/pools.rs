//! NodePools with their offerings: one catalogue for each distinct NodeClass configuration, changed
//! by overlays.

use std::collections::BTreeSet;
use std::sync::Arc;

use cloud::catalogue::overlay::{charge_unpriced, preview_prices};
use cloud::catalogue::{
    CatalogueBuilder, Overlay, PriceChange, RegionOptions, Snapshot, apply_overlays, resolve_overlays,
};
use manifests::karpenter::node_overlay::{NodeOverlayManifest, PriceChange as Written};
use manifests::karpenter::{NodeClassManifest, NodePoolManifest};
use manifests::notes::Notes;
use model::labels::CAPACITY_TYPE;
use model::node_class::NodeClassSettings;
use model::offering::SharedCatalogue;
use model::{CapacityType, Catalogue, MicroUsd, Node, NodePool, PoolName, Zone};

use crate::options::Options;

#[derive(Debug, Clone, Copy)]
pub struct CatalogueSource<'s> {
    pub snapshot: &'s Snapshot,
    /// The region that is planned in.
    pub region: &'s str,
    pub zones: &'s [Zone],
}

/// The pools of the planning input, sorted by name.
pub fn build_pools(
    catalogue_source: CatalogueSource<'_>,
    manifests: Vec<NodePoolManifest>,
    classes: &[NodeClassManifest],
    overlays: &[NodeOverlayManifest],
    notes: &mut Notes,
) -> Vec<NodePool> {
    let class_of = |pool: &NodePoolManifest| classes.iter().find(|class| class.name == pool.class.name);
    let settings: Vec<NodeClassSettings> =
        manifests.iter().map(|pool| class_of(pool).map(|class| class.settings.clone()).unwrap_or_default()).collect();
    let catalogues = catalogues(catalogue_source, &manifests, &settings, overlays, notes);
    let mut pools: Vec<NodePool> =
        manifests.into_iter().zip(catalogues).map(|(pool, catalogue)| pool.into_pool(classes, catalogue)).collect();
    pools.sort_by(|a, b| a.name.cmp(&b.name));
    pools
}

/// A catalogue for each pool, shared where settings are equal and no overlay selects pools.
fn catalogues(
    catalogue_source: CatalogueSource<'_>,
    pools: &[NodePoolManifest],
    settings: &[NodeClassSettings],
    overlays: &[NodeOverlayManifest],
    notes: &mut Notes,
) -> Vec<SharedCatalogue> {
    let overlays = usable(overlays, notes);
    let allows_spot = |pool: &NodePoolManifest| {
        pool.requirements.get(CAPACITY_TYPE).is_none_or(|allowed| allowed.has(CapacityType::Spot.as_str()))
    };
    let region_options = RegionOptions {
        extra_zones: catalogue_source.zones,
        spot_wanted: pools.iter().any(allows_spot),
        ..RegionOptions::new(catalogue_source.region)
    };
    let base = unchanged(catalogue_source, &region_options, settings, notes);
    if overlays.is_empty() {
        return base;
    }
    let resolve = |base: &[SharedCatalogue]| {
        let pairs: Vec<_> =
            pools.iter().zip(base).map(|(pool, catalogue)| (&pool.requirements, catalogue.as_ref())).collect();
        resolve_overlays(&pairs, &overlays)
    };
    // Twice: overlays may price types that no catalogue prices, and such a type is an offering only
    // after the catalogue was built again with its price.
    let mut resolved = resolve(&base);
    let previews = preview_prices(&resolved);
    let with_previews = RegionOptions { preview_prices: previews, ..region_options };
    let previewed = match with_previews.preview_prices.is_empty() {
        true => base.clone(),
        false => unchanged(catalogue_source, &with_previews, settings, notes),
    };
    resolved = resolve(&previewed);
    resolved.notes.iter().for_each(|note| notes.line(note.clone()));
    let change = |(pool, (catalogue, before)): (&NodePoolManifest, (SharedCatalogue, &SharedCatalogue))| {
        let mut changed = apply_overlays(&catalogue, &pool.requirements, &resolved.overlays);
        charge_unpriced(&mut changed, before, &with_previews.preview_prices);
        if changed == *catalogue { catalogue } else { Arc::new(changed) }
    };
    pools.iter().zip(previewed.into_iter().zip(&base)).map(change).collect()
}

/// A catalogue for each of `settings`, before overlays; equal settings share one.
fn unchanged(
    catalogue_source: CatalogueSource<'_>,
    region_options: &RegionOptions<'_>,
    settings: &[NodeClassSettings],
    notes: &mut Notes,
) -> Vec<SharedCatalogue> {
    let mut builder = CatalogueBuilder::new(catalogue_source.snapshot, region_options);
    let mut built: Vec<(&NodeClassSettings, Arc<Catalogue>)> = Vec::new();
    let mut catalogues = Vec::new();
    for settings in settings {
        if let Some((_, catalogue)) = built.iter().find(|(known, _)| *known == settings) {
            catalogues.push(catalogue.clone());
            continue;
        }
        let one = builder.build(settings);
        one.notes.iter().for_each(|note| notes.line(note.clone()));
        let catalogue = Arc::new(one.catalogue);
        built.push((settings, catalogue.clone()));
        catalogues.push(catalogue);
    }
    catalogues
}

fn usable(overlays: &[NodeOverlayManifest], notes: &mut Notes) -> Vec<Overlay> {
    let mut usable = Vec::new();
    for overlay in overlays {
        if let Some(reason) = &overlay.invalid {
            notes.line(format!("NodeOverlay/{} is not used: {reason}", overlay.name));
            continue;
        }
        usable.push(Overlay {
            name: overlay.name.clone(),
            weight: overlay.weight,
            requirements: overlay.requirements.iter().cloned().collect(),
            price: overlay.price.map(price_change),
            capacity: overlay.capacity.clone(),
        });
    }
    usable
}

/// Converts the unit: a millionth of a percent is a hundredth of a millionth of the price.
fn price_change(written: Written) -> PriceChange {
    match written {
        Written::Absolute(micros) => PriceChange::Set(MicroUsd(micros)),
        Written::Add(micros) => PriceChange::Add(MicroUsd(micros)),
        Written::Percent(millionths) => PriceChange::AddMillionths(millionths / 100),
    }
}

/// Names of the pools that another controller manages (EKS Auto Mode, other clouds): the API group of their NodeClass
/// is not `karpenter.k8s.aws`.
#[derive(Debug, Default)]
pub struct ExternalPools(BTreeSet<PoolName>);

/// Removes external pools from `pools`, with a note. With a custom catalogue and no EC2NodeClass in
/// the input, nodes of any cloud are planned, and none is external.
pub fn remove_external_pools(
    pools: &mut Vec<NodePoolManifest>,
    classes: &[NodeClassManifest],
    options: &Options,
    notes: &mut Notes,
) -> ExternalPools {
    let mut external = ExternalPools::default();
    if options.catalogue.is_some() && classes.is_empty() {
        return external;
    }
    pools.retain(|pool| {
        if pool.class.is_ec2() {
            return true;
        }
        let object = format!("NodePool/{} ({}/{})", pool.name, pool.class.group, pool.class.kind);
        notes.add(
            "NodePools whose NodeClass is of another API group belong to another controller and are not planned",
            &object,
        );
        external.0.insert(pool.name.clone());
        false
    });
    external
}

impl ExternalPools {
    /// Clears the pool of a node of an external pool: its capacity is used, and no managed pool
    /// counts it.
    pub fn clear_pool(&self, node: &mut Node) {
        node.pool.take_if(|pool| self.0.contains(pool));
    }
}
