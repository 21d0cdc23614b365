//! Prometheus metrics of the searches for plans cheaper than the first packing.

use std::fmt::Write;

use controller::search_allowance::SearchTotals;

/// Renders the Prometheus text format.
pub(super) fn render(totals: &SearchTotals) -> String {
    let SearchTotals {
        granted,
        granted_steps,
        used_steps,
        skipped_time,
        skipped_allowance,
        skipped_busy,
        applied,
        late,
        outdated,
        failed,
        saved,
    } = *totals;
    let mut text = String::new();
    let mut counter = |name: &str, help: &str, values: &[(&str, String)]| {
        // Writing to a String cannot fail.
        let _always = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter");
        for (labels, value) in values {
            let _always = writeln!(text, "{name}{labels} {value}");
        }
    };
    let count = |labels: &'static str, count: u64| (labels, count.to_string());
    counter(
        "fleetwright_searches_total",
        "Searches for plans cheaper than the first packing, and for nodes to replace together.",
        &[count("", granted)],
    );
    counter(
        "fleetwright_searches_skipped_total",
        "Batches without a search: the allowance was used up, every search thread was busy, or the window closes too early.",
        &[
            count("{reason=\"allowance\"}", skipped_allowance),
            count("{reason=\"busy\"}", skipped_busy),
            count("{reason=\"time\"}", skipped_time),
        ],
    );
    counter(
        "fleetwright_searches_ended_total",
        "Searches whose plan became the decision, or was dropped: it ended after the batch window, the input had changed, or the planner failed.",
        &[
            count("{result=\"applied\"}", applied),
            count("{result=\"late\"}", late),
            count("{result=\"outdated\"}", outdated),
            count("{result=\"failed\"}", failed),
        ],
    );
    counter(
        "fleetwright_search_steps_granted_total",
        "Steps that the allowance granted to searches.",
        &[count("", granted_steps)],
    );
    counter("fleetwright_search_steps_used_total", "Steps that ended searches used.", &[count("", used_steps)]);
    counter(
        "fleetwright_search_saved_dollars_per_hour_total",
        "What the plans of searches cost less per hour than the first packings.",
        &[("", (saved.0 as f64 / 1e6).to_string())],
    );
    text
}

#[cfg(test)]
mod tests {
    use model::MicroUsd;

    use super::*;

    #[test]
    fn every_total_is_a_counter() {
        let totals = SearchTotals {
            granted: 1,
            granted_steps: 2,
            used_steps: 3,
            skipped_time: 4,
            skipped_allowance: 5,
            skipped_busy: 6,
            applied: 7,
            late: 8,
            outdated: 9,
            failed: 10,
            saved: MicroUsd(1_250_000),
        };
        let text = render(&totals);
        let values: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let expected = [
            "fleetwright_searches_total 1",
            "fleetwright_searches_skipped_total{reason=\"allowance\"} 5",
            "fleetwright_searches_skipped_total{reason=\"busy\"} 6",
            "fleetwright_searches_skipped_total{reason=\"time\"} 4",
            "fleetwright_searches_ended_total{result=\"applied\"} 7",
            "fleetwright_searches_ended_total{result=\"late\"} 8",
            "fleetwright_searches_ended_total{result=\"outdated\"} 9",
            "fleetwright_searches_ended_total{result=\"failed\"} 10",
            "fleetwright_search_steps_granted_total 2",
            "fleetwright_search_steps_used_total 3",
            "fleetwright_search_saved_dollars_per_hour_total 1.25",
        ];
        assert_eq!(values, expected);
    }
}
