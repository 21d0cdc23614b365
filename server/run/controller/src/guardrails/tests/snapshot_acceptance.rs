//! Unannounced deletions, comparison of the first snapshot, and second sources for a loss.

use std::sync::Arc;

use crate::guardrails::ObjectCounts;
use crate::guardrails::QuarantineRule;
use crate::guardrails::persisted_counts::{DRIFT_WRITE_DELAY, GROWTH_WRITE_DELAY, LOSS_WRITE_DELAY, PersistedCounts};
use crate::{Event, ListedInstance, Listing};
use cluster::testing::{bound_to, claim, node, pod, pool, text};
use cluster::{
    ClaimRecord, ClusterSnapshot, DaemonRecord, Key, NamespaceRecord, NodeRecord, Object, PodPhase, PodRecord,
    PoolRecord, Scheduling,
};
use model::{ClaimName, Labels, Millis, PodKey, PodShape, Text, Timestamp};

use super::fixture::{Fixture, snapshot};

/// `each` running pods on each of `machines`.
fn running(machines: usize, each: usize) -> Vec<PodRecord> {
    (0..machines * each).map(|n| bound_to(&format!("m{}", n / each), pod(&format!("p{n}"), 100))).collect()
}

fn quarantine(world: &Fixture) -> Option<String> {
    world.controller.view(&text("c")).and_then(|view| view.guardrails.quarantine).map(|(reason, _)| reason.to_string())
}

fn pods(world: &Fixture) -> usize {
    world.controller.view(&text("c")).map_or(0, |view| view.pods)
}

fn watched(window: Millis, machines: usize, pods: Vec<PodRecord>) -> Fixture {
    let mut world = Fixture::with(machines, pods, |settings| settings.guardrails.quarantine.window = window);
    world.run_to(100_000);
    world
}

const MINUTE: i64 = 60_000;
const ONE_MINUTE: Millis = Millis::from_mins(1);

/// A list lacks the 30 pods of six machines, and the agent reports their deletion one after the
/// other.
fn relist_without_pods(window: Millis) -> Fixture {
    let mut world = watched(window, 6, running(6, 5));
    for pod in running(6, 5) {
        world.delete("c", Key::Pod(pod.key));
    }
    world
}

#[test]
fn pods_missing_from_a_relist_are_restored_and_no_node_is_drained() {
    let mut world = relist_without_pods(ONE_MINUTE);
    // 20 may always be missing; the 21st is one too many.
    let why = "the agent deleted objects unannounced within 60 s and now lacks 21 of 30 bound pods: no decisions are made \
               until another snapshot matches after 60 s and its list of DaemonSet pods confirms it, or an operator \
               releases it (fleetwright quarantine release c)";
    assert_eq!((quarantine(&world).as_deref(), pods(&world)), (Some(why), 30));
    assert_eq!(world.done.resyncs, [(Timestamp::from_millis(100_000), text("c"))]);
    // The agent's snapshot comes from the same list.
    world.send_snapshot("c", snapshot(6, Vec::new()));
    world.run_to(24 * 3_600_000);
    world.send_snapshot("c", snapshot(6, Vec::new()));
    world.run_to(25 * 3_600_000);
    assert_eq!((world.drained().len(), pods(&world)), (0, 30));
    world.send_snapshot("c", snapshot(6, running(6, 5)));
    assert_eq!((quarantine(&world), pods(&world)), (None, 30));
}

#[test]
fn sabotage_without_counting_deletions_the_relist_drains_every_node() {
    let mut world = relist_without_pods(Millis::ZERO);
    world.run_to(150_000);
    assert_eq!((quarantine(&world), world.drained().len()), (None, 6));
}

#[test]
fn a_snapshot_is_requested_soon_when_the_pods_are_reported_again() {
    let mut world = relist_without_pods(ONE_MINUTE);
    world.run_to(110_000);
    assert_eq!(world.done.resyncs.len(), 1);
    for pod in running(6, 5) {
        world.observe("c", Object::Pod(pod));
    }
    world.run_to(112_000);
    assert_eq!(world.done.resyncs.len(), 2);
}

#[test]
fn snapshots_are_requested_less_often_as_time_passes() {
    let mut world = relist_without_pods(ONE_MINUTE);
    world.run_to(100_000 + 60 * MINUTE);
    let asked: Vec<i64> = world.done.resyncs.iter().map(|(at, _)| (at.as_millis() - 100_000) / MINUTE).collect();
    // At once, to confirm it, and then after 2, 4 and 8 min more, and every 10.
    assert_eq!(asked, [0, 1, 2, 4, 8, 16, 26, 36, 46, 56]);
}

#[test]
fn nodes_and_claims_missing_from_a_relist_are_restored() {
    let keys: [fn(usize) -> Key; 2] =
        [|n| Key::Node(node(&format!("m{n}")).name), |n| Key::Claim(claim(&format!("m{n}")).name)];
    for (key, kind) in keys.into_iter().zip(["nodes", "NodeClaims"]) {
        let lose = |window: Millis| {
            let mut world = watched(window, 10, running(10, 3));
            (0..10).for_each(|n| world.delete("c", key(n)));
            world
        };
        let world = lose(ONE_MINUTE);
        let why = quarantine(&world).unwrap_or_default();
        assert!(why.contains(&format!("lacks 6 of 10 {kind}")), "{why}");
        assert_eq!(world.controller.state(&text("c")).map(|state| state.counts()), Some((10, 10, 1)));
        // Sabotage: deletions that are not counted are accepted.
        assert_eq!(quarantine(&lose(Millis::ZERO)), None);
    }
}

#[test]
fn nodeclaims_without_an_instance_are_no_loss() {
    // Twelve launches fail for lack of capacity. The agent shows their NodeClaims when it has deleted them already.
    let mut world = watched(ONE_MINUTE, 2, running(2, 3));
    let created = || (0..12).map(|n| ClaimRecord { provider_id: "".into(), ..claim(&format!("new{n}")) });
    created().for_each(|claim| world.observe("c", Object::Claim(claim)));
    created().for_each(|claim| world.delete("c", Key::Claim(claim.name)));
    assert_eq!(quarantine(&world), None);
    created().for_each(|claim| world.observe("c", Object::Claim(claim)));
    world.send_snapshot("c", snapshot(2, running(2, 3)));
    assert_eq!(quarantine(&world), None);
}

fn named(name: &str) -> PoolRecord {
    let mut pool = pool();
    pool.pool.name = text(name);
    pool
}

#[test]
fn most_of_several_pools_cannot_be_deleted_at_once_and_the_only_one_can() {
    let mut world = Fixture::new(|_| {});
    let pools = vec![named("p"), named("q"), named("r")];
    world.connect("c", ClusterSnapshot { pools, ..snapshot(2, running(2, 3)) });
    world.delete("c", Key::Pool(text("q")));
    assert_eq!(quarantine(&world), None);
    world.delete("c", Key::Pool(text("r")));
    assert!(quarantine(&world).unwrap_or_default().contains("lacks 2 of 3 NodePools"));
    let mut world = watched(ONE_MINUTE, 2, running(2, 3));
    world.delete("c", Key::Pool(text("p")));
    assert_eq!(quarantine(&world), None);
}

/// 100 pods on ten machines, and what follows when this happens to them at 100 s.
fn after(happens: impl FnOnce(&mut Fixture, Vec<PodRecord>)) -> Fixture {
    let mut world = watched(ONE_MINUTE, 10, running(10, 10));
    happens(&mut world, running(10, 10));
    world
}

#[test]
fn ordinary_deletions_are_not_suspicious() {
    let jobs = after(|world, pods| {
        for pod in &pods {
            world.observe("c", Object::Pod(PodRecord { phase: PodPhase::Succeeded, ..pod.clone() }));
        }
        pods.into_iter().for_each(|pod| world.delete("c", Key::Pod(pod.key)));
    });
    let namespace = after(|world, pods| {
        pods.into_iter().for_each(|pod| world.end_pod("c", pod));
        world.delete("c", Key::Namespace(text("default")));
    });
    let rollout = after(|world, pods| {
        for pod in pods {
            let key = PodKey { name: Text::from(format!("new-{}", pod.key.name)), ..pod.key.clone() };
            world.observe("c", Object::Pod(PodRecord { uid: key.name.clone(), key, ..pod.clone() }));
            world.end_pod("c", pod);
        }
    });
    let pending = after(|world, pods| {
        let pods = pods.into_iter().map(|pod| cluster::testing::pod(&format!("w-{}", pod.key.name), 100));
        let pods: Vec<PodRecord> = pods.collect();
        pods.iter().for_each(|pod| world.observe("c", Object::Pod(pod.clone())));
        pods.into_iter().for_each(|pod| world.delete("c", Key::Pod(pod.key)));
    });
    let dead_nodes = after(|world, pods| {
        for n in 0..8 {
            world.observe("c", Object::Node(NodeRecord { ready: false, ..node(&format!("m{n}")) }));
        }
        (0..8).for_each(|n| world.delete("c", Key::Node(node(&format!("m{n}")).name)));
        pods.into_iter().take(80).for_each(|pod| world.delete("c", Key::Pod(pod.key)));
    });
    let force = after(|world, pods| pods.into_iter().take(50).for_each(|pod| world.delete("c", Key::Pod(pod.key))));
    for (world, what) in [jobs, namespace, rollout, pending, dead_nodes, force].iter().zip(0..) {
        assert_eq!(quarantine(world), None, "{what}");
    }
}

#[test]
fn machines_removed_by_the_controller_are_not_suspicious() {
    let mut world = Fixture::with(20, Vec::new(), |_| {});
    world.run_to(20 * MINUTE);
    assert!(world.drained().len() > 10 && quarantine(&world).is_none(), "{:?}", world.drained());
}

/// A node loses its only pod at 100 s without announcement, in a pool whose empty nodes are removed
/// at once.
fn drained_at(window: Millis) -> i64 {
    let mut world = Fixture::new(|settings| settings.guardrails.quarantine.window = window);
    let mut greedy = pool();
    greedy.disruption.consolidate_after = Some(Millis::ZERO);
    world.connect("c", ClusterSnapshot { pools: vec![greedy], ..snapshot(2, running(2, 1)) });
    world.run_to(100_000);
    world.delete("c", Key::Pod(pod("p0", 100).key));
    world.run_to(200_000);
    world.done.drained.first().map_or(-1, |(at, _)| at.as_millis())
}

#[test]
fn a_node_that_lost_pods_unannounced_is_not_treated_as_empty_for_a_minute() {
    assert_eq!(drained_at(ONE_MINUTE), 160_000);
    assert_eq!(drained_at(Millis::ZERO), 100_000);
}

fn daemon() -> DaemonRecord {
    let (shape, labels) = (Arc::new(PodShape::default()), Arc::new(Labels::new()));
    DaemonRecord { namespace: text("kube-system"), name: text("proxy"), shape, labels }
}

/// A pod of the DaemonSet on each of `machines`.
fn daemon_pods(machines: usize) -> impl Iterator<Item = PodRecord> {
    let of = |n: usize| PodRecord { daemon: Some(text("kube-system/proxy")), ..pod(&format!("proxy-{n}"), 10) };
    (0..machines).map(move |n| bound_to(&format!("m{n}"), of(n)))
}

/// Ten machines with a DaemonSet's pod and these others on each.
fn whole(each: usize) -> ClusterSnapshot {
    let pods = daemon_pods(10).chain(running(10, each)).collect();
    let namespaces = vec![NamespaceRecord { name: text("default"), labels: Labels::new() }];
    ClusterSnapshot { daemons: vec![daemon()], namespaces, ..snapshot(10, pods) }
}

/// The agent reconnects after 100 s and reports `lacking` twice, 60 s apart; the cloud has listed
/// these machines meanwhile.
fn twice(rule: QuarantineRule, lacking: &ClusterSnapshot, listed: &[usize], again_at: i64) -> Fixture {
    let mut world = Fixture::new(|settings| settings.guardrails.quarantine = rule);
    world.connect("c", whole(10));
    world.run_to(100_000);
    world.send_snapshot("c", lacking.clone());
    world.run_to(130_000);
    let instance = |n: &usize| ListedInstance {
        provider_id: claim(&format!("m{n}")).provider_id,
        cluster_uid: Text::default(),
        claim: ClaimName::from(format!("m{n}")),
        terminating: false,
        details: Arc::default(),
    };
    let instances = listed.iter().map(instance).collect();
    let listing = Box::new(Listing { requested_at: Timestamp::from_millis(130_000), complete: true, instances });
    world.handle(Event::Listed(listing));
    world.run_to(again_at);
    world.send_snapshot("c", lacking.clone());
    world
}

/// Sabotage: a loss of any size is accepted after a minute, without a second source.
fn without_second_source() -> QuarantineRule {
    QuarantineRule { block_percent: 0, block_for: Millis::from_mins(1), ..QuarantineRule::default() }
}

const ALL: [usize; 10] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];

#[test]
fn a_loss_of_pods_is_accepted_when_the_list_of_daemon_set_pods_is_complete() {
    let rule = QuarantineRule::default();
    let few = |daemons: usize| {
        let pods = daemon_pods(daemons).chain(running(10, 10).into_iter().take(30)).collect();
        ClusterSnapshot { daemons: vec![daemon()], ..snapshot(10, pods) }
    };
    // 110 pods before; 40 of them now, or 33.
    assert!(quarantine(&twice(rule, &few(10), &ALL, 159_999)).is_some(), "60 s have not passed");
    assert!(quarantine(&twice(rule, &few(10), &ALL, 160_000)).is_none());
    assert!(quarantine(&twice(rule, &few(3), &ALL, 160_000)).is_some());
    assert!(quarantine(&twice(without_second_source(), &few(3), &ALL, 160_000)).is_none());
}

#[test]
fn an_existing_namespace_that_lost_all_pods_is_held_although_daemon_sets_are_complete() {
    let rule = QuarantineRule::default();
    let confined = |namespaces: Vec<NamespaceRecord>| {
        let pods = daemon_pods(10).chain(running(10, 10).into_iter().take(30).map(|pod| {
            let key = PodKey { namespace: text("other"), ..pod.key.clone() };
            PodRecord { key, ..pod }
        }));
        ClusterSnapshot { daemons: vec![daemon()], namespaces, ..snapshot(10, pods.collect()) }
    };
    let world = twice(rule, &confined(whole(0).namespaces), &ALL, 24 * 3_600_000);
    assert!(quarantine(&world).unwrap_or_default().contains("until an operator releases it"));
    // The namespace is gone as well: it was deleted.
    assert!(quarantine(&twice(rule, &confined(Vec::new()), &ALL, 160_000)).is_none());
}

#[test]
fn after_a_restart_no_second_source_suffices_for_pods_because_they_are_unknown() {
    let mut world = Fixture::new(|_| {});
    let counts = ObjectCounts { nodes: 10, claims: 10, pools: 1, pods: 100, pending: 0, machines: 0 };
    world.handle(Event::CountsLoaded(counts));
    let few = || ClusterSnapshot { pods: daemon_pods(10).chain(running(10, 3)).collect(), ..whole(0) };
    world.connect("c", few());
    world.run_to(10 * MINUTE);
    world.send_snapshot("c", few());
    let why = quarantine(&world).unwrap_or_default();
    assert!(why.contains("lacks 70 of 100 bound pods") && why.contains("until an operator releases it"), "{why}");
}

#[test]
fn pods_lost_from_nodes_that_are_not_ready_are_suspicious_too() {
    let mut world = watched(ONE_MINUTE, 6, running(6, 5));
    for n in 0..6 {
        world.observe("c", Object::Node(NodeRecord { ready: false, ..node(&format!("m{n}")) }));
    }
    for pod in running(6, 5) {
        world.delete("c", Key::Pod(pod.key));
    }
    assert!(quarantine(&world).unwrap_or_default().contains("lacks 21 of 30 bound pods"));
}

/// Sixty pods without a Node: twice as many as run on six machines.
fn waiting(run: &str) -> impl Iterator<Item = PodRecord> {
    // They are gated, so nothing is launched for them.
    (0..60).map(move |n| PodRecord { scheduling: Scheduling::Gated, ..pod(&format!("{run}-{n}"), 1) })
}

#[test]
fn pending_pods_do_not_hide_the_loss_of_bound_ones() {
    let all = || running(6, 5).into_iter().chain(waiting("batch"));
    let mut world = watched(ONE_MINUTE, 6, all().collect());
    for pod in running(6, 5) {
        world.delete("c", Key::Pod(pod.key));
    }
    // 21 of 90 would be less than half.
    let why = quarantine(&world).unwrap_or_default();
    assert!(why.contains("lacks 21 of 30 bound pods"), "{why}");
    let mut world = watched(ONE_MINUTE, 6, all().collect());
    world.send_snapshot("c", snapshot(6, waiting("batch").collect()));
    let why = quarantine(&world).unwrap_or_default();
    assert!(why.contains("lacks 30 of 30 bound pods"), "{why}");
    // After a restart.
    let mut world = Fixture::new(|_| {});
    let counts = ObjectCounts { nodes: 6, claims: 6, pools: 1, pods: 30, pending: 60, machines: 0 };
    world.handle(Event::CountsLoaded(counts));
    world.connect("c", snapshot(6, waiting("batch").collect()));
    let why = quarantine(&world).unwrap_or_default();
    assert!(why.contains("lacks 30 of 30 bound pods"), "{why}");
}

#[test]
fn terminating_pods_do_not_hide_the_loss_of_others() {
    // Sixty of ninety are on their way out, as when a Deployment is scaled down.
    let out = |n: usize| n % 15 >= 5;
    let pods = running(6, 15).into_iter().enumerate().map(|(n, pod)| PodRecord { terminating: out(n), ..pod });
    let pods: Vec<PodRecord> = pods.collect();
    let mut world = watched(ONE_MINUTE, 6, pods.clone());
    for pod in pods.iter().filter(|pod| !pod.terminating) {
        world.delete("c", Key::Pod(pod.key.clone()));
    }
    assert!(quarantine(&world).unwrap_or_default().contains("lacks 21 of 30 bound pods"));
}

#[test]
fn new_pending_pods_offset_a_loss_of_bound_ones() {
    let mut world = watched(ONE_MINUTE, 6, running(6, 5));
    // A Deployment with strategy Recreate, restarted while the agent was disconnected.
    world.send_snapshot("c", snapshot(6, waiting("next").take(30).collect()));
    assert_eq!(quarantine(&world), None);
}

#[test]
fn a_list_with_daemon_set_pods_only_is_suspicious_where_those_are_the_majority() {
    // Thirty pods of workloads among forty of DaemonSets: of all pods, the list lacks less than
    // half.
    let daemons = || {
        (0..4).flat_map(|set| {
            daemon_pods(10).map(move |pod| {
                let name = Text::from(format!("{}-{set}", pod.key.name));
                PodRecord { key: PodKey { name, ..pod.key.clone() }, ..pod }
            })
        })
    };
    let whole = ClusterSnapshot { pods: daemons().chain(running(10, 3)).collect(), ..whole(0) };
    let mut world = Fixture::new(|_| {});
    world.connect("c", whole.clone());
    world.run_to(MINUTE);
    assert_eq!(quarantine(&world), None);
    world.send_snapshot("c", ClusterSnapshot { pods: daemons().collect(), ..whole });
    let why = quarantine(&world).unwrap_or_default();
    assert!(why.contains("lacks 30 of 30 bound pods"), "{why}");
}

#[test]
fn a_loss_of_machines_is_accepted_when_the_cloud_does_not_list_them() {
    let rule = QuarantineRule::default();
    let without_six = |claims: usize, nodes: usize| {
        let whole = whole(10);
        let (claims, nodes) = (whole.claims[..claims].to_vec(), whole.nodes[..nodes].to_vec());
        let gone = |pod: &PodRecord| pod.node.as_ref().is_some_and(|node| !nodes.iter().any(|n| n.name == *node));
        let pods = whole.pods.iter().filter(|pod| !gone(pod)).cloned().collect();
        ClusterSnapshot { claims, nodes: nodes.clone(), pods, ..whole }
    };
    let gone = without_six(4, 4);
    assert!(quarantine(&twice(rule, &gone, &ALL[..4], 160_000)).is_none());
    assert!(quarantine(&twice(rule, &gone, &ALL, 160_000)).is_some(), "they run");
    assert!(quarantine(&twice(rule, &without_six(10, 4), &ALL, 160_000)).is_some(), "they run, and lack their Nodes");
    assert!(quarantine(&twice(without_second_source(), &gone, &ALL, 160_000)).is_none());
}

#[test]
fn when_nearly_everything_is_gone_no_second_source_suffices() {
    let nothing = ClusterSnapshot { pools: vec![pool()], ..ClusterSnapshot::default() };
    let rule = QuarantineRule::default();
    assert!(quarantine(&twice(rule, &nothing, &[], 24 * 3_600_000)).is_some());
    // 9 of 10 machines are 90 %, which is not more than that.
    let at_the_limit = QuarantineRule { block_percent: 99, ..rule };
    assert!(quarantine(&twice(at_the_limit, &nothing, &[], 160_000)).is_some());
    let hours = QuarantineRule { block_for: Millis::from_hours(3), ..rule };
    assert!(quarantine(&twice(hours, &nothing, &[], 100_000 + 3 * 3_600_000 - 1)).is_some());
    assert!(quarantine(&twice(hours, &nothing, &[], 100_000 + 3 * 3_600_000)).is_none());
}

#[test]
fn a_loss_of_pools_is_accepted_when_their_claims_are_being_deleted() {
    let bare = |deleting: bool| {
        let mut left = whole(10);
        left.pools.clear();
        left.claims.iter_mut().for_each(|claim| claim.deleting = deleting);
        left
    };
    let rule = QuarantineRule::default();
    assert!(quarantine(&twice(rule, &bare(true), &ALL, 160_000)).is_none());
    assert!(quarantine(&twice(rule, &bare(false), &ALL, 160_000)).is_some());
}

/// A process takes the cluster over and observes six machines without pods; the previous one
/// persisted these counts, or none.
fn restarted(written: Option<ObjectCounts>) -> Fixture {
    let mut world = Fixture::new(|_| {});
    let remembered = written.map(Event::CountsLoaded);
    remembered.into_iter().for_each(|event| world.handle(event));
    world.handle(Event::LeaseAcquired { uid: text("uid-1"), launches: Vec::new() });
    world.connect("c", snapshot(6, Vec::new()));
    world.run_to(10 * MINUTE);
    world
}

#[test]
fn a_first_snapshot_is_compared_with_the_persisted_counts() {
    let world = restarted(Some(ObjectCounts { nodes: 6, claims: 6, pools: 1, pods: 30, pending: 0, machines: 0 }));
    assert!(quarantine(&world).unwrap_or_default().contains("lacks 30 of 30 bound pods"));
    assert!(world.drained().is_empty() && world.done.persisted_counts.is_empty());
    // Sabotage: nothing is written down, or not handed over.
    let world = restarted(None);
    assert_eq!((quarantine(&world), world.drained().len()), (None, 6));
}

#[test]
fn a_first_snapshot_with_ready_nodes_and_daemon_sets_but_no_pods_is_suspicious() {
    let mut world = Fixture::new(|_| {});
    world.connect("c", ClusterSnapshot { daemons: vec![daemon()], ..snapshot(6, Vec::new()) });
    world.run_to(10 * MINUTE);
    assert!(quarantine(&world).unwrap_or_default().contains("shows 6 ready nodes and DaemonSets, and not one pod"));
    assert!(world.drained().is_empty());
}

#[test]
fn object_counts_are_persisted_when_they_have_changed_much() {
    let mut world = Fixture::with(0, running(0, 0), |_| {});
    let pods: Vec<PodRecord> = (0..100).map(|n| bound_to("m0", pod(&format!("p{n}"), 1))).collect();
    for pod in &pods {
        world.observe("c", Object::Pod(pod.clone()));
    }
    world.run_to(20 * MINUTE);
    let written: Vec<(i64, usize)> =
        world.done.persisted_counts.iter().map(|(at, _, counts)| (at.as_millis(), counts.pods)).collect();
    assert_eq!(written, [(0, 0), (GROWTH_WRITE_DELAY.get(), 100)]);
}

#[test]
fn thresholds_and_delays_of_persisted_counts() {
    let rule = QuarantineRule::default();
    let counts = |nodes: usize, pods: usize| ObjectCounts { nodes, pods, ..ObjectCounts::default() };
    let now = Timestamp::from_millis(1_000_000);
    let due = |after: ObjectCounts| {
        let mut persisted_counts = PersistedCounts::default();
        assert_eq!(persisted_counts.due(&rule, after, now), Some(now), "nothing is written yet");
        persisted_counts.record_write(counts(100, 1_000), now);
        persisted_counts.due(&rule, after, now).map(|at| at.duration_since(now))
    };
    assert_eq!(due(counts(100, 1_200)), None);
    assert_eq!(due(counts(100, 1_250)), Some(DRIFT_WRITE_DELAY));
    assert_eq!(due(counts(100, 2_000)), Some(GROWTH_WRITE_DELAY));
    assert_eq!(due(counts(76, 1_000)), None);
    assert_eq!(due(counts(75, 1_000)), Some(LOSS_WRITE_DELAY));
}
