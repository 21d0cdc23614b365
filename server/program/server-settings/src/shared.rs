//! Digests of settings that all replicas of one database should share; comparable without revealing
//! the values.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::accounts::{self, Accounts};
use super::keys::KEYS;
use super::layers::Layers;
use settings::Key;

/// Guardrails count over all replicas, any replica may decide for a cluster, and one
/// replica prunes the store for all.
const SHARED: [&str; 4] = ["disruption.", "guardrails.", "cloud.", "store.keep-"];

/// Hexadecimal digits of a digest; enough to distinguish values.
const DIGITS: usize = 16;

/// Digest of each shared setting, by key; of the file of accounts, the digest of its text.
pub(super) fn digests(layers: &Layers, accounts: Option<&Accounts>) -> BTreeMap<String, String> {
    let is_shared = |key: &&Key| SHARED.iter().any(|prefix| key.path.starts_with(prefix));
    let digest = |key: &Key| (key.path.to_owned(), digest(layers.get(key.path).0));
    let mut digests: BTreeMap<String, String> = KEYS.iter().filter(is_shared).map(digest).collect();
    if let Some(accounts) = accounts {
        digests.insert(accounts::KEY.to_owned(), self::digest(accounts.text()));
    }
    digests
}

fn digest(value: &str) -> String {
    Sha256::digest(value).iter().take(DIGITS / 2).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_may_differ_between_replicas_are_excluded() {
        let shared = digests(&Layers::default(), None);
        assert!(shared.contains_key("store.keep-log") && shared.contains_key("cloud.region"), "{shared:?}");
        assert!(shared.keys().any(|key| key.starts_with("guardrails.")), "{shared:?}");
        for own in ["listen.grpc", "store.database-url", "lease.owner", "log.filter"] {
            assert!(!shared.contains_key(own), "{own}");
        }
        assert_ne!(digest("500"), digest("900"));
    }
}
