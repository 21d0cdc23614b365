use super::*;
use crate::guardrails::Freeze;
use crate::{ClusterController, Event, RegionEvent, RegionState, Settings};
use cluster::testing::{claim, node, observe, pod, pool, text};
use cluster::{ClusterSnapshot, Object, Observation};
use model::ClusterName;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(1_000 * seconds)
}

fn controller(region: &Arc<RegionState>) -> ClusterController {
    let mut controller = ClusterController::new(ClusterName::from("prod"), Arc::clone(region));
    controller.handle(Event::AgentConnected, at(0));
    let (pools, claims, nodes) = (vec![pool()], vec![claim("m-1")], vec![node("m-1")]);
    let snapshot = ClusterSnapshot { pools, claims, nodes, ..ClusterSnapshot::default() };
    let observation = Observation::Snapshot(Box::new(snapshot));
    controller.handle(Event::Observed(observation), at(0));
    controller
}

fn region() -> Arc<RegionState> {
    Arc::new(RegionState::new(Settings::default()))
}

fn freeze(cluster: Option<&str>, pool: Option<&str>) -> Freeze {
    Freeze {
        id: 7,
        cluster: cluster.map(ClusterName::from),
        pool: pool.map(PoolName::from),
        only_disruption: false,
        by: text("ana"),
        reason: text("audit"),
        since: at(0),
        until: None,
    }
}

fn set_freezes(region: &RegionState, freezes: Vec<Freeze>) {
    region.apply(RegionEvent::FreezesChanged(freezes), at(1));
}

fn facts(controller: &ClusterController) -> PlanningFacts {
    controller.step_view(at(2)).planning_facts(None).expect("the cluster is synced")
}

#[test]
fn facts_make_the_input_of_a_plan_without_a_search() {
    let controller = controller(&region());
    let input = facts(&controller).build();
    assert_eq!((input.nodes.len(), input.pools.len(), input.policy.search_steps, input.now), (1, 1, 0, at(2)));
    assert_eq!(input.pools[0].not_ready, None);
}

#[test]
fn facts_that_still_hold_are_not_taken_again_and_a_pod_changes_them() {
    let mut controller = controller(&region());
    let first = facts(&controller);
    let again = |controller: &ClusterController| controller.step_view(at(9)).planning_facts(Some(first.key())).err();
    assert_eq!(again(&controller), Some(NoFacts::Unchanged));
    observe(&mut controller.state, 9, [Object::Pod(pod("new", 100))]);
    assert_eq!(again(&controller), None);
}

#[test]
fn nothing_is_known_of_a_cluster_without_its_agent() {
    let mut controller = controller(&region());
    controller.connected = false;
    assert_eq!(controller.step_view(at(2)).planning_facts(None).err(), Some(NoFacts::NotSynced));
}

#[test]
fn a_freeze_of_the_cluster_holds_all_launches_and_one_of_a_pool_those_of_the_pool() {
    let region = region();
    let controller = controller(&region);
    let before = facts(&controller);
    let pool_name = before.build().pools[0].name.to_string();
    set_freezes(&region, vec![freeze(Some("prod"), Some(&pool_name))]);
    let frozen = facts(&controller);
    assert!(frozen.key() != before.key() && frozen.launch_block().is_none());
    let Some(NotReady::NodePool(why)) = &frozen.build().pools[0].not_ready else { panic!("it is frozen") };
    assert!(why.contains("is frozen by ana: audit (freeze 7)"), "{why}");
    set_freezes(&region, vec![freeze(Some("prod"), None)]);
    let frozen = facts(&controller);
    assert_eq!(frozen.launch_block().map(|why| &**why), Some("cluster prod is frozen by ana: audit (freeze 7)"));
    assert_eq!(frozen.build().pools[0].not_ready, None, "the hold says it once");
    let only_disruption = Freeze { only_disruption: true, ..freeze(None, None) };
    set_freezes(&region, vec![freeze(Some("other"), None), only_disruption]);
    assert_eq!(facts(&controller).launch_block(), None);
}
