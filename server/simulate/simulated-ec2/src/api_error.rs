//! Errors of calls: the code and message of the service, and the HTTP status.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: u16,
    pub(crate) code: String,
    pub(crate) message: String,
}

impl ApiError {
    /// An error with the HTTP status that the services answer `code` with.
    pub(crate) fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        let code = code.into();
        Self { status: status_of(&code), code, message: message.into() }
    }

    /// A missing parameter (EC2: `MissingParameter`).
    pub(crate) fn missing(name: &str) -> Self {
        Self::new("MissingParameter", format!("The request must contain the parameter {name}"))
    }

    /// A parameter with an unusable value (EC2: `InvalidParameterValue`).
    pub(crate) fn invalid(name: &str, value: &str) -> Self {
        Self::new("InvalidParameterValue", format!("Value ({value}) for parameter {name} is invalid."))
    }
}

/// The status of an error code: throttling by EC2 and unavailability 503, internal errors and shortages 500,
/// missing rights 403, things that the IAM API does not find 404, all others 400 (API references:
/// common errors).
fn status_of(code: &str) -> u16 {
    match code {
        "RequestLimitExceeded" | "Unavailable" | "ServiceUnavailable" => 503,
        "InternalError" | "InternalFailure" | "InsufficientInstanceCapacity" => 500,
        "UnauthorizedOperation" | "AccessDenied" | "AuthFailure" | "ExpiredToken" | "InvalidClientTokenId" => 403,
        "NoSuchEntity" | "ResourceNotFoundException" => 404,
        "EntityAlreadyExists" | "LimitExceeded" => 409,
        _ => 400,
    }
}
