//! Many pods of many shapes arrive together. Nominations keep the planned room of each; without them kube-scheduler binds
//! pods in an order of its own, and those without room are planned again while machines of the same plan still boot.

use cloud::simulated::{FaultProfile, LedgerEntry, SeededRng};
use model::{Millis, Resources, Timestamp};

use crate::deterministic::Simulation;
use crate::deterministic::setup::{GIB, MINUTE, Setup, catalogue, pool, workload};
use crate::deterministic::tests::one_server::run;

const SEEDS: std::ops::Range<u64> = 0..3;
const SHAPES: u64 = 40;
/// All machines of the first plan are launched by then: batches end after 10 s at most.
const FIRST_PLAN_MS: i64 = 15_000;
/// Nodes are not consolidated before, so that until then machines are launched for waiting pods alone.
const CONSOLIDATE_AFTER_MS: i64 = 20 * MINUTE;

/// 40 workloads of 5 to 15 pods that are scaled up at once.
fn mixed_burst(seed: u64) -> Setup {
    let rng = SeededRng::new(seed).child("mixed burst");
    let between = |number: u64, name: &str, range: (i64, i64)| rng.child(name).child_number(number).between(range);
    let mut record = pool(&catalogue(), Resources::new());
    record.disruption.consolidate_after = Some(Millis::new(CONSOLIDATE_AFTER_MS));
    let shape = |number: u64| {
        let capacity_type = match between(number, "capacity type", (0, 4)) {
            0 => Some("spot"),
            1 => Some("on-demand"),
            _ => None,
        };
        let (cpu, memory) = (between(number, "cpu", (2, 30)) * 100, between(number, "memory", (1, 16)) * GIB / 2);
        let pods = usize::try_from(between(number, "pods", (5, 15))).unwrap();
        (0, 0, workload(&format!("w{number}"), cpu, memory, capacity_type), pods)
    };
    let mut setup = Setup::with_pools(seed, (1, 1), None, Vec::new(), vec![record]);
    setup.scale_events = (0..SHAPES).map(shape).collect();
    setup.faults_end_ms = 3 * MINUTE;
    *setup.cloud.faults_mut() = FaultProfile { seed, ..FaultProfile::default() };
    setup
}

#[derive(Debug, Default)]
struct Outcome {
    /// Prices of the machines of the first plan together, in micro-dollars per hour.
    first: i64,
    /// The same of machines that were launched later.
    later: i64,
    longest_wait_ms: i64,
}

fn outcome(simulation: &Simulation) -> Outcome {
    let ledger = simulation.sim_clusters[0].cluster.ledger();
    assert_eq!(ledger.pods_created, ledger.pods_ran);
    let mut outcome = Outcome { longest_wait_ms: ledger.longest_wait_ms, ..Outcome::default() };
    let cloud = simulation.events.environment.cloud();
    let launched_by = |entry: &LedgerEntry, ms: i64| entry.instance.launched <= Timestamp::from_millis(ms);
    for entry in cloud.ledger().entries().filter(|entry| launched_by(entry, CONSOLIDATE_AFTER_MS)) {
        let sum = if launched_by(entry, FIRST_PLAN_MS) { &mut outcome.first } else { &mut outcome.later };
        *sum += entry.price.unwrap().0;
    }
    outcome
}

#[test]
fn a_mixed_burst_gets_the_machines_of_its_first_plan_and_no_more() {
    for seed in SEEDS {
        let outcome = outcome(&run(mixed_burst(seed)));
        // A batch of 1 s, a boot of up to 40 + 6 + 3 s, and up to 2.5 s until a pod runs; registration waits for nominations.
        assert!(outcome.later == 0 && outcome.longest_wait_ms < 60_000, "seed {seed}: {outcome:?}");
    }
}

/// The sabotage of nominations, and what clusters cost whose kube-scheduler ignores them.
#[test]
fn without_nominations_displaced_pods_get_further_machines_within_another_boot() {
    for seed in SEEDS {
        let mut setup = mixed_burst(seed);
        setup.sim_clusters[0].cluster.ignore_nominations();
        let outcome = outcome(&run(setup));
        // A few of those that are planned again are displaced again, by pods that were planned elsewhere.
        assert!(outcome.later > 0 && outcome.longest_wait_ms < 3 * 60_000, "seed {seed}: {outcome:?}");
        assert!(outcome.later * 3 < outcome.first, "seed {seed}: {outcome:?}");
    }
}
