//! Runs in which a guard is needed. Most guards are, in any run with enough faults; some only when something odd happens, or
//! when little else does.

use engine::control::guardrails::settings::{Bound, QuarantineRule, RateLimitRule};
use engine::model::resources::{CPU, NODES};
use engine::model::{MicroUsd, Resources};

use super::fault::{Fault, Lacks, Timed};
use super::guard::Guard;
use super::setup::{Caps, MINUTE, Setup};

/// Limits that are too small for all pods.
const TIGHT: [(&str, i64); 2] = [(CPU, 6_000), (NODES, 2)];
/// Steps after which a process stands still in some run or other: its calls are on their way then.
const STEPS: u64 = 80;

/// Two machines within five minutes, either way. A minute is enough between decision and deed.
const CAPS: Caps = Caps { window_ms: 4 * MINUTE, launches: 2, removals: 1 };
const CAP_WINDOW_MS: i64 = 5 * MINUTE;

/// `consolidateAfter` of 30 s, and a minute in which three servers begin.
const EMPTY_FOR_MS: i64 = 90_000;

fn at(at_ms: i64, fault: Fault) -> Timed {
    Timed { at_ms, fault }
}

fn kill(at_ms: i64) -> Timed {
    at(at_ms, Fault::Kill { process: 0, after_steps: 0, away_ms: 1_000 })
}

impl Setup {
    /// The run of a seed: with faults of all kinds, or, without a guard, one in which that guard is needed.
    pub(crate) fn by_seed(seed: u64, off: Option<Guard>) -> Self {
        match off {
            None => Self::faulty(seed, None),
            Some(guard) => Self::showing(guard, seed, false),
        }
    }

    /// The run of a seed, with or without a guard, with other faults.
    pub(super) fn again(seed: u64, off: Option<Guard>, faults: Vec<Timed>) -> Self {
        match off {
            None => Self::with_faults(seed, None, faults),
            Some(guard) => Self { faults, ..Self::showing(guard, seed, false) },
        }
    }

    /// A run in which `guard` is needed sooner or later, with or without it.
    pub(crate) fn showing(guard: Guard, seed: u64, with: bool) -> Self {
        let off = (!with).then_some(guard);
        let small = |faults| Self::sized(seed, (1, 1), off, faults);
        match guard {
            Guard::Claims | Guard::Planning | Guard::Emptiness => small(Vec::new()),
            Guard::Adoption => {
                let after_steps = u32::try_from(seed).unwrap_or(0);
                small(vec![at(20_000, Fault::Kill { process: 0, after_steps, away_ms: 3_000 })])
            }
            Guard::GarbageCollection => {
                let setup = small(vec![at(7 * MINUTE, Fault::ClaimRemoved { cluster: 0 })]);
                // In a short run the machine is left at the end, in a long one it has run for too long before.
                if seed.is_multiple_of(2) { Self { rest_within_ms: 10 * MINUTE, ..setup } } else { setup }
            }
            Guard::Lists => {
                let for_ms = 10 * MINUTE;
                small(vec![at(0, Fault::NobodyJoins { cluster: 0, for_ms }), at(0, Fault::PartialLists { for_ms })])
            }
            Guard::Inspection => {
                let for_ms = 10 * MINUTE;
                let lacks = Fault::LackingLists { for_ms, percent: 100 };
                small(vec![at(5 * MINUTE, Fault::Partition { cluster: 0, for_ms }), at(5 * MINUTE, lacks)])
            }
            Guard::AgentEpoch => small(forgetting(seed)),
            Guard::StoreEpoch | Guard::Fence => {
                let (process, after_steps) = (usize::from(seed >= STEPS), seed % STEPS);
                let after_steps = u32::try_from(after_steps).unwrap_or(0);
                let pause = Fault::Pause { process, after_steps, for_ms: 100_000 };
                Self::sized(1, (2, 1), off, vec![at(1_000, pause)])
            }
            Guard::Quarantine => small(blinding()),
            Guard::Losses => small(vec![relist(6 * MINUTE, Lacks::Pods)]),
            Guard::Extents => small(vec![relist(6 * MINUTE, Lacks::Workloads), kill(6 * MINUTE + 100)]),
            Guard::Witness => small(vec![relist(6 * MINUTE, Lacks::Pods)]),
            Guard::EmptyCheck => small(unseen()),
            Guard::Caps => small(Vec::new()).capped(off),
            // What runs by then is spot; what comes later asks for on-demand machines, which the spot machines that become
            // empty are not.
            Guard::Brake => small(vec![at(MINUTE, Fault::LaunchesRefused { for_ms: 12 * MINUTE })]).braking_soon(),
            Guard::Hearing => {
                let faults = vec![at(3 * MINUTE, Fault::LaunchesRefused { for_ms: 12 * MINUTE })];
                Self::sized(seed, (2, 2), off, faults).braking_soon()
            }
            Guard::Freezes => Self::sized(seed, (2, 1), off, vec![at(1_000, Fault::Freeze { for_ms: 4 * MINUTE })]),
            Guard::Limits => Self::made(seed, (1, 1), off, Vec::new(), Resources::from_iter(TIGHT)),
            Guard::Reconnect => small(vec![at(MINUTE, Fault::Cut { cluster: 0, for_ms: 1_000 })]),
            Guard::Backoff => small(vec![at(MINUTE, Fault::Kill { process: 0, after_steps: 0, away_ms: 5_000 })]),
            Guard::PodEvents => Self::restarting(seed, off),
            Guard::Tokens | Guard::Budgets | Guard::PodBudgets | Guard::Answers => Self::faulty(seed, off),
        }
    }

    /// A run whose only server is killed every 20 seconds for twelve minutes, more often than `consolidateAfter` (30 s) passes.
    /// An empty node leaves within that, and the time that a server is away and begins again, twice over.
    pub(super) fn restarting(seed: u64, off: Option<Guard>) -> Self {
        let kills = (1..36).map(|number| kill(number * 20_000)).collect();
        let mut setup = Self { empty_for_ms: Some(EMPTY_FOR_MS), ..Self::sized(seed, (1, 1), off, kills) };
        // Work that ends between two processes is so little that any snapshot may lack it.
        let usual = QuarantineRule::default();
        let quarantine = &mut setup.blueprint.settings.rails.quarantine;
        (quarantine.free_pods, quarantine.free_machines) = (usual.free_pods, usual.free_machines);
        setup
    }

    /// The run, with a brake that is soon felt: few machines are launched here, so few have to fail, and again soon.
    fn braking_soon(mut self) -> Self {
        let settings = &mut self.blueprint.settings;
        settings.sold_out_ms = 20_000;
        (settings.rails.brake.least, settings.rails.brake.window_ms) = (2, 2 * MINUTE);
        self
    }

    /// The run, with bounds on how many machines come and go that are small enough to be felt.
    fn capped(mut self, off: Option<Guard>) -> Self {
        let bound = |machines| Bound { machines, usd_per_hour: MicroUsd(0), percent: 0, free: 0 };
        let rule = |machines| RateLimitRule { window_ms: CAP_WINDOW_MS, cluster: bound(machines), fleet: bound(0) };
        let kept = off != Some(Guard::Caps);
        let rails = &mut self.blueprint.settings.rails;
        rails.launches = rule(if kept { CAPS.launches } else { 0 });
        rails.removals = rule(if kept { CAPS.removals } else { 0 });
        self.caps = Some(CAPS);
        self
    }
}

/// The store loses its leases after some epochs, and an agent that was restarted has to remember them: without its help a
/// store counts from 1 again. In every second run the first process dies after some steps: if it holds the lease by then and
/// has said nothing yet, the first epoch is old later, and nobody's.
fn forgetting(seed: u64) -> Vec<Timed> {
    let after_steps = u32::try_from(seed / 2).unwrap_or(0);
    let early = at(0, Fault::Kill { process: 0, after_steps, away_ms: 1_000 });
    vec![
        if seed.is_multiple_of(2) { early } else { kill(20_000) },
        kill(60_000),
        at(150_000, Fault::StoreForgets),
        at(150_100, Fault::RestartAgent { cluster: 0, away_ms: 5_000 }),
        kill(150_200),
    ]
}

/// A list lacks objects for some minutes.
fn relist(at_ms: i64, lacks: Lacks) -> Timed {
    at(at_ms, Fault::Relist { cluster: 0, lacks, for_ms: 4 * MINUTE })
}

/// A list lacks pods while they wait for their machines, so their loss is that of no bound pod and is not doubted. They run on
/// Nodes that are shown as empty, for long when a freeze ends.
fn unseen() -> Vec<Timed> {
    let lacks = Fault::Relist { cluster: 0, lacks: Lacks::Workloads, for_ms: 8 * MINUTE };
    vec![at(30_000, lacks), at(MINUTE, Fault::Freeze { for_ms: 5 * MINUTE })]
}

/// An agent shows an empty cluster for a while, and the server that would know better is restarted meanwhile.
fn blinding() -> Vec<Timed> {
    let empty = Fault::EmptyPicture { cluster: 0, for_ms: 4 * MINUTE };
    vec![at(4 * MINUTE, empty), kill(4 * MINUTE + 1_000)]
}
