//! What a run is made of: small clusters, a small catalogue, a little work, everything by seed.

use std::sync::Arc;

use cloud::simulated::{FaultProfile, SeededRng, SimulatedCloud};
use engine::cluster::{Budget, BudgetLimit, DaemonRecord, DisruptionPolicy, PoolMeta, PoolRecord};
use engine::control::{Planner, Settings};
use engine::input::PlanningInput;
use engine::model::labels::{ARCH, INSTANCE_TYPE, OS};
use engine::model::offering::SharedCatalogue;
use engine::model::resources::{CPU, MEMORY, NODES, PODS};
use engine::model::{
    CapacityType, Catalogue, InstanceType, Labels, MicroUsd, NodePool, Offering, OptInRules, PodShape, Requirement,
    Requirements, Resources, Text,
};
use engine::plan::{Plan, PlanReport};
use engine::schedule::CompileCache;
use simulator::SimulatedCluster;
use simulator::cluster::{ClusterSettings, Workload};
use simulator::script;

use super::fault::{self, Timed};
use super::guard::Guard;
use super::outside::ZONES;
use super::process::Blueprint;
use super::site::Site;
use crate::serve;
use crate::session::{ManifestKind, ReadPools};

pub(super) const MINUTE: i64 = 60_000;
const GIB: i64 = 1 << 30;
/// Work changes and faults begin within this time.
const BUSY_MS: i64 = 8 * MINUTE;
/// Everything is at rest this long after the last fault: the longest way out of trouble is a machine that never joins
/// (fifteen minutes), found out by an instruction that nobody takes up (ten), and bought again.
const REST_WITHIN_MS: i64 = 45 * MINUTE;
/// Of the `web` workload, so many pods keep running whatever is evicted.
const WEB_LEAST: usize = 1;
/// Nodes of a pool that may leave at one time for being empty.
pub(super) const BUDGET: u32 = 1;
/// A NodePool's limits: enough for all pods at once, and not for twice as much.
const LIMITS: [(&str, i64); 2] = [(CPU, 14_000), (NODES, 5)];

/// How many machines may come and go within a while, for those who check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Caps {
    /// Length of the window. From decision to deed is not always equally long, so it is shorter than the rail's.
    pub(super) window_ms: i64,
    pub(super) launches: usize,
    pub(super) removals: usize,
}

/// A run before it begins.
pub(crate) struct Setup {
    pub(super) seed: u64,
    pub(super) processes: usize,
    pub(super) sites: Vec<Site>,
    pub(super) cloud: SimulatedCloud,
    pub(super) blueprint: Blueprint,
    /// Moment, cluster, workload, replicas.
    pub(super) script: Vec<(i64, usize, Workload, usize)>,
    pub(super) faults: Vec<Timed>,
    pub(super) calm_from_ms: i64,
    pub(super) rest_within_ms: i64,
    /// How many machines may come and go within a while, if that is looked at.
    pub(super) caps: Option<Caps>,
    /// How long empty nodes may stand without one that leaves, in milliseconds, if that is looked at.
    pub(super) empty_for_ms: Option<i64>,
}

impl Setup {
    /// The run of a seed with faults of all kinds.
    pub(super) fn faulty(seed: u64, off: Option<Guard>) -> Self {
        let (processes, clusters) = sizes(seed);
        Self::with_faults(seed, off, fault::by_seed(seed, processes, clusters, BUSY_MS))
    }

    /// The run of a seed with other faults.
    pub(crate) fn with_faults(seed: u64, off: Option<Guard>, faults: Vec<Timed>) -> Self {
        Self::sized(seed, sizes(seed), off, faults)
    }

    /// A run of so many processes and clusters.
    pub(crate) fn sized(seed: u64, sizes: (usize, usize), off: Option<Guard>, faults: Vec<Timed>) -> Self {
        Self::made(seed, sizes, off, faults, Resources::from_iter(LIMITS))
    }

    /// A run of so many processes and clusters, whose NodePools have these limits.
    pub(super) fn made(
        seed: u64,
        (processes, clusters): (usize, usize),
        off: Option<Guard>,
        faults: Vec<Timed>,
        limits: Resources,
    ) -> Self {
        let catalogue = catalogue();
        let pools = vec![pool(&catalogue, limits)];
        let mut script = Vec::new();
        let site = |number: usize| {
            let name = Text::from(format!("c{number}"));
            let mut cluster = SimulatedCluster::new(settings(seed * 10 + number as u64, off));
            cluster.add_daemon(daemon());
            cluster.keep_running(&Text::from("web"), WEB_LEAST);
            Site::new(number, name, cluster, pools.clone(), off)
        };
        for number in 0..clusters {
            script.extend(
                beats(seed * 10 + number as u64).into_iter().map(|(at, work, count)| (at, number, work, count)),
            );
        }
        let last = faults.iter().map(|timed| timed.at_ms.saturating_add(timed.fault.lasts_ms())).max().unwrap_or(0);
        Self {
            seed,
            processes,
            sites: (0..clusters).map(site).collect(),
            cloud: SimulatedCloud::new(weather(seed, off), Some(SharedCatalogue::clone(&catalogue))),
            blueprint: blueprint(seed, &pools, off),
            script,
            faults,
            calm_from_ms: BUSY_MS.max(last),
            rest_within_ms: REST_WITHIN_MS,
            caps: None,
            empty_for_ms: None,
        }
    }

    /// The faults.
    pub(crate) fn faults(&self) -> &[Timed] {
        &self.faults
    }
}

/// Processes and clusters of a seed.
fn sizes(seed: u64) -> (usize, usize) {
    let die = SeededRng::new(seed).child("sizes");
    let one = |name: &str, from: i64, to: i64| usize::try_from(die.child(name).between((from, to))).unwrap_or(1);
    (one("processes", 1, 3), one("clusters", 1, 2))
}

fn settings(seed: u64, off: Option<Guard>) -> ClusterSettings {
    ClusterSettings { seed, evicts_by_force: off == Some(Guard::PodBudgets), ..ClusterSettings::default() }
}

fn weather(seed: u64, off: Option<Guard>) -> FaultProfile {
    FaultProfile {
        seed,
        ignore_tokens: off == Some(Guard::Tokens),
        shortage_percent: 10,
        interrupted_percent: 5,
        interrupted_after_ms: (MINUTE, BUSY_MS),
        ..FaultProfile::default()
    }
}

fn blueprint(seed: u64, pools: &[PoolRecord], off: Option<Guard>) -> Blueprint {
    let pools: Vec<PoolRecord> = pools.iter().map(|pool| unguarded(pool.clone(), off)).collect();
    let read_pools = ReadPools::new(move |manifests| {
        let has = |pool: &&PoolRecord| manifests.contains_key(&(ManifestKind::NodePool, pool.pool.name.clone()));
        pools.iter().filter(has).cloned().collect::<Vec<PoolRecord>>()
    });
    let planner: Planner = if off == Some(Guard::Planning) { idle } else { serve::plan };
    let mut settings = Settings { policy: serve::policy(), ..Settings::default() };
    // Clusters are small here, and so is what they may lose at once.
    settings.rails.quarantine.free_machines = 0;
    settings.rails.quarantine.free_pods = 0;
    match off {
        Some(Guard::Quarantine) => {
            settings.rails.quarantine.percent = 0;
            settings.collect.believe_absence = true;
        }
        Some(Guard::Losses) => settings.rails.quarantine.window_ms = 0,
        Some(Guard::Witness) => {
            settings.rails.quarantine.hold_percent = 100;
            settings.rails.quarantine.second_witness = false;
        }
        Some(Guard::GarbageCollection) => settings.collect.after_ms = None,
        // Half a listing costs nothing as long as somebody asks about what it lacks.
        Some(Guard::Lists) => {
            settings.collect.believe_partial = true;
            settings.rails.removal.second_witness = false;
        }
        Some(Guard::Inspection) => settings.rails.removal.second_witness = false,
        Some(Guard::Brake) => settings.rails.brake.engage_percent = 0,
        _ => {}
    }
    Blueprint { seed, planner, read_pools, settings, off }
}

/// A pool as a server reads it that does not keep a guard.
fn unguarded(mut record: PoolRecord, off: Option<Guard>) -> PoolRecord {
    match off {
        Some(Guard::Limits) => record.pool.limits = Resources::new(),
        Some(Guard::Emptiness) => record.life.consolidate_after_ms = None,
        Some(Guard::Budgets) => record.life.budgets = vec![Budget { limit: BudgetLimit::Percent(100), ..budget() }],
        _ => {}
    }
    record
}

/// A planner that plans nothing.
fn idle(_: &PlanningInput, _: &mut CompileCache) -> Result<(Plan, PlanReport), String> {
    Ok(Default::default())
}

/// Replicas over time: bursts, then little is left.
fn beats(seed: u64) -> Vec<(i64, Workload, usize)> {
    let dice = SeededRng::new(seed).child("beats");
    let count = |name: &str, from: i64, to: i64| usize::try_from(dice.child(name).between((from, to))).unwrap_or(1);
    let moment = |name: &str, from: i64, to: i64| dice.child(name).between((from * MINUTE, to * MINUTE));
    let web = script::workload("web", 250, GIB / 2, None);
    let batch = script::workload("batch", 1000, 2 * GIB, Some("spot"));
    let steady = script::workload("steady", 500, GIB, Some("on-demand"));
    vec![
        (moment("web", 0, 1), web.clone(), count("web", 3, 9)),
        (moment("batch", 0, 3), batch.clone(), count("batch", 1, 4)),
        (moment("steady", 0, 3), steady, count("steady", 2, 4)),
        (moment("more web", 3, 5), web.clone(), count("more web", 4, 12)),
        (moment("no batch", 4, 7), batch, 0),
        (moment("less web", 6, 8), web, count("less web", 2, 3)),
    ]
}

fn budget() -> Budget {
    Budget { limit: BudgetLimit::Nodes(BUDGET), reasons: None, window: None }
}

/// A pool without limits.
#[cfg(test)]
pub(crate) fn any_pool() -> PoolRecord {
    pool(&catalogue(), Resources::new())
}

fn pool(catalogue: &SharedCatalogue, limits: Resources) -> PoolRecord {
    let pool = NodePool {
        name: Text::from("default"),
        node_class: Text::from("default"),
        weight: 0,
        labels: Labels::new(),
        taints: Vec::new(),
        startup_taints: Vec::new(),
        requirements: Requirements::new(),
        limits,
        replicas: None,
        not_ready: None,
        unhealthy: false,
        catalogue: SharedCatalogue::clone(catalogue),
        rules: OptInRules::default(),
    };
    let life =
        DisruptionPolicy { consolidate_after_ms: Some(30_000), budgets: vec![budget()], ..DisruptionPolicy::default() };
    PoolRecord { pool, life, revision: Text::from("1"), meta: PoolMeta::default() }
}

fn daemon() -> DaemonRecord {
    let requests = Resources::from_iter([(CPU, 50), (MEMORY, GIB / 8), (PODS, 1)]);
    DaemonRecord {
        namespace: Text::from("kube-system"),
        name: Text::from("agentd"),
        shape: Arc::new(PodShape { requests, ..PodShape::default() }),
        labels: Arc::new(Labels::new()),
    }
}

/// `a.2` with 2 vCPU and 8 GiB at 0.10 an hour, and its multiples; spot at a third; two zones.
fn catalogue() -> SharedCatalogue {
    SharedCatalogue::new(Catalogue { types: [2, 4, 8].map(kind).into(), offering_keys: Vec::new() })
}

fn kind(vcpu: i64) -> InstanceType {
    let capacity = Resources::from_iter([(CPU, vcpu * 1000), (MEMORY, vcpu * 4 * GIB), (PODS, 30)]);
    let mut allocatable = capacity.clone();
    allocatable.subtract(&Resources::from_iter([(CPU, 100), (MEMORY, GIB)]));
    let both = [(CapacityType::OnDemand, vcpu * 50_000), (CapacityType::Spot, vcpu * 17_000)];
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
        offerings: ZONES.iter().flat_map(|zone| both.map(|(paid, price)| offering(zone, paid, price))).collect(),
    }
}

fn offering(zone: &str, capacity_type: CapacityType, price: i64) -> Offering {
    Offering {
        zone: Text::from(zone),
        capacity_type,
        price: MicroUsd(price),
        estimated: false,
        available: true,
        reservation: None,
        labels: Labels::new(),
    }
}
