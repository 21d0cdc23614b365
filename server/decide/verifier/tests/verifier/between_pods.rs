//! Topology rules: spread, affinity, anti-affinity.

use model::labels::{HOSTNAME, ZONE};
use model::{NodeStage, Operator, PodAffinityTerm, PodShape, Requirement, SpreadConstraint, Zone};
use verifier::Rule;

use crate::fixture::{Fixture, SMALL, affinity_term, labels, plain, requiring, selecting, spread, taint, text};

fn spreading(constraint: SpreadConstraint) -> PodShape {
    PodShape { spread: vec![constraint], ..plain() }
}

fn near(term: PodAffinityTerm) -> PodShape {
    PodShape { pod_affinity: vec![term], ..plain() }
}

fn apart(term: PodAffinityTerm) -> PodShape {
    PodShape { pod_anti_affinity: vec![term], ..plain() }
}

/// Pods of one shape, one planned node each, in these zones.
fn in_zones(shape: &PodShape, zones: &[&str]) -> Fixture {
    let mut fixture = Fixture::new();
    for zone in zones {
        let pod = fixture.pod("web", shape.clone());
        fixture.launch(&[SMALL], &[zone], &[pod]);
    }
    fixture
}

#[test]
fn skew_is_checked_against_the_emptiest_future_zone() {
    let shape = spreading(spread("web", ZONE));
    in_zones(&shape, &["a", "b", "c", "a"]).assert_clean();
    // Zone b has one node, so the second pod in a makes the skew 2 − 0.
    in_zones(&shape, &["a", "a", "b"]).assert_breaks(Rule::TopologySpread);
    // 2 in a, 1 in b and a third in a: 3 − 1 = 2.
    in_zones(&shape, &["a", "b", "a", "a"]).assert_breaks(Rule::TopologySpread);
}

#[test]
fn an_existing_node_is_a_domain_and_its_pods_count() {
    let mut fixture = in_zones(&spreading(spread("web", ZONE)), &["a", "b"]);
    let node = fixture.node("n", "a");
    fixture.assert_clean();
    fixture.bound_pod(node, "web", plain());
    fixture.plan.nodes[0].zones = [Zone::from("a")].into();
    // One pod runs in a: the first new pod in a makes 2 − 0.
    fixture.assert_breaks(Rule::TopologySpread);
    fixture.input.nodes[0].pods[0].terminating = true;
    fixture.assert_clean();
    fixture.input.nodes[0].pods[0].terminating = false;
    fixture.input.nodes[0].pods[0].namespace = text("other");
    fixture.assert_clean();
}

#[test]
fn a_node_being_deleted_makes_no_domain() {
    let mut fixture = in_zones(&spreading(spread("web", ZONE)), &["a", "a"]);
    fixture.assert_clean();
    fixture.node("n", "b");
    fixture.assert_breaks(Rule::TopologySpread);
    fixture.input.nodes[0].stage = NodeStage::Deleting;
    fixture.assert_clean();
}

#[test]
fn too_few_domains_make_the_minimum_zero() {
    // Zones a and b hold one pod each; the third pod makes 2 − 1, but 2 − 0 while three domains are
    // required.
    let mut constraint = spread("web", ZONE);
    in_zones(&spreading(constraint.clone()), &["a", "b", "a"]).assert_clean();
    constraint.min_domains = Some(3);
    in_zones(&spreading(constraint), &["a", "b", "a"]).assert_breaks(Rule::TopologySpread);
}

#[test]
fn a_soft_constraint_and_an_empty_selection_restrict_no_pod() {
    let soft = SpreadConstraint { hard: false, ..spread("web", ZONE) };
    in_zones(&spreading(soft), &["a", "a", "b"]).assert_clean();
    let no_selector = SpreadConstraint { selector: None, ..spread("web", ZONE) };
    in_zones(&spreading(no_selector), &["a", "a", "b"]).assert_clean();
}

#[test]
fn nodes_excluded_by_affinity_or_taints_are_left_out_if_honoured() {
    // The node in b is the only empty domain. It counts unless affinity (honoured) or taints
    // (honoured) exclude it.
    let not_b = requiring(Requirement::new(ZONE, Operator::NotIn, [text("b")]));
    for (affinity, taints, rules) in
        [(true, false, vec![]), (false, true, vec![]), (false, false, vec![Rule::TopologySpread])]
    {
        let constraint =
            SpreadConstraint { honor_node_affinity: affinity, honor_node_taints: taints, ..spread("web", ZONE) };
        let mut fixture = in_zones(&PodShape { spread: vec![constraint], ..not_b.clone() }, &["a", "a"]);
        let node = fixture.node("n", "b");
        fixture.input.nodes[node as usize].taints.push(taint("gpu"));
        assert_eq!(fixture.broken(), rules, "affinity {affinity}, taints {taints}");
    }
}

#[test]
fn hostnames_and_any_other_key_are_domains_too() {
    let mut fixture = Fixture::new();
    let pods: Vec<u32> = (0..2).map(|_| fixture.pod("web", spreading(spread("web", HOSTNAME)))).collect();
    fixture.launch(&[SMALL], &["a"], &pods);
    // A single host is its own minimum: 1 − 0, then 2 − 1.
    fixture.assert_clean();
    fixture.node("n", "a");
    fixture.assert_breaks(Rule::TopologySpread);
    in_zones(&spreading(spread("web", "rack")), &["a"]).assert_breaks(Rule::TopologySpread);
}

#[test]
fn pods_on_nodes_with_an_undecided_zone_count_in_every_zone() {
    // The first pod, selected but without a constraint, may launch in a; then the second one in a
    // makes 2 − 0.
    let mut fixture = Fixture::new();
    fixture.node("n", "b");
    let free = fixture.pod("web", plain());
    let bound = fixture.pod("web", spreading(spread("web", ZONE)));
    fixture.launch(&[SMALL], &["a", "b"], &[free]);
    fixture.launch(&[SMALL], &["a"], &[bound]);
    fixture.assert_breaks(Rule::TopologySpread);
    fixture.plan.order.reverse();
    fixture.assert_clean();
}

#[test]
fn affinity_requires_a_placed_pod_or_the_first_pod_of_its_own_group() {
    let shape = near(affinity_term("web", ZONE));
    in_zones(&shape, &["a", "a"]).assert_clean();
    in_zones(&shape, &["a", "b"]).assert_breaks(Rule::PodAffinity);
    let mut fixture = Fixture::new();
    let (db, web) = (fixture.pod("db", plain()), fixture.pod("web", near(affinity_term("db", ZONE))));
    fixture.launch(&[SMALL], &["a"], &[db]);
    fixture.launch(&[SMALL], &["a"], &[web]);
    fixture.assert_clean();
    fixture.plan.order = vec![web, db];
    fixture.assert_breaks(Rule::PodAffinity);
}

#[test]
fn one_pod_must_match_all_affinity_terms() {
    let mut fixture = Fixture::new();
    let node = fixture.node("n", "a");
    fixture.bound_pod(node, "db", plain());
    fixture.bound_pod(node, "cache", plain());
    let both =
        PodShape { pod_affinity: vec![affinity_term("db", HOSTNAME), affinity_term("cache", HOSTNAME)], ..plain() };
    let pod = fixture.pod("web", both);
    fixture.place(pod, node);
    fixture.assert_breaks(Rule::PodAffinity);
}

#[test]
fn anti_affinity_applies_in_both_directions() {
    in_zones(&apart(affinity_term("web", ZONE)), &["a", "b"]).assert_clean();
    in_zones(&apart(affinity_term("web", ZONE)), &["a", "a"]).assert_breaks(Rule::PodAntiAffinity);
    // The placed pod excludes `web`; `web` itself has no rule.
    let mut fixture = Fixture::new();
    let node = fixture.node("n", "a");
    fixture.bound_pod(node, "db", apart(affinity_term("web", ZONE)));
    let pod = fixture.pod("web", plain());
    fixture.launch(&[SMALL], &["a"], &[pod]);
    fixture.assert_breaks(Rule::PodAntiAffinity);
    fixture.input.nodes[0].pods[0].leaving = true;
    fixture.assert_clean();
}

#[test]
fn anti_affinity_applies_in_every_zone_of_an_undecided_node() {
    let mut fixture = Fixture::new();
    let (db, web) = (fixture.pod("db", apart(affinity_term("web", ZONE))), fixture.pod("web", plain()));
    fixture.launch(&[SMALL], &["a"], &[db]);
    fixture.launch(&[SMALL], &["b", "c"], &[web]);
    fixture.assert_clean();
    fixture.plan.nodes[1].zones = ["b", "a"].map(Zone::from).into();
    fixture.assert_breaks(Rule::PodAntiAffinity);
}

#[test]
fn terms_select_pods_of_the_listed_namespaces() {
    let term = |namespaces: &[&str]| PodAffinityTerm {
        namespaces: namespaces.iter().map(|name| text(name)).collect(),
        ..affinity_term("db", ZONE)
    };
    let by_label = PodAffinityTerm { namespace_selector: selecting("shop"), ..affinity_term("db", ZONE) };
    for (term, rules) in
        [(term(&[]), vec![]), (term(&["shop"]), vec![Rule::PodAntiAffinity]), (by_label, vec![Rule::PodAntiAffinity])]
    {
        let mut fixture = Fixture::new();
        let node = fixture.node("n", "a");
        fixture.bound_pod(node, "db", plain()).namespace = text("shop");
        fixture.input.namespaces.insert(text("shop"), labels(&[("app", "shop")]));
        let pod = fixture.pod("web", apart(term));
        fixture.place(pod, node);
        assert_eq!(fixture.broken(), rules);
    }
}
