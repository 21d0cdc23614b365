use engine::model::CapacityType;

use super::*;

fn machine(id: &str, state: InstanceState) -> Instance {
    let text = Text::from;
    Instance {
        id: text(id),
        provider_id: text("aws:///eu-west-1a/i"),
        instance_type: text("m5.large"),
        zone: text("eu-west-1a"),
        capacity_type: CapacityType::Spot,
        state,
        cluster: text("c1"),
        cluster_uid: text("uid-1"),
        claim: text("web-abcde"),
        pool: text("web"),
        launched: Timestamp(0),
    }
}

/// What is told of listings of machine `i`, each given as moment and state (`None`: it is missing).
fn told(listings: &[(i64, Option<InstanceState>)]) -> Vec<(i64, &'static str)> {
    let mut watch = Watch::default();
    let mut told = Vec::new();
    for (at, state) in listings {
        let listed = state.map(|state| machine("i", state)).into_iter().collect();
        for event in watch.compare(listed) {
            let what = match event {
                CloudEvent::Running(_) => "running",
                CloudEvent::Interrupted { .. } => "interrupted",
                CloudEvent::Terminated(_) => "terminated",
            };
            told.push((*at, what));
        }
    }
    told
}

#[test]
fn each_turn_of_a_machine_s_life_is_told_once() {
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
    assert_eq!(told(&life), [(10, "running"), (40, "terminated")]);
}

#[test]
fn a_machine_that_listings_lack_is_not_said_to_be_gone() {
    use InstanceState::Running;
    // For an hour and longer: whoever needs to know asks by its id.
    let listings = [(0, Some(Running)), (10_000, None), (610_000, None), (7_200_000, None)];
    assert_eq!(told(&listings), [(0, "running")]);
}

#[test]
fn a_machine_that_is_listed_again_is_told_again() {
    use InstanceState::{Running, Terminated};
    // What follows from an event that comes twice follows once.
    let listings = [(0, Some(Running)), (10, None), (20, Some(Running)), (30, None), (40, Some(Terminated))];
    assert_eq!(told(&listings), [(0, "running"), (20, "running"), (40, "terminated")]);
}

#[test]
fn a_listing_is_due_every_ten_seconds() {
    let mut watch = Watch::default();
    let due = [0, 1, 9_999, 10_000, 19_999, 25_000].map(|at| watch.is_due(Timestamp(at)));
    assert_eq!(due, [true, false, false, true, false, true]);
}
