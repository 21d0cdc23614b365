//! Hostile input that maximizes planning time: every pod has a distinct shape with any number of
//! contradictory preferences that no node satisfies together.

use model::input::PlanningInput;
use model::labels::{ARCH, CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ZONE};
use model::resources::{CPU, MEMORY, PODS};
use model::{
    CapacityType, Catalogue, InstanceType, LabelSelector, Labels, MicroUsd, NodePool, NodeSelectorTerm, Offering,
    Operator, Pod, PodAffinityTerm, PodShape, Requirement, Requirements, Resources, SelectorOperator, SelectorTerm,
    SpreadConstraint, Text, Weighted,
};

const GIB: i64 = 1 << 30;
const ZONES: [&str; 3] = ["a", "b", "c"];

/// `pods` pods, each with `terms` preferred node terms and as many preferred pod (anti-)affinity
/// terms.
pub fn input(pods: usize, terms: usize) -> PlanningInput {
    let names: Vec<String> = (0..pods).map(|at| format!("p{at:05}")).collect();
    let label = |at: usize| Labels::from([(Text::from("app"), Text::from(format!("a{}", at % 97)))]);
    PlanningInput {
        shapes: (0..pods).map(|at| shape(at, terms)).collect(),
        label_sets: (0..pods).map(label).collect(),
        pods: names.iter().enumerate().map(|(at, name)| pod(at, name)).collect(),
        pools: vec![pool()],
        ..PlanningInput::default()
    }
}

/// `pods` replicas of one workload, spread over the zones with a `maxSkew` of 1.
pub fn spread_over_zones(pods: usize) -> PlanningInput {
    let mut input = input(pods, 0);
    input.shapes.truncate(1);
    input.label_sets.truncate(1);
    input.pods.iter_mut().for_each(|pod| (pod.shape, pod.labels) = (0, 0));
    input.shapes[0].spread.push(SpreadConstraint {
        topology_key: ZONE.into(),
        max_skew: 1,
        min_domains: None,
        hard: true,
        selector: near("a0", ZONE).selector,
        honor_node_affinity: true,
        honor_node_taints: false,
    });
    input
}

fn pod(at: usize, name: &str) -> Pod {
    let index = u32::try_from(at).unwrap_or(0);
    Pod {
        namespace: "greedy".into(),
        name: name.into(),
        shape: index,
        labels: index,
        workload: format!("Pod/{name}").into(),
        ..Pod::default()
    }
}

fn shape(at: usize, terms: usize) -> PodShape {
    let weight = |term: usize| i32::try_from((at * 7 + term * 13) % 100 + 1).unwrap_or(1);
    let mut shape = PodShape {
        requests: Resources::from_iter([(CPU, 100 + (at % 1_900) as i64), (MEMORY, GIB / 4 + at as i64), (PODS, 1)]),
        ..PodShape::default()
    };
    for term in 0..terms {
        let expression = match term % 4 {
            0 => Requirement::equals(INSTANCE_TYPE, format!("t{}", (at + term) % KINDS)),
            1 => Requirement::equals(ZONE, ZONES[(at + term) % 3]),
            2 => Requirement::new(ZONE, Operator::NotIn, [Text::from(ZONES[(at + term) % 3])]),
            _ => Requirement::equals(format!("tenant.example/{}", term % 9).as_str(), format!("v{}", at % 11)),
        };
        let node = NodeSelectorTerm { expressions: vec![expression], names: Vec::new() };
        shape.preferred_node_affinity.push(Weighted { weight: weight(term), term: node });
        let key = [ZONE, HOSTNAME, CAPACITY_TYPE][term % 3];
        let near = Weighted { weight: weight(term + 50), term: near(&format!("a{}", (at + 31 * term) % 97), key) };
        if term % 2 == 0 {
            shape.preferred_pod_affinity.push(near);
        } else {
            shape.preferred_pod_anti_affinity.push(near);
        }
    }
    shape
}

fn near(app: &str, key: &str) -> PodAffinityTerm {
    let term = SelectorTerm { key: "app".into(), operator: SelectorOperator::In, values: vec![app.into()] };
    PodAffinityTerm {
        topology_key: key.into(),
        selector: Some(LabelSelector::new(vec![term])),
        namespaces: Vec::new(),
        namespace_selector: None,
    }
}

const KINDS: usize = 60;

fn pool() -> NodePool {
    let catalogue = Catalogue { types: (0..KINDS).map(instance_type).collect(), offering_keys: Vec::new() };
    let requirements: Requirements =
        [Requirement::new(CAPACITY_TYPE, Operator::Exists, Vec::<Text>::new())].into_iter().collect();
    NodePool {
        name: "default".into(),
        node_class: "default".into(),
        requirements,
        catalogue: std::sync::Arc::new(catalogue),
        ..NodePool::default()
    }
}

/// `t0` … with 2 to 64 vCPU, sorted by name.
fn instance_type(at: usize) -> InstanceType {
    let names: std::collections::BTreeSet<String> = (0..KINDS).map(|at| format!("t{at}")).collect();
    let name = names.into_iter().nth(at).unwrap_or_default();
    let vcpu = 2_i64 << (at % 6);
    let capacity = Resources::from_iter([(CPU, vcpu * 1_000), (MEMORY, vcpu * 4 * GIB), (PODS, 110)]);
    let offering = |zone: &str, paid: CapacityType, price: i64| Offering {
        zone: zone.into(),
        capacity_type: paid,
        price: MicroUsd(price + at as i64),
        estimated: false,
        catalogue_price: None,
        available: true,
        reservation: None,
        labels: Labels::new().into(),
    };
    let offerings = ZONES.iter().flat_map(|zone| {
        [offering(zone, CapacityType::OnDemand, vcpu * 50_000), offering(zone, CapacityType::Spot, vcpu * 17_000)]
    });
    InstanceType {
        labels: [Requirement::equals(INSTANCE_TYPE, name.as_str()), Requirement::equals(ARCH, "amd64")]
            .into_iter()
            .collect::<Requirements>()
            .into(),
        name: name.into(),
        allocatable: capacity.clone(),
        capacity,
        exotic: false,
        burstable: None,
        offerings: offerings.collect(),
    }
}
