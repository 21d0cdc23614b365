//! NodeOverlays: user-defined prices and capacity (Karpenter: NodeOverlay).
//!
//! [`resolve_overlays`] orders overlays and drops conflicting ones, over all pools;
//! [`apply_overlays`] is a pure function from a catalogue to the catalogue of one pool. Everything
//! that an overlay does not name (labels, reservations, availability) is unchanged.

use std::collections::{BTreeMap, BTreeSet};

use model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use model::resources::CPU;
use model::{
    Catalogue, InstanceType, InstanceTypeName, MicroUsd, Offering, Requirement, Requirements, Resources, Text,
};

use super::capacity::reserve_hugepages;
use super::labels::is_exotic;
use super::offerings::KEYS as OFFERING_KEYS;
use super::price::{parse_usd, scale};

/// Price change of an overlay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PriceChange {
    /// Sets the price.
    Set(MicroUsd),
    /// Adds an amount, which may be negative.
    Add(MicroUsd),
    /// Adds a share of the price, in millionths, which may be negative.
    AddMillionths(i64),
}

impl PriceChange {
    /// Reads `spec.price`: decimal dollars per hour.
    #[must_use]
    pub fn parse_price(text: &str) -> Option<Self> {
        parse_usd(text).map(Self::Set)
    }

    /// Reads `spec.priceAdjustment`: `+0.05`, `-0.1`, `+10%`, `-2.5%`.
    #[must_use]
    pub fn parse_adjustment(text: &str) -> Option<Self> {
        let (sign, amount) = match text.as_bytes().first()? {
            b'+' => (1, &text[1..]),
            b'-' => (-1, &text[1..]),
            _ => return None,
        };
        match amount.strip_suffix('%') {
            // A micro-unit of a percentage is a hundred-millionth of the whole.
            Some(percent) => parse_usd(percent).map(|p| Self::AddMillionths(sign * scale(p, 1, 100).0)),
            None => parse_usd(amount).map(|dollars| Self::Add(MicroUsd(sign * dollars.0))),
        }
    }

    /// The changed price, never below zero, micro-dollars rounded half up.
    #[must_use]
    pub fn apply(self, price: MicroUsd) -> MicroUsd {
        let changed = match self {
            Self::Set(price) => price,
            Self::Add(difference) => MicroUsd(price.0.saturating_add(difference.0)),
            Self::AddMillionths(share) => scale(price, 1_000_000_i64.saturating_add(share), 1_000_000),
        };
        changed.max(MicroUsd(0))
    }
}

/// A validated NodeOverlay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlay {
    /// `metadata.name`.
    pub name: Text,
    /// 0 to 10,000; the higher weight takes precedence.
    pub weight: i64,
    /// Requirements on instance type and offering.
    pub requirements: Requirements,
    /// Price change; `None` leaves prices unchanged.
    pub price: Option<PriceChange>,
    /// Resources added to instances; never cpu, memory, ephemeral-storage or pods.
    pub capacity: Resources,
}

/// Overlays in order of precedence, and the dropped ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverlayResult {
    /// By weight descending, then by name descending.
    pub overlays: Vec<Overlay>,
    /// Notes about dropped overlays.
    pub notes: Vec<String>,
}

/// Orders overlays. Of two with equal weight that change the same price or the same resource of a
/// type in any of `pools`, the later in order is dropped, for all pools. A pool is given by its
/// requirements (including template labels and `karpenter.sh/nodepool`) and its catalogue.
#[must_use]
pub fn resolve_overlays(pools: &[(&Requirements, &Catalogue)], overlays: &[Overlay]) -> OverlayResult {
    let mut ordered: Vec<&Overlay> = overlays.iter().collect();
    ordered.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| b.name.cmp(&a.name)));
    let mut resolved = OverlayResult { overlays: Vec::new(), notes: Vec::new() };
    for overlay in ordered {
        let same_weight = resolved.overlays.iter().filter(|other| other.weight == overlay.weight);
        match same_weight.into_iter().find_map(|other| conflict(pools, other, overlay).map(|what| (other, what))) {
            Some((other, what)) => resolved.notes.push(format!(
                "NodeOverlay {} is left out: it has the weight of {} ({}), and both change {what}",
                overlay.name, other.name, overlay.weight
            )),
            None => resolved.overlays.push(overlay.clone()),
        }
    }
    resolved
}

/// What both overlays change, as text.
fn conflict(pools: &[(&Requirements, &Catalogue)], one: &Overlay, other: &Overlay) -> Option<String> {
    let shared = one.capacity.iter().map(|(name, _)| name).find(|name| other.capacity.contains(name));
    let prices = one.price.is_some() && other.price.is_some();
    if !prices && shared.is_none() {
        return None;
    }
    let types = pools.iter().flat_map(|(pool, catalogue)| catalogue.types.iter().map(move |machine| (*pool, machine)));
    for (pool, machine) in types {
        if !(matches_type(one, pool, machine) && matches_type(other, pool, machine)) {
            continue;
        }
        let touched = |offering: &&Offering| matches_price(one, offering) && matches_price(other, offering);
        if let Some(offering) = machine.offerings.iter().filter(|_| prices).find(touched) {
            return Some(format!("the price of {} in {}", machine.name, offering.zone));
        }
        let anywhere = |overlay: &Overlay| machine.offerings.iter().any(|offering| matches_offering(overlay, offering));
        if let Some(resource) = shared.filter(|_| anywhere(one) && anywhere(other)) {
            return Some(format!("{resource} of {}", machine.name));
        }
    }
    None
}

/// The catalogue of a pool. `pool` holds its requirements (including template labels and
/// `karpenter.sh/nodepool`); `overlays` are in order of precedence, without conflicts: see
/// [`resolve_overlays`]. A changed offering keeps its price as [`Offering::catalogue_price`].
///
/// Per offering the first overlay with a price wins, per type the first with a resource. Capacity
/// belongs to the whole type: an overlay that matches one of its offerings applies to all. Reserved
/// capacity is prepaid and keeps its price, unless the overlay names the capacity type.
#[must_use]
pub fn apply_overlays(catalogue: &Catalogue, pool: &Requirements, overlays: &[Overlay]) -> Catalogue {
    let mut changed = catalogue.clone();
    for machine in &mut changed.types {
        let suitable: Vec<&Overlay> = overlays.iter().filter(|overlay| matches_type(overlay, pool, machine)).collect();
        if suitable.is_empty() {
            continue;
        }
        add_capacity(machine, &suitable);
        for offering in &mut machine.offerings {
            if let Some(change) = suitable.iter().filter(|o| matches_price(o, offering)).find_map(|o| o.price) {
                let before = offering.price;
                offering.price = change.apply(before);
                offering.catalogue_price = offering.catalogue_price.or((before != offering.price).then_some(before));
                offering.estimated &= !matches!(change, PriceChange::Set(_));
            }
        }
    }
    changed
}

fn add_capacity(machine: &mut InstanceType, suitable: &[&Overlay]) {
    let mut added = Resources::new();
    for overlay in suitable {
        if machine.offerings.iter().any(|offering| matches_offering(overlay, offering)) {
            for (name, amount) in overlay.capacity.iter().filter(|(name, _)| !added.contains(name)).collect::<Vec<_>>()
            {
                added.set(name.clone(), amount);
            }
        }
    }
    for (name, amount) in added.iter() {
        machine.capacity.set(name.clone(), amount);
        machine.allocatable.set(name.clone(), amount);
    }
    reserve_hugepages(&mut machine.allocatable, &added);
    machine.exotic = is_exotic(&machine.name, &machine.capacity);
}

/// Whether type and pool meet the overlay's requirements, except those on offerings.
fn matches_type(overlay: &Overlay, pool: &Requirements, machine: &InstanceType) -> bool {
    overlay.requirements.iter().all(|wanted| {
        if is_offering_key(wanted.key()) {
            return pool.get(wanted.key()).is_none_or(|allowed| allowed.intersects(wanted));
        }
        match (machine.labels.get(wanted.key()), pool.get(wanted.key())) {
            (Some(has), Some(allowed)) => is_compatible(&has.intersection(allowed), wanted),
            (Some(known), None) | (None, Some(known)) => is_compatible(known, wanted),
            (None, None) => wanted.allows_absence(),
        }
    })
}

fn is_compatible(known: &Requirement, wanted: &Requirement) -> bool {
    known.intersects(wanted) || (known.allows_absence() && wanted.allows_absence())
}

fn is_offering_key(key: &str) -> bool {
    key == ZONE || key == CAPACITY_TYPE || OFFERING_KEYS.contains(&key)
}

/// Whether the offering meets the overlay's requirements on offerings.
fn matches_offering(overlay: &Overlay, offering: &Offering) -> bool {
    overlay.requirements.iter().all(|wanted| match wanted.key().as_ref() {
        ZONE => wanted.has(&offering.zone),
        CAPACITY_TYPE => wanted.has(offering.capacity_type.as_str()),
        key => match offering.labels.get(key) {
            Some(value) => wanted.has(value),
            None => wanted.allows_absence() || !OFFERING_KEYS.contains(&key),
        },
    })
}

fn matches_price(overlay: &Overlay, offering: &Offering) -> bool {
    let paid = offering.reservation.is_some() && overlay.requirements.get(CAPACITY_TYPE).is_none();
    overlay.price.is_some() && !paid && matches_offering(overlay, offering)
}

/// States what the types of `previews` would cost by their vCPUs where `before`, the catalogue without previews, has no
/// price of them: at the highest price of a vCPU in it, so that no limit in dollars rests on an overlay alone.
pub fn charge_unpriced(catalogue: &mut Catalogue, before: &Catalogue, previews: &BTreeMap<InstanceTypeName, MicroUsd>) {
    let price = |machine: &InstanceType| machine.offerings.iter().map(|offering| offering.price.0).max().unwrap_or(0);
    let of_vcpu = |machine: &InstanceType| scale(MicroUsd(price(machine)), 1000, machine.capacity.get(CPU).max(1));
    let highest = before.types.iter().map(of_vcpu).max().unwrap_or_default();
    let unpriced = before.types.iter().filter(|machine| previews.contains_key(&machine.name) && price(machine) == 0);
    let unpriced: BTreeSet<&InstanceTypeName> = unpriced.map(|machine| &machine.name).collect();
    for machine in catalogue.types.iter_mut().filter(|machine| unpriced.contains(&machine.name)) {
        let estimate = scale(highest, machine.capacity.get(CPU), 1000);
        let bought = machine.offerings.iter_mut().filter(|offering| offering.reservation.is_none());
        bought.for_each(|offering| offering.catalogue_price = Some(estimate));
    }
}

/// Prices for types without one, from overlays that name only instance types, for
/// [`RegionOptions::preview_prices`](super::RegionOptions). The first in order of precedence wins.
#[must_use]
pub fn preview_prices(resolved: &OverlayResult) -> BTreeMap<InstanceTypeName, MicroUsd> {
    let mut prices = BTreeMap::new();
    for overlay in &resolved.overlays {
        let only = overlay.requirements.get(INSTANCE_TYPE).filter(|_| overlay.requirements.iter().count() == 1);
        if let (Some(PriceChange::Set(price)), Some(names)) = (overlay.price, only.and_then(Requirement::finite_values))
        {
            for name in names {
                prices.entry(InstanceTypeName::from(name)).or_insert(price);
            }
        }
    }
    prices
}

/// Whether a NodeOverlay must not add the resource: cloud and kubelet determine these four.
#[must_use]
pub fn is_fixed_resource(name: &str) -> bool {
    use model::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};
    [CPU, MEMORY, EPHEMERAL_STORAGE, PODS].contains(&name)
}
