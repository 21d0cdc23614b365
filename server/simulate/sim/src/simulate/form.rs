//! Output formats and figures of a result.

use clap::ValueEnum;
use serde_json::Value;

use server::cli::exit::Failure;
use server::cli::output;

/// Output format of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    Table,
    Json,
}

impl Form {
    pub(super) fn print(self, table: impl FnOnce() -> String, document: impl FnOnce() -> Value) -> Result<(), Failure> {
        match self {
            Self::Table => output::print_text(&table()),
            Self::Json => output::print_document(&format!("{:#}\n", document())),
        }
    }
}

/// The given percentile of the values; 0 when there are none.
pub(super) fn percentile(values: &[u64], percent: usize) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied().unwrap_or(0)
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
