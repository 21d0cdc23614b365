//! Parsing and scaling of prices.

use model::MicroUsd;

/// Maximum plausible price per hour.
pub(super) const MAX_USD_PER_HOUR: i64 = 1_000_000;

/// Parses decimal dollars (`0.096`), rounding half up to micro-dollars. `None` when the text is not
/// a number, negative, or above a million.
#[must_use]
pub fn parse_usd(text: &str) -> Option<MicroUsd> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() && fraction.is_empty() || !digits(whole) || !digits(fraction) || whole.len() > 12 {
        return None;
    }
    let dollars: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let digit = |at: usize| i64::from(fraction.as_bytes().get(at).map_or(0, |b| b - b'0'));
    let micros = (0..6).fold(0, |sum, at| sum * 10 + digit(at)) + i64::from(digit(6) >= 5);
    let price = dollars * 1_000_000 + micros;
    (price <= MAX_USD_PER_HOUR * 1_000_000).then_some(MicroUsd(price))
}

/// `price` × `numerator` / `denominator`, rounded half up.
pub(super) fn scale(price: MicroUsd, numerator: i64, denominator: i64) -> MicroUsd {
    let denominator = i128::from(denominator);
    let scaled = (i128::from(price.0) * i128::from(numerator) + denominator / 2).div_euclid(denominator);
    MicroUsd(i64::try_from(scaled).unwrap_or(i64::MAX))
}

/// Dollars as a JSON number. Prices stay below 10^12 micro-dollars, which a double represents
/// exactly, and the nearest double prints as the exact decimal.
pub(super) fn as_number(price: MicroUsd) -> f64 {
    price.0 as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_read_exactly_and_round_half_up() {
        assert_eq!(parse_usd("0.096"), Some(MicroUsd(96_000)));
        assert_eq!(parse_usd("21.957642"), Some(MicroUsd(21_957_642)));
        assert_eq!(parse_usd(".0000005"), Some(MicroUsd(1)));
        assert_eq!(parse_usd("0.00000049"), Some(MicroUsd(0)));
        for refused in ["", ".", "-1", "1e3", "+1", "1000001", "0x1"] {
            assert_eq!(parse_usd(refused), None, "{refused}");
        }
    }

    #[test]
    fn scaling_rounds_half_up() {
        assert_eq!(scale(MicroUsd(96_000), 350, 1000), MicroUsd(33_600));
        assert_eq!(scale(MicroUsd(10), 350, 1000), MicroUsd(4)); // 3.5
        assert_eq!(scale(MicroUsd(5), -100, 1000), MicroUsd(0)); // -0.5 rounds up to 0
    }
}
