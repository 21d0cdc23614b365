//! The live page and what stands beside it over HTTP: JSON, server-sent events, health, metrics. It reads views and
//! changes nothing.

mod json;
pub(crate) mod listener;
mod metrics;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::{Stream, StreamExt};
use tokio::sync::watch;
use tokio_stream::wrappers::WatchStream;
use tracing::warn;

use crate::control_loop::{Heartbeat, Latencies};
use crate::measure::PLANS_FAILING_CHECK;
use crate::pace;
use crate::replicas::Replicas;
use crate::store::{Store, StoreError};
use crate::views::{FleetView, Views};

/// Between two summaries of the fleet that pages are sent, at least. Each is written once, whoever reads it.
const PAGE_INTERVAL: Duration = Duration::from_secs(1);

/// How long decisions take beyond their batch window, as a metric; and how long orders do.
pub(crate) const DECIDED: &str = "fleetwright_decision_latency_seconds";
pub(crate) const ORDERED: &str = "fleetwright_order_latency_seconds";

/// Only what this server serves is loaded, nothing is embedded elsewhere, no form goes anywhere.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What pages are made of.
#[derive(Clone)]
pub(crate) struct Pages {
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

/// What the handlers look at.
#[derive(Clone)]
pub(crate) struct Shown {
    pages: Pages,
    /// The latest summary of the fleet.
    summaries: watch::Receiver<Arc<str>>,
}

impl Shown {
    /// Pages of these, with a task that writes summaries of the fleet for all readers.
    pub(crate) fn new(pages: Pages) -> Self {
        let views = pages.views.clone();
        let (sender, summaries) = watch::channel(summary(&views.borrow()));
        tokio::spawn(async move {
            let mut views = std::pin::pin!(pace::views(views, PAGE_INTERVAL));
            while let Some(view) = views.next().await {
                if sender.send(summary(&view)).is_err() {
                    return;
                }
            }
        });
        Self { pages, summaries }
    }
}

fn summary(view: &FleetView) -> Arc<str> {
    serde_json::to_string(&json::without_machines(view)).unwrap_or_default().into()
}

/// Every route.
pub(crate) fn router(shown: Shown) -> Router {
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
    let view = shown.pages.views.borrow().clone();
    // That of a thousand clusters is tens of megabytes: others are answered meanwhile.
    let text = tokio::task::spawn_blocking(move || serde_json::to_vec(&json::fleet(&view)));
    match text.await.map_err(anyhow::Error::from).and_then(|text| Ok(text?)) {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

async fn cluster(State(shown): State<Shown>, Path(name): Path<String>) -> Response {
    let view = shown.pages.views.borrow().clone();
    match view.clusters.get(name.as_str()) {
        Some(cluster) => axum::Json(json::cluster(cluster)).into_response(),
        None => (StatusCode::NOT_FOUND, "this server decides for no cluster of that name\n").into_response(),
    }
}

async fn events(State(shown): State<Shown>) -> Sse<impl Stream<Item = Result<Event, Infallible>>> {
    let events = WatchStream::new(shown.summaries).map(|text| Ok(Event::default().data(text)));
    Sse::new(events).keep_alive(KeepAlive::default())
}

/// Whether the process does its work. One that does not is better started anew; a store that is away is no reason to.
async fn health(State(shown): State<Shown>) -> Response {
    match shown.pages.heartbeat.fault() {
        None => "ok\n".into_response(),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

async fn ready(State(shown): State<Shown>) -> Response {
    readiness(shown.pages.store.ping().await)
}

/// Anybody may ask, so what the store says about its fault is for the log.
fn readiness(ping: Result<(), StoreError>) -> Response {
    match ping {
        Ok(()) => "ok\n".into_response(),
        Err(error) => {
            warn!(%error, "not ready: the store does not answer");
            (StatusCode::SERVICE_UNAVAILABLE, "not ready: the store does not answer\n").into_response()
        }
    }
}

async fn metrics(State(shown): State<Shown>) -> Response {
    let view = shown.pages.views.borrow().clone();
    let mut text = metrics::render(&view);
    let Latencies { decided, ordered, spent } = &*shown.pages.latencies;
    text.push_str(&decided.render(DECIDED, "From the end of a batch window to the decision to buy for its pods."));
    let help = "From the end of a batch window to the order for a NodeClaim, the decision being in the store.";
    text.push_str(&ordered.render(ORDERED, help));
    text.push_str(&spent.render());
    text.push_str(&shown.pages.replicas.render());
    let help = "Packings that failed the program's own check; pods may have been left out of the plan.";
    text.push_str(&PLANS_FAILING_CHECK.render("fleetwright_plans_failing_check_total", help));
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;

    use super::*;

    #[tokio::test]
    async fn whether_the_server_is_ready_is_told_without_what_the_store_says() {
        assert_eq!(readiness(Ok(())).status(), StatusCode::OK);
        let fault = StoreError::Server { what: "answer", why: "10.0.0.7 refuses user fleetwright".to_owned() };
        let answer = readiness(Err(fault));
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        let text = to_bytes(answer.into_body(), 1_000).await.unwrap();
        assert_eq!(text, "not ready: the store does not answer\n");
    }
}
