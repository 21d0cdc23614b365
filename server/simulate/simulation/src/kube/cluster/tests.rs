use cluster::LaunchedFacts;
use controller::{ClaimOrder, Instruction, PodNomination};
use model::{ClaimName, Labels, NodeName, PoolName, ProviderId, Requirements, Resources, Text, Timestamp};

use super::*;

fn resources(cpu: i64) -> Resources {
    Resources::from_iter([("cpu", cpu), ("pods", 10)])
}

fn workload(name: &str, cpu: i64) -> Workload {
    Workload::new("default", name, &pod_spec(cpu, 0))
}

fn settings() -> ClusterSettings {
    let ms = (100, 100);
    let base = ClusterSettings { seed: 1, join_ms: (1000, 1000), node_gone_ms: ms, ..ClusterSettings::default() };
    ClusterSettings { ready_ms: ms, startup_ms: ms, start_ms: ms, grace_ms: ms, ..base }
}

fn claim(name: &str) -> ClaimName {
    ClaimName::from(name)
}

fn order(name: &str) -> ClaimOrder {
    ClaimOrder {
        name: claim(name),
        pool: PoolName::from("pool"),
        node_class: Text::from("default"),
        labels: Labels::new(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        requirements: Requirements::new(),
        requests: Resources::new(),
        expire_after: None,
        termination_grace_period: None,
        pool_hash: None,
        class_hash: None,
    }
}

/// A cluster with one ready and registered node of `cpu` at 2000 ms.
fn with_node(cpu: i64) -> SimulatedCluster {
    let mut cluster = SimulatedCluster::new(settings());
    join(&mut cluster, "a", cpu);
    cluster
}

/// Joins and registers the Node of NodeClaim `name`; ready at 2000 ms.
fn join(cluster: &mut SimulatedCluster, name: &str, cpu: i64) {
    cluster.instruct(&Instruction::CreateClaim(order(name)), Timestamp::from_millis(0)).unwrap();
    launch(cluster, name, cpu);
    cluster.tick(Timestamp::from_millis(1500));
    cluster.instruct(&register(name, Vec::new()), Timestamp::from_millis(1600)).unwrap();
    cluster.tick(Timestamp::from_millis(2000));
}

fn launch(cluster: &mut SimulatedCluster, name: &str, cpu: i64) {
    let facts = LaunchedFacts {
        provider_id: ProviderId::from(format!("aws:///z/i-{name}")),
        labels: Labels::new(),
        capacity: resources(cpu),
        allocatable: resources(cpu),
        image: model::Text::default(),
    };
    cluster.instruct(&Instruction::MarkLaunched { claim: claim(name), facts }, Timestamp::from_millis(0)).unwrap();
}

fn register(name: &str, nominations: Vec<PodNomination>) -> Instruction {
    Instruction::RegisterNode {
        claim: claim(name),
        node: NodeName::from(format!("ip-{name}")),
        labels: Labels::new(),
        taints: Vec::new(),
        nominations,
    }
}

#[test]
fn a_pod_without_a_node_is_marked_unschedulable() {
    let mut cluster = SimulatedCluster::new(settings());
    cluster.scale(&workload("web", 100), 1, Timestamp::from_millis(0));
    cluster.tick(Timestamp::from_millis(0));
    assert!(cluster.pods().all(PodRecord::is_provisionable));
    assert_eq!(cluster.ledger().never_ran().count(), 1);
}

#[test]
fn pods_run_on_a_registered_node_up_to_its_capacity() {
    let mut cluster = with_node(1000);
    // 1000 m of CPU hold two pods of 400 m.
    cluster.scale(&workload("web", 400), 3, Timestamp::from_millis(2000));
    cluster.tick(Timestamp::from_millis(2000));
    cluster.tick(Timestamp::from_millis(3000));
    assert_eq!((cluster.ledger().pods_ran, cluster.waiting().count()), (2, 1));
}

#[test]
fn nothing_is_bound_before_the_node_is_registered() {
    let mut cluster = SimulatedCluster::new(settings());
    cluster.instruct(&Instruction::CreateClaim(order("a")), Timestamp::from_millis(0)).unwrap();
    let facts = LaunchedFacts {
        provider_id: ProviderId::from("aws:///z/i-1"),
        labels: Labels::new(),
        capacity: resources(1000),
        allocatable: resources(1000),
        image: model::Text::default(),
    };
    cluster.instruct(&Instruction::MarkLaunched { claim: claim("a"), facts }, Timestamp::from_millis(0)).unwrap();
    cluster.scale(&workload("web", 100), 1, Timestamp::from_millis(0));
    cluster.tick(Timestamp::from_millis(60_000));
    assert_eq!((cluster.nodes().count(), cluster.waiting().count()), (1, 1));
}

#[test]
fn a_drained_node_is_empty_and_its_pods_are_recreated() {
    let mut cluster = with_node(1000);
    cluster.scale(&workload("web", 400), 2, Timestamp::from_millis(2000));
    cluster.tick(Timestamp::from_millis(3000));
    let reason = Text::from("test");
    let drain = Instruction::Drain {
        claim: claim("a"),
        node: NodeName::from("ip-a"),
        provider_id: ProviderId::default(),
        deadline: None,
        interruption: false,
        only_if_empty: false,
        reason,
    };
    assert_eq!(cluster.instruct(&drain, Timestamp::from_millis(3000)), Ok(Answer::Later));
    let changes = cluster.tick(Timestamp::from_millis(10_000));
    assert!(changes.contains(&Change::Drained { claim: claim("a") }));
    assert_eq!((cluster.ledger().pods_evicted, cluster.waiting().count()), (2, 2));
    assert_eq!(cluster.empty_nodes().count(), 1);
}

#[test]
fn deleting_a_claim_removes_its_node_and_may_be_done_twice() {
    let mut cluster = with_node(1000);
    let (provider_id, reason) = (ProviderId::default(), Text::from("test"));
    let delete = Instruction::DeleteClaim { claim: claim("a"), node: None, provider_id, reason };
    for _ in 0..2 {
        assert_eq!(cluster.instruct(&delete, Timestamp::from_millis(3000)), Ok(Answer::Done));
    }
    assert_eq!((cluster.nodes().count(), cluster.claims().count()), (0, 0));
    assert_eq!(cluster.ledger().nodes_removed, 1);
}

#[test]
fn a_nominated_pod_is_bound_to_its_node_though_another_has_more_free_cpu() {
    let node_of = |nominated: bool| {
        let mut cluster = SimulatedCluster::new(settings());
        cluster.scale(&workload("web", 100), 1, Timestamp::from_millis(0));
        let nomination = cluster.pods().next().map(|pod| PodNomination { pod: pod.key.clone(), uid: pod.uid.clone() });
        let nominations = nomination.into_iter().filter(|_| nominated).collect();
        for name in ["large", "small"] {
            cluster.instruct(&Instruction::CreateClaim(order(name)), Timestamp::from_millis(0)).unwrap();
        }
        launch(&mut cluster, "large", 400);
        launch(&mut cluster, "small", 200);
        // Both have joined after 1000 ms and are ready 100 ms later; small is registered first, and
        // large at the same time.
        cluster.tick(Timestamp::from_millis(1500));
        cluster.instruct(&register("small", nominations), Timestamp::from_millis(1600)).unwrap();
        cluster.instruct(&register("large", Vec::new()), Timestamp::from_millis(1600)).unwrap();
        cluster.tick(Timestamp::from_millis(2000));
        cluster.pods().next().and_then(|pod| pod.node.clone())
    };
    assert_eq!(node_of(true), Some(NodeName::from("ip-small")));
    assert_eq!(node_of(false), Some(NodeName::from("ip-large")));
}

/// Two pods of 150 millicores, of which `early` is tried first and `planned` is nominated to the only node, of 200; the node of each at
/// 2,000 ms, once it is registered.
fn bound_with(change: impl Fn(&mut SimulatedCluster), priority_of_early: i32) -> [Option<NodeName>; 2] {
    let mut cluster = SimulatedCluster::new(settings());
    change(&mut cluster);
    let mut spec = pod_spec(150, 0);
    spec["priority"] = priority_of_early.into();
    cluster.scale(&Workload::new("default", "early", &spec), 1, Timestamp::from_millis(0));
    cluster.scale(&workload("planned", 150), 1, Timestamp::from_millis(0));
    let planned = cluster.pods().find(|pod| &*pod.key.name == "planned-0").unwrap();
    let nomination = PodNomination { pod: planned.key.clone(), uid: planned.uid.clone() };
    cluster.instruct(&Instruction::CreateClaim(order("a")), Timestamp::from_millis(0)).unwrap();
    launch(&mut cluster, "a", 200);
    cluster.tick(Timestamp::from_millis(1500));
    cluster.instruct(&register("a", vec![nomination]), Timestamp::from_millis(1600)).unwrap();
    cluster.tick(Timestamp::from_millis(2000));
    ["early-0", "planned-0"].map(|name| {
        let pod = cluster.pods().find(|pod| &*pod.key.name == name).unwrap();
        assert_eq!(pod.own_nomination, None, "{name}: bound, or cleared by the failed attempt");
        pod.node.clone()
    })
}

#[test]
fn the_room_of_a_nominated_pod_is_kept_from_pods_of_the_same_priority() {
    let node = Some(NodeName::from("ip-a"));
    assert_eq!(bound_with(|_| {}, 0), [None, node.clone()]);
    assert_eq!(bound_with(|_| {}, 1), [node.clone(), None]);
    assert_eq!(bound_with(SimulatedCluster::ignore_nominations, 0), [node, None]);
}
