//! Every decision of runs with faults is made again from the store alone, bit for bit.

use std::collections::BTreeMap;

use controller::{RebalanceRecommendations, Settings};
use decision_log::replay_all;
use futures::FutureExt;
use model::interruption::InterruptionKind;

use crate::deterministic::Simulation;
use crate::deterministic::fault::{Fault, TimedFault};
use crate::deterministic::setup::{MINUTE, Setup};

/// Replays the decisions in the store of a run; returns the number of each kind.
fn replay(setup: Setup) -> BTreeMap<String, u64> {
    let seed = setup.seed;
    let mut simulation = Simulation::new(setup, false);
    simulation.run_to_rest();
    let (store, mut kinds) = (simulation.events.environment.store(), BTreeMap::new());
    let decisions = replay_all::read(store, None, usize::MAX, |_| true).now_or_never();
    let decisions = decisions.expect("nothing to wait for").expect("a store in memory");
    let summary = replay_all::replay(store, decisions, |stored, outcome| {
        let said = || replay_all::describe_outcome(stored, outcome);
        assert!(outcome.as_ref().is_ok_and(|outcome| outcome.is_identical()), "seed {seed}: {}", said());
        *kinds.entry(stored.decision.kind.clone()).or_default() += 1;
    });
    let summary = summary.now_or_never().expect("nothing to wait for").expect("a store in memory");
    assert!(summary.is_success());
    kinds
}

fn add(sum: &mut BTreeMap<String, u64>, kinds: BTreeMap<String, u64>) {
    for (kind, count) in kinds {
        *sum.entry(kind).or_default() += count;
    }
}

#[test]
fn every_decision_of_runs_with_faults_replays() {
    let mut kinds = BTreeMap::new();
    for seed in 1..=40 {
        add(&mut kinds, replay(Setup::by_seed(seed, None)));
    }
    println!("decisions by kind: {kinds:?}");
    for kind in ["provision", "empty", "drift", "expiration", "consolidation", "interruption"] {
        assert!(kinds.get(kind).is_some_and(|count| *count > 0), "{kind}: {kinds:?}");
    }
}

#[test]
fn the_replacement_of_a_recommended_machine_replays() {
    let kind = InterruptionKind::RebalanceRecommendation;
    let mut kinds = BTreeMap::new();
    for seed in 1..=3 {
        let faults = (3..8).map(|at| TimedFault { at_ms: at * MINUTE, fault: Fault::Interrupt { cluster: 0, kind } });
        let mut setup = Setup::with_faults(seed, None, faults.collect());
        let settings: &mut Settings = &mut setup.process_config.settings;
        settings.disruption.rebalance = RebalanceRecommendations::Replace;
        add(&mut kinds, replay(setup));
    }
    assert!(kinds.get("rebalance").is_some_and(|count| *count > 0), "{kinds:?}");
}
