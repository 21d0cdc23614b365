//! Eviction thresholds of the kubelet.

use std::fmt;

use crate::quantity::{self, QuantityError};
use crate::resources::MEMORY;

/// A value of `evictionHard`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Threshold {
    /// An amount, in bytes.
    Bytes(i64),
    /// A share of the capacity, in millionths.
    Millionths(i64),
}

/// Why a text is no eviction threshold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ThresholdError {
    /// A percentage that is not between 0 and 100.
    #[error("{0:?} is not a percentage between 0% and 100%")]
    Percentage(String),
    /// An amount that cannot be read.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// An amount below zero.
    #[error("{0:?} is negative; a threshold is a quantity of at least 0, or a percentage")]
    Negative(String),
}

impl Threshold {
    /// Reads `5%`, `7.5%` or `200Mi`.
    ///
    /// # Errors
    /// [`ThresholdError`] when the text is neither a percentage between 0 and 100 nor an amount of
    /// at least 0.
    pub fn parse(text: &str) -> Result<Self, ThresholdError> {
        let Some(percent) = text.strip_suffix('%') else {
            let bytes = quantity::parse("memory", text)?;
            return if bytes < 0 { Err(ThresholdError::Negative(text.to_owned())) } else { Ok(Self::Bytes(bytes)) };
        };
        let plain = !percent.is_empty() && percent.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        // A thousandth of a percent is ten millionths of the whole.
        match quantity::parse("cpu", percent).ok().filter(|_| plain).map(|thousandths| thousandths.saturating_mul(10)) {
            Some(share @ 0..=1_000_000) => Ok(Self::Millionths(share)),
            _ => Err(ThresholdError::Percentage(text.to_owned())),
        }
    }

    /// Bytes to keep free of `capacity`, rounded up. `100%` disables the signal.
    #[must_use]
    pub fn bytes_of(self, capacity: i64) -> i64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Millionths(1_000_000) => 0,
            Self::Millionths(share) => {
                let product = i128::from(capacity) * i128::from(share);
                i64::try_from((product + 999_999) / 1_000_000).unwrap_or(i64::MAX)
            }
        }
    }
}

/// The shortest text that [`Threshold::parse`] reads as this value.
impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => f.write_str(&quantity::render(MEMORY, *bytes)),
            Self::Millionths(share) => {
                let (percent, fraction) = (share / 10_000, format!("{:04}", share % 10_000));
                match fraction.trim_end_matches('0') {
                    "" => write!(f, "{percent}%"),
                    digits => write!(f, "{percent}.{digits}%"),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_shares_or_amounts() {
        assert_eq!(Threshold::parse("10%"), Ok(Threshold::Millionths(100_000)));
        assert_eq!(Threshold::parse("7.5%"), Ok(Threshold::Millionths(75_000)));
        assert_eq!(Threshold::parse("200Mi"), Ok(Threshold::Bytes(200 << 20)));
        for refused in ["101%", "-1%", "%", "1k%", "-5Mi", "five"] {
            assert!(Threshold::parse(refused).is_err(), "{refused} was read");
        }
    }

    #[test]
    fn a_share_rounds_up_and_all_of_it_means_none() {
        assert_eq!(Threshold::Millionths(100_000).bytes_of(101), 11); // 10.1
        assert_eq!(Threshold::Millionths(1_000_000).bytes_of(101), 0);
        assert_eq!(Threshold::Bytes(7).bytes_of(5), 7);
    }

    #[test]
    fn a_threshold_is_written_as_it_is_read() {
        for text in ["10%", "7.5%", "0.25%", "0%", "100%", "200Mi", "1000", "0"] {
            assert_eq!(Threshold::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Threshold::parse("5.0%").unwrap().to_string(), "5%");
        assert_eq!(Threshold::parse("1024Mi").unwrap().to_string(), "1Gi");
    }
}
