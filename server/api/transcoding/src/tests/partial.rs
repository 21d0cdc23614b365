use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use serde_json::json;

use super::{Fixture, problem, request};

fn fixture() -> Fixture {
    let fixture = Fixture::new();
    let node = json!({"name": "clusters/a/nodes/b", "priceMicroUsd": "7", "labels": {"a": "b"}});
    fixture.service.answer_with(Ok(fixture.service.message("Node", node)));
    fixture
}

#[tokio::test]
async fn the_fields_of_the_mask_are_answered_with_their_default_values() {
    for query in ["$fields=name,zones", "%24fields=name%2Czones", "$fields=name,+zones&showDeleted=true"] {
        let answer = fixture().get(&format!("/v1/clusters/a/nodes/b?{query}")).await;
        assert_eq!(answer.json, json!({"name": "clusters/a/nodes/b", "zones": []}), "{query}");
    }
    let with_header = Request::builder().uri("/v1/clusters/a/nodes/b").header("x-goog-fieldmask", "price_micro_usd");
    let answer = fixture().answer(with_header.body(Full::default()).expect("a request")).await;
    assert_eq!((answer.status, answer.json), (200, json!({"priceMicroUsd": "7"})));
}

#[tokio::test]
async fn a_mask_is_no_field_of_the_request() {
    let fixture = fixture();
    fixture.get("/v1/clusters/a/nodes?$fields=nodes.name&pageSize=3").await;
    assert_eq!(
        fixture.received(&["parent", "pageSize", "filter"]),
        json!({"parent": "clusters/a", "pageSize": 3, "filter": ""})
    );
    // A method whose request is the body takes no other query.
    let freeze = request(Method::POST, "/v1/clusters/a:freeze?$fields=name", "{}");
    assert_eq!(fixture.answer(freeze).await.json, json!({"name": ""}));
}

#[tokio::test]
async fn a_wrong_mask_is_refused_and_nothing_is_called() {
    let fixture = Fixture::new();
    for (query, problem_has) in [
        ("$fields=nmae", "test.v1.Node has no field \"nmae\"; it has name, price_micro_usd"),
        ("$fields=name.x", "name has no fields of its own"),
        ("$fields=name&$fields=zones", "it is there twice"),
        ("$fields=%ff", "it is not UTF-8"),
    ] {
        let answer = fixture.get(&format!("/v1/clusters/a/nodes/b?{query}")).await;
        let message = problem(&answer, 400, "INVALID_ARGUMENT");
        assert!(message.contains(problem_has) && message.contains("$fields"), "{message}");
    }
    fixture.assert_not_called();
}

#[tokio::test]
async fn each_message_of_a_stream_is_masked() {
    let fixture = Fixture::new();
    let node = |name: &str| Ok(fixture.service.message("Node", json!({"name": name, "zones": ["z"]})));
    fixture.service.stream(futures::stream::iter([node("a"), node("b")]));
    let response = fixture.send(request(Method::GET, "/v1/clusters/a/nodes:watch?$fields=name", "")).await;
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    assert_eq!(bytes, "{\"result\":{\"name\":\"a\"}}\n{\"result\":{\"name\":\"b\"}}\n");
}
