//! The result depends on the seed only, is complete, and needs bounded work.

use model::Text;
use model::plan::Plan;

use super::fixture::{Launch, PRICE, order};
use crate::random::SplitMix64;
use crate::{Joining, Steps, realise};

/// Nodes of one to six pods of three shapes and two priorities, at random.
fn random_launch(seed: u64) -> Launch {
    let (mut launch, mut random) = (Launch::default(), SplitMix64::new(seed));
    let shapes = [launch.shape(600, 1, 0), launch.shape(300, 3, 0), launch.shape(500, 2, 5)];
    for node in 0..10 {
        launch.node(["a", "b", "c"][random.below(3)]);
        for _ in 0..=random.below(6) {
            let pod = launch.pod(shapes[random.below(3)], node);
            launch.input.pods[pod as usize].workload = Text::from("Deployment/web");
        }
    }
    launch
}

#[test]
fn a_seed_determines_the_result() {
    for seed in 0..20 {
        let launch = random_launch(seed);
        assert_eq!(launch.realise(order(seed, Joining::InGroups)), launch.realise(order(seed, Joining::InGroups)));
    }
}

#[test]
fn the_realised_cost_is_that_of_all_nodes_and_every_pod_is_bound() {
    for seed in 0..100 {
        let launch = random_launch(seed);
        for joining in [Joining::Together, Joining::InGroups, Joining::OneByOne] {
            let realised = launch.realise(order(seed, joining));
            let extra = i64::try_from(realised.extra_nodes).unwrap();
            assert_eq!(realised.cost.0, (10 + extra) * PRICE, "seed {seed}");
            assert_eq!((realised.pods, realised.pending), (launch.input.pods.len(), 0), "seed {seed}");
            assert!(realised.where_planned <= realised.pods, "seed {seed}");
        }
    }
}

#[test]
fn nothing_is_returned_when_the_steps_are_used_up() {
    let launch = random_launch(0);
    let order = order(0, Joining::Together);
    assert_eq!(realise(&launch.input, &launch.plan, order, &mut |_| Plan::default(), &mut Steps::new(20)), None);
}

#[test]
fn the_work_for_one_pod_is_at_most_two_looks_at_each_node() {
    // 4,000 pods on 200 nodes: 20 pods of 200m fill a node of 4 CPUs.
    let mut launch = Launch::default();
    let shape = launch.shape(200, 0, 0);
    for node in 0..200 {
        launch.node(["a", "b", "c"][node % 3]);
        for _ in 0..20 {
            launch.pod(shape, node);
        }
    }
    let mut steps = Steps::new(10_000_000);
    let realised =
        realise(&launch.input, &launch.plan, order(1, Joining::Together), &mut |_| Plan::default(), &mut steps);
    assert_eq!(realised.expect("the steps suffice").pending, 0);
    // Below 4,000 × 200 × 2, and 200 nodes and one class are compiled.
    let used = 10_000_000 - steps.left();
    assert!((4_000..1_610_000).contains(&used), "{used} steps");
}

#[test]
fn the_work_ends_early_when_the_steps_do_not_suffice() {
    // 2,000 pods of 200m, each of its own workload, on 100 nodes that are all there: each pod looks at 100 nodes
    // twice, for which 80,000 steps do not suffice. A quarter of those are 100 pods, less than an eighth.
    let mut launch = Launch::default();
    let shape = launch.shape(200, 0, 0);
    for node in 0..100 {
        launch.node("a");
        for _ in 0..20 {
            launch.pod(shape, node);
        }
    }
    let mut steps = Steps::new(80_000);
    let replan = &mut |_: &_| Plan::default();
    assert_eq!(realise(&launch.input, &launch.plan, order(1, Joining::Together), replan, &mut steps), None);
    assert!((50_000..60_000).contains(&steps.left()), "{} steps are left", steps.left());
}
