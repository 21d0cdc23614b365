//! Clusters with two instance types: `t.4` with 4 CPUs at $0.40 and `t.8` with 8 CPUs at $0.75, in zones `a` and `b`.

use std::sync::Arc;

use model::input::PlanningInput;
use model::labels::{CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, NODEPOOL, ZONE, ZONE_ID};
use model::offering::Catalogue;
use model::resources::{CPU, PODS};
use model::{
    BoundPod, CapacityType, InstanceType, InstanceTypeName, Labels, MicroUsd, Millis, Node, NodePool, NodeStage,
    Offering, PodShape, Requirements, Resources, Text, Timestamp, Zone,
};
use odds::{CapacityOdds, OddsSnapshot};
use planner::CompileCache;
use quote::{Answer, ClusterQuote, Fit, LaunchSettings, PodSet, PreparedCluster, QuoteContext, ReadyTime};

pub const NOW: Timestamp = Timestamp::from_millis(0);
pub const READY: ReadyTime = ReadyTime { p50: Millis::from_secs(40), p95: Millis::from_secs(80) };

pub fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| (Text::from(*key), Text::from(*value))).collect()
}

fn amounts(cpus: i64) -> Resources {
    Resources::from_iter([(CPU, cpus * 1_000), (PODS, 100)])
}

pub fn requests(cpus: i64) -> Resources {
    Resources::from_iter([(CPU, cpus * 1_000), (PODS, 1)])
}

fn offering(zone: &str, price: i64) -> Offering {
    Offering {
        zone: Zone::from(zone),
        capacity_type: CapacityType::OnDemand,
        price: MicroUsd(price),
        estimated: false,
        catalogue_price: None,
        available: true,
        reservation: None,
        labels: labels(&[(ZONE_ID, &format!("use1-{zone}"))]).into(),
    }
}

fn instance_type(cpus: i64, price: i64) -> InstanceType {
    InstanceType {
        name: InstanceTypeName::from(format!("t.{cpus}")),
        labels: Requirements::default().into(),
        capacity: amounts(cpus),
        allocatable: amounts(cpus),
        exotic: false,
        burstable: None,
        offerings: vec![offering("a", price), offering("b", price)],
    }
}

pub fn pool() -> NodePool {
    let catalogue = Catalogue {
        types: vec![instance_type(4, 400_000), instance_type(8, 750_000)],
        offering_keys: vec![Text::from(ZONE_ID)],
    };
    NodePool {
        name: "default".into(),
        node_class: "default".into(),
        labels: Labels::default(),
        requirements: Requirements::default(),
        catalogue: Arc::new(catalogue),
        ..NodePool::default()
    }
}

/// A cluster with this pool and no nodes.
pub fn cluster(pool: NodePool) -> PlanningInput {
    PlanningInput { pools: vec![pool], ..PlanningInput::default() }
}

/// Adds a node of type `t.8` in zone `a` with pods of so many CPUs and these labels.
pub fn add_node(input: &mut PlanningInput, name: &str, pods: &[(i64, &str)]) {
    let pods = pods.iter().enumerate().map(|(nth, (cpus, app))| {
        let shape = PodShape { requests: requests(*cpus), ..PodShape::default() };
        add_pod(input, &format!("{name}-{nth}"), shape, &labels(&[("app", app)]))
    });
    let pods: Vec<BoundPod> = pods.collect();
    input.nodes.push(Node {
        name: name.into(),
        pool: Some("default".into()),
        labels: labels(&[
            (NODEPOOL, "default"),
            (HOSTNAME, name),
            (ZONE, "a"),
            (CAPACITY_TYPE, "on-demand"),
            (INSTANCE_TYPE, "t.8"),
        ]),
        taints: Vec::new(),
        unschedulable: false,
        allocatable: amounts(8),
        capacity: amounts(8),
        stage: NodeStage::Initialized,
        pods,
        attach_limits: Vec::new(),
        created: None,
    });
}

/// Adds the tables of a running pod, and returns the pod.
pub fn add_pod(input: &mut PlanningInput, name: &str, shape: PodShape, labels: &Labels) -> BoundPod {
    input.shapes.push(shape);
    input.label_sets.push(labels.clone());
    BoundPod {
        namespace: "batch".into(),
        name: name.into(),
        shape: input.shapes.len() as u32 - 1,
        labels: input.label_sets.len() as u32 - 1,
        volumes: None,
        daemon: None,
        terminating: false,
        leaving: false,
    }
}

/// `count` pods of so many CPUs with the label `app: <name>`.
pub fn pods(name: &str, count: u32, cpus: i64) -> PodSet {
    let shape = PodShape { requests: requests(cpus), ..PodShape::default() };
    PodSet {
        name: name.into(),
        namespace: "batch".into(),
        shape,
        labels: labels(&[("app", name)]),
        volumes: None,
        count,
    }
}

pub fn prepared(name: &str, input: PlanningInput) -> PreparedCluster {
    PreparedCluster::new(name.into(), "111111111111".into(), input, None, &LaunchSettings::default())
}

pub fn with_context<T>(odds: &CapacityOdds, quotes: impl FnOnce(&mut QuoteContext<'_>) -> T) -> T {
    let mut cache = CompileCache::default();
    let ready_time = |_: &InstanceTypeName, _: CapacityType| READY;
    quotes(&mut QuoteContext::new(OddsSnapshot::new(odds, NOW), &ready_time, &mut cache))
}

/// The quote of a cluster of which nothing is known.
pub fn quote(cluster: &mut PreparedCluster, sets: &[PodSet]) -> ClusterQuote {
    with_context(&CapacityOdds::default(), |context| cluster.quote(sets, context))
}

pub fn fit(quote: &ClusterQuote) -> &Fit {
    match &quote.answer {
        Answer::Fits(fit) => fit,
        Answer::DoesNotFit(blockers) => panic!("does not fit: {blockers:?}"),
    }
}
