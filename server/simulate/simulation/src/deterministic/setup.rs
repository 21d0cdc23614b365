//! Setup of a run: small clusters, a small catalogue, a few workloads, all by seed.

use crate::kube::SimulatedCluster;
use crate::kube::cluster::{ClusterSettings, Workload, pod_spec};
use cloud::simulated::{FaultProfile, SeededRng, SimulatedCloud};
use cluster::{PoolDriftFacts, PoolMeta, PoolRecord};
use controller::search_allowance::SearchSettings;
use controller::{DisruptionRequest, NewPlanner, Planner, Settings};
use model::disruption_policy::{Budget, BudgetLimit, DisruptionPolicy};
use model::input::PlanningInput;
use model::labels::{ARCH, CAPACITY_TYPE, INSTANCE_TYPE, OS, ZONE};
use model::offering::SharedCatalogue;
use model::resources::{CPU, MEMORY, NODES, PODS};
use model::{
    CapacityType, Catalogue, ClusterName, InstanceType, InstanceTypeName, Labels, MicroUsd, Millis, NodePool,
    NodeStage, Offering, PoolName, Requirement, Requirements, Resources, Text, Zone,
};
use serde_json::json;

use super::environment::ZONES;
use super::fault::{self, TimedFault};
use super::guard::Guard;
use super::process::ProcessConfig;
use super::sim_cluster::SimCluster;
use agent_session::{ManifestKind, PoolReader};
use server::serve;

pub(super) const MINUTE: i64 = 60_000;
pub(super) const GIB: i64 = 1 << 30;
/// Scale events and faults begin within this time.
const BUSY_MS: i64 = 8 * MINUTE;
/// Bound for coming to rest after the last fault: the longest recovery is an instance that never
/// joins (fifteen minutes), detected by an unanswered instruction (ten), and launched again.
const REST_WITHIN_MS: i64 = 45 * MINUTE;
/// Minimum of running pods that the PodDisruptionBudget of `web` keeps.
const WEB_LEAST: usize = 1;
/// Disruption budget: empty nodes of a NodePool that may be removed at one time.
const BUDGET: u32 = 1;
/// NodePool limits: enough for all pods once, but not twice.
const LIMITS: [(&str, i64); 2] = [(CPU, 14_000), (NODES, 5)];

/// Bounds on launches and removals within a window, for the checkers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RateBounds {
    /// Window length. It is shorter than the guardrail's, because the delay between decision and
    /// action varies.
    pub(super) window: Millis,
    pub(super) launches: usize,
    pub(super) removals: usize,
}

pub(crate) struct Setup {
    pub(super) seed: u64,
    pub(super) processes: usize,
    pub(super) sim_clusters: Vec<SimCluster>,
    pub(super) cloud: SimulatedCloud,
    pub(super) process_config: ProcessConfig,
    /// Time, cluster, workload, replicas.
    pub(super) scale_events: Vec<(i64, usize, Workload, usize)>,
    pub(super) faults: Vec<TimedFault>,
    pub(super) faults_end_ms: i64,
    pub(super) rest_within_ms: i64,
    /// Bounds on launches and removals, if checked.
    pub(super) rate_bounds: Option<RateBounds>,
    /// How long empty nodes may exist while none is removed, if checked.
    pub(super) empty_for: Option<Millis>,
    /// Whether every pod of a workload fills a node, so that new machines are counted.
    pub(super) one_pod_per_node: bool,
    /// Whether no pod may be moved twice within 24 hours.
    pub(super) moves_once: bool,
}

impl Setup {
    /// The run of a seed with random faults.
    pub(super) fn faulty(seed: u64, off: Option<Guard>) -> Self {
        let (processes, clusters) = sizes(seed);
        Self::with_faults(seed, off, fault::by_seed(seed, processes, clusters, BUSY_MS))
    }

    /// The run of a seed with given faults. In half of the clusters kube-scheduler ignores nominations.
    pub(crate) fn with_faults(seed: u64, off: Option<Guard>, faults: Vec<TimedFault>) -> Self {
        let mut setup = Self::sized(seed, sizes(seed), off, faults);
        let rng = SeededRng::new(seed).child("ignored nominations");
        let ignoring =
            setup.sim_clusters.iter_mut().zip(0..).filter(|(_, number)| rng.child_number(*number).percent(50));
        ignoring.for_each(|(sim_cluster, _)| sim_cluster.cluster.ignore_nominations());
        setup
    }

    /// A run with these numbers of processes and clusters.
    pub fn sized(seed: u64, sizes: (usize, usize), off: Option<Guard>, faults: Vec<TimedFault>) -> Self {
        Self::made(seed, sizes, off, faults, Resources::from_iter(LIMITS))
    }

    /// A run with these numbers of processes and clusters and these NodePool limits.
    pub(super) fn made(
        seed: u64,
        (processes, clusters): (usize, usize),
        off: Option<Guard>,
        faults: Vec<TimedFault>,
        limits: Resources,
    ) -> Self {
        let catalogue = catalogue();
        let pools = vec![pool(&catalogue, limits)];
        Self::with_pools(seed, (processes, clusters), off, faults, pools)
    }

    pub(super) fn with_pools(
        seed: u64,
        (processes, clusters): (usize, usize),
        off: Option<Guard>,
        faults: Vec<TimedFault>,
        pools: Vec<PoolRecord>,
    ) -> Self {
        // The same NodePools reach the agents as manifests and the servers by name.
        let catalogue = pools.first().map(|pool| SharedCatalogue::clone(&pool.pool.catalogue));
        let mut scale_events = Vec::new();
        let sim_cluster = |number: usize| {
            let name = ClusterName::from(format!("c{number}"));
            let mut cluster = SimulatedCluster::new(settings(seed * 10 + number as u64, off));
            cluster.add_daemon(Workload::new("kube-system", "agentd", &pod_spec(50, GIB / 8)));
            cluster.set_min_running(&Text::from("web"), WEB_LEAST);
            SimCluster::new(number, name, cluster, pools.clone(), off)
        };
        for number in 0..clusters {
            scale_events.extend(
                scale_events_of(seed * 10 + number as u64)
                    .into_iter()
                    .map(|(at, work, count)| (at, number, work, count)),
            );
        }
        let last = faults.iter().map(|timed| timed.at_ms.saturating_add(timed.fault.lasts_ms())).max().unwrap_or(0);
        Self {
            seed,
            processes,
            sim_clusters: (0..clusters).map(sim_cluster).collect(),
            cloud: SimulatedCloud::new(cloud_faults(seed, off), catalogue),
            process_config: process_config(seed, &pools, off),
            scale_events,
            faults,
            faults_end_ms: BUSY_MS.max(last),
            rest_within_ms: REST_WITHIN_MS,
            rate_bounds: None,
            empty_for: None,
            one_pod_per_node: false,
            moves_once: false,
        }
    }

    pub fn faults(&self) -> &[TimedFault] {
        &self.faults
    }
}

/// Numbers of processes and clusters of a seed.
fn sizes(seed: u64) -> (usize, usize) {
    let rng = SeededRng::new(seed).child("sizes");
    let one = |name: &str, from: i64, to: i64| usize::try_from(rng.child(name).between((from, to))).unwrap_or(1);
    (one("processes", 1, 3), one("clusters", 1, 2))
}

pub(super) fn settings(seed: u64, off: Option<Guard>) -> ClusterSettings {
    ClusterSettings { seed, evicts_by_force: off == Some(Guard::PodBudgets), ..ClusterSettings::default() }
}

fn cloud_faults(seed: u64, off: Option<Guard>) -> FaultProfile {
    FaultProfile {
        seed,
        ignore_tokens: off == Some(Guard::Tokens),
        shortage_percent: 10,
        interrupted_percent: 5,
        interrupted_after_ms: (MINUTE, BUSY_MS),
        ..FaultProfile::default()
    }
}

fn process_config(seed: u64, pools: &[PoolRecord], off: Option<Guard>) -> ProcessConfig {
    let pools: Vec<PoolRecord> = pools.iter().map(|pool| unguarded(pool.clone(), off)).collect();
    let read_pools = PoolReader::new(move |manifests| {
        let key = |pool: &PoolRecord| (ManifestKind::NodePool, pool.pool.name.as_text().clone());
        let read = |pool: &PoolRecord| {
            let revision = manifests.get(&key(pool))?.revision.clone();
            let own_hash = (off != Some(Guard::Drift)).then(|| (revision.clone(), Text::from("1")));
            Some(PoolRecord { revision, drift: PoolDriftFacts { own_hash, ..pool.drift.clone() }, ..pool.clone() })
        };
        pools.iter().filter_map(read).collect::<Vec<PoolRecord>>()
    });
    let planner: NewPlanner = match off {
        Some(Guard::Planning) => plan_nothing,
        Some(Guard::InFlight) => without_machines_in_flight,
        Some(Guard::Spread) => without_spread,
        _ => serve::new_planner,
    };
    // The default of a server, with two processors.
    let search = SearchSettings::with_share(25, 2);
    let mut settings = Settings { policy: serve::policy(), search, ..Settings::default() };
    // Clusters are small here, so no loss is small enough to be ignored.
    settings.guardrails.quarantine.free_machines = 0;
    settings.guardrails.quarantine.free_pods = 0;
    match off {
        // An operator also confirms every snapshot (`process`).
        Some(Guard::Quarantine) => settings.guardrails.quarantine.percent = 0,
        Some(Guard::Losses) => settings.guardrails.quarantine.window = Millis::ZERO,
        // Any loss is accepted when the agent repeats it after a while, without a second source.
        Some(Guard::SecondWitness) => {
            settings.guardrails.quarantine.block_percent = 0;
            settings.guardrails.quarantine.block_for = settings.guardrails.quarantine.confirm_after;
        }
        Some(Guard::GarbageCollection) => settings.gc_after = None,
        Some(Guard::MoveInterval) => settings.consolidation.move_interval = Millis::ZERO,
        Some(Guard::CircuitBreaker) => settings.guardrails.circuit_breaker.engage_percent = 0,
        _ => {}
    }
    ProcessConfig { seed, planner, read_pools, settings, off }
}

/// The NodePool as read by a server without the guard.
fn unguarded(mut record: PoolRecord, off: Option<Guard>) -> PoolRecord {
    match off {
        Some(Guard::Limits) => record.pool.limits = Resources::new(),
        Some(Guard::Emptiness) => record.disruption.consolidate_after = None,
        Some(Guard::Windows) => record.disruption.windows.clear(),
        Some(Guard::Budgets) => {
            record.disruption.budgets = vec![Budget { limit: BudgetLimit::Percent(100), ..budget() }]
        }
        _ => {}
    }
    record
}

/// A planner that never plans.
fn plan_nothing() -> Planner {
    Planner { pods: Box::new(|_| Ok(Default::default())), disruption: Box::new(|_, _| Ok(Default::default())) }
}

/// A planner that does not use machines that have not joined yet.
fn without_machines_in_flight() -> Planner {
    let Planner { mut pods, disruption } = serve::new_planner();
    let hide = move |input: &PlanningInput| {
        let mut input = input.clone();
        let in_flight = input.nodes.iter_mut().filter(|node| node.stage == NodeStage::InFlight);
        in_flight.for_each(|node| node.unschedulable = true);
        pods(&input)
    };
    Planner { pods: Box::new(hide), disruption }
}

/// A planner whose plans of disruption do not know that pods are spread.
fn without_spread() -> Planner {
    let Planner { pods, mut disruption } = serve::new_planner();
    let forget = move |input: &PlanningInput, request: &DisruptionRequest| {
        let mut input = input.clone();
        input.shapes.iter_mut().for_each(|shape| shape.spread.clear());
        disruption(&input, request)
    };
    Planner { pods, disruption: Box::new(forget) }
}

/// Scale events: bursts, then scale-down.
fn scale_events_of(seed: u64) -> Vec<(i64, Workload, usize)> {
    let rng = SeededRng::new(seed).child("beats");
    let count = |name: &str, from: i64, to: i64| usize::try_from(rng.child(name).between((from, to))).unwrap_or(1);
    let moment = |name: &str, from: i64, to: i64| rng.child(name).between((from * MINUTE, to * MINUTE));
    let is_spread = rng.child("spread").percent(50);
    let web = if is_spread { spread_workload("web", 250) } else { workload("web", 250, GIB / 2, None) };
    let batch = workload("batch", 1000, 2 * GIB, Some("spot"));
    let steady = workload("steady", 500, GIB, Some("on-demand"));
    vec![
        (moment("web", 0, 1), web.clone(), count("web", 3, 9)),
        (moment("batch", 0, 3), batch.clone(), count("batch", 1, 4)),
        (moment("steady", 0, 3), steady, count("steady", 2, 4)),
        (moment("more web", 3, 5), web.clone(), count("more web", 4, 12)),
        (moment("no batch", 4, 7), batch, 0),
        (moment("less web", 6, 8), web, count("less web", 2, 3)),
    ]
}

/// A workload with CPU in millicores, memory in bytes, and optionally a required capacity type.
pub(super) fn workload(name: &str, cpu: i64, memory: i64, capacity_type: Option<&str>) -> Workload {
    let mut spec = pod_spec(cpu, memory);
    if let Some(value) = capacity_type {
        spec["nodeSelector"] = json!({ CAPACITY_TYPE: value });
    }
    Workload::new("default", name, &spec)
}

/// A workload whose pods are spread evenly over zones, with CPU in millicores.
pub(super) fn spread_workload(name: &str, cpu: i64) -> Workload {
    let mut spec = pod_spec(cpu, GIB / 2);
    let selector = json!({ "matchLabels": { "app": name } });
    spec["topologySpreadConstraints"] = json!([{
        "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector
    }]);
    Workload::new("default", name, &spec)
}

pub(super) fn budget() -> Budget {
    Budget { limit: BudgetLimit::Nodes(BUDGET), reasons: None, window: None }
}

pub(super) fn pool(catalogue: &SharedCatalogue, limits: Resources) -> PoolRecord {
    let pool = NodePool {
        name: PoolName::from("default"),
        node_class: Text::from("default"),
        limits,
        catalogue: SharedCatalogue::clone(catalogue),
        ..NodePool::default()
    };
    let disruption = DisruptionPolicy {
        consolidate_after: Some(Millis::from_secs(30)),
        budgets: vec![budget()],
        ..DisruptionPolicy::default()
    };
    let (meta, drift) = (PoolMeta::default(), PoolDriftFacts::default());
    PoolRecord { pool, disruption, revision: Text::from("1"), meta, drift }
}

/// `a.2` with 2 vCPU and 8 GiB at 0.10 an hour, and its multiples; spot at a third; two zones.
pub(super) fn catalogue() -> SharedCatalogue {
    SharedCatalogue::new(Catalogue { types: [2, 4, 8].map(kind).into(), offering_keys: Vec::new() })
}

fn kind(vcpu: i64) -> InstanceType {
    let capacity = Resources::from_iter([(CPU, vcpu * 1000), (MEMORY, vcpu * 4 * GIB), (PODS, 30)]);
    let mut allocatable = capacity.clone();
    allocatable.subtract(&Resources::from_iter([(CPU, 100), (MEMORY, GIB)]));
    let both = [(CapacityType::OnDemand, vcpu * 50_000), (CapacityType::Spot, vcpu * 17_000)];
    InstanceType {
        name: InstanceTypeName::from(format!("a.{vcpu}")),
        labels: Requirements::from_iter([
            Requirement::equals(ARCH, "amd64"),
            Requirement::equals(OS, "linux"),
            Requirement::equals(INSTANCE_TYPE, format!("a.{vcpu}")),
        ])
        .into(),
        capacity,
        allocatable,
        exotic: false,
        burstable: None,
        offerings: ZONES.iter().flat_map(|zone| both.map(|(paid, price)| offering(zone, paid, price))).collect(),
    }
}

fn offering(zone: &str, capacity_type: CapacityType, price: i64) -> Offering {
    Offering {
        zone: Zone::from(zone),
        capacity_type,
        price: MicroUsd(price),
        estimated: false,
        catalogue_price: None,
        available: true,
        reservation: None,
        labels: Labels::new().into(),
    }
}
