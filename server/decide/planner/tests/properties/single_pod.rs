//! Properties of a pod that is planned alone.

use model::input::PlanningInput;
use model::{CapacityType, OptInRules, PodShape, Resources};
use proptest::prelude::{Just, Strategy, any, prop_assert, prop_oneof, proptest};
use proptest::sample::select;
use scheduler::schedule;

use crate::cases::Case;
use crate::config;
use crate::fixture::ZONES;
use crate::strategies::cases_of;

/// One pod, and pools that differ only in price: equal weights, no opt-in rules, no `minValues`,
/// nothing exotic, no preferences (a preference may raise the price, and so may a pool of higher
/// weight).
pub fn by_price_alone() -> impl Strategy<Value = Case> {
    cases_of(1).prop_map(|mut case| {
        for pool in &mut case.pools {
            (pool.weight, pool.unhealthy, pool.soft_tainted, pool.min_types) = (0, false, false, None);
            pool.rules = OptInRules::default();
        }
        case.types.iter_mut().for_each(|kind| kind.exotic = false);
        case.ignore_preferences = true;
        case
    })
}

pub fn price(case: &Case) -> Option<i64> {
    let plan = schedule(&case.input());
    plan.unschedulable.is_empty().then(|| plan.nodes.iter().map(|node| node.price.0).sum())
}

/// One relaxation of a pod.
#[derive(Debug, Clone, Copy)]
pub enum Relaxation {
    NodeSelector,
    NodeAffinity,
    Spread(usize),
    PodAffinity,
    PodAntiAffinity(usize),
    HostPorts,
    Volumes,
    Requests,
}

pub fn relaxations() -> impl Strategy<Value = Relaxation> {
    prop_oneof![
        Just(Relaxation::NodeSelector),
        Just(Relaxation::NodeAffinity),
        (0..2_usize).prop_map(Relaxation::Spread),
        Just(Relaxation::PodAffinity),
        (0..2_usize).prop_map(Relaxation::PodAntiAffinity),
        Just(Relaxation::HostPorts),
        Just(Relaxation::Volumes),
        Just(Relaxation::Requests),
    ]
}

/// `None` if a relaxation restricts more: a spread constraint that honours node affinity counts
/// more domains without the affinity.
pub fn relaxed(input: &PlanningInput, relaxation: Relaxation) -> Option<PlanningInput> {
    let mut input = input.clone();
    let mut shape: PodShape = input.shapes[input.pods[0].shape as usize].clone();
    let spreads = shape.spread.iter().any(|constraint| constraint.hard && constraint.honor_node_affinity);
    match relaxation {
        Relaxation::NodeSelector | Relaxation::NodeAffinity if spreads => return None,
        Relaxation::NodeSelector => shape.node_selector.clear(),
        Relaxation::NodeAffinity => shape.node_affinity.clear(),
        Relaxation::Spread(at) if at < shape.spread.len() => drop(shape.spread.remove(at)),
        Relaxation::PodAffinity => shape.pod_affinity.clear(),
        Relaxation::PodAntiAffinity(at) if at < shape.pod_anti_affinity.len() => {
            drop(shape.pod_anti_affinity.remove(at));
        }
        Relaxation::Spread(_) | Relaxation::PodAntiAffinity(_) => return None,
        Relaxation::HostPorts => shape.host_ports.clear(),
        Relaxation::Volumes => input.pods[0].volumes = None,
        Relaxation::Requests => shape.requests = Resources::from_iter([("pods", 1)]),
    }
    input.pods[0].shape = input.shapes.len() as u32;
    input.shapes.push(shape);
    Some(input)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn one_more_offering_never_makes_a_pod_more_expensive(
        case in by_price_alone(),
        at in any::<proptest::sample::Index>(),
        zone in select(&ZONES[..]),
        spot in any::<bool>(),
        milli_usd in 10..200_i64,
    ) {
        let mut richer = case.clone();
        let kind = at.get(&richer.types).clone();
        let at = at.index(richer.types.len());
        let capacity_type = if spot { CapacityType::Spot } else { CapacityType::OnDemand };
        richer.types[at].offerings = kind.offerings.iter().copied().chain([(zone, capacity_type, milli_usd)]).collect();
        if let Some(before) = price(&case) {
            let after = price(&richer);
            prop_assert!(after.is_some_and(|after| after <= before), "{before} became {after:?}");
        }
    }

    #[test]
    fn a_relaxed_pod_is_never_unschedulable(case in cases_of(1), relaxation in relaxations()) {
        let mut case = case;
        case.pools.iter_mut().for_each(|pool| pool.rules = OptInRules::default());
        let input = case.input();
        if let Some(less) = relaxed(&input, relaxation)
            && schedule(&input).unschedulable.is_empty()
        {
            prop_assert!(schedule(&less).unschedulable.is_empty());
        }
    }
}
