//! Events of pods that are planned, or have no place.

use std::collections::BTreeSet;

use super::*;
use crate::Decision;
use crate::tests::one_machine;

/// The decision among `effects`.
pub(super) fn decision_of(effects: &[Effect]) -> Option<Decision> {
    effects.iter().find_map(|effect| match effect {
        Effect::Call(ClusterCall::RecordDecision(decision)) => Some(decision.as_ref().clone()),
        _ => None,
    })
}

#[test]
fn pods_without_a_place_get_an_event_with_the_reasons() {
    let mut world = Fixture::new(snapshot(&[]), Settings::default());
    let waiting = PodRecord { uid: text("u-1"), ..pod("a", 100) };
    world.observe(2_000, Observation::upsert(Object::Pod(waiting)));
    let decision = decision_of(&world.tick(3_000)).expect("a decision");
    world.tick(4_000);
    let [event] = world.events.as_slice() else { panic!("{:?}", world.events) };
    assert_eq!(
        (event.reason, event.reason.is_warning(), event.uid.as_ref()),
        (EventReason::FailedScheduling, true, "u-1")
    );
    assert_eq!(event.message.as_ref(), format!("no pool is large enough (decision {})", decision.id.0));
}

#[test]
fn later_decisions_with_the_same_reasons_repeat_the_event_of_a_pod_after_five_minutes() {
    let mut world = Fixture::new(snapshot(&[]), Settings::default());
    let mut decisions = BTreeSet::new();
    for second in 2..400 {
        // Another pod every ten seconds: all of them are planned again.
        let pod = pod(&format!("p{}", second / 10), 100 + second / 10);
        let observation = Observation::upsert(Object::Pod(pod));
        let mut effects = world.handle(second * 1_000, Event::Observed(observation));
        effects.extend(world.tick(second * 1_000 + 500));
        decisions.extend(decision_of(&effects).map(|decision| decision.id.0));
    }
    let of_first: Vec<String> = world
        .said(EventReason::FailedScheduling)
        .into_iter()
        .filter(|said| said.starts_with("pod/default/p0:"))
        .collect();
    assert!(decisions.len() > 10, "{decisions:?}");
    assert_eq!(of_first.len(), 2, "{of_first:?}");
}

#[test]
fn a_planned_pod_names_the_decision_and_the_price_of_its_machine() {
    let mut world = Fixture::planned_by(one_machine, snapshot(&[]), Settings::default());
    world.observe(2_000, Observation::upsert(Object::Pod(PodRecord { uid: text("u-1"), ..pod("a", 100) })));
    let decision = decision_of(&world.tick(3_000)).expect("a decision");
    world.tick(4_000);
    let claim = &decision.launches[0].claim.name;
    // The best option is a t.2 for $0.02 an hour.
    let expected = format!("pod/default/a: is planned onto {claim} (decision {}, $0.02/h)", decision.id.0);
    assert_eq!(world.said(EventReason::Nominated), [expected]);
    assert!(!EventReason::Nominated.is_warning());
}
