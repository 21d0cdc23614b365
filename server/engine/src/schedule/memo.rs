//! What decisions have in common: stalls, kept from one decision to the next.
//!
//! Pools and catalogues change rarely and are alike in many clusters, and of all that a small decision looks at they are
//! the largest. A [`CompileCache`] keeps what was compiled from them for whoever decides next, for whichever cluster. It never
//! changes an answer: a stall is found again only under everything that it was made from.

use std::ptr;
use std::sync::{Arc, Weak};

use super::axis::Axis;
use super::stall::{CatalogueOfferings, PoolOfferings, limited_by};
use crate::model::{Catalogue, Labels, MicroUsd, NodePool, Requirements, ResourceName, Text};

/// CatalogueOfferings that are kept: a fleet has fewer catalogues, ceilings and kinds of limits than this, and each takes a quarter of a
/// MiB with the whole catalogue of a region.
const MOST_GOODS: usize = 64;

/// Stalls that are kept: pools of one cluster that differ in their labels alone have one each, of a few KiB.
const MOST_STALLS: usize = 512;

/// Compiled pools and catalogues, for later decisions. Its owner passes it to every decision that it may serve.
#[derive(Debug, Default)]
pub struct CompileCache {
    /// Those that were asked for last come first.
    goods: Vec<(Trade, Arc<CatalogueOfferings>)>,
    /// Those that were asked for last come first; all of them sell some of `goods`.
    stalls: Vec<(Fingerprint, Arc<PoolOfferings>)>,
}

/// Everything that goods are made from.
#[derive(Debug)]
struct Trade {
    /// Held weakly: the catalogue itself can go, but no other can come to its address.
    catalogue: Weak<Catalogue>,
    limited: Vec<Text>,
    ceilings: Ceilings,
    resources: Vec<ResourceName>,
    well_known: Vec<Text>,
}

/// What a stall is made from beside its goods.
#[derive(Debug)]
struct Fingerprint {
    requirements: Requirements,
    labels: Labels,
}

/// Price per vCPU, price and vCPUs of a node, at most.
type Ceilings = (Option<MicroUsd>, Option<MicroUsd>, Option<i64>);

impl CompileCache {
    /// The stall of `pool`, compiled unless it is known.
    pub(super) fn stall(&mut self, pool: &NodePool, axis: &Axis, well_known: &[Text]) -> Arc<PoolOfferings> {
        let goods = self.goods(pool, axis, well_known);
        let is_it = |(wording, stall): &(Fingerprint, Arc<PoolOfferings>)| {
            stall.sells(&goods) && wording.labels == pool.labels && wording.requirements == pool.requirements
        };
        if let Some(at) = self.stalls.iter().position(is_it) {
            self.stalls[..=at].rotate_right(1);
        } else {
            self.stalls.truncate(MOST_STALLS - 1);
            let others = self.stalls.iter().map(|(_, stall)| stall.as_ref()).filter(|other| other.sells(&goods));
            let stall = PoolOfferings::of(pool, Arc::clone(&goods), others);
            let wording = Fingerprint { requirements: pool.requirements.clone(), labels: pool.labels.clone() };
            self.stalls.insert(0, (wording, Arc::new(stall)));
        }
        Arc::clone(&self.stalls[0].1)
    }

    /// What `pool` sells, compiled unless it is known.
    fn goods(&mut self, pool: &NodePool, axis: &Axis, well_known: &[Text]) -> Arc<CatalogueOfferings> {
        if let Some(at) = self.goods.iter().position(|(trade, _)| trade.is_of(pool, axis, well_known)) {
            self.goods[..=at].rotate_right(1);
        } else {
            self.goods.retain(|(trade, _)| trade.catalogue.strong_count() > 0);
            self.goods.truncate(MOST_GOODS - 1);
            let kept = &self.goods;
            self.stalls.retain(|(_, stall)| kept.iter().any(|(_, goods)| stall.sells(goods)));
            let trade = Trade::of(pool, axis, well_known);
            self.goods.insert(0, (trade, Arc::new(CatalogueOfferings::of(pool, axis, well_known))));
        }
        Arc::clone(&self.goods[0].1)
    }
}

impl Trade {
    fn of(pool: &NodePool, axis: &Axis, well_known: &[Text]) -> Self {
        Self {
            catalogue: Arc::downgrade(&pool.catalogue),
            limited: limited_by(pool),
            ceilings: ceilings_of(pool),
            resources: axis.names().to_vec(),
            well_known: well_known.to_vec(),
        }
    }

    fn is_of(&self, pool: &NodePool, axis: &Axis, well_known: &[Text]) -> bool {
        ptr::eq(self.catalogue.as_ptr(), Arc::as_ptr(&pool.catalogue))
            && self.ceilings == ceilings_of(pool)
            && self.resources == axis.names()
            && self.limited == limited_by(pool)
            && self.well_known == well_known
    }
}

fn ceilings_of(pool: &NodePool) -> Ceilings {
    let rules = &pool.rules;
    (rules.max_price_per_vcpu, rules.max_node_price, rules.max_node_vcpu)
}

#[cfg(test)]
mod tests;
