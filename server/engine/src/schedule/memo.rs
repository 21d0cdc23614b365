//! What decisions have in common: stalls, kept from one decision to the next.
//!
//! Pools and catalogues change rarely and are alike in many clusters, and of all that a small decision looks at they are
//! the largest. A [`Memo`] keeps what was compiled from them for whoever decides next, for whichever cluster. It never
//! changes an answer: a stall is found again only under everything that it was made from.

use std::ptr;
use std::sync::{Arc, Weak};

use super::axis::Axis;
use super::stall::{Stall, limited_by};
use crate::model::{Catalogue, Labels, MicroUsd, NodePool, Requirements, ResourceName, Text};

/// Stalls that are kept: a fleet words its pools in fewer ways than this, and each takes a quarter of a MiB with the
/// whole catalogue of a region.
const MOST_STALLS: usize = 64;

/// Compiled pools and catalogues, for later decisions. Its owner passes it to every decision that it may serve.
#[derive(Debug, Default)]
pub struct Memo {
    /// Those that were asked for last come first.
    kept: Vec<(Wording, Arc<Stall>)>,
}

/// Everything that a stall is made from.
#[derive(Debug)]
struct Wording {
    /// Held weakly: the catalogue itself can go, but no other can come to its address.
    catalogue: Weak<Catalogue>,
    requirements: Requirements,
    labels: Labels,
    limited: Vec<Text>,
    ceilings: Ceilings,
    resources: Vec<ResourceName>,
    well_known: Vec<Text>,
}

/// Price per vCPU, price and vCPUs of a node, at most.
type Ceilings = (Option<MicroUsd>, Option<MicroUsd>, Option<i64>);

impl Memo {
    /// The stall of `pool`, compiled unless it is known.
    pub(super) fn stall(&mut self, pool: &NodePool, axis: &Axis, well_known: &[Text]) -> Arc<Stall> {
        if let Some(at) = self.kept.iter().position(|(wording, _)| wording.is_of(pool, axis, well_known)) {
            self.kept[..=at].rotate_right(1);
        } else {
            self.kept.retain(|(wording, _)| wording.catalogue.strong_count() > 0);
            self.kept.truncate(MOST_STALLS - 1);
            let wording = Wording::of(pool, axis, well_known);
            self.kept.insert(0, (wording, Arc::new(Stall::of(pool, axis, well_known))));
        }
        Arc::clone(&self.kept[0].1)
    }
}

impl Wording {
    fn of(pool: &NodePool, axis: &Axis, well_known: &[Text]) -> Self {
        Self {
            catalogue: Arc::downgrade(&pool.catalogue),
            requirements: pool.requirements.clone(),
            labels: pool.labels.clone(),
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
            && self.labels == pool.labels
            && self.requirements == pool.requirements
            && self.well_known == well_known
    }
}

fn ceilings_of(pool: &NodePool) -> Ceilings {
    let rules = &pool.rules;
    (rules.max_price_per_vcpu, rules.max_node_price, rules.max_node_vcpu)
}

#[cfg(test)]
mod tests;
