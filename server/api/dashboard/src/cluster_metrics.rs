//! Metrics of the clusters that this replica decides for: of each cluster, and of each NodePool.
//!
//! A metric of Karpenter 1.14 has its name, type and labels where the meaning is the same, and `cluster` besides. Those of
//! single nodes and pods are in [`object_metrics`](super::object_metrics).

use std::collections::{BTreeMap, BTreeSet};

use controller::guardrails::Mode;
use controller::history::lifecycle_counters::{DisruptionKind, LifecycleCounters, TERMINATION_BOUNDS};
use controller::holds::HoldCounts;
use controller::view::{ClusterView, CpuAndMemory, PodOutlook, PoolView};
use model::{CapacityType, Resources, Timestamp, resources};

use super::duration_metrics;
use super::metric_labels::{base_unit, cluster, resource_type, with};
use agent_session::state::CLOCK_PROBLEM;
use fleet_api::views::FleetView;
use metrics::{Family, Labels, Value};

/// Name, help text and value of a gauge.
type Gauge = (&'static str, &'static str, fn(&ClusterView) -> Value);

const GAUGES: [Gauge; 25] = [
    ("fleetwright_cluster_connected", "Whether the cluster's agent is connected.", |c| Value::from(c.connected)),
    ("fleetwright_cluster_synced", "Whether the cluster's agent is connected and its snapshot is accepted.", |c| {
        Value::from(c.connected && c.synced)
    }),
    (
        "fleetwright_cluster_synced_timestamp_seconds",
        "Unix time of the last accepted snapshot, whether or not the agent is still connected; 0 before the first.",
        |c| (c.synced_since.unwrap_or_default().as_millis() as f64 / 1_000.0).into(),
    ),
    (
        "fleetwright_cluster_problems",
        "Unreadable objects and kinds of the cluster, plus one for clock skew of its agent.",
        |c| c.problems.len().into(),
    ),
    ("fleetwright_cluster_clock_differs", "Whether the agent's clock skew exceeds 30 s.", |c| {
        Value::from(c.problems.iter().any(|problem| *problem.about == *CLOCK_PROBLEM))
    }),
    ("fleetwright_pods", "Pods that have not terminated.", |c| c.pods.into()),
    ("fleetwright_cost_usd_per_hour", "Total price of the cluster's instances, in US dollars per hour.", |c| {
        (c.cost.0 as f64 / 1e6).into()
    }),
    ("fleetwright_decisions_refused", "Whether the last plan was rejected by the plan verifier.", |c| {
        Value::from(c.last_error.is_some())
    }),
    ("fleetwright_guardrails_quarantined", "Whether the cluster is quarantined.", |c| {
        Value::from(c.guardrails.quarantine.is_some())
    }),
    (
        "fleetwright_guardrails_shadow",
        "Whether the cluster is in shadow mode: decisions are recorded and not executed.",
        |c| Value::from(c.guardrails.mode == Mode::Shadow),
    ),
    (
        "fleetwright_guardrails_disruption_shadow",
        "Whether voluntary removals of the cluster are recorded and not executed.",
        |c| Value::from(c.guardrails.disruption_mode == Mode::Shadow),
    ),
    ("fleetwright_guardrails_freezes", "Freezes in effect for the cluster.", |c| c.guardrails.freezes.len().into()),
    (
        "fleetwright_guardrails_circuit_breaker_open",
        "Whether the circuit breaker is open: removals stop because launches fail, in the cluster or fleet-wide.",
        |c| Value::from(c.guardrails.circuit_breaker.is_some()),
    ),
    ("fleetwright_guardrails_launches_held", "Whether the last evaluation held launches back.", |c| {
        Value::from(c.guardrails.held_launches.is_some())
    }),
    ("fleetwright_guardrails_removals_held", "Whether the last evaluation held removals back.", |c| {
        Value::from(c.guardrails.held_removals.is_some())
    }),
    ("fleetwright_guardrails_pods_waiting", "Pods in launch backoff after launches that did not bind them.", |c| {
        c.guardrails.pods_waiting.into()
    }),
    (
        "fleetwright_guardrails_removals_waiting",
        "Removals that wait for confirmation, the end of a freeze, a rate limit, or an operator.",
        |c| c.guardrails.waiting_removals.len().into(),
    ),
    (
        "fleetwright_removals_failing_check",
        "Removals that failed the verifier since this replica owns the cluster; their nodes are kept.",
        |c| c.guardrails.rejected_removals.into(),
    ),
    (
        "fleetwright_guardrails_listing_doubted",
        "Whether the cloud's listings of the cluster's instances are suspicious and ignored.",
        |c| Value::from(c.guardrails.untrusted_listing.is_some()),
    ),
    (
        "fleetwright_orphaned_instances",
        "Instances with the cluster's tags that have no NodeClaim and are not terminated yet.",
        |c| c.anomalies.orphaned.into(),
    ),
    (
        "fleetwright_external_instances",
        "Instances of the cluster whose tags name another owner, or are missing.",
        |c| c.anomalies.foreign.into(),
    ),
    ("fleetwright_terminate_refused", "Instances whose termination the cloud refuses.", |c| {
        c.anomalies.termination_refused.into()
    }),
    ("fleetwright_launches_joined", "Instances that joined the cluster within the circuit breaker's window.", |c| {
        c.guardrails.joined.into()
    }),
    (
        "fleetwright_launches_failed",
        "Failed launches, and instances that did not join in time, within the circuit breaker's window.",
        |c| c.guardrails.failed.into(),
    ),
    ("fleetwright_guardrails_launches_in_window", "Instances launched within the rate limit window.", |c| {
        c.guardrails.launched.into()
    }),
];

/// Reasons for which NodeClaims are created whose counters begin at zero.
const CREATED_FOR: [&str; 3] = ["provisioned", "drifted", "underutilized"];

/// The same, of those for which they are disrupted. Others, such as `unhealthy`, are rare or switched off by default: their
/// series begin with the first.
const DISRUPTED_FOR: [&str; 4] = ["underutilized", "empty", "drifted", "expired"];

/// Capacity types whose counters begin at zero.
const CAPACITY_TYPES: [CapacityType; 2] = [CapacityType::Spot, CapacityType::OnDemand];

/// The cloud's error code for a zone without capacity.
const NO_CAPACITY: &str = "InsufficientInstanceCapacity";

/// What voluntary disruption decides whose counters begin at zero.
const DISRUPTIONS: [DisruptionKind; 7] = [
    disruption("delete", "empty", "empty"),
    disruption("delete", "drifted", ""),
    disruption("replace", "drifted", ""),
    disruption("delete", "underutilized", "single"),
    disruption("replace", "underutilized", "single"),
    disruption("delete", "underutilized", "multi"),
    disruption("replace", "underutilized", "multi"),
];

const fn disruption(decision: &'static str, reason: &'static str, consolidation_type: &'static str) -> DisruptionKind {
    DisruptionKind { decision, reason, consolidation_type }
}

pub fn families(view: &FleetView, now: Timestamp) -> Vec<Family> {
    families_of(&view.views().collect::<Vec<_>>(), now)
}

pub(crate) fn families_of(views: &[&ClusterView], now: Timestamp) -> Vec<Family> {
    let gauges = GAUGES.map(|(name, help, value)| {
        let of_cluster = |view: &&ClusterView| (cluster(view), value(view));
        Family::gauge(name, help).labelled(&["cluster"]).all(views.iter().map(of_cluster))
    });
    let mut families: Vec<Family> = gauges.into();
    families.push(stages(views));
    families.extend(states(views, now));
    families.extend(pools(views));
    families.extend(lifecycle(views));
    families.push(terminations(views));
    families.extend(duration_metrics::families(views, now));
    families
}

fn stages(views: &[&ClusterView]) -> Family {
    let mut family =
        Family::gauge("fleetwright_machines", "Instances by lifecycle stage.").labelled(&["cluster", "stage"]);
    for view in views {
        let mut stages: BTreeMap<&str, usize> = BTreeMap::new();
        view.machines().for_each(|machine| *stages.entry(machine.stage.as_str()).or_default() += 1);
        for (stage, count) in stages {
            family.push(with(view, [("stage", stage)]), count.into());
        }
    }
    family
}

fn states(views: &[&ClusterView], now: Timestamp) -> Vec<Family> {
    let fill = |family: Family, value: &dyn Fn(&ClusterView) -> Value| {
        family.labelled(&["cluster"]).all(views.iter().map(|view| (cluster(view), value(view))))
    };
    let of_scheduler = |family: Family, value: &dyn Fn(&ClusterView) -> usize| {
        let series = views.iter().map(|view| (with(view, [("controller", "provisioner")]), value(view).into()));
        family.labelled(&["cluster", "controller"]).all(series)
    };
    let unplaced = |view: &ClusterView| {
        view.pending_pods.iter().filter(|pod| matches!(pod.outlook, PodOutlook::Unplaced { .. })).count()
    };
    let help = "Requests of pods in percent of what nodes can allocate, by resource.";
    let mut utilization =
        Family::gauge("karpenter_cluster_utilization_percent", help).labelled(&["cluster", "resource_type"]);
    for view in views {
        for (resource, percent) in utilization_of(view) {
            utilization.push(with(view, [("resource_type", resource)]), percent.into());
        }
    }
    vec![
        fill(Family::gauge("karpenter_cluster_state_node_count", "Nodes in the cluster, managed or not."), &|view| {
            view.node_count.into()
        }),
        fill(
            Family::gauge(
                "karpenter_cluster_state_synced",
                "Whether the state of the cluster is complete: its agent is connected, and its snapshot is accepted.",
            ),
            &|view| (view.connected && view.synced).into(),
        ),
        unsynced(views, now),
        of_scheduler(
            Family::gauge(
                "karpenter_scheduler_queue_depth",
                "Pods that wait for a node that may be launched for them.",
            ),
            &|view| view.pending,
        ),
        of_scheduler(
            Family::gauge(
                "karpenter_scheduler_unschedulable_pods_count",
                "Pods for which the last decision found no place.",
            ),
            &unplaced,
        ),
        fill(
            Family::gauge(
                "karpenter_scheduler_ignored_pods_count",
                "Pods that wait, and for which no instance may be launched.",
            ),
            &|view| view.pending_pods.len().saturating_sub(view.pending).into(),
        ),
        utilization,
        eligible(views),
        holds(views),
        hold_prices(views),
    ]
}

fn unsynced(views: &[&ClusterView], now: Timestamp) -> Family {
    let help =
        "Time since the state of the cluster was complete the last time, or since this replica owns it; 0 while it is.";
    let seconds =
        |view: &ClusterView| view.unsynced_since.map_or(0.0, |since| now.duration_since(since).get() as f64 / 1_000.0);
    let series = views.iter().map(|view| (cluster(view), seconds(view).into()));
    Family::gauge("karpenter_cluster_state_unsynced_time_seconds", help).labelled(&["cluster"]).all(series)
}

fn holds(views: &[&ClusterView]) -> Family {
    let help = "Live holds of capacity: those whose room is there, and those that wait for it; absent in a cluster without holds.";
    let mut family = Family::gauge("fleetwright_holds", help).labelled(&["cluster", "state"]);
    for view in views.iter().filter(|view| view.holds != HoldCounts::default()) {
        family.push(with(view, [("state", "waiting")]), view.holds.waiting.into());
        family.push(with(view, [("state", "ready")]), view.holds.ready.into());
    }
    family
}

fn hold_prices(views: &[&ClusterView]) -> Family {
    let help = "Price of the nodes that were launched for holds of capacity, in US dollars per hour; absent in a cluster without holds.";
    let with_holds = views.iter().filter(|view| view.holds != HoldCounts::default());
    let series = with_holds.map(|view| (cluster(view), (view.holds.price.0 as f64 / 1e6).into()));
    Family::gauge("fleetwright_holds_usd_per_hour", help).labelled(&["cluster"]).all(series)
}

fn eligible(views: &[&ClusterView]) -> Family {
    let help = "Nodes that could be removed or replaced for a reason, before budgets, at the last evaluation.";
    let mut family =
        Family::gauge("karpenter_voluntary_disruption_eligible_nodes", help).labelled(&["cluster", "reason"]);
    for view in views {
        for (reason, count) in view.eligible_nodes {
            family.push(with(view, [("reason", &reason.as_str().to_lowercase())]), count.into());
        }
    }
    family
}

fn utilization_of(view: &ClusterView) -> [(&'static str, f64); 2] {
    let (mut requested, mut allocatable) = (CpuAndMemory::default(), CpuAndMemory::default());
    for node in &view.nodes {
        requested.add(node.requested);
        allocatable.add(node.allocatable);
    }
    let percent = |part: i64, whole: i64| if whole > 0 { part as f64 * 100.0 / whole as f64 } else { 0.0 };
    [
        (resources::CPU, percent(requested.cpu_millis, allocatable.cpu_millis)),
        (resources::MEMORY, percent(requested.memory_bytes, allocatable.memory_bytes)),
    ]
}

fn all_pools<'v>(views: &[&'v ClusterView]) -> impl Iterator<Item = (&'v ClusterView, &'v PoolView)> {
    views.iter().flat_map(|view| view.pools.iter().map(|pool| (*view, pool)))
}

fn pools(views: &[&ClusterView]) -> Vec<Family> {
    let amounts = |name, help, of: fn(&PoolView) -> &Resources| {
        let series = all_pools(views).flat_map(|(view, pool)| {
            of(pool).iter().map(|(resource, amount)| {
                let labels = with(view, [("nodepool", &pool.name), ("resource_type", &resource_type(resource))]);
                (labels, base_unit(resource, amount).into())
            })
        });
        Family::gauge(name, help).labelled(&["cluster", "nodepool", "resource_type"]).all(series)
    };
    let of_pool = |name, help, value: fn(&PoolView) -> Value| {
        let series = all_pools(views).map(|(view, pool)| (with(view, [("nodepool", &pool.name)]), value(pool)));
        Family::gauge(name, help).labelled(&["cluster", "nodepool"]).all(series)
    };
    let by_reason = |name, help, value: fn(&PoolView, usize) -> usize| {
        let series = all_pools(views).flat_map(|(view, pool)| {
            pool.allowed_disruptions.iter().enumerate().map(move |(index, (reason, _))| {
                let labels = with(view, [("nodepool", &pool.name), ("reason", &reason.as_str().to_lowercase())]);
                (labels, value(pool, index).into())
            })
        });
        Family::gauge(name, help).labelled(&["cluster", "nodepool", "reason"]).all(series)
    };
    vec![
        amounts("karpenter_nodepools_limit", "Limits of the NodePool, in cores, bytes and nodes.", |pool| &pool.limits),
        amounts(
            "karpenter_nodepools_usage",
            "Capacity of the launched NodeClaims of the NodePool, in cores, bytes and nodes.",
            |pool| &pool.usage,
        ),
        of_pool(
            "karpenter_nodepools_cost_total",
            "Price of the machines of the NodePool, in US dollars per hour.",
            |pool| (pool.cost.0 as f64 / 1e6).into(),
        ),
        of_pool(
            "fleetwright_nodepools_limited_pods",
            "Pods that wait because of the limits of the NodePool.",
            |pool| pool.limited_pods.into(),
        ),
        by_reason(
            "karpenter_nodepools_allowed_disruptions",
            "Nodes of the NodePool that its budgets let be removed at one time, before those that are leaving.",
            |pool, index| pool.allowed_disruptions[index].1,
        ),
        by_reason(
            "karpenter_nodepools_nodes_consuming_budgets",
            "Nodes of the NodePool that are leaving or not ready, and use up its budgets.",
            |pool, _| pool.leaving,
        ),
    ]
}

/// Counters that begin at zero for the label values that are known.
fn lifecycle(views: &[&ClusterView]) -> Vec<Family> {
    let family = |name, help, labels, of: &dyn Fn(&ClusterView) -> BTreeMap<Labels, u64>| {
        let series = views.iter().flat_map(|view| of(view).into_iter().map(|(labels, count)| (labels, count.into())));
        Family::counter(name, help).labelled(labels).all(series)
    };
    vec![
        family(
            "karpenter_nodeclaims_created_total",
            "NodeClaims created, by reason and NodePool.",
            &["cluster", "reason", "nodepool"],
            &created,
        ),
        family(
            "karpenter_nodeclaims_terminated_total",
            "NodeClaims that are gone.",
            &["cluster", "nodepool", "capacity_type", "zone"],
            &terminated,
        ),
        family(
            "karpenter_nodeclaims_disrupted_total",
            "NodeClaims whose termination this server has begun, by reason.",
            &["cluster", "reason", "nodepool", "capacity_type"],
            &disrupted,
        ),
        family(
            "karpenter_nodes_created_total",
            "Nodes that have registered.",
            &["cluster", "nodepool", "zone"],
            &|view| nodes(view, |counters| &counters.nodes_created),
        ),
        family("karpenter_nodes_terminated_total", "Nodes that are gone.", &["cluster", "nodepool", "zone"], &|view| {
            nodes(view, |counters| &counters.nodes_terminated)
        }),
        family("karpenter_nodes_drained_total", "Nodes drained.", &["cluster", "nodepool"], &drained),
        family(
            "karpenter_voluntary_disruption_decisions_total",
            "Decisions that remove nodes that are empty, drifted or underutilized: alone, or with launches in their place.",
            &["cluster", "decision", "reason", "consolidation_type"],
            &disruption_decisions,
        ),
        family(
            "karpenter_cloudprovider_instance_launch_failures_total",
            "Launches that the cloud refused, by zone (empty if all zones were refused), capacity type and error code.",
            &["cluster", "zone", "capacity_type", "reason"],
            &launch_failures,
        ),
        family(
            "karpenter_cloudprovider_instance_termination_failures_total",
            "Terminations that the cloud refused, by zone.",
            &["cluster", "zone"],
            &termination_failures,
        ),
        family(
            "karpenter_voluntary_disruption_failed_validations_total",
            "Nodes that were selected for consolidation and are kept, because the plan does not hold any more.",
            &["cluster", "consolidation_type"],
            &failed_validations,
        ),
        family(
            "karpenter_voluntary_disruption_queue_failures_total",
            "Replacements of nodes that ended without the removal, because the capacity for their pods did not come.",
            &["cluster", "decision", "reason"],
            &failed_replacements,
        ),
    ]
}

fn zones(view: &ClusterView) -> BTreeSet<&str> {
    view.machines().filter_map(|machine| Some(&**machine.instance.as_ref()?.zone.as_text())).collect()
}

fn created(view: &ClusterView) -> BTreeMap<Labels, u64> {
    let labels = |reason: &str, pool: &str| with(view, [("reason", reason), ("nodepool", pool)]);
    let zeros = view.pools.iter().flat_map(|pool| CREATED_FOR.map(|reason| (labels(reason, &pool.name), 0)));
    let counts = view.measured.lifecycle.created.iter().map(|((reason, pool), count)| (labels(reason, pool), *count));
    zeros.chain(counts).collect()
}

fn terminated(view: &ClusterView) -> BTreeMap<Labels, u64> {
    let labels = |pool: &str, capacity_type: CapacityType, zone: &str| {
        with(view, [("nodepool", pool), ("capacity_type", capacity_type.as_str()), ("zone", zone)])
    };
    let mut counts = BTreeMap::new();
    for machine in view.machines() {
        if let Some(instance) = &machine.instance {
            counts.insert(labels(&machine.pool, instance.capacity_type, instance.zone.as_text()), 0);
        }
    }
    let known = view.measured.lifecycle.terminated.iter();
    counts.extend(known.map(|((pool, capacity_type, zone), count)| (labels(pool, *capacity_type, zone), *count)));
    counts
}

fn disrupted(view: &ClusterView) -> BTreeMap<Labels, u64> {
    let labels = |reason: &str, pool: &str, capacity_type: CapacityType| {
        with(view, [("reason", reason), ("nodepool", pool), ("capacity_type", capacity_type.as_str())])
    };
    let mut counts = BTreeMap::new();
    for pool in &view.pools {
        for reason in DISRUPTED_FOR {
            counts.extend(CAPACITY_TYPES.map(|capacity_type| (labels(reason, &pool.name, capacity_type), 0)));
        }
    }
    let known = view.measured.lifecycle.disrupted.iter();
    counts.extend(known.map(|((reason, pool, capacity_type), count)| (labels(reason, pool, *capacity_type), *count)));
    counts
}

/// Counts of nodes by NodePool and zone.
type NodeCounts = BTreeMap<(model::PoolName, model::Zone), u64>;

fn nodes(view: &ClusterView, of: fn(&LifecycleCounters) -> &NodeCounts) -> BTreeMap<Labels, u64> {
    let labels = |pool: &str, zone: &str| with(view, [("nodepool", pool), ("zone", zone)]);
    let zones = zones(view);
    let zeros = view.pools.iter().flat_map(|pool| zones.iter().map(|zone| (labels(&pool.name, zone), 0)));
    let counts = of(&view.measured.lifecycle).iter().map(|((pool, zone), count)| (labels(pool, zone), *count));
    zeros.chain(counts).collect()
}

fn drained(view: &ClusterView) -> BTreeMap<Labels, u64> {
    let labels = |pool: &str| with(view, [("nodepool", pool)]);
    let zeros = view.pools.iter().map(|pool| (labels(&pool.name), 0));
    zeros.chain(view.measured.lifecycle.nodes_drained.iter().map(|(pool, count)| (labels(pool), *count))).collect()
}

fn launch_failures(view: &ClusterView) -> BTreeMap<Labels, u64> {
    let labels = |zone: &str, capacity_type: CapacityType, reason: &str| {
        with(view, [("zone", zone), ("capacity_type", capacity_type.as_str()), ("reason", reason)])
    };
    let zones = zones(view);
    let zeros =
        zones.iter().flat_map(|zone| CAPACITY_TYPES.map(|capacity_type| (labels(zone, capacity_type, NO_CAPACITY), 0)));
    let counts = view.measured.lifecycle.launch_failures.iter();
    zeros
        .chain(counts.map(|((zone, capacity_type, reason), count)| (labels(zone, *capacity_type, reason), *count)))
        .collect()
}

fn termination_failures(view: &ClusterView) -> BTreeMap<Labels, u64> {
    let labels = |zone: &str| with(view, [("zone", zone)]);
    let zeros = zones(view).into_iter().map(|zone| (labels(zone), 0));
    zeros
        .chain(view.measured.lifecycle.termination_failures.iter().map(|(zone, count)| (labels(zone), *count)))
        .collect()
}

fn failed_validations(view: &ClusterView) -> BTreeMap<Labels, u64> {
    let labels = |of: &str| with(view, [("consolidation_type", of)]);
    let zeros = ["single", "multi"].map(|of| (labels(of), 0));
    zeros
        .into_iter()
        .chain(view.measured.lifecycle.failed_validations.iter().map(|(of, count)| (labels(of), *count)))
        .collect()
}

fn failed_replacements(view: &ClusterView) -> BTreeMap<Labels, u64> {
    let labels = |reason: &str| with(view, [("decision", "replace"), ("reason", reason)]);
    let zeros = ["drifted", "underutilized"].map(|reason| (labels(reason), 0));
    let counts = view.measured.lifecycle.failed_replacements.iter().map(|(reason, count)| (labels(reason), *count));
    zeros.into_iter().chain(counts).collect()
}

fn disruption_decisions(view: &ClusterView) -> BTreeMap<Labels, u64> {
    let labels = |of: DisruptionKind| {
        let DisruptionKind { decision, reason, consolidation_type } = of;
        with(view, [("decision", decision), ("reason", reason), ("consolidation_type", consolidation_type)])
    };
    let zeros = DISRUPTIONS.map(|of| (labels(of), 0));
    zeros
        .into_iter()
        .chain(view.measured.lifecycle.disruption_decisions.iter().map(|(of, count)| (labels(*of), *count)))
        .collect()
}

/// Of all clusters together: a histogram for each would be most of their series.
fn terminations(views: &[&ClusterView]) -> Family {
    let bound = |at: usize| TERMINATION_BOUNDS.get(at).map_or(f64::INFINITY, |bound| *bound as f64);
    let count = |at: usize| views.iter().map(|view| view.measured.lifecycle.termination_counts[at]).sum();
    let buckets = (0..=TERMINATION_BOUNDS.len()).map(|at| (bound(at), count(at))).collect();
    let sum: i64 = views.iter().map(|view| view.measured.lifecycle.termination_time.get()).sum();
    Family::histogram(
        "karpenter_nodeclaims_termination_duration_seconds",
        "Time from the begin of a termination until the NodeClaim is gone, of all clusters.",
        sum as f64 / 1_000.0,
        buckets,
    )
}

#[cfg(test)]
mod tests;
