use std::sync::Arc;

use controller::guardrails::GuardrailsView;
use controller::history::Measurements;
use controller::history::pod_durations::PodDurations;
use controller::holds::HoldCounts;
use controller::view::{InstanceAnomalies, MachineView, NodeView};
use controller::{LaunchedInstance, StageKind};
use model::disruption_policy::DisruptionReason;
use model::{MicroUsd, Millis, Timestamp};

use super::*;
use fleet_api::views::PublishedCluster;
use metrics::series;

const ZONES: [&str; 3] = ["us-east-1a", "us-east-1b", "us-east-1c"];

fn machine(pool: &str, zone: &str, capacity_type: CapacityType) -> NodeView {
    let claim = format!("{pool}-{zone}-{}", capacity_type.as_str());
    NodeView {
        name: claim.as_str().into(),
        uid: Default::default(),
        machine: Some(MachineView {
            claim: claim.as_str().into(),
            node: Some(claim.as_str().into()),
            pool: pool.into(),
            stage: StageKind::Initialized,
            since: Timestamp::default(),
            instance: Some(LaunchedInstance {
                instance_type: "m6i.xlarge".into(),
                zone: zone.into(),
                capacity_type,
                price: MicroUsd(192_000),
            }),
            termination_reason: None,
            blocked: None,
            cost: Default::default(),
        }),
        provider_id: Default::default(),
        instance_type: "m6i.xlarge".into(),
        zone: zone.into(),
        capacity_type: capacity_type.as_str().into(),
        ready: true,
        created: None,
        pods: 0,
        requested: CpuAndMemory { cpu_millis: 1_000, memory_bytes: 1 << 30 },
        allocatable: CpuAndMemory { cpu_millis: 4_000, memory_bytes: 8 << 30 },
    }
}

fn pool(name: &str) -> PoolView {
    PoolView {
        name: name.into(),
        weight: 0,
        closed: None,
        limits: Resources::from_iter([("cpu", 100_500), ("memory", 1 << 40)]),
        usage: Resources::from_iter([("cpu", 24_000), ("memory", 48 << 30), ("pods", 348), ("nodes", 6)]),
        cost: MicroUsd(1_152_000),
        allowed_disruptions: [
            (DisruptionReason::Empty, 2),
            (DisruptionReason::Drifted, 1),
            (DisruptionReason::Underutilized, 1),
        ],
        leaving: 1,
        drifted: 2,
        limited_pods: 4,
    }
}

/// A cluster with a machine of both capacity types in each zone and NodePool.
fn view(name: &str, pools: &[&str]) -> ClusterView {
    let machines = pools.iter().flat_map(|pool| {
        ZONES.iter().flat_map(move |zone| CAPACITY_TYPES.map(|capacity_type| machine(pool, zone, capacity_type)))
    });
    ClusterView {
        cluster: name.into(),
        connected: true,
        synced: true,
        synced_since: None,
        unsynced_since: None,
        version: 1,
        pods: 7,
        pending: 2,
        pending_pods: Vec::new(),
        node_count: 3,
        nodes: machines.collect(),
        pools: pools.iter().map(|name| pool(name)).collect(),
        cost: MicroUsd(0),
        unavailable_offerings: 0,
        decisions: Vec::new(),
        last_error: None,
        planning: None,
        guardrails: GuardrailsView::default(),
        anomalies: InstanceAnomalies::default(),
        autoscalers: Vec::new(),
        problems: Vec::new(),
        unmanaged_pools: Vec::new(),
        unusable_nodes: Vec::new(),
        measured: Default::default(),
        holds: HoldCounts { waiting: 1, ready: 2, price: MicroUsd(250_000) },
        eligible_nodes: [
            (DisruptionReason::Empty, 1),
            (DisruptionReason::Drifted, 0),
            (DisruptionReason::Underutilized, 2),
        ],
    }
}

fn fleet(views: Vec<ClusterView>) -> FleetView {
    let published =
        |view: ClusterView| (view.cluster.clone(), Arc::new(PublishedCluster { view, rows: Default::default() }));
    FleetView { taken_at: Timestamp::default(), clusters: views.into_iter().map(published).collect() }
}

/// The series of a metric without its name.
fn of(view: &FleetView, name: &str) -> Vec<String> {
    let all = series(families(view, Timestamp::default()));
    all.iter().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{').map(str::to_owned)).collect()
}

/// The goal: at most 200 for a cluster with three NodePools. Karpenter has tens of thousands, with those of each node and pod.
#[test]
fn a_cluster_with_three_pools_has_at_most_two_hundred_series() {
    // Holds, which few clusters have, add three.
    let without_holds = ClusterView { holds: HoldCounts::default(), ..view("shop", &["arm", "batch", "general"]) };
    let fleet = fleet(vec![without_holds]);
    let all = series(families(&fleet, Timestamp::default()));
    let of_cluster = all.iter().filter(|line| line.contains("cluster=\"shop\"")).count();
    assert!((100..=200).contains(&of_cluster), "{of_cluster} series");
}

#[test]
fn pools_have_limits_usage_cost_and_budgets_in_base_units() {
    let fleet = fleet(vec![view("shop", &["p"])]);
    let labels = r#"cluster="shop",nodepool="p""#;
    for (name, expected) in [
        ("karpenter_nodepools_limit", format!(r#"{labels},resource_type="cpu"}} 100.5"#)),
        ("karpenter_nodepools_usage", format!(r#"{labels},resource_type="nodes"}} 6"#)),
        ("karpenter_nodepools_usage", format!(r#"{labels},resource_type="memory"}} 51539607552"#)),
        ("karpenter_nodepools_cost_total", format!("{labels}}} 1.152")),
        ("fleetwright_nodepools_limited_pods", format!("{labels}}} 4")),
        ("karpenter_nodepools_allowed_disruptions", format!(r#"{labels},reason="empty"}} 2"#)),
        ("karpenter_nodepools_nodes_consuming_budgets", format!(r#"{labels},reason="underutilized"}} 1"#)),
    ] {
        let found = of(&fleet, name);
        assert!(found.contains(&expected), "{name} {expected}: {found:#?}");
    }
    // 6 nodes request a quarter of their CPU, and an eighth of their memory.
    let utilization = of(&fleet, "karpenter_cluster_utilization_percent");
    let expected = [r#"cluster="shop",resource_type="cpu"} 25"#, r#"cluster="shop",resource_type="memory"} 12.5"#];
    assert_eq!(utilization, expected);
}

#[test]
fn counters_begin_at_zero_for_what_is_known() {
    let mut one = view("shop", &["p"]);
    let mut counters = LifecycleCounters::default();
    counters.created.insert(("held", "p".into()), 2);
    counters.terminated.insert(("p".into(), CapacityType::Spot, "us-east-1a".into()), 3);
    counters.disrupted.insert(("empty", "gone".into(), CapacityType::Spot), 1);
    counters.launch_failures.insert((ZONES[1].into(), CapacityType::Spot, "InsufficientInstanceCapacity".into()), 5);
    counters.termination_failures.insert(ZONES[1].into(), 4);
    counters.failed_validations.insert("multi", 6);
    counters.failed_replacements.insert("drifted", 7);
    counters.termination_counts[2] = 1;
    counters.termination_time = Millis::new(3_500);
    one.measured.lifecycle = Arc::new(counters);
    let fleet = fleet(vec![one, view("bank", &[])]);
    let created = of(&fleet, "karpenter_nodeclaims_created_total");
    let row = |reason: &str, count: u64| format!(r#"cluster="shop",reason="{reason}",nodepool="p"}} {count}"#);
    assert_eq!(created, [row("drifted", 0), row("held", 2), row("provisioned", 0), row("underutilized", 0)]);
    let terminated = of(&fleet, "karpenter_nodeclaims_terminated_total");
    assert_eq!(terminated.len(), 6, "two capacity types in three zones: {terminated:#?}");
    let expected = r#"cluster="shop",nodepool="p",capacity_type="spot",zone="us-east-1a"} 3"#.to_owned();
    assert!(terminated.contains(&expected), "{terminated:#?}");
    let disrupted = of(&fleet, "karpenter_nodeclaims_disrupted_total");
    assert_eq!(disrupted.len(), 4 * 2 + 1, "reasons and capacity types, and that of a NodePool that is gone");
    let failures = of(&fleet, "karpenter_cloudprovider_instance_launch_failures_total");
    let expected = r#"cluster="shop",zone="us-east-1b",capacity_type="spot",reason="InsufficientInstanceCapacity"} 5"#;
    assert!(
        failures.len() == 6 && failures.contains(&expected.to_owned()),
        "three zones, two capacity types: {failures:#?}"
    );
    assert_eq!(of(&fleet, "karpenter_voluntary_disruption_decisions_total").len(), 2 * 7, "of both clusters");
    let all = series(families(&fleet, Timestamp::default()));
    for line in [
        r#"karpenter_cloudprovider_instance_termination_failures_total{cluster="shop",zone="us-east-1a"} 0"#,
        r#"karpenter_cloudprovider_instance_termination_failures_total{cluster="shop",zone="us-east-1b"} 4"#,
        r#"karpenter_voluntary_disruption_failed_validations_total{cluster="shop",consolidation_type="multi"} 6"#,
        r#"karpenter_voluntary_disruption_failed_validations_total{cluster="bank",consolidation_type="single"} 0"#,
        r#"karpenter_voluntary_disruption_queue_failures_total{cluster="shop",decision="replace",reason="drifted"} 7"#,
        r#"karpenter_voluntary_disruption_queue_failures_total{cluster="bank",decision="replace",reason="underutilized"} 0"#,
        r#"karpenter_nodeclaims_termination_duration_seconds_bucket{le="2"} 0"#,
        r#"karpenter_nodeclaims_termination_duration_seconds_bucket{le="4"} 1"#,
        "karpenter_nodeclaims_termination_duration_seconds_sum 3.5",
    ] {
        assert!(all.iter().any(|found| found == line), "{line} is missing");
    }
}

#[test]
fn the_time_without_a_complete_state_is_measured_until_now() {
    let mut one = view("shop", &[]);
    one.unsynced_since = Some(Timestamp::from_millis(1_000));
    let fleet = fleet(vec![one, view("bank", &[])]);
    let all = series(families(&fleet, Timestamp::from_millis(3_500)));
    for line in [
        r#"karpenter_cluster_state_unsynced_time_seconds{cluster="shop"} 2.5"#,
        r#"karpenter_cluster_state_unsynced_time_seconds{cluster="bank"} 0"#,
    ] {
        assert!(all.iter().any(|found| found == line), "{line} is not among {all:#?}");
    }
}

#[test]
fn a_cluster_without_its_agent_has_the_time_of_its_last_snapshot() {
    let synced_since = Some(Timestamp::from_millis(2_500));
    let lost = ClusterView { connected: false, synced: false, synced_since, ..view("shop", &[]) };
    let fleet = fleet(vec![lost, view("bank", &[])]);
    let time = of(&fleet, "fleetwright_cluster_synced_timestamp_seconds");
    assert_eq!(time, [r#"cluster="bank"} 0"#, r#"cluster="shop"} 2.5"#]);
    assert_eq!(of(&fleet, "fleetwright_cluster_synced"), [r#"cluster="bank"} 1"#, r#"cluster="shop"} 0"#]);
}

/// A name from a cluster is one value of one label.
#[test]
fn names_cannot_end_a_label() {
    let fleet = fleet(vec![view("shop", &["a\"} 1\nkarpenter_fake{x=\"\u{1b}[2J"])]);
    let all = series(families(&fleet, Timestamp::default()));
    assert!(all.iter().all(|line| !line.starts_with("karpenter_fake") && !line.contains('\u{1b}')), "{all:#?}");
    let cost = of(&fleet, "karpenter_nodepools_cost_total");
    assert_eq!(cost, [r#"cluster="shop",nodepool="a\"} 1\\u{a}karpenter_fake{x=\"\\u{1b}[2J"} 1.152"#]);
}

#[test]
fn summaries_have_the_quantiles_of_the_last_minutes_and_eligible_nodes_their_reasons() {
    let mut one = view("shop", &["p"]);
    let (mut counters, mut pods) = (LifecycleCounters::default(), PodDurations::default());
    for seconds in [4, 2, 6] {
        counters
            .node_terminations
            .entry("p".into())
            .or_default()
            .observe(Millis::from_secs(seconds), Timestamp::default());
        pods.startup.observe(Millis::from_secs(10 * seconds), Timestamp::default());
        pods.bound.observe(Millis::from_secs(seconds));
    }
    one.measured = Measurements { lifecycle: Arc::new(counters), pod_durations: Arc::new(pods) };
    let all = series(families(&fleet(vec![one, view("bank", &["q"])]), Timestamp::default()));
    for line in [
        r#"karpenter_nodes_termination_duration_seconds{cluster="shop",nodepool="p",quantile="0"} 2.0"#,
        r#"karpenter_nodes_termination_duration_seconds{cluster="shop",nodepool="p",quantile="0.5"} 4.0"#,
        r#"karpenter_nodes_termination_duration_seconds{cluster="shop",nodepool="p",quantile="1"} 6.0"#,
        r#"karpenter_nodes_termination_duration_seconds_sum{cluster="shop",nodepool="p"} 12.0"#,
        r#"karpenter_nodes_termination_duration_seconds{cluster="bank",nodepool="q",quantile="0.99"} NaN"#,
        r#"karpenter_nodes_termination_duration_seconds_count{cluster="bank",nodepool="q"} 0"#,
        r#"karpenter_pods_startup_duration_seconds{cluster="shop",quantile="0.9"} 60.0"#,
        r#"karpenter_pods_startup_duration_seconds_count{cluster="shop"} 3"#,
        r#"karpenter_pods_bound_duration_seconds_bucket{le="5"} 2"#,
        r#"karpenter_voluntary_disruption_eligible_nodes{cluster="shop",reason="underutilized"} 2"#,
        r#"fleetwright_holds{cluster="shop",state="waiting"} 1"#,
        r#"fleetwright_holds{cluster="shop",state="ready"} 2"#,
        r#"fleetwright_holds_usd_per_hour{cluster="shop"} 0.25"#,
    ] {
        assert!(all.iter().any(|found| found == line), "{line} is not among {all:#?}");
    }
}
