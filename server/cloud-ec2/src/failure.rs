//! What an error means: whether something may have been done, and whether the same request is worth sending again.

use std::error::Error;

use aws_sdk_ec2::config::http::HttpResponse;
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use cloud::provider::{CloudError, Override};
use engine::model::Text;

/// How long to wait at least after EC2 asked for fewer calls, in milliseconds. Its request buckets refill every second.
const THROTTLED_MS: i64 = 1_000;

/// Codes for an option that is not to be had at the moment, be it for capacity, quota or addresses (Karpenter: errors
/// that make an offering unavailable).
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

/// Codes of a call that was turned away unread (EC2: request throttling, and what the SDKs take for it).
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

/// Whether a fleet error means that its option is not to be had.
pub(crate) fn is_capacity(code: &str) -> bool {
    CAPACITY.contains(&code)
}

/// Whether the account lacks the role that spot needs and may not create it: there is no spot machine to be had.
pub(crate) fn is_missing_spot_role(code: &str) -> bool {
    code == "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
}

/// What an error of a whole call means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Turned away unread; the same request later.
    Throttled,
    /// The token stands for another request.
    Mismatch,
    /// No such instance.
    NotFound,
    /// Nothing is to be had.
    NoCapacity,
    /// Something may have been done; the same request to find out.
    Unclear,
    /// Refused as it is.
    Refused,
}

/// What EC2's `code` means under the HTTP `status`.
pub(crate) fn meaning(code: &str, status: u16) -> Meaning {
    match code {
        "IdempotentParameterMismatch" => Meaning::Mismatch,
        "InvalidInstanceID.NotFound" => Meaning::NotFound,
        _ if THROTTLED.contains(&code) => Meaning::Throttled,
        _ if is_capacity(code) || is_missing_spot_role(code) => Meaning::NoCapacity,
        _ if status >= 500 => Meaning::Unclear,
        _ => Meaning::Refused,
    }
}

/// An error of a whole call, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    meaning: Meaning,
    operation: &'static str,
    code: String,
    message: String,
}

impl Failure {
    /// What came of `operation` instead of an answer.
    pub(crate) fn read<E>(operation: &'static str, error: &SdkError<E, HttpResponse>) -> Self
    where
        E: Error + ProvideErrorMetadata + 'static,
    {
        let (meaning, code, message) = match error {
            SdkError::ServiceError(answer) => {
                let (status, error) = (answer.raw().status().as_u16(), answer.err());
                let code = error.code().map_or_else(|| format!("HTTP {status}"), str::to_owned);
                (meaning(&code, status), code, error.message().unwrap_or("no message").to_owned())
            }
            // It never left this process.
            SdkError::ConstructionFailure(_) => (Meaning::Refused, "InvalidRequest".to_owned(), chain(error)),
            _ => (Meaning::Unclear, "no answer".to_owned(), chain(error)),
        };
        Self { meaning, operation, code, message }
    }

    /// As a launch reports it, with its `token` and the options that it `offered`.
    pub(crate) fn of_launch(self, token: &Text, offered: Vec<Override>) -> CloudError {
        match self.meaning {
            Meaning::Mismatch => CloudError::IdempotentParameterMismatch { token: token.clone() },
            Meaning::NoCapacity => CloudError::NoCapacity { sold_out: offered },
            _ => self.of_call(),
        }
    }

    /// As a call about the instance `id` reports it.
    pub(crate) fn of_instance(self, id: &str) -> CloudError {
        match self.meaning {
            Meaning::NotFound => CloudError::NotFound { id: Text::from(id) },
            _ => self.of_call(),
        }
    }

    /// As any other call reports it.
    pub(crate) fn of_call(self) -> CloudError {
        match self.meaning {
            Meaning::Throttled => CloudError::RequestLimitExceeded { retry_after_ms: THROTTLED_MS },
            Meaning::Unclear => {
                let operation = format!("{} ({}: {})", self.operation, self.code, self.message);
                CloudError::Unknown { operation: Text::from(operation) }
            }
            _ => CloudError::Refused {
                operation: Text::from(self.operation),
                code: Text::from(self.code),
                message: self.message,
            },
        }
    }
}

/// An error and its causes, outermost first.
fn chain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests;
