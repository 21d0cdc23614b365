//! HTTP: dashboard, health, metrics, and the API as JSON ([`api`]).

mod api;
mod assets;
mod disruption;
pub mod listener;
mod metrics;
mod searches;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use controller::FleetState;
use tracing::warn;

pub use disruption::{DISRUPTION_BEGUN, DISRUPTION_CPU, DISRUPTION_LONGEST_WAIT, DISRUPTION_WAITED};

use crate::api_budget;
use crate::capacity::CapacityApi;
use crate::catalogue_refresh;
use crate::control_loop::{Heartbeat, Latencies};
use crate::histogram::PLANS_FAILING_CHECK;
use crate::interruptions;
use crate::replicas::Replicas;
use auth::authorizer::Authorizer;
use auth::middleware::{authorize_page, public_page};
use auth::sign_in;
use store::{StoreError, clock};

/// Metric: latency of decisions after their batch window.
pub const DECIDED: &str = "fleetwright_decision_latency_seconds";
/// Metric: latency of the instructions that follow from decisions.
pub const ORDERED: &str = "fleetwright_order_latency_seconds";
/// Metric: time that plans of disruption take.
pub const DISRUPTION_PLANNED: &str = "fleetwright_disruption_plan_duration_seconds";

/// Data sources of the pages.
#[derive(Clone)]
pub(crate) struct Pages {
    /// The API, whose views and store are those of the metrics and of `/readyz`.
    pub(crate) api: CapacityApi,
    /// Its searches and plans of disruption are counted.
    pub(crate) fleet: Arc<FleetState>,
    /// Latencies of decisions.
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
    let api = api::router(pages.api.clone(), Arc::clone(authorizer))?;
    let health = Router::new().route("/healthz", get(health)).route("/readyz", get(ready)).with_state(pages.clone());
    let public = health.merge(assets::router()).merge(sign_in::router(Arc::clone(authorizer)));
    let clients = Router::new().route("/metrics", get(metrics)).with_state(pages).merge(api);
    let clients = clients.layer(from_fn_with_state(Arc::clone(authorizer), authorize_page));
    Ok(clients.merge(public.layer(from_fn_with_state(Arc::clone(authorizer), public_page))))
}

/// Liveness. Fails when the process makes no progress and should be restarted; an unavailable store
/// is no reason for that.
async fn health(State(pages): State<Pages>) -> Response {
    match pages.heartbeats.iter().find_map(|heartbeat| heartbeat.stall_reason()) {
        None => "ok\n".into_response(),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

async fn ready(State(pages): State<Pages>) -> Response {
    readiness(pages.api.fleet.store.ping().await)
}

/// The response is public, so the store's error goes to the log only.
fn readiness(ping: Result<(), StoreError>) -> Response {
    match ping {
        Ok(()) => "ok\n".into_response(),
        Err(error) => {
            warn!(%error, "not ready: store unavailable");
            (StatusCode::SERVICE_UNAVAILABLE, "not ready: store unavailable\n").into_response()
        }
    }
}

async fn metrics(State(pages): State<Pages>) -> Response {
    let view = pages.api.fleet.views.borrow().clone();
    let mut text = metrics::render(&view);
    let Latencies { decided, ordered, disruption, step_times } = &*pages.latencies;
    text.push_str(&decided.render(DECIDED, "Time from the end of a batch window to the decision for its pods."));
    let help = "Time from the end of a batch window to the instruction for a NodeClaim, with the decision persisted.";
    text.push_str(&ordered.render(ORDERED, help));
    let help = "Time to plan the disruption of a whole cluster: which nodes are removed or replaced.";
    text.push_str(&disruption.render(DISRUPTION_PLANNED, help));
    text.push_str(&step_times.render());
    text.push_str(&searches::render(&pages.fleet.search_totals()));
    text.push_str(&disruption::render(&pages.fleet.disruption_totals()));
    text.push_str(&pages.replicas.render());
    text.push_str(&pages.api.fleet.store_health.render());
    text.push_str(concat!(
        "# HELP fleetwright_build_info Version of this server.\n# TYPE fleetwright_build_info gauge\n",
        "fleetwright_build_info{version=\"",
        env!("CARGO_PKG_VERSION"),
        "\"} 1\n"
    ));
    text.push_str(&interruptions::METRICS.render());
    text.push_str(&catalogue_refresh::METRICS.render(clock::now()));
    let help = "Plans that failed the plan verifier; pods may have been excluded from the plan.";
    text.push_str(&PLANS_FAILING_CHECK.render("fleetwright_plans_failing_check_total", help));
    text.push_str(&api_budget::CALLS.render());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;

    #[tokio::test]
    async fn readiness_does_not_reveal_the_error_of_the_store() {
        assert_eq!(readiness(Ok(())).status(), StatusCode::OK);
        let fault = StoreError::Server { what: "answer", why: "10.0.0.7 refuses user fleetwright".to_owned() };
        let answer = readiness(Err(fault));
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        let text = to_bytes(answer.into_body(), 1_000).await.unwrap();
        assert_eq!(text, "not ready: store unavailable\n");
    }
}
