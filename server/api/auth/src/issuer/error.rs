//! Why the keys of an issuer cannot be read.

use std::io;
use std::path::PathBuf;

/// Why the keys of an issuer cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeySetError {
    #[error("key set {}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    #[error("key set {}: {error}", path.display())]
    FileContent { path: PathBuf, error: serde_json::Error },
    #[error("certificates {}: {error}", path.display())]
    Authorities { path: PathBuf, error: io::Error },
    #[error("{address}: {error}")]
    Request { address: String, error: Box<ureq::Error> },
    #[error("{address}: {error}")]
    Response { address: String, error: serde_json::Error },
    #[error("the discovery document has the issuer {0:?}; write it in the trust file exactly so")]
    OtherIssuer(String),
}
