//! Why there is no user data for a node.

use super::input::MAX_BYTES;

/// Why there is no user data for a node. The message names the field and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UserDataError {
    /// A family whose nodes this version cannot start.
    #[error("user data for the family {family} is not supported: set spec.amiFamily to AL2023, Bottlerocket or Custom")]
    UnsupportedFamily {
        /// The name in `spec.amiFamily`.
        family: &'static str,
    },
    /// The rendered user data is longer than EC2 allows.
    #[error(
        "user data has {bytes} bytes, and EC2 allows {MAX_BYTES}: shorten spec.userData, or let it load its larger part at boot"
    )]
    TooLong {
        /// Length before base64.
        bytes: usize,
    },
    /// A value that the family requires.
    #[error("{field} is missing, and {family} nodes cannot join without it: {remedy}")]
    Missing { field: &'static str, family: &'static str, remedy: &'static str },
    /// A value that the node would refuse.
    #[error("{field}: found {found:?}, allowed: {allowed}")]
    Invalid {
        field: String,
        /// Its value, or the kind of its value.
        found: String,
        allowed: &'static str,
    },
    /// A field that the family cannot express.
    #[error("{field} is not supported by the family {family}: remove it, or choose another spec.amiFamily")]
    UnsupportedField { field: &'static str, family: &'static str },
    /// `spec.userData` cannot be read in the format of its family.
    #[error("spec.userData is not valid {format}: {problem}")]
    Malformed {
        /// `MIME`, `TOML` or `YAML`.
        format: &'static str,
        /// What is wrong, and where.
        problem: String,
    },
}
