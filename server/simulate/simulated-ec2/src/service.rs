//! The services that one port serves, and how a request says which one it is for.

use crate::query::xml::Dialect;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    Ec2,
    Iam,
    Sts,
    Ssm,
    Pricing,
    Sqs,
    EventBridge,
    Eks,
}

/// Services of the JSON protocol by the prefix of `X-Amz-Target`.
const TARGETS: [(&str, Service); 4] = [
    ("AmazonSSM", Service::Ssm),
    ("AWSPriceListService", Service::Pricing),
    ("AmazonSQS", Service::Sqs),
    ("AWSEvents", Service::EventBridge),
];

impl Service {
    /// Service and action of an `X-Amz-Target` header.
    pub(crate) fn of_target(target: &str) -> Option<(Self, &str)> {
        let (prefix, action) = target.split_once('.')?;
        let (_, service) = TARGETS.iter().find(|(name, _)| *name == prefix)?;
        Some((*service, action))
    }

    /// Service of a form, by the version of its API.
    pub(crate) fn of_version(version: &str) -> Option<Self> {
        match version {
            "2016-11-15" => Some(Self::Ec2),
            "2010-05-08" => Some(Self::Iam),
            "2011-06-15" => Some(Self::Sts),
            _ => None,
        }
    }

    pub(crate) fn dialect(self) -> Dialect {
        match self {
            Self::Iam => Dialect::Query("https://iam.amazonaws.com/doc/2010-05-08/"),
            Self::Sts => Dialect::Query("https://sts.amazonaws.com/doc/2011-06-15/"),
            _ => Dialect::Ec2,
        }
    }

    /// Error code with which the service throttles.
    pub(crate) fn throttling_code(self) -> &'static str {
        match self {
            Self::Ec2 => "RequestLimitExceeded",
            Self::Iam | Self::Sts => "Throttling",
            Self::Sqs => "RequestThrottled",
            Self::Ssm | Self::Pricing | Self::EventBridge | Self::Eks => "ThrottlingException",
        }
    }

    /// Error code of the service for an access key that AWS does not know.
    pub(crate) fn unknown_key_code(self) -> &'static str {
        match self {
            Self::Ec2 => "AuthFailure",
            Self::Iam | Self::Sts => "InvalidClientTokenId",
            Self::Ssm | Self::Pricing | Self::Sqs | Self::EventBridge | Self::Eks => "UnrecognizedClientException",
        }
    }

    /// Error code of the service for credentials that have expired.
    pub(crate) fn expired_code(self) -> &'static str {
        match self {
            Self::Ec2 => "RequestExpired",
            Self::Iam | Self::Sts => "ExpiredToken",
            Self::Ssm | Self::Pricing | Self::Sqs | Self::EventBridge | Self::Eks => "ExpiredTokenException",
        }
    }

    /// Error code of the service for an action that no policy allows.
    pub(crate) fn denied_code(self) -> &'static str {
        match self {
            Self::Ec2 => "UnauthorizedOperation",
            Self::Iam | Self::Sts => "AccessDenied",
            Self::Ssm | Self::Pricing | Self::Sqs | Self::EventBridge | Self::Eks => "AccessDeniedException",
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ec2 => "ec2",
            Self::Iam => "iam",
            Self::Sts => "sts",
            Self::Ssm => "ssm",
            Self::Pricing => "pricing",
            Self::Sqs => "sqs",
            Self::EventBridge => "events",
            Self::Eks => "eks",
        }
    }
}
