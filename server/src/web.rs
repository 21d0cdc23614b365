//! The live page and what stands beside it over HTTP: JSON, server-sent events, health, metrics. It reads views and
//! changes nothing.

mod json;
pub(crate) mod listener;
mod metrics;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::{Stream, StreamExt};
use tracing::warn;

use crate::control_loop::{Heartbeat, Latencies};
use crate::pace;
use crate::replicas::Replicas;
use crate::store::Store;
use crate::views::Views;

/// The page shows at most this many views a second: faster than eyes, slower than a burst of events.
const PAGE_INTERVAL: Duration = Duration::from_millis(250);

/// How long decisions take beyond their batch window, as a metric; and how long orders do.
pub(crate) const DECIDED: &str = "fleetwright_decision_latency_seconds";
pub(crate) const ORDERED: &str = "fleetwright_order_latency_seconds";

/// Only what this server serves is loaded, nothing is embedded elsewhere, no form goes anywhere.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What the handlers look at.
#[derive(Clone)]
pub(crate) struct Shown {
    /// The fleet.
    pub(crate) views: Views,
    /// Asked by `/readyz`.
    pub(crate) store: Arc<dyn Store>,
    /// How quick decisions are.
    pub(crate) latencies: Arc<Latencies>,
    /// Asked by `/healthz`.
    pub(crate) heartbeat: Arc<Heartbeat>,
    /// What lives beside this server.
    pub(crate) replicas: Arc<Replicas>,
}

/// Every route.
pub(crate) fn router(shown: Shown) -> Router {
    Router::new()
        .route("/", get(|| async { asset("text/html; charset=utf-8", include_str!("web/page/index.html")) }))
        .route("/page.js", get(|| async { asset("text/javascript; charset=utf-8", include_str!("web/page/page.js")) }))
        .route("/page.css", get(|| async { asset("text/css; charset=utf-8", include_str!("web/page/page.css")) }))
        .route("/api/fleet", get(fleet))
        .route("/api/fleet/events", get(events))
        .route("/healthz", get(health))
        .route("/readyz", get(ready))
        .route("/metrics", get(metrics))
        .with_state(shown)
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

async fn fleet(State(shown): State<Shown>) -> Response {
    let view = shown.views.borrow().clone();
    axum::Json(json::fleet(&view)).into_response()
}

async fn events(State(shown): State<Shown>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let views = pace::views(shown.views, PAGE_INTERVAL);
    let events = views.map(|view| {
        let text = serde_json::to_string(&json::fleet(&view)).unwrap_or_default();
        Ok(Event::default().data(text))
    });
    Sse::new(events).keep_alive(KeepAlive::default())
}

/// Whether the process does its work. One that does not is better started anew; a store that is away is no reason to.
async fn health(State(shown): State<Shown>) -> Response {
    match shown.heartbeat.fault() {
        None => "ok\n".into_response(),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

async fn ready(State(shown): State<Shown>) -> Response {
    match shown.store.ping().await {
        Ok(()) => "ok\n".into_response(),
        Err(error) => {
            warn!(%error, "not ready: the store does not answer");
            (StatusCode::SERVICE_UNAVAILABLE, "not ready: the store does not answer\n").into_response()
        }
    }
}

async fn metrics(State(shown): State<Shown>) -> Response {
    let view = shown.views.borrow().clone();
    let mut text = metrics::render(&view);
    let Latencies { decided, ordered, spent } = &*shown.latencies;
    text.push_str(&decided.render(DECIDED, "From the end of a batch window to the decision to buy for its pods."));
    let help = "From the end of a batch window to the order for a NodeClaim, the decision being in the store.";
    text.push_str(&ordered.render(ORDERED, help));
    text.push_str(&spent.render());
    text.push_str(&shown.replicas.render());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}
