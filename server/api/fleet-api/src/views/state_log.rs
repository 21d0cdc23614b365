//! Log lines for what changes in the state of a cluster: agent, guardrails, autoscalers and nodes.
//! Decisions, launches and terminations are logged where they are recorded and called.

use controller::StageKind;
use controller::guardrails::GuardrailsView;
use controller::view::{ClusterView, MachineView, NodeView};
use tracing::{info, warn};

/// A change between two views of one cluster.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StateChange {
    AgentConnected,
    AgentDisconnected,
    SnapshotAccepted { nodes: usize, pods: usize, pending: usize },
    QuarantineBegan { reason: String },
    QuarantineEnded,
    CircuitBreakerOpened { reason: String },
    CircuitBreakerClosed,
    LaunchesHeld { reason: String },
    LaunchesReleased,
    RemovalsHeld { reason: String },
    RemovalsReleased,
    RemovalsWaiting { count: usize, node_claim: String, reason: String },
    RemovalsNotWaiting,
    ListingDistrusted { reason: String },
    ListingTrusted,
    PlanRejected { reason: String },
    AutoscalerActive { autoscaler: String },
    AutoscalerInactive { autoscaler: String },
    NodeReady { node_claim: String, node: String },
    NodeDraining { node_claim: String, node: String, reason: String },
    NodeRemoved { node_claim: String },
}

/// What has changed since `before`. A cluster without a view before was just acquired: only what
/// needs attention is reported of it, because its nodes were reported by their last owner.
pub(super) fn changes(before: Option<&ClusterView>, now: &ClusterView) -> Vec<StateChange> {
    let mut changes = Vec::new();
    let was = |read: fn(&ClusterView) -> bool| before.is_some_and(read);
    match (was(|view| view.connected), now.connected) {
        (false, true) => changes.push(StateChange::AgentConnected),
        (true, false) => changes.push(StateChange::AgentDisconnected),
        _ => {}
    }
    if now.connected && now.synced && !was(|view| view.connected && view.synced) {
        changes.push(StateChange::SnapshotAccepted { nodes: now.node_count, pods: now.pods, pending: now.pending });
    }
    changes.extend(guardrail_changes(before.map(|view| &view.guardrails), &now.guardrails));
    let rejected = now.last_error.as_ref().filter(|_| !was(|view| view.last_error.is_some()));
    changes.extend(rejected.map(|reason| StateChange::PlanRejected { reason: reason.clone() }));
    changes.extend(autoscaler_changes(before, now));
    changes.extend(
        before
            .map(|before| machine_changes(&machines_by_claim(&before.nodes), &machines_by_claim(&now.nodes)))
            .unwrap_or_default(),
    );
    changes
}

/// What is logged when a guardrail takes effect, with its reason, and when it ends.
type Transition = (fn(String) -> StateChange, StateChange);

fn guardrail_changes(before: Option<&GuardrailsView>, now: &GuardrailsView) -> Vec<StateChange> {
    use StateChange as C;
    let read = |view: &GuardrailsView| {
        [
            view.quarantine.as_ref().map(|(reason, _)| reason.to_string()),
            view.circuit_breaker.as_ref().map(ToString::to_string),
            view.held_launches.as_ref().map(ToString::to_string),
            view.held_removals.as_ref().map(ToString::to_string),
            view.untrusted_listing.as_ref().map(|(reason, _)| reason.to_string()),
        ]
    };
    let kinds: [Transition; 5] = [
        (|reason| C::QuarantineBegan { reason }, C::QuarantineEnded),
        (|reason| C::CircuitBreakerOpened { reason }, C::CircuitBreakerClosed),
        (|reason| C::LaunchesHeld { reason }, C::LaunchesReleased),
        (|reason| C::RemovalsHeld { reason }, C::RemovalsReleased),
        (|reason| C::ListingDistrusted { reason }, C::ListingTrusted),
    ];
    let earlier = before.map(read).unwrap_or_default();
    let mut changes: Vec<C> = Vec::new();
    for ((began, ended), (before, now)) in kinds.into_iter().zip(earlier.into_iter().zip(read(now))) {
        match (before, now) {
            (None, Some(reason)) => changes.push(began(reason)),
            (Some(_), None) => changes.push(ended),
            _ => {}
        }
    }
    let waiting = |view: &GuardrailsView| view.waiting_removals.len();
    match (before.map_or(0, waiting), now.waiting_removals.first()) {
        (0, Some(first)) => changes.push(C::RemovalsWaiting {
            count: now.waiting_removals.len(),
            node_claim: first.claim.to_string(),
            reason: format!("{} {}", first.reason, first.release),
        }),
        (1.., None) => changes.push(C::RemovalsNotWaiting),
        _ => {}
    }
    changes
}

fn autoscaler_changes(before: Option<&ClusterView>, now: &ClusterView) -> Vec<StateChange> {
    let earlier = before.map(|view| view.autoscalers.as_slice()).unwrap_or_default();
    let active = now.autoscalers.iter().filter(|name| !earlier.contains(name));
    let inactive = earlier.iter().filter(|name| !now.autoscalers.contains(name));
    let active = active.map(|name| StateChange::AutoscalerActive { autoscaler: name.to_string() });
    active.chain(inactive.map(|name| StateChange::AutoscalerInactive { autoscaler: name.to_string() })).collect()
}

fn machines_by_claim(nodes: &[NodeView]) -> Vec<&MachineView> {
    let mut machines: Vec<_> = nodes.iter().filter_map(|node| node.machine.as_ref()).collect();
    machines.sort_unstable_by(|one, other| one.claim.cmp(&other.claim));
    machines
}

/// Both lists are sorted by NodeClaim.
fn machine_changes(before: &[&MachineView], now: &[&MachineView]) -> Vec<StateChange> {
    let find = |machines: &[&MachineView], machine: &MachineView| {
        machines.binary_search_by(|other| other.claim.cmp(&machine.claim)).ok()
    };
    let mut changes: Vec<StateChange> = now
        .iter()
        .filter_map(|machine| stage_change(find(before, machine).map(|at| before[at].stage), machine))
        .collect();
    // A NodeClaim that never had an instance was reported as a failed launch.
    let removed = before.iter().filter(|machine| machine.instance.is_some() && find(now, machine).is_none());
    changes.extend(removed.map(|machine| StateChange::NodeRemoved { node_claim: machine.claim.to_string() }));
    changes
}

fn stage_change(before: Option<StageKind>, machine: &MachineView) -> Option<StateChange> {
    let before = before?;
    let node_claim = machine.claim.to_string();
    let node = machine.node.as_ref().map(ToString::to_string).unwrap_or_default();
    match machine.stage {
        StageKind::Initialized if before < StageKind::Initialized => Some(StateChange::NodeReady { node_claim, node }),
        stage if stage >= StageKind::Draining && before < StageKind::Draining => {
            let reason = machine.termination_reason.as_ref().map(ToString::to_string).unwrap_or_default();
            Some(StateChange::NodeDraining { node_claim, node, reason })
        }
        _ => None,
    }
}

impl StateChange {
    /// Logs the change. The reasons name the command that an operator may answer with.
    pub(super) fn log(&self, cluster: &str) {
        match self {
            Self::AgentConnected => info!(%cluster, "agent connected"),
            Self::AgentDisconnected => {
                warn!(%cluster, "agent disconnected; deciding nothing for the cluster until it reconnects")
            }
            Self::SnapshotAccepted { nodes, pods, pending } => {
                info!(%cluster, nodes, pods, pending, "snapshot accepted")
            }
            Self::QuarantineBegan { reason } => {
                warn!(%cluster, reason, "cluster quarantined")
            }
            Self::QuarantineEnded => info!(%cluster, "quarantine ended"),
            Self::CircuitBreakerOpened { reason } => warn!(%cluster, reason, "circuit breaker opened"),
            Self::CircuitBreakerClosed => info!(%cluster, "circuit breaker closed"),
            Self::LaunchesHeld { reason } => warn!(%cluster, reason, "launches held back"),
            Self::LaunchesReleased => info!(%cluster, "launches no longer held back"),
            Self::RemovalsHeld { reason } => warn!(%cluster, reason, "removals held back"),
            Self::RemovalsReleased => info!(%cluster, "removals no longer held back"),
            Self::RemovalsWaiting { count, node_claim, reason } => {
                warn!(%cluster, count, %node_claim, reason, "removals waiting; `fleetwright removals` lists them")
            }
            Self::RemovalsNotWaiting => info!(%cluster, "no removal waiting any more"),
            Self::ListingDistrusted { reason } => warn!(%cluster, reason, "listing of the cloud ignored"),
            Self::ListingTrusted => info!(%cluster, "listing of the cloud accepted again"),
            Self::PlanRejected { reason } => warn!(%cluster, reason, "plan rejected"),
            Self::AutoscalerActive { autoscaler } => {
                warn!(%cluster, %autoscaler, "another autoscaler active in the cluster")
            }
            Self::AutoscalerInactive { autoscaler } => {
                info!(%cluster, %autoscaler, "other autoscaler no longer active in the cluster")
            }
            Self::NodeReady { node_claim, node } => info!(%cluster, %node_claim, %node, "node ready"),
            Self::NodeDraining { node_claim, node, reason } => {
                info!(%cluster, %node_claim, %node, reason, "node draining")
            }
            Self::NodeRemoved { node_claim } => info!(%cluster, %node_claim, "node removed"),
        }
    }
}

#[cfg(test)]
mod tests;
