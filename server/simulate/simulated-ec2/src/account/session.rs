//! Sessions of roles.

use model::Timestamp;

use crate::settings::Tags;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) role: String,
    pub(crate) arn: String,
    pub(crate) tags: Tags,
    pub(crate) expires: Timestamp,
}
