//! Dollars as documents and tables print them.

use model::MicroUsd;
use serde::{Serialize, Serializer};

/// Hours of a month, by which AWS converts prices.
const HOURS_OF_MONTH: i64 = 730;

/// Dollars as a JSON number. The shortest decimal of the nearest double has at most six decimals
/// for every amount below a billion dollars, so the amount is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usd(pub MicroUsd);

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[expect(clippy::cast_precision_loss, reason = "amounts of money stay below 2^53 micro-dollars")]
        serializer.serialize_f64(self.0.0 as f64 / 1e6)
    }
}

/// Whole dollars that `hourly` costs in a month, rounded down.
pub(super) fn dollars_a_month(hourly: MicroUsd) -> String {
    (hourly.0.saturating_mul(HOURS_OF_MONTH) / 1_000_000).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_are_printed_exactly_as_numbers() {
        let printed = |micro| serde_json::to_string(&Usd(MicroUsd(micro))).unwrap();
        assert_eq!(printed(96_000), "0.096");
        assert_eq!(printed(1_234_567), "1.234567");
        assert_eq!(printed(0), "0.0");
        // Ten million dollars and one micro-dollar.
        assert_eq!(printed(10_000_000_000_001), "10000000.000001");
    }

    #[test]
    fn a_month_has_730_hours() {
        // 730 × 0.096 = 70.08.
        assert_eq!(dollars_a_month(MicroUsd(96_000)), "70");
    }
}
