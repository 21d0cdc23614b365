//! What a scrape and a health check get of this process.

mod disruption_plans;
mod searches;

use std::sync::Arc;

use controller::FleetState;
use dashboard::Pages;
use fleet_api::capacity::CapacityApi;
use metrics::Family;
use metrics::histogram::PLANS_FAILING_CHECK;
use store::clock;

pub use disruption_plans::{DISRUPTION_BEGUN, DISRUPTION_CPU, DISRUPTION_LONGEST_WAIT, DISRUPTION_WAITED};

use crate::clouds::measured;
use crate::control_loop::{Heartbeat, Latencies};
use crate::replicas::Replicas;
use crate::{api_budget, catalogue_refresh, interruptions};

/// Metric: latency of decisions after their batch window.
pub const DECIDED: &str = "fleetwright_decision_latency_seconds";
/// Metric: latency of the instructions that follow from decisions.
pub const ORDERED: &str = "fleetwright_order_latency_seconds";
/// Metric: time that plans of disruption take.
pub const DISRUPTION_PLANNED: &str = "fleetwright_disruption_plan_duration_seconds";

/// What this process counts and measures.
pub(crate) struct ProcessMetrics {
    /// Its searches and plans of disruption are counted.
    pub(crate) fleet: Arc<FleetState>,
    pub(crate) latencies: Arc<Latencies>,
    /// Those of all control loops, checked by `/healthz`.
    pub(crate) heartbeats: Vec<Arc<Heartbeat>>,
    /// Other replicas on the same database.
    pub(crate) replicas: Arc<Replicas>,
}

impl ProcessMetrics {
    /// The pages of a server with this API.
    pub(crate) fn pages(self, api: CapacityApi) -> Pages {
        let Self { fleet, latencies, heartbeats, replicas } = self;
        let families = move || {
            let mut all = families(&latencies, &fleet);
            all.extend(replicas.families());
            all
        };
        let stall_reason = move || heartbeats.iter().find_map(|heartbeat| heartbeat.stall_reason());
        Pages { api, stall_reason: Arc::new(stall_reason), process_metrics: Arc::new(families) }
    }
}

/// The metrics of this process beside those of clusters, replicas and store.
fn families(latencies: &Latencies, fleet: &FleetState) -> Vec<Family> {
    let Latencies { decided, ordered, planned, disruption, step_times } = latencies;
    let mut families = vec![
        decided.family(DECIDED, "Time from the end of a batch window to the decision for its pods."),
        ordered.family(
            ORDERED,
            "Time from the end of a batch window to the instruction for a NodeClaim, with the decision persisted.",
        ),
        Family::histograms(
            "karpenter_scheduler_scheduling_duration_seconds",
            "Time to plan for the pending pods of a cluster: where each has its place, and on which machines to launch.",
        )
        .labelled(&["controller"])
        .with(vec![("controller", "provisioner".to_owned())], planned.value()),
        disruption.family(
            DISRUPTION_PLANNED,
            "Time to plan the disruption of a whole cluster: which nodes are removed or replaced.",
        ),
    ];
    families.extend(step_times.families());
    families.extend(searches::families(&fleet.search_totals()));
    families.extend(disruption_plans::families(&fleet.disruption_totals()));
    families.extend(interruptions::METRICS.families());
    families.extend(catalogue_refresh::METRICS.families(clock::now()));
    families.extend(api_budget::CALLS.families());
    families.extend(measured::CALLS.families());
    families.extend(fleet_api::capacity::QUOTES.families());
    families.push(PLANS_FAILING_CHECK.family(
        "fleetwright_plans_failing_check_total",
        "Plans that failed the plan verifier; pods may have been excluded from the plan.",
    ));
    let version = vec![("version", env!("CARGO_PKG_VERSION").to_owned())];
    families.push(
        Family::gauge("fleetwright_build_info", "Version of this server.")
            .labelled(&["version"])
            .with(version, true.into()),
    );
    families
}

#[cfg(test)]
mod tests {
    use dashboard::{cluster_metrics, object_metrics, object_selection};
    use fleet_api::views::FleetView;
    use model::Timestamp;

    use super::*;

    /// Metrics of Karpenter 1.14 with its types. What has one of these names has its meaning.
    const KARPENTER: [(&str, &str); 41] = [
        ("karpenter_cloudprovider_duration_seconds", "histogram"),
        ("karpenter_cloudprovider_errors_total", "counter"),
        ("karpenter_cloudprovider_instance_launch_failures_total", "counter"),
        ("karpenter_cloudprovider_instance_termination_failures_total", "counter"),
        ("karpenter_cluster_state_node_count", "gauge"),
        ("karpenter_cluster_state_synced", "gauge"),
        ("karpenter_cluster_state_unsynced_time_seconds", "gauge"),
        ("karpenter_cluster_utilization_percent", "gauge"),
        ("karpenter_interruption_deleted_messages_total", "counter"),
        ("karpenter_interruption_message_queue_duration_seconds", "histogram"),
        ("karpenter_interruption_received_messages_total", "counter"),
        ("karpenter_nodeclaims_created_total", "counter"),
        ("karpenter_nodeclaims_disrupted_total", "counter"),
        ("karpenter_nodeclaims_terminated_total", "counter"),
        ("karpenter_nodeclaims_termination_duration_seconds", "histogram"),
        ("karpenter_nodepools_allowed_disruptions", "gauge"),
        ("karpenter_nodepools_cost_total", "gauge"),
        ("karpenter_nodepools_limit", "gauge"),
        ("karpenter_nodepools_nodes_consuming_budgets", "gauge"),
        ("karpenter_nodepools_usage", "gauge"),
        ("karpenter_nodes_allocatable", "gauge"),
        ("karpenter_nodes_created_total", "counter"),
        ("karpenter_nodes_current_lifetime_seconds", "gauge"),
        ("karpenter_nodes_drained_total", "counter"),
        ("karpenter_nodes_system_overhead", "gauge"),
        ("karpenter_nodes_terminated_total", "counter"),
        ("karpenter_nodes_termination_duration_seconds", "summary"),
        ("karpenter_nodes_total_daemon_requests", "gauge"),
        ("karpenter_nodes_total_pod_requests", "gauge"),
        ("karpenter_pods_bound_duration_seconds", "histogram"),
        ("karpenter_pods_startup_duration_seconds", "summary"),
        ("karpenter_pods_state", "gauge"),
        ("karpenter_pods_unbound_time_seconds", "gauge"),
        ("karpenter_scheduler_ignored_pods_count", "gauge"),
        ("karpenter_scheduler_queue_depth", "gauge"),
        ("karpenter_scheduler_scheduling_duration_seconds", "histogram"),
        ("karpenter_scheduler_unschedulable_pods_count", "gauge"),
        ("karpenter_voluntary_disruption_decisions_total", "counter"),
        ("karpenter_voluntary_disruption_eligible_nodes", "gauge"),
        ("karpenter_voluntary_disruption_failed_validations_total", "counter"),
        ("karpenter_voluntary_disruption_queue_failures_total", "counter"),
    ];

    fn all_families() -> Vec<Family> {
        let mut all = families(&Latencies::default(), &FleetState::new(&controller::Settings::default()));
        all.extend(Replicas::default().families());
        all.extend(cluster_metrics::families(&FleetView::default(), clock::now()));
        all.extend(fleet_api::conditions::Conditions::default().families(Timestamp::default()));
        all.push(object_selection::missing(0));
        all.push(dashboard::clusters(0));
        all.extend(object_metrics::nodes(&[], Timestamp::default()));
        all.extend(object_metrics::pods(&[], Timestamp::default()));
        all
    }

    /// The reference in `deploy/metrics.md`. With `UPDATE_METRICS=1` it is written.
    #[test]
    fn the_reference_names_every_metric() {
        let mut rows: Vec<String> = all_families().iter().map(Family::reference).collect();
        rows.sort();
        let text = format!(
            "# Metrics\n\n\
             `/metrics` of each server has the metrics of the clusters that it decides for, in the text format of Prometheus, or in that of\n\
             OpenMetrics if the scraper names it in `Accept`. A metric of Karpenter 1.14 has its name, type and labels where the meaning is the\n\
             same, and `cluster` besides. Counters begin at 0 when the server begins to decide for a cluster.\n\n\
             Nodes and pods have series of their own (`karpenter_nodes_…` with `node_name`, `karpenter_pods_state`,\n\
             `karpenter_pods_unbound_time_seconds`) where a scraper asks for them, by names of clusters or prefixes:\n\
             `/metrics?nodes=shop-*&pods=shop-eu,shop-us`. A scrape of Prometheus names them in its `params`. Labels of nodes without a value\n\
             are left out.\n\n\
             This table is generated: `UPDATE_METRICS=1 cargo test -p fleetwright-server --lib the_reference`.\n\n\
             | metric | type | labels | meaning |\n|---|---|---|---|\n{}\n",
            rows.join("\n")
        );
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../deploy/metrics.md");
        if std::env::var_os("UPDATE_METRICS").is_some() {
            std::fs::write(path, &text).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap_or_default(), text, "write it with UPDATE_METRICS=1");
    }

    #[test]
    fn names_of_karpenter_are_its_own() {
        for family in all_families().iter().filter(|family| family.name().starts_with("karpenter_")) {
            let row = family.reference();
            let known = KARPENTER.iter().any(|(name, kind)| row.starts_with(&format!("| `{name}` | {kind} |")));
            assert!(known, "{row}");
        }
    }
}
