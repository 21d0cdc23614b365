//! Pods among each other: spread, affinity, anti-affinity.

use engine::check::Rule;
use engine::model::labels::{HOSTNAME, ZONE};
use engine::model::{NodeStage, Operator, PodAffinityTerm, PodShape, Requirement, SpreadConstraint};

use crate::world::{SMALL, World, about, labels, plain, selecting, spread, taint, text, wanting};

fn spreading(constraint: SpreadConstraint) -> PodShape {
    PodShape { spread: vec![constraint], ..plain() }
}

fn near(term: PodAffinityTerm) -> PodShape {
    PodShape { pod_affinity: vec![term], ..plain() }
}

fn apart(term: PodAffinityTerm) -> PodShape {
    PodShape { pod_anti_affinity: vec![term], ..plain() }
}

/// Pods of one shape, one machine each, in these zones.
fn in_zones(shape: &PodShape, zones: &[&str]) -> World {
    let mut world = World::new();
    for zone in zones {
        let pod = world.pod("web", shape.clone());
        world.launch(&[SMALL], &[zone], &[pod]);
    }
    world
}

#[test]
fn skew_is_judged_against_the_emptiest_zone_that_will_be_there() {
    let shape = spreading(spread("web", ZONE));
    in_zones(&shape, &["a", "b", "c", "a"]).assert_clean();
    // Zone b has one machine, so the second pod in a makes the skew 2 − 0 at its turn.
    in_zones(&shape, &["a", "a", "b"]).assert_breaks(Rule::TopologySpread);
    // 2 in a, 1 in b and a third in a: 3 − 1 = 2.
    in_zones(&shape, &["a", "b", "a", "a"]).assert_breaks(Rule::TopologySpread);
}

#[test]
fn an_existing_node_is_a_domain_and_its_pods_count() {
    let mut world = in_zones(&spreading(spread("web", ZONE)), &["a", "b"]);
    let node = world.node("n", "a");
    world.assert_clean();
    world.standing(node, "web", plain());
    world.plan.nodes[0].zones = vec![text("a")].into();
    // One stands in a: the first new pod in a makes 2 − 0.
    world.assert_breaks(Rule::TopologySpread);
    world.input.nodes[0].pods[0].terminating = true;
    world.assert_clean();
    world.input.nodes[0].pods[0].terminating = false;
    world.input.nodes[0].pods[0].namespace = text("other");
    world.assert_clean();
}

#[test]
fn a_node_that_is_deleted_makes_no_domain() {
    let mut world = in_zones(&spreading(spread("web", ZONE)), &["a", "a"]);
    world.assert_clean();
    world.node("n", "b");
    world.assert_breaks(Rule::TopologySpread);
    world.input.nodes[0].stage = NodeStage::Deleting;
    world.assert_clean();
}

#[test]
fn too_few_domains_make_the_minimum_zero() {
    // Zones a and b hold one pod each; the third pod makes 2 − 1, but 2 − 0 while three domains are wanted.
    let mut constraint = spread("web", ZONE);
    in_zones(&spreading(constraint.clone()), &["a", "b", "a"]).assert_clean();
    constraint.min_domains = Some(3);
    in_zones(&spreading(constraint), &["a", "b", "a"]).assert_breaks(Rule::TopologySpread);
}

#[test]
fn a_soft_constraint_and_a_selector_of_nobody_bind_nobody() {
    let soft = SpreadConstraint { hard: false, ..spread("web", ZONE) };
    in_zones(&spreading(soft), &["a", "a", "b"]).assert_clean();
    let nobody = SpreadConstraint { selector: None, ..spread("web", ZONE) };
    in_zones(&spreading(nobody), &["a", "a", "b"]).assert_clean();
}

#[test]
fn nodes_that_affinity_or_taints_refuse_are_left_out_when_honoured() {
    // The node in b is the only empty domain. It counts unless the pod's affinity (honoured) or taints (honoured) refuse it.
    let not_b = wanting(Requirement::new(ZONE, Operator::NotIn, [text("b")]));
    for (affinity, taints, rules) in
        [(true, false, vec![]), (false, true, vec![]), (false, false, vec![Rule::TopologySpread])]
    {
        let constraint =
            SpreadConstraint { honor_node_affinity: affinity, honor_node_taints: taints, ..spread("web", ZONE) };
        let mut world = in_zones(&PodShape { spread: vec![constraint], ..not_b.clone() }, &["a", "a"]);
        let node = world.node("n", "b");
        world.input.nodes[node as usize].taints.push(taint("gpu"));
        assert_eq!(world.broken(), rules, "affinity {affinity}, taints {taints}");
    }
}

#[test]
fn hostnames_and_any_other_key_are_domains_too() {
    let mut world = World::new();
    let pods: Vec<u32> = (0..2).map(|_| world.pod("web", spreading(spread("web", HOSTNAME)))).collect();
    world.launch(&[SMALL], &["a"], &pods);
    // A single host is its own minimum: 1 − 0, then 2 − 1.
    world.assert_clean();
    world.node("n", "a");
    world.assert_breaks(Rule::TopologySpread);
    in_zones(&spreading(spread("web", "rack")), &["a"]).assert_breaks(Rule::TopologySpread);
}

#[test]
fn pods_on_machines_with_an_open_zone_count_where_it_hurts() {
    // The first pod, selected but without a constraint, may land in a; then the second one in a makes 2 − 0.
    let mut world = World::new();
    world.node("n", "b");
    let free = world.pod("web", plain());
    let bound = world.pod("web", spreading(spread("web", ZONE)));
    world.launch(&[SMALL], &["a", "b"], &[free]);
    world.launch(&[SMALL], &["a"], &[bound]);
    world.assert_breaks(Rule::TopologySpread);
    world.plan.order.reverse();
    world.assert_clean();
}

#[test]
fn affinity_wants_a_pod_that_stands_already_or_a_first_of_its_own_kind() {
    let shape = near(about("web", ZONE));
    in_zones(&shape, &["a", "a"]).assert_clean();
    in_zones(&shape, &["a", "b"]).assert_breaks(Rule::PodAffinity);
    let mut world = World::new();
    let (db, web) = (world.pod("db", plain()), world.pod("web", near(about("db", ZONE))));
    world.launch(&[SMALL], &["a"], &[db]);
    world.launch(&[SMALL], &["a"], &[web]);
    world.assert_clean();
    world.plan.order = vec![web, db];
    world.assert_breaks(Rule::PodAffinity);
}

#[test]
fn one_pod_must_match_all_affinity_terms() {
    let mut world = World::new();
    let node = world.node("n", "a");
    world.standing(node, "db", plain());
    world.standing(node, "cache", plain());
    let both = PodShape { pod_affinity: vec![about("db", HOSTNAME), about("cache", HOSTNAME)], ..plain() };
    let pod = world.pod("web", both);
    world.place(pod, node);
    world.assert_breaks(Rule::PodAffinity);
}

#[test]
fn anti_affinity_looks_both_ways() {
    in_zones(&apart(about("web", ZONE)), &["a", "b"]).assert_clean();
    in_zones(&apart(about("web", ZONE)), &["a", "a"]).assert_breaks(Rule::PodAntiAffinity);
    // The standing pod keeps `web` away; `web` itself asks for nothing.
    let mut world = World::new();
    let node = world.node("n", "a");
    world.standing(node, "db", apart(about("web", ZONE)));
    let pod = world.pod("web", plain());
    world.launch(&[SMALL], &["a"], &[pod]);
    world.assert_breaks(Rule::PodAntiAffinity);
    world.input.nodes[0].pods[0].leaving = true;
    world.assert_clean();
}

#[test]
fn a_pod_on_a_machine_with_an_open_zone_is_too_near_in_each_of_them() {
    let mut world = World::new();
    let (db, web) = (world.pod("db", apart(about("web", ZONE))), world.pod("web", plain()));
    world.launch(&[SMALL], &["a"], &[db]);
    world.launch(&[SMALL], &["b", "c"], &[web]);
    world.assert_clean();
    world.plan.nodes[1].zones = vec![text("b"), text("a")].into();
    world.assert_breaks(Rule::PodAntiAffinity);
}

#[test]
fn terms_reach_into_the_namespaces_that_they_name() {
    let term = |namespaces: &[&str]| PodAffinityTerm {
        namespaces: namespaces.iter().map(|name| text(name)).collect(),
        ..about("db", ZONE)
    };
    let by_label = PodAffinityTerm { namespace_selector: selecting("shop"), ..about("db", ZONE) };
    for (term, rules) in
        [(term(&[]), vec![]), (term(&["shop"]), vec![Rule::PodAntiAffinity]), (by_label, vec![Rule::PodAntiAffinity])]
    {
        let mut world = World::new();
        let node = world.node("n", "a");
        world.standing(node, "db", plain()).namespace = text("shop");
        world.input.namespaces.insert(text("shop"), labels(&[("app", "shop")]));
        let pod = world.pod("web", apart(term));
        world.place(pod, node);
        assert_eq!(world.broken(), rules);
    }
}
