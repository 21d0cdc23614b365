//! Classifies EC2 errors: whether something may have been done, and whether the request may be
//! repeated.

use std::error::Error;

use aws_sdk_ec2::config::http::HttpResponse;
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use cloud::provider::{CloudError, Override};
use model::{RefusalCause, RefusedOption, Text};

use crate::remedy::remedy;

/// The launch operation, as errors name it.
pub(crate) const CREATE_FLEET: &str = "CreateFleet";

/// Code for a launch template that does not exist.
pub(crate) const TEMPLATE_NOT_FOUND: &str = "InvalidLaunchTemplateName.NotFoundException";

/// Minimum delay after throttling, in milliseconds. EC2's request buckets refill every second.
const THROTTLED_MS: i64 = 1_000;

/// Codes for an override without capacity, quota or addresses (Karpenter: errors that make an
/// offering unavailable).
const CAPACITY: &[&str] = &[
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

/// Capacity codes that concern the account, its subnets or reservations. The others concern the zone, for every account.
const OF_ACCOUNT: &[&str] = &[
    "InsufficientFreeAddressesInSubnet",
    "MaxFleetCountExceeded",
    "MaxSpotInstanceCountExceeded",
    "ReservationCapacityExceeded",
    "VcpuLimitExceeded",
];

/// Whom the refusal of an override with this code concerns.
pub(crate) fn refusal_cause(code: &str) -> RefusalCause {
    if OF_ACCOUNT.contains(&code) || is_missing_spot_role(code) {
        RefusalCause::Account
    } else {
        RefusalCause::Capacity
    }
}

/// The override, refused with this code.
pub(crate) fn refused_option(option: &Override, code: &str) -> RefusedOption {
    RefusedOption {
        instance_type: option.instance_type.clone(),
        zone: option.zone.clone(),
        cause: refusal_cause(code),
        code: Text::from(code),
        remedy: remedy(code, "").map(Text::from),
    }
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

/// A classified error of a whole call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    error_class: ErrorClass,
    operation: &'static str,
    code: String,
    message: String,
}

impl Failure {
    /// Classifies the error of `operation`.
    pub(crate) fn read<E>(operation: &'static str, error: &SdkError<E, HttpResponse>) -> Self
    where
        E: Error + ProvideErrorMetadata + 'static,
    {
        let (error_class, code, message) = match error {
            SdkError::ServiceError(answer) => {
                let (status, error) = (answer.raw().status().as_u16(), answer.err());
                let code = error.code().map_or_else(|| format!("HTTP {status}"), str::to_owned);
                (error_class(&code, status), code, error.message().unwrap_or("no message").to_owned())
            }
            // The request was not sent.
            SdkError::ConstructionFailure(_) => (ErrorClass::Refused, "InvalidRequest".to_owned(), chain(error)),
            _ => (ErrorClass::Unclear, "no answer".to_owned(), chain(error)),
        };
        Self { error_class, operation, code, message }
    }

    /// Whether EC2 gave this code.
    pub(crate) fn is(&self, code: &str) -> bool {
        self.code == code
    }

    /// Converts the error of a launch with this `token` and these overrides.
    pub(crate) fn of_launch(self, token: &Text, offered: Vec<Override>) -> CloudError {
        match self.error_class {
            ErrorClass::Mismatch => CloudError::IdempotentParameterMismatch { token: token.clone() },
            ErrorClass::InsufficientCapacity => {
                let unavailable = offered.iter().map(|option| refused_option(option, &self.code)).collect();
                CloudError::InsufficientCapacity { unavailable }
            }
            _ => self.of_call(),
        }
    }

    /// Converts the error of a call on instance `id`.
    pub(crate) fn of_instance(self, id: &str) -> CloudError {
        match self.error_class {
            ErrorClass::NotFound => CloudError::NotFound { id: Text::from(id) },
            _ => self.of_call(),
        }
    }

    /// Converts the error of any other call.
    pub(crate) fn of_call(self) -> CloudError {
        match self.error_class {
            ErrorClass::Throttled => CloudError::RequestLimitExceeded { retry_after_ms: THROTTLED_MS },
            ErrorClass::Unclear => {
                let operation = format!("{} ({}: {})", self.operation, self.code, self.message);
                CloudError::Unknown { operation: Text::from(operation) }
            }
            _ => refused(self.operation, &self.code, &self.message),
        }
    }
}

/// The error of a rejected `operation`, with what to do about it.
pub(crate) fn refused(operation: &str, code: &str, message: &str) -> CloudError {
    let message = match remedy(code, message) {
        Some(remedy) => format!("{}: {remedy}", message.trim_end_matches('.')),
        None => message.to_owned(),
    };
    CloudError::Refused { operation: Text::from(operation), code: Text::from(code), message }
}

/// An error and its causes, outermost first.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests;
