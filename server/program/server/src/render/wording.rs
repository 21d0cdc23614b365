//! Numbers in sentences and cells.

/// `count` with its noun: `1 pod`, `2 pods`.
pub(crate) fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// The first of several: `m7g.large +59`.
pub(super) fn and_more(first: &str, count: usize) -> String {
    if count > 1 { format!("{first} +{}", count - 1) } else { first.to_owned() }
}
