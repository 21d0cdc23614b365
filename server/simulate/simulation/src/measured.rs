//! Measured times in results.

use std::time::Duration;

use serde::Serializer;

/// The given percentile of the values; 0 when there are none.
pub fn percentile(values: &[u64], percent: usize) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied().unwrap_or(0)
}

pub(crate) fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_observed_values() {
        assert_eq!(percentile(&[], 50), 0);
        assert_eq!(percentile(&[30, 10, 20], 50), 20);
        assert_eq!(percentile(&[30, 10, 20], 99), 30);
    }
}
