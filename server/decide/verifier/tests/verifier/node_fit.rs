//! Node fit of single pods: schedulable nodes, taints, labels, resources, ports, volumes.

use std::sync::Arc;

use model::labels::{ARCH, HOSTNAME, ZONE};
use model::{HostPort, NodeSelectorTerm, NodeStage, Operator, PodShape, Requirement, Requirements, VolumeAlternatives};
use verifier::Rule;

use crate::fixture::{Fixture, GIB, LARGE, SMALL, affinity_term, amounts, plain, requiring, taint, text, tolerating};

/// A pod of `shape` on a node of the input in zone a.
fn on_node(shape: PodShape) -> Fixture {
    let mut fixture = Fixture::new();
    let node = fixture.node("n", "a");
    let pod = fixture.pod("web", shape);
    fixture.place(pod, node);
    fixture
}

/// A pod of `shape` on a planned node that may launch as small or large in zones a and b.
fn on_machine(shape: PodShape) -> Fixture {
    let mut fixture = Fixture::new();
    let pod = fixture.pod("web", shape);
    fixture.launch(&[SMALL, LARGE], &["a", "b"], &[pod]);
    fixture
}

fn port(number: u16) -> HostPort {
    HostPort { ip: text(""), protocol: text("TCP"), port: number }
}

#[test]
fn deleted_or_cordoned_nodes_accept_no_pods() {
    let mut fixture = on_node(plain());
    fixture.assert_clean();
    fixture.input.nodes[0].stage = NodeStage::Deleting;
    fixture.assert_breaks(Rule::NodeUsable);
    fixture.input.nodes[0].stage = NodeStage::InFlight;
    fixture.assert_clean();
    fixture.input.nodes[0].unschedulable = true;
    fixture.assert_breaks(Rule::NodeUsable);
    fixture.input.shapes[0].tolerations.push(tolerating("node.kubernetes.io/unschedulable"));
    fixture.assert_clean();
}

#[test]
fn taints_are_tolerated_on_nodes_and_machines() {
    let mut fixture = on_node(plain());
    fixture.input.nodes[0].taints.push(taint("gpu"));
    fixture.assert_breaks(Rule::Taints);
    fixture.input.shapes[0].tolerations.push(tolerating("gpu"));
    fixture.assert_clean();
    let mut fixture = on_machine(plain());
    fixture.pool().taints.push(taint("gpu"));
    fixture.plan.nodes[0].taints = vec![taint("gpu")].into();
    fixture.assert_breaks(Rule::Taints);
}

#[test]
fn a_machine_satisfies_an_affinity_in_every_zone_and_with_every_option() {
    on_machine(requiring(Requirement::new(ZONE, Operator::In, [text("a"), text("b")]))).assert_clean();
    on_machine(requiring(Requirement::equals(ZONE, "a"))).assert_breaks(Rule::NodeAffinity);
    on_machine(requiring(Requirement::equals(ARCH, "arm64"))).assert_breaks(Rule::NodeAffinity);
    on_machine(requiring(Requirement::equals(HOSTNAME, "default-0"))).assert_breaks(Rule::NodeAffinity);
    on_machine(requiring(Requirement::new("team", Operator::NotIn, [text("x")]))).assert_clean();
    on_machine(requiring(Requirement::new("team", Operator::Exists, []))).assert_breaks(Rule::NodeAffinity);
    on_machine(PodShape { node_affinity: vec![NodeSelectorTerm::default()], ..plain() })
        .assert_breaks(Rule::NodeAffinity);
}

#[test]
fn two_or_terms_may_cover_the_outcomes_together() {
    let mut shape = requiring(Requirement::equals(ZONE, "a"));
    shape.node_affinity.extend(requiring(Requirement::equals(ZONE, "b")).node_affinity);
    on_machine(shape).assert_clean();
}

#[test]
fn an_unknown_label_may_be_required_only_if_it_is_well_known() {
    let mut fixture = on_machine(requiring(Requirement::equals("rack", "r1")));
    fixture.assert_breaks(Rule::NodeAffinity);
    fixture.input.policy.well_known_labels.push(text("rack"));
    fixture.assert_clean();
    // If the catalogue defines the label for one type, the others are known to lack it.
    Arc::make_mut(&mut fixture.machine(LARGE).labels).add(Requirement::equals("rack", "r1"));
    fixture.assert_breaks(Rule::NodeAffinity);
}

#[test]
fn a_node_without_the_label_satisfies_only_negative_operators() {
    on_node(requiring(Requirement::new("team", Operator::DoesNotExist, []))).assert_clean();
    on_node(requiring(Requirement::equals("team", "x"))).assert_breaks(Rule::NodeAffinity);
    let mut selector = plain();
    selector.node_selector.insert(text(ZONE), text("b"));
    on_node(selector).assert_breaks(Rule::NodeAffinity);
}

#[test]
fn pods_fit_whichever_option_launches() {
    // 2 × 1 CPU fit the 2 CPUs of small, a third pod only the 4 of large.
    let mut fixture = Fixture::new();
    let pods: Vec<u32> = (0..3).map(|_| fixture.pod("web", plain())).collect();
    fixture.launch(&[SMALL, LARGE], &["a"], &pods);
    fixture.assert_breaks(Rule::Resources);
    fixture.plan.nodes.clear();
    fixture.plan.order.clear();
    fixture.launch(&[LARGE], &["a"], &pods);
    fixture.assert_clean();
}

#[test]
fn daemonset_pods_use_resources_on_their_nodes() {
    // 2 CPUs hold one pod of 1 CPU and a daemon of 1 CPU, not one of 1.1.
    for (cpu, fits) in [(1000, true), (1100, false)] {
        let mut fixture = Fixture::new();
        let pod = fixture.pod("web", plain());
        fixture.daemon("logs", PodShape { requests: amounts(cpu, GIB, 1), ..PodShape::default() });
        fixture.launch(&[SMALL], &["a"], &[pod]);
        assert_eq!(fixture.broken(), if fits { vec![] } else { vec![Rule::Resources] });
    }
}

#[test]
fn a_daemon_runs_where_any_of_its_terms_holds() {
    let mut fixture = Fixture::new();
    let pod = fixture.pod("web", plain());
    let mut shape = requiring(Requirement::equals(ZONE, "nowhere"));
    shape.node_affinity.extend(requiring(Requirement::equals("karpenter.sh/initialized", "true")).node_affinity);
    shape.requests = amounts(1001, GIB, 1);
    fixture.daemon("logs", shape);
    fixture.launch(&[SMALL], &["a"], &[pod]);
    fixture.assert_breaks(Rule::Resources);
}

#[test]
fn a_node_fits_its_pods_the_planned_pods_and_missing_daemonset_pods() {
    // 4 CPUs: 2 in use, 1 for a missing DaemonSet pod, 1 for the pod; a second pod does not fit.
    let mut fixture = Fixture::new();
    let node = fixture.node("n", "a");
    fixture.bound_pod(node, "old", PodShape { requests: amounts(2000, GIB, 1), ..PodShape::default() });
    fixture.daemon("logs", plain());
    let first = fixture.pod("web", plain());
    fixture.place(first, node);
    fixture.assert_clean();
    let second = fixture.pod("web", plain());
    fixture.place(second, node);
    fixture.assert_breaks(Rule::Resources);
    fixture.input.nodes[0].pods[0].leaving = true;
    fixture.assert_clean();
}

#[test]
fn a_host_port_is_used_once() {
    let shape = PodShape { host_ports: vec![port(80)], ..plain() };
    let mut fixture = on_node(shape.clone());
    fixture.assert_clean();
    fixture.bound_pod(0, "old", shape.clone());
    fixture.assert_breaks(Rule::HostPorts);
    let mut fixture = Fixture::new();
    let pod = fixture.pod("web", shape);
    fixture.daemon(
        "proxy",
        PodShape { host_ports: vec![port(80)], requests: amounts(100, GIB, 1), ..PodShape::default() },
    );
    fixture.launch(&[SMALL], &["a"], &[pod]);
    fixture.assert_breaks(Rule::HostPorts);
}

fn with_volumes(fixture: &mut Fixture, volumes: VolumeAlternatives) {
    fixture.input.volume_sets.push(volumes);
    let set = Some(fixture.input.volume_sets.len() as u32 - 1);
    fixture.input.pods.iter_mut().for_each(|pod| pod.volumes = set);
}

#[test]
fn volumes_are_reachable_in_every_zone_of_the_launch() {
    let zone = |name: &str| Requirements::from_iter([Requirement::equals(ZONE, name)]);
    for (zones, rules) in [(vec!["a"], vec![Rule::Volumes]), (vec!["a", "b"], vec![])] {
        let mut fixture = on_machine(plain());
        let any_of = zones.iter().map(|name| zone(name)).collect();
        with_volumes(&mut fixture, VolumeAlternatives { any_of, ..VolumeAlternatives::default() });
        assert_eq!(fixture.broken(), rules);
    }
    let mut fixture = on_node(plain());
    with_volumes(&mut fixture, VolumeAlternatives { any_of: vec![zone("b")], ..VolumeAlternatives::default() });
    fixture.assert_breaks(Rule::Volumes);
    let mut fixture = on_node(plain());
    with_volumes(&mut fixture, VolumeAlternatives { blocked: Some(text("no claim")), ..VolumeAlternatives::default() });
    fixture.assert_breaks(Rule::Volumes);
}

#[test]
fn a_claim_for_one_pod_has_one_user_in_the_cluster() {
    let exclusive =
        || VolumeAlternatives { exclusive_claims: vec![text("default/data")], ..VolumeAlternatives::default() };
    let mut fixture = on_machine(plain());
    with_volumes(&mut fixture, exclusive());
    fixture.assert_clean();
    // A pod that runs on a node of the input uses it.
    fixture.node("n", "a");
    fixture.bound_pod(0, "old", plain()).volumes = Some(0);
    fixture.assert_breaks(Rule::Volumes);
    // It leaves with its node.
    fixture.input.nodes[0].pods[0].leaving = true;
    fixture.assert_clean();
    // Two pods of the plan.
    let mut fixture = Fixture::new();
    let pods: Vec<u32> = (0..2).map(|_| fixture.pod("db", plain())).collect();
    for pod in &pods {
        fixture.launch(&[SMALL], &["a"], &[*pod]);
    }
    fixture.assert_clean();
    with_volumes(&mut fixture, exclusive());
    fixture.assert_breaks(Rule::Volumes);
}

#[test]
fn attach_limits_hold_and_a_shared_volume_counts_once() {
    let volumes = |names: &[&str]| VolumeAlternatives {
        attachments: names.iter().map(|name| (text("ebs"), text(name))).collect(),
        ..VolumeAlternatives::default()
    };
    let mut fixture = on_node(plain());
    with_volumes(&mut fixture, volumes(&["x", "y"]));
    fixture.assert_clean();
    fixture.input.nodes[0].attach_limits.push((text("ebs"), 2));
    fixture.bound_pod(0, "old", plain()).volumes = Some(0);
    fixture.assert_clean();
    fixture.input.volume_sets.push(volumes(&["z"]));
    fixture.input.nodes[0].pods[0].volumes = Some(1);
    fixture.assert_breaks(Rule::AttachLimits);
    let mut fixture = on_machine(plain());
    with_volumes(&mut fixture, volumes(&["x", "y"]));
    fixture.assert_clean();
    fixture.machine(LARGE).allocatable.set("attachable-volumes-ebs", 1);
    fixture.assert_breaks(Rule::AttachLimits);
}

#[test]
fn a_pod_with_a_zone_rule_requires_a_decided_zone() {
    on_machine(PodShape { pod_anti_affinity: vec![affinity_term("web", ZONE)], ..plain() })
        .assert_breaks(Rule::OpenDomain);
    on_machine(PodShape { pod_affinity: vec![affinity_term("web", ZONE)], ..plain() }).assert_breaks(Rule::OpenDomain);
    on_machine(PodShape { pod_anti_affinity: vec![affinity_term("web", HOSTNAME)], ..plain() }).assert_clean();
}
