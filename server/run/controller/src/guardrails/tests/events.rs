//! Events of what is decided about machines, with the number of the decision and the price.
//!
//! The NodePool has t.2 with 2 cores at $0.02 an hour and t.4 with 4 cores at $0.04. consolidateAfter is 30 s, and all machines
//! join at 0 s.

use std::collections::BTreeMap;

use super::consolidation::dear;
use super::drift;
use super::fixture::{Fixture, real, snapshot};
use super::removals::nodes_vanish;
use crate::guardrails::{DisabledGuards, Guard};
use crate::{EventReason, Settings};
use cluster::testing::{bound_to, pod, pool, text};
use cluster::{ClusterSnapshot, Object};
use model::disruption_policy::ConsolidationPolicy;
use model::{MicroUsd, Resources, Timestamp};

/// The Events of this reason, as `object: message`.
fn said(world: &Fixture, reason: EventReason) -> Vec<String> {
    let events = world.done.events.iter().filter(|event| event.reason == reason);
    events.map(|event| format!("{}: {}", event.subject, event.message)).collect()
}

/// The same message on the NodeClaim and the Node of `m0`.
fn on_m0(message: &str) -> Vec<String> {
    vec![format!("nodeclaim/m0: {message}"), format!("node/n-m0: {message}")]
}

/// Machines that validation kept by type of consolidation, and replacements that failed by reason.
fn failures(world: &Fixture) -> [Vec<(&'static str, u64)>; 2] {
    let view = world.controller.view(&text("c")).unwrap();
    let all = |counts: &BTreeMap<&'static str, u64>| counts.iter().map(|(kind, count)| (*kind, *count)).collect();
    [all(&view.measured.lifecycle.failed_validations), all(&view.measured.lifecycle.failed_replacements)]
}

fn consolidating(shown: ClusterSnapshot) -> Fixture {
    let mut world = Fixture::consolidating(DisabledGuards::default(), |_| {});
    world.connect("c", shown);
    world
}

#[test]
fn the_removal_of_an_empty_machine_names_its_decision_and_its_price_to_node_node_claim_and_agent() {
    let mut world = Fixture::with(1, Vec::new(), |_| {});
    world.stuck = Some("m");
    world.run_to(60_000);
    let origin = format!("(decision {}, $0.02/h)", world.done.decisions[0].id.0);
    let why = &world.done.decisions[0].removals[0].reason;
    let message = format!("the machine is being terminated: {why} {origin}");
    assert_eq!(said(&world, EventReason::DisruptionTerminating), on_m0(&message));
    assert_eq!(world.done.drain_reasons, [format!("{why} {origin}")]);
}

#[test]
fn a_consolidated_machine_gets_an_event_with_savings_decision_and_price() {
    let mut world = consolidating(dear());
    world.run_to(35_000);
    let decision = world.done.decisions[0].id.0;
    let message = format!(
        "the pods of node n-m0 fit on other nodes and 1 cheaper machines: its command saves $0.02 an hour \
         (decision {decision}, $0.04/h)"
    );
    assert_eq!(said(&world, EventReason::ConsolidationCandidate), on_m0(&message));
    assert_eq!(said(&world, EventReason::ConsolidationApproved), Vec::<String>::new(), "the policy is not Balanced");
}

#[test]
fn the_policy_balanced_approves_what_it_consolidates() {
    let mut shown = dear();
    shown.pools[0].disruption.policy = ConsolidationPolicy::Balanced;
    let mut world = consolidating(shown);
    world.run_to(35_000);
    let approved = said(&world, EventReason::ConsolidationApproved);
    assert_eq!(approved.len(), 2, "{approved:?}");
    assert!(approved[0].starts_with("nodeclaim/m0: consolidationPolicy Balanced accepts the saving: "), "{approved:?}");
    assert!(approved[0].ends_with(&format!(" (decision {}, $0.04/h)", world.done.decisions[0].id.0)), "{approved:?}");
}

#[test]
fn a_replacement_says_that_it_is_launched_and_that_a_disruption_waits_for_it() {
    let mut world = consolidating(dear());
    world.slow_cloud = true;
    world.run_to(35_000);
    let new = format!("nodeclaim/{}", world.done.launches[0].1.claim);
    let origin = format!("(decision {}, $0.02/h)", world.done.decisions[0].id.0);
    let launching = [format!("{new}: is launched in place of NodeClaim m0 {origin}")];
    assert_eq!(said(&world, EventReason::DisruptionLaunching), launching);
    assert_eq!(said(&world, EventReason::DisruptionWaitingReadiness), Vec::<String>::new());

    let mut world = consolidating(dear());
    world.never_joins = true;
    world.run_to(35_000);
    let new = format!("nodeclaim/{}", world.done.launches[0].1.claim);
    let origin = format!("(decision {}, $0.02/h)", world.done.decisions[0].id.0);
    let waiting = [format!("{new}: the disruption of NodeClaim m0 waits until its Node is initialized {origin}")];
    assert_eq!(said(&world, EventReason::DisruptionWaitingReadiness), waiting);
}

#[test]
fn a_machine_that_is_launched_for_pods_disrupts_nothing() {
    let mut world = Fixture::with(0, vec![pod("a", 500)], |_| {});
    world.never_joins = true;
    world.run_to(35_000);
    assert_eq!(said(&world, EventReason::Launched).len(), 1);
    for reason in [EventReason::DisruptionLaunching, EventReason::DisruptionWaitingReadiness] {
        assert_eq!(said(&world, reason), Vec::<String>::new());
    }
}

#[test]
fn a_plan_that_comes_too_late_is_rejected_because_of_churn() {
    let mut world = consolidating(dear());
    world.controller.stalled_disruption = true;
    world.run_to(35_000);
    world.observe("c", Object::Pod(bound_to("m0", pod("q", 1_400))));
    world.run_to(40_000);
    let effects = world.controller.plan_waiting(Timestamp::from_millis(40_000));
    world.carry_out(effects);
    world.run_to(45_000);
    let message = "its removal by consolidation is not carried out (churn): the cluster has changed since the plan was \
                   made ($0.04/h)";
    assert_eq!(said(&world, EventReason::ConsolidationRejected), on_m0(message));
    assert_eq!(failures(&world), [vec![("single", 1)], vec![]]);
}

#[test]
fn a_replacement_that_does_not_join_rejects_the_consolidation_with_the_number_of_its_decision() {
    let mut world = consolidating(dear());
    world.never_ready = true;
    world.run_to(660_000);
    let decision = world.done.decisions[0].id.0;
    let message = format!(
        "its removal by consolidation is not carried out (scheduling): its capacity was not there after 10 minutes \
         (decision {decision}, $0.04/h)"
    );
    assert_eq!(said(&world, EventReason::ConsolidationRejected), on_m0(&message));
    assert_eq!(failures(&world), [vec![], vec![("underutilized", 1)]]);
}

#[test]
fn a_plan_without_room_for_its_machine_is_rejected_because_of_scheduling() {
    // The t.4 that is there and the t.2 that replaces it have 6 cores together.
    let mut shown = dear();
    shown.pools[0].pool.limits = Resources::from_iter([("cpu", 5_999)]);
    let mut world = consolidating(shown);
    world.run_to(35_000);
    let message = "its removal by consolidation is not carried out (scheduling): the limits of a NodePool leave no room \
                   for the new machines ($0.04/h)";
    assert_eq!(said(&world, EventReason::ConsolidationRejected), on_m0(message));
}

#[test]
fn a_plan_that_a_guardrail_limits_is_rejected_because_of_budget() {
    // The new machine costs $0.02 an hour.
    let less = |settings: &mut Settings| settings.guardrails.launches.cluster.usd_per_hour = MicroUsd(19_999);
    // A plan keeps within what the limits leave, unless others take that meanwhile, or it is not told of them.
    let mut world = Fixture::consolidating(DisabledGuards::only(Guard::ReservedRemoval), less);
    world.connect("c", dear());
    world.run_to(35_000);
    let message = "its removal by consolidation is not carried out (budget): a guardrail holds back a launch of the plan \
                   ($0.04/h)";
    assert_eq!(said(&world, EventReason::ConsolidationRejected), on_m0(message));
}

#[test]
fn a_replacement_that_fails_for_another_reason_than_consolidation_blocks_the_disruption() {
    let mut world = Fixture::planned_by(real, |_| {});
    world.refused = true;
    world.connect("c", drift::cluster(1, pool()));
    world.run_to(20_000);
    let message = "its replacement as Drifted has ended: machine ";
    let blocked = said(&world, EventReason::DisruptionBlocked);
    let of_replacement: Vec<&String> = blocked.iter().filter(|said| said.contains(message)).collect();
    assert!(
        of_replacement[0].starts_with("nodeclaim/m0: ") && of_replacement[0].ends_with(" ($0.02/h)"),
        "{blocked:?}"
    );
    assert!(of_replacement[1].starts_with("node/n-m0: "), "{blocked:?}");
}

#[test]
fn a_machine_whose_pods_have_no_cheaper_place_is_unconsolidatable() {
    let mut world = consolidating(snapshot(1, vec![bound_to("m0", pod("p0", 1_800))]));
    world.run_to(400_000);
    let found = said(&world, EventReason::Unconsolidatable);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("nodeclaim/m0: ") && found[1].starts_with("node/n-m0: "), "{found:?}");
    assert!(found[0].ends_with(" ($0.02/h)"), "{found:?}");
}

#[test]
fn a_removal_that_waits_for_an_operator_is_recorded_on_its_node_claim() {
    let world = nodes_vanish();
    let held = said(&world, EventReason::RemovalHeld);
    let of_m0 = held.iter().find(|said| said.starts_with("nodeclaim/m0: ")).expect("an Event");
    let message = "nodeclaim/m0: the removal of the machine waits until its Node is reported again, ";
    assert!(of_m0.starts_with(message) && of_m0.ends_with(" ($0.02/h)"), "{of_m0}");
    assert!(EventReason::RemovalHeld.is_warning());
    assert!(!held.iter().any(|said| said.starts_with("nodeclaim/m9: ")), "it is not removed");
}
