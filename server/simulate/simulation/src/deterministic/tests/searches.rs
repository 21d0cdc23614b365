//! Many clusters of one server ask for searches at the same time.

use controller::search_allowance::{STEPS_PER_CPU_SECOND, SearchSettings, SearchTotals};

use crate::deterministic::Simulation;
use crate::deterministic::tests::one_server::{Totals, bursts, one_server, run, totals};
use cloud::simulated::FaultProfile;

const CLUSTERS: usize = 12;

/// A run of the same pods in every cluster, with these limits on searches.
fn busy(seed: u64, search: SearchSettings) -> Simulation {
    let mut setup = one_server(seed, CLUSTERS, &bursts(seed), FaultProfile::default(), Vec::new());
    setup.process_config.settings.search = search;
    // Names of machines differ between the runs, and boot times by name: by 20 + 4 + 2 + 2 s.
    setup.sim_clusters.iter_mut().for_each(|sim_cluster| sim_cluster.cluster.set_equal_boot_times());
    run(setup)
}

fn search_totals(simulation: &Simulation) -> SearchTotals {
    let server = simulation.processes[0].server.as_ref();
    server.map(|server| server.replica.search_totals()).unwrap_or_default()
}

/// The longest time from a pod to its start, in any cluster.
fn longest_wait_ms(simulation: &Simulation) -> i64 {
    let waits = simulation.sim_clusters.iter().map(|sim_cluster| sim_cluster.cluster.ledger().longest_wait_ms);
    waits.max().unwrap_or(0)
}

fn outcome(simulation: &Simulation) -> (Totals, SearchTotals, i64) {
    (totals(simulation), search_totals(simulation), longest_wait_ms(simulation))
}

#[test]
fn clusters_that_ask_together_share_the_searches_and_every_pod_runs_in_time() {
    let without = busy(1, SearchSettings::default());
    let (expected, none, wait_ms) = outcome(&without);
    assert_eq!((none, expected.created), (SearchTotals::default(), expected.ran));
    // One search at a time.
    let first = busy(1, SearchSettings::with_share(25, 2));
    let (made, searches, searched_wait_ms) = outcome(&first);
    assert_eq!((made.created, made.ran), (expected.created, expected.ran));
    assert!(searches.applied > 0 && searches.skipped_busy > searches.granted, "{searches:?}");
    // A plan that waits for a search would wait for the searches of the other clusters too.
    assert!(searched_wait_ms <= wait_ms + 1_000, "{searched_wait_ms} ms, without searches {wait_ms} ms");
    // The same seed gives the same plans.
    assert_eq!(outcome(&busy(1, SearchSettings::with_share(25, 2))), (made, searches, searched_wait_ms));
}

#[test]
fn sabotage_without_the_limit_clusters_that_ask_together_all_search() {
    let searches = search_totals(&busy(1, SearchSettings { steps_per_second: u64::MAX }));
    assert_eq!((searches.skipped_busy, searches.skipped_allowance), (0, 0), "{searches:?}");
    assert!(searches.granted_steps > 10 * STEPS_PER_CPU_SECOND, "{searches:?}");
}
