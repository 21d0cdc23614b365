//! NodeOverlays: prices and capacity that a user knows better than the catalogue (Karpenter: NodeOverlay).
//!
//! [`settle_overlays`] puts overlays in order and drops those that contradict each other, over all pools; [`apply_overlays`] is
//! a pure function from a catalogue to the catalogue that one pool sees. Whatever an overlay does not name (labels, reservations,
//! availability) stays as it is.

use std::collections::BTreeMap;

use engine::model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use engine::model::{Catalogue, InstanceType, MicroUsd, Offering, Requirement, Requirements, Resources, Text};

use super::capacity::reserve_hugepages;
use super::labels::is_exotic;
use super::offerings::KEYS as OFFERING_KEYS;
use super::price::{parse_usd, scale};

/// What an overlay does to prices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PriceChange {
    /// This price.
    Set(MicroUsd),
    /// So much more, or less.
    Add(MicroUsd),
    /// So many millionths more, or less.
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

/// A NodeOverlay that has passed validation by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlay {
    /// Name.
    pub name: Text,
    /// 0 to 10,000; higher wins.
    pub weight: i64,
    /// What it applies to.
    pub requirements: Requirements,
    /// What it does to prices.
    pub price: Option<PriceChange>,
    /// Resources that it gives to machines; never cpu, memory, ephemeral-storage or pods.
    pub capacity: Resources,
}

/// Overlays in order of precedence, and what was dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverlayResult {
    /// Weight descending, then later in the alphabet first.
    pub overlays: Vec<Overlay>,
    /// Sentences about overlays that are left out.
    pub notes: Vec<String>,
}

/// Orders overlays. Of two with equal weight that touch the same price or the same resource of a type in any of `pools`, the
/// later in order is left out as a whole, for all pools. A pool is its requirements (labels of the template and
/// `karpenter.sh/nodepool` included) and its catalogue.
#[must_use]
pub fn settle_overlays(pools: &[(&Requirements, &Catalogue)], overlays: &[Overlay]) -> OverlayResult {
    let mut ordered: Vec<&Overlay> = overlays.iter().collect();
    ordered.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| b.name.cmp(&a.name)));
    let mut settled = OverlayResult { overlays: Vec::new(), notes: Vec::new() };
    for overlay in ordered {
        let rivals = settled.overlays.iter().filter(|other| other.weight == overlay.weight);
        match rivals.into_iter().find_map(|rival| conflict(pools, rival, overlay).map(|what| (rival, what))) {
            Some((rival, what)) => settled.notes.push(format!(
                "NodeOverlay {} is left out: it has the weight of {} ({}), and both change {what}",
                overlay.name, rival.name, overlay.weight
            )),
            None => settled.overlays.push(overlay.clone()),
        }
    }
    settled
}

/// Something that both overlays change, in words.
fn conflict(pools: &[(&Requirements, &Catalogue)], one: &Overlay, other: &Overlay) -> Option<String> {
    let shared = one.capacity.iter().map(|(name, _)| name).find(|name| other.capacity.contains(name));
    let prices = one.price.is_some() && other.price.is_some();
    if !prices && shared.is_none() {
        return None;
    }
    let types = pools.iter().flat_map(|(pool, catalogue)| catalogue.types.iter().map(move |machine| (*pool, machine)));
    for (pool, machine) in types {
        if !(suits_type(one, pool, machine) && suits_type(other, pool, machine)) {
            continue;
        }
        let touched = |offering: &&Offering| suits_price(one, offering) && suits_price(other, offering);
        if let Some(offering) = machine.offerings.iter().filter(|_| prices).find(touched) {
            return Some(format!("the price of {} in {}", machine.name, offering.zone));
        }
        let anywhere = |overlay: &Overlay| machine.offerings.iter().any(|offering| suits_offering(overlay, offering));
        if let Some(resource) = shared.filter(|_| anywhere(one) && anywhere(other)) {
            return Some(format!("{resource} of {}", machine.name));
        }
    }
    None
}

/// The catalogue that a pool sees. `pool` are its requirements (labels of the template and `karpenter.sh/nodepool` included);
/// `overlays` are in order of precedence, free of conflicts: see [`settle_overlays`].
///
/// For each offering the first overlay that sets a price wins, for each type the first that sets a resource. Capacity is a
/// matter of the whole type: an overlay that suits one of its offerings gives it to all. Reserved capacity is paid already
/// and stays at its price, unless the overlay names the capacity type.
#[must_use]
pub fn apply_overlays(catalogue: &Catalogue, pool: &Requirements, overlays: &[Overlay]) -> Catalogue {
    let mut changed = catalogue.clone();
    for machine in &mut changed.types {
        let suitable: Vec<&Overlay> = overlays.iter().filter(|overlay| suits_type(overlay, pool, machine)).collect();
        if suitable.is_empty() {
            continue;
        }
        add_capacity(machine, &suitable);
        for offering in &mut machine.offerings {
            if let Some(change) = suitable.iter().filter(|o| suits_price(o, offering)).find_map(|o| o.price) {
                offering.price = change.apply(offering.price);
                offering.estimated &= !matches!(change, PriceChange::Set(_));
            }
        }
    }
    changed
}

fn add_capacity(machine: &mut InstanceType, suitable: &[&Overlay]) {
    let mut added = Resources::new();
    for overlay in suitable {
        if machine.offerings.iter().any(|offering| suits_offering(overlay, offering)) {
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

/// Whether type and pool together meet the overlay in everything that is no matter of the offering.
fn suits_type(overlay: &Overlay, pool: &Requirements, machine: &InstanceType) -> bool {
    overlay.requirements.iter().all(|wanted| {
        if of_offering(wanted.key()) {
            return pool.get(wanted.key()).is_none_or(|allowed| allowed.intersects(wanted));
        }
        match (machine.labels.get(wanted.key()), pool.get(wanted.key())) {
            (Some(has), Some(allowed)) => agrees(&has.intersection(allowed), wanted),
            (Some(known), None) | (None, Some(known)) => agrees(known, wanted),
            (None, None) => wanted.allows_absence(),
        }
    })
}

fn agrees(known: &Requirement, wanted: &Requirement) -> bool {
    known.intersects(wanted) || (known.allows_absence() && wanted.allows_absence())
}

fn of_offering(key: &str) -> bool {
    key == ZONE || key == CAPACITY_TYPE || OFFERING_KEYS.contains(&key)
}

/// Whether the offering meets the overlay in everything that is a matter of the offering.
fn suits_offering(overlay: &Overlay, offering: &Offering) -> bool {
    overlay.requirements.iter().all(|wanted| match wanted.key().as_ref() {
        ZONE => wanted.has(&offering.zone),
        CAPACITY_TYPE => wanted.has(offering.capacity_type.as_str()),
        key => match offering.labels.get(key) {
            Some(value) => wanted.has(value),
            None => wanted.allows_absence() || !OFFERING_KEYS.contains(&key),
        },
    })
}

fn suits_price(overlay: &Overlay, offering: &Offering) -> bool {
    let paid = offering.reservation.is_some() && overlay.requirements.get(CAPACITY_TYPE).is_none();
    overlay.price.is_some() && !paid && suits_offering(overlay, offering)
}

/// Prices for types that have none: those of overlays that name nothing but instance types. The first in order of precedence
/// wins. For [`Market::preview_prices`](super::Market).
#[must_use]
pub fn preview_prices(settled: &OverlayResult) -> BTreeMap<Text, MicroUsd> {
    let mut prices = BTreeMap::new();
    for overlay in &settled.overlays {
        let only = overlay.requirements.get(INSTANCE_TYPE).filter(|_| overlay.requirements.iter().count() == 1);
        if let (Some(PriceChange::Set(price)), Some(names)) = (overlay.price, only.and_then(Requirement::finite_values))
        {
            for name in names {
                prices.entry(name.clone()).or_insert(price);
            }
        }
    }
    prices
}

/// Why a NodeOverlay's resource cannot be added: the four that the cloud and the kubelet decide.
#[must_use]
pub fn is_fixed_resource(name: &str) -> bool {
    use engine::model::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};
    [CPU, MEMORY, EPHEMERAL_STORAGE, PODS].contains(&name)
}
