//! Kubernetes quantities ("100m", "1.5Gi", "2e3"), parsed exactly and rendered in the usual form.
//!
//! The grammar is that of `k8s.io/apimachinery/pkg/api/resource`: a signed decimal number and one
//! suffix out of `n u m "" k M G T P E`, `Ki Mi Gi Ti Pi Ei`, or an exponent `e3`/`E3`. Fractions
//! finer than the unit round up, as in the API server.

use std::fmt;

use super::resources::{CPU, Resources, counts_bytes};

/// Parse error of a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text does not follow the grammar.
    #[error("{0:?} is not a quantity; write a number with an optional suffix, such as 500m, 2, 1.5Gi or 1e3")]
    Malformed(String),
    /// The amount does not fit into 63 bits of the resource's unit.
    #[error("{0:?} is larger than any machine")]
    TooLarge(String),
}

/// Parses `text` as an amount of `resource`, in the unit of that resource (millicores for cpu,
/// otherwise whole units, rounded up).
///
/// # Errors
/// [`QuantityError`] if the text is no quantity or is too large. Negative amounts are parsed;
/// callers reject them.
pub fn parse(resource: &str, text: &str) -> Result<i64, QuantityError> {
    let scaled = parse_scaled(text, if resource == CPU { 3 } else { 0 })?;
    i64::try_from(scaled).map_err(|_| QuantityError::TooLarge(text.to_owned()))
}

/// Parses `text` in units of 10^-`decimals`, rounding away from zero.
fn parse_scaled(text: &str, decimals: i32) -> Result<i128, QuantityError> {
    let malformed = || QuantityError::Malformed(text.to_owned());
    let too_large = || QuantityError::TooLarge(text.to_owned());
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let number_end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(number_end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return Err(malformed());
    }
    let (binary, exponent) = parse_suffix(suffix).ok_or_else(malformed)?;
    // Digits beyond these change neither value nor rounding of any amount that fits into 63 bits.
    let fraction = fraction.trim_end_matches('0');
    if whole.trim_start_matches('0').len() > 30 || fraction.len() > 30 {
        return Err(if fraction.len() > 30 { malformed() } else { too_large() });
    }
    let mut value: i128 = 0;
    for digit in whole.bytes().chain(fraction.bytes()) {
        value = value.checked_mul(10).and_then(|v| v.checked_add(i128::from(digit - b'0'))).ok_or_else(too_large)?;
    }
    for _ in 0..binary {
        value = value.checked_mul(1024).ok_or_else(too_large)?;
    }
    let power = exponent + decimals - i32::try_from(fraction.len()).map_err(|_| malformed())?;
    let value = shift_decimal(value, power).ok_or_else(too_large)?;
    Ok(if negative { -value } else { value })
}

/// `value` × 10^`power`, rounded up.
fn shift_decimal(mut value: i128, power: i32) -> Option<i128> {
    for _ in 0..power.max(0) {
        if value == 0 {
            break;
        }
        value = value.checked_mul(10)?;
    }
    let mut remainder = false;
    for _ in 0..(-power).max(0) {
        if value == 0 {
            break;
        }
        remainder |= value % 10 != 0;
        value /= 10;
    }
    value.checked_add(i128::from(remainder))
}

/// (powers of 1024, powers of 10) of a suffix.
fn parse_suffix(suffix: &str) -> Option<(u32, i32)> {
    Some(match suffix {
        "" => (0, 0),
        "n" => (0, -9),
        "u" => (0, -6),
        "m" => (0, -3),
        "k" => (0, 3),
        "M" => (0, 6),
        "G" => (0, 9),
        "T" => (0, 12),
        "P" => (0, 15),
        "E" => (0, 18),
        "Ki" => (1, 0),
        "Mi" => (2, 0),
        "Gi" => (3, 0),
        "Ti" => (4, 0),
        "Pi" => (5, 0),
        "Ei" => (6, 0),
        _ => return parse_exponent(suffix),
    })
}

fn parse_exponent(suffix: &str) -> Option<(u32, i32)> {
    let digits = suffix.strip_prefix(['e', 'E'])?;
    let unsigned = digits.strip_prefix(['-', '+']).unwrap_or(digits);
    if unsigned.is_empty() || !unsigned.bytes().all(|b| b.is_ascii_digit()) || unsigned.len() > 4 {
        return None;
    }
    Some((0, digits.parse().ok()?))
}

/// Renders `amount` of `resource` in the usual form: `1500m`, `2`, `1536Mi`, `3`.
#[must_use]
pub fn render(resource: &str, amount: i64) -> String {
    if resource == CPU {
        return if amount % 1000 == 0 { (amount / 1000).to_string() } else { format!("{amount}m") };
    }
    if counts_bytes(resource) && amount != 0 {
        for (suffix, power) in [("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)] {
            if amount % (1_i64 << power) == 0 {
                return format!("{}{suffix}", amount >> power);
            }
        }
    }
    amount.to_string()
}

impl fmt::Display for Resources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, amount)) in self.iter().enumerate() {
            if at > 0 {
                f.write_str(" ")?;
            }
            write!(f, "{name}={}", render(name, amount))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(text: &str) -> i64 {
        parse("memory", text).unwrap()
    }

    #[test]
    fn every_suffix_has_the_meaning_of_kubernetes() {
        assert_eq!(memory("1Ki"), 1 << 10);
        assert_eq!(memory("1Mi"), 1 << 20);
        assert_eq!(memory("1.5Gi"), 3 << 29);
        assert_eq!(memory("1Ti"), 1 << 40);
        assert_eq!(memory("1k"), 1_000);
        assert_eq!(memory("1M"), 1_000_000);
        assert_eq!(memory("12e6"), 12_000_000);
        assert_eq!(memory("12E6"), 12_000_000);
        assert_eq!(memory("1E"), 1_000_000_000_000_000_000);
        assert_eq!(memory("+5"), 5);
        assert_eq!(memory(".5k"), 500);
        assert_eq!(memory("5."), 5);
    }

    #[test]
    fn fractions_round_up() {
        assert_eq!(parse("cpu", "0.1").unwrap(), 100);
        assert_eq!(parse("cpu", "100m").unwrap(), 100);
        assert_eq!(parse("cpu", "1n").unwrap(), 1);
        assert_eq!(parse("cpu", "0.0015").unwrap(), 2);
        assert_eq!(memory("100m"), 1);
        assert_eq!(memory("0.1Ki"), 103);
        assert_eq!(memory("0"), 0);
        assert_eq!(parse("cpu", "-1500u").unwrap(), -2);
    }

    #[test]
    fn malformed_and_oversized_quantities_are_rejected() {
        for text in ["", "-", ".", "1.2.3", "1 Gi", "1gi", "Gi", "1e", "1e99999", "0x10", "1Gib", "one", "1,5"] {
            assert!(parse("memory", text).is_err(), "{text:?} was read");
        }
        assert_eq!(parse("memory", "9E").unwrap(), 9_000_000_000_000_000_000);
        assert_eq!(parse("memory", "10E"), Err(QuantityError::TooLarge("10E".into())));
        assert!(matches!(parse("cpu", "1e9999"), Err(QuantityError::TooLarge(_))));
    }

    #[test]
    fn rendering_is_short_and_exact() {
        assert_eq!(render("cpu", 1500), "1500m");
        assert_eq!(render("cpu", 2000), "2");
        assert_eq!(render("memory", 3 << 29), "1536Mi");
        assert_eq!(render("memory", 1001), "1001");
        assert_eq!(render("memory", 0), "0");
        assert_eq!(render("pods", 1024), "1024");
    }
}
