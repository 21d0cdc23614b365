//! Errors of EC2's calls for one cluster, as the port has them.

use std::error::Error;

use aws_sdk_ec2::config::http::HttpResponse;
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use cloud::provider::{CloudError, Override};
use model::{RefusalCause, RefusedOption, Text};

use crate::call_error::{CallError, CallErrorClass};
use crate::error_class::{self, ErrorClass, is_missing_spot_role};
use crate::remedy::remedy;

/// The launch operation, as errors name it.
pub(crate) const CREATE_FLEET: &str = "CreateFleet";

/// The call that makes a session of a role, as errors name it.
pub(crate) const ASSUME_ROLE: &str = "AssumeRole";

/// Code for a launch template that does not exist.
pub(crate) const TEMPLATE_NOT_FOUND: &str = "InvalidLaunchTemplateName.NotFoundException";

/// Minimum delay after throttling, in milliseconds. EC2's request buckets refill every second.
const THROTTLED_MS: i64 = 1_000;

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

pub(crate) fn refused_option(option: &Override, code: &str) -> RefusedOption {
    RefusedOption {
        instance_type: option.instance_type.clone(),
        zone: option.zone.clone(),
        cause: refusal_cause(code),
        code: Text::from(code),
        remedy: remedy(code, "").map(Text::from),
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
        if let Some(unassumed) = CallError::of_credentials(error) {
            return Self::unassumed(unassumed);
        }
        let (error_class, code, message) = error_class::read(error);
        Self { error_class, operation, code, message }
    }

    /// A call that was not sent, because there were no credentials for it.
    pub(crate) fn unassumed(error: &CallError) -> Self {
        let (error_class, message) = match error.class() {
            CallErrorClass::Throttled => (ErrorClass::Throttled, error.message().to_owned()),
            CallErrorClass::Unclear => (ErrorClass::Unclear, error.message().to_owned()),
            _ => (ErrorClass::Refused, error.to_string()),
        };
        Self { error_class, operation: ASSUME_ROLE, code: error.code().to_owned(), message }
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
            // The sentence about the role says what to do.
            _ if self.operation == ASSUME_ROLE => CloudError::Refused {
                operation: Text::from(self.operation),
                code: Text::from(self.code),
                message: self.message,
            },
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

#[cfg(test)]
mod tests;
