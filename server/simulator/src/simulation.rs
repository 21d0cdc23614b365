//! Everything together: the real controller and the real executor, a simulated cloud, simulated clusters, one virtual
//! clock, one seed. Equal seeds and scripts give equal runs.
//!
//! Each step goes to the next moment at which anything happens, lets it happen, and checks the [`invariants`]. Latencies
//! of store, cloud and agents are drawn by seed; agents may be cut off and come back.
//!
//! Reading order: [`stage`] (what the run is made of), `hands` (carrying commands out), [`invariants`], [`report`].

mod hands;
pub mod invariants;
pub mod report;
pub mod stage;

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
pub use stage::{Act, Scene, Setup};

/// Steps at one and the same moment after which a run is taken to be stuck.
const STUCK: u32 = 20_000;

/// A run of the whole system.
#[derive(Debug)]
pub struct Simulation {
    now: Timestamp,
    dice: SeededRng,
    controller: RegionController,
    worker: PlanWorker,
    executor: Executor,
    cloud: SimulatedCloud,
    clusters: BTreeMap<ClusterId, Scene>,
    /// What happens at which moment, besides what cloud, clusters, controller and executor do by themselves.
    agenda: BTreeMap<(Timestamp, u64), Happening>,
    happenings: u64,
    /// Drains that agents have taken on: by cluster and NodeClaim, the command to answer.
    drains: BTreeMap<(ClusterId, Text), CommandId>,
    /// What must never be, and was.
    violations: BTreeSet<Violation>,
    decisions: u64,
    /// Machines sold when the invariants were last checked.
    bought: usize,
}

/// Something that happens at a moment.
#[derive(Debug)]
enum Happening {
    /// The script says so.
    Act(Act),
    /// A command reaches whoever carries it out.
    Arrive(CommandId, Command),
    /// An outcome comes back.
    Answer(CommandId, Outcome),
}

impl Simulation {
    /// A run that has not begun. Agents connect at moment zero, each with its snapshot.
    #[must_use]
    pub fn new(setup: Setup, planner: Planner) -> Self {
        let settings = Settings { identity: setup.seed, ..setup.settings };
        let mut simulation = Self {
            now: Timestamp(0),
            dice: SeededRng::new(setup.seed).child("simulation"),
            controller: RegionController::new(settings),
            worker: PlanWorker::new(planner),
            executor: Executor::new(setup.seed),
            cloud: setup.cloud,
            clusters: setup.scenes,
            agenda: BTreeMap::new(),
            happenings: 0,
            drains: BTreeMap::new(),
            violations: BTreeSet::new(),
            decisions: 0,
            bought: 0,
        };
        let names: Vec<ClusterId> = simulation.clusters.keys().cloned().collect();
        for cluster in names {
            simulation.at(0, Happening::Act(Act::Connect { cluster }));
        }
        for (at_ms, act) in setup.script {
            simulation.at(at_ms, Happening::Act(act));
        }
        simulation
    }

    fn at(&mut self, wait_ms: i64, happening: Happening) {
        self.happenings += 1;
        let moment = Timestamp(self.now.0.saturating_add(wait_ms));
        self.agenda.insert((moment, self.happenings), happening);
    }

    /// Runs until `end_ms`, or until an invariant breaks, and says how it went.
    pub fn run(&mut self, end_ms: i64) -> Report {
        let mut at_once = 0;
        while let Some(next) = self.next_moment().filter(|next| next.0 <= end_ms) {
            at_once = if next <= self.now { at_once + 1 } else { 0 };
            self.now = self.now.max(next);
            if at_once > STUCK {
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

    /// What cloud and clusters look like.
    #[must_use]
    pub fn cloud(&self) -> &SimulatedCloud {
        &self.cloud
    }

    /// The simulated cluster of that name.
    #[must_use]
    pub fn cluster(&self, name: &str) -> Option<&SimulatedCluster> {
        self.clusters.get(name).map(|scene| &scene.cluster)
    }

    /// The controller.
    #[must_use]
    pub fn controller(&self) -> &RegionController {
        &self.controller
    }

    fn next_moment(&self) -> Option<Timestamp> {
        let clusters = self.clusters.values().filter_map(|scene| scene.cluster.next_event());
        let scripted = self.agenda.keys().next().map(|(at, _)| *at);
        let machines = [scripted, self.cloud.next_event(), self.controller.next_wakeup(), self.executor.next_wakeup()];
        machines.into_iter().flatten().chain(clusters).min()
    }

    fn step(&mut self) {
        while let Some(entry) = self.agenda.first_entry().filter(|entry| entry.key().0 <= self.now) {
            match entry.remove() {
                Happening::Act(act) => self.act(act),
                Happening::Arrive(id, command) => self.carry_out(id, &command),
                Happening::Answer(id, outcome) => {
                    let steps = self.executor.outcome(id, outcome, self.now);
                    self.follow(steps);
                }
            }
        }
        for event in self.cloud.tick(self.now) {
            self.cloud_says(event);
        }
        let names: Vec<ClusterId> = self.clusters.keys().cloned().collect();
        for name in &names {
            self.watch(name);
        }
        let steps = self.executor.tick(self.now);
        self.follow(steps);
        if self.controller.next_wakeup().is_some_and(|at| at <= self.now) {
            self.tell(Event::Tick);
        }
        self.check_each_step();
    }

    fn cloud_says(&mut self, event: CloudEvent) {
        match event {
            CloudEvent::Running(_) => {}
            CloudEvent::Interrupted { instance, at } => {
                let reason = Text::from(format!("EC2 takes spot instance {} back at {} ms", instance.id, at.0));
                let (cluster, provider_id) = (instance.cluster, instance.provider_id);
                self.tell(Event::Interrupted { cluster, provider_id, reason });
            }
            CloudEvent::Terminated(instance) => {
                let (cluster, provider_id) = (instance.cluster, instance.provider_id);
                self.tell(Event::InstanceGone { cluster, provider_id });
            }
        }
    }

    fn watch(&mut self, name: &ClusterId) {
        let Some(scene) = self.clusters.get_mut(name) else { return };
        let changes = scene.cluster.tick(self.now);
        let connected = scene.connected;
        for change in changes.into_iter().filter(|_| connected) {
            match change {
                Change::Observed(observation) => self.tell(Event::Observed { cluster: name.clone(), observation }),
                Change::Drained { claim } => {
                    if let Some(id) = self.drains.remove(&(name.clone(), claim)) {
                        self.at(0, Happening::Answer(id, Outcome::Done));
                    }
                }
            }
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Connect { cluster } => self.connect(&cluster),
            Act::Disconnect { cluster } => {
                if let Some(scene) = self.clusters.get_mut(&cluster) {
                    scene.connected = false;
                    self.tell(Event::AgentDisconnected { cluster });
                }
            }
            Act::Scale { cluster, workload, replicas } => {
                if let Some(scene) = self.clusters.get_mut(&cluster) {
                    scene.cluster.scale(&workload, replicas, self.now);
                }
            }
            Act::Capacity { available } => self.cloud.weather_mut().no_capacity = !available,
            Act::Interrupt { cluster } => {
                let alive = self.cloud.book().alive().filter(|entry| entry.instance.cluster == cluster);
                let ids: Vec<Text> = alive.map(|entry| entry.instance.id.clone()).collect();
                let now = self.now;
                ids.iter().any(|id| self.cloud.interrupt(id, now));
            }
        }
    }

    fn connect(&mut self, cluster: &ClusterId) {
        let Some(scene) = self.clusters.get_mut(cluster) else { return };
        scene.connected = true;
        // Machines are given back by name and UID, and the controller learns the UID with the cluster's lease.
        if !std::mem::replace(&mut scene.leased, true) {
            let uid = Text::from(format!("uid of {cluster}"));
            self.tell(Event::Adopted { cluster: cluster.clone(), uid, launches: Vec::new() });
        }
        self.tell(Event::AgentConnected { cluster: cluster.clone() });
        self.show_again(cluster);
    }

    /// The agent, if it is there, sends a snapshot.
    fn show_again(&mut self, cluster: &ClusterId) {
        let Some(scene) = self.clusters.get_mut(cluster).filter(|scene| scene.connected) else { return };
        let snapshot = ClusterSnapshot { pools: scene.pools.clone(), ..scene.cluster.snapshot() };
        let observation = Observation::Snapshot(Box::new(snapshot));
        self.tell(Event::Observed { cluster: cluster.clone(), observation });
    }

    fn tell(&mut self, event: Event) {
        self.executor.heard(&event);
        for effect in self.controller.handle(event, self.now) {
            let steps = self.executor.start(effect, self.now);
            self.follow(steps);
        }
    }

    fn follow(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Tell(event) => self.tell(*event),
                Step::Plan(request) => {
                    let answer = self.worker.answer(*request);
                    self.tell(Event::Planned(Box::new(answer)));
                }
                Step::Publish { .. } | Step::Report { .. } => {}
                Step::Resync { cluster, .. } => self.show_again(&cluster),
                Step::Run { id, command, .. } => self.send(id, command),
            }
        }
    }

    fn pools_of(&self, cluster: &ClusterId) -> &[PoolRecord] {
        self.clusters.get(cluster).map_or(&[], |scene| &scene.pools)
    }
}

#[cfg(test)]
mod tests;
