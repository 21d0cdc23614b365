//! Metrics of the searches for plans cheaper than the first packing.

use controller::search_allowance::SearchTotals;

use metrics::Family;

pub(super) fn families(totals: &SearchTotals) -> Vec<Family> {
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
    let skipped = "Batches without a search: the allowance was used up, every search thread was busy, or the window closes too early.";
    let ended = "Searches whose plan became the decision, or was dropped: it ended after the batch window, the input had changed, or the planner failed.";
    let by = |label: &'static str, value: &str, count: u64| (vec![(label, value.to_owned())], count.into());
    vec![
        Family::counter(
            "fleetwright_searches_total",
            "Searches for plans cheaper than the first packing, and for nodes to replace together.",
        )
        .of(granted),
        Family::counter("fleetwright_searches_skipped_total", skipped).labelled(&["reason"]).all([
            by("reason", "allowance", skipped_allowance),
            by("reason", "busy", skipped_busy),
            by("reason", "time", skipped_time),
        ]),
        Family::counter("fleetwright_searches_ended_total", ended).labelled(&["result"]).all([
            by("result", "applied", applied),
            by("result", "late", late),
            by("result", "outdated", outdated),
            by("result", "failed", failed),
        ]),
        Family::counter("fleetwright_search_steps_granted_total", "Steps that the allowance granted to searches.")
            .of(granted_steps),
        Family::counter("fleetwright_search_steps_used_total", "Steps that ended searches used.").of(used_steps),
        Family::counter(
            "fleetwright_search_saved_dollars_per_hour_total",
            "What the plans of searches cost less per hour than the first packings.",
        )
        .with(Vec::new(), (saved.0 as f64 / 1e6).into()),
    ]
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
        let values = metrics::series(families(&totals));
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
