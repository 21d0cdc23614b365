use model::CapacityType;

use super::*;

fn machine(id: &str, state: InstanceState) -> Instance {
    Instance {
        id: id.into(),
        provider_id: "aws:///eu-west-1a/i".into(),
        instance_type: "m5.large".into(),
        zone: "eu-west-1a".into(),
        capacity_type: CapacityType::Spot,
        state,
        cluster: "c1".into(),
        cluster_uid: "uid-1".into(),
        claim: "web-abcde".into(),
        pool: "web".into(),
        launched: Timestamp::from_millis(0),
        details: cloud::provider::InstanceDetails::default(),
    }
}

/// Events for listings of instance `i`, each given as time and state (`None`: missing).
fn reported(listings: &[(i64, Option<InstanceState>)]) -> Vec<(i64, &'static str)> {
    let mut watch = InstanceWatcher::default();
    let mut reported = Vec::new();
    for (at, state) in listings {
        let listed = state.map(|state| machine("i", state)).into_iter().collect();
        for event in watch.compare(listed) {
            let what = match event {
                CloudEvent::Running(_) => "running",
                CloudEvent::Interrupted { .. } => "interrupted",
                CloudEvent::Terminated(_) => "terminated",
            };
            reported.push((*at, what));
        }
    }
    reported
}

#[test]
fn each_state_change_is_reported_once() {
    use InstanceState::{Pending, Running, ShuttingDown, Terminated};
    let life = [
        (0, Some(Pending)),
        (10, Some(Running)),
        (20, Some(Running)),
        (30, Some(ShuttingDown)),
        (40, Some(Terminated)),
        (50, Some(Terminated)),
        (60, None),
        (600_070, None),
    ];
    assert_eq!(reported(&life), [(10, "running"), (40, "terminated")]);
}

#[test]
fn a_missing_instance_is_not_reported_as_terminated() {
    use InstanceState::Running;
    // For an hour and longer; callers describe it by id.
    let listings = [(0, Some(Running)), (10_000, None), (610_000, None), (7_200_000, None)];
    assert_eq!(reported(&listings), [(0, "running")]);
}

#[test]
fn a_relisted_instance_is_reported_again() {
    use InstanceState::{Running, Terminated};
    // Repeated events are idempotent.
    let listings = [(0, Some(Running)), (10, None), (20, Some(Running)), (30, None), (40, Some(Terminated))];
    assert_eq!(reported(&listings), [(0, "running"), (20, "running"), (40, "terminated")]);
}

#[test]
fn a_listing_is_due_every_ten_seconds() {
    let mut watch = InstanceWatcher::default();
    let due = [0, 1, 9_999, 10_000, 19_999, 25_000].map(|at| watch.is_due(Timestamp::from_millis(at)));
    assert_eq!(due, [true, false, false, true, false, true]);
}
