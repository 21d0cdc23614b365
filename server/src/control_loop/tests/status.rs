//! What pages show while a plan is made that does not end.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use http_body_util::BodyExt;
use tower::Service;

use super::*;
use crate::replicas::Replicas;
use crate::web::{Pages, Shown, router};

/// The answer to a request for a page: all of it, or its first piece.
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
    tokio::time::timeout(PATIENCE, answered).await.unwrap_or_else(|_| panic!("no answer for {path}"))
}

static DOOR: Door = Door::new();

#[tokio::test]
async fn while_a_plan_takes_for_ever_pages_say_so_and_show_the_other_clusters_as_they_are() {
    let mut world = World::start(|input, memo| plan_behind(&DOOR, input, memo), Place::Apart);
    world.join("greedy").await;
    until("its plan is begun", async || DOOR.somebody_waits()).await;
    world.join("innocent").await;
    assert!(world.orders_within("innocent", PATIENCE).await);
    let shown = Shown::new(Pages {
        views: world.views.clone(),
        store: world.store.clone(),
        latencies: Arc::default(),
        heartbeat: Arc::clone(&world.heartbeat),
        replicas: Arc::<Replicas>::default(),
    });
    let mut pages = router(shown);
    let greedy = page(&mut pages, "/api/clusters/greedy", true).await;
    assert!(greedy.contains("\"planning\":{\"sinceMs\":") && greedy.contains("\"machineCount\":0"), "{greedy}");
    let innocent = page(&mut pages, "/api/clusters/innocent", true).await;
    assert!(innocent.contains("\"planning\":null") && innocent.contains("\"machines\":[{"), "{innocent}");
    for path in ["/healthz", "/readyz", "/metrics", "/api/fleet"] {
        let _answered = page(&mut pages, path, true).await;
    }
    // What every open page is sent again and again grows with the clusters, not with their machines.
    let summary = page(&mut pages, "/api/fleet/events", false).await;
    assert!(summary.contains("\"machineCount\":1") && !summary.contains("\"machines\":"), "{summary}");
    assert_eq!(page(&mut pages, "/api/fleet/events", false).await, summary, "every reader is sent the same");
    DOOR.open();
    world.stop.cancel();
}
