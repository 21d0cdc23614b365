//! Which machines of a pool satisfy a set of node requirements, computed once per distinct set.
//!
//! A [`Fit`] is a rectangle of launch options: types × slots, plus what is required of labels that neither decides. Fits
//! and their intersections are interned, so that narrowing a node for one more pod is a table look-up.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::bits::BitSet;
use super::stall::{PoolOfferings, is_slot_key, leaves_open, suits};
use crate::model::labels::{HOSTNAME, INITIALIZED, NODECLASS, NODEPOOL, REGISTERED};
use crate::model::{MicroUsd, NodePool, Requirement, Requirements, Text};

/// The pseudo-label under which `matchFields` on `metadata.name` travel.
pub(super) const NAME_FIELD: &str = "metadata.name";

/// Index of an interned [`Fit`].
pub(super) type FitId = u32;
/// Index of interned node requirements.
pub(super) type ReqId = u32;

/// Launch options that are left.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Fit {
    pub(super) types: BitSet,
    pub(super) slots: BitSet,
    /// What is required of labels that the pool leaves open; empty in nearly every cluster.
    pub(super) open_labels: Requirements,
}

/// Interned requirements and fits.
#[derive(Debug, Default)]
pub(super) struct FitTable {
    requirements: Vec<Requirements>,
    requirement_ids: FxHashMap<Requirements, ReqId>,
    fits: Vec<Fit>,
    fit_ids: FxHashMap<Fit, FitId>,
    compiled: FxHashMap<(ReqId, u32), Option<FitId>>,
    intersections: FxHashMap<(FitId, FitId), Option<FitId>>,
    within: FxHashMap<(FitId, BitSet), Option<FitId>>,
    ranked: FxHashMap<FitId, Rc<[(MicroUsd, usize)]>>,
}

impl FitTable {
    pub(super) fn requirements(&self, id: ReqId) -> &Requirements {
        &self.requirements[id as usize]
    }

    pub(super) fn fit(&self, id: FitId) -> &Fit {
        &self.fits[id as usize]
    }

    pub(super) fn intern_requirements(&mut self, requirements: Requirements) -> ReqId {
        if let Some(id) = self.requirement_ids.get(&requirements) {
            return *id;
        }
        let id = u32::try_from(self.requirements.len()).unwrap_or(u32::MAX);
        self.requirements.push(requirements.clone());
        self.requirement_ids.insert(requirements, id);
        id
    }

    pub(super) fn intern(&mut self, fit: Fit) -> FitId {
        if let Some(id) = self.fit_ids.get(&fit) {
            return *id;
        }
        let id = u32::try_from(self.fits.len()).unwrap_or(u32::MAX);
        self.fits.push(fit.clone());
        self.fit_ids.insert(fit, id);
        id
    }

    /// The options of `pool` that satisfy requirements `id`, or `None` when there are none.
    pub(super) fn compile(&mut self, id: ReqId, at: u32, pool: &NodePool, stall: &PoolOfferings) -> Option<FitId> {
        if let Some(known) = self.compiled.get(&(id, at)) {
            return *known;
        }
        let fit = compile(&self.requirements[id as usize], pool, stall).map(|fit| self.intern(fit));
        self.compiled.insert((id, at), fit);
        fit
    }

    /// The options that both leave; both belong to one pool.
    pub(super) fn intersect(&mut self, a: FitId, b: FitId, stall: &PoolOfferings) -> Option<FitId> {
        if a == b {
            return Some(a);
        }
        let key = (a.min(b), a.max(b));
        if let Some(known) = self.intersections.get(&key) {
            return *known;
        }
        let (left, right) = (&self.fits[a as usize], &self.fits[b as usize]);
        let mut open_labels = left.open_labels.clone();
        open_labels.add_all(&right.open_labels);
        let slots = left.slots.intersection(&right.slots);
        let types = offered_in(left.types.intersection(&right.types), &slots, stall);
        let possible = !types.is_empty() && !open_labels.is_impossible();
        let fit = possible.then(|| self.intern(Fit { types, slots, open_labels }));
        self.intersections.insert(key, fit);
        fit
    }

    /// `id` cut down to `slots`.
    pub(super) fn within_slots(&mut self, id: FitId, slots: &BitSet, stall: &PoolOfferings) -> Option<FitId> {
        let slots = self.fits[id as usize].slots.intersection(slots);
        if slots == self.fits[id as usize].slots {
            return Some(id);
        }
        let key = (id, slots);
        if let Some(known) = self.within.get(&key) {
            return *known;
        }
        let types = offered_in(self.fits[id as usize].types.clone(), &key.1, stall);
        let open_labels = self.fits[id as usize].open_labels.clone();
        let fit = (!types.is_empty()).then(|| self.intern(Fit { types, slots: key.1.clone(), open_labels }));
        self.within.insert(key, fit);
        fit
    }

    /// What fit `id` leaves, cheapest first: (price of the cheapest offering, machine).
    pub(super) fn ranked(&mut self, id: FitId, stall: &PoolOfferings) -> Rc<[(MicroUsd, usize)]> {
        if let Some(known) = self.ranked.get(&id) {
            return known.clone();
        }
        let fit = &self.fits[id as usize];
        let price = |at: usize| Some((stall.machines[at].cheapest_in(&fit.slots)?.1, at));
        let mut all: Vec<(MicroUsd, usize)> = fit.types.iter().filter_map(price).collect();
        all.sort_unstable();
        let all: Rc<[(MicroUsd, usize)]> = all.into();
        self.ranked.insert(id, all.clone());
        all
    }
}

/// `types` without those that none of `slots` offers.
fn offered_in(mut types: BitSet, slots: &BitSet, stall: &PoolOfferings) -> BitSet {
    let gone: Vec<usize> = types.iter().filter(|at| !stall.machines[*at].slots.meets(slots)).collect();
    for at in gone {
        types.remove(at);
    }
    types
}

fn compile(wanted: &Requirements, pool: &NodePool, stall: &PoolOfferings) -> Option<Fit> {
    let mut fit = Fit {
        types: BitSet::full(stall.machines.len()),
        slots: BitSet::full(stall.slots.len()),
        open_labels: Requirements::new(),
    };
    if !wanted.iter().chain(pool.requirements.iter()).all(|requirement| apply(&mut fit, requirement, pool, stall)) {
        return None;
    }
    fit.types = offered_in(fit.types, &fit.slots, stall);
    (!fit.types.is_empty()).then_some(fit)
}

/// Narrows `fit` to what satisfies `requirement`; false when nothing does.
fn apply(fit: &mut Fit, requirement: &Requirement, pool: &NodePool, stall: &PoolOfferings) -> bool {
    if requirement.is_impossible() {
        return false;
    }
    let key = requirement.key();
    if let Some(value) = fixed_value(key, pool) {
        return requirement.has(value);
    }
    if key.as_ref() == HOSTNAME || key.as_ref() == NAME_FIELD {
        // A machine that does not exist has a name that nobody knows.
        return requirement.finite_values().is_none();
    }
    if is_slot_key(pool, key) {
        for at in 0..stall.slots.len() {
            if !stall.slots[at].satisfies(requirement) {
                fit.slots.remove(at);
            }
        }
        return !fit.slots.is_empty();
    }
    if stall.type_keys.binary_search(key).is_ok() {
        return narrow_types(fit, requirement, pool, stall);
    }
    // A custom label is on the machine because the pool says so. A well-known one that no type defines is on none.
    let given = pool.labels.contains_key(key) || !stall.well_known.contains(key);
    if given && pool.requirements.get(key).is_some() {
        fit.open_labels.add(requirement.clone());
        return !fit.open_labels.is_impossible();
    }
    requirement.allows_absence()
}

/// Labels that every machine of the pool has.
fn fixed_value<'p>(key: &Text, pool: &'p NodePool) -> Option<&'p str> {
    match key.as_ref() {
        NODEPOOL => Some(&pool.name),
        NODECLASS => Some(&pool.node_class),
        REGISTERED | INITIALIZED => Some("true"),
        _ => None,
    }
}

fn narrow_types(fit: &mut Fit, requirement: &Requirement, pool: &NodePool, stall: &PoolOfferings) -> bool {
    let open = match stall.narrowed(requirement) {
        Some((suited, open)) => {
            fit.types.intersect(suited);
            fit.types.meets(open)
        }
        None => {
            let unsuited: Vec<usize> =
                fit.types.iter().filter(|at| !suits(&pool.catalogue.types[*at], requirement, pool)).collect();
            unsuited.into_iter().for_each(|at| fit.types.remove(at));
            fit.types.iter().any(|at| leaves_open(&pool.catalogue.types[at], requirement.key()))
        }
    };
    if open {
        fit.open_labels.add(requirement.clone());
    }
    !fit.types.is_empty() && !fit.open_labels.is_impossible()
}
