//! Whether launches that are given a probability of 70 % succeed in 70 % of all cases, over three processes that the
//! estimator does not know.
//!
//! `CALIBRATION_QUOTES=1000000 cargo test --release -p fleetwright-odds --test calibration -- --nocapture` is the long form.
//! The constants of the estimator were chosen with the seeds 1 to 9, which no test uses: `CALIBRATION_SEEDS=1,2` runs those.

mod processes;
mod random;
mod reliability;
mod stream;

use reliability::Reliability;
use stream::{Quote, quotes, quotes_of_orders};

#[expect(clippy::disallowed_methods, reason = "how many quotes a test looks at configures no decision")]
fn setting(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.into_string().expect("a number"))
}

/// Runs a process with each seed, and prints what came of it.
fn assert_calibrated(process: &str, quotes: fn(&str, u64, usize) -> Vec<Quote>) {
    let count = setting("CALIBRATION_QUOTES").map_or(60_000, |count| count.parse().expect("a number of quotes"));
    let seeds = setting("CALIBRATION_SEEDS").unwrap_or_else(|| "101".to_owned());
    let found: Vec<(&str, Reliability)> = seeds
        .split(',')
        .map(|seed| (seed, Reliability::of(&quotes(process, seed.parse().expect("a seed"), count))))
        .inspect(|(seed, found)| println!("process {process}, seed {seed}, {count} quotes\n{found}\n"))
        .collect();
    for (seed, found) in found {
        assert!(found.judged() >= 3, "{process}: too few bins have enough quotes");
        assert!(found.largest_error() <= 0.05, "{process}, seed {seed}: {found}");
        assert!(found.brier < found.brier_of_constant, "{process}, seed {seed}: {found}");
        assert!(found.brier < found.brier_of_rule, "{process}, seed {seed}: {found}");
    }
}

#[test]
fn quotes_are_calibrated_where_each_pool_is_on_or_off() {
    assert_calibrated("on-off", quotes);
}

#[test]
fn quotes_are_calibrated_where_others_take_machines_of_finite_pools() {
    assert_calibrated("finite", quotes);
}

#[test]
fn quotes_are_calibrated_where_demand_is_diurnal_and_zones_are_short() {
    assert_calibrated("diurnal", quotes);
}

#[test]
fn quotes_of_orders_are_calibrated_where_zones_are_short() {
    assert_calibrated("diurnal", quotes_of_orders);
}

#[test]
fn quotes_of_orders_are_calibrated_where_others_take_machines_of_finite_pools() {
    assert_calibrated("finite", quotes_of_orders);
}
