//! Metrics of plans of disruption, and of how long clusters wait for them.

use controller::disruption_allowance::DisruptionTotals;

use metrics::Family;

/// Metric: plans of disruption that began.
pub const DISRUPTION_BEGUN: &str = "fleetwright_disruption_plans_total";
/// Metric: how long they were due before, in sum.
pub const DISRUPTION_WAITED: &str = "fleetwright_disruption_plan_wait_seconds_total";
/// Metric: the longest of these times.
pub const DISRUPTION_LONGEST_WAIT: &str = "fleetwright_disruption_plan_wait_longest_seconds";
/// Metric: processor time of plans of disruption.
pub const DISRUPTION_CPU: &str = "fleetwright_disruption_plan_cpu_seconds_total";

const WAITING: &str = "Clusters whose plan of disruption is due and waits, because the allowance of all clusters (disruption.cpu) is used up.";

const WAITED: &str = "Time that plans of disruption were due before they began, in sum. Divided by the plans that began: how long a cluster waits.";

const LONGEST: &str = "Longest time that a plan of disruption was due before it began, since the process started. More than a few minutes: raise disruption.cpu or disruption.interval.";

pub(super) fn families(totals: &DisruptionTotals) -> Vec<Family> {
    let DisruptionTotals { begun, waited, longest_wait, deferred, used, waiting } = *totals;
    let seconds = |millis: model::Millis| (millis.get() as f64 / 1_000.0).into();
    vec![
        Family::counter(DISRUPTION_BEGUN, "Plans of disruption that began.").of(begun),
        Family::gauge("fleetwright_disruption_plans_waiting", WAITING).with(Vec::new(), waiting.into()),
        Family::counter(DISRUPTION_WAITED, WAITED).with(Vec::new(), seconds(waited)),
        Family::gauge(DISRUPTION_LONGEST_WAIT, LONGEST).with(Vec::new(), seconds(longest_wait)),
        Family::counter(
            "fleetwright_disruption_plans_deferred_total",
            "Times that a cluster asked for a plan of disruption and was told to wait.",
        )
        .of(deferred),
        Family::counter(DISRUPTION_CPU, "Processor time of the plans of disruption that ended.")
            .with(Vec::new(), used.as_secs_f64().into()),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use model::Millis;

    use super::*;

    #[test]
    fn every_total_is_a_metric() {
        let totals = DisruptionTotals {
            begun: 4,
            waited: Millis::new(1_500),
            longest_wait: Millis::new(900),
            deferred: 7,
            used: Duration::from_millis(250),
            waiting: 2,
        };
        let values = metrics::series(families(&totals));
        let expected = [
            "fleetwright_disruption_plans_total 4",
            "fleetwright_disruption_plans_waiting 2",
            "fleetwright_disruption_plan_wait_seconds_total 1.5",
            "fleetwright_disruption_plan_wait_longest_seconds 0.9",
            "fleetwright_disruption_plans_deferred_total 7",
            "fleetwright_disruption_plan_cpu_seconds_total 0.25",
        ];
        assert_eq!(values, expected);
    }
}
