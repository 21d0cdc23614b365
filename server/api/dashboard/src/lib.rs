//! HTTP: dashboard, health, metrics, and the API as JSON ([`api`]).

mod api;
mod assets;
mod body_deadline;
pub mod cluster_metrics;
mod duration_metrics;
pub mod listener;
mod metric_labels;
pub mod object_metrics;
pub mod object_selection;

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Router};
use controller::view::ClusterView;
use object_selection::ObjectSelection;

use auth::Client;
use auth::authorizer::Authorizer;
use auth::middleware::{PageAccess, authorize_page, public_page};
use auth::sign_in;
use fleet_api::capacity::CapacityApi;
use fleet_api::views::FleetView;
use metrics::{Family, Format, encode};
use model::{ClusterName, Timestamp};
use store::clock;

/// What the pages show.
#[derive(Clone)]
pub struct Pages {
    /// The API, whose views and store are those of the metrics and of `/readyz`.
    pub api: CapacityApi,
    /// Why this process makes no progress, for `/healthz`.
    pub stall_reason: Arc<dyn Fn() -> Option<String> + Send + Sync>,
    /// The metrics of this process beside those of its clusters.
    pub process_metrics: Arc<dyn Fn() -> Vec<Family> + Send + Sync>,
}

/// Router with every route. Everybody gets the health, and the files of the dashboard, which have no secrets, to sign in;
/// clients of the trust file get all else.
///
/// # Errors
/// The descriptors of the API have no valid routes.
pub fn router(pages: Pages, authorizer: &Arc<Authorizer>) -> anyhow::Result<Router> {
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
    match (pages.stall_reason)() {
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
    let mut families = cluster_metrics::families(&view, clock::now());
    families.extend((pages.process_metrics)());
    families.push(clusters(pages.api.fleet.directory.count(is_allowed)));
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
#[must_use]
pub fn clusters(known: usize) -> Family {
    let help = "Clusters of the fleet, whichever server decides for them; 0 until the first agent has connected.";
    Family::gauge("fleetwright_clusters", help).with(Vec::new(), known.into())
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
        assert_eq!(metrics::series(vec![clusters(0)]), ["fleetwright_clusters 0"]);
    }
}
