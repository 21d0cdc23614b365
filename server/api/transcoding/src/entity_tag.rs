//! Entity tags of answers (RFC 9110, section 8.8.3): a client that polls gets no body while nothing has changed, and nothing is
//! printed for it.

use std::fmt::Write;

use http::HeaderValue;
use http::header::{self, HeaderMap};
use sha2::{Digest, Sha256};

/// Bytes of the digest: enough that two answers never have the same tag.
const BYTES: usize = 16;

/// The tag of an answer, by the message that is printed. Another version of this program may print it otherwise.
pub(crate) fn tag(message: &[u8]) -> Option<HeaderValue> {
    let digest = Sha256::new().chain_update(env!("CARGO_PKG_VERSION")).chain_update(message).finalize();
    let mut tag = String::with_capacity(2 * BYTES + 2);
    tag.push('"');
    for byte in &digest[..BYTES] {
        write!(tag, "{byte:02x}").ok()?;
    }
    tag.push('"');
    HeaderValue::from_str(&tag).ok()
}

/// Whether the client has the answer with this tag.
pub(crate) fn is_known(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut known = known.flat_map(|value| value.split(',')).map(str::trim);
    known.any(|known| known.strip_prefix("W/").unwrap_or(known).as_bytes() == tag.as_bytes())
}
