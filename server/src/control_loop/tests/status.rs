//! Pages while a plan does not end.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use tower::Service;

use super::*;
use crate::replicas::Replicas;
use crate::stores::health;
use crate::web::{Pages, WebState, router};

/// The response to a page request: all of it, or its first frame.
async fn page(pages: &mut Router, path: &str, whole: bool) -> String {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let answered = async {
        let answer = pages.call(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        let mut body = answer.into_body();
        let bytes = if whole {
            body.collect().await.unwrap().to_bytes()
        } else {
            body.frame().await.unwrap().unwrap().into_data().unwrap()
        };
        String::from_utf8(bytes.to_vec()).unwrap()
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
    let state = WebState::new(Pages {
        views: fixture.views.clone(),
        store: fixture.store.clone(),
        store_health: health::channel().1,
        simulated: true,
        fleet: Arc::new(FleetState::new(&Settings::default())),
        latencies: Arc::default(),
        heartbeats: vec![Arc::clone(&fixture.heartbeat)],
        replicas: Arc::<Replicas>::default(),
    });
    let mut pages = router(state);
    let greedy = page(&mut pages, "/api/clusters/greedy", true).await;
    assert!(greedy.contains("\"planning\":{\"sinceMs\":") && greedy.contains("\"machineCount\":0"), "{greedy}");
    let innocent = page(&mut pages, "/api/clusters/innocent", true).await;
    assert!(innocent.contains("\"planning\":null") && innocent.contains("\"machines\":[{"), "{innocent}");
    for path in ["/healthz", "/readyz", "/metrics", "/api/fleet"] {
        let _answered = page(&mut pages, path, true).await;
    }
    // The event stream of an open page grows with the number of clusters, not of their machines.
    let summary = page(&mut pages, "/api/fleet/events", false).await;
    assert!(summary.contains("\"machineCount\":1") && !summary.contains("\"machines\":"), "{summary}");
    assert_eq!(page(&mut pages, "/api/fleet/events", false).await, summary, "every reader gets the same event");
    GATE.open();
    fixture.stop.cancel();
}
