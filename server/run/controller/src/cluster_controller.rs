//! Controller of one cluster: its observed state, its machines, and the operations in progress.

use std::sync::Arc;

use super::disruption::{DecisionQueue, Disruption};
use super::guardrails::ClusterGuardrails;
use super::history::History;
use super::holds::Holds;
use super::node_class::NodeClassResolver;
use super::nodeclaim::{GarbageCollector, NodeClaims, PendingRecovery};
use super::nomination::Nominator;
use super::provisioning::Provisioner;
use super::region_state::RegionState;
use super::status_reporter::StatusReporter;
use super::step_view::StepView;
use crate::copy_on_write::CopyOnWrite;
use cluster::ClusterState;
use model::{ClusterName, Text, Timestamp};

/// What of the cluster the region knows, and what of the region the last step knew.
#[derive(Debug, Default)]
pub(crate) struct Published {
    /// Version of the fleet's limits at the last step.
    pub(crate) limits_version: u64,
    /// Machines as the guardrails count them.
    pub(crate) machines: Option<usize>,
    /// Fingerprint of the provider ids.
    pub(crate) instances: Option<u64>,
}

#[derive(Debug, Default)]
pub struct ClusterController {
    pub(crate) cluster: ClusterName,
    pub(crate) region: Arc<RegionState>,
    pub(crate) published: Published,
    /// UID of the cluster; empty until its lease is acquired.
    pub(crate) uid: Text,
    pub(crate) connected: bool,
    /// Since when the agent has not been connected with an accepted snapshot, as long as that lasts.
    pub(crate) unsynced_since: Option<Timestamp>,
    /// Unfinished launches of the previous owner, until the first accepted snapshot.
    pub(crate) recovery: PendingRecovery,
    pub(crate) gc: GarbageCollector,
    pub(crate) state: CopyOnWrite<ClusterState>,
    /// Which pods are planned, and when.
    pub(crate) provisioner: Provisioner,
    pub(crate) guardrails: ClusterGuardrails,
    /// NodeClaims of this server and their instructions in flight.
    pub(crate) claims: NodeClaims,
    /// When Nodes are registered, and which pods are nominated for them.
    pub(crate) nominator: Nominator,
    /// Decisions that are not durable yet, and recent decisions.
    pub(crate) decisions: DecisionQueue,
    pub(crate) holds: Holds,
    /// When the disruption methods run.
    pub(crate) disruption: Disruption,
    pub(crate) history: History,
    /// What EC2NodeClasses were resolved to.
    pub(crate) node_classes: NodeClassResolver,
    pub(crate) status_reporter: StatusReporter,
    /// When this cluster has to be advanced without an event.
    pub(crate) next_wakeup: Option<Timestamp>,
}

impl ClusterController {
    /// The controller of a cluster of `region`.
    #[must_use]
    pub fn new(cluster: ClusterName, region: Arc<RegionState>) -> Self {
        let limits_version = region.limits_version();
        let published = Published { limits_version, ..Published::default() };
        Self { cluster, region, published, ..Self::default() }
    }

    /// UID of the cluster; empty until its lease is acquired.
    #[must_use]
    pub fn uid(&self) -> &Text {
        &self.uid
    }

    /// When [`Event::Tick`] is due without another event; a time in the past means immediately.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Timestamp> {
        self.next_wakeup
    }

    /// Whether the limits of the whole fleet have changed since the last step.
    #[must_use]
    pub fn is_outdated(&self) -> bool {
        self.region.limits_version() != self.published.limits_version
    }

    /// Whether decisions are allowed: the agent is connected and the state synced.
    pub(crate) fn is_ready(&self) -> bool {
        self.connected && self.state.is_synced()
    }

    /// What parts and reports read.
    #[must_use]
    pub fn step_view(&self, now: Timestamp) -> StepView<'_> {
        StepView {
            cluster: &self.cluster,
            uid: &self.uid,
            connected: self.connected,
            unsynced_since: self.unsynced_since,
            state: &self.state,
            claims: &self.claims,
            gc: &self.gc,
            recovery: &self.recovery,
            guardrails: &self.guardrails,
            decisions: &self.decisions,
            disruption: &self.disruption,
            holds: &self.holds,
            history: &self.history,
            provisioner: &self.provisioner,
            node_classes: &self.node_classes,
            region: &self.region,
            now,
        }
    }

    /// Lets a part act on a view of the others. What the view has of the part itself is empty.
    pub(crate) fn with_part<P: Default, R>(
        &mut self,
        part: impl Fn(&mut Self) -> &mut P,
        now: Timestamp,
        act: impl FnOnce(&mut P, &StepView<'_>) -> R,
    ) -> R {
        let mut taken = std::mem::take(part(self));
        let result = act(&mut taken, &self.step_view(now));
        *part(self) = taken;
        result
    }
}
