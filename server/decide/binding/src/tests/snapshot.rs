//! Places for pods that leave their nodes.

use model::Pod;

use super::fixture::Launch;
use crate::ClusterSnapshot;

/// Nodes of 4 CPUs: `a` with 1 CPU free and `b` with 2; pods of 1, 2 and 3 CPUs, those of 2 and 3 on the nodes.
fn cluster() -> Launch {
    let mut launch = Launch::default();
    let shapes = [launch.shape(1000, 1, 0), launch.shape(2000, 1, 0), launch.shape(3000, 1, 0)];
    let node = launch.node("a");
    for shape in shapes {
        launch.pod(shape, node);
    }
    launch.existing("a", "a", &[(shapes[2], 0)]);
    launch.existing("b", "a", &[(shapes[1], 0)]);
    // A node that takes no pods, so that the pod of 1 CPU has a class.
    launch.existing("c", "a", &[(shapes[0], 0)]);
    launch
}

/// The snapshot, and the classes of the pods of 1, 2 and 3 CPUs.
fn snapshot(launch: &Launch) -> (ClusterSnapshot<'_>, [u32; 3]) {
    let movable: Vec<Vec<Option<&Pod>>> = [2, 1, 0].map(|pod| vec![launch.input.pods.get(pod)]).to_vec();
    let snapshot = ClusterSnapshot::new(&launch.input, &movable, vec![0, 1]);
    let classes = [2, 1, 0].map(|node| snapshot.class(node, 0).unwrap());
    (snapshot, classes)
}

#[test]
fn a_pod_fits_where_exactly_its_requests_are_free_and_no_larger_one_does() {
    let launch = cluster();
    let (mut snapshot, [_, medium, large]) = snapshot(&launch);
    snapshot.begin_trial();
    assert_eq!((snapshot.may_have_room(medium), snapshot.may_have_room(large)), (true, false));
    assert_eq!(snapshot.place(large, 2, |_| true), None);
    assert_eq!(snapshot.place(medium, 2, |_| true), Some(1));
    // What was free at first is no longer, and is again.
    assert_eq!(snapshot.place(medium, 2, |_| true), None);
    snapshot.take_back(medium, 1);
    assert_eq!(snapshot.place(medium, 2, |_| true), Some(1));
}

#[test]
fn nodes_that_a_trial_fills_are_tried_again_after_it() {
    let launch = cluster();
    let (mut snapshot, [small, ..]) = snapshot(&launch);
    snapshot.begin_trial();
    let mut place = || snapshot.place(small, 2, |_| true);
    assert_eq!([place(), place(), place(), place()], [Some(0), Some(1), Some(1), None]);
    for node in [1, 0, 1] {
        snapshot.take_back(small, node);
    }
    snapshot.begin_trial();
    let mut place = || snapshot.place(small, 2, |_| true);
    assert_eq!([place(), place(), place(), place()], [Some(0), Some(1), Some(1), None]);
}
