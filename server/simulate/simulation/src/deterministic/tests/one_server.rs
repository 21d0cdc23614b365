//! One server and no random faults: the steps of a scenario and their times are written down, and
//! the ledgers of cloud and clusters are checked at the end.

use crate::kube::cluster::{ClusterLedger, Workload};
use cloud::simulated::{FaultProfile, SeededRng, TokenBucket};
use controller::guardrails::QuarantineRule;
use model::Resources;
use model::interruption::InterruptionKind;

use crate::deterministic::Simulation;
use crate::deterministic::fault::{Fault, TimedFault};
use crate::deterministic::setup::{MINUTE, Setup, workload};

const GIB: i64 = 1 << 30;

/// A deleted pod leaves its node within this: grace periods are at most 3 s.
const SETTLED_MS: i64 = MINUTE;

/// A step of a scenario: time, workload, replicas.
type Step = (i64, Workload, usize);

/// A run of one server with the default guardrails, and of NodePools without limits. The steps
/// happen in every cluster.
pub(super) fn one_server(
    seed: u64,
    clusters: usize,
    steps: &[Step],
    cloud: FaultProfile,
    faults: Vec<TimedFault>,
) -> Setup {
    let step_ends = steps.iter().map(|(at_ms, ..)| *at_ms);
    let fault_ends = faults.iter().map(|timed| timed.at_ms + timed.fault.lasts_ms());
    let last = step_ends.chain(fault_ends).max().unwrap_or(0);
    let of_cluster = |number: usize| {
        steps.iter().map(move |(at_ms, workload, replicas)| (*at_ms, number, workload.clone(), *replicas))
    };
    let scale_events = (0..clusters).flat_map(of_cluster).collect();
    let mut setup = Setup {
        scale_events,
        faults_end_ms: last + SETTLED_MS,
        ..Setup::made(seed, (1, clusters), None, faults, Resources::new())
    };
    setup.cloud.set_rate_limit(cloud.calls);
    *setup.cloud.faults_mut() = FaultProfile { seed, ..cloud };
    setup.process_config.settings.guardrails.quarantine = QuarantineRule::default();
    setup
}

/// Runs until the system is at rest: every pod runs, no node is empty, every NodeClaim has an
/// instance and every instance a NodeClaim.
#[track_caller]
pub(super) fn run(setup: Setup) -> Simulation {
    let seed = setup.seed;
    let mut simulation = Simulation::new(setup, false);
    simulation.run_to_rest();
    let found: Vec<String> = simulation.violations.iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "seed {seed}: {found:?}");
    simulation
}

/// Pods that were created and that ran, instances that were launched and that remain.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) created: u64,
    pub(super) ran: u64,
    pub(super) launched: usize,
    pub(super) remain: usize,
}

pub(super) fn totals(simulation: &Simulation) -> Totals {
    let cloud = simulation.events.environment.cloud();
    let pods = |count: fn(&ClusterLedger) -> u64| {
        simulation.sim_clusters.iter().map(|sim_cluster| count(sim_cluster.cluster.ledger())).sum::<u64>()
    };
    Totals {
        created: pods(|ledger| ledger.pods_created),
        ran: pods(|ledger| ledger.pods_ran),
        launched: cloud.ledger().launched_count(),
        remain: cloud.ledger().active().count(),
    }
}

/// Launches that failed because the cloud had no capacity.
fn refused(simulation: &Simulation) -> u64 {
    simulation.events.environment.cloud().ledger().refused
}

/// A workload whose pods share no node: `a.8`, the largest type, has 7.9 vCPU, of which the
/// DaemonSet requests 0.05. `a.4` has less than 5 vCPU.
fn node_filling(name: &str, capacity_type: Option<&str>) -> Workload {
    workload(name, 5_000, 4 * GIB, capacity_type)
}

/// A burst, mixed requirements, then a scale-down, of sizes that differ by seed. Pods that fill an
/// `a.8` have two offerings, so that launches for them fail often.
pub(super) fn bursts(seed: u64) -> Vec<Step> {
    let rng = SeededRng::new(seed).child("bursts");
    let count = |name: &str, from: i64, to: i64| usize::try_from(rng.child(name).between((from, to))).unwrap_or(1);
    let web = workload("web", 250, GIB / 2, None);
    let batch = workload("batch", 1_000, 2 * GIB, Some("spot"));
    let steady = workload("steady", 500, GIB, Some("on-demand"));
    let large = workload("large", 1_500, 3 * GIB, None);
    vec![
        (0, web.clone(), count("web", 8, 30)),
        (0, node_filling("spot", Some("spot")), 2),
        (MINUTE, batch.clone(), count("batch", 1, 10)),
        (2 * MINUTE, steady, count("steady", 1, 6)),
        (2 * MINUTE, node_filling("on-demand", Some("on-demand")), 1),
        (3 * MINUTE, large.clone(), count("large", 1, 5)),
        (6 * MINUTE, web.clone(), count("more web", 10, 40)),
        (9 * MINUTE, batch, 0),
        (10 * MINUTE, large, 0),
        (10 * MINUTE, web, count("less web", 0, 3)),
    ]
}

#[test]
fn every_pod_gets_a_node_and_every_empty_node_is_removed() {
    let (any, spot) = (node_filling("any", None), node_filling("spot", Some("spot")));
    let steps = [
        (0, any.clone(), 3),
        (3 * MINUTE, spot.clone(), 2),
        (3 * MINUTE, node_filling("on-demand", Some("on-demand")), 1),
        (6 * MINUTE, any, 1),
        (6 * MINUTE, spot, 0),
    ];
    for seed in 0..10 {
        let simulation = run(one_server(seed, 2, &steps, FaultProfile::default(), Vec::new()));
        // In each of two clusters, 3 + 2 + 1 pods run on a node each; of these, 1 + 0 + 1 remain.
        let expected = Totals { created: 12, ran: 12, launched: 12, remain: 4 };
        assert_eq!(totals(&simulation), expected, "seed {seed}");
    }
}

#[test]
fn shortages_throttling_lost_answers_and_interruptions_lose_no_pod() {
    let mut injected = [0; 4];
    for seed in 0..25 {
        let faults = FaultProfile {
            shortage_percent: 40,
            interrupted_percent: 30,
            interrupted_after_ms: (MINUTE, 8 * MINUTE),
            lost_answers_percent: 20,
            calls: TokenBucket::new(2, 700),
            ..FaultProfile::default()
        };
        let simulation = run(one_server(seed, 2, &bursts(seed), faults, Vec::new()));
        assert_eq!(last_errors(&simulation), Vec::<String>::new(), "seed {seed}");
        let cloud = simulation.events.environment.cloud();
        let ledger = cloud.ledger();
        let counts = [ledger.refused, ledger.throttled, ledger.answers_lost, ledger.interrupted() as u64];
        injected.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    assert!(injected.iter().all(|count| *count > 0), "every kind of fault: {injected:?}");
}

#[test]
fn every_kind_of_interruption_replaces_its_machine_and_loses_no_pod() {
    use InterruptionKind as Kind;
    // Three pods with a node each. A replaced machine is one launch more, and its pod is created again.
    for (kind, replaced) in [
        (Kind::SpotInterrupted, true),
        (Kind::ScheduledChange, true),
        (Kind::InstanceStopped, true),
        (Kind::InstanceTerminated, true),
        (Kind::StatusCheckFailed, true),
        (Kind::RebalanceRecommendation, false),
    ] {
        let steps = [(0, node_filling("web", Some("spot")), 3)];
        let fault = TimedFault { at_ms: 5 * MINUTE, fault: Fault::Interrupt { cluster: 0, kind } };
        let simulation = run(one_server(7, 1, &steps, FaultProfile::default(), vec![fault]));
        let (pods, launched) = (3 + u64::from(replaced), 3 + usize::from(replaced));
        let expected = Totals { created: pods, ran: pods, launched, remain: 3 };
        assert_eq!(totals(&simulation), expected, "{kind:?}");
    }
}

/// The error of each cluster, if its last plan failed: the plan verifier has refused it.
fn last_errors(simulation: &Simulation) -> Vec<String> {
    let servers = simulation.processes.iter().filter_map(|process| process.server.as_ref());
    let clusters = servers.flat_map(|server| server.replica.clusters());
    clusters.filter_map(|(_, cluster)| cluster.step_view(simulation.events.now()).cluster_view().last_error).collect()
}

#[test]
fn agents_that_are_disconnected_for_up_to_two_minutes_lose_no_pod() {
    for seed in 0..15 {
        let rng = SeededRng::new(seed).child("cuts");
        let cut = |(number, cluster)| {
            let rng = rng.child_number(number);
            let for_ms = rng.child("for").between((1_000, 2 * MINUTE));
            TimedFault { at_ms: rng.child("at").between((0, 10 * MINUTE)), fault: Fault::Cut { cluster, for_ms } }
        };
        let cuts = (0..6).zip([0, 1].into_iter().cycle()).map(cut).collect();
        let simulation = run(one_server(seed, 2, &bursts(seed), FaultProfile::default(), cuts));
        // The first cut of each cluster has an effect. A later one has none if the agent has not
        // reconnected since the one before.
        let effective = simulation.events.faults.get("connection_cut");
        assert!(effective.is_some_and(|cuts| *cuts >= 2), "seed {seed}: {effective:?} cuts");
    }
}

#[test]
fn without_any_capacity_no_pod_runs_and_nothing_is_left_behind() {
    let (any, spot) = (node_filling("any", None), node_filling("spot", Some("spot")));
    let steps = [(0, any.clone(), 3), (0, spot.clone(), 2), (20 * MINUTE, any, 0), (20 * MINUTE, spot, 0)];
    for seed in 0..5 {
        // The pods are deleted at 20 min, and the system must come to rest within 45 min from then,
        // still without capacity.
        let no_capacity = TimedFault { at_ms: 0, fault: Fault::NoCapacity { for_ms: 120 * MINUTE } };
        let setup = one_server(seed, 1, &steps, FaultProfile::default(), vec![no_capacity]);
        let simulation = run(Setup { faults_end_ms: 20 * MINUTE + SETTLED_MS, ..setup });
        let expected = Totals { created: 5, ran: 0, launched: 0, remain: 0 };
        assert_eq!(totals(&simulation), expected, "seed {seed}");
        assert!(refused(&simulation) > 0, "seed {seed}: launches were tried");
    }
}

#[test]
fn capacity_that_becomes_available_again_is_used() {
    let steps = [(0, node_filling("any", None), 3)];
    for seed in 0..5 {
        let no_capacity = TimedFault { at_ms: 0, fault: Fault::NoCapacity { for_ms: 9 * MINUTE } };
        let simulation = run(one_server(seed, 1, &steps, FaultProfile::default(), vec![no_capacity]));
        let expected = Totals { created: 3, ran: 3, launched: 3, remain: 3 };
        assert_eq!(totals(&simulation), expected, "seed {seed}");
        assert!(refused(&simulation) > 0, "seed {seed}: launches were tried");
        // Exclusions last 30, 60, 120, 240 and 480 s after refusals in a row. The fifth refusal is 450 s
        // after the first or later, and a sixth 930 s, which is after 9 min. So an offering that was
        // refused before 9 min is excluded until 9 min + 480 s = 17 min at the latest. From
        // then to a running pod it takes less than 2 min: a retry interval and a batch window of
        // 10 s each, 40 s until the Node joins, 6 s until it is ready, 10 s and 15 s until it is
        // registered, 6 s until the pod runs, and latencies.
        let waited_ms = simulation.sim_clusters[0].cluster.ledger().longest_wait_ms;
        assert!((9 * MINUTE..19 * MINUTE).contains(&waited_ms), "seed {seed}: {waited_ms} ms");
    }
}

#[test]
fn a_changed_template_replaces_every_machine_and_loses_no_pod() {
    let any = node_filling("any", None);
    let changes = || (0..2).map(|cluster| TimedFault { at_ms: 3 * MINUTE, fault: Fault::TemplateChanged { cluster } });
    for seed in 0..10 {
        let mut setup = one_server(seed, 2, &[(0, any.clone(), 3)], FaultProfile::default(), changes().collect());
        // One of three machines is replaced at a time, which takes less than five minutes.
        setup.faults_end_ms += 15 * MINUTE;
        let simulation = run(setup);
        // In each of two clusters, 3 pods run on a node each; each is evicted once and replaced with its node.
        let expected = Totals { created: 12, ran: 12, launched: 12, remain: 6 };
        assert_eq!(totals(&simulation), expected, "seed {seed}");
    }
}

#[test]
fn templates_that_change_amid_random_faults_break_no_invariant() {
    // In seed 47 a NodePool at its limits has machines to replace.
    for seed in (0..25).chain([47]) {
        let mut setup = Setup::faulty(seed, None);
        for at_ms in [2 * MINUTE, 6 * MINUTE] {
            setup.faults.push(TimedFault { at_ms, fault: Fault::TemplateChanged { cluster: 0 } });
        }
        setup.faults.sort_by_key(|timed| timed.at_ms);
        let mut simulation = Simulation::new(setup, false);
        simulation.run_to_rest();
        let found: Vec<String> = simulation.violations.iter().map(ToString::to_string).collect();
        assert!(found.is_empty(), "seed {seed}: {found:?}");
    }
}
