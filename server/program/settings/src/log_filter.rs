//! Filters of the log.

use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;

/// Whether `filter` is a valid one. A word without `=` must be a level: as a module, which the syntax
/// permits, a misspelled level would silence all other modules.
#[must_use]
pub fn is_log_filter(filter: &str) -> bool {
    let is_name = |word: &str| word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '-'));
    let is_valid = |word: &str| !is_name(word) || (!word.is_empty() && word.parse::<LevelFilter>().is_ok());
    filter.split(',').all(|word| is_valid(word.trim())) && EnvFilter::try_new(filter).is_ok()
}

#[cfg(test)]
mod tests {
    use super::is_log_filter;

    #[test]
    fn a_word_that_is_no_level_is_no_filter() {
        for filter in ["off", "info", "WARN", "info,agent_kubernetes=debug", "fleetwright[span{a=1}]=trace", "sqlx=off"]
        {
            assert!(is_log_filter(filter), "{filter}");
        }
        for filter in ["verbose", "info,fleetwright", "agent=verbose", "=", ""] {
            assert!(!is_log_filter(filter), "{filter}");
        }
    }
}
