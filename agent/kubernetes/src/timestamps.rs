//! Timestamps in Kubernetes' formats and in milliseconds since 1970.

/// Milliseconds since 1970 of a Kubernetes timestamp; 0 without one.
pub(crate) fn parse_millis(text: Option<&str>) -> i64 {
    text.and_then(|text| text.parse::<jiff::Timestamp>().ok()).map_or(0, jiff::Timestamp::as_millisecond)
}

/// The present time in the format of conditions.
pub(crate) fn now_rfc3339() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The present time in milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
