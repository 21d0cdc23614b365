//! Durations of flags.

use std::time::Duration;

use settings::ValueType;

/// Parses a duration of the command line.
///
/// # Errors
/// The valid format.
pub fn parse_duration_flag(text: &str) -> Result<Duration, InvalidDuration> {
    settings::parse_duration(text).ok_or(InvalidDuration)
}

/// The error of a text that is no duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("write {}", ValueType::Duration.expected())]
pub struct InvalidDuration;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units_up_to_days() {
        // 1 h is 3,600 s, and 14 d are 14 · 86,400 s.
        for (text, seconds) in [("90s", 90), ("2m", 120), ("1h", 3_600), ("14d", 1_209_600)] {
            assert_eq!(parse_duration_flag(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["1w", "d", "1", "-1s", "1.5h"] {
            let error = parse_duration_flag(text).unwrap_err().to_string();
            assert_eq!(error, "write a duration such as 500ms, 10s, 2m, 1h or 1d", "{text}");
        }
    }
}
