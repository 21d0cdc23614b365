//! Small clusters for the tests of this crate and of the controller: one pool `p` with the types `t.2` and `t.4`, machines `m0`, `m1`, … on nodes `n-m0`, ….

use std::sync::Arc;

use super::record::{ClaimRecord, NodeRecord, PodPhase, PodRecord, PoolDriftFacts, PoolMeta, PoolRecord, Scheduling};
use super::{ClusterState, Object, Observation};
use model::labels::{CAPACITY_TYPE, INITIALIZED, INSTANCE_TYPE, NODEPOOL, REGISTERED, ZONE};
use model::{
    Budget, BudgetLimit, CapacityType, Catalogue, DisruptionPolicy, InstanceType, InstanceTypeName, Labels, MicroUsd,
    Millis, NodeName, NodePool, Offering, PodKey, PodShape, ProviderId, Resources, Timestamp,
};

/// `value` as a text, or as a name of the type that its place requires.
pub fn text<T: for<'v> From<&'v str>>(value: &str) -> T {
    T::from(value)
}

/// The key of the pod `name` in the namespace `default`.
pub fn key(name: &str) -> PodKey {
    PodKey { namespace: text("default"), name: text(name) }
}

/// Requests of `millis` of CPU and of one pod.
pub fn cpu(millis: i64) -> Resources {
    Resources::from_iter([("cpu", millis), ("pods", 1)])
}

fn instance_type(vcpu: i64) -> InstanceType {
    let amounts = Resources::from_iter([("cpu", vcpu * 1000), ("pods", 20)]);
    let offering = Offering {
        zone: text("z"),
        capacity_type: CapacityType::Spot,
        price: MicroUsd(vcpu * 10_000),
        estimated: false,
        catalogue_price: None,
        available: true,
        reservation: None,
        labels: Labels::new().into(),
    };
    InstanceType {
        name: InstanceTypeName::from(format!("t.{vcpu}")),
        capacity: amounts.clone(),
        allocatable: amounts,
        offerings: vec![offering],
        ..InstanceType::default()
    }
}

/// The pool `p`: empty nodes are removed after 30 s, without budgets.
pub fn pool() -> PoolRecord {
    let pool = NodePool {
        name: text("p"),
        node_class: text("default"),
        catalogue: Arc::new(Catalogue { types: vec![instance_type(2), instance_type(4)], offering_keys: Vec::new() }),
        ..NodePool::default()
    };
    let disruption = DisruptionPolicy {
        consolidate_after: Some(Millis::from_secs(30)),
        budgets: Vec::new(),
        ..DisruptionPolicy::default()
    };
    PoolRecord { pool, disruption, revision: text("1"), meta: PoolMeta::default(), drift: PoolDriftFacts::default() }
}

/// The pool `p` with one budget, for each reason.
pub fn pool_with(limit: BudgetLimit) -> PoolRecord {
    let mut pool = pool();
    pool.disruption.budgets = vec![Budget { limit, reasons: None, window: None }];
    pool
}

/// The NodeClaim `name`, launched as a `t.2`.
pub fn claim(name: &str) -> ClaimRecord {
    let amounts = Resources::from_iter([("cpu", 2000), ("pods", 20)]);
    ClaimRecord {
        name: text(name),
        pool: text("p"),
        node_class: text("default"),
        provider_id: ProviderId::from(format!("aws:///z/i-{name}")),
        labels: labels(&[(INSTANCE_TYPE, "t.2"), (ZONE, "z"), (CAPACITY_TYPE, "spot"), (NODEPOOL, "p")]),
        capacity: amounts.clone(),
        allocatable: amounts,
        ours: true,
        ..ClaimRecord::default()
    }
}

/// The initialized Node of [`claim`].
pub fn node(name: &str) -> NodeRecord {
    let claim = claim(name);
    let mut all = claim.labels.clone();
    all.extend(labels(&[(REGISTERED, "true"), (INITIALIZED, "true")]));
    NodeRecord {
        name: NodeName::from(format!("n-{name}")),
        provider_id: claim.provider_id,
        labels: all,
        ready: true,
        allocatable: claim.allocatable,
        capacity: claim.capacity,
        ..NodeRecord::default()
    }
}

/// Labels of these keys and values.
pub fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| (text(key), text(value))).collect()
}

/// An unschedulable pod that requests `millis` of CPU.
pub fn pod(name: &str, millis: i64) -> PodRecord {
    let shape = Arc::new(PodShape { requests: cpu(millis), ..PodShape::default() });
    PodRecord::pending("default", name, shape, Arc::new(Labels::new()))
}

/// The pod, running on the node of `machine`.
pub fn bound_to(machine: &str, pod: PodRecord) -> PodRecord {
    let node = Some(NodeName::from(format!("n-{machine}")));
    PodRecord {
        node,
        phase: PodPhase::Running,
        scheduling: Scheduling::Unseen,
        started: Some(Timestamp::from_millis(0)),
        ..pod
    }
}

/// Applies `objects` at the time `at`, in milliseconds.
pub fn observe(state: &mut ClusterState, at: i64, objects: impl IntoIterator<Item = Object>) {
    for object in objects {
        state.apply(Observation::upsert(object), Timestamp::from_millis(at));
    }
}

/// The pool and machines of these names, initialized at time 0.
pub fn initialized_cluster(pool: PoolRecord, machines: &[&str]) -> ClusterState {
    let mut state = ClusterState::default();
    let pair = |name: &&str| [Object::Claim(claim(name)), Object::Node(node(name))];
    observe(&mut state, 0, [Object::Pool(pool)].into_iter().chain(machines.iter().flat_map(pair)));
    state
}
