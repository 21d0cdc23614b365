//! A cluster whose lease this process holds: its controller, and its commands in flight.
//!
//! Clusters depend on each other only through [`RegionState`], so that each may be stepped by a
//! task of its own.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use controller::executor::{Command, CommandId, Executor, Operation, Outcome};
use controller::unavailable_offerings::PROBE_LEASE;
use controller::{ClusterController, Effect, Event, RegionState, StepView};
use model::{ClusterName, Text, Timestamp};
use rustc_hash::FxHasher;
use tracing::{debug, warn};

use super::call::Call;
use super::events::deadline;
use super::output::Output;
use store::lease::{Lease, Scope};

#[derive(Debug)]
pub enum ClusterInput {
    /// An event of its agent, of the cloud or of an operator.
    Event(Event),
    /// Answer to [`Call::RunCommand`].
    CommandEnded { id: CommandId, outcome: Outcome },
    /// Deadlines may be due, or the limits of the whole fleet have changed.
    Time,
}

/// What all clusters of one process have in common.
#[derive(Debug, Clone)]
pub struct ClusterSettings {
    pub region: Arc<RegionState>,
    pub scope: Scope,
    pub seed: u64,
}

/// A cluster whose lease this process holds.
#[derive(Debug)]
pub struct OwnedCluster {
    cluster: ClusterName,
    lease: Lease,
    controller: ClusterController,
    executor: Executor,
    region: Arc<RegionState>,
    scope: Scope,
    /// This process, as probes of offerings name it.
    probe_holder: String,
}

impl OwnedCluster {
    /// A cluster whose lease was acquired.
    #[must_use]
    pub fn new(cluster: ClusterName, lease: Lease, settings: &ClusterSettings) -> Self {
        let ClusterSettings { region, scope, seed } = settings;
        let mut hasher = FxHasher::default();
        (seed, &cluster).hash(&mut hasher);
        Self {
            controller: ClusterController::new(cluster.clone(), Arc::clone(region)),
            executor: Executor::new(hasher.finish()),
            cluster,
            lease,
            region: Arc::clone(region),
            scope: scope.clone(),
            probe_holder: format!("{:x}/{seed:x}", region.settings().identity),
        }
    }

    /// The lease was acquired again: what follows is covered by the new one.
    pub fn replace_lease(&mut self, lease: Lease) {
        self.lease = lease;
    }

    /// Handles `input` and returns the actions in order.
    pub fn handle(&mut self, input: ClusterInput, now: Timestamp) -> Vec<Output> {
        // The answer to an instruction or call first ends its command, so that the commands that
        // waited for it precede those of new decisions.
        let (due, event) = match input {
            ClusterInput::Event(event) => (self.executor.observe(&event, now).into_iter().collect(), Some(event)),
            ClusterInput::CommandEnded { id, outcome } => {
                if let Err(retry) = &outcome {
                    debug!(cluster = %self.cluster, command = id.0, why = retry.why, "command will be retried");
                }
                let (event, next) = self.executor.handle_outcome(id, outcome, now);
                (next.into_iter().collect(), event)
            }
            ClusterInput::Time => (self.executor.tick(now), Some(Event::Tick)),
        };
        let effects = event.map(|event| self.controller.handle(event, now)).unwrap_or_default();
        let mut outputs = self.publish_offerings();
        outputs.extend(due.into_iter().map(|command: Command| self.send(command, now)));
        outputs.extend(effects.into_iter().filter_map(|effect| self.start(effect, now)));
        outputs
    }

    /// Latest time of the next [`ClusterInput::Time`].
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        [self.controller.next_wakeup(), self.executor.next_wakeup()].into_iter().flatten().min()
    }

    /// Whether [`ClusterInput::Time`] is due because the limits of the whole fleet have changed.
    #[must_use]
    pub fn is_outdated(&self) -> bool {
        self.controller.is_outdated()
    }

    /// What reports read.
    #[must_use]
    pub fn step_view(&self, now: Timestamp) -> StepView<'_> {
        self.controller.step_view(now)
    }

    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.lease.epoch
    }

    /// UID of the cluster; empty before its agent has ever connected.
    #[must_use]
    pub fn uid(&self) -> &Text {
        self.controller.uid()
    }

    /// The controller, for what a simulation checks.
    #[must_use]
    pub fn controller(&self) -> &ClusterController {
        &self.controller
    }

    fn publish_offerings(&self) -> Vec<Output> {
        let updates = self.region.take_offering_updates();
        if updates.is_empty() {
            return Vec::new();
        }
        let (scope, holder) = (self.scope.clone(), self.probe_holder.clone());
        vec![Output::Call(Call::PublishOfferings { scope, updates, holder })]
    }

    fn start(&mut self, effect: Effect, now: Timestamp) -> Option<Output> {
        match effect {
            Effect::Plan(job) => Some(Output::Plan(job)),
            Effect::Resync(reason) => Some(Output::Resync { cluster: self.cluster.clone(), reason }),
            Effect::PublishView => Some(Output::PublishView(self.cluster.clone())),
            Effect::ReportFinding(finding) => {
                warn!(cluster = %self.cluster, %finding, "controller warning");
                None
            }
            Effect::ClaimProbes(keys) => {
                let (cluster, scope) = (self.cluster.clone(), self.scope.clone());
                let (holder, until) = (self.probe_holder.clone(), now + PROBE_LEASE);
                Some(Output::Call(Call::ClaimProbes { cluster, scope, keys, holder, until }))
            }
            Effect::Instruct { id, instruction } => self.execute(Operation::Instruct { id, instruction }, now),
            Effect::Call(call) => self.execute(Operation::Call(call), now),
        }
    }

    fn execute(&mut self, operation: Operation, now: Timestamp) -> Option<Output> {
        self.executor.start(operation, now).map(|command| self.send(command, now))
    }

    fn send(&self, Command { id, operation, answer_by }: Command, now: Timestamp) -> Output {
        let cluster = self.cluster.clone();
        match operation {
            Operation::Instruct { id, instruction } => {
                let deadline = deadline(&instruction, now);
                Output::Instruct { cluster, id, instruction, deadline }
            }
            Operation::Call(call) => {
                Output::Call(Call::RunCommand { cluster, id, call, answer_by, lease: self.lease.clone() })
            }
        }
    }
}

impl Drop for OwnedCluster {
    /// Its machines are counted by the next owner.
    fn drop(&mut self) {
        self.region.forget_cluster(&self.cluster);
    }
}
