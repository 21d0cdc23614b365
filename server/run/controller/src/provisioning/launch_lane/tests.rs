use std::sync::Arc;

use super::*;
use cluster::Object;
use cluster::testing::{bound_to, initialized_cluster, observe, pod, pool, text};
use model::{CapacityType, Labels, MicroUsd, Pod, PodShape, Resources};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000)
}

fn of_workload(workload: &str, pod: PodRecord) -> PodRecord {
    PodRecord { workload: text(workload), ..pod }
}

/// A plan input with these pods, and a machine for all of them.
fn planned(pods: &[PodRecord]) -> (PlannedNode, PlanningInput) {
    let input = PlanningInput {
        shapes: pods.iter().map(|pod| (*pod.shape).clone()).collect(),
        pods: pods.iter().enumerate().map(|(index, pod)| planned_pod(pod, index)).collect(),
        ..PlanningInput::default()
    };
    let node = PlannedNode {
        name: text("p-1"),
        pool: 0,
        capacity_type: CapacityType::Spot,
        zones: Arc::from([]),
        types: Arc::from([]),
        price: MicroUsd(0),
        credits: MicroUsd(0),
        reservation: None,
        pods: (0..u32::try_from(pods.len()).unwrap()).collect(),
        labels: Arc::new(Labels::new()),
        taints: Arc::from([]),
        requests: Resources::new(),
    };
    (node, input)
}

fn planned_pod(pod: &PodRecord, index: usize) -> Pod {
    Pod {
        namespace: pod.key.namespace.clone(),
        name: pod.key.name.clone(),
        shape: u32::try_from(index).unwrap(),
        workload: pod.workload.clone(),
        ..Pod::default()
    }
}

fn lane(state: &ClusterState, interrupted: &InterruptedOwners, pods: &[PodRecord]) -> PriorityLane {
    let claims = NodeClaims::default();
    let (node, input) = planned(pods);
    LaneFacts { state, claims: &claims, interrupted }.lane_of(&node, &input)
}

fn cluster_with(pods: &[PodRecord]) -> ClusterState {
    let mut state = initialized_cluster(pool(), &["m0", "m1"]);
    observe(&mut state, 0, pods.iter().cloned().map(Object::Pod));
    state
}

fn with_priority(priority: i32, pod: PodRecord) -> PodRecord {
    let shape = Arc::new(PodShape { priority, ..(*pod.shape).clone() });
    PodRecord { shape, ..pod }
}

#[test]
fn a_positive_priority_is_high_and_the_most_urgent_pod_counts() {
    let pods = [-10, 0, 1].map(|priority| with_priority(priority, pod(&format!("p{priority}"), 100)));
    let state = cluster_with(&pods);
    let nobody = InterruptedOwners::default();
    assert_eq!(lane(&state, &nobody, &pods[..1]), PriorityLane::Pending);
    assert_eq!(lane(&state, &nobody, &pods[..2]), PriorityLane::Pending);
    assert_eq!(lane(&state, &nobody, &pods), PriorityLane::HighPriorityPending);
}

#[test]
fn a_machine_without_pods_is_voluntary() {
    assert_eq!(lane(&cluster_with(&[]), &InterruptedOwners::default(), &[]), PriorityLane::Voluntary);
}

#[test]
fn pods_of_a_machine_that_is_replaced_are_moved_voluntarily() {
    let pods = [bound_to("m0", with_priority(1, pod("a", 100))), pod("b", 100)];
    let mut state = cluster_with(&pods);
    let nobody = InterruptedOwners::default();
    assert_eq!(lane(&state, &nobody, &pods[..1]), PriorityLane::HighPriorityPending);
    state.begin_consolidation(&text("m0"), at(1));
    assert_eq!(lane(&state, &nobody, &pods[..1]), PriorityLane::Voluntary);
    assert_eq!(lane(&state, &nobody, &pods), PriorityLane::Pending, "a pending pod waits for it as well");
}

#[test]
fn successors_of_evicted_pods_are_as_urgent_for_five_minutes() {
    let created =
        |name: &str, seconds| PodRecord { created: Some(at(seconds)), ..of_workload("ReplicaSet/web", pod(name, 100)) };
    // The clocks may differ by 10 s; five minutes after the interruption at 1,000 s are 1,300 s.
    let pods = [created("a", 989), created("b", 990), created("c", 1_300), created("d", 1_301)];
    let other = [PodRecord { created: Some(at(1_001)), ..of_workload("ReplicaSet/other", pod("e", 100)) }];
    let without_owner = [PodRecord { created: Some(at(1_001)), ..pod("f", 100) }];
    let state = cluster_with(&[&pods[..], &other, &without_owner].concat());
    let mut interrupted = InterruptedOwners::default();
    let owner = |workload: &str| (text("default"), text(workload));
    interrupted.record([owner("ReplicaSet/web"), owner("")], at(1_000));
    let lanes: Vec<PriorityLane> =
        pods.iter().map(|pod| lane(&state, &interrupted, std::slice::from_ref(pod))).collect();
    use PriorityLane::{Interruption, Pending};
    assert_eq!(lanes, [Pending, Interruption, Interruption, Pending]);
    assert_eq!(lane(&state, &interrupted, &other), Pending);
    assert_eq!(lane(&state, &interrupted, &without_owner), Pending);
    // A later interruption of another owner ends the first one's time.
    interrupted.record([owner("ReplicaSet/other")], at(1_301));
    assert_eq!(lane(&state, &interrupted, &pods[1..2]), Pending);
}
