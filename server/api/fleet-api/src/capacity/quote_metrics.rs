//! What this process counts of quotes, and of plans that it has no place for.

use std::sync::LazyLock;
use std::time::Duration;

use metrics::Family;
use metrics::histogram::{Counter, Histogram};

pub static QUOTES: LazyLock<QuoteMetrics> = LazyLock::new(QuoteMetrics::default);

/// Requests for quotes that clients sent to this process; those of other replicas for their own clients are not counted.
#[derive(Debug)]
pub struct QuoteMetrics {
    answered: Histogram,
    failed: Counter,
    /// Requests for plans that were refused unread.
    pub(super) refused_plans: Counter,
}

impl Default for QuoteMetrics {
    fn default() -> Self {
        Self { answered: Histogram::default(), failed: Counter::new(), refused_plans: Counter::new() }
    }
}

impl QuoteMetrics {
    /// Counts a request that took so long.
    pub(super) fn observe(&self, took: Duration, is_answered: bool) {
        if is_answered {
            self.answered.observe(took);
        } else {
            self.failed.add(1);
        }
    }

    pub fn families(&self) -> Vec<Family> {
        vec![
            self.answered.family(
                "fleetwright_quote_duration_seconds",
                "Time that requests for quotes take until they are answered, over all clusters that they ask for.",
            ),
            self.failed.family(
                "fleetwright_quotes_failed_total",
                "Requests for quotes that were not answered: invalid, above a rate limit, or too many at one time.",
            ),
            self.refused_plans.family(
                "fleetwright_plans_refused_total",
                "Requests for plans that were refused unread, because as many plans and quotes were in progress as this replica makes at one time.",
            ),
        ]
    }
}
