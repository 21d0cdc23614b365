//! Pages while a plan does not end.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use tower::Service;

use super::*;
use crate::process_metrics::ProcessMetrics;
use crate::replicas::Replicas;
use fleet_api::capacity::CapacityApi;
use fleet_api::capacity::threads::CapacityThreads;

/// The whole response to a page request.
async fn page(pages: &mut Router, path: &str) -> String {
    let request = Request::get(path).header("host", "localhost").body(Body::empty()).unwrap();
    let answered = async {
        let answer = pages.call(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        String::from_utf8(answer.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
    };
    tokio::time::timeout(TIMEOUT, answered).await.unwrap_or_else(|_| panic!("no answer for {path}"))
}

static GATE: Gate = Gate::new();

#[tokio::test]
async fn during_an_endless_plan_pages_show_it_and_the_current_state_of_other_clusters() {
    let mut fixture = Fixture::start(|| plan_after_gate(&GATE), PlanningMode::Threads, Threads::Two);
    fixture.connect("greedy").await;
    until("its plan has begun", async || GATE.has_waiter()).await;
    fixture.connect("innocent").await;
    assert!(fixture.orders_within("innocent", TIMEOUT).await);
    let threads = CapacityThreads::start(&Arc::default()).unwrap();
    let process = ProcessMetrics {
        fleet: Arc::new(FleetState::new(&Settings::default())),
        latencies: Arc::default(),
        heartbeats: vec![Arc::clone(&fixture.heartbeat)],
        replicas: Arc::<Replicas>::default(),
    };
    let page_data = process.pages(CapacityApi::new(fixture.fleet_api(), threads));
    let mut pages = dashboard::router(page_data, &Arc::new(Authorizer::allow_all())).unwrap();
    let greedy = page(&mut pages, "/v1/clusters/greedy").await;
    assert!(greedy.contains("\"planning\":{\"requestTime\":") && greedy.contains("\"machineCount\":0"), "{greedy}");
    let innocent = page(&mut pages, "/v1/clusters/innocent").await;
    assert!(!innocent.contains("\"planning\":") && innocent.contains("\"machineCount\":1"), "{innocent}");
    let nodes = page(&mut pages, "/v1/clusters/innocent/nodes").await;
    assert!(nodes.contains("\"name\":\"clusters/innocent/nodes/"), "{nodes}");
    for path in ["/healthz", "/readyz", "/metrics", "/v1/clusters", "/v1/clusters/-/nodes"] {
        let _answered = page(&mut pages, path).await;
    }
    GATE.open();
    fixture.stop.cancel();
}
