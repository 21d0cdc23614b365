//! Relaxations: one constraint where one suffices, two where both are needed.

use model::labels::ARCH;
use model::{Effect, Operator, Requirement, Resources};

use crate::fixture::{Fixture, LARGE, asks, pool, selecting, taint};

#[test]
fn two_consecutive_obstacles_are_relaxed_as_a_pair() {
    // The pool is tainted, and its limit has 1 cpu left for a node of 2: neither relaxation helps
    // alone.
    let mut ml = pool("ml");
    ml.taints = vec![taint("dedicated", "ml", Effect::NoSchedule)];
    ml.limits = Resources::from_iter([("cpu", 1000)]);
    Fixture::new().pool(ml).pod("web", asks(500, 1)).only().fits_if(&[
        "it tolerates taint dedicated=ml:NoSchedule of NodePool ml and NodePool ml's limit cpu is raised from 1 to at least 2",
    ]);
}

#[test]
fn the_value_that_a_pool_would_have_to_allow_is_named() {
    // arm has 3.9 cpu, and large, which the pool excludes by its architecture alone, has 7.91.
    let mut general = pool("general");
    general.requirements.add(Requirement::new(ARCH, Operator::In, ["arm64".into()]));
    Fixture::new()
        .pool(general)
        .pod("web", asks(5000, 1))
        .only()
        .fits_if(&["cpu is at most 3.9", "NodePool general allows kubernetes.io/arch amd64 too"]);
}

#[test]
fn no_relaxation_is_listed_if_two_do_not_suffice() {
    let mut ml = pool("ml");
    ml.taints = vec![taint("dedicated", "ml", Effect::NoSchedule)];
    ml.limits = Resources::from_iter([("cpu", 1000)]);
    // Taint, label and limit: three.
    Fixture::new().pool(ml).pod("web", selecting(asks(500, 1), "disktype", "ssd")).only().fits_if(&[]);
}

#[test]
fn free_capacity_on_planned_nodes_counts() {
    // The planned large has 7.91 − 7.5 = 0.41 cpu left and the limits allow no other node.
    let mut general = pool("general");
    general.limits = Resources::from_iter([("nodes", 1)]);
    general.limits.set("cpu", 8000);
    Fixture::new().pool(general).pod("first", asks(7500, 1)).pod("second", asks(1000, 1)).launches(&[LARGE], "a", &[0]).only()
        .fits_if(&["NodePool general's limit nodes is raised from 1 to at least 2 and its limit cpu is raised from 8 to at least 10"]);
}

#[test]
fn the_free_amount_of_a_planned_node_is_the_bound() {
    // 2 cpu of the limit are left, which fits small: 1.9. The planned large has 7.91 − 5 = 2.91
    // left, which is more.
    let mut general = pool("general");
    general.limits = Resources::from_iter([("cpu", 10_000)]);
    Fixture::new()
        .pool(general)
        .pod("first", asks(5000, 1))
        .pod("second", asks(3000, 1))
        .launches(&[LARGE], "a", &[0])
        .only()
        .fits_if(&["cpu is at most 2.91", "NodePool general's limit cpu is raised from 10 to at least 12"]);
}

#[test]
fn every_pool_has_its_own_relaxation() {
    let (mut one, mut two) = (pool("one"), pool("two"));
    one.taints = vec![taint("team", "a", Effect::NoSchedule)];
    two.taints = vec![taint("team", "b", Effect::NoExecute), taint("soft", "", Effect::PreferNoSchedule)];
    Fixture::new().pool(one).pool(two).pod("web", selecting(asks(500, 1), ARCH, "amd64")).only().fits_if(&[
        "it tolerates taint team=a:NoSchedule of NodePool one",
        "it tolerates taint team=b:NoExecute of NodePool two",
    ]);
}
