//! Moments as Kubernetes writes them, and as the protocol does: milliseconds since 1970.

/// Milliseconds since 1970 of a moment as Kubernetes writes it; 0 without one.
pub(crate) fn millis(text: Option<&str>) -> i64 {
    text.and_then(|text| text.parse::<jiff::Timestamp>().ok()).map_or(0, jiff::Timestamp::as_millisecond)
}

/// This moment as conditions write it.
pub(crate) fn now_in_seconds() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// This moment in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
