//! Durations in the format of Karpenter's schemas: a sequence of whole numbers with the unit `s`,
//! `m` or `h`.

use model::Millis;

use crate::Cursor;

/// A duration, or `Never`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lifetime {
    /// A duration after which the effect applies.
    Finite(Millis),
    /// `Never`.
    Never,
}

impl Lifetime {
    /// The duration; `None` for `Never`.
    #[must_use]
    pub fn finite(self) -> Option<Millis> {
        match self {
            Self::Finite(duration) => Some(duration),
            Self::Never => None,
        }
    }
}

/// Karpenter's default of `expireAfter`: 720h.
pub const DEFAULT_EXPIRY: Lifetime = Lifetime::Finite(Millis::from_hours(720));

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

/// The duration or `Never` at `at`.
pub fn read_lifetime(at: &Cursor<'_>) -> Option<Lifetime> {
    let text = at.str()?;
    if text == "Never" {
        return Some(Lifetime::Never);
    }
    let finite = parse(text).or_else(|| at.unexpected(text, &format!("{ALLOWED}; or Never")))?;
    Some(Lifetime::Finite(finite))
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
}
