//! What random clusters showed: plans that failed their check, and pods that were given up although they fitted.

use engine::check::{Rule, check};
use engine::model::CapacityType::{OnDemand, Spot};
use engine::model::labels::{HOSTNAME, ZONE};
use engine::model::{MicroUsd, Operator};
use engine::plan::Plan;

use super::{DB, JOB, WEB, about, kind, node, pod, small, spread, world};
use crate::cases::{Case, DaemonCase, NodeCase, PodCase, RACK, ShapeCase, TIER};
use crate::judge::given_up;
use crate::sound_plan;

/// A pod that needs a machine of one CPU for itself.
fn large() -> ShapeCase {
    ShapeCase { half_cpus: 2, ..small() }
}

#[test]
fn a_spread_within_one_zone_does_not_look_at_machines_that_may_land_elsewhere() {
    // The web pod's machine may land in a or b. In a it counts for the db pods, which are bound to a; in b it does not.
    let bound = ShapeCase { selector: Some((ZONE, "a")), spread: vec![spread(ZONE, DB)], ..large() };
    let types = vec![kind(1, 4, &[("a", OnDemand, 10), ("b", OnDemand, 10)])];
    let case = world(types, vec![large(), bound], vec![pod(0, WEB), pod(1, DB), pod(1, DB)]);
    assert!(sound_plan(&case).unschedulable.is_empty());
}

/// Two types of two and four CPUs, both of which every machine must be able to be.
fn varied(cpu_limit: i64, shapes: Vec<ShapeCase>, pods: Vec<PodCase>) -> Case {
    let types = vec![kind(2, 8, &[("a", OnDemand, 10)]), kind(4, 16, &[("a", OnDemand, 20)])];
    let mut case = world(types, shapes, pods);
    (case.pools[0].min_types, case.pools[0].cpu_limit) = (Some(2), Some(cpu_limit));
    case
}

#[test]
fn machines_that_must_be_varied_are_charged_for_the_larger_option() {
    // Each pod fills a machine of two CPUs, and each machine may turn out to have four: eight CPUs are two machines.
    let two_cpus = ShapeCase { half_cpus: 4, ..small() };
    let plan = sound_plan(&varied(8, vec![two_cpus], vec![pod(0, WEB); 4]));
    assert_eq!((plan.nodes.len(), plan.unschedulable.len()), (2, 2));
    assert!(plan.nodes.iter().all(|node| node.types.len() == 2));
}

#[test]
fn a_machine_that_used_up_the_limit_is_still_joined() {
    // One machine may have four CPUs, which is the limit. It holds the pod of one CPU and that of half a CPU.
    let case = varied(4, vec![large(), small()], vec![pod(0, WEB), pod(1, DB)]);
    let plan = sound_plan(&case);
    assert_eq!((plan.nodes.len(), plan.unschedulable.len()), (1, 0));
}

#[test]
fn machines_that_can_stand_elsewhere_give_way_to_those_that_cannot() {
    // The web pods come first, one machine each, one in each zone. Then three db pods with volumes in a take a machine each:
    // four in a and one in b, unless the web pod's machine moves to b.
    let web = ShapeCase { apart: vec![about(HOSTNAME, WEB)], ..large() };
    let db = ShapeCase { half_cpus: 4, ..small() };
    let in_a = PodCase { volumes: Some(0), ..pod(1, DB) };
    let pods = vec![pod(0, WEB), pod(0, WEB), in_a.clone(), in_a.clone(), in_a];
    let mut case = world(vec![kind(2, 4, &[("a", OnDemand, 10), ("b", OnDemand, 10)])], vec![web, db], pods);
    case.pools[0].rules.zone_balance = true;
    let plan = sound_plan(&case);
    let in_zone = |zone: &str| plan.nodes.iter().filter(|node| node.zones[0].as_ref() == zone).count();
    assert_eq!((in_zone("a"), in_zone("b"), plan.unschedulable.len()), (3, 2, 0));
}

#[test]
fn anti_affinity_over_a_label_bars_nobody_from_machines_without_it() {
    let shape = ShapeCase { apart: vec![about(RACK, WEB)], ..small() };
    let case = world(vec![kind(4, 16, &[("a", OnDemand, 10)])], vec![shape], vec![pod(0, WEB), pod(0, WEB)]);
    let plan = sound_plan(&case);
    assert_eq!((plan.nodes.len(), plan.unschedulable.len()), (1, 0));
    let standing = Case { nodes: vec![node("a", 4, vec![pod(0, WEB)])], ..case };
    assert_eq!(sound_plan(&standing).placements, [(0, 0), (1, 0)]);
}

#[test]
fn a_pod_that_is_in_no_domain_does_not_end_the_exemption_of_the_first() {
    // A web pod stands on a node without the label, so the new one is the first in any rack and may start one.
    let shape = ShapeCase { near: vec![about(RACK, WEB)], ..small() };
    let mut case = world(vec![kind(4, 16, &[("a", OnDemand, 10)])], vec![shape], vec![pod(0, WEB)]);
    case.nodes = vec![node("a", 4, vec![pod(0, WEB)]), NodeCase { rack: Some("r1"), ..node("a", 4, vec![]) }];
    assert_eq!(sound_plan(&case).placements, [(0, 1)]);
}

#[test]
fn a_machine_of_settled_size_still_grows_in_memory() {
    // One machine is allowed, of two CPUs. With 4 GiB it holds the db pod; with 8 GiB the web pod as well.
    let types = vec![kind(2, 4, &[("a", OnDemand, 10)]), kind(2, 8, &[("a", OnDemand, 20)])];
    let shapes = vec![ShapeCase { gib: 3, ..small() }, ShapeCase { gib: 4, ..small() }];
    let mut case = world(types, shapes, vec![pod(0, WEB), pod(1, DB)]);
    (case.pools[0].node_limit, case.pools[0].rules.spot_max_percent) = (Some(1), Some(50));
    let plan = sound_plan(&case);
    assert_eq!((plan.nodes.len(), plan.unschedulable.len()), (1, 0));
}

#[test]
fn a_node_keeps_the_host_port_of_a_daemon_that_is_still_to_come() {
    let shape = ShapeCase { port: Some(80), ..small() };
    let mut case = world(Vec::new(), vec![shape], vec![pod(0, WEB)]);
    case.nodes = vec![node("a", 4, vec![])];
    case.daemons = vec![DaemonCase { port: Some(80), ..DaemonCase::default() }];
    let plan = Plan { placements: vec![(0, 0)], order: vec![0], ..Plan::default() };
    let rules: Vec<Rule> = check(&case.input(), &plan).into_iter().map(|found| found.rule).collect();
    assert_eq!(rules, [Rule::HostPorts]);
    assert_eq!(sound_plan(&case).unschedulable, [0]);
    case.nodes[0].daemons_run = true;
    assert_eq!(check(&case.input(), &plan).len(), 1, "the daemon's pod has the port now");
}

#[test]
fn a_price_ceiling_excuses_nobody_from_waiting_where_no_spot_is_for_sale() {
    // The db pod was created a second ago and waits for spot, of which there is none at any price; the web pod need not wait.
    let young = PodCase { young: true, ..pod(0, DB) };
    let types = vec![kind(4, 16, &[("a", OnDemand, 10)])];
    let mut case = world(types, vec![small()], vec![young, pod(0, WEB)]);
    let rules = &mut case.pools[0].rules;
    (rules.spot_fallback_after_ms, rules.max_node_price) = (Some(600_000), Some(MicroUsd(50_000)));
    let (input, plan) = (case.input(), sound_plan(&case));
    assert_eq!(plan.unschedulable, [0]);
    assert_eq!(given_up(&input, &plan), []);
}

#[test]
fn spot_that_is_dearer_serves_pods_that_nothing_on_demand_carries() {
    // Both types must be possible. In b only one of them is sold on demand, and both as spot, which is dearer.
    let types = vec![
        kind(1, 4, &[("a", OnDemand, 10), ("b", OnDemand, 40), ("b", Spot, 44)]),
        kind(1, 4, &[("a", OnDemand, 10), ("b", Spot, 44)]),
    ];
    let bound = ShapeCase { selector: Some((ZONE, "b")), ..small() };
    let mut case = world(types, vec![bound], vec![pod(0, WEB)]);
    case.pools[0].min_types = Some(2);
    let plan = sound_plan(&case);
    assert_eq!((plan.nodes.len(), plan.nodes.first().map(|node| node.capacity_type)), (1, Some(Spot)));
}

#[test]
fn zones_that_pods_elsewhere_refuse_are_not_balanced() {
    // A db pod in a refuses web pods in its zone. Each web pod fills a machine, and all three stand in b.
    let web = ShapeCase { half_cpus: 4, ..small() };
    let db = ShapeCase { apart: vec![about(ZONE, WEB)], ..small() };
    let types = vec![kind(2, 4, &[("a", OnDemand, 10), ("b", OnDemand, 10)])];
    let mut case = world(types, vec![web, db], vec![pod(0, WEB); 3]);
    case.nodes = vec![node("a", 1, vec![pod(1, DB)])];
    case.pools[0].rules.zone_balance = true;
    let plan = sound_plan(&case);
    assert_eq!((plan.nodes.len(), plan.unschedulable.len()), (3, 0));
    assert!(plan.nodes.iter().all(|node| node.zones[0].as_ref() == "b"));
}

#[test]
fn zones_without_enough_types_are_not_balanced() {
    // Machines must be able to be of either type, and b has one of them.
    let types = vec![kind(2, 8, &[("a", OnDemand, 20), ("b", OnDemand, 20)]), kind(2, 8, &[("a", OnDemand, 10)])];
    let apart = ShapeCase { apart: vec![about(HOSTNAME, WEB)], ..small() };
    let mut case = world(types, vec![apart], vec![pod(0, WEB); 3]);
    (case.pools[0].min_types, case.pools[0].rules.zone_balance) = (Some(2), true);
    let plan = sound_plan(&case);
    assert_eq!((plan.nodes.len(), plan.unschedulable.len()), (3, 0));
}

#[test]
fn machines_whose_zone_others_look_at_need_not_give_way() {
    // As in `machines_that_can_stand_elsewhere_give_way_to_those_that_cannot`, but a job wants to be in a zone with web pods:
    // their machines stay where it found them, and so does its own.
    let web = ShapeCase { apart: vec![about(HOSTNAME, WEB)], ..large() };
    let db = ShapeCase { half_cpus: 4, ..small() };
    let job = ShapeCase { near: vec![about(ZONE, WEB)], half_cpus: 4, ..small() };
    let in_a = PodCase { volumes: Some(0), ..pod(1, DB) };
    let pods = vec![pod(0, WEB), pod(0, WEB), in_a.clone(), in_a.clone(), in_a, pod(2, JOB)];
    let mut case = world(vec![kind(2, 4, &[("a", OnDemand, 10), ("b", OnDemand, 10)])], vec![web, db, job], pods);
    case.pools[0].rules.zone_balance = true;
    let plan = sound_plan(&case);
    assert_eq!((plan.nodes.len(), plan.unschedulable.len()), (6, 0));
}

#[test]
fn a_spread_is_not_filled_zone_by_zone_when_the_machines_use_up_the_limit() {
    // One pod a machine of eight CPUs, and the limit is four machines: two in each zone, and not three in the first. When all
    // have one pod, two of them take the last two.
    let web = ShapeCase { spread: vec![spread(ZONE, WEB), spread(HOSTNAME, WEB)], ..small() };
    let types = vec![kind(8, 8, &[("a", OnDemand, 10)]), kind(8, 8, &[("b", OnDemand, 10)])];
    let mut case = world(types, vec![web], vec![pod(0, WEB); 6]);
    case.pools[0].cpu_limit = Some(32);
    let plan = sound_plan(&case);
    assert_eq!((plan.nodes.len(), plan.unschedulable.len()), (4, 0));
}

#[test]
fn pods_that_no_zone_is_left_for_get_machines_before_they_share_one() {
    // Web pods spread over zones and machines. In b only a machine that is too small is sold, so all three go to a, and there
    // each to a machine of its own: were two of them on one, the third machine would be two emptier.
    let web = ShapeCase { spread: vec![spread(ZONE, WEB), spread(HOSTNAME, WEB)], gib: 4, ..small() };
    let types = vec![kind(4, 16, &[("a", OnDemand, 40)]), kind(1, 1, &[("b", OnDemand, 10)])];
    let plan = sound_plan(&world(types, vec![web], vec![pod(0, WEB); 3]));
    assert_eq!((plan.nodes.len(), plan.unschedulable.len()), (3, 0));
}

#[test]
fn a_domain_that_only_a_preference_made_counts() {
    // The pool leaves the tier open. The first web pod gets the tier that it prefers, which no machine has to be of; the others
    // are spread over that tier and the one that machines get when nobody asks.
    let web =
        ShapeCase { preferred: vec![(1, (TIER, Operator::Gt, &["1"]))], spread: vec![spread(TIER, WEB)], ..small() };
    let mut case = world(vec![kind(4, 8, &[("a", OnDemand, 40)])], vec![web], vec![pod(0, WEB); 9]);
    case.pools[0].wishes = vec![(TIER, Operator::Exists, &[])];
    assert!(sound_plan(&case).unschedulable.is_empty());
}
