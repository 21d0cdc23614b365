//! The offerings of a pool that are open to a pod, and why the others are rejected.

use std::collections::BTreeMap;
use std::rc::Rc;

use model::labels::{CAPACITY_TYPE, ZONE};
use model::resources::CPU;
use model::{CapacityType, InstanceType, Millis, NodePool, Offering, Requirement, Requirements, Text};
use verifier::kernel::{SpotUsage, exceeds_node_size, remaining_spot_wait, within_ceilings};

use super::open_offerings::FilterOptions;
use super::pod_requirements::{IgnoredRule, PodRequirements};
use super::snapshot::PlanSnapshot;

/// Why an offering is not open to a pod. Variants are in the order of the checks, so the last ones
/// are the nearest misses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rejection {
    /// The zone is not allowed.
    Zone,
    /// The capacity type is not allowed.
    CapacityType,
    /// Another label is not allowed.
    Label,
    /// The offering is unavailable at present.
    Unavailable,
    /// The reservation has no instance left.
    Reservation,
    /// The price exceeds a ceiling of the pool.
    Price,
    /// The on-demand floor or the maximum spot share of the pool excludes spot.
    SpotShare,
    /// The wait for spot has not ended.
    SpotWait,
}

/// The requirements on offerings, looked up once for all offerings.
#[derive(Debug)]
pub(super) struct Wanted<'m> {
    merged: &'m Requirements,
    zone: Option<&'m Requirement>,
    kind: Option<&'m Requirement>,
    /// Offering labels that must be present.
    present: Vec<&'m Text>,
    spot: bool,
}

/// Filters the offerings of one pool for a pod.
#[derive(Debug)]
pub(super) struct OfferingFilter<'w, 'i> {
    pub snapshot: &'w PlanSnapshot<'i>,
    pool: u32,
    usage: SpotUsage,
    availability: bool,
    ceilings: bool,
    share: bool,
    wait: Option<Millis>,
    /// The node is already launched: reservation and spot share already count it.
    pub already_launched: bool,
}

impl<'w, 'i> OfferingFilter<'w, 'i> {
    /// A filter of the offerings of `pool` for a pod.
    pub(super) fn new(snapshot: &'w PlanSnapshot<'i>, pod_reqs: &PodRequirements<'_>, pool: u32) -> Self {
        let wait = if pod_reqs.ignores(&IgnoredRule::SpotWait(pool)) {
            None
        } else {
            remaining_spot_wait(&snapshot.input.pools[pool as usize], pod_reqs.created, snapshot.input.now)
        };
        Self {
            snapshot,
            pool,
            usage: snapshot.spot_usage(pool),
            availability: !pod_reqs.ignores(&IgnoredRule::Availability(pool)),
            ceilings: !pod_reqs.ignores(&IgnoredRule::Ceilings(pool)),
            share: !pod_reqs.ignores(&IgnoredRule::SpotShare(pool)),
            wait,
            already_launched: false,
        }
    }

    fn pool(&self) -> &'w NodePool {
        &self.snapshot.input.pools[self.pool as usize]
    }

    /// Whether the instance type exceeds `max-node-vcpu` of the pool.
    pub(super) fn oversized(&self, instance: &InstanceType) -> bool {
        self.ceilings && exceeds_node_size(self.pool(), instance)
    }

    /// The requirements of `merged` on the offerings of this pool.
    pub(super) fn wanted<'m>(&self, merged: &'m Requirements) -> Wanted<'m>
    where
        'w: 'm,
    {
        let (zone, kind) = (merged.get(ZONE), merged.get(CAPACITY_TYPE));
        let present = |key: &&Text| merged.get(key).is_some_and(|r| !r.allows_absence());
        let present = self.pool().catalogue.offering_keys.iter().filter(present).collect();
        let spot = kind.is_none_or(|r| r.has(CapacityType::Spot.as_str()));
        Wanted { merged, zone, kind, present, spot }
    }

    /// Why `offering` is rejected for `wanted`; `None` if it is open.
    pub(super) fn rejection(
        &self,
        instance: &InstanceType,
        offering: &Offering,
        wanted: &Wanted<'_>,
    ) -> Option<Rejection> {
        let allowed = |requirement: Option<&Requirement>, value: &str| requirement.is_none_or(|r| r.has(value));
        if !allowed(wanted.zone, &offering.zone) {
            return Some(Rejection::Zone);
        }
        if !allowed(wanted.kind, offering.capacity_type.as_str()) {
            return Some(Rejection::CapacityType);
        }
        if !labels_agree(instance, offering, wanted) {
            return Some(Rejection::Label);
        }
        if self.availability && !offering.available {
            return Some(Rejection::Unavailable);
        }
        let exhausted = |reservation| self.snapshot.left_in(reservation) <= 0;
        if !self.already_launched && offering.reservation.as_ref().is_some_and(exhausted) {
            return Some(Rejection::Reservation);
        }
        if self.ceilings && !within_ceilings(self.pool(), instance, offering) {
            return Some(Rejection::Price);
        }
        self.rejection_by_share(instance, offering.capacity_type, wanted.spot)
    }

    fn rejection_by_share(&self, instance: &InstanceType, kind: CapacityType, spot: bool) -> Option<Rejection> {
        let as_spot = || self.usage.with_spot_node(instance.capacity.get(CPU));
        let excluded = self.share && !self.already_launched && as_spot().forbids_spot(&self.pool().rules);
        match kind {
            CapacityType::Spot if excluded => Some(Rejection::SpotShare),
            CapacityType::OnDemand if self.wait.is_some() && spot && !excluded => Some(Rejection::SpotWait),
            _ => None,
        }
    }

    /// The open offerings under `merged`, by instance type of the catalogue.
    pub(super) fn open(&self, merged: &Requirements) -> Rc<[Vec<u32>]> {
        let Self { availability, ceilings, share, already_launched, .. } = *self;
        let options = FilterOptions { availability, ceilings, share, waits: self.wait.is_some(), already_launched };
        let wanted = self.wanted(merged);
        let open = |instance: &InstanceType, offering: &Offering| self.rejection(instance, offering, &wanted).is_none();
        self.snapshot.open_offerings.find((self.pool, merged, options), &self.pool().catalogue, open)
    }

    /// Number of rejected offerings of these types, by rejection.
    pub(super) fn count_rejections(&self, types: &[u32], merged: &Requirements) -> BTreeMap<Rejection, usize> {
        let wanted = self.wanted(merged);
        let mut counts = BTreeMap::new();
        for instance in types.iter().map(|&at| &self.pool().catalogue.types[at as usize]) {
            for rejection in
                instance.offerings.iter().filter_map(|offering| self.rejection(instance, offering, &wanted))
            {
                *counts.entry(rejection).or_insert(0) += 1;
            }
        }
        counts
    }
}

fn labels_agree(instance: &InstanceType, offering: &Offering, wanted: &Wanted<'_>) -> bool {
    let stated = offering.labels.iter().all(|(key, value)| wanted.merged.get(key).is_none_or(|r| r.has(value)));
    let there = |key: &&Text| offering.labels.contains_key(*key) || instance.labels.get(key).is_some();
    stated && wanted.present.iter().all(there)
}
