//! HTTP API: dashboard, JSON, server-sent events, health and metrics. Read-only.

mod disruption;
mod json;
pub mod listener;
mod metrics;
mod searches;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use controller::FleetState;
use futures::{Stream, StreamExt};
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tracing::warn;

pub use disruption::{DISRUPTION_BEGUN, DISRUPTION_CPU, DISRUPTION_LONGEST_WAIT, DISRUPTION_WAITED};

use crate::api_budget;
use crate::catalogue_refresh;
use crate::control_loop::{Heartbeat, Latencies};
use crate::histogram::PLANS_FAILING_CHECK;
use crate::interruptions;
use crate::replicas::Replicas;
use crate::stores::health::StoreHealth;
use crate::throttle;
use crate::views::{FleetView, Views};
use store::{Store, StoreError, clock};

/// Minimum interval between fleet summaries sent to the dashboard. Each is serialized once for all
/// readers.
const PAGE_INTERVAL: Duration = Duration::from_secs(1);

/// Metric: latency of decisions after their batch window.
pub const DECIDED: &str = "fleetwright_decision_latency_seconds";
/// Metric: latency of the instructions that follow from decisions.
pub const ORDERED: &str = "fleetwright_order_latency_seconds";
/// Metric: time that plans of disruption take.
pub const DISRUPTION_PLANNED: &str = "fleetwright_disruption_plan_duration_seconds";

/// Only resources of this server are loaded; framing and forms are disabled.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Data sources of the pages.
#[derive(Clone)]
pub(crate) struct Pages {
    /// Latest view of the fleet.
    pub(crate) views: Views,
    /// Checked by `/readyz`.
    pub(crate) store: Arc<dyn Store>,
    /// Whether the store answers.
    pub(crate) store_health: StoreHealth,
    /// Whether the cloud is simulated, so that no instance is bought.
    pub(crate) simulated: bool,
    /// Its searches and plans of disruption are counted.
    pub(crate) fleet: Arc<FleetState>,
    /// Latencies of decisions.
    pub(crate) latencies: Arc<Latencies>,
    /// Those of all control loops, checked by `/healthz`.
    pub(crate) heartbeats: Vec<Arc<Heartbeat>>,
    /// Other replicas on the same database.
    pub(crate) replicas: Arc<Replicas>,
}

/// State of the request handlers.
#[derive(Clone)]
pub struct WebState {
    pages: Pages,
    /// Latest summary of the fleet, as JSON.
    summaries: watch::Receiver<Arc<str>>,
}

impl WebState {
    /// Starts the task that serializes the fleet summaries for all readers.
    pub(crate) fn new(pages: Pages) -> Self {
        let (sender, summaries) = watch::channel(pages.summary(&pages.views.borrow()));
        tokio::spawn(publish_summaries(pages.clone(), sender));
        Self { pages, summaries }
    }
}

/// Serializes the summary after every change of the fleet or of the store's health.
async fn publish_summaries(pages: Pages, sender: watch::Sender<Arc<str>>) {
    let mut views = std::pin::pin!(throttle::throttle_views(pages.views.clone(), PAGE_INTERVAL));
    let mut store_health = pages.store_health.clone();
    loop {
        let view = tokio::select! {
            view = views.next() => match view {
                Some(view) => view,
                None => return,
            },
            () = store_health.changed() => pages.views.borrow().clone(),
        };
        if sender.send(pages.summary(&view)).is_err() {
            return;
        }
    }
}

impl Pages {
    fn summary(&self, view: &FleetView) -> Arc<str> {
        serde_json::to_string(&json::without_machines(view, self.notices())).unwrap_or_default().into()
    }

    /// What concerns the whole server, for the top of the dashboard.
    fn notices(&self) -> Vec<&'static str> {
        let notices = [
            (self.simulated, "The cloud is simulated: no instance is bought, and no Node joins a real cluster."),
            (!self.store_health.is_up(), "The store is unavailable: nothing is decided until it answers."),
        ];
        notices.into_iter().filter(|(applies, _)| *applies).map(|(_, text)| text).collect()
    }
}

/// Router with every route.
pub fn router(state: WebState) -> Router {
    Router::new()
        .route("/", get(|| async { asset("text/html; charset=utf-8", include_str!("web/page/index.html")) }))
        .route("/page.js", get(|| async { asset("text/javascript; charset=utf-8", include_str!("web/page/page.js")) }))
        .route("/page.css", get(|| async { asset("text/css; charset=utf-8", include_str!("web/page/page.css")) }))
        .route("/api/fleet", get(fleet))
        .route("/api/fleet/events", get(events))
        .route("/api/clusters/{name}", get(cluster))
        .route("/healthz", get(health))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(state)
}

fn asset(content_type: &'static str, body: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, content_type),
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, body).into_response()
}

async fn fleet(State(state): State<WebState>) -> Response {
    let view = state.pages.views.borrow().clone();
    // The view of a thousand clusters has tens of megabytes, so it is serialized on a blocking
    // thread.
    let notices = state.pages.notices();
    let text = tokio::task::spawn_blocking(move || serde_json::to_vec(&json::fleet(&view, notices)));
    match text.await.map_err(anyhow::Error::from).and_then(|text| Ok(text?)) {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

async fn cluster(State(state): State<WebState>, Path(name): Path<String>) -> Response {
    let view = state.pages.views.borrow().clone();
    match view.clusters.get(name.as_str()) {
        Some(cluster) => axum::Json(json::cluster(cluster)).into_response(),
        None => (StatusCode::NOT_FOUND, "unknown cluster on this server\n").into_response(),
    }
}

async fn events(State(state): State<WebState>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let events = WatchStream::new(state.summaries).map(|text| Ok(Event::default().data(text)));
    Sse::new(events).keep_alive(KeepAlive::default())
}

/// Liveness. Fails when the process makes no progress and should be restarted; an unavailable store
/// is no reason for that.
async fn health(State(state): State<WebState>) -> Response {
    match state.pages.heartbeats.iter().find_map(|heartbeat| heartbeat.stall_reason()) {
        None => "ok\n".into_response(),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

async fn ready(State(state): State<WebState>) -> Response {
    readiness(state.pages.store.ping().await)
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

async fn metrics(State(state): State<WebState>) -> Response {
    let view = state.pages.views.borrow().clone();
    let mut text = metrics::render(&view);
    let Latencies { decided, ordered, disruption, step_times } = &*state.pages.latencies;
    text.push_str(&decided.render(DECIDED, "Time from the end of a batch window to the decision for its pods."));
    let help = "Time from the end of a batch window to the instruction for a NodeClaim, with the decision persisted.";
    text.push_str(&ordered.render(ORDERED, help));
    let help = "Time to plan the disruption of a whole cluster: which nodes are removed or replaced.";
    text.push_str(&disruption.render(DISRUPTION_PLANNED, help));
    text.push_str(&step_times.render());
    text.push_str(&searches::render(&state.pages.fleet.search_totals()));
    text.push_str(&disruption::render(&state.pages.fleet.disruption_totals()));
    text.push_str(&state.pages.replicas.render());
    text.push_str(&state.pages.store_health.render());
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
