//! Numbers in sentences and cells.

use model::MicroUsd;

/// `count` with its noun: `1 pod`, `2 pods`.
pub fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// The first of several: `m7g.large +59`.
pub fn and_more(first: &str, count: usize) -> String {
    if count > 1 { format!("{first} +{}", count - 1) } else { first.to_owned() }
}

/// Micro-dollars as dollars; exact as printed, since a double has fifteen digits.
pub fn dollars(price: MicroUsd) -> f64 {
    price.0 as f64 / 1e6
}
