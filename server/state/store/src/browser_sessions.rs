//! Sessions of browsers that have signed in to the dashboard: the same at every replica.

/// Maximum number of sessions of a client; above it the oldest end.
pub const MAX_SESSIONS_PER_CLIENT: usize = 50;

/// A session. It has digests only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrowserSessionRow {
    /// SHA-256 of the cookie's value.
    pub id_sha256: Vec<u8>,
    /// SHA-256 of the key.
    pub key_sha256: Vec<u8>,
    /// Name of the client in the trust file.
    pub client: String,
    /// What identified the client at the sign-in.
    pub credential: String,
    /// When it ends, in milliseconds since 1970.
    pub expires_ms: i64,
}
