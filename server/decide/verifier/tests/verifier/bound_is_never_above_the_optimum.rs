//! Random small fixtures, packed in every possible way: the bound is never above the cheapest
//! packing.

use model::labels::{CAPACITY_TYPE, HOSTNAME};
use model::{CapacityType, MicroUsd, PodShape, Requirement};
use proptest::collection::vec;
use proptest::prelude::{Strategy, any, prop_assert, prop_oneof, proptest};
use scheduler::bound::lower_bound;

use crate::fixture::{Fixture, GIB, affinity_term, amounts, machine, offering, plain, pool, requiring, reserved};

#[derive(Debug, Clone)]
struct PodCase {
    half_cpus: i64,
    gib: i64,
    on_demand: bool,
    alone: bool,
}

#[derive(Debug, Clone)]
struct TypeCase {
    cpus: i64,
    gib: i64,
    on_demand: i64,
    spot: Option<i64>,
    reserved: bool,
}

#[derive(Debug, Clone)]
struct Case {
    pods: Vec<PodCase>,
    types: Vec<TypeCase>,
    node: Option<(i64, i64)>,
}

fn cases() -> impl Strategy<Value = Case> {
    let pod = (
        1..5_i64,
        1..9_i64,
        any::<bool>(),
        prop_oneof![3 => proptest::strategy::Just(false), 1 => proptest::strategy::Just(true)],
    )
        .prop_map(|(half_cpus, gib, on_demand, alone)| PodCase { half_cpus, gib, on_demand, alone });
    let machine = (2..9_i64, 8..33_i64, 1..100_i64, proptest::option::of(0..60_i64), proptest::bool::weighted(0.15))
        .prop_map(|(cpus, gib, on_demand, spot, reserved)| TypeCase { cpus, gib, on_demand, spot, reserved });
    let node = proptest::option::weighted(0.3, (1..5_i64, 1..17_i64));
    (vec(pod, 1..6), vec(machine, 1..5), node).prop_map(|(pods, types, node)| Case { pods, types, node })
}

fn fixture(case: &Case) -> Fixture {
    let mut fixture = Fixture::new();
    let types = (0..).zip(&case.types).map(|(at, case)| {
        let mut machine = machine(&format!("t{at}"), case.cpus, 0);
        machine.allocatable = amounts(case.cpus * 1000, case.gib * GIB, 110);
        machine.offerings = vec![offering("a", CapacityType::OnDemand, case.on_demand * 1000)];
        machine.offerings.extend(case.spot.map(|price| offering("a", CapacityType::Spot, price * 1000)));
        machine.offerings.extend(case.reserved.then(|| reserved(&format!("cr-{at}"), 1)));
        machine
    });
    fixture.input.pools = vec![pool("default", types.collect())];
    let pods: Vec<u32> = case.pods.iter().map(|case| fixture.pod("web", shape(case))).collect();
    if let Some((cpus, gib)) = case.node {
        fixture.node("n", "a");
        fixture.input.nodes[0].allocatable = amounts(cpus * 1000, gib * GIB, 110);
    }
    fixture.launch(&["t0"], &["a"], &pods).price = MicroUsd(1_000_000_000);
    fixture
}

fn shape(case: &PodCase) -> PodShape {
    let open = if case.on_demand { requiring(Requirement::equals(CAPACITY_TYPE, "on-demand")) } else { plain() };
    let terms = if case.alone { vec![affinity_term("web", HOSTNAME)] } else { Vec::new() };
    PodShape { requests: amounts(case.half_cpus * 500, case.gib * GIB, 1), pod_anti_affinity: terms, ..open }
}

/// The minimum cost of grouping all pods into blocks, each on one node, over all partitions. A pod
/// that is alone shares its node with no other, since all pods carry the label of its
/// anti-affinity.
fn optimum(case: &Case) -> Option<i64> {
    let mut best = None;
    let mut blocks: Vec<Vec<usize>> = Vec::new();
    partitions(case, 0, &mut blocks, &mut best);
    best
}

fn partitions(case: &Case, next: usize, blocks: &mut Vec<Vec<usize>>, best: &mut Option<i64>) {
    if next == case.pods.len() {
        if let Some(cost) = cost(case, blocks, 0, case.node.is_some(), &mut vec![true; case.types.len()]) {
            *best = Some(best.map_or(cost, |least: i64| least.min(cost)));
        }
        return;
    }
    for at in 0..=blocks.len() {
        if at == blocks.len() {
            blocks.push(vec![next]);
        } else {
            blocks[at].push(next);
        }
        partitions(case, next + 1, blocks, best);
        blocks[at].pop();
        if blocks[at].is_empty() {
            blocks.remove(at);
        }
    }
}

/// The minimum cost of the blocks from `at` on; the existing node and each reserved instance can be
/// used once.
fn cost(case: &Case, blocks: &[Vec<usize>], at: usize, node_free: bool, reserved_free: &mut Vec<bool>) -> Option<i64> {
    let Some(block) = blocks.get(at) else { return Some(0) };
    let pods: Vec<&PodCase> = block.iter().map(|pod| &case.pods[*pod]).collect();
    if pods.len() > 1 && pods.iter().any(|pod| pod.alone) {
        return None;
    }
    let half_cpus: i64 = pods.iter().map(|pod| pod.half_cpus).sum();
    let gib: i64 = pods.iter().map(|pod| pod.gib).sum();
    let only_on_demand = pods.iter().any(|pod| pod.on_demand);
    let mut best: Option<i64> = None;
    let mut keep = |cost: Option<i64>| best = [best, cost].into_iter().flatten().min();
    if node_free && case.node.is_some_and(|(cpus, memory)| half_cpus <= 2 * cpus && gib <= memory) {
        keep(cost(case, blocks, at + 1, false, reserved_free));
    }
    for (number, machine) in case.types.iter().enumerate() {
        if half_cpus > 2 * machine.cpus || gib > machine.gib {
            continue;
        }
        let spot = machine.spot.filter(|_| !only_on_demand).unwrap_or(machine.on_demand);
        let price = spot.min(machine.on_demand) * 1000;
        keep(cost(case, blocks, at + 1, node_free, reserved_free).map(|rest| rest + price));
        if machine.reserved && !only_on_demand && reserved_free[number] {
            reserved_free[number] = false;
            keep(cost(case, blocks, at + 1, node_free, reserved_free));
            reserved_free[number] = true;
        }
    }
    best
}

proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn no_packing_is_cheaper_than_the_bound(case in cases()) {
        let fixture = fixture(&case);
        if let Some(optimum) = optimum(&case) {
            let bound = lower_bound(&fixture.input, &fixture.plan).0;
            prop_assert!(bound <= optimum, "bound {bound} above the optimum {optimum}");
        }
    }
}
