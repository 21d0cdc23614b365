//! The moves of removals as a sequence, while the nodes that leave are drained. Zones a, b and c; pods of `web` are spread
//! over them with a maximum skew of one unless a test says otherwise.

use model::labels::{HOSTNAME, ZONE};
use model::taints::Taint;
use model::{NodeName, NodeStage, PodShape, SpreadConstraint, Toleration, TolerationOperator};
use verifier::{EvictionStep, Rule, check_steps};

use crate::fixture::{Fixture, SMALL, affinity_term, plain, spread};

/// A node in each zone, and a pod of `web` on each; those of `leaving` leave, and their pods are to be placed.
fn one_in_each_zone(shape: &PodShape, leaving: &[u32]) -> Fixture {
    let mut fixture = Fixture::new();
    for (name, zone) in [("n-a", "a"), ("n-b", "b"), ("n-c", "c")] {
        let node = fixture.node(name, zone);
        fixture.bound_pod(node, "web", shape.clone()).leaving = leaving.contains(&node);
        if leaving.contains(&node) {
            fixture.input.nodes[node as usize].stage = NodeStage::Deleting;
            let pod = fixture.pod("web", shape.clone());
            fixture.input.pods[pod as usize].moved_from = Some(NodeName::from(name));
        }
    }
    fixture
}

fn spreading(constraint: SpreadConstraint) -> PodShape {
    PodShape { spread: vec![constraint], ..plain() }
}

/// The rules that the pods break, each of which is a step of its own.
fn broken(fixture: &Fixture) -> Vec<Rule> {
    let pods = (0_u32..).zip(&fixture.input.pods).map(|(pod, _)| pod);
    let steps: Vec<EvictionStep> =
        pods.map(|pod| EvictionStep { pods: vec![pod], ..EvictionStep::default() }).collect();
    check_steps(&fixture.input, &fixture.plan, &steps).into_iter().map(|violation| violation.rule).collect()
}

#[test]
fn a_pod_cannot_be_bound_in_another_zone_while_its_own_is_there_without_pods() {
    let mut fixture = one_in_each_zone(&spreading(spread("web", ZONE)), &[0]);
    fixture.place(0, 1);
    // Two in b and none in a, which the node that is drained keeps there. Once it is gone: two in b, one in c.
    assert_eq!(broken(&fixture), [Rule::TopologySpread]);
    fixture.assert_clean();
    let mut fixture = one_in_each_zone(&spreading(SpreadConstraint { max_skew: 2, ..spread("web", ZONE) }), &[0]);
    fixture.place(0, 1);
    assert_eq!(broken(&fixture), []);
}

#[test]
fn a_pod_is_bound_in_its_own_zone() {
    let mut fixture = one_in_each_zone(&spreading(spread("web", ZONE)), &[0]);
    fixture.launch(&[SMALL], &["a"], &[0]);
    assert_eq!(broken(&fixture), []);
}

#[test]
fn a_drained_host_counts_as_well() {
    let mut fixture = one_in_each_zone(&spreading(spread("web", HOSTNAME)), &[0]);
    fixture.place(0, 1);
    assert_eq!(broken(&fixture), [Rule::TopologySpread]);
    let mut fixture = one_in_each_zone(&spreading(spread("web", HOSTNAME)), &[0]);
    fixture.launch(&[SMALL], &["b"], &[0]);
    assert_eq!(broken(&fixture), []);
}

#[test]
fn the_taint_of_a_drain_excludes_a_node_where_taints_are_honoured() {
    let honoured = SpreadConstraint { honor_node_taints: true, ..spread("web", ZONE) };
    let mut fixture = one_in_each_zone(&spreading(honoured.clone()), &[0]);
    fixture.place(0, 1);
    // Two in b and one in c: zone a does not count.
    assert_eq!(broken(&fixture), []);
    let key = Taint::of_drain().key;
    let tolerant = Toleration { key, operator: TolerationOperator::Exists, value: "".into(), effect: None };
    let tolerant = PodShape { tolerations: vec![tolerant], ..spreading(honoured) };
    let mut fixture = one_in_each_zone(&tolerant, &[0]);
    fixture.place(0, 1);
    assert_eq!(broken(&fixture), [Rule::TopologySpread]);
}

#[test]
fn a_node_has_the_taint_of_the_drain_from_its_step_on() {
    let honoured = spreading(SpreadConstraint { honor_node_taints: true, ..spread("web", ZONE) });
    let mut fixture = Fixture::new();
    for (name, zone, leaves) in [("n-a", "a", true), ("n-b", "b", false), ("n-c", "c", true)] {
        let node = fixture.node(name, zone);
        for _ in 0..2 {
            let pod = fixture.input.pods.len();
            let bound = fixture.bound_pod(node, "web", honoured.clone());
            (bound.leaving, bound.name) = (leaves, if leaves { format!("web-{pod}").into() } else { "stays".into() });
            if leaves {
                let pod = fixture.pod("web", honoured.clone());
                fixture.input.pods[pod as usize].moved_from = Some(NodeName::from(name));
                fixture.input.nodes[node as usize].stage = NodeStage::Deleting;
            }
        }
    }
    fixture.launch(&[SMALL], &["a"], &[0, 1]);
    fixture.launch(&[SMALL], &["c"], &[2, 3]);
    let broken = |steps: &[EvictionStep]| check_steps(&fixture.input, &fixture.plan, steps).len();
    // The second pod in a sees two in c, on the node that is drained later.
    let step = |node, pods: [u32; 2]| EvictionStep { nodes: vec![node], pods: pods.into(), is_forced: false };
    assert_eq!(broken(&[step(0, [0, 1]), step(2, [2, 3])]), 0);
    // Where both are drained at once, it sees none in c.
    assert_eq!(broken(&[EvictionStep { nodes: vec![0, 2], pods: (0..4).collect(), is_forced: false }]), 1);
}

#[test]
fn enough_domains_are_there_while_a_node_is_drained() {
    let constraint = SpreadConstraint { min_domains: Some(3), ..spread("web", ZONE) };
    let mut fixture = one_in_each_zone(&spreading(constraint), &[0]);
    fixture.launch(&[SMALL], &["a"], &[0]);
    assert_eq!(broken(&fixture), []);
}

#[test]
fn pods_of_later_steps_are_on_their_nodes() {
    // The pod of a goes to b, and that of b to a machine in a: at the end one in each zone, and two in b before.
    let mut fixture = one_in_each_zone(&spreading(spread("web", ZONE)), &[0, 1]);
    let other = fixture.node("m-b", "b");
    fixture.place(0, other);
    fixture.launch(&[SMALL], &["a"], &[1]);
    assert_eq!(broken(&fixture), [Rule::TopologySpread]);
    fixture.assert_clean();
    // In one step both are evicted first.
    let together = [EvictionStep { pods: vec![0, 1], ..EvictionStep::default() }];
    assert_eq!(check_steps(&fixture.input, &fixture.plan, &together), []);
}

#[test]
fn pods_that_exclude_each_other_are_apart_until_the_later_one_leaves() {
    let exclusive = PodShape { pod_anti_affinity: vec![affinity_term("web", ZONE)], ..plain() };
    let mut fixture = one_in_each_zone(&exclusive, &[0, 1]);
    let other = fixture.node("m-b", "b");
    fixture.place(0, other);
    fixture.launch(&[SMALL], &["a"], &[1]);
    let rules = broken(&fixture);
    assert!(!rules.is_empty() && rules.iter().all(|rule| *rule == Rule::PodAntiAffinity), "{rules:?}");
    // That of b first, while the one of a is there; a is free once it has gone.
    let step = |pod| EvictionStep { pods: vec![pod], is_forced: pod == 0, ..EvictionStep::default() };
    let steps = [0, 1].map(step);
    assert_eq!(check_steps(&fixture.input, &fixture.plan, &steps), []);
}

#[test]
fn pods_of_nodes_that_go_in_any_case_count_and_are_not_judged() {
    let mut fixture = one_in_each_zone(&spreading(spread("web", ZONE)), &[0, 2]);
    fixture.place(0, 1);
    fixture.place(1, 1);
    let steps = |second: bool| {
        let step = |(pod, is_forced)| EvictionStep { pods: vec![pod], is_forced, ..EvictionStep::default() };
        let steps = [(0, true), (1, second)].map(step);
        check_steps(&fixture.input, &fixture.plan, &steps).len()
    };
    assert_eq!((steps(true), steps(false)), (0, 1));
}

#[test]
fn pods_that_are_not_placed_again_are_on_their_nodes_until_these_go() {
    let mut fixture = one_in_each_zone(&spreading(spread("web", ZONE)), &[0, 1]);
    // The pod of a is started by nobody again, and that of b goes to a.
    fixture.input.pods.remove(0);
    fixture.input.nodes[0].pods[0].name = "alone".into();
    let other = fixture.node("m-a", "a");
    fixture.place(0, other);
    let step = |node, pods: &[u32]| EvictionStep { nodes: vec![node], pods: pods.to_vec(), is_forced: false };
    let rules = |steps: &[EvictionStep]| {
        let violations = check_steps(&fixture.input, &fixture.plan, steps);
        violations.into_iter().map(|violation| violation.rule).collect::<Vec<Rule>>()
    };
    // Two in a and none in b, whose node is there; or one in a.
    assert_eq!(rules(&[step(1, &[0]), step(0, &[])]), [Rule::TopologySpread]);
    assert_eq!(rules(&[step(0, &[]), step(1, &[0])]), []);
}
