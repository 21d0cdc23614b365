//! Strategies for random small inputs. Rare features are rare, so that most inputs can be placed
//! and shrinking ends at few parts.

use model::labels::{ARCH, CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ZONE};
use model::{CapacityType, MicroUsd, Millis, NodeStage, Operator, OptInRules};
use proptest::bool::weighted;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::{Just, Strategy, prop_oneof};
use proptest::sample::select;

use crate::cases::{
    Case, DaemonCase, LabelRequirement, NodeCase, PodCase, PoolCase, RACK, ShapeCase, SpreadCase, TIER, TermCase,
    TypeCase,
};
use crate::fixture::{APPS, NAMESPACES, ZONES};

const WISHES: &[LabelRequirement] = &[
    (ZONE, Operator::In, &["a"]),
    (ZONE, Operator::In, &["b", "c"]),
    (ZONE, Operator::NotIn, &["a"]),
    (CAPACITY_TYPE, Operator::In, &["on-demand"]),
    (CAPACITY_TYPE, Operator::NotIn, &["reserved"]),
    (CAPACITY_TYPE, Operator::In, &["spot"]),
    (ARCH, Operator::In, &["amd64"]),
    (ARCH, Operator::In, &["arm64"]),
    (INSTANCE_TYPE, Operator::NotIn, &["type-0"]),
    (INSTANCE_TYPE, Operator::In, &["type-1", "type-2"]),
    (TIER, Operator::In, &["1"]),
    (TIER, Operator::NotIn, &["1"]),
    (TIER, Operator::Exists, &[]),
    (TIER, Operator::DoesNotExist, &[]),
    (TIER, Operator::Gt, &["1"]),
    (RACK, Operator::Exists, &[]),
    (RACK, Operator::NotIn, &["r1"]),
];

/// Pool requirements, some of which leave labels undecided.
const POOL_WISHES: &[LabelRequirement] = &[
    (ZONE, Operator::In, &["a", "b"]),
    (ZONE, Operator::NotIn, &["b"]),
    (CAPACITY_TYPE, Operator::In, &["on-demand"]),
    (CAPACITY_TYPE, Operator::In, &["on-demand", "spot"]),
    (ARCH, Operator::In, &["amd64"]),
    (INSTANCE_TYPE, Operator::NotIn, &["type-1"]),
    (TIER, Operator::Exists, &[]),
    (TIER, Operator::In, &["1", "2"]),
    (TIER, Operator::DoesNotExist, &[]),
];

fn key() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        4 => Just(HOSTNAME),
        5 => Just(ZONE),
        1 => select(&[CAPACITY_TYPE, RACK, TIER, ARCH][..]),
    ]
}

fn app() -> impl Strategy<Value = usize> {
    prop_oneof![3 => Just(0_usize), 2 => 0..=APPS.len()]
}

fn spread() -> impl Strategy<Value = SpreadCase> {
    let honors = (weighted(0.8), weighted(0.3));
    (key(), 1..3_i32, option::weighted(0.2, 1..4_i32), weighted(0.8), app(), honors).prop_map(
        |(key, skew, min_domains, hard, app, (honor_affinity, honor_taints))| SpreadCase {
            key,
            skew,
            min_domains,
            hard,
            app,
            honor_affinity,
            honor_taints,
        },
    )
}

fn term() -> impl Strategy<Value = TermCase> {
    (key(), app(), weighted(0.2)).prop_map(|(key, app, all_namespaces)| TermCase { key, app, all_namespaces })
}

/// Usually none, and up to `most`.
fn few<S: Strategy>(part: S, most: usize) -> impl Strategy<Value = Vec<S::Value>>
where
    S::Value: Clone,
{
    prop_oneof![3 => Just(Vec::new()), 2 => vec(part, 1..=most)]
}

fn any_of() -> impl Strategy<Value = Vec<Vec<LabelRequirement>>> {
    prop_oneof![3 => Just(Vec::new()), 1 => vec(vec(select(WISHES), 1..3), 1..3)]
}

pub fn shapes() -> impl Strategy<Value = ShapeCase> {
    let size = (1..9_i64, 1..9_i64);
    let selector = option::weighted(0.2, select(&[(ZONE, "a"), (ZONE, "c"), (TIER, "1"), (ARCH, "arm64")][..]));
    let node = (selector, any_of(), few((1..4_i32, select(WISHES)), 2));
    let pods = (few(spread(), 2), few(term(), 2), few(term(), 2));
    let softs = (few(term(), 1), few(term(), 1));
    let rest = (weighted(0.4), option::weighted(0.15, 80..82_u16), prop_oneof![3 => Just(0), 1 => 1..3_i32]);
    (size, node, pods, softs, rest).prop_map(|(size, node, pods, softs, rest)| ShapeCase {
        half_cpus: size.0,
        gib: size.1,
        selector: node.0,
        any_of: node.1,
        preferred: node.2,
        spread: pods.0,
        affinity: if pods.1.len() == 1 || pods.2.is_empty() { pods.1 } else { Vec::new() },
        anti_affinity: pods.2,
        preferred_affinity: softs.0,
        preferred_anti_affinity: softs.1,
        tolerates: rest.0,
        port: rest.1,
        priority: rest.2,
    })
}

pub fn pods() -> impl Strategy<Value = PodCase> {
    let volumes = option::weighted(0.15, 0..5_u32);
    (0..4_usize, 0..APPS.len(), prop_oneof![4 => Just(0), 1 => 0..NAMESPACES.len()], volumes, weighted(0.2)).prop_map(
        |(shape, app, namespace, volumes, recently_created)| PodCase {
            shape,
            app,
            namespace,
            volumes,
            recently_created,
        },
    )
}

pub fn types() -> impl Strategy<Value = TypeCase> {
    let kind = prop_oneof![
        5 => Just(CapacityType::OnDemand),
        4 => Just(CapacityType::Spot),
        1 => Just(CapacityType::Reserved),
    ];
    let offerings = vec((select(&ZONES[..]), kind, 10..200_i64), 1..6);
    let size = (select(&[1_i64, 2, 4, 8][..]), select(&[1_i64, 2, 4, 8][..]), select(&[2_i64, 8, 110][..]));
    let rest = (weighted(0.2), weighted(0.1), option::weighted(0.3, 0..4_i64));
    (size, rest, offerings).prop_map(|((cpus, per_cpu, pods), (arm, exotic, attach), offerings)| TypeCase {
        cpus,
        gib: cpus * per_cpu,
        pods,
        arm,
        exotic,
        attach,
        offerings,
    })
}

fn rules() -> impl Strategy<Value = OptInRules> {
    let switches = (weighted(0.15), option::weighted(0.1, Just(Millis::from_mins(10))), weighted(0.1));
    let prices = (option::weighted(0.1, 20..60_i64), option::weighted(0.1, 50..150_i64));
    let shares = (option::weighted(0.15, select(&[0_i64, 40, 50, 80][..])), option::weighted(0.15, 1..3_i64));
    (switches, prices, shares, option::weighted(0.1, 2..5_i64)).prop_map(|(switches, prices, shares, vcpu)| {
        OptInRules {
            zone_balance: switches.0,
            safe_architectures: if switches.2 { vec!["amd64".into()] } else { Vec::new() },
            spot_fallback_after: switches.1,
            max_price_per_vcpu: prices.0.map(|price| MicroUsd(price * 1000)),
            max_node_price: prices.1.map(|price| MicroUsd(price * 1000)),
            spot_max_percent: shares.0,
            on_demand_min_nodes: shares.1,
            max_node_vcpu: vcpu,
            min_nodes: None,
            ignores_credits: false,
            node_overhead: None,
        }
    })
}

pub fn pools() -> impl Strategy<Value = PoolCase> {
    let taints = (weighted(0.15), weighted(0.15), option::weighted(0.2, select(&["1", "2"][..])));
    let bounds = (
        option::weighted(0.15, 1..4_u32),
        option::weighted(0.3, 1..20_i64),
        option::weighted(0.2, 0..4_i64),
        option::weighted(0.08, 0..4_i64),
    );
    let rules = prop_oneof![2 => Just(OptInRules::default()), 1 => rules()];
    (0..3_i32, taints, few(select(POOL_WISHES), 2), bounds, weighted(0.1), rules).prop_map(
        |(weight, taints, requirements, bounds, unhealthy, rules)| PoolCase {
            weight,
            tainted: taints.0,
            soft_tainted: taints.1,
            tier: taints.2,
            requirements,
            min_types: bounds.0,
            min_families: None,
            cpu_limit: bounds.1,
            node_limit: bounds.2,
            replicas: bounds.3,
            unhealthy,
            rules,
        },
    )
}

pub fn nodes() -> impl Strategy<Value = NodeCase> {
    let place = (select(&ZONES[..]), weighted(0.3), 1..9_i64, weighted(0.2));
    let names = (option::weighted(0.3, select(&["1", "2"][..])), option::weighted(0.4, select(&["r1", "r2"][..])));
    let taints = (weighted(0.15), weighted(0.15), weighted(0.05));
    let stage = prop_oneof![
        4 => Just(NodeStage::Initialized),
        1 => Just(NodeStage::Registered),
        1 => Just(NodeStage::InFlight),
        1 => Just(NodeStage::Deleting),
    ];
    let owner = option::weighted(0.8, 0..3_usize);
    let attach = option::weighted(0.3, 0..4_i64);
    (place, names, taints, stage, owner, attach, vec(pods(), 0..4)).prop_map(
        |(place, names, taints, stage, pool, attach, pods)| NodeCase {
            zone: place.0,
            spot: place.1,
            cpus: place.2,
            arm: place.3,
            tier: names.0,
            rack: names.1,
            tainted: taints.0,
            soft_tainted: taints.1,
            cordoned: taints.2,
            stage,
            pool,
            attach,
            daemons_run: false,
            pods,
        },
    )
}

pub fn daemons() -> impl Strategy<Value = DaemonCase> {
    (0..3_i64, any_of(), weighted(0.5), option::weighted(0.2, 80..82_u16))
        .prop_map(|(half_cpus, any_of, tolerates, port)| DaemonCase { half_cpus, any_of, tolerates, port })
}

/// Up to twelve pods in up to four shapes, up to four nodes, up to three pools over up to ten types.
pub fn cases() -> impl Strategy<Value = Case> {
    cases_of(12)
}

/// Cases with at most `pods` pods.
pub fn cases_of(most: usize) -> impl Strategy<Value = Case> {
    let stock = (vec(types(), 3..=10), vec(pools(), 1..=3), vec(nodes(), 0..=4), vec(daemons(), 0..=2));
    let wanted = (vec(shapes(), 1..=4), vec(pods(), 1..=most), weighted(0.2), weighted(0.2));
    (stock, wanted).prop_map(|((types, pools, nodes, daemons), (shapes, pods, ignore_preferences, best_effort))| {
        let case = Case { types, pools, nodes, daemons, shapes, pods, ignore_preferences, best_effort };
        within_what_is_promised(case)
    })
}

/// Excludes two combinations. In a pool with zone balance, pods bound to a zone, or to a capacity
/// type available in one zone, can unbalance nodes planned before them. With `minValues` and a CPU
/// limit, a later node can use up the capacity that an earlier one needs for its options. The plan
/// then fails its check and is not printed.
fn within_what_is_promised(mut case: Case) -> Case {
    if case.pools.iter().any(|pool| pool.rules.zone_balance) {
        case.shapes.iter_mut().for_each(forget_zones);
        case.pods.iter_mut().for_each(|pod| pod.volumes = None);
        for pool in &mut case.pools {
            (pool.rules.on_demand_min_nodes, pool.rules.spot_max_percent) = (None, None);
        }
    }
    for pool in case.pools.iter_mut().filter(|pool| pool.min_types.is_some()) {
        pool.cpu_limit = None;
    }
    case
}

fn forget_zones(shape: &mut ShapeCase) {
    let elsewhere = |label_requirement: &LabelRequirement| label_requirement.0 != ZONE;
    shape.selector = shape.selector.filter(|(key, _)| *key != ZONE);
    shape.any_of.iter_mut().for_each(|term| term.retain(elsewhere));
    shape.any_of.retain(|term| !term.is_empty());
    shape.preferred.retain(|(_, label_requirement)| elsewhere(label_requirement));
    shape.spread.retain(|spread| spread.key == HOSTNAME);
    for terms in [
        &mut shape.affinity,
        &mut shape.anti_affinity,
        &mut shape.preferred_affinity,
        &mut shape.preferred_anti_affinity,
    ] {
        terms.retain(|term| term.key == HOSTNAME);
    }
}
