//! Deterministic simulation of the whole system: real planner, controller, replicas, sessions
//! and agent links; simulated clusters, cloud and store; several server processes; a virtual clock; and
//! injected faults.
//!
//! Equal seeds give equal runs. Each step advances the clock to the next event, handles it and
//! checks the invariants. After the last fault the system gets time to come to rest, and then
//! nothing may be left over.
//!
//! The README beside these files lists every invariant with the guard whose absence breaks it.
//!
//! Reading order: [`setup`] (what a run consists of), [`fault`] (injected faults), [`guard`] and
//! `scenario` (what prevents violations, and runs that need it), `disruption_runs` (runs of drift and budgets), `event_queue` (pending events and
//! connections), `process` (a server), `sim_cluster` (a cluster and its agent), `environment` and
//! `faulty_client` (store and cloud), `virtual_time`, `invariants`, `drain_check` and `spread_check` (the checks) and [`violation`]
//! (their results), [`report`], [`seeds`] (many seeds, and shrinking), [`long_run`] (months of load without faults).

mod disruption_runs;
mod drain_check;
mod environment;
mod event_queue;
pub mod fault;
mod faulty_client;
pub mod guard;
mod inject;
mod invariants;
pub mod long_run;
mod process;
pub mod report;
mod scenario;
pub mod seeds;
pub mod setup;
mod sim_cluster;
mod spread_check;
mod spread_record;
pub mod violation;
mod virtual_time;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cloud::provider::CloudEvent;
use controller::view::ClusterView;
use model::{ClaimName, ClusterName, Millis, Text, Timestamp};

use environment::{Environment, ProcessId};
use event_queue::{AgentMessage, EventQueue, ProcessMessage, SimEvent};
use fault::Fault;
use process::{Process, ProcessConfig};
use report::Report;
use setup::{RateBounds, Setup};
use sim_cluster::SimCluster;
use violation::Violation;
use virtual_time::VirtualClock;

/// Delay from a cloud event to the server's poll, in milliseconds. A server polls every quarter of
/// a second.
const CLOUD_POLL_MS: i64 = 250;
/// Number of steps at one moment that counts as stuck.
const STUCK: u32 = 20_000;
/// Interval of the checks for invariants over time.
const CHECK_INTERVAL: Millis = Millis::from_secs(5);

/// Interval between two actions of the operator, in milliseconds.
const OPERATOR_INTERVAL_MS: i64 = 120_000;
/// State that the checks keep from step to step.
#[derive(Debug, Default)]
struct CheckHistory {
    /// Launched instances at the last check of limits.
    launched: usize,
    /// Launch times by cluster; kept only if rate bounds are checked.
    launches: BTreeMap<ClusterName, Vec<Timestamp>>,
    /// NodeClaims with a launch call while they existed: cluster and name.
    launch_called: BTreeSet<(ClusterName, ClaimName)>,
    /// Since when instances have had neither a NodeClaim nor a drain.
    unclaimed: BTreeMap<Text, Timestamp>,
    /// Since when clusters have had empty nodes of which none is removed; kept only if checked.
    empty: BTreeMap<ClusterName, Timestamp>,
}

pub(crate) struct Simulation {
    seed: u64,
    events: EventQueue,
    process_config: ProcessConfig,
    processes: Vec<Process>,
    sim_clusters: Vec<SimCluster>,
    history: CheckHistory,
    violations: BTreeSet<Violation>,
    steps: u64,
    last_checked: Timestamp,
    /// Whether past listings are kept, for stale lists.
    needs_listing_history: bool,
    /// When the last fault has ended.
    faults_end: Timestamp,
    /// Bounds on instances launched and removed within a window, if checked.
    rate_bounds: Option<RateBounds>,
    /// How long empty nodes may exist while none is removed, if checked.
    empty_for: Option<Millis>,
    /// Whether every pod of a workload fills a node, so that new machines are counted.
    one_pod_per_node: bool,
    moves_once: bool,
    /// By this moment the system must be at rest.
    end: Timestamp,
}

impl Simulation {
    pub fn new(setup: Setup, trace: bool) -> Self {
        // Events at the same moment happen in the order of these calls.
        let environment = Arc::new(Environment::new(setup.seed, VirtualClock::new(), setup.cloud));
        let mut events = EventQueue::new(setup.seed, environment, trace);
        for process in 0..setup.processes {
            events.schedule_after(0, SimEvent::StartProcess { process });
        }
        for sim_cluster in 0..setup.sim_clusters.len() {
            events.schedule_after(0, SimEvent::StartAgent { sim_cluster });
        }
        events.schedule_after(OPERATOR_INTERVAL_MS, SimEvent::ReviewQuarantines);
        for (at_ms, sim_cluster, workload, replicas) in setup.scale_events {
            events.schedule_after(at_ms, SimEvent::Scale { sim_cluster, workload, replicas });
        }
        for timed in &setup.faults {
            events.schedule_after(timed.at_ms, SimEvent::Fault(timed.fault));
        }
        Self {
            seed: setup.seed,
            events,
            process_config: setup.process_config,
            processes: (0..setup.processes).map(Process::new).collect(),
            sim_clusters: setup.sim_clusters,
            history: CheckHistory::default(),
            violations: BTreeSet::new(),
            steps: 0,
            last_checked: Timestamp::from_millis(0),
            needs_listing_history: setup.faults.iter().any(|timed| matches!(timed.fault, Fault::StaleLists { .. })),
            faults_end: Timestamp::from_millis(setup.faults_end_ms),
            rate_bounds: setup.rate_bounds,
            empty_for: setup.empty_for,
            one_pod_per_node: setup.one_pod_per_node,
            moves_once: setup.moves_once,
            end: Timestamp::from_millis(setup.faults_end_ms) + Millis::new(setup.rest_within_ms),
        }
    }

    /// Runs to the end and reports.
    pub fn run(mut self) -> Report {
        self.run_to_rest();
        self.report()
    }

    fn report(self) -> Report {
        let cloud = self.events.environment.cloud();
        Report {
            seed: self.seed,
            ended_ms: self.events.now().as_millis(),
            steps: self.steps,
            faults: self.events.faults.clone(),
            effects: self.events.environment.ledger().effects.clone(),
            instructions: self.sim_clusters.iter().map(|sim_cluster| sim_cluster.ledger.instructions).sum(),
            launched: cloud.ledger().launched_count() as u64,
            pods_ran: self.sim_clusters.iter().map(|sim_cluster| sim_cluster.cluster.ledger().pods_ran).sum(),
            violations: self.violations.clone(),
        }
    }

    /// Runs until the system is at rest after the last fault, until the deadline for that, or until
    /// an invariant breaks.
    fn run_to_rest(&mut self) {
        let mut at_once = 0;
        let mut at_rest = false;
        while let Some(next) = self.next_moment().filter(|next| *next <= self.end) {
            at_once = if next <= self.events.now() { at_once + 1 } else { 0 };
            if at_once > STUCK {
                self.violations.insert(Violation::Stuck { at: next });
            }
            self.step_at(next);
            let checks_due = self.events.now().duration_since(self.last_checked) >= CHECK_INTERVAL;
            self.check(checks_due);
            if !self.violations.is_empty() {
                break;
            }
            if checks_due {
                self.last_checked = self.events.now();
                if self.needs_listing_history {
                    self.events.environment.remember_listing();
                }
                at_rest = self.last_checked >= self.faults_end && self.violations_at_rest().is_empty();
                if at_rest {
                    break;
                }
            }
        }
        if !at_rest && self.violations.is_empty() {
            self.violations.extend(self.violations_at_rest());
        }
    }

    /// Time first, then the step, then its check follows: a violation names the step that caused it.
    fn step_at(&mut self, next: Timestamp) {
        self.events.environment.clock_source.set(next.max(self.events.now()));
        self.step();
    }

    fn next_moment(&self) -> Option<Timestamp> {
        let clusters = self.sim_clusters.iter().filter_map(|sim_cluster| sim_cluster.cluster.next_event());
        let processes = self.processes.iter().filter_map(Process::next_wakeup);
        let rest = [self.events.next_event_at(), self.events.environment.cloud().next_event()];
        rest.into_iter().flatten().chain(clusters).chain(processes).min()
    }

    fn step(&mut self) {
        let before = self.steps;
        while let Some((number, event)) = self.events.pop_due() {
            if self.steps - before > u64::from(STUCK) {
                self.violations.insert(Violation::Stuck { at: self.events.now() });
                return;
            }
            self.steps += 1;
            self.handle_event(number, event);
            self.apply_triggers();
        }
        let now = self.events.now();
        let cloud_events = self.events.environment.cloud().tick(now);
        for event in cloud_events {
            self.deliver_cloud_event(&event);
        }
        for sim_cluster in &mut self.sim_clusters {
            sim_cluster.advance(&mut self.events);
        }
        for at in 0..self.processes.len() {
            if self.processes[at].next_wakeup().is_some_and(|due| due <= now) && self.survives_step(at) {
                self.steps += 1;
                self.processes[at].time_passed(&mut self.events);
                self.apply_triggers();
            }
        }
    }

    fn handle_event(&mut self, number: u64, event: SimEvent) {
        match event {
            SimEvent::Fault(fault) => self.inject(fault),
            SimEvent::Scale { sim_cluster, workload, replicas } => {
                let now = self.events.now();
                self.events.trace(|| format!("{} of cluster {sim_cluster} gets {replicas} replicas", workload.name));
                self.sim_clusters[sim_cluster].cluster.scale(&workload, replicas, now);
            }
            SimEvent::StartProcess { process } => {
                if self.processes[process].server.is_none() {
                    self.events.trace(|| format!("server {process} starts"));
                    self.processes[process].start(&self.process_config, &mut self.events);
                }
            }
            SimEvent::DeliverToProcess { to, what } => self.deliver(number, to, what),
            SimEvent::StartAgent { sim_cluster } => self.sim_clusters[sim_cluster].start(&mut self.events),
            SimEvent::EndEmptySnapshot { sim_cluster } => {
                self.sim_clusters[sim_cluster].set_empty_view(false, &mut self.events)
            }
            SimEvent::EndRelist { sim_cluster, gap } => {
                self.sim_clusters[sim_cluster].relist(gap, false, &mut self.events)
            }
            SimEvent::EndPartition { sim_cluster } => {
                self.sim_clusters[sim_cluster].set_partitioned(false, &mut self.events)
            }
            SimEvent::Thaw { freeze } => self.thaw(freeze),
            SimEvent::ReviewQuarantines => self.review_quarantines(),
            SimEvent::RepeatRelease { sim_cluster } => self.repeat_release(sim_cluster),
            SimEvent::EndJoinFailure { sim_cluster } => self.sim_clusters[sim_cluster].cluster.set_kubelets_join(true),
            SimEvent::DeliverToAgent { sim_cluster, generation, what } => {
                // A message to an earlier generation died with it.
                if self.sim_clusters[sim_cluster].generation != generation {
                    return;
                }
                if matches!(what, AgentMessage::Connect) {
                    return self.connect(sim_cluster);
                }
                self.sim_clusters[sim_cluster].handle_message(what, &mut self.events);
            }
        }
    }

    fn deliver(&mut self, number: u64, to: ProcessId, what: ProcessMessage) {
        let is_running = |process: &Process| process.id() == to && process.server.is_some();
        if !is_running(&self.processes[to.process]) {
            return;
        }
        let can_step = self.processes[to.process].paused_until <= self.events.now() && self.survives_step(to.process);
        if can_step {
            self.processes[to.process].handle_message(what, &mut self.events);
        } else if is_running(&self.processes[to.process]) {
            // After a pause, an answer precedes its timeout.
            let late = i64::from(matches!(what, ProcessMessage::Timeout { .. }));
            let until = self.processes[to.process].paused_until + Millis::new(late);
            self.events.postpone(until, number, SimEvent::DeliverToProcess { to, what });
        }
    }

    /// Applies a due kill or pause; returns whether the process takes its next step.
    fn survives_step(&mut self, at: usize) -> bool {
        if let Some(away_ms) = count_down(&mut self.processes[at].kill_after) {
            self.kill(at, away_ms);
            return false;
        }
        if let Some(for_ms) = count_down(&mut self.processes[at].pause_after) {
            self.pause(at, for_ms);
            return false;
        }
        true
    }

    /// Connects the agent of `sim_cluster` to a process; each attempt goes to the next one.
    fn connect(&mut self, sim_cluster: usize) {
        let now = self.events.now();
        let ready = |process: &Process| process.server.as_ref().is_some_and(|server| server.is_ready());
        let alive = |process: &Process| ready(process) && process.paused_until <= now;
        let reached: Vec<Option<ProcessId>> =
            self.processes.iter().map(|process| alive(process).then(|| process.id())).collect();
        let process_for = |attempt: u64| {
            usize::try_from(attempt.wrapping_add(sim_cluster as u64) % reached.len() as u64).unwrap_or(0)
        };
        self.sim_clusters[sim_cluster]
            .connect(|attempt| reached.get(process_for(attempt)).copied().flatten(), &mut self.events);
    }

    fn deliver_cloud_event(&mut self, event: &CloudEvent) {
        let now = self.events.now();
        if let CloudEvent::Terminated(instance) | CloudEvent::Interrupted { instance, .. } = event {
            let of_instance = |sim_cluster: &&mut SimCluster| sim_cluster.name == instance.cluster;
            if let Some(sim_cluster) = self.sim_clusters.iter_mut().find(of_instance) {
                sim_cluster.record_lost_capacity(&instance.claim, now);
            }
        }
        if let CloudEvent::Terminated(instance) = event {
            self.events.trace(|| format!("{} for {} has terminated", instance.provider_id, instance.claim));
            if let Some(sim_cluster) =
                self.sim_clusters.iter_mut().find(|sim_cluster| sim_cluster.name == instance.cluster)
            {
                sim_cluster.cluster.mark_machine_gone(&instance.provider_id, now);
            }
        }
        for process in &self.processes {
            let Some(server) = &process.server else { continue };
            if !server.cloud_client.has_events() {
                self.events.send_process(CLOUD_POLL_MS, process.id(), ProcessMessage::PollCloud);
            }
            server.cloud_client.push_event(event.clone());
        }
    }

    /// What the server that decides for the first cluster shows of it; `None` while there is none.
    fn view_of_first(&self, now: Timestamp) -> Option<ClusterView> {
        let name = &self.sim_clusters.first()?.name;
        let mut servers = self.processes.iter().filter_map(|process| process.server.as_ref());
        Some(servers.find_map(|server| server.replica.cluster(name))?.step_view(now).cluster_view())
    }
}

/// Counts one step down; returns the value when none is left.
fn count_down(due: &mut Option<(u32, i64)>) -> Option<i64> {
    let (steps, size) = due.as_mut()?;
    if *steps > 0 {
        *steps -= 1;
        return None;
    }
    let size = *size;
    *due = None;
    Some(size)
}

#[cfg(test)]
mod tests;
