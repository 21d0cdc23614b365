//! The launch options of a pool that satisfy a set of node requirements, computed once per distinct
//! set.
//!
//! A [`Fit`] is a rectangle of launch options, types × slots, with the requirements on labels that
//! neither defines. Fits and their intersections are interned, so narrowing a machine for one more
//! pod is a table lookup.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::bit_set::BitSet;
use super::pool_offerings::{PoolOfferings, is_offering_label, leaves_open, satisfies_requirement};
use model::labels::{HOSTNAME, INITIALIZED, NODECLASS, NODEPOOL, REGISTERED};
use model::{MicroUsd, NodePool, Requirement, Requirements, Text};

/// The pseudo-label that represents `matchFields` on `metadata.name`.
pub(super) const NAME_FIELD: &str = "metadata.name";

/// Index of an interned [`Fit`].
pub(super) type FitId = u32;
/// Index of interned node requirements.
pub(super) type RequirementsId = u32;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Fit {
    pub(super) types: BitSet,
    pub(super) slots: BitSet,
    /// Requirements on labels that the pool leaves open; empty in nearly every cluster.
    pub(super) open_labels: Requirements,
}

#[derive(Debug, Default)]
pub(super) struct FitTable {
    requirements: Vec<Requirements>,
    requirement_ids: FxHashMap<Requirements, RequirementsId>,
    fits: Vec<Fit>,
    fit_ids: FxHashMap<Fit, FitId>,
    compiled: FxHashMap<(RequirementsId, u32), Option<FitId>>,
    intersections: FxHashMap<(FitId, FitId), Option<FitId>>,
    within: FxHashMap<(FitId, BitSet), Option<FitId>>,
    ranked: FxHashMap<FitId, Rc<[(MicroUsd, usize)]>>,
}

impl FitTable {
    pub(super) fn requirements(&self, id: RequirementsId) -> &Requirements {
        &self.requirements[id as usize]
    }

    pub(super) fn fit(&self, id: FitId) -> &Fit {
        &self.fits[id as usize]
    }

    pub(super) fn intern_requirements(&mut self, requirements: Requirements) -> RequirementsId {
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
    pub(super) fn compile(
        &mut self,
        id: RequirementsId,
        at: u32,
        pool: &NodePool,
        offerings: &PoolOfferings,
    ) -> Option<FitId> {
        if let Some(known) = self.compiled.get(&(id, at)) {
            return *known;
        }
        let fit = compile(&self.requirements[id as usize], pool, offerings).map(|fit| self.intern(fit));
        self.compiled.insert((id, at), fit);
        fit
    }

    /// The intersection of two fits of one pool.
    pub(super) fn intersect(&mut self, a: FitId, b: FitId, offerings: &PoolOfferings) -> Option<FitId> {
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
        let types = offered_in(left.types.intersection(&right.types), &slots, offerings);
        let possible = !types.is_empty() && !open_labels.is_impossible();
        let fit = possible.then(|| self.intern(Fit { types, slots, open_labels }));
        self.intersections.insert(key, fit);
        fit
    }

    /// `id` restricted to `slots`.
    pub(super) fn within_slots(&mut self, id: FitId, slots: &BitSet, offerings: &PoolOfferings) -> Option<FitId> {
        let slots = self.fits[id as usize].slots.intersection(slots);
        if slots == self.fits[id as usize].slots {
            return Some(id);
        }
        let key = (id, slots);
        if let Some(known) = self.within.get(&key) {
            return *known;
        }
        let types = offered_in(self.fits[id as usize].types.clone(), &key.1, offerings);
        let open_labels = self.fits[id as usize].open_labels.clone();
        let fit = (!types.is_empty()).then(|| self.intern(Fit { types, slots: key.1.clone(), open_labels }));
        self.within.insert(key, fit);
        fit
    }

    /// The types of fit `id`, cheapest first: (price of the cheapest offering, type).
    pub(super) fn ranked(&mut self, id: FitId, offerings: &PoolOfferings) -> Rc<[(MicroUsd, usize)]> {
        if let Some(known) = self.ranked.get(&id) {
            return known.clone();
        }
        let fit = &self.fits[id as usize];
        let price = |at: usize| Some((offerings.instance_types[at].cheapest_in(&fit.slots)?.1, at));
        let mut all: Vec<(MicroUsd, usize)> = fit.types.iter().filter_map(price).collect();
        all.sort_unstable();
        let all: Rc<[(MicroUsd, usize)]> = all.into();
        self.ranked.insert(id, all.clone());
        all
    }
}

/// `types` without those that none of `slots` offers.
fn offered_in(mut types: BitSet, slots: &BitSet, offerings: &PoolOfferings) -> BitSet {
    let gone: Vec<usize> = types.iter().filter(|at| !offerings.instance_types[*at].slots.overlaps(slots)).collect();
    for at in gone {
        types.remove(at);
    }
    types
}

fn compile(wanted: &Requirements, pool: &NodePool, offerings: &PoolOfferings) -> Option<Fit> {
    let mut fit = Fit {
        types: BitSet::full(offerings.instance_types.len()),
        slots: BitSet::full(offerings.slots.len()),
        open_labels: Requirements::new(),
    };
    if !wanted.iter().chain(pool.requirements.iter()).all(|requirement| apply(&mut fit, requirement, pool, offerings)) {
        return None;
    }
    fit.types = offered_in(fit.types, &fit.slots, offerings);
    (!fit.types.is_empty()).then_some(fit)
}

/// Narrows `fit` to what satisfies `requirement`; false when nothing does.
fn apply(fit: &mut Fit, requirement: &Requirement, pool: &NodePool, offerings: &PoolOfferings) -> bool {
    if requirement.is_impossible() {
        return false;
    }
    let key = requirement.key();
    if let Some(value) = fixed_value(key, pool) {
        return requirement.has(value);
    }
    if key.as_ref() == HOSTNAME || key.as_ref() == NAME_FIELD {
        // The name of a future node is unknown.
        return requirement.finite_values().is_none();
    }
    if is_offering_label(pool, key) {
        for at in 0..offerings.slots.len() {
            if !offerings.slots[at].satisfies(requirement) {
                fit.slots.remove(at);
            }
        }
        return !fit.slots.is_empty();
    }
    if offerings.type_keys.binary_search(key).is_ok() {
        return narrow_types(fit, requirement, pool, offerings);
    }
    // A custom label exists on the node because the pool defines it. A well-known one that no type
    // defines exists on none.
    let given = pool.labels.contains_key(key) || !offerings.well_known.contains(key);
    if given && pool.requirements.get(key).is_some() {
        fit.open_labels.add(requirement.clone());
        return !fit.open_labels.is_impossible();
    }
    requirement.allows_absence()
}

/// Labels with one value on every node of the pool.
fn fixed_value<'p>(key: &Text, pool: &'p NodePool) -> Option<&'p str> {
    match key.as_ref() {
        NODEPOOL => Some(&pool.name),
        NODECLASS => Some(&pool.node_class),
        REGISTERED | INITIALIZED => Some("true"),
        _ => None,
    }
}

fn narrow_types(fit: &mut Fit, requirement: &Requirement, pool: &NodePool, offerings: &PoolOfferings) -> bool {
    let open = match offerings.filtered(requirement) {
        Some((matching, open)) => {
            fit.types.intersect(matching);
            fit.types.overlaps(open)
        }
        None => {
            let mismatching: Vec<usize> = fit
                .types
                .iter()
                .filter(|at| !satisfies_requirement(&pool.catalogue.types[*at], requirement, pool))
                .collect();
            mismatching.into_iter().for_each(|at| fit.types.remove(at));
            fit.types.iter().any(|at| leaves_open(&pool.catalogue.types[at], requirement.key()))
        }
    };
    if open {
        fit.open_labels.add(requirement.clone());
    }
    !fit.types.is_empty() && !fit.open_labels.is_impossible()
}
