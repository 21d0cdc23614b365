//! Requests to the API server: paths in, JSON out. Nothing is tried twice here; whoever asks knows what a refusal means.

use std::time::Duration;

use agent::in_full;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::Client;
use kube::client::Body;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{ApiError, Kind};

/// An answer that does not come in this time is not coming: the API server itself ends ordinary requests after 60 s, and what is
/// asked here takes milliseconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// The name under which the agent's writes appear in `metadata.managedFields`.
pub const FIELD_MANAGER: &str = "fleetwright-agent";

/// An API server.
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
        self.ask(Method::GET, path, None).await
    }

    /// Creates an object below the path of its kind.
    ///
    /// # Errors
    /// [`Kind::AlreadyExists`] where there is one of that name, and as for every request.
    pub async fn create(&self, path: &str, object: &Value) -> Result<Value, ApiError> {
        let path = format!("{path}?fieldManager={FIELD_MANAGER}");
        self.ask(Method::POST, &path, Some(("application/json", object))).await
    }

    /// Changes an object by a JSON merge patch. A patch that holds `metadata.resourceVersion` succeeds only on that version.
    ///
    /// # Errors
    /// [`Kind::Conflict`] when the version is another, and as for every request.
    pub async fn patch(&self, path: &str, patch: &Value) -> Result<Value, ApiError> {
        self.patch_as(FIELD_MANAGER, path, patch).await
    }

    /// The same under another name in `metadata.managedFields`.
    ///
    /// # Errors
    /// As [`patch`](Self::patch).
    pub async fn patch_as(&self, manager: &str, path: &str, patch: &Value) -> Result<Value, ApiError> {
        let path = format!("{path}?fieldManager={manager}");
        self.ask(Method::PATCH, &path, Some(("application/merge-patch+json", patch))).await
    }

    /// Posts to a subresource, such as a pod's `eviction`.
    ///
    /// # Errors
    /// [`ApiError`] as for every request.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value, ApiError> {
        self.ask(Method::POST, path, Some(("application/json", body))).await
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// [`ApiError`] as for every request.
    pub async fn delete(&self, path: &str, options: &Value) -> Result<Value, ApiError> {
        self.ask(Method::DELETE, path, Some(("application/json", options))).await
    }

    /// Whether the API server says that it is ready to answer for everything that it holds.
    pub async fn is_ready(&self) -> bool {
        matches!(self.send(Method::GET, "/readyz", None).await, Ok(answer) if answer.status().is_success())
    }

    /// Opens a stream of lines.
    ///
    /// # Errors
    /// [`ApiError`] as for every request.
    pub async fn stream(&self, path: &str) -> Result<Response<Body>, ApiError> {
        let answer = self.send(Method::GET, path, None).await?;
        if answer.status().is_success() { Ok(answer) } else { Err(refusal(&Method::GET, path, answer).await) }
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<T, ApiError> {
        let answer = self.send(method.clone(), path, body).await?;
        if !answer.status().is_success() {
            return Err(refusal(&method, path, answer).await);
        }
        let failed = |reason: String| ApiError::unreachable(tried(&method, path), reason);
        let collected = tokio::time::timeout(ANSWER_TIMEOUT, answer.into_body().collect()).await;
        let bytes = collected.map_err(|_| failed(no_answer()))?.map_err(|error| failed(error.to_string()))?.to_bytes();
        serde_json::from_slice(&bytes).map_err(|error| ApiError {
            kind: Kind::Invalid,
            ..failed(format!("the answer is not what this kind of object looks like: {error}"))
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
        let failed = |reason: String| ApiError::unreachable(tried(&method, path), reason);
        let request = request.body(body).map_err(|error| failed(error.to_string()))?;
        match tokio::time::timeout(ANSWER_TIMEOUT, self.client.send(request)).await {
            Ok(answer) => answer.map_err(|error| failed(in_full(&error))),
            Err(_) => Err(failed(no_answer())),
        }
    }
}

fn no_answer() -> String {
    format!("no answer within {} s", ANSWER_TIMEOUT.as_secs())
}

async fn refusal(method: &Method, path: &str, answer: Response<Body>) -> ApiError {
    let code: StatusCode = answer.status();
    let retry_after = answer.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let collected = tokio::time::timeout(ANSWER_TIMEOUT, answer.into_body().collect()).await;
    let body = collected.ok().and_then(Result::ok).map(|body| body.to_bytes()).unwrap_or_default();
    ApiError::refused(tried(method, path), code, &body, retry_after)
}

/// The request for people: without its parameters.
fn tried(method: &Method, path: &str) -> String {
    format!("{method} {}", path.split('?').next().unwrap_or(path))
}
