//! Why a change of an agent is rejected.

/// Reason why a change is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// A record refers to a definition that was not received.
    #[error("{object} refers to a {kind} that was not defined: {hash}")]
    Undefined {
        /// The record, by kind and name.
        object: String,
        kind: &'static str,
        /// Hash of the definition, in hexadecimal.
        hash: String,
    },
    /// A record or definition violates the protocol.
    #[error("{object} cannot be read: {reason}")]
    Unreadable {
        /// The object, by kind and name.
        object: String,
        reason: String,
    },
    /// Memory limit exceeded, for one agent or in total.
    #[error("{whose} {} MiB of memory, but {key} allows {} MiB; raise {key} if this is the expected size", held.div_ceil(1 << 20), limit >> 20)]
    Memory {
        /// Owner of the memory, as the start of the sentence.
        whose: &'static str,
        /// Accounted bytes.
        held: u64,
        key: &'static str,
        /// Value of the limit, in bytes.
        limit: u64,
    },
    /// Limit on the state of one agent exceeded.
    #[error("{what}: {found} exceed the limit of {limit}")]
    LimitExceeded { what: &'static str, found: u64, limit: u64 },
}
