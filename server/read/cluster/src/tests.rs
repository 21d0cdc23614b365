use std::sync::Arc;

use super::testing::{bound_to, claim, cpu, initialized_cluster, key, node, observe, pod, pool, text};
use super::*;
use model::disruption_policy::DisruptionReason;
use model::input::{PlanningInput, Policy};
use model::labels::{INITIALIZED, REGISTERED, ZONE};
use model::plan::Plan;
use model::schedulers::PlannedSchedulers;
use model::{
    Effect, LabelSelector, NodeName, NodeStage, Offering, PodShape, ProviderId, SpreadConstraint, Taint, Text,
    Timestamp, Zone,
};

fn names(state: &ClusterState) -> (Vec<Text>, Vec<NodeName>) {
    let input = state.planning_input(&Policy::default(), Timestamp::from_millis(0));
    (input.pods.into_iter().map(|pod| pod.name).collect(), input.nodes.into_iter().map(|node| node.name).collect())
}

#[test]
fn pods_of_one_shape_are_interned_once_even_in_separate_allocations() {
    let mut state = initialized_cluster(pool(), &[]);
    observe(&mut state, 0, [Object::Pod(pod("a", 100)), Object::Pod(pod("b", 100)), Object::Pod(pod("c", 200))]);
    let input = state.planning_input(&Policy::default(), Timestamp::from_millis(0));
    assert_eq!(input.shapes.iter().map(|shape| &shape.requests).collect::<Vec<_>>(), [&cpu(100), &cpu(200)]);
    assert_eq!(input.pods.iter().map(|pod| pod.shape).collect::<Vec<_>>(), [0, 0, 1]);
}

#[test]
fn an_assigned_pod_is_not_planned_again_and_uses_capacity_of_its_machine() {
    let mut state = initialized_cluster(pool(), &[]);
    observe(&mut state, 0, [Object::Pod(pod("a", 100)), Object::Pod(pod("b", 100))]);
    let coming = ClaimRecord { provider_id: ProviderId::default(), ..claim("m0") };
    state.assume_claim(coming);
    state.assign_pod(key("a"), Target::Claim(text("m0")), None);
    assert_eq!(names(&state), (vec![text("b")], vec![text("m0")]));
    let input = state.planning_input(&Policy::default(), Timestamp::from_millis(0));
    assert_eq!(input.nodes[0].stage, NodeStage::InFlight);
    assert_eq!(input.nodes[0].pods.iter().map(|pod| &pod.name).collect::<Vec<_>>(), [&text("a")]);
}

#[test]
fn an_assignment_follows_its_machine_from_claim_to_node_and_ends_with_the_binding() {
    let mut state = initialized_cluster(pool(), &["m0"]);
    observe(&mut state, 0, [Object::Pod(pod("a", 100))]);
    state.assign_pod(key("a"), Target::Claim(text("m0")), None);
    let assigned = state.planning_input(&Policy::default(), Timestamp::from_millis(0));
    assert_eq!((assigned.pods.len(), assigned.nodes[0].pods.len()), (0, 1));
    observe(&mut state, 1, [Object::Pod(bound_to("m0", pod("a", 100)))]);
    assert_eq!(state.assignments().iter().count(), 0);
    assert_eq!(state.planning_input(&Policy::default(), Timestamp::from_millis(1)).nodes[0].pods.len(), 1);
}

#[test]
fn a_pod_with_an_expired_assignment_is_planned_again() {
    let mut state = initialized_cluster(pool(), &["m0"]);
    observe(&mut state, 0, [Object::Pod(pod("a", 100))]);
    state.assign_pod(key("a"), Target::Node(text("n-m0")), Some(Timestamp::from_millis(20)));
    assert!(!state.expire_assignments(Timestamp::from_millis(19)));
    assert!(state.expire_assignments(Timestamp::from_millis(20)));
    assert_eq!(names(&state).0, [text("a")]);
}

/// Machines `m0` and `m1` of two vCPUs; `a` is assigned to the first and `b` to the second, and
/// each of them fills its machine.
fn two_assigned_pods(b_millis: i64) -> ClusterState {
    let mut state = initialized_cluster(pool(), &["m0", "m1"]);
    observe(&mut state, 0, [Object::Pod(pod("a", 2_000)), Object::Pod(pod("b", b_millis))]);
    state.assign_pod(key("a"), Target::Claim(text("m0")), Some(Timestamp::from_millis(20)));
    state.assign_pod(key("b"), Target::Claim(text("m1")), Some(Timestamp::from_millis(30)));
    state
}

#[test]
fn a_pod_displaced_by_one_of_its_shape_takes_the_place_of_the_other() {
    let mut state = two_assigned_pods(2_000);
    observe(&mut state, 1, [Object::Pod(bound_to("m0", pod("b", 2_000)))]);
    let taken = Assignment { target: Target::Claim(text("m1")), until: Some(Timestamp::from_millis(30)) };
    assert_eq!(state.assignments().iter().collect::<Vec<_>>(), [(&key("a"), &taken)]);
    // When the machine of the other one is lost, the pod is planned again at once.
    state.mark_for_deletion(&text("m1"));
    assert_eq!(names(&state).0, [text("a")]);
}

#[test]
fn a_pod_planned_for_a_machine_whose_node_was_initialized_meanwhile_is_planned_again_if_it_is_not_bound() {
    let mut state = initialized_cluster(pool(), &["m0"]);
    observe(&mut state, 0, [Object::Pod(pod("a", 100))]);
    state.assign_pod_to_claim(key("a"), text("m0"), Timestamp::from_millis(10));
    // kube-scheduler has 20 s.
    assert!(!state.expire_assignments(Timestamp::from_millis(20_009)));
    assert!(state.expire_assignments(Timestamp::from_millis(20_010)));
    assert_eq!(names(&state).0, [text("a")]);
}

#[test]
fn a_pod_planned_for_a_machine_that_boots_stays_assigned() {
    let mut state = initialized_cluster(pool(), &["m0"]);
    let booting = claim("m1");
    observe(&mut state, 0, [Object::Claim(booting), Object::Pod(pod("a", 100))]);
    state.assign_pod_to_claim(key("a"), text("m1"), Timestamp::from_millis(10));
    assert!(!state.expire_assignments(Timestamp::from_millis(3_600_000)));
}

#[test]
fn a_displaced_pod_does_not_take_the_place_of_one_with_other_volumes() {
    let mut state = two_assigned_pods(2_000);
    let volumes = Some(Arc::default());
    observe(&mut state, 1, [Object::Pod(bound_to("m0", PodRecord { volumes, ..pod("b", 2_000) }))]);
    assert_eq!(state.assignments().get(&key("a")).map(|kept| &kept.target), Some(&Target::Claim(text("m0"))));
}

#[test]
fn a_pod_displaced_by_one_that_was_not_assigned_is_planned_again_at_once() {
    let mut state = two_assigned_pods(2_000);
    observe(&mut state, 1, [Object::Pod(bound_to("m0", pod("new", 1_000)))]);
    assert!(state.expire_assignments(Timestamp::from_millis(1)));
    assert_eq!(names(&state).0, [text("a")]);
}

/// `b` on `m1` leaves with its machine, and its place on `m2` is kept for its successor.
fn evicted_to_another_machine(b_millis: i64) -> ClusterState {
    let mut state = initialized_cluster(pool(), &["m0", "m1", "m2"]);
    observe(&mut state, 0, [Object::Pod(pod("a", 2_000)), Object::Pod(bound_to("m1", pod("b", b_millis)))]);
    state.assign_pod(key("a"), Target::Claim(text("m0")), Some(Timestamp::from_millis(20)));
    state.assign_pod(key("b"), Target::Claim(text("m2")), Some(Timestamp::from_millis(30)));
    state.mark_for_deletion(&text("m1"));
    state.apply(Observation::Delete(Key::Pod(key("b"))), Timestamp::from_millis(10));
    state
}

#[test]
fn a_pod_displaced_by_the_successor_of_an_evicted_one_takes_the_place_that_was_kept_for_it() {
    let mut state = evicted_to_another_machine(2_000);
    observe(&mut state, 11, [Object::Pod(bound_to("m0", pod("successor", 2_000)))]);
    // Kept for as long as kube-scheduler may take, from the binding at 11 ms.
    let taken = Assignment { target: Target::Claim(text("m2")), until: Some(Timestamp::from_millis(20_011)) };
    assert_eq!(state.assignments().iter().collect::<Vec<_>>(), [(&key("a"), &taken)]);
    // The place was kept for one successor: the next pod that is bound to m2 displaces it without another place.
    observe(&mut state, 12, [Object::Pod(bound_to("m2", pod("other", 2_000)))]);
    assert!(state.expire_assignments(Timestamp::from_millis(12)));
    assert_eq!(names(&state).0, [text("a")]);
}

#[test]
fn a_pod_displaced_by_the_successor_of_an_evicted_one_does_not_take_a_place_without_room() {
    let mut state = evicted_to_another_machine(2_000);
    observe(&mut state, 11, [Object::Pod(bound_to("m2", pod("other", 100)))]);
    observe(&mut state, 11, [Object::Pod(bound_to("m0", pod("successor", 2_000)))]);
    assert!(state.expire_assignments(Timestamp::from_millis(11)));
    assert_eq!(names(&state).0, [text("a")]);
}

#[test]
fn a_pod_displaced_by_one_that_succeeds_no_evicted_one_does_not_take_a_kept_place() {
    let mut state = evicted_to_another_machine(1_000);
    observe(&mut state, 11, [Object::Pod(bound_to("m0", pod("new", 2_000)))]);
    assert!(state.expire_assignments(Timestamp::from_millis(11)));
    assert_eq!(names(&state).0, [text("a")]);
}

#[test]
fn a_pod_displaced_by_one_of_another_shape_is_planned_again_at_once_also_onto_the_place_of_the_other() {
    let mut state = two_assigned_pods(1_000);
    observe(&mut state, 1, [Object::Pod(bound_to("m0", pod("b", 1_000)))]);
    assert!(state.expire_assignments(Timestamp::from_millis(1)));
    assert_eq!(names(&state).0, [text("a")]);
    // m1, where the other one was to be, is empty.
    let input = state.planning_input(&Policy::default(), Timestamp::from_millis(1));
    let on_nodes: Vec<(&Text, usize)> = input.nodes.iter().map(|node| (node.name.as_text(), node.pods.len())).collect();
    assert_eq!(on_nodes, [(&text("n-m0"), 1), (&text("n-m1"), 0)]);
}

#[test]
fn a_pod_bound_beside_an_assigned_one_displaces_nothing() {
    let mut state = initialized_cluster(pool(), &["m0"]);
    observe(&mut state, 0, [Object::Pod(pod("a", 1_000))]);
    state.assign_pod(key("a"), Target::Node(text("n-m0")), Some(Timestamp::from_millis(20)));
    observe(&mut state, 1, [Object::Pod(bound_to("m0", pod("new", 1_000)))]);
    assert!(!state.expire_assignments(Timestamp::from_millis(19)));
}

#[test]
fn a_device_that_an_initializing_node_does_not_report_yet_displaces_no_pod() {
    let mut state = initialized_cluster(pool(), &["m0"]);
    let mut claimed = claim("m0");
    claimed.allocatable.set("nvidia.com/gpu", 4);
    let mut young = node("m0");
    young.labels.remove(INITIALIZED);
    let mut shape = PodShape { requests: cpu(1_000), ..PodShape::default() };
    shape.requests.set("nvidia.com/gpu", 4);
    let train = PodRecord { shape: Arc::new(shape), ..pod("train", 0) };
    observe(&mut state, 0, [Object::Claim(claimed), Object::Node(young), Object::Pod(train)]);
    state.assign_pod(key("train"), Target::Claim(text("m0")), None);
    observe(&mut state, 1, [Object::Pod(bound_to("m0", pod("new", 1_000)))]);
    assert!(!state.expire_assignments(Timestamp::from_millis(1)));
}

#[test]
fn the_newest_pod_of_a_daemon_set_is_the_sample_of_its_requests() {
    let mut state = initialized_cluster(pool(), &["m0"]);
    let shape = Arc::new(PodShape { requests: cpu(100), priority: 7, ..PodShape::default() });
    let agent = DaemonRecord { namespace: text("kube-system"), name: text("agent"), shape, labels: Arc::default() };
    observe(&mut state, 0, [Object::Daemon(agent)]);
    let planned = |state: &ClusterState| {
        let input = state.planning_input(&Policy::default(), Timestamp::from_millis(0));
        input.shapes[input.daemons[0].shape as usize].clone()
    };
    assert_eq!(planned(&state).requests, cpu(100), "without a pod, the template");
    let live = |name: &str, millis: i64, created: i64| PodRecord {
        daemon: Some(text("kube-system/agent")),
        created: Some(Timestamp::from_millis(created)),
        ..bound_to("m0", pod(name, millis))
    };
    observe(&mut state, 0, [live("agent-b", 300, 1), live("agent-a", 500, 2)].map(Object::Pod));
    let sample = planned(&state);
    assert_eq!((sample.requests, sample.priority), (cpu(500), 7));
    // One that ends is none.
    observe(&mut state, 0, [Object::Pod(PodRecord { terminating: true, ..live("agent-a", 500, 2) })]);
    assert_eq!(planned(&state).requests, cpu(300));
}

#[test]
fn pods_of_a_terminating_machine_are_planned_before_their_eviction() {
    let mut state = initialized_cluster(pool(), &["m0"]);
    let daemon = PodRecord { daemon: Some(text("kube-system/agent")), ..bound_to("m0", pod("agent", 10)) };
    observe(&mut state, 0, [Object::Pod(bound_to("m0", pod("a", 100))), Object::Pod(daemon)]);
    state.mark_for_deletion(&text("m0"));
    let input = state.planning_input(&Policy::default(), Timestamp::from_millis(0));
    assert_eq!(
        input.pods.iter().map(|pod| (&pod.name, pod.moved_from.clone())).collect::<Vec<_>>(),
        [(&text("a"), Some(text("n-m0")))]
    );
    assert_eq!(input.nodes[0].stage, NodeStage::Deleting);
    assert_eq!(input.nodes[0].pods.iter().map(|pod| pod.leaving).collect::<Vec<_>>(), [true, false]);
}

/// The input while the drifted `m0` is replaced, if the pool launches in these zones. `m0`, `m1` and `m2` are in the zones a, b
/// and c, and each has room for the pods of the others besides its own, all of which are spread over zones.
fn spread_over_zones(launched_in: &[&str]) -> PlanningInput {
    let mut launching = pool();
    let mut catalogue = launching.pool.catalogue.as_ref().clone();
    for kind in &mut catalogue.types {
        let first = kind.offerings[0].clone();
        kind.offerings = launched_in.iter().map(|zone| Offering { zone: text(zone), ..first.clone() }).collect();
    }
    launching.pool.catalogue = Arc::new(catalogue);
    let mut state = initialized_cluster(launching, &[]);
    let spread = SpreadConstraint {
        topology_key: text(ZONE),
        max_skew: 1,
        min_domains: None,
        hard: true,
        selector: Some(LabelSelector::default()),
        honor_node_affinity: true,
        honor_node_taints: false,
    };
    let shape = Arc::new(PodShape { requests: cpu(500), spread: vec![spread], ..PodShape::default() });
    for (machine, zone) in [("m0", "a"), ("m1", "b"), ("m2", "c")] {
        let (mut claim, mut node) = (claim(machine), node(machine));
        claim.labels.insert(text(ZONE), text(zone));
        node.labels.insert(text(ZONE), text(zone));
        let web = PodRecord { shape: Arc::clone(&shape), ..pod(&format!("web-{zone}"), 500) };
        observe(&mut state, 0, [Object::Claim(claim), Object::Node(node), Object::Pod(bound_to(machine, web))]);
    }
    let now = Timestamp::from_millis(1);
    state.begin_replacement(&text("m0"), DisruptionReason::Drifted, true, now);
    state.provisioning_input_for(state.demand(now), &Policy::default(), now)
}

#[test]
fn a_pod_whose_node_is_replaced_stays_in_the_zone_that_would_have_none() {
    let plan = |launched_in: &[&str]| -> Plan {
        let input = spread_over_zones(launched_in);
        assert_eq!(input.pods.iter().map(|pod| &pod.name).collect::<Vec<_>>(), [&text::<Text>("web-a")]);
        planner::plan(&input).expect("the input is valid").plan
    };
    let replaced = plan(&["a", "b", "c"]);
    assert_eq!((replaced.nodes.len(), replaced.placements.len(), replaced.unschedulable.len()), (1, 0, 0));
    assert_eq!(replaced.nodes[0].zones.to_vec(), [Zone::from("a")]);
    // Until m0 is gone zone a counts with no pod: a second one in b or c would be two more than that.
    let kept = plan(&["b", "c"]);
    assert_eq!((kept.nodes.len(), kept.placements.len(), kept.unschedulable), (0, 0, vec![0]));
}

#[test]
fn startup_taints_block_no_pod_until_the_node_is_initialized() {
    let mut state = initialized_cluster(pool(), &["m0"]);
    let startup = Taint { key: text("cni"), value: text(""), effect: Effect::NoSchedule };
    let not_ready = Taint { key: text("node.kubernetes.io/not-ready"), value: text(""), effect: Effect::NoSchedule };
    let own = Taint { key: text("gpu"), value: text(""), effect: Effect::NoSchedule };
    let claimed = ClaimRecord { startup_taints: vec![startup.clone()], ..claim("m0") };
    let mut young = NodeRecord { taints: vec![startup.clone(), not_ready.clone(), own.clone()], ..node("m0") };
    young.labels.remove(INITIALIZED);
    observe(&mut state, 0, [Object::Claim(claimed), Object::Node(young.clone())]);
    let taints = |state: &ClusterState| {
        state.planning_input(&Policy::default(), Timestamp::from_millis(0)).nodes[0].taints.clone()
    };
    assert_eq!(taints(&state), std::slice::from_ref(&own));
    young.labels.insert(text(INITIALIZED), text("true"));
    observe(&mut state, 0, [Object::Node(young)]);
    assert_eq!(taints(&state), [startup, not_ready, own]);
}

#[test]
fn an_initializing_node_has_the_resources_of_its_claim_that_it_does_not_report_yet() {
    let mut state = initialized_cluster(pool(), &["m0"]);
    let mut claimed = claim("m0");
    claimed.allocatable.set("nvidia.com/gpu", 4);
    let mut young = node("m0");
    young.labels.remove(INITIALIZED);
    young.labels.remove(REGISTERED);
    observe(&mut state, 0, [Object::Claim(claimed), Object::Node(young)]);
    let input = state.planning_input(&Policy::default(), Timestamp::from_millis(0));
    assert_eq!(input.nodes[0].allocatable.get("nvidia.com/gpu"), 4);
    assert_eq!(input.nodes[0].stage, NodeStage::Registered);
}

#[test]
fn the_time_of_the_last_snapshot_is_kept_when_the_agent_has_gone() {
    let mut state = ClusterState::default();
    assert_eq!((state.synced_since(), state.last_synced()), (None, None));
    let at = |seconds: i64| Timestamp::from_millis(seconds * 1_000);
    state.apply(Observation::Snapshot(Box::default()), at(7));
    assert_eq!((state.synced_since(), state.last_synced()), (Some(at(7)), Some(at(7))));
    state.mark_unsynced();
    assert_eq!((state.synced_since(), state.last_synced()), (None, Some(at(7))));
    state.apply(Observation::Snapshot(Box::default()), at(9));
    assert_eq!(state.last_synced(), Some(at(9)));
}

#[test]
fn a_snapshot_removes_objects_that_it_lacks() {
    let mut state = initialized_cluster(pool(), &["m0", "m1"]);
    observe(&mut state, 0, [Object::Pod(bound_to("m0", pod("a", 100)))]);
    let pods = vec![bound_to("m1", pod("b", 100))];
    let snapshot =
        ClusterSnapshot { pods, nodes: vec![node("m1")], claims: vec![claim("m1")], ..ClusterSnapshot::default() };
    state.apply(Observation::Snapshot(Box::new(snapshot)), Timestamp::from_millis(1));
    assert!(state.is_synced() && state.pools().next().is_none());
    assert!(state.nodes().map(|node| &node.name).eq(["n-m1"]));
    assert_eq!(state.pods_on(&text("n-m1")).count(), 1);
    assert_eq!(state.pods_on(&text("n-m0")).count(), 0);
}

#[test]
fn pods_that_are_not_provisionable_are_not_planned() {
    let mut state = initialized_cluster(pool(), &["m0"]);
    let gated = PodRecord { scheduling: Scheduling::Gated, ..pod("gated", 1) };
    let preempting = PodRecord { nominated: Some(text("n-m0")), ..pod("preempting", 1) };
    let daemon = PodRecord { daemon: Some(text("d/d")), ..pod("daemon", 1) };
    let ending = PodRecord { terminating: true, ..pod("ending", 1) };
    observe(&mut state, 0, [gated, preempting, daemon, ending, pod("plain", 1)].map(Object::Pod));
    assert_eq!(names(&state).0, [text("plain")]);
}

#[test]
fn the_demand_is_indexed_and_equals_a_scan_of_all_pods() {
    let mut state = initialized_cluster(pool(), &["m0", "m1"]);
    let gated = PodRecord { scheduling: Scheduling::Gated, ..pod("gated", 100) };
    let ended = PodRecord { phase: PodPhase::Failed, ..pod("ended", 100) };
    let nominated = PodRecord { nominated: Some(text("n-m1")), ..pod("nominated", 100) };
    let waiting = [pod("waits", 100), pod("b", 100), gated, ended, nominated].map(Object::Pod);
    observe(
        &mut state,
        0,
        waiting
            .into_iter()
            .chain([bound_to("m0", pod("leaves", 100)), bound_to("m1", pod("stays", 100))].map(Object::Pod)),
    );
    state.mark_for_deletion(&text("m0"));
    let names = |state: &ClusterState| -> Vec<Text> {
        state.demand(Timestamp::from_millis(0)).into_iter().map(|pod| pod.key.name.clone()).collect()
    };
    let walked = |state: &ClusterState| -> Vec<Text> {
        let pods = state.pods().filter(|pod| state.is_demand(pod, Timestamp::from_millis(0)));
        pods.map(|pod| pod.key.name.clone()).collect()
    };
    assert_eq!(names(&state), [text("b"), text("leaves"), text("waits")]);
    assert_eq!(names(&state), walked(&state));
    assert_eq!((state.live_pods(), state.pod_count(), state.nominated_pods().count()), (6, 7, 1));
    // One is bound, one is deleted, one ends, and one loses its scheduling gate.
    observe(&mut state, 1, [bound_to("m1", pod("waits", 100)), pod("gated", 100)].map(Object::Pod));
    observe(
        &mut state,
        1,
        [Object::Pod(PodRecord { phase: PodPhase::Succeeded, ..bound_to("m1", pod("stays", 100)) })],
    );
    state.apply(Observation::Delete(Key::Pod(key("b"))), Timestamp::from_millis(1));
    state.apply(Observation::Delete(Key::Pod(key("nominated"))), Timestamp::from_millis(1));
    assert_eq!(names(&state), [text("gated"), text("leaves")]);
    assert_eq!(names(&state), walked(&state));
    assert_eq!((state.live_pods(), state.pod_count(), state.nominated_pods().count()), (3, 5, 0));
}

#[test]
fn pods_of_a_first_snapshot_equal_those_observed_one_after_another() {
    let daemon = PodRecord { daemon: Some(text("kube-system/agent")), ..bound_to("m1", pod("agent", 1)) };
    let pods = vec![
        bound_to("m0", pod("b", 1)),
        PodRecord { phase: PodPhase::Succeeded, ..bound_to("m0", pod("ended", 1)) },
        pod("waits", 1),
        PodRecord { nominated: Some(text("n-m0")), ..pod("nominated", 1) },
        PodRecord { external_scale_up: Some(Timestamp::from_millis(50)), ..pod("scaled", 1) },
        daemon,
        bound_to("m2", pod("a", 1)),
        // The agent sends a pod twice that changed while it was listed: the last one counts.
        bound_to("m1", pod("b", 1)),
    ];
    let show = |mut state: ClusterState| {
        let nodes = ["m0", "m1", "m2"].map(node).into();
        let snapshot = ClusterSnapshot { pods: pods.clone(), nodes, ..ClusterSnapshot::default() };
        state.apply(Observation::Snapshot(Box::new(snapshot)), Timestamp::from_millis(100));
        state.assignments_mut().remove(&key("other"));
        state
    };
    let at_once = show(ClusterState::default());
    // An assignment that ends with the snapshot makes it insert pod by pod.
    let mut assigned = ClusterState::default();
    assigned.assign_pod(key("other"), Target::Claim(text("m0")), None);
    let one_by_one = show(assigned);
    let facts = |state: &ClusterState| {
        let keys = |pods: Vec<&PodRecord>| pods.into_iter().map(|pod| pod.key.name.to_string()).collect::<Vec<_>>();
        let on = |name: &str| {
            let name: NodeName = text(name);
            (keys(state.pods_on(&name).collect()), state.last_pod_event(&name).map(Timestamp::as_millis))
        };
        (
            ["n-m0", "n-m1", "n-m2"].map(on),
            keys(state.demand(Timestamp::from_millis(100))),
            keys(state.nominated_pods().collect()),
            (state.live_pods(), state.pod_count()),
        )
    };
    assert_eq!(facts(&at_once), facts(&one_by_one));
    let pods = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    let (on, demand, nominated, counts) = facts(&at_once);
    assert_eq!(on.map(|(pods, _)| pods), [pods(&[]), pods(&["agent", "b"]), pods(&["a"])]);
    // Cluster Autoscaler has scaled up for `scaled`, which is therefore held.
    assert_eq!((demand, nominated, counts), (pods(&["waits"]), pods(&["nominated"]), (6, 7)));
}

/// The first observation by a process is no pod event: `consolidateAfter` continues over a restart.
#[test]
fn pod_events_of_a_first_snapshot_are_dated_by_the_claims() {
    let claimed = |name: &str, event: Option<i64>, since: Option<i64>| {
        let (last_pod_event, initialized_at) = (event.map(Timestamp::from_millis), since.map(Timestamp::from_millis));
        ClaimRecord { last_pod_event, initialized_at, ..claim(name) }
    };
    let picture = || ClusterSnapshot {
        claims: vec![
            claimed("m0", Some(400_000), Some(100_000)),
            claimed("m1", None, Some(300_000)),
            claimed("m2", None, None),
            claimed("m3", Some(9_000_000), None),
            claimed("m4", Some(400_000), None),
        ],
        nodes: ["m0", "m1", "m2", "m3", "m4"].map(node).into(),
        pods: vec![
            PodRecord { started: Some(Timestamp::from_millis(200_000)), ..bound_to("m0", pod("a", 1)) },
            PodRecord { started: Some(Timestamp::from_millis(700_000)), ..bound_to("m4", pod("b", 1)) },
        ],
        pools: vec![pool()],
        ..ClusterSnapshot::default()
    };
    let mut state = ClusterState::default();
    let mut show = |picture, at| {
        state.apply(Observation::Snapshot(Box::new(picture)), Timestamp::from_millis(at));
        ["m0", "m1", "m2", "m3", "m4"]
            .map(|name| state.last_pod_event(&NodeName::from(format!("n-{name}"))).map_or(-1, |t| t.as_millis()))
    };
    // Without either fact, or with a time in the future, the first observation counts; b started on
    // m4 after the claim's time.
    assert_eq!(show(picture(), 1_000_000), [400_000, 300_000, 1_000_000, 1_000_000, 700_000]);
    // A change observed by this process is an event, regardless of the claim: a is deleted.
    let changed = ClusterSnapshot { pods: picture().pods.split_off(1), ..picture() };
    assert_eq!(show(changed, 1_100_000), [1_100_000, 300_000, 1_000_000, 1_000_000, 700_000]);
}

/// A pod that `scheduler` places.
fn placed_by(scheduler: &str, pod: PodRecord) -> PodRecord {
    PodRecord { other_scheduler: Some(text(scheduler)), ..pod }
}

#[test]
fn pods_of_other_schedulers_are_planned_only_if_the_scheduler_is_named() {
    let mut state = initialized_cluster(pool(), &["m0", "m1"]);
    let waiting = [placed_by("volcano", pod("a", 100)), placed_by("yunikorn", pod("b", 100)), pod("c", 100)];
    observe(&mut state, 0, waiting.map(Object::Pod));
    // m0 leaves with two pods of volcano and one of kube-scheduler.
    let bound = [placed_by("volcano", pod("d", 100)), pod("e", 100)];
    observe(&mut state, 0, bound.map(|pod| Object::Pod(bound_to("m0", pod))));
    state.mark_for_deletion(&text("m0"));
    let shown = |state: &ClusterState| -> Vec<Text> { state.unplaced_pods().map(|pod| pod.key.name.clone()).collect() };
    assert_eq!((names(&state).0, shown(&state)), (vec![text("c"), text("e")], vec![text("c")]));
    state.set_schedulers(PlannedSchedulers::beside_default("volcano, other"));
    let planned = ["a", "c", "d", "e"].map(text).to_vec();
    assert_eq!((names(&state).0, shown(&state)), (planned, vec![text("a"), text("c")]));
    let left = state.pods_of_other_schedulers_on(&text("n-m0")).count();
    assert_eq!(left, 0, "a place elsewhere is planned for each");
}

/// A PodDisruptionBudget of all pods of the namespace.
fn budget(name: &str, never_allows: bool, evicts_unhealthy_always: bool) -> PodBudgetRecord {
    PodBudgetRecord {
        namespace: text("default"),
        name: text(name),
        selector: Some(LabelSelector::new(Vec::new())),
        allowed: 0,
        evicts_unhealthy_always,
        never_allows,
    }
}

/// Whether the pod of a machine that leaves is planned beside these budgets.
fn is_planned_beside(budgets: &[PodBudgetRecord], ready: bool) -> bool {
    let mut state = initialized_cluster(pool(), &["m0"]);
    observe(&mut state, 0, [Object::Pod(PodRecord { ready, ..bound_to("m0", pod("a", 100)) })]);
    observe(&mut state, 0, budgets.iter().cloned().map(Object::PodBudget));
    state.mark_for_deletion(&text("m0"));
    names(&state).0 == [text("a")]
}

#[test]
fn a_pod_that_is_never_evicted_needs_no_machine_and_one_that_waits_for_its_budget_does() {
    // None allows an eviction now. The last of these never does.
    assert!(is_planned_beside(&[], true));
    assert!(is_planned_beside(&[budget("b", false, false)], true));
    assert!(!is_planned_beside(&[budget("b", true, false)], true));
    // A pod that is not ready may be evicted regardless of the budget, if that says so.
    assert!(is_planned_beside(&[budget("b", true, true)], false));
    assert!(!is_planned_beside(&[budget("b", true, false)], false));
    // A pod with several is never evicted.
    assert!(!is_planned_beside(&[budget("b", false, true), budget("c", false, true)], false));
}

#[test]
fn a_budget_that_comes_to_allow_evictions_or_no_more_has_pods_planned_again() {
    let mut state = initialized_cluster(pool(), &[]);
    let of = |budget: PodBudgetRecord| Observation::upsert(Object::PodBudget(budget));
    assert!(state.may_change_evictions(&of(budget("b", true, false))));
    observe(&mut state, 0, [Object::PodBudget(budget("b", true, false))]);
    assert!(!state.may_change_evictions(&of(budget("b", true, false))), "its status alone has changed");
    assert!(state.may_change_evictions(&of(budget("b", false, false))));
    assert!(state.may_change_evictions(&Observation::Delete(Key::PodBudget(text("default"), text("b")))));
}
