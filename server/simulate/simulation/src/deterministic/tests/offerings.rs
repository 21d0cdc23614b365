//! A thousand clusters want an offering that has no capacity for an hour: real replicas and planner, a store and a cloud
//! on a virtual clock. Refusals are counted by the cloud's ledger.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use cloud::simulated::{ClockedCloud, FaultProfile, SimulatedCloud};
use cluster::Observation;
use controller::{ClusterCall, Event, PlanWorker, RegionState, Settings};
use decision_log::DecisionLog;
use fleet_api::fleet::change_feed;
use futures::FutureExt;
use model::offering::SharedCatalogue;
use model::{CapacityType, Catalogue, ClusterName, Millis, Resources, Timestamp};
use replica::fence::Fence;
use replica::{Call, ClusterInput, ClusterSettings, Input, Output, OwnedCluster};
use server::control_loop::calls::{CallRunner, LaunchWarnings, TrustedNames};
use server::serve;
use server_settings::LeaseConfig;
use store::Store;
use store::lease::{LeaseOutcome, Scope};
use store::memory::MemoryStore;

use crate::deterministic::setup::{GIB, MINUTE, catalogue, pool, workload};
use crate::kube::SimulatedCluster;
use crate::kube::cluster::ClusterSettings as KubeSettings;

const CLUSTERS: usize = 1_000;
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// Time of a call until it takes effect, and again until its answer, in milliseconds.
const STORE_MS: i64 = 5;
const CLOUD_MS: i64 = 1_000;
/// How soon a replica reads what others wrote, in milliseconds.
const FEED_MS: i64 = 1_000;
/// The first cluster wants machines from the beginning. The others follow when the first refusal is known: launches
/// under way at the first refusal are refused as well.
const OTHERS_MS: i64 = 10_000;

enum Work {
    Input(usize, ClusterInput),
    Call(usize, Call),
    ReadOfferings(usize),
}

struct Process {
    region: Arc<RegionState>,
    runner: CallRunner,
    worker: PlanWorker,
}

struct Fleet {
    now: Arc<AtomicI64>,
    work: BTreeMap<(Timestamp, u64), Work>,
    sequence: u64,
    processes: Vec<Process>,
    /// Each with the number of its process, and when it wakes next.
    clusters: Vec<(OwnedCluster, usize, Option<Timestamp>)>,
    cloud: Arc<ClockedCloud>,
}

fn scope() -> Scope {
    Scope::Region { account: "123".to_owned(), region: "east".to_owned() }
}

/// One instance type in one zone, for spot.
fn only_offering() -> SharedCatalogue {
    let mut catalogue = Catalogue::clone(&catalogue());
    catalogue.types.truncate(1);
    let offerings = &mut catalogue.types[0].offerings;
    offerings.retain(|offering| offering.capacity_type == CapacityType::Spot);
    offerings.truncate(1);
    Arc::make_mut(&mut offerings[0].labels).insert(model::labels::ZONE_ID.into(), "use1-az1".into());
    SharedCatalogue::new(catalogue)
}

impl Fleet {
    /// Clusters of `processes` replicas with a store for each of these numbers.
    fn new(stores: &[usize]) -> Self {
        let now = Arc::new(AtomicI64::new(0));
        let clock = Arc::clone(&now);
        let faults = FaultProfile { no_capacity: true, ..FaultProfile::default() };
        let cloud = SimulatedCloud::new(faults, None);
        let cloud = Arc::new(ClockedCloud::new(cloud, move || Timestamp::from_millis(clock.load(Ordering::Relaxed))));
        let mut known: BTreeMap<usize, Arc<dyn Store>> = BTreeMap::new();
        let processes = stores.iter().zip(1_u64..).map(|(number, identity)| {
            let clock = Arc::clone(&now);
            let store = known.entry(*number).or_insert_with(|| {
                let time = move || Duration::from_millis(clock.load(Ordering::Relaxed).unsigned_abs());
                Arc::new(MemoryStore::with_clock(time))
            });
            let settings = Settings {
                policy: serve::policy(),
                identity,
                first_number: identity << 40,
                // A thousand clusters ask often enough; a plan each ten seconds for each takes the test too long.
                retry_delay: Millis::from_mins(1),
                ..Settings::default()
            };
            Process {
                region: Arc::new(RegionState::new(settings)),
                runner: CallRunner {
                    store: Arc::clone(store),
                    cloud: cloud.clone(),
                    lease: LeaseConfig { owner: format!("replica-{identity}"), duration: DAY },
                    fence: Arc::new(Fence::default()),
                    held_leases: Arc::default(),
                    log: DecisionLog::default(),
                    names: TrustedNames::default(),
                    conditions: Arc::default(),
                    launch_warnings: LaunchWarnings::default(),
                },
                worker: PlanWorker::new(serve::new_planner()),
            }
        });
        let processes: Vec<Process> = processes.collect();
        let mut fleet = Self { now, work: BTreeMap::new(), sequence: 0, processes, clusters: Vec::new(), cloud };
        let catalogue = only_offering();
        (0..CLUSTERS).for_each(|number| fleet.add_cluster(number, &catalogue));
        (0..fleet.processes.len()).for_each(|process| fleet.add(FEED_MS, Work::ReadOfferings(process)));
        fleet
    }

    /// A cluster whose only pod needs a machine.
    fn add_cluster(&mut self, number: usize, catalogue: &SharedCatalogue) {
        let process = number % self.processes.len();
        let name = ClusterName::from(format!("c{number}"));
        let Process { region, runner, .. } = &self.processes[process];
        let of_cluster = Scope::cluster(&name);
        let granted = runner.store.acquire_lease(&of_cluster, &runner.lease.owner, 0, DAY);
        let Some(Ok(LeaseOutcome::Granted { lease, .. })) = granted.now_or_never() else {
            panic!("no lease of {name}")
        };
        runner.fence.extend(&lease, runner.fence.now(), DAY);
        let settings = ClusterSettings { region: Arc::clone(region), scope: scope(), seed: process as u64 };
        let cluster = OwnedCluster::new(name, lease, &settings);
        self.clusters.push((cluster, process, None));
        // Spread over a minute, as retries of clusters are.
        let from = if number == 0 { 0 } else { OTHERS_MS + i64::try_from(number).unwrap() * MINUTE / 1_000 };
        let mut kube = SimulatedCluster::new(KubeSettings { seed: number as u64, ..KubeSettings::default() });
        kube.scale(&workload("web", 500, GIB, None), 1, Timestamp::from_millis(from));
        // kube-scheduler finds no node.
        kube.tick(Timestamp::from_millis(from));
        let mut snapshot = kube.snapshot();
        snapshot.pools = vec![pool(catalogue, Resources::new())];
        let observation = Observation::Snapshot(Box::new(snapshot));
        let events = [
            Event::LeaseAcquired { uid: "uid".into(), launches: Vec::new() },
            Event::AgentConnected,
            Event::Observed(observation),
        ];
        for event in events {
            self.add(from, Work::Input(number, ClusterInput::Event(event)));
        }
    }

    fn time(&self) -> Timestamp {
        Timestamp::from_millis(self.now.load(Ordering::Relaxed))
    }

    fn add(&mut self, after_ms: i64, work: Work) {
        self.sequence += 1;
        self.work.insert((self.time() + Millis::new(after_ms), self.sequence), work);
    }

    fn run_until(&mut self, end: Timestamp) {
        while let Some(entry) = self.work.first_entry().filter(|entry| entry.key().0 <= end) {
            let ((at, _), work) = entry.remove_entry();
            self.now.store(at.as_millis(), Ordering::Relaxed);
            match work {
                Work::Input(cluster, input) => self.step(cluster, input),
                Work::Call(cluster, call) => self.call(cluster, call),
                Work::ReadOfferings(process) => {
                    let Process { region, runner, .. } = &self.processes[process];
                    let read = change_feed::read_offerings(&*runner.store, &scope()).now_or_never();
                    region.apply(read.expect("a store in memory answers at once").expect("it answers"), at);
                    self.add(FEED_MS, Work::ReadOfferings(process));
                }
            }
        }
    }

    fn step(&mut self, cluster: usize, input: ClusterInput) {
        let now = self.time();
        let (owned, process, wakes_at) = &mut self.clusters[cluster];
        if matches!(input, ClusterInput::Time) {
            if wakes_at.is_none_or(|at| at > now) {
                return;
            }
            *wakes_at = None;
        }
        let outputs = owned.handle(input, now);
        let (process, next) = (*process, owned.next_wakeup());
        for output in outputs {
            self.carry_out(cluster, process, output);
        }
        let wakes_at = &mut self.clusters[cluster].2;
        if let Some(next) =
            next.map(|at| at.max(now + Millis::new(1))).filter(|next| wakes_at.is_none_or(|at| *next < at))
        {
            *wakes_at = Some(next);
            self.add(next.duration_since(now).get(), Work::Input(cluster, ClusterInput::Time));
        }
    }

    fn carry_out(&mut self, cluster: usize, process: usize, output: Output) {
        let event = match output {
            Output::Call(call) => {
                let is_launch =
                    matches!(&call, Call::RunCommand { call: ClusterCall::Launch(_) | ClusterCall::Relaunch(_), .. });
                return self.add(if is_launch { CLOUD_MS } else { STORE_MS }, Work::Call(cluster, call));
            }
            Output::Plan(job) => Event::Planned(Box::new(self.processes[process].worker.answer(job.into_request()))),
            Output::Instruct { id, .. } => Event::InstructionAcked(id),
            Output::Accept { .. } | Output::Refuse { .. } | Output::Resync { .. } | Output::PublishView(_) => return,
        };
        self.add(STORE_MS, Work::Input(cluster, ClusterInput::Event(event)));
    }

    fn call(&mut self, cluster: usize, call: Call) {
        let runner = &self.processes[self.clusters[cluster].1].runner;
        let answer = runner.run(call).now_or_never().expect("store and cloud answer at once");
        let input = match answer {
            Input::CommandEnded { id, outcome, .. } => ClusterInput::CommandEnded { id, outcome },
            Input::ClusterEvent(event) => ClusterInput::Event(event.event),
            _ => return,
        };
        self.add(STORE_MS, Work::Input(cluster, input));
    }
}

/// Refusals in the first hour of a fleet whose replicas have these stores.
fn refusals_in_an_hour(stores: &[usize]) -> u64 {
    let mut fleet = Fleet::new(stores);
    fleet.run_until(Timestamp::from_millis(60 * MINUTE - 1));
    let refused = fleet.cloud.cloud().ledger().refused;
    println!("{CLUSTERS} clusters of {} replicas: {refused} refusals in an hour", stores.len());
    refused
}

#[test]
fn a_dead_offering_costs_a_thousand_clusters_of_one_replica_ten_refusals_an_hour_at_most() {
    // At 0, 30, 90, 210, 450, 930, 1530, 2130, 2730 and 3330 s at the earliest. Retries and calls delay each by some
    // seconds, and the last comes 270 s before the end of the hour.
    assert_eq!(refusals_in_an_hour(&[0]), 10);
}

#[test]
fn two_replicas_that_share_a_store_are_refused_as_often_as_one() {
    assert_eq!(refusals_in_an_hour(&[0, 0]), 10);
}

#[test]
fn sabotage_without_a_common_store_each_replica_probes_for_itself() {
    // Ten each, and those of the second replica that were under way at its first refusal.
    assert!(refusals_in_an_hour(&[0, 1]) >= 20);
}
