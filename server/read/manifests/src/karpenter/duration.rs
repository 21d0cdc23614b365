//! Durations in the format of Karpenter's schemas: a sequence of whole numbers with the unit `s`,
//! `m` or `h`.

use model::Millis;
use serde_json::json;

use crate::Cursor;
use crate::schema::part::{Part, text};

/// Karpenter's default of `expireAfter`: 720h.
pub const DEFAULT_EXPIRY: Option<Millis> = Some(Millis::from_hours(720));

/// The allowed format, for messages.
pub const ALLOWED: &str = "whole numbers with s, m or h, such as 90s or 1h30m";

/// The duration `text`; `None` when it does not match the pattern `([0-9]+(s|m|h))+` or
/// overflows.
#[must_use]
pub fn parse(text: &str) -> Option<Millis> {
    let mut total: i64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit())?;
        let (number, after) = rest.split_at(end);
        let unit = match after.as_bytes().first()? {
            b's' => 1_000,
            b'm' => 60_000,
            b'h' => 3_600_000,
            _ => return None,
        };
        total = total.checked_add(number.parse::<i64>().ok()?.checked_mul(unit)?)?;
        rest = &after[1..];
    }
    (!text.is_empty()).then_some(Millis::new(total))
}

/// Units of Go's durations, in nanoseconds (Go: `time.ParseDuration`).
const GO_UNITS: [(&str, i128); 7] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// The duration `text` in the format of Go: decimal numbers with units from `ns` to `h`, or `0`. It is rounded up to
/// milliseconds. `None` when it is malformed, negative or overflows.
#[must_use]
pub fn parse_go(text: &str) -> Option<Millis> {
    if text == "0" {
        return Some(Millis::ZERO);
    }
    let mut total: i128 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let unit_end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at(unit_end);
        let nanoseconds = GO_UNITS.iter().find(|(name, _)| *name == unit)?.1;
        total = total.checked_add(multiply(number, nanoseconds)?)?;
        rest = next;
    }
    let millis = total.checked_add(999_999)? / 1_000_000;
    (!text.is_empty()).then_some(Millis::new(i64::try_from(millis).ok()?))
}

/// The decimal `number` times `factor`, rounded down; `None` when it is malformed or has more than 18 digits on a
/// side of its point.
fn multiply(number: &str, factor: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.len() <= 18 && text.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) {
        return None;
    }
    let value = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<i128>().ok() };
    let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
    Some(value(whole)? * factor + value(fraction)? * factor / scale)
}

/// The duration at `at`, in the format of Go ([`parse_go`]).
pub fn read_go(at: &Cursor<'_>) -> Option<Millis> {
    let text = at.str()?;
    parse_go(text).or_else(|| at.unexpected(text, "a duration of zero or more, such as 90s or 1m30s"))
}

/// The duration at `at`, which is above zero.
pub fn read_positive(at: &Cursor<'_>) -> Option<Millis> {
    let text = at.str()?;
    let positive = parse(text).filter(|duration| *duration > Millis::ZERO);
    positive.or_else(|| at.unexpected(text, &format!("a duration above zero: {ALLOWED}")))
}

/// The duration at `at`.
pub fn read(at: &Cursor<'_>) -> Option<Millis> {
    let text = at.str()?;
    parse(text).or_else(|| at.unexpected(text, ALLOWED))
}

/// The duration at `at`, `None` for `Never`; `default` when it is absent or invalid.
pub fn read_lifetime(at: &Cursor<'_>, default: Option<Millis>) -> Option<Millis> {
    match at.str() {
        None => default,
        Some("Never") => None,
        Some(text) => parse(text).or_else(|| at.unexpected(text, &format!("{ALLOWED}; or Never"))).or(default),
    }
}

/// The lifetime in `expireAfter` at `at`.
pub fn read_expiry(at: &Cursor<'_>) -> Option<Millis> {
    read_lifetime(at, DEFAULT_EXPIRY)
}

/// The schema of a duration, in whole hours, minutes and seconds.
pub(crate) fn schema() -> Part {
    text().pattern("^([0-9]+(s|m|h))+$").documented(&[&format!("Allowed: {ALLOWED}")])
}

/// The schema of a duration, or `Never`.
pub(crate) fn lifetime_schema() -> Part {
    text().pattern("^(([0-9]+(s|m|h))+|Never)$").documented(&[&format!("Allowed: {ALLOWED}; or Never")])
}

pub(crate) fn expiry_schema() -> Part {
    lifetime_schema().default_value(json!("720h"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_of_whole_numbers_are_read() {
        assert_eq!(parse("90s"), Some(Millis::from_secs(90)));
        assert_eq!(parse("1h30m"), Some(Millis::from_mins(90)));
        assert_eq!(parse("0s"), Some(Millis::ZERO));
        for text in ["", "1", "s", "1.5h", "30d", "500ms", "-1s", " 1s", "Never", "99999999999999999999h"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
    #[test]
    fn durations_of_go_may_have_fractions_and_small_units() {
        for (text, millis) in [
            ("0", 0),
            ("1m30s", 90_000),
            ("1.5h", 5_400_000),
            (".5s", 500),
            ("250ms", 250),
            ("1us", 1), // Rounded up.
            ("1m0.001s", 60_001),
        ] {
            assert_eq!(parse_go(text), Some(Millis::new(millis)), "{text}");
        }
        for text in ["", "1", "s", "-1s", "1d", "1.2.3s", ".s", "1m 30s", "9999999999999999999h", "999999999999999999h"]
        {
            assert_eq!(parse_go(text), None, "{text:?}");
        }
    }
}
