//! Names, label keys and label values in manifests, by the syntax of Kubernetes (apimachinery: validation).

use std::collections::BTreeMap;

pub use model::label_syntax::{LABEL_KEY, LABEL_VALUE, is_dns_subdomain, is_label_key, is_label_value};
use model::{Labels, Text};

use crate::Cursor;

const DNS_SUBDOMAIN: &str =
    "at most 253 lower-case letters, digits, '-' and '.', with a letter or digit at both ends of each part";
const DNS_LABEL: &str = "1 to 63 lower-case letters, digits and '-', with a letter or digit at both ends";

/// Whether `name` is a DNS label.
#[must_use]
pub fn is_dns_label(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    !name.is_empty() && name.len() <= 63 && !name.starts_with('-') && !name.ends_with('-') && name.bytes().all(inner)
}

/// The DNS subdomain at `at`.
pub fn dns_subdomain<'v>(at: &Cursor<'v>) -> Option<&'v str> {
    let name = at.required_str()?;
    if is_dns_subdomain(name) { Some(name) } else { at.unexpected(name, DNS_SUBDOMAIN) }
}

/// The DNS label at `at`.
pub fn dns_label<'v>(at: &Cursor<'v>) -> Option<&'v str> {
    let name = at.required_str()?;
    if is_dns_label(name) { Some(name) } else { at.unexpected(name, DNS_LABEL) }
}

/// The label key at `at`, which is required.
pub fn label_key<'v>(at: &Cursor<'v>) -> Option<&'v str> {
    let key = at.required_str()?;
    if is_label_key(key) { Some(key) } else { at.unexpected(key, LABEL_KEY) }
}

/// The label values in the list at `at`.
pub fn label_values<'v>(at: &Cursor<'v>) -> Vec<&'v str> {
    let items = at.list();
    let value = |item: &Cursor<'v>| {
        let value = item.clone().required().str()?;
        if is_label_value(value) { Some(value) } else { item.unexpected(value, LABEL_VALUE) }
    };
    items.iter().filter_map(value).collect()
}

/// The labels at `at`.
pub fn labels(at: &Cursor<'_>) -> Labels {
    let mut labels: BTreeMap<Text, Text> = BTreeMap::new();
    for (key, entry) in at.map() {
        if !is_label_key(key) {
            entry.error(format!("the label key {key:?} is not allowed; allowed: {LABEL_KEY}"));
        }
        let value = if entry.exists() { entry.str().unwrap_or_default() } else { "" };
        if !is_label_value(value) {
            entry.unexpected::<()>(value, LABEL_VALUE);
        }
        labels.insert(key.into(), value.into());
    }
    labels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_values_and_names_follow_kubernetes() {
        for key in ["app", "example.com/App_1", "a/b", "x.y.z/9"] {
            assert!(is_label_key(key), "{key}");
        }
        for key in ["", "/a", "a/", "a/b/c", "-a", "Example.com/a", "a b", &"k".repeat(64)] {
            assert!(!is_label_key(key), "{key:?}");
        }
        assert!(is_label_value("") && is_label_value("a.B-9") && !is_label_value("_a") && !is_label_value("ü"));
        assert!(is_dns_label("a-1") && !is_dns_label("a.b") && !is_dns_label("A") && !is_dns_label(""));
        assert!(is_dns_subdomain("ip-10-0-0-1.ec2.internal") && !is_dns_subdomain("a..b") && !is_dns_subdomain("a_b"));
    }
}
