//! The whole system: the production controller and executor, a simulated cloud, simulated clusters,
//! one virtual clock, one seed. Equal seeds and scenarios give equal runs.
//!
//! Each step advances the clock to the next event, processes it, and checks the [`invariants`].
//! Latencies of store, cloud and agents are drawn by seed; agents may disconnect and reconnect.
//!
//! Reading order: [`setup`] (input of a run), `commands` (carrying out commands), [`invariants`],
//! [`report`].

mod commands;
pub mod invariants;
pub mod report;
pub mod setup;

use std::collections::{BTreeMap, BTreeSet};

use cloud::provider::CloudEvent;
use cloud::simulated::{SeededRng, SimulatedCloud};
use engine::cluster::{ClusterSnapshot, Observation, PoolRecord};
use engine::control::{ClusterId, Event, PlanWorker, Planner, RegionController, Settings};
use engine::model::{Text, Timestamp};
use executor::{Command, CommandId, Executor, Outcome, Step};

use crate::cluster::{Change, SimulatedCluster};
pub use invariants::Violation;
pub use report::Report;
pub use setup::{ManagedCluster, ScenarioStep, Setup};

/// Steps without progress of time after which a run is considered stuck.
const MAX_STEPS_AT_ONE_TIME: u32 = 20_000;

/// A run of the whole system.
#[derive(Debug)]
pub struct Simulation {
    now: Timestamp,
    rng: SeededRng,
    controller: RegionController,
    worker: PlanWorker,
    executor: Executor,
    cloud: SimulatedCloud,
    clusters: BTreeMap<ClusterId, ManagedCluster>,
    /// Scheduled events other than those of cloud, clusters, controller and executor.
    event_queue: BTreeMap<(Timestamp, u64), SimEvent>,
    sequence: u64,
    /// Drains that agents carry out: by cluster and NodeClaim, the command to answer.
    drains: BTreeMap<(ClusterId, Text), CommandId>,
    /// Violated invariants.
    violations: BTreeSet<Violation>,
    decisions: u64,
    /// Launched instances when the invariants were last checked.
    launched_count: usize,
}

/// A scheduled event.
#[derive(Debug)]
enum SimEvent {
    /// A step of the scenario.
    Step(ScenarioStep),
    /// A command reaches the store, the cloud or an agent.
    Arrive(CommandId, Command),
    /// An outcome reaches the executor.
    Answer(CommandId, Outcome),
}

impl Simulation {
    /// A run before its first step. Agents connect at time zero, each with a snapshot.
    #[must_use]
    pub fn new(setup: Setup, planner: Planner) -> Self {
        let settings = Settings { identity: setup.seed, ..setup.settings };
        let mut simulation = Self {
            now: Timestamp(0),
            rng: SeededRng::new(setup.seed).child("simulation"),
            controller: RegionController::new(settings),
            worker: PlanWorker::new(planner),
            executor: Executor::new(setup.seed),
            cloud: setup.cloud,
            clusters: setup.clusters,
            event_queue: BTreeMap::new(),
            sequence: 0,
            drains: BTreeMap::new(),
            violations: BTreeSet::new(),
            decisions: 0,
            launched_count: 0,
        };
        let names: Vec<ClusterId> = simulation.clusters.keys().cloned().collect();
        for cluster in names {
            simulation.schedule(0, SimEvent::Step(ScenarioStep::Connect { cluster }));
        }
        for (at_ms, step) in setup.steps {
            simulation.schedule(at_ms, SimEvent::Step(step));
        }
        simulation
    }

    fn schedule(&mut self, wait_ms: i64, event: SimEvent) {
        self.sequence += 1;
        let moment = Timestamp(self.now.0.saturating_add(wait_ms));
        self.event_queue.insert((moment, self.sequence), event);
    }

    /// Runs until `end_ms`, or until an invariant is violated.
    pub fn run(&mut self, end_ms: i64) -> Report {
        let mut at_once = 0;
        while let Some(next) = self.next_moment().filter(|next| next.0 <= end_ms) {
            at_once = if next <= self.now { at_once + 1 } else { 0 };
            self.now = self.now.max(next);
            if at_once > MAX_STEPS_AT_ONE_TIME {
                self.violations.insert(Violation::Stuck { at: self.now });
            }
            if !self.violations.is_empty() {
                break;
            }
            self.step();
        }
        self.now = self.now.max(Timestamp(end_ms));
        self.report()
    }

    /// The simulated cloud.
    #[must_use]
    pub fn cloud(&self) -> &SimulatedCloud {
        &self.cloud
    }

    /// The simulated cluster of that name.
    #[must_use]
    pub fn cluster(&self, name: &str) -> Option<&SimulatedCluster> {
        self.clusters.get(name).map(|managed| &managed.cluster)
    }

    /// The controller.
    #[must_use]
    pub fn controller(&self) -> &RegionController {
        &self.controller
    }

    fn next_moment(&self) -> Option<Timestamp> {
        let clusters = self.clusters.values().filter_map(|managed| managed.cluster.next_event());
        let scripted = self.event_queue.keys().next().map(|(at, _)| *at);
        let machines = [scripted, self.cloud.next_event(), self.controller.next_wakeup(), self.executor.next_wakeup()];
        machines.into_iter().flatten().chain(clusters).min()
    }

    fn step(&mut self) {
        while let Some(entry) = self.event_queue.first_entry().filter(|entry| entry.key().0 <= self.now) {
            match entry.remove() {
                SimEvent::Step(step) => self.apply_step(step),
                SimEvent::Arrive(id, command) => self.execute(id, &command),
                SimEvent::Answer(id, outcome) => {
                    let steps = self.executor.outcome(id, outcome, self.now);
                    self.run_steps(steps);
                }
            }
        }
        for event in self.cloud.tick(self.now) {
            self.handle_cloud_event(event);
        }
        let names: Vec<ClusterId> = self.clusters.keys().cloned().collect();
        for name in &names {
            self.deliver_changes(name);
        }
        let steps = self.executor.tick(self.now);
        self.run_steps(steps);
        if self.controller.next_wakeup().is_some_and(|at| at <= self.now) {
            self.handle_event(Event::Tick);
        }
        self.check_invariants();
    }

    fn handle_cloud_event(&mut self, event: CloudEvent) {
        match event {
            CloudEvent::Running(_) => {}
            CloudEvent::Interrupted { instance, at } => {
                let reason = Text::from(format!("EC2 interrupts spot instance {} at {} ms", instance.id, at.0));
                let (cluster, provider_id) = (instance.cluster, instance.provider_id);
                self.handle_event(Event::Interrupted { cluster, provider_id, reason });
            }
            CloudEvent::Terminated(instance) => {
                let (cluster, provider_id) = (instance.cluster, instance.provider_id);
                self.handle_event(Event::InstanceGone { cluster, provider_id });
            }
        }
    }

    fn deliver_changes(&mut self, name: &ClusterId) {
        let Some(managed) = self.clusters.get_mut(name) else { return };
        let changes = managed.cluster.tick(self.now);
        let connected = managed.connected;
        for change in changes.into_iter().filter(|_| connected) {
            match change {
                Change::Observed(observation) => {
                    self.handle_event(Event::Observed { cluster: name.clone(), observation })
                }
                Change::Drained { claim } => {
                    if let Some(id) = self.drains.remove(&(name.clone(), claim)) {
                        self.schedule(0, SimEvent::Answer(id, Outcome::Done));
                    }
                }
            }
        }
    }

    fn apply_step(&mut self, step: ScenarioStep) {
        match step {
            ScenarioStep::Connect { cluster } => self.connect(&cluster),
            ScenarioStep::Disconnect { cluster } => {
                if let Some(managed) = self.clusters.get_mut(&cluster) {
                    managed.connected = false;
                    self.handle_event(Event::AgentDisconnected { cluster });
                }
            }
            ScenarioStep::Scale { cluster, workload, replicas } => {
                if let Some(managed) = self.clusters.get_mut(&cluster) {
                    managed.cluster.scale(&workload, replicas, self.now);
                }
            }
            ScenarioStep::Capacity { available } => self.cloud.faults_mut().no_capacity = !available,
            ScenarioStep::Interrupt { cluster } => {
                let active = self.cloud.ledger().active().filter(|entry| entry.instance.cluster == cluster);
                let ids: Vec<Text> = active.map(|entry| entry.instance.id.clone()).collect();
                let now = self.now;
                ids.iter().any(|id| self.cloud.interrupt(id, now));
            }
        }
    }

    fn connect(&mut self, cluster: &ClusterId) {
        let Some(managed) = self.clusters.get_mut(cluster) else { return };
        managed.connected = true;
        // Instances are terminated by owner name and UID, and the controller learns the UID with
        // the lease.
        if !std::mem::replace(&mut managed.leased, true) {
            let uid = Text::from(format!("uid of {cluster}"));
            self.handle_event(Event::LeaseAcquired { cluster: cluster.clone(), uid, launches: Vec::new() });
        }
        self.handle_event(Event::AgentConnected { cluster: cluster.clone() });
        self.send_snapshot(cluster);
    }

    /// Sends a snapshot, if the agent is connected.
    fn send_snapshot(&mut self, cluster: &ClusterId) {
        let Some(managed) = self.clusters.get_mut(cluster).filter(|managed| managed.connected) else { return };
        let snapshot = ClusterSnapshot { pools: managed.pools.clone(), ..managed.cluster.snapshot() };
        let observation = Observation::Snapshot(Box::new(snapshot));
        self.handle_event(Event::Observed { cluster: cluster.clone(), observation });
    }

    fn handle_event(&mut self, event: Event) {
        self.executor.observe(&event);
        for effect in self.controller.handle(event, self.now) {
            let steps = self.executor.start(effect, self.now);
            self.run_steps(steps);
        }
    }

    fn run_steps(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Handle(event) => self.handle_event(*event),
                Step::Plan(request) => {
                    let answer = self.worker.answer(*request);
                    self.handle_event(Event::Planned(Box::new(answer)));
                }
                Step::Publish { .. } | Step::Report { .. } => {}
                Step::Resync { cluster, .. } => self.send_snapshot(&cluster),
                Step::Run { id, command, .. } => self.send(id, command),
            }
        }
    }

    fn pools_of(&self, cluster: &ClusterId) -> &[PoolRecord] {
        self.clusters.get(cluster).map_or(&[], |managed| &managed.pools)
    }
}

#[cfg(test)]
mod tests;
