//! Reasons about other pods: spread, affinity, anti-affinity, and pods that no pool can help.

use engine::model::labels::{HOSTNAME, ZONE};
use engine::model::{NodeSelectorTerm, Operator, PodShape, Requirement};
use engine::plan::ReasonCode;

use crate::world::{SMALL, World, app, asks, near, pool, resources, selecting, spread};

fn zone_b_only() -> engine::model::NodePool {
    let mut pool = pool("general");
    pool.requirements.add(Requirement::new(ZONE, Operator::In, ["b".into()]));
    pool
}

#[test]
fn a_spread_names_its_counts_and_the_skew_that_would_do() {
    // Two pods in b, none in a, which has a node: a third in b makes 3 − 0 = 3.
    let mut web = asks(500, 1);
    web.spread = vec![spread("web", ZONE, 1, true)];
    World::new()
        .pool(zone_b_only())
        .node("full-a", "a", resources(0, 0))
        .node("full-b", "b", resources(1000, 2 << 30))
        .running("web-7", app("web"), asks(500, 1))
        .running("web-8", app("web"), asks(500, 1))
        .pod("web", web)
        .only()
        .because(
            "general",
            ReasonCode::TopologySpread,
            "its spread over topology.kubernetes.io/zone allows 1 more than the least (0); matching pods: a 0 and b 2; it \
             could stand in b",
        )
        .fits_if(&["maxSkew of its spread over topology.kubernetes.io/zone is raised from 1 to 3"]);
}

#[test]
fn affinity_to_nobody_is_nothing_that_a_pool_can_change() {
    let mut web = asks(500, 1);
    web.pod_affinity = vec![near("db", ZONE)];
    let told = World::new().pool(pool("general")).pod("web", web).only();
    told.because(
        "",
        ReasonCode::PodAffinity,
        "its required pod affinity needs a pod with app=db in the same topology.kubernetes.io/zone, and no such pod runs or \
         is planned",
    )
    .fits_if(&["the required pod affinity with app=db per topology.kubernetes.io/zone is dropped"]);
    assert_eq!(told.reasons.len(), 1);
}

#[test]
fn affinity_to_pods_that_fail_themselves_says_so() {
    let mut web = asks(500, 1);
    web.pod_affinity = vec![near("db", ZONE)];
    let world = World::new().pool(pool("general")).pod("web", web).pod("db", asks(90_000, 1));
    let message = &world.explained()[0].reasons[0].message;
    assert!(message.ends_with("; default/db-0 would match but has no place either"), "{message}");
}

#[test]
fn a_pod_that_matches_its_own_affinity_may_be_the_first() {
    let mut web = asks(9000, 1);
    web.pod_affinity = vec![near("web", ZONE)];
    let told = World::new().pool(pool("general")).pod("web", web).only();
    assert_eq!(told.reasons[0].1, ReasonCode::Resources);
}

#[test]
fn affinity_to_pods_elsewhere_names_where_they_are() {
    let mut web = asks(500, 1);
    web.pod_affinity = vec![near("db", ZONE)];
    World::new()
        .pool(zone_b_only())
        .node("full", "a", resources(500, 1 << 30))
        .running("db-0", app("db"), asks(500, 1))
        .pod("web", web)
        .only()
        .because(
            "general",
            ReasonCode::PodAffinity,
            "needs to share topology.kubernetes.io/zone with pods with app=db; such pods are in a (1), and it could stand in b",
        )
        .fits_if(&["the required pod affinity with app=db per topology.kubernetes.io/zone is dropped"]);
}

#[test]
fn anti_affinity_counts_planned_pods_too() {
    let mut web = asks(500, 1);
    web.pod_anti_affinity = vec![near("web", ZONE)];
    World::new()
        .pool(zone_b_only())
        .pods(2, "web", web)
        .buys(&[SMALL], "b", &[0])
        .only()
        .because(
            "general",
            ReasonCode::PodAntiAffinity,
            "must not share topology.kubernetes.io/zone with pods with app=web; they are in b (1, such as default/web-0), and \
             it could stand in b",
        );
}

#[test]
fn another_pods_anti_affinity_is_told_as_such() {
    let mut loner = asks(500, 1);
    loner.pod_anti_affinity = vec![near("web", ZONE)];
    World::new()
        .pool(zone_b_only())
        .node("full", "b", resources(500, 1 << 30))
        .running("loner-0", app("loner"), loner)
        .pod("web", asks(500, 1))
        .only()
        .because(
            "general",
            ReasonCode::PodAntiAffinity,
            "other pods refuse it by their own anti-affinity: default/loner-0 in topology.kubernetes.io/zone=b",
        )
        .fits_if(&["default/loner-0 and its like drop their required pod anti-affinity against it"]);
}

#[test]
fn hostname_anti_affinity_never_bars_a_new_node() {
    let mut web = asks(9000, 1);
    web.pod_anti_affinity = vec![near("web", HOSTNAME)];
    let told = World::new().pool(pool("general")).pod("web", web).only();
    assert_eq!(told.reasons[0].1, ReasonCode::Resources);
}

#[test]
fn a_pod_that_contradicts_itself_is_told_once() {
    let mut shape = selecting(asks(500, 1), ZONE, "a");
    let elsewhere = Requirement::new(ZONE, Operator::In, ["b".into()]);
    shape.node_affinity = vec![NodeSelectorTerm { expressions: vec![elsewhere], names: Vec::new() }];
    let told = World::new().pool(pool("one")).pool(pool("two")).pod("web", shape).only();
    assert_eq!(told.reasons.len(), 1);
    told.because(
        "",
        ReasonCode::Requirements,
        "its nodeSelector and required node affinity contradict each other about topology.kubernetes.io/zone: no value \
         satisfies both",
    )
    .fits_if(&[
        "nodeSelector topology.kubernetes.io/zone=a is dropped",
        "required node affinity on topology.kubernetes.io/zone is dropped",
    ]);
}

#[test]
fn an_empty_affinity_term_matches_nothing() {
    let shape = PodShape { node_affinity: vec![NodeSelectorTerm::default()], ..asks(500, 1) };
    World::new().pool(pool("general")).pod("web", shape).only().because(
        "",
        ReasonCode::Requirements,
        "its required node affinity has only empty terms, and an empty term matches no node",
    );
}

#[test]
fn an_invalid_pod_is_told_in_the_readers_words() {
    let mut world = World::new().pool(pool("general")).pod("web", asks(500, 1));
    world.input.pods[0].invalid = Some("nodeSelector may not name kubernetes.io/hostname".into());
    world.only().because("", ReasonCode::InvalidPod, "nodeSelector may not name kubernetes.io/hostname").fits_if(&[]);
}

#[test]
fn the_furthest_of_several_affinity_terms_is_told() {
    // zone c has nothing for sale; arm64 in zone a has, but not 9 cpu: the second term comes further.
    let zone = |zone: &str| Requirement::new(ZONE, Operator::In, [zone.into()]);
    let term = |zone_name: &str| NodeSelectorTerm { expressions: vec![zone(zone_name)], names: Vec::new() };
    let shape = PodShape { node_affinity: vec![term("c"), term("a")], ..asks(9000, 1) };
    let told = World::new().pool(pool("general")).pod("web", shape).only();
    assert_eq!(told.reasons[0].1, ReasonCode::Resources);
    assert!(told.reasons[0].2.contains("large, has 7.91 cpu free"), "{}", told.reasons[0].2);
}
