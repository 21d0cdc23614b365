//! Keys that have a new name: the old one is an error that names the new one.

use super::config_key::{ConfigKey, PREFIX};
use super::keys::KEYS;

/// Beginnings of old flags, and what they are now; the first that matches counts.
const RENAMED: [(&str, &str); 6] = [
    ("rails-brake-", "guardrails-circuit-breaker-"),
    ("rails-", "guardrails-"),
    ("trust-file", "auth-file"),
    ("control-collect-after", "control-gc-after"),
    ("control-hold-after-foreign-scale-up", "control-hold-after-external-scale-up"),
    ("control-open-together", "control-register-together"),
];

/// The key that the flag `old`, without its dashes, has become.
pub fn key_of_flag(old: &str) -> Option<&'static ConfigKey> {
    let new = RENAMED.iter().find_map(|(was, is)| Some(format!("{is}{}", old.strip_prefix(was)?)))?;
    KEYS.iter().find(|key| key.flag == new)
}

/// The new name of a path or environment variable.
pub(super) fn new_name(old: &str) -> Option<String> {
    match old.strip_prefix(PREFIX) {
        Some(variable) => key_of_flag(&variable.to_lowercase().replace('_', "-")).map(ConfigKey::variable),
        None => key_of_flag(&old.replace('.', "-")).map(|key| key.path.to_owned()),
    }
}
