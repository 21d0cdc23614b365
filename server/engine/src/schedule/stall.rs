//! What one NodePool can buy as far as pool and catalogue say: types as columns, their offerings as slots.
//!
//! A [`PoolOfferings`] depends on no pod that is placed and on no node that stands, so pools of one wording share it from one
//! decision to the next ([`super::memo`]). The larger part of it, the [`CatalogueOfferings`], depends on neither labels nor requirements,
//! so pools that differ only there share that.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

use rustc_hash::FxHashSet;

use super::axis::{Amounts, Axis};
use super::bits::BitSet;
use super::variety::Variety;
use crate::model::labels::{CAPACITY_TYPE, ZONE};
use crate::model::resources::{CPU, NODES};
use crate::model::{CapacityType, InstanceType, Labels, MicroUsd, NodePool, Offering, Requirement, Text};

/// A combination of everything that an offering decides: zone, capacity type, reservation and further labels. Types are
/// offered in slots, so that a requirement on zones is one mask for all of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OfferingKey {
    pub(super) capacity_type: CapacityType,
    pub(super) zone: Text,
    pub(super) reservation: Option<Text>,
    pub(super) labels: Labels,
}

impl OfferingKey {
    /// The value of `key`, if offerings decide it.
    pub(super) fn label(&self, key: &str) -> Option<&str> {
        match key {
            ZONE => Some(&self.zone),
            CAPACITY_TYPE => Some(self.capacity_type.as_str()),
            _ => self.labels.get(key).map(AsRef::as_ref),
        }
    }

    /// Whether a machine in this slot satisfies `requirement`.
    pub(super) fn satisfies(&self, requirement: &Requirement) -> bool {
        self.label(requirement.key()).map_or(requirement.allows_absence(), |value| requirement.has(value))
    }
}

/// One instance type in one pool.
#[derive(Debug)]
pub(super) struct Machine {
    /// Index in the pool's catalogue.
    pub(super) index: u32,
    /// What pods can use, DaemonSets included.
    room: Amounts,
    /// What counts against the pool's limits, along [`PoolOfferings::limited`].
    pub(super) charge: Vec<i64>,
    /// Slots in which it can be launched now.
    pub(super) slots: BitSet,
    /// (slot, price), by price and then slot.
    pub(super) prices: Vec<(u16, MicroUsd)>,
    /// Launched only when nothing ordinary would do.
    pub(super) exotic: bool,
    /// vCPUs, in millicores, for the spot share.
    pub(super) vcpu_milli: i64,
}

impl Machine {
    /// The cheapest offering in `slots`.
    pub(super) fn cheapest_in(&self, slots: &BitSet) -> Option<(u16, MicroUsd)> {
        self.prices.iter().find(|(slot, _)| slots.contains(usize::from(*slot))).copied()
    }
}

/// What one requirement of a pool leaves of its types.
#[derive(Debug)]
pub(super) struct FilteredTypes {
    requirement: Requirement,
    /// The value that the pool gives the label, where types do not define it.
    given: Option<Text>,
    suited: BitSet,
    open: BitSet,
}

/// What can be bought before labels and requirements are looked at, price ceilings applied.
#[derive(Debug)]
pub(super) struct CatalogueOfferings {
    /// Slots, sorted: reserved first, then spot, then on-demand.
    pub(super) slots: Vec<OfferingKey>,
    /// Types, in the catalogue's order (by name).
    pub(super) machines: Vec<Machine>,
    /// Resources that the pool limits, `nodes` apart.
    pub(super) limited: Vec<Text>,
    /// The most that any machine is charged, along [`CatalogueOfferings::limited`].
    pub(super) most_charged: Vec<i64>,
    /// Label keys that some type defines.
    pub(super) type_keys: Vec<Text>,
    /// Label keys that a machine has only when its type or offering defines them.
    pub(super) well_known: BTreeSet<Text>,
    /// For each capacity type, the slots of it.
    by_capacity: BTreeMap<CapacityType, BitSet>,
}

/// What one NodePool can buy.
#[derive(Debug)]
pub(super) struct PoolOfferings {
    goods: Arc<CatalogueOfferings>,
    /// What `minValues` ask for, one for each requirement that has them.
    pub(super) varieties: Vec<Variety>,
    /// The pool's own requirements on labels that types define, by key.
    narrowed: BTreeMap<Text, Arc<FilteredTypes>>,
}

impl CatalogueOfferings {
    /// What `pool` sells to anybody.
    pub(super) fn of(pool: &NodePool, axis: &Axis, well_known: &[Text]) -> Self {
        let slots = slots_of(pool);
        let limited = limited_by(pool);
        let machine = |(index, kind): (usize, &InstanceType)| machine_of(pool, kind, index, axis, &slots, &limited);
        let machines: Vec<Machine> = pool.catalogue.types.iter().enumerate().map(machine).collect();
        let most_charged = |at: usize| machines.iter().map(|machine| machine.charge[at]).max().unwrap_or(0);
        let most_charged = (0..limited.len()).map(most_charged).collect();
        let keys = pool.catalogue.types.iter().flat_map(|kind| kind.labels.iter().map(Requirement::key));
        // Types have much the same keys: doubles go before anything is sorted.
        let mut type_keys: Vec<Text> = keys.collect::<FxHashSet<_>>().into_iter().cloned().collect();
        type_keys.sort();
        let by_capacity = [CapacityType::Reserved, CapacityType::Spot, CapacityType::OnDemand]
            .map(|capacity_type| (capacity_type, slots_with(&slots, capacity_type)))
            .into();
        let well_known = well_known.iter().cloned().collect();
        Self { slots, machines, limited, most_charged, type_keys, well_known, by_capacity }
    }

    /// The slots of `capacity_type`.
    pub(super) fn slots_of(&self, capacity_type: CapacityType) -> &BitSet {
        &self.by_capacity[&capacity_type]
    }

    /// What pods can use of each machine, DaemonSets included.
    pub(super) fn rooms(&self) -> Vec<Amounts> {
        self.machines.iter().map(|machine| machine.room.clone()).collect()
    }
}

impl PoolOfferings {
    /// The stall of `pool`, which sells `goods`. What an equal requirement leaves is taken over from `others`, stalls that
    /// sell the same.
    pub(super) fn of<'s>(
        pool: &NodePool,
        goods: Arc<CatalogueOfferings>,
        others: impl Iterator<Item = &'s Self> + Clone,
    ) -> Self {
        let own = pool.requirements.iter().filter(|own| goods.type_keys.binary_search(own.key()).is_ok());
        let narrowed = |own: &Requirement| {
            let given = pool.labels.get(own.key());
            let known = others.clone().filter_map(|other| other.narrowed.get(own.key()));
            let mut known = known.filter(|known| known.requirement == *own && known.given.as_ref() == given);
            known.next().map_or_else(|| Arc::new(narrowed_by(own, pool)), Arc::clone)
        };
        let narrowed = own.map(|own| (own.key().clone(), narrowed(own))).collect();
        Self { goods, varieties: Variety::of(pool), narrowed }
    }

    /// Whether this stall sells `goods`.
    pub(super) fn sells(&self, goods: &Arc<CatalogueOfferings>) -> bool {
        Arc::ptr_eq(&self.goods, goods)
    }

    /// Whether both sell the same.
    pub(super) fn sells_as(&self, other: &Self) -> bool {
        self.sells(&other.goods)
    }

    /// The types that suit `requirement`, and those that leave its label open, if it is one of the pool's own.
    pub(super) fn narrowed(&self, requirement: &Requirement) -> Option<(&BitSet, &BitSet)> {
        let own = self.narrowed.get(requirement.key())?;
        (own.requirement == *requirement).then_some((&own.suited, &own.open))
    }
}

impl Deref for PoolOfferings {
    type Target = CatalogueOfferings;

    fn deref(&self) -> &CatalogueOfferings {
        &self.goods
    }
}

/// The resources that `pool` limits, `nodes` apart.
pub(super) fn limited_by(pool: &NodePool) -> Vec<Text> {
    pool.limits.iter().map(|(name, _)| name.clone()).filter(|name| name.as_ref() != NODES).collect()
}

/// Whether offerings, not types, decide `key`.
pub(super) fn is_slot_key(pool: &NodePool, key: &str) -> bool {
    key == ZONE || key == CAPACITY_TYPE || pool.catalogue.offering_keys.iter().any(|known| known.as_ref() == key)
}

/// Whether a machine of type `kind` satisfies `requirement`, whose label the pool may give it.
pub(super) fn suits(kind: &InstanceType, requirement: &Requirement, pool: &NodePool) -> bool {
    match kind.labels.get(requirement.key()) {
        Some(known) => known.intersects(requirement) || (known.allows_absence() && requirement.allows_absence()),
        None => {
            let given = pool.labels.get(requirement.key());
            given.map_or(requirement.allows_absence(), |value| requirement.has(value))
        }
    }
}

/// Whether a machine of type `kind` has the label `key` with one of several values.
pub(super) fn leaves_open(kind: &InstanceType, key: &Text) -> bool {
    let several = |values: Option<&BTreeSet<Text>>| values.is_none_or(|values| values.len() > 1);
    kind.labels.get(key).is_some_and(|known| !known.allows_absence() && several(known.finite_values()))
}

fn narrowed_by(requirement: &Requirement, pool: &NodePool) -> FilteredTypes {
    let types = &pool.catalogue.types;
    let (mut suited, mut open) = (BitSet::empty(types.len()), BitSet::empty(types.len()));
    for (at, kind) in types.iter().enumerate() {
        if suits(kind, requirement, pool) {
            suited.insert(at);
        }
        if leaves_open(kind, requirement.key()) {
            open.insert(at);
        }
    }
    FilteredTypes { requirement: requirement.clone(), given: pool.labels.get(requirement.key()).cloned(), suited, open }
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
        labels: offering.labels.clone(),
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
    axis: &Axis,
    slots: &[OfferingKey],
    limited: &[Text],
) -> Machine {
    let mut open = BitSet::empty(slots.len());
    let mut prices = Vec::new();
    for offering in kind.offerings.iter().filter(|offering| offering.available && affordable(pool, kind, offering)) {
        if let Some(at) = slots.iter().position(|slot| same_slot(slot, offering)) {
            open.insert(at);
            prices.push((u16::try_from(at).unwrap_or(u16::MAX), offering.price));
        }
    }
    prices.sort_by_key(|(slot, price)| (*price, *slot));
    Machine {
        index: u32::try_from(index).unwrap_or(u32::MAX),
        room: axis.room(&kind.allocatable),
        charge: limited.iter().map(|name| kind.capacity.get(name)).collect(),
        slots: open,
        prices,
        exotic: kind.exotic,
        vcpu_milli: kind.capacity.get(CPU),
    }
}

/// Whether the pool's ceilings allow this offering: strictly dearer ones are no options (plan contract §4).
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
