use super::*;
use crate::nodeclaim::StageKind::{self, *};
use crate::nodeclaim::managed_claim::CloudRetry;
use crate::{ClaimOrder, InstructionId};
use cluster::testing::text;
use model::{CapacityType, Labels, LaunchOrder, MicroUsd, Millis, Requirements, Resources};

fn at(second: i64) -> Timestamp {
    Timestamp::from_millis(second * 1_000)
}

fn planned_machine() -> PlannedMachine {
    let claim = ClaimOrder {
        name: text("a"),
        pool: text("pool"),
        node_class: text("class"),
        labels: Labels::new(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        requirements: Requirements::default(),
        requests: Resources::new(),
        expire_after: None,
        termination_grace_period: None,
        pool_hash: None,
        class_hash: None,
    };
    let launch = LaunchOrder {
        cluster: text("c"),
        cluster_uid: text("uid-1"),
        claim: text("a"),
        attempt: 1,
        token: text("token"),
        pool: text("pool"),
        node_class: text("class"),
        capacity_type: CapacityType::Spot,
        options: Vec::new(),
        reservation: None,
        terms: text("subnet-a"),
        template: None,
        lane: model::PriorityLane::Pending,
        repeats: true,
    };
    PlannedMachine { claim, launch, pods: Vec::new(), reason: text("a pod waits") }
}

fn instance() -> LaunchedInstance {
    LaunchedInstance {
        instance_type: text("t.4"),
        zone: text("a"),
        capacity_type: CapacityType::Spot,
        price: MicroUsd(7),
    }
}

fn planned() -> ManagedClaim {
    ManagedClaim::from_decision(planned_machine(), DecisionId(1), text("1"), at(0))
}

fn launch(claim: &mut ManagedClaim, attempt: u32, second: i64) -> Option<LaunchOutcome> {
    claim.complete_launch(attempt, text("aws:///z/i-a"), instance(), at(second))
}

/// A NodeClaim that took the regular way to this stage, without a termination unless the stage is one.
fn in_stage(stage: StageKind) -> ManagedClaim {
    let mut claim = planned();
    let mut step = |enters: StageKind, done: &mut dyn FnMut(&mut ManagedClaim) -> bool| {
        let wanted = if stage.is_terminating() { enters <= Launched || enters == stage } else { enters <= stage };
        assert!(!wanted || done(&mut claim), "{enters:?}");
    };
    step(Creating, &mut |claim| claim.begin_creation(at(0)));
    step(Launching, &mut |claim| claim.begin_launch(at(0)));
    step(Launched, &mut |claim| launch(claim, 1, 0) == Some(LaunchOutcome::Kept));
    step(Registered, &mut |claim| claim.complete_registration(at(0)));
    step(Initialized, &mut |claim| claim.complete_initialization(at(0)));
    step(Draining, &mut |claim| claim.begin_drain(TerminationReason::DeletedByHand, DrainTerms::default(), at(0)));
    step(Terminating, &mut |claim| claim.begin_instance_termination(Some(TerminationReason::DeletedByHand), at(0)));
    step(Deleting, &mut |claim| claim.begin_deletion(Some(TerminationReason::DeletedByHand), at(0)));
    assert_eq!(claim.stage(), stage);
    claim
}

const ALL: [StageKind; 9] =
    [Planned, Creating, Launching, Launched, Registered, Initialized, Draining, Terminating, Deleting];

#[test]
fn a_transition_is_made_from_the_stages_that_permit_it_and_changes_nothing_elsewhere() {
    type Transition = fn(&mut ManagedClaim) -> bool;
    let reason = || Some(TerminationReason::InstanceGone);
    let transitions: [(Transition, &[StageKind], StageKind); 8] = [
        (|claim| claim.begin_creation(at(9)), &[Planned], Creating),
        (|claim| claim.begin_launch(at(9)), &[Planned, Creating], Launching),
        (|claim| claim.resume_launch(2, at(9)), &[Launched], Launching),
        (|claim| launch(claim, 1, 9).is_some(), &[Launching], Launched),
        (|claim| claim.complete_registration(at(9)), &[Launched], Registered),
        (|claim| claim.complete_initialization(at(9)), &[Registered], Initialized),
        (
            |claim| claim.begin_drain(TerminationReason::InstanceGone, DrainTerms::default(), at(9)),
            &[Launched, Registered, Initialized],
            Draining,
        ),
        (
            |claim| claim.begin_instance_termination(Some(TerminationReason::InstanceGone), at(9)),
            &[Launched, Registered, Initialized, Draining, Terminating],
            Terminating,
        ),
    ];
    for (number, (transition, permitted, enters)) in transitions.iter().enumerate() {
        for stage in ALL {
            let mut claim = in_stage(stage);
            let expected = if permitted.contains(&stage) { (true, *enters, at(9)) } else { (false, stage, at(0)) };
            assert_eq!((transition(&mut claim), claim.stage(), claim.since()), expected, "{number} from {stage:?}");
        }
    }
    for stage in ALL {
        let mut claim = in_stage(stage);
        assert!(claim.begin_deletion(reason(), at(9)) && claim.stage() == Deleting, "{stage:?}");
    }
}

#[test]
fn a_termination_keeps_its_first_reason_and_needs_one() {
    let mut claim = in_stage(Draining);
    assert!(claim.begin_instance_termination(Some(TerminationReason::InstanceGone), at(1)));
    assert!(claim.begin_deletion(Some(TerminationReason::InstanceGone), at(2)));
    assert_eq!(claim.termination_reason(), Some(&TerminationReason::DeletedByHand));
    let mut claim = in_stage(Initialized);
    assert!(!claim.begin_instance_termination(None, at(1)) && !claim.begin_deletion(None, at(1)));
    assert_eq!((claim.stage(), claim.termination_message()), (Initialized, Text::default()));
}

#[test]
fn a_stage_change_discards_the_instruction_in_flight_and_keeps_the_postponement() {
    let mut claim = in_stage(Launched);
    claim.record_instruction(InstructionId(1));
    claim.postpone(at(5));
    assert!(!claim.waits_for_time(at(1)) && !claim.may_be_instructed(at(5)));
    assert!(claim.complete_registration(at(1)));
    assert!(!claim.complete_instruction(InstructionId(1)));
    assert!(claim.waits_for_time(at(1)) && claim.may_be_instructed(at(5)));
}

#[test]
fn a_cancelled_launch_is_answered_before_its_instance_is_terminated() {
    let mut claim = in_stage(Creating);
    assert!(claim.cancel_launch(TerminationReason::DeletedByHand));
    assert!(!claim.begin_launch(at(1)), "the created NodeClaim is deleted");
    assert!(claim.begin_deletion(None, at(1)));

    let mut claim = in_stage(Launching);
    assert!(claim.cancel_launch(TerminationReason::DeletedByHand));
    assert_eq!((claim.stage(), claim.termination_reason()), (Launching, Some(&TerminationReason::DeletedByHand)));
    assert!(!claim.begin_next_attempt(3), "it is not launched once more");
    assert_eq!(launch(&mut claim, 1, 1), Some(LaunchOutcome::Cancelled(TerminationReason::DeletedByHand)));
    assert!(!in_stage(Launched).cancel_launch(TerminationReason::DeletedByHand));
}

#[test]
fn an_answer_counts_for_its_own_attempt_and_a_new_attempt_has_its_own_token() {
    let mut claim = in_stage(Launching);
    let first = claim.launch_order(at(1)).unwrap().machine.launch;
    assert_eq!((first.attempt, first.terms.as_ref(), first.repeats), (1, "subnet-a", true));
    assert!(claim.begin_next_attempt(2) && claim.is_launching(2) && !claim.is_launching(1));
    let second = claim.launch_order(at(1)).unwrap().machine.launch;
    assert_eq!((second.attempt, second.terms.as_ref(), second.repeats), (2, "", false));
    assert_ne!(second.token, first.token);
    assert_eq!((launch(&mut claim, 1, 2), claim.stage(), claim.provider_id().as_ref()), (None, Launching, ""));
    assert!(!claim.begin_next_attempt(2));
    assert_eq!(launch(&mut claim, 2, 2), Some(LaunchOutcome::Kept));
    assert_eq!((claim.instance(), claim.launch_order(at(2))), (Some(&instance()), None));
}

#[test]
fn a_drain_of_an_empty_node_returns_to_its_stage_if_the_node_is_occupied() {
    let terms = DrainTerms { deadline: Some(at(60)), only_if_empty: true, interrupted: false };
    let mut claim = in_stage(Launched);
    assert!(claim.complete_registration(at(6)) && claim.complete_initialization(at(7)));
    assert_eq!(claim.occupied_at(), None);
    assert!(claim.begin_drain(TerminationReason::DeletedByHand, terms, at(8)));
    assert_eq!((claim.occupied_at(), claim.drain_terms()), (None, Some(terms)));
    assert!(claim.cancel_drain(at(9)));
    assert_eq!((claim.stage(), claim.since(), claim.termination_reason()), (Initialized, at(9), None));
    assert_eq!((claim.occupied_at(), claim.drain_terms()), (Some(at(9)), None));
}

#[test]
fn a_drain_that_is_required_meanwhile_does_not_return() {
    let mut claim = in_stage(Initialized);
    let terms = DrainTerms { only_if_empty: true, ..DrainTerms::default() };
    assert!(claim.begin_drain(TerminationReason::DeletedByHand, terms, at(1)));
    assert!(claim.require_drain() && !claim.require_drain());
    assert_eq!(claim.drain_terms(), Some(DrainTerms::default()));
    assert!(!claim.cancel_drain(at(2)));
    assert_eq!((claim.stage(), claim.since()), (Draining, at(1)));
}

#[test]
fn a_cloud_call_is_retried_once_and_not_after_its_stage() {
    for stage in ALL {
        let has_call = matches!(stage, Launching | Terminating);
        assert_eq!(in_stage(stage).schedule_cloud_retry(at(1)), has_call, "{stage:?}");
    }
    let mut claim = in_stage(Terminating);
    assert!(claim.schedule_cloud_retry(at(5)));
    assert_eq!([claim.take_cloud_retry(at(4)), claim.take_cloud_retry(at(5))], [None, Some(CloudRetry::Terminate)]);
    assert_eq!(claim.take_cloud_retry(at(6)), None);
    assert!(claim.schedule_cloud_retry(at(7)) && claim.begin_deletion(None, at(6)));
    assert_eq!(claim.take_cloud_retry(at(7)), None);

    let mut claim = in_stage(Launched);
    assert!(claim.resume_launch(3, at(1)) && claim.schedule_cloud_retry(at(5)));
    assert_eq!(claim.take_cloud_retry(at(5)), Some(CloudRetry::Describe { attempt: 3 }));
}

#[test]
fn it_wakes_for_timeouts_retries_and_the_next_instruction() {
    let wakes = |claim: &ManagedClaim, second| {
        claim.next_wakeup(Millis::from_secs(300), Millis::from_secs(900), at(second)).map(Timestamp::as_millis)
    };
    let mut launching = in_stage(Launching);
    assert_eq!([wakes(&launching, 1), wakes(&launching, 400)], [Some(300_000); 2]);
    launching.schedule_cloud_retry(at(60));
    assert_eq!(wakes(&launching, 1), Some(60_000));
    launching.cancel_launch(TerminationReason::DeletedByHand);
    launching.take_cloud_retry(at(60));
    assert_eq!(wakes(&launching, 61), None);
    assert_eq!([1, 899, 900].map(|second| wakes(&in_stage(Launched), second)), [Some(900_000), Some(900_000), None]);
    for (stage, expected) in [(Registered, Some(5_000)), (Draining, Some(5_000)), (Initialized, None)] {
        let mut claim = in_stage(stage);
        claim.postpone(at(5));
        assert_eq!([wakes(&claim, 4), wakes(&claim, 5)], [expected, None], "{stage:?}");
        claim.record_instruction(InstructionId(1));
        assert_eq!(wakes(&claim, 4), None, "the answer comes first");
    }
}
