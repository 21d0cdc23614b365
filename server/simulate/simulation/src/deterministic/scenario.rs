//! Runs that need a certain guard. Most guards are needed in any run with enough faults; some only
//! under special faults, or without others.

use cloud::simulated::FaultProfile;
use controller::guardrails::{Bound, QuarantineRule, RateLimitRule};
use model::resources::{CPU, NODES};
use model::{MicroUsd, Millis, Resources};

use super::fault::{Fault, ListGap, TimedFault};
use super::guard::Guard;
use super::long_run::LongRun;
use super::setup::{GIB, MINUTE, RateBounds, Setup, spread_workload, workload};

/// Limits too small for all pods.
const TIGHT: [(&str, i64); 2] = [(CPU, 6_000), (NODES, 2)];
/// Steps after which a process is paused in some seed: its calls are in flight then.
const STEPS: u64 = 80;

/// Two instances within five minutes, launched or removed. One minute allows for the delay between
/// decision and action.
const RATE_BOUNDS: RateBounds = RateBounds { window: Millis::from_mins(4), launches: 2, removals: 1 };
const RATE_WINDOW: Millis = Millis::from_mins(5);

/// `consolidateAfter` of 30 s, and a minute in which three servers start.
const EMPTY_FOR: Millis = Millis::from_secs(90);

fn at(at_ms: i64, fault: Fault) -> TimedFault {
    TimedFault { at_ms, fault }
}

fn kill(at_ms: i64) -> TimedFault {
    at(at_ms, Fault::Kill { process: 0, after_steps: 0, away_ms: 1_000 })
}

/// Whether the run of a seed is one of drift under budgets and windows: every second one is.
fn is_of_disruption(seed: u64) -> bool {
    !seed.is_multiple_of(2)
}

impl Setup {
    /// The run of a seed: with random faults, or, if a guard is off, a run that needs it.
    pub(crate) fn by_seed(seed: u64, off: Option<Guard>) -> Self {
        match off {
            None if is_of_disruption(seed) => Self::disrupted_by_seed(seed),
            None => Self::faulty(seed, None),
            Some(guard) => Self::for_guard(guard, seed, false),
        }
    }

    /// The run of a seed with given faults.
    pub(super) fn replay(seed: u64, off: Option<Guard>, faults: Vec<TimedFault>) -> Self {
        match off {
            None if is_of_disruption(seed) => Self::disrupted_with(seed, faults),
            None => Self::with_faults(seed, None, faults),
            Some(guard) => Self { faults, ..Self::for_guard(guard, seed, false) },
        }
    }

    /// A run that needs `guard`, with or without it.
    pub(crate) fn for_guard(guard: Guard, seed: u64, with: bool) -> Self {
        let off = (!with).then_some(guard);
        let small = |faults| Self::sized(seed, (1, 1), off, faults);
        match guard {
            Guard::ClaimFirst | Guard::Planning | Guard::Emptiness => small(Vec::new()),
            Guard::Recovery => {
                let after_steps = u32::try_from(seed).unwrap_or(0);
                small(vec![at(20_000, Fault::Kill { process: 0, after_steps, away_ms: 3_000 })])
            }
            Guard::GarbageCollection => {
                let setup = small(vec![at(7 * MINUTE, Fault::ClaimRemoved { cluster: 0 })]);
                // In a short run the instance is left at the end; in a long one it runs beyond the
                // bound before.
                if seed.is_multiple_of(2) { Self { rest_within_ms: 10 * MINUTE, ..setup } } else { setup }
            }
            Guard::Lists => {
                let for_ms = 10 * MINUTE;
                small(vec![at(0, Fault::NodesNeverJoin { cluster: 0, for_ms }), at(0, Fault::PartialLists { for_ms })])
            }
            Guard::Inspection => {
                let for_ms = 10 * MINUTE;
                let gap = Fault::IncompleteLists { for_ms, percent: 100 };
                small(vec![at(5 * MINUTE, Fault::Partition { cluster: 0, for_ms }), at(5 * MINUTE, gap)])
            }
            Guard::AgentEpoch => small(store_wipe_faults(seed)),
            Guard::StoreEpoch | Guard::Fence => {
                let (process, after_steps) = (usize::from(seed >= STEPS), seed % STEPS);
                let after_steps = u32::try_from(after_steps).unwrap_or(0);
                let pause = Fault::Pause { process, after_steps, for_ms: 100_000 };
                Self::sized(1, (2, 1), off, vec![at(1_000, pause)])
            }
            Guard::Quarantine => small(empty_snapshot_faults()),
            Guard::Losses => small(vec![relist(6 * MINUTE, ListGap::Pods)]),
            Guard::Extents => small(vec![relist(6 * MINUTE, ListGap::Workloads), kill(6 * MINUTE + 100)]),
            Guard::SecondWitness => small(vec![relist(6 * MINUTE, ListGap::Pods)]),
            Guard::EmptyCheck => small(unseen_pod_faults()),
            Guard::RateLimits => small(Vec::new()).with_rate_bounds(off),
            // Instances launched by then are spot; later pods need on-demand instances, which the
            // emptied spot instances are not.
            Guard::CircuitBreaker => {
                small(vec![at(MINUTE, Fault::LaunchesRefused { for_ms: 12 * MINUTE })]).with_sensitive_breaker()
            }
            Guard::RemoteCounters => {
                let faults = vec![at(3 * MINUTE, Fault::LaunchesRefused { for_ms: 12 * MINUTE })];
                Self::sized(seed, (2, 2), off, faults).with_sensitive_breaker()
            }
            Guard::Freezes => Self::sized(seed, (2, 1), off, vec![at(1_000, Fault::Freeze { for_ms: 4 * MINUTE })]),
            Guard::Limits => Self::limited(seed, off),
            Guard::Reconnect => small(vec![at(MINUTE, Fault::Cut { cluster: 0, for_ms: 1_000 })]),
            Guard::Backoff => small(vec![at(MINUTE, Fault::Kill { process: 0, after_steps: 0, away_ms: 5_000 })]),
            Guard::Spread => Self::spread(seed, off),
            Guard::PodEvents => Self::restarting(seed, off),
            Guard::MoveInterval => LongRun::daily_with_restarts(seed, off),
            Guard::Windows
            | Guard::ClusterBudget
            | Guard::Initialization
            | Guard::InFlight
            | Guard::Drift
            | Guard::Replacements => Self::for_disruption_guard(guard, seed, off),
            Guard::Tokens | Guard::Budgets | Guard::PodBudgets | Guard::DrainAnswers => Self::faulty(seed, off),
        }
    }

    /// A run whose limits have room for a node of spot and one of on-demand instances. Pods that are spread over zones would
    /// take both.
    fn limited(seed: u64, off: Option<Guard>) -> Self {
        let mut setup = Self::made(seed, (1, 1), off, Vec::new(), Resources::from_iter(TIGHT));
        for (_, _, scaled, _) in &mut setup.scale_events {
            if scaled.name.as_ref() == "web" {
                *scaled = workload("web", 250, GIB / 2, None);
            }
        }
        setup
    }

    /// A run of a workload that is spread over both zones, on a node in each: one of them has room for all its pods.
    pub(super) fn spread(seed: u64, off: Option<Guard>) -> Self {
        let mut setup = Self::sized(seed, (1, 1), off, Vec::new());
        let replicas = 2 + 2 * usize::try_from(seed % 2).unwrap_or(0);
        setup.scale_events = vec![(0, 0, spread_workload("spread", 250), replicas)];
        *setup.cloud.faults_mut() = FaultProfile { seed, ..FaultProfile::default() };
        setup
    }

    /// A run whose only server is killed every 20 seconds for twelve minutes, more often than
    /// `consolidateAfter` (30 s) passes. An empty node must be removed within twice that time plus
    /// the restart of a server.
    pub(super) fn restarting(seed: u64, off: Option<Guard>) -> Self {
        let kills = (1..36).map(|number| kill(number * 20_000)).collect();
        let mut setup = Self { empty_for: Some(EMPTY_FOR), ..Self::sized(seed, (1, 1), off, kills) };
        // So few pods end between two generations that any snapshot may lack them.
        let usual = QuarantineRule::default();
        let quarantine = &mut setup.process_config.settings.guardrails.quarantine;
        (quarantine.free_pods, quarantine.free_machines) = (usual.free_pods, usual.free_machines);
        setup
    }

    /// The run with a sensitive circuit breaker: few launches and a short window, because runs are
    /// small.
    fn with_sensitive_breaker(mut self) -> Self {
        let settings = &mut self.process_config.settings;
        settings.unavailable_ttl = Millis::from_secs(20);
        (settings.guardrails.circuit_breaker.least, settings.guardrails.circuit_breaker.window) =
            (2, Millis::from_mins(2));
        self
    }

    /// The run with rate limits small enough to take effect.
    fn with_rate_bounds(mut self, off: Option<Guard>) -> Self {
        let bound = |machines| Bound { machines, usd_per_hour: MicroUsd(0), percent: 0, free: 0 };
        let rule = |machines| RateLimitRule { window: RATE_WINDOW, cluster: bound(machines), fleet: bound(0) };
        let kept = off != Some(Guard::RateLimits);
        let guardrails = &mut self.process_config.settings.guardrails;
        guardrails.launches = rule(if kept { RATE_BOUNDS.launches } else { 0 });
        guardrails.removals = rule(if kept { RATE_BOUNDS.removals } else { 0 });
        self.rate_bounds = Some(RATE_BOUNDS);
        self
    }
}

/// The store loses its leases after some epochs, and a restarted agent must remember them, because
/// an empty store counts from 1 again. In every second seed the first process dies after some
/// steps: if it holds the lease by then but has sent nothing, the first epoch has no owner later.
fn store_wipe_faults(seed: u64) -> Vec<TimedFault> {
    let after_steps = u32::try_from(seed / 2).unwrap_or(0);
    let early = at(0, Fault::Kill { process: 0, after_steps, away_ms: 1_000 });
    vec![
        if seed.is_multiple_of(2) { early } else { kill(20_000) },
        kill(60_000),
        at(150_000, Fault::StoreWiped),
        at(150_100, Fault::RestartAgent { cluster: 0, away_ms: 5_000 }),
        kill(150_200),
    ]
}

/// A list lacks objects for four minutes.
fn relist(at_ms: i64, gap: ListGap) -> TimedFault {
    at(at_ms, Fault::Relist { cluster: 0, gap, for_ms: 4 * MINUTE })
}

/// A list lacks pods that wait for their nodes. They were never bound, so their loss is not
/// suspicious; they run on Nodes that appear empty for long when a freeze ends.
fn unseen_pod_faults() -> Vec<TimedFault> {
    let gap = Fault::Relist { cluster: 0, gap: ListGap::Workloads, for_ms: 8 * MINUTE };
    vec![at(30_000, gap), at(MINUTE, Fault::Freeze { for_ms: 5 * MINUTE })]
}

/// An agent reports an empty cluster for a while, and the server that knows better is restarted
/// meanwhile.
fn empty_snapshot_faults() -> Vec<TimedFault> {
    let empty = Fault::EmptySnapshot { cluster: 0, for_ms: 4 * MINUTE };
    vec![at(4 * MINUTE, empty), kill(4 * MINUTE + 1_000)]
}
