//! Events of NodePools that no instance type serves.

use std::collections::BTreeSet;

use crate::EventReason;
use crate::origin::Origin;
use crate::status::{EventOrder, ObjectRef};
use crate::step_view::StepView;
use model::input::MinValuesPolicy;
use model::labels::{CAPACITY_TYPE, INSTANCE_TYPE, ZONE};
use model::{InstanceType, NodePool, Offering, Requirement, Text};

/// Events of the managed NodePools whose requirements exclude all of their instance types.
pub(super) fn pool_events(view: &StepView<'_>) -> Vec<EventOrder> {
    let managed = view.state.pools().filter(|pool| view.state.unmanaged_reason(pool).is_none());
    let served = managed.filter(|pool| pool.pool.not_ready.is_none());
    let event = |pool: &NodePool| {
        let message = incompatibility(pool, view.settings().policy.min_values)?;
        let subject = ObjectRef::Pool(pool.name.clone());
        Some(EventOrder::new(subject, EventReason::NoCompatibleInstanceTypes, message, Origin::default()))
    };
    served.filter_map(|pool| event(&pool.pool)).collect()
}

/// Why no instance type of the catalogue serves the NodePool; `None` if one does.
fn incompatibility(pool: &NodePool, min_values: MinValuesPolicy) -> Option<String> {
    if !pool.catalogue.types.iter().any(|kind| is_compatible(pool, kind)) {
        return Some("its requirements exclude all available instance types".to_owned());
    }
    let strict = pool.requirements.iter().filter(|_| min_values == MinValuesPolicy::Strict);
    strict.filter_map(|requirement| Some((requirement, requirement.min_values()?))).find_map(|(requirement, least)| {
        let found = values_of(pool, requirement).len();
        (found < least as usize).then(|| {
            let key = requirement.key();
            format!("its requirements leave {found} values of {key}, of which minValues requires {least}")
        })
    })
}

/// Whether a machine of the type meets the requirements of the NodePool. A label that neither type nor offering determines
/// is that of the NodePool itself.
fn is_compatible(pool: &NodePool, kind: &InstanceType) -> bool {
    let is_met = |requirement: &Requirement| match requirement.key().as_ref() {
        INSTANCE_TYPE => requirement.has(kind.name.as_ref()),
        key => kind.labels.get(key).is_none_or(|of_type| {
            requirement.intersects(of_type) || (requirement.allows_absence() && of_type.allows_absence())
        }),
    };
    pool.requirements.iter().all(is_met) && offerings(pool, kind).next().is_some()
}

/// The available offerings of the type that the NodePool admits.
fn offerings<'p>(pool: &'p NodePool, kind: &'p InstanceType) -> impl Iterator<Item = &'p Offering> {
    let admits = |offering: &&Offering| {
        pool.requirements.iter().all(|requirement| match value_in(offering, requirement.key()) {
            Some(value) => requirement.has(value),
            None => true,
        })
    };
    kind.offerings.iter().filter(|offering| offering.available).filter(admits)
}

fn value_in<'o>(offering: &'o Offering, key: &str) -> Option<&'o str> {
    match key {
        ZONE => Some(offering.zone.as_ref()),
        CAPACITY_TYPE => Some(offering.capacity_type.as_str()),
        key => offering.labels.get(key).map(AsRef::as_ref),
    }
}

/// The different values of the key of `requirement` among the compatible instance types.
fn values_of(pool: &NodePool, requirement: &Requirement) -> BTreeSet<Text> {
    let key = requirement.key();
    let compatible = pool.catalogue.types.iter().filter(|kind| is_compatible(pool, kind));
    compatible.flat_map(|kind| values_of_type(pool, kind, key)).filter(|value| requirement.has(value)).collect()
}

fn values_of_type(pool: &NodePool, kind: &InstanceType, key: &str) -> Vec<Text> {
    if key == INSTANCE_TYPE {
        return vec![kind.name.as_text().clone()];
    }
    let of_type = kind.labels.get(key).and_then(Requirement::finite_values).into_iter().flatten().cloned();
    of_type.chain(offerings(pool, kind).filter_map(|offering| value_in(offering, key)).map(Text::from)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster::testing::{pool, text};
    use model::Operator;

    /// The message for the pool of t.2 and t.4 with spot offerings in zone z, with this requirement.
    fn with(requirement: Requirement, min_values: MinValuesPolicy) -> Option<String> {
        let mut pool = pool().pool;
        pool.requirements.add(requirement);
        incompatibility(&pool, min_values)
    }

    #[test]
    fn a_pool_has_an_instance_type_if_one_meets_all_requirements() {
        let one_of = |key: &str, values: &[&str]| {
            let values = values.iter().map(|value| text(value));
            with(Requirement::new(key, Operator::In, values), MinValuesPolicy::Strict)
        };
        let none = Some("its requirements exclude all available instance types".to_owned());
        assert_eq!(one_of(INSTANCE_TYPE, &["t.4", "t.8"]), None);
        assert_eq!(one_of(INSTANCE_TYPE, &["t.8"]), none);
        assert_eq!(one_of(ZONE, &["y"]), none);
        assert_eq!(one_of(CAPACITY_TYPE, &["on-demand"]), none);
        assert_eq!(one_of("team", &["a"]), None, "the NodePool itself gives the label to its nodes");
    }

    #[test]
    fn min_values_that_the_types_do_not_have_are_named_unless_they_may_be_relaxed() {
        let types = |least| Requirement::new(INSTANCE_TYPE, Operator::Exists, []).with_min_values(Some(least));
        assert_eq!(with(types(2), MinValuesPolicy::Strict), None);
        let message =
            "its requirements leave 2 values of node.kubernetes.io/instance-type, of which minValues requires 3";
        assert_eq!(with(types(3), MinValuesPolicy::Strict).as_deref(), Some(message));
        assert_eq!(with(types(3), MinValuesPolicy::BestEffort), None);
        let zones = Requirement::new(ZONE, Operator::Exists, []).with_min_values(Some(2));
        let message = "its requirements leave 1 values of topology.kubernetes.io/zone, of which minValues requires 2";
        assert_eq!(with(zones, MinValuesPolicy::Strict).as_deref(), Some(message));
    }
}
