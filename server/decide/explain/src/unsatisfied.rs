//! Requirements that exclude every instance type, values that no instance type has, and zones that
//! have no offering.

use std::collections::BTreeSet;

use model::labels::{CAPACITY_TYPE, REGION, ZONE};
use model::{CapacityType, InstanceType, NodePool, Requirement, Requirements, Text};

use super::wording::{and, closest_match, some};

/// Maximum number of values that a message lists before it counts the rest.
const LISTED: usize = 6;

/// The fewest requirements that exclude every instance type together.
pub(super) enum Conflict<'r> {
    One(&'r Requirement),
    Two(&'r Requirement, &'r Requirement),
    /// No pair of them; all together.
    All(Vec<&'r Requirement>),
}

impl<'r> Conflict<'r> {
    /// The smallest conflict among `requirements`, which exclude every type together.
    /// `excludes_all` tells whether some of them do.
    pub(super) fn smallest(
        requirements: &[&'r Requirement],
        excludes_all: impl Fn(&[&Requirement]) -> bool,
    ) -> Conflict<'r> {
        if let Some(one) = requirements.iter().find(|one| excludes_all(&[one])) {
            return Conflict::One(one);
        }
        for (at, one) in requirements.iter().enumerate() {
            if let Some(other) = requirements[at + 1..].iter().find(|other| excludes_all(&[one, other])) {
                return Conflict::Two(one, other);
            }
        }
        Conflict::All(requirements.to_vec())
    }
}

/// The message for a pool whose own requirements, with its labels in `base`, exclude every type of
/// its catalogue; `None` if some type remains.
pub(super) fn pool_without_types(pool: &NodePool, base: &Requirements) -> Option<String> {
    let types = &pool.catalogue.types;
    if types.iter().any(|t| t.labels.first_conflict(base).is_none()) {
        return None;
    }
    if types.is_empty() {
        return Some("the catalogue has no instance type that its EC2NodeClass and region allow".to_owned());
    }
    let excludes_all = |conditions: &[&Requirement]| {
        let conditions: Requirements = conditions.iter().map(|condition| (*condition).clone()).collect();
        types.iter().all(|t| t.labels.first_conflict(&conditions).is_some())
    };
    let own: Vec<&Requirement> = base.iter().collect();
    Some(match Conflict::smallest(&own, excludes_all) {
        Conflict::One(one) if one.finite_values().is_some_and(BTreeSet::is_empty) => {
            format!("the NodePool's requirements on {} exclude each other: no value satisfies all of them", one.key())
        }
        Conflict::One(one) => {
            let offered = values_among(types.iter(), one.key());
            format!(
                "the NodePool's requirement {one} excludes every instance type: {}",
                values(one.key(), &offered, one)
            )
        }
        Conflict::Two(one, other) => {
            format!("the NodePool's requirements {one} and {other} exclude every instance type together")
        }
        Conflict::All(all) => {
            let all: Vec<String> = all.iter().map(ToString::to_string).collect();
            format!("the NodePool's requirements {} exclude every instance type together", and(&all))
        }
    })
}

/// What the instance types have for `key`, and which of it `wanted` is likely a typing error of.
pub(super) fn values(key: &str, offered: &BTreeSet<Text>, wanted: &Requirement) -> String {
    if offered.is_empty() {
        return format!("none has the label {key}");
    }
    let values: Vec<&str> = offered.iter().map(AsRef::as_ref).collect();
    let meant = wanted.finite_values().and_then(|all| all.iter().find_map(|value| closest_match(value, offered)));
    let list = format!("they have {}", some(&values, LISTED));
    match meant {
        Some(value) if values.len() > LISTED => format!("did you mean {value}?"),
        Some(value) => format!("{list}; did you mean {value}?"),
        None => list,
    }
}

/// The value of `requirement` that no machine of `pool` has and that is likely a typing error, with
/// the one that was meant.
pub(super) fn misspelt_value(pool: &NodePool, requirement: &Requirement) -> Option<(Text, Text)> {
    let key = requirement.key();
    let wanted = requirement.finite_values()?;
    // Zones are those of offerings, and other regions have more.
    if key.as_ref() == ZONE {
        return None;
    }
    if key.as_ref() == CAPACITY_TYPE {
        let known = [CapacityType::OnDemand, CapacityType::Reserved, CapacityType::Spot];
        let known = known.map(|known| Text::from(known.as_str()));
        return first_misspelt(wanted.iter().filter(|value| !known.contains(value)), &known);
    }
    // The common values are those of the first types, so that the search ends early.
    let mut missing: BTreeSet<&Text> = wanted.iter().collect();
    for instance in &pool.catalogue.types {
        let own = instance.labels.get(key).and_then(Requirement::finite_values);
        for value in own.into_iter().flatten() {
            missing.remove(value);
        }
        if missing.is_empty() {
            return None;
        }
    }
    first_misspelt(missing.into_iter(), &values_among(pool.catalogue.types.iter(), key))
}

/// The first of `values` that is likely a typing error, and the one of `known` that was meant.
fn first_misspelt<'v>(
    mut values: impl Iterator<Item = &'v Text>,
    known: impl IntoIterator<Item = &'v Text> + Clone,
) -> Option<(Text, Text)> {
    values.find_map(|value| Some((value.clone(), closest_match(value, known.clone())?.clone())))
}

/// Values of `key` on `types`.
pub(super) fn values_among<'t>(types: impl Iterator<Item = &'t InstanceType>, key: &str) -> BTreeSet<Text> {
    types.filter_map(|t| t.labels.get(key)?.finite_values()).flatten().cloned().collect()
}

/// The message for `wanted`, a requirement on the zone, if it allows no zone that has an offering.
pub(super) fn zones_without_offerings(pool: &NodePool, wanted: &Requirement) -> Option<String> {
    let types = &pool.catalogue.types;
    let offerings = || types.iter().flat_map(|t| &t.offerings);
    // Every plan asks for each NodePool, and nearly always the first offerings will do.
    if wanted.finite_values().is_none() || offerings().any(|offering| wanted.has(&offering.zone)) {
        return None;
    }
    let zones: BTreeSet<&str> = offerings().map(|offering| offering.zone.as_ref()).collect();
    if zones.is_empty() {
        return None;
    }
    let zones: Vec<&str> = zones.into_iter().collect();
    let regions = values_among(types.iter(), REGION);
    Some(match regions.iter().next() {
        Some(region) if regions.len() == 1 => {
            format!("{wanted} has no zone of the region {region}, whose zones are {}", some(&zones, LISTED))
        }
        _ => format!("{wanted} has no zone with offerings; these are {}", some(&zones, LISTED)),
    })
}

/// Why the NodeClass of `pool` excludes it. A reason that names the class is complete.
pub(super) fn class_not_ready(pool: &NodePool, why: &str) -> String {
    let class = format!("EC2NodeClass {}", pool.node_class);
    if why.contains(&class) { why.to_owned() } else { format!("{class}: {why}") }
}
