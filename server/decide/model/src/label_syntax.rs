//! Syntax of label keys and values (apimachinery: validation).

/// Allowed form of a label value, for messages.
pub const LABEL_VALUE: &str =
    "nothing, or at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends";

/// Allowed form of a label key, for messages.
pub const LABEL_KEY: &str = "an optional DNS prefix and a slash, then 1 to 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends";

/// Whether `value` may be the value of a label.
#[must_use]
pub fn is_label_value(value: &str) -> bool {
    value.is_empty() || is_name_part(value)
}

fn is_name_part(name: &str) -> bool {
    let bytes = name.as_bytes();
    let end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let inner = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    bytes.len() <= 63 && end(bytes.first()) && end(bytes.last()) && bytes.iter().all(inner)
}

/// Whether `key` may be the key of a label, annotation or taint.
#[must_use]
pub fn is_label_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_dns_subdomain(prefix) && is_name_part(name),
        None => is_name_part(key),
    }
}

/// Whether `name` is a DNS subdomain. Its parts may be longer than a DNS label, as in Kubernetes.
#[must_use]
pub fn is_dns_subdomain(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let part =
        |part: &str| !part.is_empty() && !part.starts_with('-') && !part.ends_with('-') && part.bytes().all(inner);
    name.len() <= 253 && name.split('.').all(part)
}
