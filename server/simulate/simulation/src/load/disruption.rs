//! How long clusters waited for plans of disruption, by the metrics of the servers.

use super::metrics::Metrics;
use server::process_metrics::{DISRUPTION_BEGUN, DISRUPTION_CPU, DISRUPTION_LONGEST_WAIT, DISRUPTION_WAITED};

/// Totals since the servers started, or the difference of two of them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct DisruptionWaits {
    pub begun: f64,
    /// Seconds that they were due before, in sum.
    pub waited: f64,
    /// The longest of these times since the servers started, in seconds.
    pub longest: f64,
    /// Seconds of a processor that plans took.
    pub cpu: f64,
}

impl DisruptionWaits {
    pub(super) fn read(metrics: &Metrics) -> Self {
        Self {
            begun: metrics.value(DISRUPTION_BEGUN),
            waited: metrics.value(DISRUPTION_WAITED),
            longest: metrics.value(DISRUPTION_LONGEST_WAIT),
            cpu: metrics.value(DISRUPTION_CPU),
        }
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self {
            begun: self.begun + other.begun,
            waited: self.waited + other.waited,
            longest: self.longest.max(other.longest),
            cpu: self.cpu + other.cpu,
        }
    }

    /// The difference to `before`. A restarted server counts from zero.
    pub(super) fn since(self, before: Self) -> Self {
        if self.begun < before.begun {
            return self;
        }
        Self {
            begun: self.begun - before.begun,
            waited: self.waited - before.waited,
            longest: self.longest,
            cpu: self.cpu - before.cpu,
        }
    }

    /// How long a plan was due before it began, on average, in seconds.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.begun > 0.0 { self.waited / self.begun } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_of_two_servers_are_added_and_the_longest_is_kept() {
        let (one, other) = (
            DisruptionWaits { begun: 10.0, waited: 30.0, longest: 9.0, cpu: 0.5 },
            DisruptionWaits { begun: 30.0, waited: 10.0, longest: 4.0, cpu: 1.0 },
        );
        let all = one.and(other);
        assert_eq!(all, DisruptionWaits { begun: 40.0, waited: 40.0, longest: 9.0, cpu: 1.5 });
        let since = all.since(one);
        assert_eq!(since, DisruptionWaits { begun: 30.0, waited: 10.0, longest: 9.0, cpu: 1.0 });
        assert_eq!([all.mean(), DisruptionWaits::default().mean()], [1.0, 0.0]);
        assert_eq!(one.since(other), one, "a restarted server");
    }
}
