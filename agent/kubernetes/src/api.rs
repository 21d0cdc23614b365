//! Requests to the API server: paths in, JSON out. Nothing is retried here, because only the caller
//! can classify an error.

use std::time::Duration;

use agent::error_chain;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{ApiError, ErrorKind};

/// Timeout of a response: the API server ends ordinary requests after 60 s, and the agent's
/// requests take milliseconds.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);

/// Field manager of the agent's writes in `metadata.managedFields`.
pub const FIELD_MANAGER: &str = "fleetwright-agent";

/// A client of one API server.
#[derive(Clone)]
pub struct Api {
    client: Client,
}

impl Api {
    /// The API server that `client` reaches.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    /// Reads an object or a list.
    ///
    /// # Errors
    /// [`ApiError`] as for every request.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        self.request(Method::GET, path, None).await
    }

    /// Creates an object under the path of its kind.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`] when an object of that name exists, and as for every request.
    pub async fn create(&self, path: &str, object: &Value) -> Result<Value, ApiError> {
        let path = format!("{path}?fieldManager={FIELD_MANAGER}");
        self.request(Method::POST, &path, Some(("application/json", object))).await
    }

    /// Changes an object by a JSON merge patch. A patch with `metadata.resourceVersion` succeeds
    /// only on that version.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] when the version differs, and as for every request.
    pub async fn patch(&self, path: &str, patch: &Value) -> Result<Value, ApiError> {
        self.patch_as(FIELD_MANAGER, path, patch).await
    }

    /// The same with another field manager.
    ///
    /// # Errors
    /// As [`patch`](Self::patch).
    pub async fn patch_as(&self, manager: &str, path: &str, patch: &Value) -> Result<Value, ApiError> {
        let path = format!("{path}?fieldManager={manager}");
        self.request(Method::PATCH, &path, Some(("application/merge-patch+json", patch))).await
    }

    /// Changes an object by a JSON patch (RFC 6902) with this field manager. It changes nothing when one of its tests fails.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] when a test fails, and as for every request.
    pub async fn json_patch_as(&self, manager: &str, path: &str, patch: &Value) -> Result<Value, ApiError> {
        let path = format!("{path}?fieldManager={manager}");
        self.request(Method::PATCH, &path, Some(("application/json-patch+json", patch))).await
    }

    /// Posts to a subresource, such as a pod's `eviction`.
    ///
    /// # Errors
    /// [`ApiError`] as for every request.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, ApiError> {
        self.request(Method::POST, path, Some(("application/json", body))).await
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// [`ApiError`] as for every request.
    pub async fn delete(&self, path: &str, options: &Value) -> Result<Value, ApiError> {
        self.request(Method::DELETE, path, Some(("application/json", options))).await
    }

    /// Whether the API server reports `/readyz`.
    pub async fn is_ready(&self) -> bool {
        matches!(self.send(Method::GET, "/readyz", None).await, Ok(answer) if answer.status().is_success())
    }

    /// Opens a stream of lines.
    ///
    /// # Errors
    /// [`ApiError`] as for every request.
    pub async fn stream(&self, path: &str) -> Result<Response<Body>, ApiError> {
        let answer = self.send(Method::GET, path, None).await?;
        if answer.status().is_success() { Ok(answer) } else { Err(response_error(&Method::GET, path, answer).await) }
    }

    async fn request<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<T, ApiError> {
        let answer = self.send(method.clone(), path, body).await?;
        if !answer.status().is_success() {
            return Err(response_error(&method, path, answer).await);
        }
        let failed = |reason: String| ApiError::unreachable(operation(&method, path), reason);
        let collected = tokio::time::timeout(RESPONSE_TIMEOUT, answer.into_body().collect()).await;
        let bytes =
            collected.map_err(|_| failed(timeout_message()))?.map_err(|error| failed(error.to_string()))?.to_bytes();
        serde_json::from_slice(&bytes).map_err(|error| ApiError {
            kind: ErrorKind::Invalid,
            ..failed(format!("cannot parse the response as an object of this kind: {error}"))
        })
    }

    async fn send(&self, method: Method, path: &str, body: Option<(&str, &Value)>) -> Result<Response<Body>, ApiError> {
        let mut request = Request::builder().method(method.clone()).uri(path).header(ACCEPT, "application/json");
        let body = match body {
            Some((content, value)) => {
                request = request.header(CONTENT_TYPE, content);
                Body::from(value.to_string().into_bytes())
            }
            None => Body::empty(),
        };
        let failed = |reason: String| ApiError::unreachable(operation(&method, path), reason);
        let request = request.body(body).map_err(|error| failed(error.to_string()))?;
        match tokio::time::timeout(RESPONSE_TIMEOUT, self.client.send(request)).await {
            Ok(answer) => answer.map_err(|error| failed(error_chain(&error))),
            Err(_) => Err(failed(timeout_message())),
        }
    }
}

fn timeout_message() -> String {
    format!("no response within {} s", RESPONSE_TIMEOUT.as_secs())
}

async fn response_error(method: &Method, path: &str, answer: Response<Body>) -> ApiError {
    let code: StatusCode = answer.status();
    let retry_after = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let collected = tokio::time::timeout(RESPONSE_TIMEOUT, answer.into_body().collect()).await;
    let body = collected.ok().and_then(Result::ok).map(|body| body.to_bytes()).unwrap_or_default();
    ApiError::from_response(operation(method, path), code, &body, retry_after)
}

/// The request for error messages: without query parameters.
fn operation(method: &Method, path: &str) -> String {
    format!("{method} {}", path.split('?').next().unwrap_or(path))
}
