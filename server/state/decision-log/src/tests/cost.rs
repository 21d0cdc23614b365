//! Size of the log of a busy cluster: 100 nodes with 2,000 pods, and ten new pods a minute.

use model::input::PlanningInput;
use model::{BoundPod, Labels, Node, NodeName, NodeStage, PoolName, Resources, Text, Timestamp};

use super::fixture::{LoggedCluster, pods};
use store::{Archive, compression};

const NODES: usize = 100;
const PODS_A_NODE: usize = 20;
const BURST: usize = 10;

/// A ReplicaSet pod name: five incompressible characters.
fn name(number: usize) -> Text {
    let mixed = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Text::from(format!("web-7d9f8b6c5d-{:05x}", mixed >> 44))
}

fn bound(number: usize) -> BoundPod {
    BoundPod {
        namespace: Text::from("shop"),
        name: name(number),
        shape: 0,
        labels: 0,
        volumes: None,
        daemon: None,
        terminating: false,
        leaving: false,
    }
}

fn node(number: usize, pods: Vec<BoundPod>) -> Node {
    let labels = ["topology.kubernetes.io/zone", "node.kubernetes.io/instance-type", "kubernetes.io/hostname"];
    let value = |key: &&str| (Text::from(*key), Text::from(format!("{}-{number}", key.len())));
    Node {
        name: NodeName::from(format!("ip-10-0-{number}-7.ec2.internal")),
        pool: Some(PoolName::from("general")),
        labels: labels.iter().map(value).collect::<Labels>(),
        taints: Vec::new(),
        unschedulable: false,
        allocatable: Resources::from_iter([("cpu", 60_000), ("memory", 1 << 36), ("pods", 110)]),
        capacity: Resources::from_iter([("cpu", 64_000), ("memory", 1 << 36), ("pods", 110)]),
        stage: NodeStage::Initialized,
        pods,
        attach_limits: Vec::new(),
        created: Some(Timestamp::from_millis(1)),
    }
}

/// The cluster in its `minute`: new pods are pending, earlier ones are bound, as many have left.
fn arrange(input: &mut PlanningInput, minute: usize) {
    let gone = minute * BURST;
    for (place, pod) in input.pods.iter_mut().enumerate() {
        pod.name = name(NODES * PODS_A_NODE + gone + place);
    }
    let on = |at: usize| {
        let numbers = gone..NODES * PODS_A_NODE + gone;
        let mut pods: Vec<BoundPod> = numbers.filter(|number| number % NODES == at).map(bound).collect();
        pods.sort_by(|a, b| a.name.cmp(&b.name));
        node(at, pods)
    };
    input.nodes = (0..NODES).map(on).collect();
}

#[tokio::test]
async fn a_thousand_busy_clusters_write_less_than_two_gigabytes_of_it_a_day() {
    let cluster = LoggedCluster::new().await;
    for minute in 0..20 {
        cluster
            .decide(minute + 1, &pods(BURST), |input| arrange(input, usize::try_from(minute).unwrap()))
            .await
            .unwrap();
    }
    let segment = cluster.segment(1).await;
    let sizes: Vec<usize> = segment.chunks.iter().map(|chunk| chunk.bytes.len()).collect();
    let row = async |number: u64| {
        let replay = cluster.store.decision(number).await.unwrap().remove(0).decision.replay.unwrap();
        let event = &segment.chunks[usize::try_from(number).unwrap() - 1].bytes;
        [&replay.plan, event, &replay.stance, &replay.input_digest, &replay.plan_digest].map(Vec::as_slice).concat()
    };
    // The store compresses a decision with its event against an earlier one; PostgreSQL adds the
    // overhead of the row and two indexes.
    let packed = compression::compress(&row(2).await, &row(20).await).len();
    // A segment holds one snapshot per four times its size in events.
    let event = sizes[1..].iter().sum::<usize>() / (sizes.len() - 1);
    let decision = packed + event / 4 + 320;
    let day = decision * 1000 * 24 * 60;
    let found = format!("first event {}, then {event} each, {packed} with the plan when packed; {day} a day", sizes[0]);
    assert!(day < 2_000_000_000, "{found}");
    println!("{found}");
}
