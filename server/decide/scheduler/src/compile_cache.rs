//! Compiled pools and catalogues, cached from one decision to the next.
//!
//! Pools and catalogues change rarely, are alike in many clusters, and are the largest part of a
//! small decision's input. A [`CompileCache`] keeps their compiled form for later decisions of any
//! cluster. It never changes a plan: an entry is found only by everything that it was compiled
//! from.

use std::ptr;
use std::sync::{Arc, Weak};

use super::bound::OfferedTypes;
use super::pool_offerings::{CatalogueOfferings, PoolOfferings, limited_by};
use super::resource_vector::ResourceOrder;
use super::step_budget::StepBudget;
use model::{Catalogue, Labels, MicroUsd, NodePool, Requirements, ResourceName, Stop, Text};

/// Maximum number of cached catalogue offerings: a fleet has fewer catalogues, ceilings and kinds
/// of limits than this. Each entry takes a quarter of a MiB with the whole catalogue of a region.
const MAX_CATALOGUE_OFFERINGS: usize = 64;

/// Maximum number of cached pool offerings. Pools of one cluster that differ only in labels have
/// one each, of a few KiB.
const MAX_POOL_OFFERINGS: usize = 512;

/// Compiled pools and catalogues for later decisions. The owner passes it to every decision that
/// may share them.
#[derive(Debug, Default)]
pub struct CompileCache {
    /// Most recently used first.
    catalogue_offerings: Vec<(CatalogueFingerprint, Arc<CatalogueOfferings>)>,
    /// Most recently used first; each entry is built from one of `catalogue_offerings`.
    pool_offerings: Vec<(PoolFingerprint, Arc<PoolOfferings>)>,
    offered_types: OfferedTypes,
    stop: Stop,
}

/// Everything that catalogue offerings are compiled from.
#[derive(Debug)]
struct CatalogueFingerprint {
    /// A weak reference: the catalogue can be freed, but no other can take its address.
    catalogue: Weak<Catalogue>,
    limited: Vec<Text>,
    ceilings: Ceilings,
    resources: Vec<ResourceName>,
    well_known: Vec<Text>,
}

/// What pool offerings are compiled from, besides the catalogue offerings.
#[derive(Debug)]
struct PoolFingerprint {
    requirements: Requirements,
    labels: Labels,
}

/// Maximum price per vCPU, price of a node and vCPUs of a node; and whether credits are ignored.
type Ceilings = (Option<MicroUsd>, Option<MicroUsd>, Option<i64>, bool);

impl CompileCache {
    /// Has decisions with this cache end early once `stop` is due; returns what had them end before.
    pub fn replace_stop(&mut self, stop: Stop) -> Stop {
        std::mem::replace(&mut self.stop, stop)
    }

    /// A budget of `bound` steps that is exhausted once the decision is not needed any more.
    pub(super) fn budget(&self, bound: u64) -> StepBudget {
        StepBudget::new(bound).until(self.stop.clone())
    }

    pub(super) fn offered_types(&mut self) -> &mut OfferedTypes {
        &mut self.offered_types
    }

    /// The offerings of `pool`, compiled unless cached.
    pub(super) fn pool_offerings(
        &mut self,
        pool: &NodePool,
        resources: &ResourceOrder,
        well_known: &[Text],
    ) -> Arc<PoolOfferings> {
        let catalogue_offerings = self.catalogue_offerings(pool, resources, well_known);
        let is_it = |(fingerprint, offerings): &(PoolFingerprint, Arc<PoolOfferings>)| {
            offerings.is_from(&catalogue_offerings)
                && fingerprint.labels == pool.labels
                && fingerprint.requirements == pool.requirements
        };
        if let Some(at) = self.pool_offerings.iter().position(is_it) {
            self.pool_offerings[..=at].rotate_right(1);
        } else {
            self.pool_offerings.truncate(MAX_POOL_OFFERINGS - 1);
            let others = self
                .pool_offerings
                .iter()
                .map(|(_, offerings)| offerings.as_ref())
                .filter(|other| other.is_from(&catalogue_offerings));
            let offerings = PoolOfferings::of(pool, Arc::clone(&catalogue_offerings), others);
            let fingerprint = PoolFingerprint { requirements: pool.requirements.clone(), labels: pool.labels.clone() };
            self.pool_offerings.insert(0, (fingerprint, Arc::new(offerings)));
        }
        Arc::clone(&self.pool_offerings[0].1)
    }

    /// The catalogue offerings of `pool`, compiled unless cached.
    fn catalogue_offerings(
        &mut self,
        pool: &NodePool,
        resources: &ResourceOrder,
        well_known: &[Text],
    ) -> Arc<CatalogueOfferings> {
        if let Some(at) = self
            .catalogue_offerings
            .iter()
            .position(|(fingerprint, _)| fingerprint.matches(pool, resources, well_known))
        {
            self.catalogue_offerings[..=at].rotate_right(1);
        } else {
            self.catalogue_offerings.retain(|(fingerprint, _)| fingerprint.catalogue.strong_count() > 0);
            self.catalogue_offerings.truncate(MAX_CATALOGUE_OFFERINGS - 1);
            let kept = &self.catalogue_offerings;
            self.pool_offerings.retain(|(_, offerings)| {
                kept.iter().any(|(_, catalogue_offerings)| offerings.is_from(catalogue_offerings))
            });
            let fingerprint = CatalogueFingerprint::of(pool, resources, well_known);
            self.catalogue_offerings
                .insert(0, (fingerprint, Arc::new(CatalogueOfferings::of(pool, resources, well_known))));
        }
        Arc::clone(&self.catalogue_offerings[0].1)
    }
}

impl CatalogueFingerprint {
    fn of(pool: &NodePool, resources: &ResourceOrder, well_known: &[Text]) -> Self {
        Self {
            catalogue: Arc::downgrade(&pool.catalogue),
            limited: limited_by(pool),
            ceilings: ceilings_of(pool),
            resources: resources.names().to_vec(),
            well_known: well_known.to_vec(),
        }
    }

    fn matches(&self, pool: &NodePool, resources: &ResourceOrder, well_known: &[Text]) -> bool {
        ptr::eq(self.catalogue.as_ptr(), Arc::as_ptr(&pool.catalogue))
            && self.ceilings == ceilings_of(pool)
            && self.resources == resources.names()
            && self.limited == limited_by(pool)
            && self.well_known == well_known
    }
}

fn ceilings_of(pool: &NodePool) -> Ceilings {
    let rules = &pool.rules;
    (rules.max_price_per_vcpu, rules.max_node_price, rules.max_node_vcpu, rules.ignores_credits)
}

#[cfg(test)]
mod tests;
