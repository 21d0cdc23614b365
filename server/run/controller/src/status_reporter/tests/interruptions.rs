//! Events of what the cloud says about instances.

use super::pods::decision_of;
use super::*;
use crate::NoticeAnswer;
use model::interruption::InterruptionKind;
use model::labels::CAPACITY_TYPE;

/// What is recorded when the cloud says this about the instance of `m0`, and the number of the decision.
fn told(kind: InterruptionKind) -> (Fixture, Option<u64>) {
    let mut shown = snapshot(&["m0"]);
    if kind == InterruptionKind::CapacityReservationInterrupted {
        shown.claims[0].labels.insert(text(CAPACITY_TYPE), text("reserved"));
    }
    let mut world = Fixture::new(shown, Settings::default());
    world.events.clear();
    let provider_id = claim("m0").provider_id;
    let mut effects = world.handle(2_000, Event::Interrupted { provider_id, kind, ends: None });
    let asked = effects.iter().find_map(|effect| match effect {
        Effect::Call(ClusterCall::ConfirmNotices(notices)) => Some(notices.clone()),
        _ => None,
    });
    if let Some(asked) = asked {
        let answer = NoticeAnswer::Shown(asked.iter().cloned().collect());
        effects.extend(world.handle(2_000, Event::NoticesAnswered { asked, answer }));
    }
    // The pass after the notice.
    world.tick(4_000);
    (world, decision_of(&effects).map(|decision| decision.id.0))
}

#[test]
fn every_kind_is_recorded_on_node_claim_and_node() {
    use EventReason as Reason;
    use InterruptionKind as Kind;
    let cases = [
        (Kind::SpotInterrupted, Reason::SpotInterrupted, "SpotInterrupted"),
        (Kind::RebalanceRecommendation, Reason::SpotRebalanceRecommendation, "SpotRebalanceRecommendation"),
        (
            Kind::CapacityReservationInterrupted,
            Reason::CapacityReservationInstanceInterrupted,
            "CapacityReservationInstanceInterrupted",
        ),
        (Kind::ScheduledChange, Reason::InstanceUnhealthy, "InstanceUnhealthy"),
        (Kind::StatusCheckFailed, Reason::InstanceUnhealthy, "InstanceUnhealthy"),
        (Kind::InstanceStopped, Reason::InstanceStopping, "InstanceStopping"),
        (Kind::InstanceTerminated, Reason::InstanceTerminating, "InstanceTerminating"),
    ];
    for (kind, reason, name) in cases {
        let (world, _) = told(kind);
        let expected = [format!("nodeclaim/m0: {kind}"), format!("node/n-m0: {kind}")];
        assert_eq!((world.said(reason), reason.as_str()), (expected.to_vec(), name));
        assert!(reason.is_warning());
    }
}

#[test]
fn the_removal_of_an_interrupted_machine_names_its_decision_and_its_price() {
    let (world, decision) = told(InterruptionKind::SpotInterrupted);
    let decision = decision.expect("a decision");
    let said = format!(
        "nodeclaim/m0: the machine is being removed: the cloud reclaims the spot instance (decision {decision}, $0.02/h)"
    );
    assert_eq!(world.said(EventReason::TerminatingOnInterruption), [said]);
    let (world, decision) = told(InterruptionKind::RebalanceRecommendation);
    assert_eq!((world.said(EventReason::TerminatingOnInterruption), decision), (Vec::new(), None), "it stays");
}
