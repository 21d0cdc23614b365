//! Sessions of roles.

use model::Timestamp;

use crate::settings::Tags;

/// A session of a role.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Session {
    /// Name of the role.
    pub(crate) role: String,
    /// ARN of the session.
    pub(crate) arn: String,
    pub(crate) tags: Tags,
    pub(crate) expires: Timestamp,
}
