//! Requests that become no call: their HTTP code, and the same status that a gRPC service would answer.

use std::collections::HashMap;

use http::StatusCode;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// Why a request is refused. The domain of its error is added by the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) http: StatusCode,
    code: Code,
    /// `reason` of ErrorInfo.
    reason: &'static str,
    message: String,
    /// The field that is wrong, for BadRequest.
    field: Option<String>,
    /// The methods that the path has, for the header `Allow`.
    pub(crate) allow: Option<String>,
}

impl Refusal {
    fn new(http: StatusCode, code: Code, reason: &'static str, message: impl Into<String>) -> Self {
        Self { http, code, reason, message: message.into(), field: None, allow: None }
    }

    /// A path that no method has.
    pub(crate) fn unknown_path(path: &str) -> Self {
        let message = format!("no method has the path {path:?}: see the reference of the API");
        Self::new(StatusCode::NOT_FOUND, Code::NotFound, "PATH_NOT_FOUND", message)
    }

    pub(crate) fn method(method: &http::Method, path: &str, allow: String) -> Self {
        let message = format!("{path} has no method {method}: use {allow}");
        let http = StatusCode::METHOD_NOT_ALLOWED;
        Self { allow: Some(allow), ..Self::new(http, Code::Unimplemented, "METHOD_NOT_ALLOWED", message) }
    }

    pub(crate) fn field(field: &str, problem: impl Into<String>) -> Self {
        let problem = problem.into();
        let refusal = Self::bad_request("INVALID_FIELD", format!("the field {field} is invalid: {problem}"));
        Self { field: Some(field.to_owned()), ..refusal }
    }

    /// A request that is wrong as a whole.
    pub(crate) fn bad_request(reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, Code::InvalidArgument, reason, message)
    }

    pub(crate) fn body_too_large(limit: usize) -> Self {
        let message = format!("the body has more than {limit} bytes: send less in one request");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, Code::InvalidArgument, "BODY_TOO_LARGE", message)
    }

    pub(crate) fn query_too_long(length: usize, limit: usize) -> Self {
        let message = format!("the query has {length} bytes and may have at most {limit}: shorten it");
        Self::new(StatusCode::URI_TOO_LONG, Code::InvalidArgument, "QUERY_TOO_LONG", message)
    }

    pub(crate) fn media_type(message: &str) -> Self {
        let http = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        Self::new(http, Code::InvalidArgument, "UNSUPPORTED_MEDIA_TYPE", message)
    }

    /// The status, with ErrorInfo and, for a field, BadRequest.
    pub(crate) fn status(&self, domain: &str) -> Status {
        let mut details = ErrorDetails::with_error_info(self.reason, domain, HashMap::<String, String>::new());
        if let Some(field) = &self.field {
            details.add_bad_request_violation(field, &self.message);
        }
        Status::with_error_details(self.code, &self.message, details)
    }
}
