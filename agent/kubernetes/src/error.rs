//! Errors of the API server, and whether a retry can succeed.

use std::fmt;
use std::time::Duration;

use http::StatusCode;
use serde::Deserialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The object or resource does not exist (404).
    NotFound,
    /// The object has changed since it was read (409, reason `Conflict`).
    Conflict,
    /// An object of that name exists (409, reason `AlreadyExists`).
    AlreadyExists,
    /// The resource version is too old (410).
    Gone,
    /// Too many requests, or a PodDisruptionBudget forbids an eviction (429).
    TooMany,
    /// The credentials are not accepted (401): expired, or rotated and not read again yet.
    Unauthorized,
    /// The role of the agent does not allow it (403).
    Forbidden,
    /// The request violates a rule of the object's kind (400, 422), or is permanently rejected for
    /// another reason.
    Invalid,
    /// The server has a fault or is starting (5xx).
    Server,
    /// No response was received.
    Unreachable,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ApiError {
    /// The request, such as `PATCH /api/v1/nodes/a`.
    pub operation: String,
    pub kind: ErrorKind,
    /// Message of the API server or of the network.
    pub message: String,
    /// Wait that the server requests (`Retry-After`).
    pub retry_after: Option<Duration>,
    /// Whether the response names a PodDisruptionBudget as the cause.
    pub budget_refused: bool,
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.operation, self.message)?;
        match self.kind {
            ErrorKind::Forbidden => f.write_str("; the agent's role must allow it, see deploy/agent/rbac.yaml"),
            ErrorKind::Unauthorized => f.write_str("; the agent's credentials are not accepted"),
            _ => Ok(()),
        }
    }
}

/// Body of an error response (`Status` of meta/v1), as far as it is used.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Status {
    pub(crate) message: String,
    pub(crate) reason: String,
    pub(crate) code: u16,
    pub(crate) details: Option<Details>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Details {
    pub(crate) retry_after_seconds: u64,
    pub(crate) causes: Vec<Cause>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Cause {
    pub(crate) reason: String,
}

impl ApiError {
    /// An error without a response.
    pub(crate) fn unreachable(operation: String, reason: impl fmt::Display) -> Self {
        Self {
            operation,
            kind: ErrorKind::Unreachable,
            message: reason.to_string(),
            retry_after: None,
            budget_refused: false,
        }
    }

    /// An error from an error response: its code, its body, and the seconds of its header
    /// `Retry-After`.
    pub(crate) fn from_response(operation: String, code: StatusCode, body: &[u8], retry_after: Option<u64>) -> Self {
        let status: Status = serde_json::from_slice(body).unwrap_or_default();
        Self::from_status(operation, code, status, retry_after)
    }

    pub(crate) fn from_status(operation: String, code: StatusCode, status: Status, retry_after: Option<u64>) -> Self {
        let details = status.details.unwrap_or_default();
        let in_body = Some(details.retry_after_seconds).filter(|seconds| *seconds > 0);
        let message = match status.message.as_str() {
            "" => format!("the API server responded with {code}"),
            message => message.to_owned(),
        };
        Self {
            operation,
            kind: error_kind(code, &status.reason),
            message,
            retry_after: retry_after.or(in_body).map(Duration::from_secs),
            budget_refused: details.causes.iter().any(|cause| cause.reason == "DisruptionBudget"),
        }
    }

    /// Whether the same request may succeed later without any other change.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::TooMany
                | ErrorKind::Server
                | ErrorKind::Unreachable
                | ErrorKind::Unauthorized
                | ErrorKind::Conflict
                | ErrorKind::Gone
        )
    }
}

fn error_kind(code: StatusCode, reason: &str) -> ErrorKind {
    match (code.as_u16(), reason) {
        (404, _) => ErrorKind::NotFound,
        (409, "AlreadyExists") => ErrorKind::AlreadyExists,
        (409, _) => ErrorKind::Conflict,
        (410, _) => ErrorKind::Gone,
        (429, _) => ErrorKind::TooMany,
        (401, _) => ErrorKind::Unauthorized,
        (403, _) => ErrorKind::Forbidden,
        (408, _) | (500.., _) => ErrorKind::Server,
        _ => ErrorKind::Invalid,
    }
}

/// Treats 404 as success, for callers that delete or patch an object.
pub(crate) fn ok_if_not_found<T>(answer: Result<T, ApiError>) -> Result<Option<T>, ApiError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(code: u16, body: &str, header: Option<u64>) -> ApiError {
        ApiError::from_response("GET /x".into(), StatusCode::from_u16(code).unwrap(), body.as_bytes(), header)
    }

    #[test]
    fn an_eviction_refused_by_a_budget_differs_from_a_busy_server() {
        let body = r#"{"kind":"Status","status":"Failure","message":"Cannot evict pod as it would violate the pod's disruption budget.",
            "reason":"TooManyRequests","details":{"causes":[{"reason":"DisruptionBudget","message":"needs 5"}]},"code":429}"#;
        let error = refused(429, body, None);
        assert!(error.budget_refused && error.kind == ErrorKind::TooMany && error.retry_after.is_none());
        let busy = refused(429, r#"{"reason":"TooManyRequests","details":{"retryAfterSeconds":3}}"#, None);
        assert!(!busy.budget_refused);
        assert_eq!(busy.retry_after, Some(Duration::from_secs(3)));
        // The header takes precedence over the body.
        assert_eq!(refused(429, "busy", Some(7)).retry_after, Some(Duration::from_secs(7)));
    }

    #[test]
    fn two_kinds_of_409_are_distinguished() {
        assert_eq!(refused(409, r#"{"reason":"AlreadyExists"}"#, None).kind, ErrorKind::AlreadyExists);
        assert_eq!(refused(409, r#"{"reason":"Conflict"}"#, None).kind, ErrorKind::Conflict);
    }

    #[test]
    fn what_will_not_change_by_waiting_is_not_transient() {
        for (code, transient) in
            [(400, false), (401, true), (403, false), (404, false), (422, false), (429, true), (503, true)]
        {
            assert_eq!(refused(code, "", None).is_transient(), transient, "{code}");
        }
        assert!(refused(403, "{}", None).to_string().contains("rbac.yaml"));
    }
}
