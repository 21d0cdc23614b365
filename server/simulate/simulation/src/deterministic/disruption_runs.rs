//! Runs of drift and consolidation under budgets, windows and faults: two NodePools, a steady load whose pods have a
//! node each, and templates that change.

use cloud::simulated::{FaultProfile, SeededRng};
use cluster::PoolRecord;
use model::disruption_policy::{Budget, BudgetLimit, BudgetWindow, DisruptionReason};
use model::labels::NODEPOOL;
use model::{Cron, Millis, NodePool, PoolName, Resources, TimeZone};
use serde_json::json;

use super::fault::{self, Fault, TimedFault};
use super::guard::Guard;
use super::setup::{GIB, MINUTE, Setup, budget, catalogue, pool};
use crate::kube::cluster::{Workload, pod_spec};

/// Names of the NodePools. Pods select one of them.
const POOLS: [&str; 2] = ["default", "second"];
/// Templates change and faults begin within this time.
const BUSY_MS: i64 = 14 * MINUTE;
/// Bound for coming to rest: up to fourteen nodes are replaced twice at worst, one in a window of four of ten minutes,
/// and a NodePool waits ten minutes after a replacement that failed.
const REST_WITHIN_MS: i64 = 6 * 60 * MINUTE;
/// When the first template changes at the earliest: pods run by then.
const SETTLED_MS: i64 = 4 * MINUTE;

/// What budgets and windows a NodePool has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Permission {
    OneNode,
    TwoNodes,
    /// Two nodes, of which one for drift.
    OneNodeForDrift,
    /// One node, during four of ten minutes.
    InWindows,
    /// Two nodes, and none during five of ten minutes.
    NotInWindows,
    /// Two nodes, from 03:00 to 04:00 UTC.
    AtNight,
}

impl Permission {
    const BY_SEED: [Self; 5] =
        [Self::OneNode, Self::TwoNodes, Self::OneNodeForDrift, Self::InWindows, Self::NotInWindows];

    pub(super) fn grant(self, mut record: PoolRecord) -> PoolRecord {
        let nodes = |nodes| Budget { limit: BudgetLimit::Nodes(nodes), ..budget() };
        let every_ten = |minutes| window("*/10 * * * *", minutes);
        let policy = &mut record.disruption;
        policy.expire_after = None;
        policy.budgets = match self {
            Self::OneNode | Self::InWindows => vec![nodes(1)],
            Self::TwoNodes | Self::AtNight => vec![nodes(2)],
            Self::OneNodeForDrift => {
                vec![nodes(2), Budget { reasons: Some(vec![DisruptionReason::Drifted]), ..nodes(1) }]
            }
            Self::NotInWindows => vec![nodes(2), Budget { window: every_ten(5), ..nodes(0) }],
        };
        policy.windows.extend(match self {
            Self::InWindows => every_ten(4),
            Self::AtNight => window("0 3 * * *", 60),
            _ => None,
        });
        record
    }
}

/// The window of this schedule in UTC; every schedule here is valid.
fn window(schedule: &str, minutes: i64) -> Option<BudgetWindow> {
    let schedule = Cron::parse(schedule).ok()?;
    Some(BudgetWindow { schedule, zone: TimeZone::UTC, duration: Millis::from_mins(minutes) })
}

impl Setup {
    /// The run of a seed with drift and random faults.
    pub(super) fn disrupted_by_seed(seed: u64) -> Self {
        let processes = processes(seed);
        Self::disrupted_with(seed, faults_of(seed, processes))
    }

    /// The run of a seed with given faults.
    pub(super) fn disrupted_with(seed: u64, faults: Vec<TimedFault>) -> Self {
        Self::disrupted_without(None, seed, faults)
    }

    fn disrupted_without(off: Option<Guard>, seed: u64, faults: Vec<TimedFault>) -> Self {
        let rng = SeededRng::new(seed).child("disruption");
        let drawn = |name: &str| Permission::BY_SEED[usize::try_from(rng.child(name).value() % 5).unwrap_or(0)];
        let of_cluster = u32::try_from(rng.child("of cluster").value() % 3).ok().filter(|limit| *limit > 0);
        Self::disrupted(seed, processes(seed), off, faults, POOLS.map(drawn), of_cluster)
    }

    /// A run that needs a guard of disruption, with or without it.
    pub(super) fn for_disruption_guard(guard: Guard, seed: u64, off: Option<Guard>) -> Self {
        let changed = TimedFault { at_ms: SETTLED_MS, fault: Fault::TemplateChanged { cluster: 0 } };
        let made = |faults, permission, of_cluster| Self::disrupted(seed, 1, off, faults, [permission; 2], of_cluster);
        match guard {
            Guard::Windows => made(vec![changed], Permission::AtNight, None),
            Guard::ClusterBudget => made(vec![changed], Permission::TwoNodes, Some(1)),
            // The replacement is launched within half a minute, and joins within another.
            Guard::InFlight => {
                let kill = Fault::Kill { process: 0, after_steps: 0, away_ms: 500 };
                let at_ms = SETTLED_MS + 10_000 + i64::try_from(seed % 8).unwrap_or(0) * 5_000;
                made(vec![changed, TimedFault { at_ms, fault: kill }], Permission::OneNode, None)
            }
            // The server ends while a node is being consolidated, half a second later for each seed.
            Guard::Replacements => Self::disrupted_without(off, 4_820, killed_while_consolidating(seed)),
            // The kubelets take a minute from joining to ready.
            Guard::Initialization => {
                let mut setup = made(vec![changed], Permission::OneNode, None);
                setup
                    .sim_clusters
                    .iter_mut()
                    .for_each(|sim_cluster| sim_cluster.cluster.set_ready_ms((60_000, 60_000)));
                setup
            }
            _ => made(vec![changed], Permission::OneNode, None),
        }
    }

    pub(super) fn disrupted(
        seed: u64,
        processes: usize,
        off: Option<Guard>,
        faults: Vec<TimedFault>,
        permissions: [Permission; 2],
        of_cluster: Option<u32>,
    ) -> Self {
        let catalogue = catalogue();
        let named = |(name, permission): (&str, Permission)| {
            let record = permission.grant(pool(&catalogue, Resources::new()));
            PoolRecord { pool: NodePool { name: PoolName::from(name), ..record.pool }, ..record }
        };
        let pools: Vec<PoolRecord> = POOLS.into_iter().zip(permissions).map(named).collect();
        let mut setup = Self::with_pools(seed, (processes, 1), off, faults, pools);
        let rng = SeededRng::new(seed).child("replicas");
        let replicas = |name: &str, most| usize::try_from(rng.child(name).between((2, most))).unwrap_or(2);
        setup.scale_events = (POOLS.into_iter().zip([4, 3]))
            .map(|(name, most)| (0, 0, node_filling(name), replicas(name, most)))
            .collect();
        for sim_cluster in &mut setup.sim_clusters {
            sim_cluster.max_unavailable = of_cluster;
            for (_, _, workload, replicas) in &setup.scale_events {
                sim_cluster.cluster.set_min_running(&workload.name, replicas - 1);
            }
        }
        let known = of_cluster.filter(|_| off != Some(Guard::ClusterBudget));
        setup.process_config.settings.disruption.max_unavailable_nodes = known.map(BudgetLimit::Nodes);
        *setup.cloud.faults_mut() = FaultProfile { seed, shortage_percent: 10, ..FaultProfile::default() };
        setup.faults_end_ms = setup.faults_end_ms.max(BUSY_MS);
        setup.rest_within_ms = REST_WITHIN_MS;
        setup.one_pod_per_node = true;
        setup
    }
}

/// The faults of seed 4631 in which the server ends while the machines boot that a node of each NodePool is consolidated
/// into: their Nodes join before the next owner decides.
fn killed_while_consolidating(seed: u64) -> Vec<TimedFault> {
    let after_ms = i64::try_from(seed).unwrap_or(0) * 500;
    let (cluster, kill) = (0, Fault::Kill { process: 0, after_steps: 18, away_ms: 38_886 });
    let changed = TimedFault { at_ms: 283_644, fault: Fault::TemplateChanged { cluster } };
    let died = TimedFault { at_ms: 421_978, fault: Fault::ReplacementDies { cluster } };
    vec![changed, died, TimedFault { at_ms: 430_000 + after_ms, fault: kill }]
}

fn processes(seed: u64) -> usize {
    usize::try_from(SeededRng::new(seed).child("sizes").child("processes").between((1, 3))).unwrap_or(1)
}

/// A workload of pods for the NodePool of the same name that share no node: `a.8`, the largest type, has 7.9 vCPU.
fn node_filling(pool: &str) -> Workload {
    let mut spec = pod_spec(5_000, 4 * GIB);
    spec["nodeSelector"] = json!({ NODEPOOL: pool });
    Workload::new("default", pool, &spec)
}

/// One or two changes of templates, faults of what follows from them, and faults of any kind.
fn faults_of(seed: u64, processes: usize) -> Vec<TimedFault> {
    let rng = SeededRng::new(seed).child("disruption faults");
    let first = rng.child("first change").between((SETTLED_MS, 8 * MINUTE));
    let second = rng.child("second change").between((8 * MINUTE, BUSY_MS));
    let changes: Vec<i64> = if rng.child("changes").percent(50) { vec![first, second] } else { vec![first] };
    let changed = |at_ms: &i64| TimedFault { at_ms: *at_ms, fault: Fault::TemplateChanged { cluster: 0 } };
    let mut faults: Vec<TimedFault> = changes.iter().map(changed).collect();
    let count = |name: &str, from, to| rng.child(name).between((from, to)).unsigned_abs();
    for number in 0..count("replacements", 2, 5) {
        let rng = rng.child("replacement").child_number(number);
        let change = changes[usize::try_from(rng.child("change").value() % changes.len() as u64).unwrap_or(0)];
        faults.push(draw(&rng, change, processes));
    }
    for number in 0..count("others", 0, 4) {
        let rng = rng.child("other").child_number(number);
        faults.push(TimedFault { at_ms: rng.child("at").between((0, BUSY_MS)), fault: fault::draw(rng, processes, 1) });
    }
    faults.sort_by_key(|timed| timed.at_ms);
    faults
}

/// A fault of the replacements that follow from a change of the templates.
fn draw(rng: &SeededRng, change: i64, processes: usize) -> TimedFault {
    let within = |name: &str, from: i64, to: i64| rng.child(name).between((from, to));
    let process = usize::try_from(rng.child("process").value() % processes.max(1) as u64).unwrap_or(0);
    let cluster = 0;
    let mut at_ms = change + within("after", 0, 4 * MINUTE);
    let fault = match rng.child("kind").value() % 10 {
        0 => Fault::NodesNeverJoin { cluster, for_ms: within("for", MINUTE, 12 * MINUTE) },
        1 => Fault::LaunchesRefused { for_ms: within("for", MINUTE, 5 * MINUTE) },
        2 => Fault::NoCapacity { for_ms: within("for", MINUTE, 5 * MINUTE) },
        3 | 4 => Fault::ReplacementDies { cluster },
        5 => Fault::CutAtLaunch { cluster, for_ms: within("for", 1_000, 2 * MINUTE) },
        6 => Fault::KillAtLaunch { process, away_ms: within("away", 200, MINUTE) },
        7 => Fault::ExpiresDrifted { cluster },
        8 => Fault::InstanceDies { cluster },
        _ => {
            // An edge of the windows: they begin with each tenth minute and end four or five minutes later.
            let edges = [0, 4 * MINUTE, 5 * MINUTE];
            let edge = edges[usize::try_from(rng.child("edge").value() % 3).unwrap_or(0)];
            at_ms = 10 * MINUTE + edge + within("around", -MINUTE, MINUTE);
            Fault::SetClock { process, by_ms: within("clock", -2 * MINUTE, 2 * MINUTE) }
        }
    };
    TimedFault { at_ms, fault }
}
