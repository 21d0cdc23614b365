use crate::guardrails::Freeze;
use crate::{DecisionReason, Event, RegionEvent};
use cluster::Object;
use cluster::testing::{bound_to, claim, pod, text};
use model::interruption::InterruptionKind::SpotInterrupted;
use model::removal::RemovalReason;
use model::{Millis, Timestamp};

use super::fixture::{Fixture, freeze, snapshot};

/// A pod waits and two machines are empty, under these freezes, until one minute.
fn under(freezes: Vec<Freeze>) -> Fixture {
    let mut world = Fixture::new(|_| {});
    world.handle(RegionEvent::FreezesChanged(freezes));
    world.connect("c", snapshot(2, vec![pod("p0", 500)]));
    world.run_to(60_000);
    world
}

/// Whether anything was launched, and how many of the two machines were drained.
fn did(world: &Fixture) -> (usize, usize) {
    (
        usize::from(!world.done.launches.is_empty()),
        world.drained().intersection(&[text("m0"), text("m1")].into()).count(),
    )
}

#[test]
fn a_freeze_of_fleet_cluster_or_pool_stops_launches_and_voluntary_removals() {
    for frozen in [
        freeze(None, None, None),
        freeze(Some("c"), None, None),
        freeze(Some("c"), Some("p"), None),
        freeze(None, Some("p"), None),
    ] {
        let world = under(vec![frozen.clone()]);
        assert_eq!(did(&world), (0, 0), "{frozen:?}");
        let view = world.controller.view(&text("c")).map(|view| view.guardrails.freezes);
        assert_eq!(view, Some(vec![text(&frozen.to_string())]));
        let closed = world.controller.view(&text("c")).and_then(|view| view.pools[0].closed.clone());
        assert_eq!(closed, Some(text(&frozen.to_string())));
    }
    let expected = freeze(Some("c"), Some("p"), None).to_string();
    assert_eq!(expected, "NodePool p of cluster c is frozen by alice: the network is being changed (freeze 7)");
}

#[test]
fn sabotage_without_a_freeze_or_with_one_of_something_else_both_happen() {
    assert_eq!(did(&under(Vec::new())), (1, 2));
    assert_eq!(did(&under(vec![freeze(Some("d"), None, None), freeze(Some("c"), Some("q"), None)])), (1, 2));
}

fn freeze_of_disruption(cluster: Option<&str>, pool: Option<&str>) -> Freeze {
    Freeze { only_disruption: true, ..freeze(cluster, pool, None) }
}

#[test]
fn a_freeze_of_disruption_stops_voluntary_removals_and_lets_launches_go_on() {
    for (cluster, pool) in [(None, None), (Some("c"), None), (Some("c"), Some("p"))] {
        let frozen = freeze_of_disruption(cluster, pool);
        let world = under(vec![frozen.clone()]);
        assert_eq!(did(&world), (1, 0), "{frozen:?}");
        let view = world.controller.view(&text("c")).expect("the cluster is known");
        assert_eq!((view.guardrails.freezes, view.guardrails.frozen), (vec![text(&frozen.to_string())], None));
        assert_eq!(view.guardrails.held_removals, Some(text(&frozen.to_string())));
        assert_eq!(view.pools[0].closed, None);
    }
    let expected = "voluntary disruption of cluster c is frozen by alice: the network is being changed (freeze 7)";
    assert_eq!(freeze_of_disruption(Some("c"), None).to_string(), expected);
}

#[test]
fn sabotage_without_the_freeze_of_disruption_or_with_one_of_something_else_nodes_are_removed() {
    let elsewhere = vec![freeze_of_disruption(Some("d"), None), freeze_of_disruption(Some("c"), Some("q"))];
    assert_eq!(did(&under(elsewhere)), (1, 2));
}

#[test]
fn a_decided_removal_is_not_begun_under_a_freeze_of_disruption() {
    let mut world = Fixture::new(|_| {});
    world.slow_store = true;
    world.connect("c", snapshot(2, vec![pod("p0", 500)]));
    world.run_to(40_000);
    world.handle(RegionEvent::FreezesChanged(vec![freeze_of_disruption(None, None)]));
    world.record_decisions();
    world.run_to(60_000);
    assert_eq!(did(&world), (1, 0));
}

#[test]
fn interruptions_and_expiry_go_on_under_a_freeze_of_disruption() {
    let mut world = Fixture::new(|_| {});
    world.handle(RegionEvent::FreezesChanged(vec![freeze_of_disruption(None, None)]));
    let mut cluster = snapshot(2, vec![bound_to("m0", pod("p0", 500)), bound_to("m1", pod("p1", 500))]);
    for claim in cluster.claims.iter_mut().filter(|claim| claim.name == "m1") {
        claim.created = Some(Timestamp::from_millis(0));
        claim.expire_after = Some(Millis::from_secs(30));
    }
    world.connect("c", cluster);
    let provider_id = claim("m0").provider_id;
    world.handle(Event::Interrupted { provider_id, kind: SpotInterrupted, ends: None });
    world.run_to(60_000);
    assert_eq!(did(&world).1, 2, "m0 is interrupted and m1 expires at 30 s");
}

#[test]
fn a_thaw_takes_effect_by_itself() {
    let mut world = under(vec![freeze(None, None, None)]);
    world.handle(RegionEvent::FreezesChanged(Vec::new()));
    world.run_to(62_000);
    assert_eq!(did(&world), (1, 2));
}

#[test]
fn a_freeze_with_an_end_ends() {
    let mut world = under(vec![freeze(Some("c"), None, Some(90_000))]);
    world.run_to(89_999);
    assert_eq!(did(&world), (0, 0));
    world.run_to(92_000);
    assert_eq!(did(&world), (1, 2));
}

#[test]
fn decided_work_is_not_begun_under_a_freeze() {
    let mut world = Fixture::new(|_| {});
    world.slow_store = true;
    world.connect("c", snapshot(2, vec![pod("p0", 500)]));
    world.run_to(40_000);
    assert_eq!(world.done.decisions.len(), 2, "one launch and two removals wait to be durable");
    world.handle(RegionEvent::FreezesChanged(vec![freeze(None, None, None)]));
    world.record_decisions();
    world.run_to(120_000);
    assert_eq!(did(&world), (0, 0));
}

#[test]
fn interrupted_machines_are_drained_under_a_freeze() {
    let mut world = Fixture::new(|_| {});
    world.handle(RegionEvent::FreezesChanged(vec![freeze(None, None, None)]));
    world.connect("c", snapshot(1, vec![bound_to("m0", pod("p0", 500))]));
    let provider_id = claim("m0").provider_id;
    world.handle(Event::Interrupted { provider_id, kind: SpotInterrupted, ends: None });
    world.run_to(60_000);
    assert!(
        world
            .done
            .decisions
            .iter()
            .any(|decision| decision.reason == DecisionReason::Disruption(RemovalReason::Interrupted))
    );
    assert_eq!(did(&world), (0, 1));
}

#[test]
fn a_pending_pod_under_a_freeze_has_the_freeze_as_its_reason() {
    let mut world = under(vec![freeze(Some("c"), None, None)]);
    world.observe("c", Object::Pod(pod("p1", 500)));
    world.run_to(70_000);
    let why = world.controller.view(&text("c")).and_then(|view| view.guardrails.held_reason());
    let expected = "cluster c is frozen by alice: the network is being changed (freeze 7)";
    assert_eq!(why.as_deref(), Some(expected));
}
