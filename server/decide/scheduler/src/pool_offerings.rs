//! What one NodePool can launch according to pool and catalogue: instance types, and their
//! offerings as slots.
//!
//! A [`PoolOfferings`] depends on no placed pod and on no node, so pools with equal fingerprints
//! share it from one decision to the next ([`super::compile_cache`]). Its larger part, the
//! [`CatalogueOfferings`], depends on neither labels nor requirements; pools that differ only in
//! those share that.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::bit_set::BitSet;
use super::min_values::MinValuesRule;
use super::resource_vector::{Amounts, ResourceOrder};
use model::labels::{CAPACITY_TYPE, ZONE};
use model::resources::{CPU, NODES};
use model::{Burstable, CapacityType, InstanceType, Labels, MicroUsd, NodePool, Offering, Requirement, Text, Zone};

/// The identity of an offering apart from its type and price: zone, capacity type, reservation and
/// further labels. A slot is the index of an [`OfferingKey`]. Types are offered in slots, so that a
/// requirement on zones is one bit mask for all types.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OfferingKey {
    pub(super) capacity_type: CapacityType,
    pub(super) zone: Zone,
    pub(super) reservation: Option<Text>,
    pub(super) labels: Arc<Labels>,
}

impl OfferingKey {
    /// The value of label `key`, if offerings define it.
    pub(super) fn label(&self, key: &str) -> Option<&str> {
        match key {
            ZONE => Some(&self.zone),
            CAPACITY_TYPE => Some(self.capacity_type.as_str()),
            _ => self.labels.get(key).map(AsRef::as_ref),
        }
    }

    /// Whether an instance of this offering satisfies `requirement`.
    pub(super) fn satisfies(&self, requirement: &Requirement) -> bool {
        self.label(requirement.key()).map_or(requirement.allows_absence(), |value| requirement.has(value))
    }
}

#[derive(Debug)]
pub(super) struct PoolInstanceType {
    /// Index in the pool's catalogue.
    pub(super) index: u32,
    /// Allocatable amounts for pods, DaemonSets included.
    pub(super) allocatable: Amounts,
    /// Amounts counted against the pool's limits, along [`PoolOfferings::limited`].
    pub(super) charge: Vec<i64>,
    /// Slots in which it is available.
    pub(super) slots: BitSet,
    /// (slot, price), sorted by price and then slot.
    pub(super) prices: Vec<(u16, MicroUsd)>,
    /// Launched only when no ordinary type is possible.
    pub(super) exotic: bool,
    /// Set when the pool pays for CPU beyond a baseline.
    pub(super) burstable: Option<Burstable>,
    /// vCPUs, in millicores, for the spot share.
    pub(super) vcpu_milli: i64,
}

impl PoolInstanceType {
    /// The cheapest offering in `slots`.
    pub(super) fn cheapest_in(&self, slots: &BitSet) -> Option<(u16, MicroUsd)> {
        self.prices.iter().find(|(slot, _)| slots.contains(usize::from(*slot))).copied()
    }
}

/// The types that one requirement of a pool admits.
#[derive(Debug)]
pub(super) struct FilteredTypes {
    requirement: Requirement,
    /// The pool's value of the label, used where types do not define it.
    pool_value: Option<Text>,
    matching: BitSet,
    open: BitSet,
}

/// What can be launched before labels and requirements are applied; price ceilings are applied.
#[derive(Debug)]
pub(super) struct CatalogueOfferings {
    /// Slots, sorted: reserved first, then spot, then on-demand.
    pub(super) slots: Vec<OfferingKey>,
    /// Types, in the catalogue's order (by name).
    pub(super) instance_types: Vec<PoolInstanceType>,
    /// Resources with a pool limit, except `nodes`.
    pub(super) limited: Vec<Text>,
    /// The maximum charge of any type, along [`CatalogueOfferings::limited`].
    pub(super) max_charge: Vec<i64>,
    /// Label keys defined by some type.
    pub(super) type_keys: Vec<Text>,
    /// Well-known label keys: a node has such a label only when its type or offering defines it.
    pub(super) well_known: BTreeSet<Text>,
    /// The slots of each capacity type.
    by_capacity: BTreeMap<CapacityType, BitSet>,
}

#[derive(Debug)]
pub(super) struct PoolOfferings {
    catalogue_offerings: Arc<CatalogueOfferings>,
    /// The pool's `minValues`, one per requirement that has them.
    pub(super) min_values_rules: Vec<MinValuesRule>,
    /// The types admitted by the pool's own requirements on labels that types define, by key.
    filtered: BTreeMap<Text, Arc<FilteredTypes>>,
}

impl CatalogueOfferings {
    /// Compiles the offerings of `pool`, before its labels and requirements.
    pub(super) fn of(pool: &NodePool, resources: &ResourceOrder, well_known: &[Text]) -> Self {
        let slots = slots_of(pool);
        let limited = limited_by(pool);
        let instance_type =
            |(index, kind): (usize, &InstanceType)| machine_of(pool, kind, index, resources, &slots, &limited);
        let instance_types: Vec<PoolInstanceType> =
            pool.catalogue.types.iter().enumerate().map(instance_type).collect();
        let max_charge =
            |at: usize| instance_types.iter().map(|instance_type| instance_type.charge[at]).max().unwrap_or(0);
        let max_charge = (0..limited.len()).map(max_charge).collect();
        let keys = pool.catalogue.types.iter().flat_map(|kind| kind.labels.iter().map(Requirement::key));
        // Most types have the same keys: duplicates are removed before sorting.
        let mut type_keys: Vec<Text> = keys.collect::<FxHashSet<_>>().into_iter().cloned().collect();
        type_keys.sort();
        let by_capacity = [CapacityType::Reserved, CapacityType::Spot, CapacityType::OnDemand]
            .map(|capacity_type| (capacity_type, slots_with(&slots, capacity_type)))
            .into();
        let well_known = well_known.iter().cloned().collect();
        Self { slots, instance_types, limited, max_charge, type_keys, well_known, by_capacity }
    }

    /// The slots of `capacity_type`.
    pub(super) fn slots_of(&self, capacity_type: CapacityType) -> &BitSet {
        &self.by_capacity[&capacity_type]
    }

    /// Allocatable amounts of each type, DaemonSets included.
    pub(super) fn allocatable(&self) -> Vec<Amounts> {
        self.instance_types.iter().map(|instance_type| instance_type.allocatable.clone()).collect()
    }
}

impl PoolOfferings {
    /// The offerings of `pool` over `catalogue_offerings`. The result of an equal requirement is
    /// reused from `others`, which must be built from the same catalogue offerings.
    pub(super) fn of<'s>(
        pool: &NodePool,
        catalogue_offerings: Arc<CatalogueOfferings>,
        others: impl Iterator<Item = &'s Self> + Clone,
    ) -> Self {
        let own = pool.requirements.iter().filter(|own| catalogue_offerings.type_keys.binary_search(own.key()).is_ok());
        let filtered = |own: &Requirement| {
            let pool_value = pool.labels.get(own.key());
            let known = others.clone().filter_map(|other| other.filtered.get(own.key()));
            let mut known = known.filter(|known| known.requirement == *own && known.pool_value.as_ref() == pool_value);
            known.next().map_or_else(|| Arc::new(filter_types(own, pool)), Arc::clone)
        };
        let filtered = own.map(|own| (own.key().clone(), filtered(own))).collect();
        Self { catalogue_offerings, min_values_rules: MinValuesRule::of(pool), filtered }
    }

    /// Whether this was built from `catalogue_offerings`.
    pub(super) fn is_from(&self, catalogue_offerings: &Arc<CatalogueOfferings>) -> bool {
        Arc::ptr_eq(&self.catalogue_offerings, catalogue_offerings)
    }

    /// Whether both were built from the same catalogue offerings.
    pub(super) fn shares_catalogue_with(&self, other: &Self) -> bool {
        self.is_from(&other.catalogue_offerings)
    }

    /// The types admitted by `requirement`, and those that leave its label open, if it is one of
    /// the pool's own.
    pub(super) fn filtered(&self, requirement: &Requirement) -> Option<(&BitSet, &BitSet)> {
        let own = self.filtered.get(requirement.key())?;
        (own.requirement == *requirement).then_some((&own.matching, &own.open))
    }
}

impl Deref for PoolOfferings {
    type Target = CatalogueOfferings;

    fn deref(&self) -> &CatalogueOfferings {
        &self.catalogue_offerings
    }
}

/// The resources with a limit in `pool`, except `nodes`.
pub(super) fn limited_by(pool: &NodePool) -> Vec<Text> {
    pool.limits.iter().map(|(name, _)| name.clone()).filter(|name| name.as_ref() != NODES).collect()
}

/// Whether offerings, not types, define the label `key`.
pub(super) fn is_offering_label(pool: &NodePool, key: &str) -> bool {
    key == ZONE || key == CAPACITY_TYPE || pool.catalogue.offering_keys.iter().any(|known| known.as_ref() == key)
}

/// Whether type `kind` satisfies `requirement`; the pool may define the label.
pub(super) fn satisfies_requirement(kind: &InstanceType, requirement: &Requirement, pool: &NodePool) -> bool {
    match kind.labels.get(requirement.key()) {
        Some(known) => known.intersects(requirement) || (known.allows_absence() && requirement.allows_absence()),
        None => {
            let pool_value = pool.labels.get(requirement.key());
            pool_value.map_or(requirement.allows_absence(), |value| requirement.has(value))
        }
    }
}

/// Whether type `kind` allows several values of the label `key`.
pub(super) fn leaves_open(kind: &InstanceType, key: &Text) -> bool {
    let several = |values: Option<&BTreeSet<Text>>| values.is_none_or(|values| values.len() > 1);
    kind.labels.get(key).is_some_and(|known| !known.allows_absence() && several(known.finite_values()))
}

fn filter_types(requirement: &Requirement, pool: &NodePool) -> FilteredTypes {
    let types = &pool.catalogue.types;
    let (mut matching, mut open) = (BitSet::empty(types.len()), BitSet::empty(types.len()));
    for (at, kind) in types.iter().enumerate() {
        if satisfies_requirement(kind, requirement, pool) {
            matching.insert(at);
        }
        if leaves_open(kind, requirement.key()) {
            open.insert(at);
        }
    }
    FilteredTypes {
        requirement: requirement.clone(),
        pool_value: pool.labels.get(requirement.key()).cloned(),
        matching,
        open,
    }
}

fn slots_with(slots: &[OfferingKey], capacity_type: CapacityType) -> BitSet {
    let mut set = BitSet::empty(slots.len());
    let own = slots.iter().enumerate().filter(|(_, slot)| slot.capacity_type == capacity_type);
    own.for_each(|(at, _)| set.insert(at));
    set
}

fn slot_of(offering: &Offering) -> OfferingKey {
    OfferingKey {
        capacity_type: offering.capacity_type,
        zone: offering.zone.clone(),
        reservation: offering.reservation.as_ref().map(|reservation| reservation.id.clone()),
        labels: Arc::clone(&offering.labels),
    }
}

fn slots_of(pool: &NodePool) -> Vec<OfferingKey> {
    let mut slots: Vec<OfferingKey> = Vec::new();
    for offering in pool.catalogue.types.iter().flat_map(|kind| &kind.offerings).filter(|offering| offering.available) {
        if !slots.iter().any(|slot| same_slot(slot, offering)) {
            slots.push(slot_of(offering));
        }
    }
    slots.sort();
    slots
}

fn same_slot(slot: &OfferingKey, offering: &Offering) -> bool {
    slot.capacity_type == offering.capacity_type
        && slot.zone == offering.zone
        && slot.reservation.as_ref() == offering.reservation.as_ref().map(|reservation| &reservation.id)
        && slot.labels == offering.labels
}

fn machine_of(
    pool: &NodePool,
    kind: &InstanceType,
    index: usize,
    resources: &ResourceOrder,
    slots: &[OfferingKey],
    limited: &[Text],
) -> PoolInstanceType {
    let mut open = BitSet::empty(slots.len());
    let mut prices = Vec::new();
    for offering in kind.offerings.iter().filter(|offering| offering.available && affordable(pool, kind, offering)) {
        if let Some(at) = slots.iter().position(|slot| same_slot(slot, offering)) {
            open.insert(at);
            prices.push((u16::try_from(at).unwrap_or(u16::MAX), offering.price));
        }
    }
    prices.sort_by_key(|(slot, price)| (*price, *slot));
    PoolInstanceType {
        index: u32::try_from(index).unwrap_or(u32::MAX),
        allocatable: resources.capacity(&kind.allocatable),
        charge: limited.iter().map(|name| kind.capacity.get(name)).collect(),
        slots: open,
        prices,
        exotic: kind.exotic,
        burstable: kind.burstable.filter(|_| !pool.rules.ignores_credits),
        vcpu_milli: kind.capacity.get(CPU),
    }
}

/// Whether the pool's price ceilings allow this offering: only strictly higher prices are excluded
/// (plan contract §4).
fn affordable(pool: &NodePool, kind: &InstanceType, offering: &Offering) -> bool {
    let rules = &pool.rules;
    let vcpu_milli = kind.capacity.get(CPU);
    let per_vcpu_ok = rules
        .max_price_per_vcpu
        .is_none_or(|most| i128::from(offering.price.0) * 1000 <= i128::from(most.0) * i128::from(vcpu_milli));
    per_vcpu_ok
        && rules.max_node_price.is_none_or(|most| offering.price <= most)
        && rules.max_node_vcpu.is_none_or(|most| vcpu_milli <= most.saturating_mul(1000))
}
