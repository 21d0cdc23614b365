//! One more offering must never make a pod more expensive.

use model::CapacityType::{self, OnDemand, Reserved, Spot};
use model::Operator;
use model::labels::{CAPACITY_TYPE, ZONE};

use super::{WEB, affinity_term, fixture, instance_type, pod, small, spread};
use crate::cases::{ShapeCase, TypeCase};
use crate::sound_plan;

/// Asserts the price of one web pod of `shape` in thousandths of a dollar, and its price if the
/// first type has one more offering.
fn assert_price(
    shape: ShapeCase,
    mut types: Vec<TypeCase>,
    before: i64,
    more: (&'static str, CapacityType, i64),
    after: i64,
) {
    let price = |types: &[TypeCase]| {
        let plan = sound_plan(&fixture(types.to_vec(), vec![shape.clone()], vec![pod(0, WEB)]));
        plan.nodes.iter().map(|node| node.price.0).sum::<i64>() / 1000
    };
    assert_eq!(price(&types), before);
    types[0].offerings.push(more);
    assert_eq!(price(&types), after);
}

#[test]
fn spot_that_is_too_small_does_not_make_spot_preferred() {
    // Two GiB are required. Fitting spot costs 11, on demand 10; the type of 1 GiB for 5 on spot is
    // irrelevant.
    let shape = ShapeCase { gib: 2, ..small() };
    let types = vec![instance_type(4, 8, &[("a", OnDemand, 10)]), instance_type(1, 1, &[("a", Spot, 5)])];
    assert_price(shape, types, 10, ("a", Spot, 11), 10);
}

#[test]
fn on_demand_that_is_too_small_does_not_exclude_spot() {
    // For 2 GiB: spot for 62, on demand for 88. A type of 1 GiB for 10 changes nothing.
    let shape = ShapeCase { gib: 2, ..small() };
    let types = vec![
        instance_type(1, 1, &[("a", OnDemand, 100)]),
        instance_type(2, 8, &[("c", OnDemand, 88)]),
        instance_type(4, 8, &[("c", Spot, 62)]),
    ];
    assert_price(shape, types, 62, ("c", OnDemand, 10), 62);
}

#[test]
fn a_zone_is_ranked_by_types_that_fit_the_pod() {
    // Zone a has a free type that is too small. Spot for 11 there does not move the pod away from
    // zone b for 10.
    let shape = ShapeCase { half_cpus: 3, anti_affinity: vec![affinity_term(ZONE, WEB)], ..small() };
    let types = vec![instance_type(4, 4, &[("b", OnDemand, 10)]), instance_type(1, 1, &[("a", Reserved, 0)])];
    assert_price(shape, types, 10, ("a", Spot, 11), 10);
}

#[test]
fn alternatives_of_one_pod_compete_by_price() {
    // Spot in zone a costs 62, on demand 17 in zone b and then 10 in zone a; the pod accepts
    // either.
    let either = [&["spot"], &["on-demand"]].map(|value| vec![(CAPACITY_TYPE, Operator::In, &value[..])]);
    let shape = ShapeCase { any_of: either.to_vec(), spread: vec![spread(ZONE, WEB)], ..small() };
    let types = vec![instance_type(2, 8, &[("a", Spot, 62)]), instance_type(8, 8, &[("b", OnDemand, 17)])];
    assert_price(shape, types, 17, ("a", OnDemand, 10), 10);
}
