//! HTTP: dashboard, health, metrics, and the API as JSON ([`api`]).

mod api;
mod assets;
mod body_deadline;
mod cluster_metrics;
mod disruption;
mod duration_metrics;
pub mod listener;
mod metric_labels;
mod object_metrics;
mod object_selection;
mod searches;

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use controller::FleetState;
use controller::view::ClusterView;
use object_selection::ObjectSelection;

pub use disruption::{DISRUPTION_BEGUN, DISRUPTION_CPU, DISRUPTION_LONGEST_WAIT, DISRUPTION_WAITED};

use crate::api_budget;
use crate::capacity::{CapacityApi, QUOTES};
use crate::catalogue_refresh;
use crate::clouds::measured;
use crate::control_loop::{Heartbeat, Latencies};
use crate::histogram::PLANS_FAILING_CHECK;
use crate::interruptions;
use crate::metrics::{Family, Format, encode};
use crate::replicas::Replicas;
use crate::views::FleetView;
use auth::Client;
use auth::authorizer::Authorizer;
use auth::middleware::{PageAccess, authorize_page, public_page};
use auth::sign_in;
use model::{ClusterName, Timestamp};
use store::clock;

/// Metric: latency of decisions after their batch window.
pub const DECIDED: &str = "fleetwright_decision_latency_seconds";
/// Metric: latency of the instructions that follow from decisions.
pub const ORDERED: &str = "fleetwright_order_latency_seconds";
/// Metric: time that plans of disruption take.
pub const DISRUPTION_PLANNED: &str = "fleetwright_disruption_plan_duration_seconds";

#[derive(Clone)]
pub(crate) struct Pages {
    /// The API, whose views and store are those of the metrics and of `/readyz`.
    pub(crate) api: CapacityApi,
    /// Its searches and plans of disruption are counted.
    pub(crate) fleet: Arc<FleetState>,
    pub(crate) latencies: Arc<Latencies>,
    /// Those of all control loops, checked by `/healthz`.
    pub(crate) heartbeats: Vec<Arc<Heartbeat>>,
    /// Other replicas on the same database.
    pub(crate) replicas: Arc<Replicas>,
}

/// Router with every route. Everybody gets the health, and the files of the dashboard, which have no secrets, to sign in;
/// clients of the trust file get all else.
///
/// # Errors
/// The descriptors of the API have no valid routes.
pub(crate) fn router(pages: Pages, authorizer: &Arc<Authorizer>) -> anyhow::Result<Router> {
    let (api, transcoder) = api::router(pages.api.clone(), Arc::clone(authorizer))?;
    let access = PageAccess {
        authorizer: Arc::clone(authorizer),
        refuse: Arc::new(move |path, status| api::refusal(&transcoder, path, status)),
    };
    let health = Router::new().route("/healthz", get(health)).route("/readyz", get(ready)).with_state(pages.clone());
    let public = health.merge(assets::router()).merge(sign_in::router(Arc::clone(authorizer)));
    let clients = Router::new().route("/metrics", get(metrics)).with_state(pages).merge(api);
    let clients = clients.layer(from_fn_with_state(access.clone(), authorize_page));
    let all = clients.merge(public.layer(from_fn_with_state(access, public_page)));
    Ok(all.layer(axum::middleware::map_request(body_deadline::within_deadline)))
}

/// Liveness. Fails when the process makes no progress and should be restarted; an unavailable store
/// is no reason for that.
async fn health(State(pages): State<Pages>) -> Response {
    match pages.heartbeats.iter().find_map(|heartbeat| heartbeat.stall_reason()) {
        None => "ok\n".into_response(),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

/// Readiness, as of the last check of the store: a question to a store that is stopped would take as long as its timeout.
async fn ready(State(pages): State<Pages>) -> Response {
    let fleet = &pages.api.fleet;
    readiness(fleet.conditions.is_ready(clock::now()), fleet.replicas.is_settled())
}

/// The response is public, so the store's error goes to the log only.
fn readiness(is_store_up: bool, are_replicas_known: bool) -> Response {
    let reason = match (is_store_up, are_replicas_known) {
        (true, true) => return "ok\n".into_response(),
        (false, _) => "not ready: store unavailable\n",
        (true, false) => "not ready: looking for the other replicas\n",
    };
    (StatusCode::SERVICE_UNAVAILABLE, reason).into_response()
}

/// Parameters name clusters whose nodes and pods have series of their own ([`object_selection`]).
async fn metrics(
    State(pages): State<Pages>,
    Query(parameters): Query<Vec<(String, String)>>,
    client: Option<Extension<Client>>,
    headers: HeaderMap,
) -> Result<Response, (StatusCode, String)> {
    let format = Format::of_accept(headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()));
    let selection = ObjectSelection::of_parameters(&parameters)?;
    let mut view = FleetView::clone(&pages.api.fleet.views.borrow());
    let is_allowed = |cluster: &ClusterName| client.as_ref().is_none_or(|client| client.clusters.allows(cluster));
    view.clusters.retain(|cluster, _| is_allowed(cluster));
    selection.check_size(view.views())?;
    let mut families = families(&view, &pages.latencies, &pages.fleet);
    families.push(clusters(pages.api.fleet.directory.count(is_allowed)));
    families.extend(pages.replicas.families());
    families.extend(pages.api.fleet.conditions.families(clock::now()));
    let clusters = view.views().map(|view| &view.cluster);
    let (observed, missing) = selection.observe(clusters, &pages.api.fleet.questions).await;
    if selection.is_of_nodes() {
        families.extend(object_metrics::nodes(&observed, clock::now()));
    }
    if selection.is_of_pods() {
        families.extend(object_metrics::pods(&observed, clock::now()));
    }
    families.push(object_selection::missing(missing));
    let text = encode(families, format);
    Ok(([(header::CONTENT_TYPE, format.content_type())], text).into_response())
}

/// The metrics of one cluster in the text format of Prometheus, without those of single nodes and pods.
#[must_use]
pub fn metrics_of_cluster(view: &ClusterView, now: Timestamp) -> String {
    encode(cluster_metrics::families_of(&[view], now), Format::Prometheus)
}

/// A fleet to which no agent has ever connected has no series of a cluster: this one says that there is none.
fn clusters(known: usize) -> Family {
    let help = "Clusters of the fleet, whichever server decides for them; 0 until the first agent has connected.";
    Family::gauge("fleetwright_clusters", help).with(Vec::new(), known.into())
}

/// The metrics of this process but for those of replicas and store.
fn families(view: &FleetView, latencies: &Latencies, fleet: &FleetState) -> Vec<Family> {
    let Latencies { decided, ordered, planned, disruption, step_times } = latencies;
    let mut families = cluster_metrics::families(view, clock::now());
    families.extend([
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
    ]);
    families.extend(step_times.families());
    families.extend(searches::families(&fleet.search_totals()));
    families.extend(disruption::families(&fleet.disruption_totals()));
    families.extend(interruptions::METRICS.families());
    families.extend(catalogue_refresh::METRICS.families(clock::now()));
    families.extend(api_budget::CALLS.families());
    families.extend(measured::CALLS.families());
    families.extend(QUOTES.families());
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
    use axum::body::to_bytes;

    use super::*;

    #[tokio::test]
    async fn a_server_is_ready_with_a_store_that_takes_writes_and_once_it_knows_the_other_replicas() {
        assert_eq!(readiness(true, true).status(), StatusCode::OK);
        for (is_store_up, are_replicas_known, expected) in [
            (false, true, "not ready: store unavailable\n"),
            (false, false, "not ready: store unavailable\n"),
            (true, false, "not ready: looking for the other replicas\n"),
        ] {
            let answer = readiness(is_store_up, are_replicas_known);
            assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(to_bytes(answer.into_body(), 1_000).await.unwrap(), expected);
        }
    }

    #[test]
    fn a_fleet_without_clusters_has_a_metric_that_says_so() {
        assert_eq!(crate::metrics::series(vec![clusters(0)]), ["fleetwright_clusters 0"]);
    }

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
        let mut all =
            families(&FleetView::default(), &Latencies::default(), &FleetState::new(&controller::Settings::default()));
        all.extend(Replicas::default().families());
        all.extend(crate::conditions::Conditions::default().families(Timestamp::default()));
        all.push(object_selection::missing(0));
        all.push(clusters(0));
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
