//! Converts durations of old manifests to the form that v1 accepts.

use serde_json::Value;

use super::record::Reporter;
use super::shape::scalar;
use crate::karpenter::duration;

/// `seconds` in the largest whole unit: `2592000` is `720h`, `300` is `5m`, `45` is `45s`.
pub(super) fn of_seconds(seconds: i64) -> String {
    match seconds {
        _ if seconds != 0 && seconds % 3600 == 0 => format!("{}h", seconds / 3600),
        _ if seconds != 0 && seconds % 60 == 0 => format!("{}m", seconds / 60),
        _ => format!("{seconds}s"),
    }
}

/// Converts the duration at `path` to v1. Values that v1 accepts stay; days, weeks, decimals, bare
/// numbers (seconds) and `never` are converted; any other value is an error and `None`.
pub(super) fn tidy(reporter: &mut Reporter<'_, '_>, path: &str, value: &Value) -> Option<Value> {
    let Some(found) = scalar(value) else {
        reporter.refuse(path, "found no duration; write one such as 30s, 10m or 720h");
        return None;
    };
    if value.is_string() && (found == "Never" || duration::parse(&found).is_some()) {
        return Some(Value::from(found));
    }
    let understood =
        if found.eq_ignore_ascii_case("never") { Some("Never".to_owned()) } else { seconds(&found).map(of_seconds) };
    match &understood {
        Some(text) => reporter.guess(
            path,
            format!("found {found:?}, read as {text}; allowed: {}", duration::ALLOWED),
            format!("found {found:?}; write {text} (allowed: {})", duration::ALLOWED),
        ),
        None => reporter.refuse(path, format!("found {found:?}, allowed: {}; or Never", duration::ALLOWED)),
    }
    understood.map(Value::from)
}

/// Seconds, rounded up, of a sequence of decimal numbers with units from `w` to `ms`, or of a bare
/// number of seconds.
fn seconds(text: &str) -> Option<i64> {
    let mut millis: i64 = 0;
    let mut rest = text.trim();
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(end);
        let unit_end = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (unit, next) = after.split_at(unit_end);
        let factor = match unit {
            "" if next.is_empty() && rest == text.trim() => 1_000,
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            _ => return None,
        };
        // The quantity parser is exact to thousandths for "cpu", whose unit is a thousandth of a
        // core.
        let thousandths = model::quantity::parse("cpu", number).ok()?;
        millis = millis.checked_add(thousandths.checked_mul(factor)? / 1_000)?;
        rest = next;
    }
    (!text.trim().is_empty()).then_some(millis.checked_add(999)? / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_written_in_the_largest_whole_unit() {
        for (seconds, text) in
            [(2_592_000, "720h"), (300, "5m"), (45, "45s"), (0, "0s"), (90, "90s"), (604_800, "168h")]
        {
            assert_eq!(of_seconds(seconds), text);
        }
    }

    #[test]
    fn durations_in_other_formats_are_converted() {
        for (text, value) in
            [("30d", 2_592_000), ("1w", 604_800), ("1.5h", 5_400), ("500ms", 1), ("3600", 3_600), ("1d12h", 129_600)]
        {
            assert_eq!(seconds(text), Some(value), "{text}");
        }
        for text in ["", "720h | Never", "x", "5 minutes", "1y", "5m3"] {
            assert_eq!(seconds(text), None, "{text:?}");
        }
    }
}
