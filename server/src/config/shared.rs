//! Settings that all replicas of one database should share, as digests that can be compared and tell nothing.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::keys::{KEYS, Key};
use super::layers::Layers;

/// Guardrails count what all replicas do; machines are bought by whichever replica decides for a cluster; and the replica that
/// prunes does so for all.
const SHARED: [&str; 3] = ["rails.", "cloud.", "store.keep-"];

/// Hexadecimal digits of a digest: enough to tell values apart.
const DIGITS: usize = 16;

/// The digest of each of those settings, by key.
pub(super) fn digests(layers: &Layers) -> BTreeMap<String, String> {
    let is_shared = |key: &&Key| SHARED.iter().any(|prefix| key.path.starts_with(prefix));
    let digest = |key: &Key| (key.path.to_owned(), digest(layers.get(key.path).0));
    KEYS.iter().filter(is_shared).map(digest).collect()
}

fn digest(value: &str) -> String {
    Sha256::digest(value).iter().take(DIGITS / 2).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_differ_between_replicas_with_reason_are_left_out() {
        let shared = digests(&Layers::default());
        assert!(shared.contains_key("store.keep-log") && shared.contains_key("cloud.region"), "{shared:?}");
        assert!(shared.keys().any(|key| key.starts_with("rails.")), "{shared:?}");
        for own in ["listen.grpc", "store.database-url", "lease.owner", "log.filter"] {
            assert!(!shared.contains_key(own), "{own}");
        }
        assert_ne!(digest("500"), digest("900"));
    }
}
