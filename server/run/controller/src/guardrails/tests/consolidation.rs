//! Machines whose pods fit elsewhere at a lower price are removed, or replaced by cheaper ones.
//!
//! The NodePool has t.2 with 2 cores at $0.02 an hour and t.4 with 4 cores at $0.04. consolidateAfter is 30 s, and
//! all machines join at 0 s: the first plan of disruption is due at 30 s. A pass runs every 10 s.

use std::sync::Arc;

use super::fixture::{Fixture, freeze, snapshot};
use crate::disruption_allowance::DisruptionShare;
use crate::guardrails::{DisabledGuards, Guard, Mode};
use crate::provisioning::PlanNumber;
use crate::search_allowance::{SearchDemand, SearchSettings};
use crate::{DecisionReason, OutgoingNode, RegionEvent, Settings};
use cluster::testing::{bound_to, claim, key, labels, pod, pool, pool_with, text};
use cluster::{ClusterSnapshot, DoNotDisrupt, Key, Object, PodBudgetRecord, PodRecord, PoolRecord};
use model::disruption_policy::{BudgetLimit, ConsolidationPolicy};
use model::labels::{CAPACITY_TYPE, INSTANCE_TYPE};
use model::removal::RemovalReason;
use model::{CapacityType, LabelSelector, MicroUsd, Resources, Timestamp};

/// Two machines, each with a pod of half a core of its 2.
fn half_empty(pool: PoolRecord) -> ClusterSnapshot {
    let bound = |number: usize| bound_to(&format!("m{number}"), pod(&format!("p{number}"), 500));
    ClusterSnapshot { pools: vec![pool], ..snapshot(2, (0..2).map(bound).collect()) }
}

/// One on-demand t.4 with a pod of half a core, for which a t.2 is enough.
pub(super) fn dear() -> ClusterSnapshot {
    let mut pool = pool();
    let mut catalogue = pool.pool.catalogue.as_ref().clone();
    for offering in catalogue.types.iter_mut().flat_map(|kind| &mut kind.offerings) {
        offering.capacity_type = CapacityType::OnDemand;
    }
    pool.pool.catalogue = Arc::new(catalogue);
    let mut shown = snapshot(1, vec![bound_to("m0", pod("p0", 500))]);
    let amounts = Resources::from_iter([("cpu", 4_000), ("pods", 20)]);
    let (claim, node) = (&mut shown.claims[0], &mut shown.nodes[0]);
    for labels in [&mut claim.labels, &mut node.labels] {
        labels.insert(text(INSTANCE_TYPE), text("t.4"));
        labels.insert(text(CAPACITY_TYPE), text("on-demand"));
    }
    (claim.capacity, claim.allocatable) = (amounts.clone(), amounts.clone());
    (node.capacity, node.allocatable) = (amounts.clone(), amounts);
    ClusterSnapshot { pools: vec![pool], ..shown }
}

fn world(shown: ClusterSnapshot) -> Fixture {
    changed(shown, DisabledGuards::default(), |_| {})
}

fn changed(shown: ClusterSnapshot, disabled: DisabledGuards, change: impl FnOnce(&mut Settings)) -> Fixture {
    let mut world = Fixture::consolidating(disabled, change);
    world.connect("c", shown);
    world
}

fn drained(world: &Fixture) -> Vec<(i64, &str)> {
    world.done.drained.iter().map(|(at, claim)| (at.as_millis(), claim.as_ref())).collect()
}

fn launched(world: &Fixture) -> Vec<i64> {
    world.done.launches.iter().map(|(at, _)| at.as_millis()).collect()
}

/// Launches and drains until the tenth minute.
fn changes(mut world: Fixture) -> (usize, usize) {
    world.run_to(600_000);
    (world.done.launches.len(), world.done.drained.len())
}

/// A cluster that stays as it is shows that nothing but `kept` blocks it.
fn assert_kept(kept: ClusterSnapshot) {
    assert_eq!(changes(world(kept)), (0, 0));
}

#[test]
fn two_half_empty_machines_become_one_without_a_launch() {
    let mut world = world(half_empty(pool()));
    world.run_to(29_000);
    assert_eq!(drained(&world), [], "consolidateAfter has not passed");
    world.run_to(31_000);
    assert_eq!((launched(&world), drained(&world).len(), drained(&world)[0].0), (vec![], 1, 30_000));
    let decided: Vec<_> =
        world.done.decisions.iter().map(|decision| (decision.reason, decision.assignments.len())).collect();
    let reason = DecisionReason::Disruption(RemovalReason::Underutilized);
    assert_eq!(decided, [(reason, 1), (reason, 0)], "its pod gets a place, and then it is removed");
    assert_eq!(world.done.decisions[0].notes[0], "consolidation saves $0.02 an hour by 1 commands");
}

#[test]
fn a_dear_machine_is_drained_when_the_cheaper_one_is_initialized() {
    let mut world = world(dear());
    world.run_to(60_000);
    // The plan at 30 s launches; the machine joins at once, and the next pass removes m0.
    assert_eq!((launched(&world), drained(&world)), (vec![30_000], vec![(40_000, "m0")]));
    assert_eq!(world.done.launches[0].1.options[0].instance_type.as_ref(), "t.2");
    assert_eq!(world.done.decisions[0].new_cost, MicroUsd(20_000));
}

#[test]
fn a_plan_of_consolidation_and_its_removals_name_what_goes_and_each_other() {
    let mut world = world(dear());
    world.run_to(60_000);
    let [plan, removal] = world.done.decisions.as_slice() else { panic!("{:?}", world.done.decisions) };
    let claims = |nodes: &[OutgoingNode]| nodes.iter().map(|node| node.claim.to_string()).collect::<Vec<_>>();
    assert_eq!((claims(&plan.replaced), claims(&plan.removed)), (vec!["m0".to_owned()], vec![]));
    // A t.4 for $0.04 goes, and a t.2 for $0.02 comes.
    assert_eq!((plan.moved_pods(), plan.savings()), (1, MicroUsd(20_000)));
    assert_eq!((&*plan.replaced[0].instance_type, &*plan.replaced[0].capacity_type), ("t.4", "on-demand"));
    assert_eq!((claims(&removal.removed), removal.removed[0].planned_by), (vec!["m0".to_owned()], Some(plan.id)));
    assert!(removal.replaced.is_empty(), "a replacement is begun once");
    let reason = &plan.launches[0].reason;
    assert!(reason.ends_with("its pods leave nodes that it replaces at a lower price"), "{reason}");
}

#[test]
fn a_replacement_that_failed_plans_no_later_removal() {
    let mut world = world(dear());
    world.never_ready = true;
    world.run_to(660_000);
    let plan = world.done.decisions.first().expect("a plan").id;
    world.never_ready = false;
    world.run_to(3_600_000);
    let later = world.done.decisions.iter().skip(1);
    let planned: Vec<_> = later.flat_map(|decision| &decision.removed).filter_map(|node| node.planned_by).collect();
    assert!(!planned.contains(&plan), "{planned:?}");
}

#[test]
fn a_machine_stays_while_its_replacement_is_not_initialized_and_its_pool_waits_after_the_timeout() {
    let mut world = world(dear());
    world.never_ready = true;
    world.run_to(660_000);
    // The replacement fails after ten minutes, at 630 s; its NodePool waits one minute.
    assert_eq!((launched(&world), drained(&world)), (vec![30_000], vec![]));
}

/// After a failure Karpenter leaves the replacement running as ordinary capacity and removes its taint from the
/// Node. Here the Node has no taint before the drain. The replacement stays as well, until it is empty for as long
/// as `consolidateAfter` says.
#[test]
fn a_failed_replacement_leaves_the_node_without_a_drain_and_its_machine_alive() {
    let mut world = world(dear());
    world.never_ready = true;
    world.run_to(660_000);
    let replacement = world.done.launches[0].1.claim.clone();
    let state = world.controller.state(&text("c")).unwrap();
    assert!(state.replacements().is_empty(), "it has failed");
    assert!(!state.is_marked_for_deletion(&replacement) && state.claim(&replacement).is_some());
    assert_eq!((drained(&world), world.done.terminated.len(), world.done.removed.len()), (vec![], 0, 0));
}

#[test]
fn sabotage_without_waiting_for_initialization_it_is_drained_before_its_capacity_is_there() {
    let mut world = changed(dear(), DisabledGuards::only(Guard::InitializedReplacement), |_| {});
    world.never_ready = true;
    world.run_to(60_000);
    assert_eq!(drained(&world), [(40_000, "m0")]);
}

/// Three on-demand t.2, each with a pod of 1.3 of its 2 cores: no pod fits beside another one, and a t.2 is the cheapest
/// machine for each. All three fit in one t.4 of 4 cores at $0.04.
fn cheaper_together() -> ClusterSnapshot {
    let pods = (0..3).map(|number| bound_to(&format!("m{number}"), pod(&format!("p{number}"), 1_300))).collect();
    let mut shown = ClusterSnapshot { pools: dear().pools, ..snapshot(3, pods) };
    let labels = shown.claims.iter_mut().map(|claim| &mut claim.labels);
    for labels in labels.chain(shown.nodes.iter_mut().map(|node| &mut node.labels)) {
        labels.insert(text(CAPACITY_TYPE), text("on-demand"));
    }
    shown
}

/// The default of a server with two processors.
fn with_searches(settings: &mut Settings) {
    settings.search = SearchSettings::with_share(25, 2);
}

#[test]
fn machines_are_replaced_together_within_the_allowance_for_searches() {
    let mut world = changed(cheaper_together(), DisabledGuards::default(), with_searches);
    world.run_to(31_000);
    assert_eq!((launched(&world), world.done.decisions[0].new_cost), (vec![30_000], MicroUsd(40_000)));
    let totals = world.controller.region().search_totals();
    // The largest search is granted once, and it is settled: another one may begin.
    assert_eq!((totals.granted, totals.granted_steps, totals.used_steps), (1, 9_000_000, 9_000_000));
    world.run_to(41_000);
    assert_eq!(drained(&world), [(40_000, "m0"), (40_000, "m1"), (40_000, "m2")]);
}

#[test]
fn without_searches_each_machine_is_consolidated_by_itself() {
    assert_eq!(changes(world(cheaper_together())), (0, 0));
}

#[test]
fn a_cluster_whose_search_is_refused_is_planned_again_after_a_minute() {
    let mut world = Fixture::consolidating(DisabledGuards::default(), with_searches);
    world.connect("c", cheaper_together());
    world.run_to(29_000);
    // Another cluster searches, and only one search may be in progress.
    let (cluster, at) = (text("d"), Timestamp::from_millis(29_000));
    let deadline = Some(Timestamp::from_millis(39_000));
    let demand = SearchDemand { cluster: &cluster, search: PlanNumber(1_000), objects: 1, deadline };
    assert_eq!(world.controller.region().searches().grant(demand, at), Some(9_000_000));
    world.run_to(89_000);
    assert_eq!(launched(&world), []);
    world.run_to(91_000);
    assert_eq!(launched(&world), [90_000]);
}

/// A machine that has not joined and that no pod is assigned to, such as that of a replacement that ended.
fn with_unused_machine_under_way(change: impl FnOnce(&mut ClusterSnapshot)) -> Fixture {
    let mut shown = dear();
    shown.claims.push(claim("m1"));
    change(&mut shown);
    let mut world = world(shown);
    world.never_ready = true;
    world.run_to(59_000);
    world
}

#[test]
fn no_second_replacement_is_launched_while_an_unused_machine_is_under_way() {
    assert_eq!(launched(&with_unused_machine_under_way(|_| {})), []);
}

#[test]
fn sabotage_without_the_machine_under_way_a_replacement_is_launched() {
    assert_eq!(launched(&with_unused_machine_under_way(|shown| drop(shown.claims.pop()))), [30_000]);
}

/// A dear m0, whose pod of 1.9 cores has no room beside another one on a t.2, and m1 with a pod of half a core.
fn dear_and_half_empty() -> ClusterSnapshot {
    let (mut shown, other) = (dear(), snapshot(2, vec![bound_to("m1", pod("p1", 500))]));
    shown.claims.extend(other.claims.into_iter().skip(1));
    shown.nodes.extend(other.nodes.into_iter().skip(1));
    let labels = shown.claims.iter_mut().map(|claim| &mut claim.labels);
    for labels in labels.chain(shown.nodes.iter_mut().map(|node| &mut node.labels)) {
        labels.insert(text(CAPACITY_TYPE), text("on-demand"));
    }
    shown.pods = vec![bound_to("m0", pod("p0", 1_900)), bound_to("m1", pod("p1", 500))];
    shown
}

#[test]
fn a_node_is_consolidated_once_nothing_is_reserved_on_it_any_more() {
    let mut world = world(dear_and_half_empty());
    world.run_to(31_000);
    assert_eq!(drained(&world), [(30_000, "m1")], "its pod has a place on m0");
    // The pod ends and has no successor. Until 51 s m0 has room for one, and the cluster changes no more.
    world.end_pod("c", bound_to("m1", pod("p1", 500)));
    world.run_to(50_000);
    assert_eq!(launched(&world), []);
    // Then there is a pass, and the next plan of disruption is due ten seconds after that at 50 s.
    world.run_to(70_000);
    assert_eq!((launched(&world), drained(&world)[1]), (vec![60_000], (61_000, "m0")), "m0 costs twice a t.2");
}

#[test]
fn a_machine_stays_when_the_launch_of_its_replacement_fails() {
    let mut world = world(dear());
    world.refused = true;
    world.run_to(85_000);
    // The NodePool waits a minute after the failure at 30 s.
    assert_eq!((launched(&world), drained(&world)), (vec![30_000], vec![]));
    assert_eq!(world.controller.state(&text("c")).map(|state| state.replacements().len()), Some(0));
}

#[test]
fn nothing_moves_under_do_not_disrupt() {
    let mut of_pods = half_empty(pool());
    of_pods.pods.iter_mut().for_each(|pod| pod.do_not_disrupt = Some(DoNotDisrupt::Always));
    assert_kept(of_pods);
    let mut of_nodes = half_empty(pool());
    of_nodes.nodes.iter_mut().for_each(|node| node.do_not_disrupt = Some(DoNotDisrupt::Always));
    assert_kept(of_nodes);
}

#[test]
fn nothing_moves_while_a_pod_disruption_budget_allows_no_eviction() {
    let budget = PodBudgetRecord {
        namespace: text("default"),
        name: text("all"),
        selector: Some(LabelSelector::default()),
        allowed: 0,
        evicts_unhealthy_always: false,
        never_allows: false,
    };
    assert_kept(ClusterSnapshot { budgets: vec![budget], ..half_empty(pool()) });
}

#[test]
fn nothing_moves_under_a_budget_of_0_a_policy_that_excludes_it_or_without_consolidation() {
    assert_kept(half_empty(pool_with(BudgetLimit::Nodes(0))));
    let mut empty_only = pool();
    empty_only.disruption.policy = ConsolidationPolicy::WhenEmpty;
    assert_kept(half_empty(empty_only));
    let mut never = pool();
    never.disruption.consolidate_after = None;
    assert_kept(half_empty(never));
    let off = |settings: &mut Settings| settings.consolidation.is_enabled = false;
    assert_eq!(changes(changed(half_empty(pool()), DisabledGuards::default(), off)), (0, 0));
}

#[test]
fn nothing_moves_for_less_than_the_savings_that_are_required() {
    // Removing a machine saves $0.02 an hour, and moves one pod.
    let least = |savings: i64, churn: i64| {
        let change = move |settings: &mut Settings| {
            settings.consolidation.min_savings = MicroUsd(savings);
            settings.consolidation.churn_price = MicroUsd(churn);
        };
        changes(changed(half_empty(pool()), DisabledGuards::default(), change)).1
    };
    assert_eq!([least(19_999, 0), least(20_000, 0), least(0, 19_999), least(0, 20_000)], [1, 0, 1, 0]);
}

#[test]
fn a_freeze_blocks_consolidation_until_it_ends() {
    let freeze = freeze(Some("c"), None, None);
    let mut world = Fixture::consolidating(DisabledGuards::default(), |_| {});
    world.handle(RegionEvent::FreezesChanged(vec![freeze]));
    world.connect("c", dear());
    world.run_to(120_000);
    assert_eq!((launched(&world), drained(&world)), (vec![], vec![]));
    world.handle(RegionEvent::FreezesChanged(Vec::new()));
    world.run_to(600_000);
    assert_eq!((launched(&world).len(), drained(&world).len()), (1, 1));
}

#[test]
fn shadow_mode_records_what_it_would_remove_once_and_launches_nothing() {
    let shadow = |settings: &mut Settings| settings.guardrails.mode = Mode::Shadow;
    let mut world = changed(dear(), DisabledGuards::default(), shadow);
    world.run_to(600_000);
    assert_eq!((launched(&world), drained(&world)), (vec![], vec![]));
    let would: Vec<&String> = world.done.decisions.iter().flat_map(|decision| &decision.would).collect();
    assert_eq!(
        would,
        ["would remove n-m0 (m0): the pods of node n-m0 fit on other nodes and 1 cheaper machines: its command saves \
          $0.02 an hour"]
    );
}

#[test]
fn a_launch_that_a_guardrail_limits_drops_the_whole_plan() {
    // The machine costs $0.02 an hour.
    let less = |settings: &mut Settings| settings.guardrails.launches.cluster.usd_per_hour = MicroUsd(19_999);
    assert_eq!(changes(changed(dear(), DisabledGuards::default(), less)), (0, 0));
}

#[test]
fn a_replacement_that_the_limits_of_its_pool_have_no_room_for_is_not_launched() {
    // The t.4 that is there and the t.2 that replaces it have 6 cores together.
    let limited = |millicores: i64| {
        let mut shown = dear();
        shown.pools[0].pool.limits = Resources::from_iter([("cpu", millicores)]);
        changes(world(shown))
    };
    assert_eq!([limited(5_999), limited(6_000)], [(0, 0), (1, 1)]);
}

#[test]
fn without_room_for_a_replacement_other_machines_are_removed() {
    // m1 and m2 are half empty, as in `half_empty`, and share one; m0 is dear.
    let (mut shown, half) = (dear(), snapshot(3, vec![]));
    shown.claims.extend(half.claims.into_iter().skip(1));
    shown.nodes.extend(half.nodes.into_iter().skip(1));
    shown.pods = vec![bound_to("m0", pod("p0", 1_900)), bound_to("m1", pod("p1", 500)), bound_to("m2", pod("p2", 500))];
    for labels in shown.claims.iter_mut().map(|claim| &mut claim.labels) {
        labels.insert(text(CAPACITY_TYPE), text("on-demand"));
    }
    for labels in shown.nodes.iter_mut().map(|node| &mut node.labels) {
        labels.insert(text(CAPACITY_TYPE), text("on-demand"));
    }
    // 4 + 2 + 2 cores are there, and 10 would be with another t.2.
    shown.pools[0].pool.limits = Resources::from_iter([("cpu", 8_000)]);
    let mut world = world(shown);
    world.run_to(120_000);
    assert_eq!(drained(&world).first().map(|(_, claim)| *claim != "m0"), Some(true), "{:?}", drained(&world));
}

/// `shown` at 40 s, when the plan of 30 s is in progress and `object` appears before its answer.
fn overtaken(shown: ClusterSnapshot, disabled: DisabledGuards, object: Object) -> Fixture {
    let mut world = changed(shown, disabled, |_| {});
    world.controller.stalled_disruption = true;
    world.run_to(35_000);
    world.observe("c", object);
    world.run_to(40_000);
    let effects = world.controller.plan_waiting(Timestamp::from_millis(40_000));
    world.carry_out(effects);
    world.run_to(55_000);
    world
}

#[test]
fn a_pod_that_appears_before_the_answer_drops_the_plan() {
    // On one of the two machines there is room for the other pod no more.
    for machine in ["m0", "m1"] {
        let new = Object::Pod(bound_to(machine, pod("q", 1_400)));
        assert_eq!(drained(&overtaken(half_empty(pool()), DisabledGuards::default(), new)), []);
    }
    let pending = Object::Pod(pod("q", 500));
    assert_eq!(drained(&overtaken(half_empty(pool()), DisabledGuards::default(), pending)), []);
}

/// Karpenter validates after 15 s, and rejects a command if a pod is nominated for a candidate meanwhile. Here the
/// answer is compared with the state of that moment.
#[test]
fn a_pod_that_is_nominated_for_a_machine_before_the_answer_drops_the_plan() {
    let of = |machine: &str, disabled: DisabledGuards| {
        let nominated = Some(format!("n-{machine}").as_str().into());
        let waiting = Object::Pod(PodRecord { nominated, ..pod("q", 100) });
        let world = overtaken(half_empty(pool()), disabled, waiting);
        world
            .done
            .decisions
            .iter()
            .filter(|made| made.reason == DecisionReason::Disruption(RemovalReason::Underutilized))
            .count()
    };
    let sabotage = |machine: &str| of(machine, DisabledGuards::only(Guard::ConsolidationCheck));
    for machine in ["m0", "m1"] {
        assert_eq!(of(machine, DisabledGuards::default()), 0, "{machine}");
    }
    assert!(sabotage("m0") + sabotage("m1") > 0, "without the check the answer is carried out");
}

#[test]
fn do_not_disrupt_that_appears_before_the_answer_drops_the_plan() {
    let held = |number: &str| {
        let pod = bound_to(&format!("m{number}"), pod(&format!("p{number}"), 500));
        Object::Pod(PodRecord { do_not_disrupt: Some(DoNotDisrupt::Always), ..pod })
    };
    let mut shown = half_empty(pool());
    shown.pods.remove(1);
    shown.pods.push(bound_to("m1", pod("p1", 1_000)));
    let world = overtaken(shown, DisabledGuards::default(), held("0"));
    assert!(drained(&world).iter().all(|(_, claim)| *claim != "m0"), "{:?}", drained(&world));
}

#[test]
fn sabotage_without_the_check_an_answer_is_carried_out_although_a_pod_has_taken_its_place() {
    let disabled = || DisabledGuards::only(Guard::ConsolidationCheck);
    let of = |machine: &str| {
        let new = Object::Pod(bound_to(machine, pod("q", 1_400)));
        let world = overtaken(half_empty(pool()), disabled(), new);
        world.done.decisions.iter().filter(|decision| !decision.assignments.is_empty()).count()
    };
    assert_eq!(of("m0") + of("m1"), 2);
}

/// `m0` at 80 s, which is under replacement from 30 s on and gets another pod at 60 s: launches, and replacements
/// under way.
fn with_another_pod(disabled: DisabledGuards) -> (Vec<i64>, usize) {
    let mut world = changed(dear(), disabled, |_| {});
    world.never_ready = true;
    world.run_to(60_000);
    // Beside the first pod it does not fit on the new machine of 2 cores.
    world.observe("c", Object::Pod(bound_to("m0", pod("q", 1_800))));
    world.run_to(80_000);
    assert_eq!(drained(&world), []);
    let state = world.controller.state(&text("c")).expect("the cluster is there");
    (launched(&world), state.replacements().len())
}

#[test]
fn a_machine_under_way_that_gets_a_pod_stays() {
    assert_eq!(with_another_pod(DisabledGuards::default()), (vec![30_000], 0));
}

#[test]
fn sabotage_without_the_end_of_a_consolidation_the_pod_gets_a_machine_of_its_own() {
    assert_eq!(with_another_pod(DisabledGuards::only(Guard::ConsolidationEnd)), (vec![30_000, 61_000], 1));
}

/// Seconds at which disruption is planned until `end`, in a cluster of three machines that pods of 1.8 of 2 cores
/// fill; `step` runs each second.
fn plans(end: i64, step: impl Fn(&mut Fixture)) -> Vec<i64> {
    let bound = |number: usize| bound_to(&format!("m{number}"), pod(&format!("p{number}"), 1_800));
    let mut world = world(snapshot(3, (0..3).map(bound).collect()));
    world.controller.stalled_disruption = true;
    let mut plans = Vec::new();
    while world.now < end {
        world.run_to(world.now + 1_000);
        step(&mut world);
        if !world.controller.waiting.is_empty() {
            plans.push(world.now / 1_000);
            let effects = world.controller.plan_waiting(Timestamp::from_millis(world.now));
            world.carry_out(effects);
        }
    }
    assert_eq!((launched(&world), drained(&world), world.done.decisions.len()), (vec![], vec![], 0));
    plans
}

#[test]
fn a_steady_cluster_is_planned_every_five_minutes_and_stays_as_it_is() {
    assert_eq!(plans(1_000_000, |_| {}), [30, 330, 630, 930]);
}

#[test]
fn a_cluster_that_changes_all_the_time_is_planned_once_in_an_interval() {
    // Its labels change: other pods may have rules for them.
    let change = |world: &mut Fixture| {
        let labels = Arc::new(labels(&[("second", &world.now.to_string())]));
        world.observe("c", Object::Pod(PodRecord { labels, ..bound_to("m0", pod("p0", 1_800)) }));
    };
    assert_eq!(plans(89_000, change), [30, 45, 60, 75]);
}

#[test]
fn a_cluster_that_only_fills_is_planned_every_five_minutes() {
    // consolidateAfter of m0 has passed at the first plan: that it begins anew later makes no removal possible.
    let change = |world: &mut Fixture| {
        if world.now > 30_000 && world.now % 10_000 == 0 {
            world.observe("c", Object::Pod(bound_to("m0", pod(&format!("s{}", world.now), 1))));
        }
    };
    assert_eq!(plans(340_000, change), [30, 330]);
}

#[test]
fn a_cluster_whose_pod_goes_is_planned_at_once_and_when_its_node_may_be_consolidated() {
    let change = |world: &mut Fixture| match world.now {
        50_000 => world.observe("c", Object::Pod(bound_to("m0", pod("s", 100)))),
        100_000 => world.delete("c", Key::Pod(key("s"))),
        _ => {}
    };
    // consolidateAfter of m0 begins anew at 100 s.
    assert_eq!(plans(400_000, change), [30, 100, 130]);
}

/// Plans in progress at 31 s in two clusters, and a second after one of them has ended.
fn plans_of_two_clusters(share: DisruptionShare) -> [usize; 2] {
    let mut world =
        changed(half_empty(pool()), DisabledGuards::default(), |settings| settings.disruption_share = share);
    world.connect("d", half_empty(pool()));
    world.controller.stalled_disruption = true;
    world.run_to(31_000);
    let at_first = world.controller.waiting.len();
    let effects = world.controller.plan_waiting(Timestamp::from_millis(world.now));
    world.carry_out(effects);
    world.run_to(32_000);
    [at_first, world.controller.waiting.len()]
}

#[test]
fn a_plan_searches_only_if_no_other_cluster_waits() {
    let mut world = changed(half_empty(pool()), DisabledGuards::default(), |settings| {
        with_searches(settings);
        settings.disruption_share = DisruptionShare::of(50, 1);
    });
    for cluster in ["d", "e"] {
        world.connect(cluster, half_empty(pool()));
    }
    world.controller.stalled_disruption = true;
    let mut searched = Vec::new();
    for end in [30_000, 32_000, 34_000] {
        world.run_to(end);
        searched.extend(world.controller.waiting.iter().map(crate::provisioning::PlanRequest::is_search));
        let effects = world.controller.plan_waiting(Timestamp::from_millis(world.now));
        world.carry_out(effects);
    }
    // The first asks before the others, the second while the third waits.
    assert_eq!(searched, [true, false, true]);
}

#[test]
fn plans_of_all_clusters_share_one_allowance() {
    // Half of one processor is one plan at a time, and the second one follows. Without a limit both are made at once.
    assert_eq!(plans_of_two_clusters(DisruptionShare::of(50, 1)), [1, 1]);
    assert_eq!(plans_of_two_clusters(DisruptionShare::default())[0], 2);
}
