//! Random clusters as an agent captures them: workloads with replicas, existing and in-flight nodes
//! with pods, DaemonSets, and pools with limits and opt-in rules over few or many types and zones.

use model::OptInRules;
use model::labels::{HOSTNAME, ZONE};
use proptest::bool::weighted;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, prop_oneof};
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use crate::cases::{Case, NodeCase, PodCase, PoolCase, ShapeCase, SpreadCase, TIER, TermCase, TypeCase};
use crate::config;
use crate::fixture::{EVERY_APP, ZONES};
use crate::strategies::{daemons, nodes, pools, shapes, types};

/// Maximum number of pending pods of a cluster.
const MOST_PODS: usize = 150;

/// A Deployment or StatefulSet.
#[derive(Debug, Clone)]
struct Workload {
    shape: ShapeCase,
    replicas: usize,
    namespace: usize,
    volumes: Option<u32>,
    recently_created: bool,
}

/// The cluster with this seed, which proptest can shrink.
pub fn cluster(seed: u64) -> (TestRunner, impl ValueTree<Value = Case>) {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(config(), TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let tree = clusters().new_tree(&mut runner).expect("no part of a cluster is filtered");
    (runner, tree)
}

fn clusters() -> impl Strategy<Value = Case> {
    let stock = (types_for_sale(), vec(all_pools(), 1..=4), vec(all_nodes(), 0..=14), vec(daemons(), 0..=3));
    let zones = prop_oneof![1 => Just(1_usize), 2 => Just(2), 4 => Just(3)];
    let flags = (weighted(0.1), weighted(0.1));
    (stock, vec(workloads(), 5..=16), zones, flags).prop_map(
        |((types, pools, nodes, daemons), workloads, zones, (ignore_preferences, best_effort))| {
            let shapes = (0..).zip(&workloads).map(|(at, load)| naming_others(&load.shape, at, workloads.len()));
            let mut case = Case {
                types,
                pools,
                nodes: nodes.into_iter().map(|node| running(node, &workloads)).collect(),
                daemons,
                shapes: shapes.collect(),
                pods: (0..).zip(&workloads).flat_map(|(at, load)| replicas(at, load)).take(MOST_PODS).collect(),
                ignore_preferences,
                best_effort,
            };
            in_zones(&mut case, zones);
            case
        },
    )
}

/// App number of workload `at`.
fn own_app(at: usize) -> usize {
    at + usize::from(at >= EVERY_APP)
}

fn replicas(at: usize, load: &Workload) -> Vec<PodCase> {
    let pod = PodCase {
        shape: at,
        app: own_app(at),
        namespace: load.namespace,
        volumes: load.volumes,
        recently_created: load.recently_created,
    };
    vec![pod; load.replicas]
}

/// `shape` for workload `at`: app 0 of its rules is its own app, the others are those of the next
/// workloads.
fn naming_others(shape: &ShapeCase, at: usize, count: usize) -> ShapeCase {
    let named = |app: usize| if app == EVERY_APP { app } else { own_app((at + app) % count) };
    let mut shape = shape.clone();
    shape.spread.iter_mut().for_each(|spread| spread.app = named(spread.app));
    for terms in [
        &mut shape.affinity,
        &mut shape.anti_affinity,
        &mut shape.preferred_affinity,
        &mut shape.preferred_anti_affinity,
    ] {
        terms.iter_mut().for_each(|term| term.app = named(term.app));
    }
    shape
}

/// `node` with replicas of these workloads as pods.
fn running(mut node: NodeCase, workloads: &[Workload]) -> NodeCase {
    for pod in &mut node.pods {
        let at = pod.shape % workloads.len();
        (pod.shape, pod.app, pod.namespace) = (at, own_app(at), workloads[at].namespace);
    }
    node
}

/// Reduces the case to `count` zones: everything elsewhere moves to the first.
fn in_zones(case: &mut Case, count: usize) {
    let moved = |zone: &str| ZONES[..count].iter().copied().find(|known| *known == zone).unwrap_or(ZONES[0]);
    case.nodes.iter_mut().for_each(|node| node.zone = moved(node.zone));
    for offering in case.types.iter_mut().flat_map(|kind| &mut kind.offerings) {
        offering.0 = moved(offering.0);
    }
}

fn types_for_sale() -> impl Strategy<Value = Vec<TypeCase>> {
    prop_oneof![1 => vec(larger_types(), 1..=3), 4 => vec(larger_types(), 4..=14)]
}

fn larger_types() -> impl Strategy<Value = TypeCase> {
    (types(), select(&[1_i64, 2, 4][..])).prop_map(|(mut kind, times)| {
        (kind.cpus, kind.gib) = (kind.cpus * times, kind.gib * times);
        kind.pods = if kind.pods == 2 { 20 } else { kind.pods };
        for offering in &mut kind.offerings {
            offering.2 *= times;
        }
        kind
    })
}

fn all_pools() -> impl Strategy<Value = PoolCase> {
    let limits = (option::weighted(0.3, 4..160_i64), option::weighted(0.15, 1..25_i64));
    (pools(), limits, option::weighted(0.12, 2..4_u32), weighted(0.5), weighted(0.2)).prop_map(
        |(mut pool, limits, families, plain, balanced)| {
            (pool.cpu_limit, pool.node_limit) = limits;
            pool.min_families = families;
            if plain {
                pool.rules = OptInRules::default();
            }
            pool.rules.zone_balance |= balanced;
            one_requirement_per_key(&mut pool);
            // A spot share decides the size of each node, and `minValues` then count among types of
            // one size.
            if pool.min_types.is_some() || pool.min_families.is_some() {
                pool.rules.spot_max_percent = None;
            }
            pool
        },
    )
}

/// Reduces the pool to one requirement per key: a pool that requires presence and absence of a
/// label offers nothing, which no real cluster has.
fn one_requirement_per_key(pool: &mut PoolCase) {
    let mut seen: Vec<&str> = pool.tier.map(|_| TIER).into_iter().collect();
    pool.requirements.retain(|(key, ..)| {
        let new = !seen.contains(key);
        seen.push(key);
        new
    });
}

fn all_nodes() -> impl Strategy<Value = NodeCase> {
    let pod =
        (0..16_usize, weighted(0.1), option::weighted(0.1, prop_oneof![3 => 0..3_u32, 1 => Just(5_u32)])).prop_map(
            |(shape, recently_created, volumes)| PodCase { shape, recently_created, volumes, ..PodCase::default() },
        );
    (nodes(), 1..5_i64, weighted(0.7), vec(pod, 0..8)).prop_map(|(mut node, times, daemons_run, pods)| {
        node.cpus *= times;
        (node.daemons_run, node.pods) = (daemons_run, pods);
        node
    })
}

fn workloads() -> impl Strategy<Value = Workload> {
    let volumes = option::weighted(0.12, prop_oneof![6 => 0..4_u32, 1 => Just(4_u32), 1 => Just(5_u32)]);
    let shape = prop_oneof![3 => ordinary(), 1 => shapes()];
    (shape, 1..=25_usize, weighted(0.15), volumes, weighted(0.1)).prop_map(
        |(shape, replicas, other, volumes, recently_created)| Workload {
            shape,
            replicas,
            namespace: usize::from(other),
            volumes,
            recently_created,
        },
    )
}

/// A typical workload: its rules about other pods mostly select its own.
fn ordinary() -> impl Strategy<Value = ShapeCase> {
    let size = (1..7_i64, 1..9_i64);
    let spread = (1..3_i32, option::weighted(0.15, 1..4_i32), weighted(0.85), weighted(0.2), 0..8_u8).prop_map(
        |(skew, min_domains, honor_affinity, honor_taints, which)| {
            let on = |key, hard| SpreadCase { key, skew, min_domains, hard, app: 0, honor_affinity, honor_taints };
            match which {
                0..=2 => vec![on(ZONE, true)],
                3 | 4 => vec![on(HOSTNAME, true)],
                5 => vec![on(ZONE, true), on(HOSTNAME, true)],
                6 => vec![on(ZONE, true), on(HOSTNAME, false)],
                _ => vec![on(ZONE, false), on(HOSTNAME, false)],
            }
        },
    );
    let affinity_term = |key, app| vec![TermCase { key, app, all_namespaces: false }];
    let anti_affinity = prop_oneof![
        12 => Just(Vec::new()),
        3 => Just(affinity_term(HOSTNAME, 0)),
        1 => Just(affinity_term(ZONE, 0)),
        1 => Just(affinity_term(HOSTNAME, 1)),
    ];
    let affinity = prop_oneof![
        16 => Just(Vec::new()),
        1 => Just(affinity_term(ZONE, 0)),
        1 => Just(affinity_term(ZONE, 1)),
        1 => Just(affinity_term(HOSTNAME, 1)),
    ];
    let soft =
        prop_oneof![6 => Just(Vec::new()), 1 => Just(affinity_term(HOSTNAME, 0)), 1 => Just(affinity_term(ZONE, 0))];
    let node = (
        option::weighted(0.12, select(&[(ZONE, "a"), (ZONE, "b"), ("tier", "1")][..])),
        weighted(0.3),
        option::weighted(0.04, 80..82_u16),
        prop_oneof![4 => Just(0), 1 => 1..3_i32],
    );
    (size, prop_oneof![1 => Just(Vec::new()), 1 => spread], anti_affinity, affinity, soft, node).prop_map(
        |(
            (half_cpus, gib),
            spread,
            anti_affinity,
            affinity,
            preferred_anti_affinity,
            (selector, tolerates, port, priority),
        )| ShapeCase {
            half_cpus,
            gib,
            selector,
            spread,
            anti_affinity,
            affinity,
            preferred_anti_affinity,
            tolerates,
            port,
            priority,
            ..ShapeCase::default()
        },
    )
}
