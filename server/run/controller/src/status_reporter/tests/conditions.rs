//! Events of conditions whose status changes.

use super::*;

#[test]
fn a_condition_that_changes_is_recorded_with_its_old_and_its_new_status() {
    let mut world = Fixture::new(snapshot(&[]), Settings::default());
    assert_eq!(world.reasons(), Vec::<&str>::new(), "what it was before is unknown");
    world.observe(2_000, Observation::upsert(Object::Class(ClassRecord { deleting: true, ..class() })));
    world.tick(3_000);
    let of_pool = |world: &Fixture, reason| world.said(EventReason::Condition(reason));
    assert_eq!(
        of_pool(&world, "NodeClassReady"),
        ["nodepool/p: condition NodeClassReady is False and was True, reason NodeClassTerminating: \
          EC2NodeClass default is being deleted"]
    );
    let ready = "nodepool/p: condition Ready is False and was True, reason UnhealthyDependents: NodeClassReady=False";
    assert_eq!(of_pool(&world, "Ready"), [ready]);
    // Back within two minutes, which is another series.
    world.observe(5_000, Observation::upsert(Object::Class(class())));
    world.tick(6_000);
    assert_eq!(of_pool(&world, "Ready")[1..], ["nodepool/p: condition Ready is True and was False, reason Ready"]);
    // A NodePool that flaps repeats neither.
    world.observe(8_000, Observation::upsert(Object::Class(ClassRecord { deleting: true, ..class() })));
    world.tick(9_000);
    assert_eq!(of_pool(&world, "Ready").len(), 2);
    assert!(!EventReason::Condition("Ready").is_warning());
}

#[test]
fn a_condition_that_appears_was_absent_and_consolidatable_has_no_event() {
    let mut world = Fixture::new(snapshot(&["m0"]), Settings::default());
    world.observe(31_000, Observation::upsert(Object::Pod(pod("a", 1))));
    assert_eq!(world.conditions(&ObjectRef::Claim(text("m0")))[1], "Consolidatable=True Consolidatable");
    assert_eq!(world.said(EventReason::Condition("Consolidatable")), Vec::<String>::new());
    let mut shown = snapshot(&["m0"]);
    let mut drifted = pool();
    drifted.disruption.budgets = vec![Budget { limit: BudgetLimit::Nodes(0), reasons: None, window: None }];
    drifted.drift.own_hash = Some((text("old"), text("1")));
    shown.pools = vec![drifted.clone()];
    shown.claims[0].drift = ClaimDriftFacts { own_hash: Some((text("old"), text("1"))), ..ClaimDriftFacts::default() };
    let mut world = Fixture::new(shown, Settings::default());
    drifted.drift.own_hash = Some((text("new"), text("1")));
    world.observe(5_000, Observation::upsert(Object::Pool(drifted)));
    world.tick(10_000);
    let said = world.said(EventReason::Condition("Drifted"));
    assert!(
        said[0].starts_with("nodeclaim/m0: condition Drifted is True and was absent, reason NodePoolDrifted"),
        "{said:?}"
    );
}
