//! Why a lookup in the account failed.

use std::error::Error;
use std::fmt;

use aws_sdk_ec2::config::http::HttpResponse;
use aws_sdk_ec2::error::{ProvideErrorMetadata, SdkError};
use cloud::provider::is_denied;
use model::Text;

use crate::error_class::{self, ErrorClass};

/// What may be done about a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CallErrorClass {
    /// AWS limits the calls; a later one succeeds.
    Throttled,
    /// The credentials lack a right.
    Denied,
    /// AWS gave no answer, or answered that it has a problem.
    Unclear,
    /// AWS rejected the request; repeating it has the same result.
    Refused,
    /// The role that the call is to be made with cannot be assumed. The message says why.
    NotAssumable,
}

/// A failed call. Its text is one sentence that says what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallError {
    /// The action as policies name it, such as `ec2:DescribeSubnets`.
    action: &'static str,
    class: CallErrorClass,
    code: String,
    message: String,
    /// Whose credentials they are; `None` for those that the server shares among all clusters.
    holder: Option<Text>,
}

impl Error for CallError {}

impl CallError {
    pub(crate) fn new(action: &'static str, class: CallErrorClass, code: &str, message: impl Into<String>) -> Self {
        Self { action, class, code: code.to_owned(), message: message.into(), holder: None }
    }

    /// Classifies the error of `action`.
    pub(crate) fn read<E>(action: &'static str, error: &SdkError<E, HttpResponse>) -> Self
    where
        E: Error + ProvideErrorMetadata + 'static,
    {
        if let Some(unassumed) = Self::of_credentials(error) {
            return unassumed.clone();
        }
        let (class, code, message) = error_class::read(error);
        Self::new(action, class_of(class, &code), &code, message)
    }

    /// A request of `action` that cannot be built.
    pub(crate) fn invalid_request(action: &'static str, error: &impl Error) -> Self {
        Self::new(action, CallErrorClass::Refused, "InvalidRequest", error.to_string())
    }

    /// Why there were no credentials for the call, if that is the cause of `error`.
    pub(crate) fn of_credentials<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e Self> {
        let mut cause = Some(error);
        while let Some(error) = cause {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            cause = error.source();
        }
        None
    }

    /// The error of a call with the credentials of `holder`.
    pub(crate) fn by(self, holder: Option<&Text>) -> Self {
        Self { holder: holder.cloned(), ..self }
    }

    pub(crate) fn action(&self) -> &'static str {
        self.action
    }

    pub(crate) fn class(&self) -> CallErrorClass {
        self.class
    }

    pub(crate) fn code(&self) -> &str {
        &self.code
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Reason of a condition, in CamelCase.
    pub(crate) fn reason(&self) -> &'static str {
        match self.class {
            CallErrorClass::Throttled => "RequestLimitExceeded",
            CallErrorClass::Denied => "AccessDenied",
            CallErrorClass::Unclear => "ServiceUnavailable",
            CallErrorClass::Refused => "RequestRefused",
            CallErrorClass::NotAssumable => "RoleNotAssumable",
        }
    }
}

fn class_of(class: ErrorClass, code: &str) -> CallErrorClass {
    match class {
        _ if is_denied(code) => CallErrorClass::Denied,
        ErrorClass::Throttled => CallErrorClass::Throttled,
        ErrorClass::Unclear => CallErrorClass::Unclear,
        _ => CallErrorClass::Refused,
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { action, class, code, message, holder } = self;
        match (class, holder) {
            (CallErrorClass::NotAssumable, _) => f.write_str(message),
            (CallErrorClass::Denied, Some(holder)) => write!(
                f,
                "the credentials of {holder} lack the right {action} ({message}): allow it in the policy of the role, or \
                 correct the EC2NodeClass if what it names is not for this cluster"
            ),
            (CallErrorClass::Denied, None) => {
                write!(f, "the server's credentials lack the right {action}: allow it in the policy of their role")
            }
            (CallErrorClass::Throttled, _) => write!(f, "AWS throttles {action} ({code}); the server repeats it later"),
            (CallErrorClass::Unclear, _) => write!(
                f,
                "{action} got no usable answer ({code}: {message}); the server repeats it later, check the network path \
                 to the service if it persists"
            ),
            (CallErrorClass::Refused, _) => {
                write!(f, "AWS refused {action} ({code}: {message}): correct what it names")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_every_service_are_classified() {
        for (code, status, class) in [
            ("UnauthorizedOperation", 403, CallErrorClass::Denied),
            ("AccessDenied", 403, CallErrorClass::Denied),
            ("AccessDeniedException", 400, CallErrorClass::Denied),
            ("RequestLimitExceeded", 503, CallErrorClass::Throttled),
            ("ThrottlingException", 400, CallErrorClass::Throttled),
            ("InternalError", 500, CallErrorClass::Unclear),
            ("InvalidParameterValue", 400, CallErrorClass::Refused),
        ] {
            assert_eq!(class_of(error_class::error_class(code, status), code), class, "{code}");
        }
    }

    #[test]
    fn a_missing_right_is_one_sentence_that_names_the_action() {
        let error = CallError::new("ssm:GetParameter", CallErrorClass::Denied, "AccessDeniedException", "no");
        assert_eq!(
            error.to_string(),
            "the server's credentials lack the right ssm:GetParameter: allow it in the policy of their role"
        );
    }
}
