//! Small launches, worked out by hand.

mod between_pods;
mod fixture;
mod scored_nodes;
mod snapshot;
mod work;

use model::input::PlanningInput;
use model::labels::{INITIALIZED, REGISTERED};
use model::plan::Plan;
use model::{DaemonSet, NodeSelectorTerm, PodShape, Requirement, Text};

use crate::{Joining, Order, Steps, realise};
use fixture::{Launch, PRICE, order};

/// A plan that fills two nodes of 4 CPUs: one by a large pod, one by four small pods, which are first
/// in the queue.
fn tight() -> Launch {
    let mut launch = Launch::default();
    let (first, second) = (launch.node("a"), launch.node("a"));
    let large = launch.shape(4000, 4, 0);
    let small = launch.shape(1000, 1, 1);
    launch.pod(large, first);
    for _ in 0..4 {
        launch.pod(small, second);
    }
    launch
}

#[test]
fn pods_that_are_spread_strand_a_pod_of_a_tight_plan() {
    // The emptier node is always better, so each gets two of the small pods, and 2 CPUs are free on
    // each: the large one needs a third node. Two small pods are where planned.
    for seed in 0..8 {
        let realised = tight().realise(order(seed, Joining::Together));
        assert_eq!(realised.cost.0, 3 * PRICE);
        assert_eq!((realised.extra_nodes, realised.pods, realised.where_planned), (1, 5, 2));
        assert_eq!(realised.pending, 0);
    }
}

#[test]
fn pods_fill_the_nodes_that_join_one_by_one() {
    // The first node takes the four small pods, the second the large one.
    for seed in 0..8 {
        let realised = tight().realise(order(seed, Joining::OneByOne));
        assert_eq!((realised.cost.0, realised.extra_nodes), (2 * PRICE, 0));
        assert!([0, 5].contains(&realised.where_planned), "{realised:?}");
    }
}

#[test]
fn a_plan_with_one_pod_for_each_node_is_realised_exactly() {
    let mut launch = Launch::default();
    let shape = launch.shape(3000, 2, 0);
    for zone in ["a", "b", "c"] {
        let node = launch.node(zone);
        launch.pod(shape, node);
    }
    for joining in [Joining::Together, Joining::InGroups, Joining::OneByOne] {
        let realised = launch.realise(order(7, joining));
        assert_eq!((realised.cost.0, realised.extra_nodes), (3 * PRICE, 0));
        assert_eq!((realised.pods, realised.where_planned), (3, 3));
    }
}

#[test]
fn pods_are_bound_to_existing_nodes_before_new_ones_join() {
    let mut launch = Launch::default();
    let (shape, new) = (launch.shape(1000, 1, 0), launch.node("a"));
    launch.existing("there", "a", &[]);
    launch.pod(shape, new);
    // The new node is paid for, and stays empty.
    let realised = launch.realise(order(0, Joining::Together));
    assert_eq!((realised.cost.0, realised.where_planned, realised.pending), (PRICE, 0, 0));
}

#[test]
fn pods_that_no_plan_places_any_more_remain_pending() {
    let launch = tight();
    let nothing = |cluster: &PlanningInput| Plan {
        unschedulable: (0..).zip(&cluster.pods).map(|(pod, _)| pod).collect(),
        ..Plan::default()
    };
    let mut steps = Steps::new(1000);
    let order = Order { seed: 0, joining: Joining::Together };
    let realised = realise(&launch.input, &launch.plan, order, &mut |cluster| nothing(cluster), &mut steps);
    let realised = realised.expect("the steps suffice");
    assert_eq!((realised.cost.0, realised.pending), (2 * PRICE, 1));
}

/// Two nodes of 4 CPUs, each with a DaemonSet pod of 1 CPU, that the plan fills by a pod of 3 CPUs and three of 1 CPU,
/// which are first in the queue.
fn tight_beside_a_daemon(change: impl FnOnce(&mut PodShape)) -> Launch {
    let mut launch = Launch::default();
    let (first, second) = (launch.node("a"), launch.node("a"));
    let (large, small, agent) = (launch.shape(3000, 3, 0), launch.shape(1000, 1, 1), launch.shape(1000, 1, 2));
    launch.constrain(change);
    launch.input.daemons.push(DaemonSet {
        namespace: Text::from("kube-system"),
        name: Text::from("agent"),
        shape: agent,
        labels: 0,
    });
    launch.pod(large, first);
    for _ in 0..3 {
        launch.pod(small, second);
    }
    launch
}

#[test]
fn a_daemon_set_that_waits_for_registered_nodes_takes_the_room_of_any_other() {
    let selects = |key: &'static str| {
        move |shape: &mut PodShape| {
            shape.node_selector.insert(Text::from(key), Text::from("true"));
        }
    };
    let requires = |shape: &mut PodShape| {
        let expressions = vec![Requirement::equals(REGISTERED, "true")];
        shape.node_affinity.push(NodeSelectorTerm { expressions, names: Vec::new() });
    };
    let launches = [
        tight_beside_a_daemon(|_| {}),
        tight_beside_a_daemon(selects(REGISTERED)),
        tight_beside_a_daemon(selects(INITIALIZED)),
        tight_beside_a_daemon(requires),
    ];
    for launch in launches {
        // Together: one node gets two of the small pods, the other one. With the DaemonSet pods 1 CPU and 2 are free, so
        // that the large pod needs a third node; without them it would fit.
        let together = launch.realise(order(0, Joining::Together));
        assert_eq!((together.cost.0, together.extra_nodes, together.pending), (3 * PRICE, 1, 0));
        // One by one: the first node is full with the small pods, the second with the large one.
        let one_by_one = launch.realise(order(0, Joining::OneByOne));
        assert_eq!((one_by_one.cost.0, one_by_one.extra_nodes, one_by_one.pending), (2 * PRICE, 0, 0));
    }
}
