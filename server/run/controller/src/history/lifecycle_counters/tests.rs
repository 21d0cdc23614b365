use model::removal::RemovalReason;
use model::{RefusedOption, Timestamp};

use super::*;
use crate::testing::SynchronousController;
use crate::tests::{controller_with, instructions, launched, order_for_a};
use crate::{ClusterCall, Effect, Event, Instruction, Removal};
use cluster::replacement::{RecordedReplacement, Replacement};
use cluster::testing::{bound_to, claim, key, node, pod, pool, text};
use cluster::{ClusterSnapshot, Key, Observation};

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn counters(controller: &SynchronousController) -> Arc<LifecycleCounters> {
    controller.view(&text("c")).map(|view| view.measured.lifecycle).unwrap_or_default()
}

fn empty_cluster() -> SynchronousController {
    controller_with(ClusterSnapshot { pools: vec![pool()], ..ClusterSnapshot::default() })
}

/// A machine in use, which was there before the controller.
fn with_machine() -> SynchronousController {
    controller_with(ClusterSnapshot {
        pools: vec![pool()],
        claims: vec![claim("m0")],
        nodes: vec![node("m0")],
        pods: vec![bound_to("m0", pod("a", 1_000))],
        ..ClusterSnapshot::default()
    })
}

#[test]
fn a_nodeclaim_is_counted_when_it_is_created() {
    let mut controller = empty_cluster();
    let order = order_for_a(&mut controller);
    let created = || BTreeMap::from([(("provisioned", text::<PoolName>("p")), 1)]);
    assert_eq!(counters(&controller).created, created());
    controller.handle(launched(&order, "t.2", &[]), at(6_000));
    controller.handle(Event::Tick, at(7_000));
    assert_eq!(counters(&controller).created, created(), "once");
    assert_eq!(counters(&controller).terminated, BTreeMap::new());
}

#[test]
fn what_was_there_before_is_no_creation_and_its_end_is_counted_with_its_reason() {
    let mut controller = with_machine();
    assert_eq!(*counters(&controller), LifecycleCounters::default());
    let gone = Observation::Delete(Key::Pod(key("a")));
    controller.handle(Event::Observed(gone), at(60_000));
    let effects = controller.handle(Event::Tick, at(120_000));
    let decision = effects.iter().find_map(|effect| match effect {
        Effect::Call(ClusterCall::RecordDecision(decision)) => Some(decision.id),
        _ => None,
    });
    let effects = controller.handle(Event::Recorded(decision.expect("it is empty")), at(120_000));
    let (drain, _) = instructions(&effects)[0];
    let empty = || BTreeMap::from([(("empty", text::<PoolName>("p"), CapacityType::Spot), 1)]);
    assert_eq!(counters(&controller).disrupted, empty());
    controller.handle(Event::InstructionAcked(drain), at(121_000));
    assert_eq!(counters(&controller).nodes_drained, BTreeMap::from([(text::<PoolName>("p"), 1)]));
    let provider_id = text("aws:///z/i-m0");
    let effects = controller.handle(Event::InstanceGone(provider_id), at(122_500));
    let (delete, instruction) = instructions(&effects)[0];
    assert!(matches!(instruction, Instruction::DeleteClaim { .. }), "{instruction:?}");
    controller.handle(Event::InstructionAcked(delete), at(123_000));
    for key in [Key::Claim(text("m0")), Key::Node(text("n-m0"))] {
        let observation = Observation::Delete(key);
        controller.handle(Event::Observed(observation), at(123_500));
    }
    let counters = counters(&controller);
    let place = (text::<PoolName>("p"), CapacityType::Spot, text::<Zone>("z"));
    assert_eq!(counters.terminated, BTreeMap::from([(place, 1)]));
    assert_eq!(counters.nodes_terminated, BTreeMap::from([((text::<PoolName>("p"), text::<Zone>("z")), 1)]));
    let removed = DisruptionKind { decision: "delete", reason: "empty", consolidation_type: "empty" };
    assert_eq!(counters.disruption_decisions, BTreeMap::from([(removed, 1)]));
    assert_eq!(counters.disrupted, empty());
    // From 120 s to 123 s or 123.5 s: within four seconds.
    assert_eq!((counters.termination_counts[2], counters.termination_counts.iter().sum::<u64>()), (1, 1));
    let of_pool = &counters.node_terminations[&text::<PoolName>("p")];
    assert_eq!((of_pool.count(), of_pool.sum()), (1, counters.termination_time));
}

#[test]
fn launches_that_the_cloud_refused_are_counted_by_zone_and_code() {
    let mut counter = LifecycleCounter::default();
    let option = |zone| RefusedOption::without_capacity(text("t.2"), text(zone));
    let capacity = LaunchFailure::InsufficientCapacity { unavailable: vec![option("z"), option("y"), option("z")] };
    counter.count_launch_failure(CapacityType::Spot, &capacity);
    let refused = LaunchFailure::Refused { code: text("Odd"), message: String::new(), retryable: false };
    counter.count_launch_failure(CapacityType::OnDemand, &refused);
    let code = || text::<Text>("InsufficientInstanceCapacity");
    let expected = [
        ((text::<Zone>(""), CapacityType::OnDemand, text::<Text>("Odd")), 1),
        ((text("y"), CapacityType::Spot, code()), 1),
        ((text("z"), CapacityType::Spot, code()), 2),
    ];
    assert_eq!(counter.counters().launch_failures, BTreeMap::from(expected));
}

fn decision(id: u64, reason: RemovalReason, removals: &[&str], replaced: &[(&str, DisruptionReason)]) -> Decision {
    let removal = |claim: &&str| Removal { claim: text(claim), node: text("n"), reason: text("") };
    let begun = |(claim, reason): &(&str, DisruptionReason)| RecordedReplacement {
        claim: text(claim),
        pool: text("p"),
        begun: Replacement { reason: *reason, since: at(0), moves_pods: true },
        places: Vec::new(),
    };
    Decision {
        removals: removals.iter().map(removal).collect(),
        replacements: replaced.iter().map(begun).collect(),
        ..Decision::new(DecisionId(id), text("c"), DecisionReason::Disruption(reason), 0, at(0))
    }
}

fn kinds(decisions: &[Decision]) -> Vec<(&'static str, &'static str, &'static str, u64)> {
    let mut counter = LifecycleCounter::default();
    counter.count_decisions(decisions.iter().rev());
    let counters = counter.counters();
    let counts = counters.disruption_decisions.iter();
    counts.map(|(kind, count)| (kind.decision, kind.reason, kind.consolidation_type, *count)).collect()
}

#[test]
fn consolidation_counts_once_when_it_begins_by_how_many_nodes_it_removes() {
    let underutilized = |claim| (claim, DisruptionReason::Underutilized);
    let both = [underutilized("m0"), underutilized("m1")];
    let begun = decision(1, RemovalReason::Underutilized, &[], &both);
    let removed = decision(2, RemovalReason::Underutilized, &["m0", "m1"], &[]);
    assert_eq!(kinds(&[begun, removed]), [("delete", "underutilized", "multi", 1)]);
    // One that another node joins whose drift is noted with it.
    let one = decision(1, RemovalReason::Underutilized, &[], &[underutilized("m0"), ("m5", DisruptionReason::Drifted)]);
    assert_eq!(kinds(&[one]), [("delete", "underutilized", "single", 1)]);
}

#[test]
fn drift_replaces_what_had_a_replacement_and_deletes_what_needed_none() {
    let noted = decision(1, RemovalReason::Empty, &["m9"], &[("m0", DisruptionReason::Drifted)]);
    let decisions =
        [noted, decision(2, RemovalReason::Drifted, &["m0"], &[]), decision(3, RemovalReason::Drifted, &["m1"], &[])];
    let expected = [("delete", "drifted", "", 1), ("delete", "empty", "empty", 1), ("replace", "drifted", "", 1)];
    assert_eq!(kinds(&decisions), expected);
}
