//! What AWS's error codes mean: whether something may have been done, and whether the request may be repeated.

use std::error::Error;

use aws_sdk_ec2::config::http::HttpResponse;
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};

/// Codes for an override without capacity, quota or addresses (Karpenter: errors that make an
/// offering unavailable).
pub(crate) const CAPACITY: &[&str] = &[
    "InsufficientFreeAddressesInSubnet",
    "InsufficientInstanceCapacity",
    "MaxFleetCountExceeded",
    "MaxSpotInstanceCountExceeded",
    "ReservationCapacityExceeded",
    "UnfulfillableCapacity",
    "Unsupported",
    "VcpuLimitExceeded",
];

/// Throttling codes (EC2: request throttling, and the SDK's list).
const THROTTLED: &[&str] = &[
    "BandwidthLimitExceeded",
    "EC2ThrottledException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "SlowDown",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
];

/// Whether the code says that calls are throttled.
pub(crate) fn is_throttling(code: &str) -> bool {
    THROTTLED.contains(&code)
}

/// Whether a fleet error means that its override is unavailable.
pub(crate) fn is_capacity(code: &str) -> bool {
    CAPACITY.contains(&code)
}

/// Whether the account lacks the service-linked role for spot and may not create it: spot is
/// unavailable.
pub(crate) fn is_missing_spot_role(code: &str) -> bool {
    code == "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
}

/// Class of an error of a whole call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorClass {
    /// Throttled; repeat the request later.
    Throttled,
    /// The token was used for another request.
    Mismatch,
    /// The instance does not exist.
    NotFound,
    /// No override has capacity, quota or addresses.
    InsufficientCapacity,
    /// The outcome is unknown; repeat the request.
    Unclear,
    /// EC2 rejected the request; repeating it has the same result.
    Refused,
}

/// Classifies EC2's `code` with the HTTP `status`.
pub(crate) fn error_class(code: &str, status: u16) -> ErrorClass {
    match code {
        "IdempotentParameterMismatch" => ErrorClass::Mismatch,
        "InvalidInstanceID.NotFound" => ErrorClass::NotFound,
        _ if is_throttling(code) => ErrorClass::Throttled,
        _ if is_capacity(code) || is_missing_spot_role(code) => ErrorClass::InsufficientCapacity,
        _ if status >= 500 => ErrorClass::Unclear,
        _ => ErrorClass::Refused,
    }
}

/// Class, code and message of the error of a call.
pub(crate) fn read<E>(error: &SdkError<E, HttpResponse>) -> (ErrorClass, String, String)
where
    E: Error + ProvideErrorMetadata + 'static,
{
    match error {
        SdkError::ServiceError(answer) => {
            let (status, error) = (answer.raw().status().as_u16(), answer.err());
            let code = error.code().map_or_else(|| format!("HTTP {status}"), str::to_owned);
            (error_class(&code, status), code, error.message().unwrap_or("no message").to_owned())
        }
        // The request was not sent.
        SdkError::ConstructionFailure(_) => (ErrorClass::Refused, "InvalidRequest".to_owned(), chain(error)),
        _ => (ErrorClass::Unclear, "no answer".to_owned(), chain(error)),
    }
}

/// An error and its causes, outermost first.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_classified_by_ec2_s_reference() {
        let cases = [
            ("RequestLimitExceeded", 503, ErrorClass::Throttled),
            ("Throttling", 400, ErrorClass::Throttled),
            ("IdempotentParameterMismatch", 400, ErrorClass::Mismatch),
            ("InvalidInstanceID.NotFound", 400, ErrorClass::NotFound),
            ("InsufficientInstanceCapacity", 500, ErrorClass::InsufficientCapacity),
            ("MaxSpotInstanceCountExceeded", 400, ErrorClass::InsufficientCapacity),
            ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", 400, ErrorClass::InsufficientCapacity),
            ("InternalError", 500, ErrorClass::Unclear),
            ("Unavailable", 503, ErrorClass::Unclear),
            ("HTTP 502", 502, ErrorClass::Unclear),
            ("UnauthorizedOperation", 403, ErrorClass::Refused),
            ("InvalidLaunchTemplateName.NotFoundException", 400, ErrorClass::Refused),
        ];
        for (code, status, expected) in cases {
            assert_eq!(error_class(code, status), expected, "{code} {status}");
        }
    }
}
