//! Errors of the API: a status with `google.rpc.ErrorInfo`, and what its reason says more.
//!
//! `proto/errors.md` lists the reasons for clients, and a test compares it with [`Reason::ALL`].

use std::collections::HashMap;
use std::time::Duration;

use store::StoreError;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};
use tracing::warn;

pub const DOMAIN: &str = "fleetwright.dev";

/// Why a request fails. A client may depend on the name; the message is for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Fields of the request are wrong.
    InvalidField,
    /// The named resource does not exist.
    NotFound,
    /// A cluster is not known.
    ClusterNotFound,
    /// No replica that answers decides for a cluster.
    ClusterUnreachable,
    /// The agent of a cluster has not sent its state yet.
    ClusterNotSynced,
    /// The server answers too many such requests already.
    TooManyRequests,
    /// The answer was not there in time.
    DeadlineExceeded,
    /// A quota of the client is used up.
    QuotaExceeded,
    /// The pods fit in no cluster.
    NoCapacity,
    /// The resource is in a state that does not allow it.
    WrongState,
    /// The resource has changed.
    EtagMismatch,
    /// A `request_id` belongs to another request.
    RequestIdReused,
    /// The credentials are missing or wrong.
    Unauthenticated,
    /// The credentials do not allow it.
    PermissionDenied,
    /// The store does not answer.
    Unavailable,
    /// What a position or page token names is gone.
    OutOfRange,
    /// The method does not exist.
    Unimplemented,
    /// A mistake of the server.
    Internal,
}

impl Reason {
    #[cfg(test)]
    pub(crate) const ALL: [Self; 18] = [
        Self::InvalidField,
        Self::NotFound,
        Self::ClusterNotFound,
        Self::ClusterUnreachable,
        Self::ClusterNotSynced,
        Self::TooManyRequests,
        Self::DeadlineExceeded,
        Self::QuotaExceeded,
        Self::NoCapacity,
        Self::WrongState,
        Self::EtagMismatch,
        Self::RequestIdReused,
        Self::Unauthenticated,
        Self::PermissionDenied,
        Self::Unavailable,
        Self::OutOfRange,
        Self::Unimplemented,
        Self::Internal,
    ];

    /// The name on the wire, and the code.
    pub const fn parts(self) -> (&'static str, Code) {
        match self {
            Self::InvalidField => ("INVALID_FIELD", Code::InvalidArgument),
            Self::NotFound => ("NOT_FOUND", Code::NotFound),
            Self::ClusterNotFound => ("CLUSTER_NOT_FOUND", Code::NotFound),
            Self::ClusterUnreachable => ("CLUSTER_UNREACHABLE", Code::Unavailable),
            Self::ClusterNotSynced => ("CLUSTER_NOT_SYNCED", Code::FailedPrecondition),
            Self::TooManyRequests => ("TOO_MANY_REQUESTS", Code::ResourceExhausted),
            Self::DeadlineExceeded => ("DEADLINE_EXCEEDED", Code::DeadlineExceeded),
            Self::QuotaExceeded => ("QUOTA_EXCEEDED", Code::ResourceExhausted),
            Self::NoCapacity => ("NO_CAPACITY", Code::FailedPrecondition),
            Self::WrongState => ("WRONG_STATE", Code::FailedPrecondition),
            Self::EtagMismatch => ("ETAG_MISMATCH", Code::Aborted),
            Self::RequestIdReused => ("REQUEST_ID_REUSED", Code::AlreadyExists),
            Self::Unauthenticated => ("UNAUTHENTICATED", Code::Unauthenticated),
            Self::PermissionDenied => ("PERMISSION_DENIED", Code::PermissionDenied),
            Self::Unavailable => ("UNAVAILABLE", Code::Unavailable),
            Self::OutOfRange => ("OUT_OF_RANGE", Code::OutOfRange),
            Self::Unimplemented => ("UNIMPLEMENTED", Code::Unimplemented),
            Self::Internal => ("INTERNAL", Code::Internal),
        }
    }

    /// The reason of a status that has none of its own.
    pub(crate) const fn of_code(code: Code) -> Self {
        match code {
            Code::InvalidArgument => Self::InvalidField,
            Code::NotFound => Self::NotFound,
            Code::DeadlineExceeded | Code::Cancelled => Self::DeadlineExceeded,
            Code::ResourceExhausted => Self::TooManyRequests,
            Code::FailedPrecondition => Self::WrongState,
            Code::Aborted => Self::EtagMismatch,
            Code::AlreadyExists => Self::RequestIdReused,
            Code::Unauthenticated => Self::Unauthenticated,
            Code::PermissionDenied => Self::PermissionDenied,
            Code::Unavailable => Self::Unavailable,
            Code::OutOfRange => Self::OutOfRange,
            Code::Unimplemented => Self::Unimplemented,
            Code::Ok | Code::Unknown | Code::Internal | Code::DataLoss => Self::Internal,
        }
    }
}

/// A wrong field of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldViolation {
    /// Its path in the request, such as `pod_sets[0].template.spec.containers[0].name`.
    pub field: String,
    /// What was found, and what is allowed.
    pub problem: String,
}

impl FieldViolation {
    pub fn new(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self { field: field.into(), problem: problem.into() }
    }
}

fn info(reason: Reason) -> ErrorDetails {
    ErrorDetails::with_error_info(reason.parts().0, DOMAIN, HashMap::<String, String>::new())
}

pub fn status(reason: Reason, message: impl Into<String>) -> Status {
    Status::with_error_details(reason.parts().1, message, info(reason))
}

/// A status about a resource by its name.
pub fn about(reason: Reason, resource: &str, message: impl Into<String>) -> Status {
    let metadata = HashMap::from([("resource".to_owned(), resource.to_owned())]);
    let details = ErrorDetails::with_error_info(reason.parts().0, DOMAIN, metadata);
    Status::with_error_details(reason.parts().1, message, details)
}

/// `INVALID_ARGUMENT` with every wrong field; there is at least one.
pub fn invalid(violations: &[FieldViolation]) -> Status {
    let mut details = info(Reason::InvalidField);
    for FieldViolation { field, problem } in violations {
        details.add_bad_request_violation(field, problem);
    }
    let sentences: Vec<String> =
        violations.iter().map(|FieldViolation { field, problem }| format!("{field}: {problem}")).collect();
    Status::with_error_details(Code::InvalidArgument, sentences.join("; "), details)
}

/// `INVALID_ARGUMENT` about one field.
pub fn invalid_field(field: impl Into<String>, problem: impl Into<String>) -> Status {
    invalid(&[FieldViolation::new(field, problem)])
}

/// `INVALID_ARGUMENT` about one field, with a sentence that names it.
pub fn invalid_argument(field: &str, sentence: impl Into<String>) -> Status {
    let (mut details, sentence) = (info(Reason::InvalidField), sentence.into());
    details.add_bad_request_violation(field, &sentence);
    Status::with_error_details(Code::InvalidArgument, sentence, details)
}

/// A status that says when to try again.
pub fn retry_after(reason: Reason, message: impl Into<String>, delay: Duration) -> Status {
    let mut details = info(reason);
    details.set_retry_info(Some(delay));
    Status::with_error_details(reason.parts().1, message, details)
}

/// `RESOURCE_EXHAUSTED` about a quota of `subject`.
pub fn quota_exceeded(subject: &str, description: impl Into<String>) -> Status {
    let description = description.into();
    let mut details = info(Reason::QuotaExceeded);
    details.add_quota_failure_violation(subject, &description);
    Status::with_error_details(Code::ResourceExhausted, description, details)
}

pub fn store_failed(error: StoreError) -> Status {
    warn!(%error, "store failed a request");
    Status::unavailable(error.to_string())
}

/// Whether a status is an error without ErrorInfo.
pub fn lacks_info(status: &Status) -> bool {
    status.code() != Code::Ok && status.get_error_details().error_info().is_none()
}

/// The same status with the ErrorInfo of its code, if it lacks one.
pub fn with_info(status: Status) -> Status {
    if !lacks_info(&status) {
        return status;
    }
    let mut details = status.get_error_details();
    details.set_error_info(Reason::of_code(status.code()).parts().0, DOMAIN, HashMap::<String, String>::new());
    let mut detailed = Status::with_error_details(status.code(), status.message(), details);
    *detailed.metadata_mut() = status.metadata().clone();
    detailed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `NOT_FOUND` of `NotFound`.
    fn in_capitals(name: &str) -> String {
        let words = name.char_indices().map(|(at, letter)| {
            let gap = if at > 0 && letter.is_uppercase() { "_" } else { "" };
            format!("{gap}{}", letter.to_ascii_uppercase())
        });
        words.collect()
    }

    fn reason_of(status: &Status) -> Option<(String, String)> {
        status.get_error_details().error_info().map(|info| (info.reason.clone(), info.domain.clone()))
    }

    #[test]
    fn every_status_has_its_reason_in_the_domain() {
        for reason in Reason::ALL {
            let (name, code) = reason.parts();
            let made = status(reason, "x");
            assert_eq!(made.code(), code, "{name}");
            assert_eq!(reason_of(&made), Some((name.to_owned(), "fleetwright.dev".to_owned())));
            // The reason of a code has that code.
            assert_eq!(Reason::of_code(code).parts().1, code, "{name}");
        }
    }

    #[test]
    fn details_name_fields_quotas_and_delays() {
        let made = invalid(&[FieldViolation::new("a.b", "found 0"), FieldViolation::new("c", "missing")]);
        assert_eq!(made.message(), "a.b: found 0; c: missing");
        let fields: Vec<String> = made
            .get_error_details()
            .bad_request()
            .expect("it has one")
            .field_violations
            .iter()
            .map(|violation| violation.field.clone())
            .collect();
        assert_eq!(fields, ["a.b", "c"]);
        let made = retry_after(Reason::TooManyRequests, "busy", Duration::from_millis(250));
        assert_eq!(
            made.get_error_details().retry_info().and_then(|info| info.retry_delay),
            Some(Duration::from_millis(250))
        );
        let made = quota_exceeded("client:kueue", "10 holds");
        assert_eq!(
            made.get_error_details().quota_failure().map(|failure| failure.violations[0].subject.clone()),
            Some("client:kueue".to_owned())
        );
        let made = about(Reason::ClusterNotFound, "clusters/x", "gone");
        assert_eq!(
            made.get_error_details().error_info().map(|info| info.metadata["resource"].clone()),
            Some("clusters/x".to_owned())
        );
    }

    #[test]
    fn a_status_without_details_gets_the_reason_of_its_code_and_others_stay() {
        let mut plain = Status::not_found("no");
        plain.metadata_mut().insert("x", "y".parse().expect("it is valid"));
        let made = with_info(plain);
        assert_eq!(reason_of(&made).map(|(reason, _)| reason), Some("NOT_FOUND".to_owned()));
        assert_eq!((made.message(), made.metadata().len()), ("no", 1));
        // A layer below that names the wrong field knows no reasons of ours.
        let below = ErrorDetails::with_bad_request_violation("x-goog-fieldmask", "unknown");
        let made = with_info(Status::with_error_details(Code::InvalidArgument, "no", below));
        assert_eq!(reason_of(&made).map(|(reason, _)| reason), Some("INVALID_FIELD".to_owned()));
        let fields = made.get_error_details().bad_request().map(|request| request.field_violations.len());
        assert_eq!(fields, Some(1));
        let own = status(Reason::ClusterNotFound, "no");
        assert_eq!(reason_of(&with_info(own)).map(|(reason, _)| reason), Some("CLUSTER_NOT_FOUND".to_owned()));
    }

    #[test]
    fn the_document_lists_every_reason_with_its_code() {
        let document = include_str!("../../../../proto/errors.md");
        let rows: Vec<(String, String)> = document
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split_once("` | `"))
            .map(|(reason, rest)| (reason.to_owned(), rest.split('`').next().unwrap_or_default().to_owned()))
            .collect();
        let expected: Vec<(String, String)> = Reason::ALL
            .iter()
            .map(|reason| reason.parts())
            .map(|(name, code)| (name.to_owned(), in_capitals(&format!("{code:?}"))))
            .collect();
        assert_eq!(rows, expected);
    }
}
