//! `/metrics`: gauges per cluster in the Prometheus text format.

use std::collections::BTreeMap;
use std::fmt::Write;

use controller::guardrails::Mode;
use controller::view::ClusterView;
use model::Timestamp;

use crate::escape::escape_label as escape;
use crate::views::FleetView;
use agent_session::state::CLOCK_PROBLEM;

/// Name, help text and value of a gauge.
type Gauge = (&'static str, &'static str, fn(&ClusterView) -> String);

const GAUGES: [Gauge; 27] = [
    ("fleetwright_cluster_connected", "Whether the cluster's agent is connected.", |c| {
        u8::from(c.connected).to_string()
    }),
    ("fleetwright_cluster_synced", "Whether the cluster's agent is connected and its snapshot is accepted.", |c| {
        u8::from(c.connected && c.synced).to_string()
    }),
    (
        "fleetwright_cluster_synced_timestamp_seconds",
        "Unix time of the accepted snapshot; 0 while there is none.",
        |c| seconds(c.synced_since.filter(|_| c.connected).unwrap_or_default()),
    ),
    (
        "fleetwright_cluster_problems",
        "Unreadable objects and kinds of the cluster, plus one for clock skew of its agent.",
        |c| c.problems.len().to_string(),
    ),
    ("fleetwright_cluster_clock_differs", "Whether the agent's clock skew exceeds 30 s.", |c| {
        u8::from(c.problems.iter().any(|problem| *problem.about == *CLOCK_PROBLEM)).to_string()
    }),
    ("fleetwright_pods", "Pods that have not terminated.", |c| c.pods.to_string()),
    ("fleetwright_pods_pending", "Pending pods that are eligible for a launch.", |c| c.pending.to_string()),
    ("fleetwright_nodes", "Nodes in the cluster, managed or not.", |c| c.node_count.to_string()),
    ("fleetwright_cost_usd_per_hour", "Total price of the cluster's instances, in US dollars per hour.", |c| {
        c.cost.to_string()
    }),
    ("fleetwright_decisions_refused", "Whether the last plan was rejected by the plan verifier.", |c| {
        u8::from(c.last_error.is_some()).to_string()
    }),
    ("fleetwright_guardrails_quarantined", "Whether the cluster is quarantined.", |c| {
        u8::from(c.guardrails.quarantine.is_some()).to_string()
    }),
    (
        "fleetwright_guardrails_shadow",
        "Whether the cluster is in shadow mode: decisions are recorded and not executed.",
        |c| u8::from(c.guardrails.mode == Mode::Shadow).to_string(),
    ),
    (
        "fleetwright_guardrails_disruption_shadow",
        "Whether voluntary removals of the cluster are recorded and not executed.",
        |c| u8::from(c.guardrails.disruption_mode == Mode::Shadow).to_string(),
    ),
    ("fleetwright_guardrails_freezes", "Freezes in effect for the cluster.", |c| {
        c.guardrails.freezes.len().to_string()
    }),
    (
        "fleetwright_guardrails_circuit_breaker_open",
        "Whether the circuit breaker is open: removals stop because launches fail, in the cluster or fleet-wide.",
        |c| u8::from(c.guardrails.circuit_breaker.is_some()).to_string(),
    ),
    ("fleetwright_guardrails_launches_held", "Whether the last evaluation held launches back.", |c| {
        u8::from(c.guardrails.held_launches.is_some()).to_string()
    }),
    ("fleetwright_guardrails_removals_held", "Whether the last evaluation held removals back.", |c| {
        u8::from(c.guardrails.held_removals.is_some()).to_string()
    }),
    ("fleetwright_guardrails_pods_waiting", "Pods in launch backoff after launches that did not bind them.", |c| {
        c.guardrails.pods_waiting.to_string()
    }),
    (
        "fleetwright_guardrails_removals_waiting",
        "Removals that wait for confirmation, the end of a freeze, a rate limit, or an operator.",
        |c| c.guardrails.waiting_removals.len().to_string(),
    ),
    (
        "fleetwright_removals_failing_check",
        "Removals that failed the verifier since this replica owns the cluster; their nodes are kept.",
        |c| c.guardrails.rejected_removals.to_string(),
    ),
    (
        "fleetwright_guardrails_listing_doubted",
        "Whether the cloud's listings of the cluster's instances are suspicious and ignored.",
        |c| u8::from(c.guardrails.untrusted_listing.is_some()).to_string(),
    ),
    (
        "fleetwright_orphaned_instances",
        "Instances with the cluster's tags that have no NodeClaim and are not terminated yet.",
        |c| c.anomalies.orphaned.to_string(),
    ),
    (
        "fleetwright_external_instances",
        "Instances of the cluster whose tags name another owner, or are missing.",
        |c| c.anomalies.foreign.to_string(),
    ),
    ("fleetwright_terminate_refused", "Instances whose termination the cloud refuses.", |c| {
        c.anomalies.termination_refused.to_string()
    }),
    ("fleetwright_launches_joined", "Instances that joined the cluster within the circuit breaker's window.", |c| {
        c.guardrails.joined.to_string()
    }),
    (
        "fleetwright_launches_failed",
        "Failed launches, and instances that did not join in time, within the circuit breaker's window.",
        |c| c.guardrails.failed.to_string(),
    ),
    ("fleetwright_guardrails_launches_in_window", "Instances launched within the rate limit window.", |c| {
        c.guardrails.launched.to_string()
    }),
];

fn seconds(at: Timestamp) -> String {
    format!("{}.{:03}", at.as_millis().div_euclid(1_000), at.as_millis().rem_euclid(1_000))
}

/// Renders every gauge of every cluster.
pub(super) fn render(view: &FleetView) -> String {
    let mut text = String::new();
    for (name, help, value) in GAUGES {
        head(&mut text, name, help);
        for view in view.views() {
            line(&mut text, name, &format!("cluster=\"{}\"", escape(&view.cluster)), &value(view));
        }
    }
    head(&mut text, "fleetwright_machines", "Instances by lifecycle stage.");
    for view in view.views() {
        let mut stages: BTreeMap<&str, usize> = BTreeMap::new();
        view.machines().for_each(|machine| *stages.entry(machine.stage.as_str()).or_default() += 1);
        for (stage, count) in stages {
            let labels = format!("cluster=\"{}\",stage=\"{stage}\"", escape(&view.cluster));
            line(&mut text, "fleetwright_machines", &labels, &count.to_string());
        }
    }
    text
}

fn head(text: &mut String, name: &str, help: &str) {
    let _infallible = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
}

fn line(text: &mut String, name: &str, labels: &str, value: &str) {
    let _infallible = writeln!(text, "{name}{{{labels}}} {value}");
}
