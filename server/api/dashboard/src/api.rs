//! The API over HTTP/1.1 and HTTP/2, as JSON under `/v1`: it calls the gRPC service behind its authorization, in process.

use std::sync::Arc;

use anyhow::Context;
use auth::Client;
use auth::authorizer::Authorizer;
use auth::middleware::{AuthLayer, check_scope, in_text};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use field_mask::FieldMaskLayer;
use fleetwright_proto::DESCRIPTOR_SET;
use fleetwright_rpc::v1::fleet_service_server::FleetServiceServer;
use tonic::Status;
use tonic::service::Routes;
use tower::ServiceBuilder;
use transcoding::Transcoder;

use api_messages::errors;
use fleet_api::capacity::CapacityApi;
use fleet_api::capacity::error_info::ErrorInfoLayer;

/// Routes of the API, and what refuses requests in its form.
///
/// # Errors
/// The descriptors have no valid routes, which is an error of this program.
pub(crate) fn router(capacity: CapacityApi, authorizer: Arc<Authorizer>) -> anyhow::Result<(Router, Transcoder)> {
    let fleet = FleetServiceServer::new(capacity.fleet.clone());
    let services = Routes::new(fleet).add_service(capacity.service()).prepare();
    let masks = FieldMaskLayer::new(DESCRIPTOR_SET).context("the API has no valid descriptors")?;
    let layers = ServiceBuilder::new().layer(ErrorInfoLayer).layer(AuthLayer(authorizer)).layer(masks);
    let service = layers.service(services);
    let transcoder = Transcoder::new(DESCRIPTOR_SET, errors::DOMAIN).context("the API has no valid routes")?;
    let routes = Router::new()
        .route_service("/v1/{*path}", transcoder.service(service))
        .layer(from_fn_with_state(transcoder.clone(), scope_before_body));
    Ok((routes, transcoder))
}

/// Refuses what the scope of the client does not allow before its body is read, which may be long in coming.
async fn scope_before_body(State(transcoder): State<Transcoder>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let called = transcoder.rpc_path(request.method(), path);
    match called.map_or(Ok(()), |called| check_scope(called, request.extensions().get::<Client>())) {
        Ok(()) => next.run(request).await,
        Err(denied) => refusal(&transcoder, path, &denied),
    }
}

/// The response to a request that is refused before it becomes a call: in the API's form below `/v1`, elsewhere as plain text.
pub(crate) fn refusal(transcoder: &Transcoder, path: &str, status: &Status) -> Response {
    if !path.starts_with("/v1/") {
        return in_text(status);
    }
    transcoder.error_response(&errors::with_info(status.clone())).map(Body::new)
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use axum::http::{Method, StatusCode};
    use serde_json::{Value, json};

    use super::*;

    #[tokio::test]
    async fn refusals_below_v1_have_the_form_of_all_errors() {
        let transcoder = Transcoder::new(DESCRIPTOR_SET, errors::DOMAIN).expect("routes");
        for (status, http, reason) in [
            (Status::unauthenticated("why"), StatusCode::UNAUTHORIZED, "UNAUTHENTICATED"),
            (Status::permission_denied("why"), StatusCode::FORBIDDEN, "PERMISSION_DENIED"),
            (Status::unavailable("why"), StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE"),
        ] {
            let refused = refusal(&transcoder, "/v1/clusters", &status);
            assert_eq!(refused.status(), http);
            let body = to_bytes(refused.into_body(), 10_000).await.expect("a body");
            let Value::Object(body) = serde_json::from_slice(&body).expect("JSON") else { panic!("an object") };
            assert_eq!(body["error"]["code"], json!(http.as_u16()));
            assert_eq!(body["error"]["message"], json!("why"));
            assert_eq!(body["error"]["details"][0]["reason"], json!(reason));
            let page = refusal(&transcoder, "/metrics", &status);
            assert_eq!((page.status(), to_bytes(page.into_body(), 100).await.expect("a body")), (http, "why\n".into()));
        }
    }

    #[test]
    fn the_method_behind_a_request_is_known_before_its_body() {
        let transcoder = Transcoder::new(DESCRIPTOR_SET, errors::DOMAIN).expect("routes");
        let path = transcoder.rpc_path(&Method::POST, "/v1/freezes");
        assert_eq!(path, Some("/fleetwright.v1.FleetService/CreateFreeze"));
        assert_eq!(transcoder.rpc_path(&Method::POST, "/v1/nothing"), None);
    }
}
