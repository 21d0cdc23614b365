//! What a cloud says about an instance, known by its id alone.
//!
//! The source of a notice, such as a queue of the account, knows no clusters: who owns the instance is decided
//! where its NodeClaims are known.

use model::interruption::InterruptionKind;
use model::{Text, Timestamp};

/// An announcement, or report, that an instance ends or fails.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Notice {
    /// Id of the instance, such as `i-0123456789abcdef0`.
    pub instance: Text,
    /// What happens to it.
    pub kind: InterruptionKind,
    /// When the cloud sent the notice. With instance and kind it identifies the notice.
    pub sent: Timestamp,
    /// When the instance ends, as far as the cloud has set a time.
    pub ends: Option<Timestamp>,
}
