//! Seeded runs of the whole system.

mod planner;

use std::collections::BTreeMap;
use std::sync::Arc;

use cloud::simulated::{FaultProfile, TokenBucket};
use engine::cluster::{Budget, BudgetLimit, DaemonRecord, DisruptionPolicy, PoolMeta};
use engine::model::labels::{ARCH, INSTANCE_TYPE, OS};
use engine::model::pool::OptInRules;
use engine::model::{
    CapacityType, Catalogue, InstanceType, Labels, MicroUsd, NodePool, Offering, PodShape, Requirement, Requirements,
    Resources, resources,
};

use super::*;
use crate::cluster::ClusterSettings;
use crate::scenario;

const MINUTE: i64 = 60_000;
const GIB: i64 = 1 << 30;

fn offering(zone: &str, capacity_type: CapacityType, price: i64) -> Offering {
    let zone = Text::from(zone);
    let labels = Labels::new();
    Offering {
        zone,
        capacity_type,
        price: MicroUsd(price),
        estimated: false,
        available: true,
        reservation: None,
        labels,
    }
}

/// `a.2` with 2 vCPU and 8 GiB at 0.10 an hour, and its multiples; spot at a third; two zones.
fn catalogue() -> Arc<Catalogue> {
    let kind = |vcpu: i64| {
        let amounts = [(resources::CPU, vcpu * 1000), (resources::MEMORY, vcpu * 4 * GIB), (resources::PODS, 30)];
        let capacity = Resources::from_iter(amounts);
        let mut allocatable = capacity.clone();
        allocatable.subtract(&Resources::from_iter([(resources::CPU, 100), (resources::MEMORY, GIB)]));
        let both = [(CapacityType::OnDemand, vcpu * 50_000), (CapacityType::Spot, vcpu * 17_000)];
        let zones = ["us-east-1a", "us-east-1b"];
        let offers = zones.iter().flat_map(|zone| both.map(|(paid, price)| offering(zone, paid, price)));
        InstanceType {
            name: Text::from(format!("a.{vcpu}")),
            labels: Requirements::from_iter([
                Requirement::equals(ARCH, "amd64"),
                Requirement::equals(OS, "linux"),
                Requirement::equals(INSTANCE_TYPE, format!("a.{vcpu}")),
            ]),
            capacity,
            allocatable,
            exotic: false,
            offerings: offers.collect(),
        }
    };
    Arc::new(Catalogue { types: vec![kind(2), kind(4), kind(8)], offering_keys: Vec::new() })
}

fn pool(catalogue: &Arc<Catalogue>) -> PoolRecord {
    let pool = NodePool {
        name: Text::from("default"),
        node_class: Text::from("default"),
        weight: 0,
        labels: Labels::new(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        requirements: Requirements::new(),
        limits: Resources::new(),
        replicas: None,
        not_ready: None,
        unhealthy: false,
        catalogue: Arc::clone(catalogue),
        rules: OptInRules::default(),
    };
    let half = Budget { limit: BudgetLimit::Percent(50), reasons: None, window: None };
    let disruption =
        DisruptionPolicy { consolidate_after_ms: Some(30_000), budgets: vec![half], ..DisruptionPolicy::default() };
    PoolRecord { pool, disruption, revision: Text::from("1"), meta: PoolMeta::default() }
}

fn daemon() -> DaemonRecord {
    let requests = Resources::from_iter([(resources::CPU, 50), (resources::MEMORY, GIB / 8), (resources::PODS, 1)]);
    DaemonRecord {
        namespace: Text::from("kube-system"),
        name: Text::from("agentd"),
        shape: Arc::new(PodShape { requests, ..PodShape::default() }),
        labels: Arc::new(Labels::new()),
    }
}

fn setup(seed: u64, cluster_count: u64, faults: FaultProfile, length_ms: i64) -> Setup {
    let catalogue = catalogue();
    let mut clusters = BTreeMap::new();
    let mut steps = Vec::new();
    for index in 0..cluster_count {
        let name = Text::from(format!("c{index}"));
        let seed = seed * 100 + index;
        let mut cluster = SimulatedCluster::new(ClusterSettings { seed, ..ClusterSettings::default() });
        cluster.add_daemon(daemon());
        for event in scenario::standard(seed, length_ms) {
            let scale =
                ScenarioStep::Scale { cluster: name.clone(), workload: event.workload, replicas: event.replicas };
            steps.push((event.at_ms, scale));
        }
        clusters.insert(name, ManagedCluster::new(cluster, vec![pool(&catalogue)]));
    }
    let cloud = SimulatedCloud::new(FaultProfile { seed, ..faults }, Some(catalogue));
    Setup { seed, settings: Settings::default(), cloud, clusters, steps }
}

#[track_caller]
fn simulate(setup: Setup, end_ms: i64) -> Report {
    let seed = setup.seed;
    let report = Simulation::new(setup, planner::plan).run(end_ms);
    assert!(report.is_successful(), "seed {seed}\n{report}");
    report
}

#[test]
fn without_faults_every_pod_runs_and_every_empty_node_is_removed() {
    for seed in 0..10 {
        let report = simulate(setup(seed, 2, FaultProfile::default(), 20 * MINUTE), 30 * MINUTE);
        assert!(report.launched > 0 && report.pods_ran >= 18, "{report}");
        // Pods of `steady` remain, so some machines do; bursts ended, so some were removed.
        assert!(report.active > 0 && report.active < report.launched, "{report}");
    }
}

/// The production planner.
fn real(
    input: &engine::input::PlanningInput,
    cache: &mut engine::schedule::CompileCache,
) -> Result<(engine::plan::Plan, engine::plan::PlanReport), String> {
    let decision = engine::decide::plan_with(input, cache).map_err(|violations| format!("{violations:?}"))?;
    Ok((decision.plan, decision.report))
}

#[test]
fn with_the_production_planner_every_pod_runs_and_every_empty_node_is_removed() {
    for seed in 0..10 {
        let faults = FaultProfile {
            shortage_percent: 30,
            interrupted_percent: 20,
            interrupted_after_ms: (MINUTE, 8 * MINUTE),
            lost_answers_percent: 10,
            calls: TokenBucket::new(5, 500),
            ..FaultProfile::default()
        };
        let mut simulation = Simulation::new(setup(seed, 2, faults, 20 * MINUTE), real);
        let report = simulation.run(45 * MINUTE);
        let refused =
            simulation.controller().clusters().filter_map(|name| simulation.controller().view(name)?.last_error);
        assert_eq!(refused.collect::<Vec<_>>(), Vec::<String>::new(), "seed {seed}");
        assert!(report.is_successful(), "seed {seed}\n{report}");
    }
}

#[test]
fn shortages_throttling_lost_answers_and_interruptions_lose_no_pod() {
    let mut injected = (0, 0, 0, 0);
    for seed in 0..25 {
        let faults = FaultProfile {
            shortage_percent: 40,
            interrupted_percent: 30,
            interrupted_after_ms: (MINUTE, 8 * MINUTE),
            lost_answers_percent: 20,
            calls: TokenBucket::new(3, 700),
            ..FaultProfile::default()
        };
        let report = simulate(setup(seed, 2, faults, 20 * MINUTE), 45 * MINUTE);
        injected.0 += report.refused;
        injected.1 += report.throttled;
        injected.2 += report.answers_lost;
        injected.3 += report.interrupted;
    }
    assert!(injected.0 > 0 && injected.1 > 0 && injected.2 > 0 && injected.3 > 0, "every kind of fault: {injected:?}");
}

#[test]
fn agents_that_disconnect_and_reconnect_lose_no_pod() {
    for seed in 0..15 {
        let mut setup = setup(seed, 2, FaultProfile::default(), 20 * MINUTE);
        let rng = SeededRng::new(seed).child("cuts");
        for cut in 0..6 {
            let cluster = Text::from(format!("c{}", cut % 2));
            let rng = rng.child_number(cut);
            let from = rng.child("from").between((0, 20 * MINUTE));
            let back = from + rng.child("for").between((1_000, 2 * MINUTE));
            setup.steps.push((from, ScenarioStep::Disconnect { cluster: cluster.clone() }));
            setup.steps.push((back, ScenarioStep::Connect { cluster }));
        }
        simulate(setup, 40 * MINUTE);
    }
}

#[test]
fn without_any_capacity_no_pod_runs_and_nothing_is_left_behind() {
    let faults = FaultProfile { no_capacity: true, ..FaultProfile::default() };
    let report = Simulation::new(setup(1, 1, faults, 20 * MINUTE), planner::plan).run(30 * MINUTE);
    assert_eq!((report.pods_ran, report.launched, report.violations.len()), (0, 0, 0), "{report}");
    assert!(!report.is_successful() && !report.never_ran.is_empty(), "{report}");
}

#[test]
fn capacity_that_becomes_available_again_is_used() {
    let mut setup = setup(2, 1, FaultProfile::default(), 20 * MINUTE);
    setup.steps.push((0, ScenarioStep::Capacity { available: false }));
    setup.steps.push((9 * MINUTE, ScenarioStep::Capacity { available: true }));
    let report = simulate(setup, 40 * MINUTE);
    assert!(report.refused > 0, "{report}");
}

#[test]
fn equal_seeds_give_equal_runs() {
    let faults = || FaultProfile { shortage_percent: 30, interrupted_percent: 30, ..FaultProfile::default() };
    let run = || Simulation::new(setup(3, 2, faults(), 20 * MINUTE), planner::plan).run(30 * MINUTE);
    assert_eq!(run(), run());
}

#[test]
fn a_planner_that_plans_nothing_fails_the_report() {
    let idle: Planner = |_, _| Ok(Default::default());
    let report = Simulation::new(setup(1, 1, FaultProfile::default(), 20 * MINUTE), idle).run(30 * MINUTE);
    assert!(!report.is_successful(), "{report}");
}
