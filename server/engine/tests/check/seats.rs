//! Pods that one node alone refuses: usable nodes, taints, labels, room, ports, volumes.

use engine::check::Rule;
use engine::model::labels::{ARCH, HOSTNAME, ZONE};
use engine::model::{
    HostPort, NodeSelectorTerm, NodeStage, Operator, PodShape, Requirement, Requirements, VolumeAlternatives,
};

use crate::world::{GIB, LARGE, SMALL, World, about, amounts, plain, taint, text, tolerating, wanting};

/// A pod of `shape` on a node of the input in zone a.
fn on_node(shape: PodShape) -> World {
    let mut world = World::new();
    let node = world.node("n", "a");
    let pod = world.pod("web", shape);
    world.place(pod, node);
    world
}

/// A pod of `shape` on a machine that may launch as small or large in zones a and b.
fn on_machine(shape: PodShape) -> World {
    let mut world = World::new();
    let pod = world.pod("web", shape);
    world.launch(&[SMALL, LARGE], &["a", "b"], &[pod]);
    world
}

fn port(number: u16) -> HostPort {
    HostPort { ip: text(""), protocol: text("TCP"), port: number }
}

#[test]
fn nodes_that_are_deleted_or_cordoned_take_nobody() {
    let mut world = on_node(plain());
    world.assert_clean();
    world.input.nodes[0].stage = NodeStage::Deleting;
    world.assert_breaks(Rule::NodeUsable);
    world.input.nodes[0].stage = NodeStage::InFlight;
    world.assert_clean();
    world.input.nodes[0].unschedulable = true;
    world.assert_breaks(Rule::NodeUsable);
    world.input.shapes[0].tolerations.push(tolerating("node.kubernetes.io/unschedulable"));
    world.assert_clean();
}

#[test]
fn taints_are_tolerated_on_nodes_and_machines() {
    let mut world = on_node(plain());
    world.input.nodes[0].taints.push(taint("gpu"));
    world.assert_breaks(Rule::Taints);
    world.input.shapes[0].tolerations.push(tolerating("gpu"));
    world.assert_clean();
    let mut world = on_machine(plain());
    world.pool().taints.push(taint("gpu"));
    world.plan.nodes[0].taints = vec![taint("gpu")].into();
    world.assert_breaks(Rule::Taints);
}

#[test]
fn a_machine_satisfies_an_affinity_in_every_zone_and_with_every_option() {
    on_machine(wanting(Requirement::new(ZONE, Operator::In, [text("a"), text("b")]))).assert_clean();
    on_machine(wanting(Requirement::equals(ZONE, "a"))).assert_breaks(Rule::NodeAffinity);
    on_machine(wanting(Requirement::equals(ARCH, "arm64"))).assert_breaks(Rule::NodeAffinity);
    on_machine(wanting(Requirement::equals(HOSTNAME, "default-0"))).assert_breaks(Rule::NodeAffinity);
    on_machine(wanting(Requirement::new("team", Operator::NotIn, [text("x")]))).assert_clean();
    on_machine(wanting(Requirement::new("team", Operator::Exists, []))).assert_breaks(Rule::NodeAffinity);
    on_machine(PodShape { node_affinity: vec![NodeSelectorTerm::default()], ..plain() })
        .assert_breaks(Rule::NodeAffinity);
}

#[test]
fn two_or_terms_may_share_the_outcomes_between_them() {
    let mut shape = wanting(Requirement::equals(ZONE, "a"));
    shape.node_affinity.extend(wanting(Requirement::equals(ZONE, "b")).node_affinity);
    on_machine(shape).assert_clean();
}

#[test]
fn a_label_that_nobody_can_tell_may_be_required_only_when_it_is_well_known() {
    let mut world = on_machine(wanting(Requirement::equals("rack", "r1")));
    world.assert_breaks(Rule::NodeAffinity);
    world.input.policy.well_known_labels.push(text("rack"));
    world.assert_clean();
    // As soon as the catalogue tells it for one type, the others are known to lack it.
    world.machine(LARGE).labels.add(Requirement::equals("rack", "r1"));
    world.assert_breaks(Rule::NodeAffinity);
}

#[test]
fn a_node_without_the_label_satisfies_only_negative_operators() {
    on_node(wanting(Requirement::new("team", Operator::DoesNotExist, []))).assert_clean();
    on_node(wanting(Requirement::equals("team", "x"))).assert_breaks(Rule::NodeAffinity);
    let mut selector = plain();
    selector.node_selector.insert(text(ZONE), text("b"));
    on_node(selector).assert_breaks(Rule::NodeAffinity);
}

#[test]
fn pods_fit_whichever_option_launches() {
    // 2 × 1 CPU fit the small machine's 2 CPUs, a third only the large one's 4.
    let mut world = World::new();
    let pods: Vec<u32> = (0..3).map(|_| world.pod("web", plain())).collect();
    world.launch(&[SMALL, LARGE], &["a"], &pods);
    world.assert_breaks(Rule::Resources);
    world.plan.nodes.clear();
    world.plan.order.clear();
    world.launch(&[LARGE], &["a"], &pods);
    world.assert_clean();
}

#[test]
fn daemons_take_room_where_they_run() {
    // 2 CPUs hold one pod of 1 CPU and a daemon of 1 CPU, not one of 1.1.
    for (cpu, fits) in [(1000, true), (1100, false)] {
        let mut world = World::new();
        let pod = world.pod("web", plain());
        world.daemon("logs", PodShape { requests: amounts(cpu, GIB, 1), ..PodShape::default() });
        world.launch(&[SMALL], &["a"], &[pod]);
        assert_eq!(world.broken(), if fits { vec![] } else { vec![Rule::Resources] });
    }
}

#[test]
fn a_daemon_runs_where_any_of_its_terms_holds() {
    let mut world = World::new();
    let pod = world.pod("web", plain());
    let mut shape = wanting(Requirement::equals(ZONE, "nowhere"));
    shape.node_affinity.extend(wanting(Requirement::equals("karpenter.sh/initialized", "true")).node_affinity);
    shape.requests = amounts(1001, GIB, 1);
    world.daemon("logs", shape);
    world.launch(&[SMALL], &["a"], &[pod]);
    world.assert_breaks(Rule::Resources);
}

#[test]
fn a_node_holds_what_is_there_what_comes_and_its_daemons() {
    // 4 CPUs: 2 taken, 1 for a daemon still to come, 1 for the pod; a second pod is too much.
    let mut world = World::new();
    let node = world.node("n", "a");
    world.standing(node, "old", PodShape { requests: amounts(2000, GIB, 1), ..PodShape::default() });
    world.daemon("logs", plain());
    let first = world.pod("web", plain());
    world.place(first, node);
    world.assert_clean();
    let second = world.pod("web", plain());
    world.place(second, node);
    world.assert_breaks(Rule::Resources);
    world.input.nodes[0].pods[0].leaving = true;
    world.assert_clean();
}

#[test]
fn a_host_port_is_taken_once() {
    let shape = PodShape { host_ports: vec![port(80)], ..plain() };
    let mut world = on_node(shape.clone());
    world.assert_clean();
    world.standing(0, "old", shape.clone());
    world.assert_breaks(Rule::HostPorts);
    let mut world = World::new();
    let pod = world.pod("web", shape);
    world.daemon(
        "proxy",
        PodShape { host_ports: vec![port(80)], requests: amounts(100, GIB, 1), ..PodShape::default() },
    );
    world.launch(&[SMALL], &["a"], &[pod]);
    world.assert_breaks(Rule::HostPorts);
}

fn with_volumes(world: &mut World, volumes: VolumeAlternatives) {
    world.input.volume_sets.push(volumes);
    let set = Some(world.input.volume_sets.len() as u32 - 1);
    world.input.pods.iter_mut().for_each(|pod| pod.volumes = set);
}

#[test]
fn volumes_are_in_reach_wherever_the_machine_lands() {
    let zone = |name: &str| Requirements::from_iter([Requirement::equals(ZONE, name)]);
    for (zones, rules) in [(vec!["a"], vec![Rule::Volumes]), (vec!["a", "b"], vec![])] {
        let mut world = on_machine(plain());
        let any_of = zones.iter().map(|name| zone(name)).collect();
        with_volumes(&mut world, VolumeAlternatives { any_of, ..VolumeAlternatives::default() });
        assert_eq!(world.broken(), rules);
    }
    let mut world = on_node(plain());
    with_volumes(&mut world, VolumeAlternatives { any_of: vec![zone("b")], ..VolumeAlternatives::default() });
    world.assert_breaks(Rule::Volumes);
    let mut world = on_node(plain());
    with_volumes(&mut world, VolumeAlternatives { blocked: Some(text("no claim")), ..VolumeAlternatives::default() });
    world.assert_breaks(Rule::Volumes);
}

#[test]
fn drivers_attach_so_many_volumes_and_a_shared_one_counts_once() {
    let volumes = |names: &[&str]| VolumeAlternatives {
        attachments: names.iter().map(|name| (text("ebs"), text(name))).collect(),
        ..VolumeAlternatives::default()
    };
    let mut world = on_node(plain());
    with_volumes(&mut world, volumes(&["x", "y"]));
    world.assert_clean();
    world.input.nodes[0].attach_limits.push((text("ebs"), 2));
    world.standing(0, "old", plain()).volumes = Some(0);
    world.assert_clean();
    world.input.volume_sets.push(volumes(&["z"]));
    world.input.nodes[0].pods[0].volumes = Some(1);
    world.assert_breaks(Rule::AttachLimits);
    let mut world = on_machine(plain());
    with_volumes(&mut world, volumes(&["x", "y"]));
    world.assert_clean();
    world.machine(LARGE).allocatable.set("attachable-volumes-ebs", 1);
    world.assert_breaks(Rule::AttachLimits);
}

#[test]
fn a_pod_that_depends_on_its_zone_stands_where_the_zone_is_settled() {
    on_machine(PodShape { pod_anti_affinity: vec![about("web", ZONE)], ..plain() }).assert_breaks(Rule::OpenDomain);
    on_machine(PodShape { pod_affinity: vec![about("web", ZONE)], ..plain() }).assert_breaks(Rule::OpenDomain);
    on_machine(PodShape { pod_anti_affinity: vec![about("web", HOSTNAME)], ..plain() }).assert_clean();
}
