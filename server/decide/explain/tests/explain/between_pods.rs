//! Reasons about other pods: spread, affinity, anti-affinity, and obstacles independent of pools.

use model::labels::{HOSTNAME, ZONE};
use model::plan::ReasonCode;
use model::{NodeSelectorTerm, Operator, PodShape, Requirement};

use crate::fixture::{Fixture, SMALL, app, asks, near, pool, resources, selecting, spread};

fn zone_b_only() -> model::NodePool {
    let mut pool = pool("general");
    pool.requirements.add(Requirement::new(ZONE, Operator::In, ["b".into()]));
    pool
}

#[test]
fn a_spread_lists_its_counts_and_the_sufficient_skew() {
    // Two pods in b, none in a, which has a node: a third in b makes 3 − 0 = 3.
    let mut web = asks(500, 1);
    web.spread = vec![spread("web", ZONE, 1, true)];
    Fixture::new()
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
             could run in b",
        )
        .fits_if(&["maxSkew of its spread over topology.kubernetes.io/zone is raised from 1 to 3"]);
}

#[test]
fn affinity_without_a_matching_pod_is_reported_without_a_pool() {
    let mut web = asks(500, 1);
    web.pod_affinity = vec![near("db", ZONE)];
    let explanation = Fixture::new().pool(pool("general")).pod("web", web).only();
    explanation.because(
        "",
        ReasonCode::PodAffinity,
        "its required pod affinity needs a pod with app=db in the same topology.kubernetes.io/zone, and no such pod runs or \
         is planned",
    )
    .fits_if(&["the required pod affinity with app=db per topology.kubernetes.io/zone is dropped"]);
    assert_eq!(explanation.reasons.len(), 1);
}

#[test]
fn affinity_to_unschedulable_pods_names_them() {
    let mut web = asks(500, 1);
    web.pod_affinity = vec![near("db", ZONE)];
    let fixture = Fixture::new().pool(pool("general")).pod("web", web).pod("db", asks(90_000, 1));
    let message = &fixture.explained()[0].reasons[0].message;
    assert!(message.ends_with("; default/db-0 would match but has no place either"), "{message}");
}

#[test]
fn a_pod_that_matches_its_own_affinity_may_be_the_first() {
    let mut web = asks(9000, 1);
    web.pod_affinity = vec![near("web", ZONE)];
    let explanation = Fixture::new().pool(pool("general")).pod("web", web).only();
    assert_eq!(explanation.reasons[0].1, ReasonCode::Resources);
}

#[test]
fn affinity_to_pods_elsewhere_lists_their_domains() {
    let mut web = asks(500, 1);
    web.pod_affinity = vec![near("db", ZONE)];
    Fixture::new()
        .pool(zone_b_only())
        .node("full", "a", resources(500, 1 << 30))
        .running("db-0", app("db"), asks(500, 1))
        .pod("web", web)
        .only()
        .because(
            "general",
            ReasonCode::PodAffinity,
            "needs to share topology.kubernetes.io/zone with pods with app=db; such pods are in a (1), and it could run in b",
        )
        .fits_if(&["the required pod affinity with app=db per topology.kubernetes.io/zone is dropped"]);
}

#[test]
fn anti_affinity_counts_planned_pods_too() {
    let mut web = asks(500, 1);
    web.pod_anti_affinity = vec![near("web", ZONE)];
    Fixture::new()
        .pool(zone_b_only())
        .pods(2, "web", web)
        .launches(&[SMALL], "b", &[0])
        .only()
        .because(
            "general",
            ReasonCode::PodAntiAffinity,
            "must not share topology.kubernetes.io/zone with pods with app=web; they are in b (1, such as default/web-0), and \
             it could run in b",
        );
}

#[test]
fn anti_affinity_of_another_pod_is_reported_as_such() {
    let mut loner = asks(500, 1);
    loner.pod_anti_affinity = vec![near("web", ZONE)];
    Fixture::new()
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
fn hostname_anti_affinity_never_excludes_a_new_node() {
    let mut web = asks(9000, 1);
    web.pod_anti_affinity = vec![near("web", HOSTNAME)];
    let explanation = Fixture::new().pool(pool("general")).pod("web", web).only();
    assert_eq!(explanation.reasons[0].1, ReasonCode::Resources);
}

#[test]
fn contradictory_requirements_are_reported_once() {
    let mut shape = selecting(asks(500, 1), ZONE, "a");
    let elsewhere = Requirement::new(ZONE, Operator::In, ["b".into()]);
    shape.node_affinity = vec![NodeSelectorTerm { expressions: vec![elsewhere], names: Vec::new() }];
    let explanation = Fixture::new().pool(pool("one")).pool(pool("two")).pod("web", shape).only();
    assert_eq!(explanation.reasons.len(), 1);
    explanation.because(
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
    Fixture::new().pool(pool("general")).pod("web", shape).only().because(
        "",
        ReasonCode::Requirements,
        "its required node affinity has only empty terms, and an empty term matches no node",
    );
}

#[test]
fn an_invalid_pod_is_reported_with_its_validation_message() {
    let mut fixture = Fixture::new().pool(pool("general")).pod("web", asks(500, 1));
    fixture.input.pods[0].invalid = Some("nodeSelector may not name kubernetes.io/hostname".into());
    fixture.only().because("", ReasonCode::InvalidPod, "nodeSelector may not name kubernetes.io/hostname").fits_if(&[]);
}

#[test]
fn the_affinity_term_that_passed_most_checks_is_reported() {
    // Zone c has no offering; arm64 in zone a has, but not 9 cpu: the second term passes more
    // checks.
    let zone = |zone: &str| Requirement::new(ZONE, Operator::In, [zone.into()]);
    let term = |zone_name: &str| NodeSelectorTerm { expressions: vec![zone(zone_name)], names: Vec::new() };
    let shape = PodShape { node_affinity: vec![term("c"), term("a")], ..asks(9000, 1) };
    let explanation = Fixture::new().pool(pool("general")).pod("web", shape).only();
    assert_eq!(explanation.reasons[0].1, ReasonCode::Resources);
    assert!(explanation.reasons[0].2.contains("large, has 7.91 cpu free"), "{}", explanation.reasons[0].2);
}
