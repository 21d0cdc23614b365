//! Durations as Karpenter's schemas write them: whole numbers with `s`, `m` or `h`, one after another.

use crate::Cursor;

/// A duration that may be endless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lifetime {
    /// Milliseconds.
    Millis(i64),
    /// `Never`.
    Never,
}

/// The allowed format, for messages.
pub const ALLOWED: &str = "whole numbers with s, m or h, such as 90s or 1h30m";

/// Milliseconds of `text`; `None` when it does not match the pattern `([0-9]+(s|m|h))+` or
/// overflows.
#[must_use]
pub fn parse(text: &str) -> Option<i64> {
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
    (!text.is_empty()).then_some(total)
}

/// The duration at `at`, in milliseconds.
pub fn read(at: &Cursor<'_>) -> Option<i64> {
    let text = at.str()?;
    parse(text).or_else(|| at.unexpected(text, ALLOWED))
}

/// The duration or `Never` at `at`.
pub fn read_lifetime(at: &Cursor<'_>) -> Option<Lifetime> {
    let text = at.str()?;
    if text == "Never" {
        return Some(Lifetime::Never);
    }
    let millis = parse(text).or_else(|| at.unexpected(text, &format!("{ALLOWED}; or Never")))?;
    Some(Lifetime::Millis(millis))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_of_whole_numbers_are_read() {
        assert_eq!(parse("90s"), Some(90_000));
        assert_eq!(parse("1h30m"), Some(5_400_000));
        assert_eq!(parse("0s"), Some(0));
        for text in ["", "1", "s", "1.5h", "30d", "500ms", "-1s", " 1s", "Never", "99999999999999999999h"] {
            assert_eq!(parse(text), None, "{text:?}");
        }
    }
}
