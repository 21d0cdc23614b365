//! Observed state of one cluster, with the indices that decisions need.

mod attach_limits;
mod updates;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::assignments::Assignments;
use super::auxiliary::AuxiliaryRecords;
use super::bookings::Bookings;
use super::drift_evidence::DriftEvidence;
use super::observation::ClusterSnapshot;
use super::pod_table::PodTable;
use super::recent_moves::RecentMoves;
use super::record::{
    ClaimRecord, ClassRecord, DaemonRecord, LaunchedFacts, NamespaceRecord, NodeRecord, PodRecord, PoolRecord,
    ProblemRecord,
};
use super::replacement::Replacement;
use super::target::Target;
use model::attach_limits::{AttachLimits, LoweredCatalogues};
use model::{ClaimName, ClusterFacts, Labels, NodeName, PodKey, PoolName, ProviderId, Text, Timestamp};

/// Observed state of one cluster. No result depends on the order of a hash table, so that iteration
/// order is deterministic.
#[derive(Debug, Clone, Default)]
pub struct ClusterState {
    version: u64,
    /// Number of observations that cannot make a removal possible, of those that `version` counts.
    changes_without_opportunity: u64,
    /// Number of pods that have left their nodes.
    pods_left: u64,
    /// When a snapshot was accepted since the agent connected.
    synced: Option<Timestamp>,
    /// When a snapshot was accepted last, of whichever connection.
    last_synced: Option<Timestamp>,
    pods: PodTable,
    nodes: BTreeMap<NodeName, NodeRecord>,
    claims: BTreeMap<ClaimName, ClaimRecord>,
    pools: BTreeMap<PoolName, PoolRecord>,
    daemons: BTreeMap<(Text, Text), DaemonRecord>,
    namespaces: BTreeMap<Text, Labels>,
    /// Nodes and NodeClaims with a deletion timestamp; indices of `nodes` and `claims`.
    deleting_nodes: BTreeSet<NodeName>,
    deleting_claims: BTreeSet<ClaimName>,
    /// Nodes with the taint of a removal, whoever set it; index of `nodes`.
    disrupted_nodes: BTreeSet<NodeName>,
    /// NodeClaims by provider id; index of `claims` and `assumed_claims`.
    claim_by_provider: FxHashMap<ProviderId, ClaimName>,
    /// Nodes by provider id; index of `nodes`.
    node_by_provider: FxHashMap<ProviderId, NodeName>,
    /// When a pod other than a DaemonSet's was last bound, ended or deleted, or the node was
    /// initialized; by node.
    last_pod_event: FxHashMap<NodeName, Timestamp>,
    /// Nodes with a pod event since the last [`ClusterState::take_pod_events`].
    pod_events: BTreeSet<NodeName>,
    /// Decided NodeClaims that the cluster does not show yet; written by the controller.
    assumed_claims: BTreeMap<ClaimName, ClaimRecord>,
    /// NodeClaims whose termination has begun, and how they were replaced before; written by the controller.
    marked_for_deletion: BTreeMap<ClaimName, Option<Replacement>>,
    /// Machines that are being replaced, by NodeClaim; written by the controller.
    replacements: BTreeMap<ClaimName, Replacement>,
    /// Drains of consolidation that evicted pods; written by the controller.
    recent_moves: RecentMoves,
    /// Budgets, node classes, attach limits, other autoscalers.
    auxiliary: AuxiliaryRecords,
    /// What the cloud says about instances and EC2NodeClasses; written by the controller.
    evidence: DriftEvidence,
    /// Catalogues of `pools` with the attach limits of `auxiliary`.
    launch_catalogues: LaunchCatalogues,
    /// Assignments of pods; written by the controller, removed by observations.
    assignments: Assignments,
    /// Room that holds book; written by the controller.
    bookings: Bookings,
}

/// Catalogues for new nodes: those of the NodePools, with the attach limits that CSINodes of the same instance type show.
/// They are kept with the state, and not made for each plan: what is compiled from a catalogue is found by its address.
#[derive(Debug, Clone, Default)]
struct LaunchCatalogues {
    /// Of the Nodes that have an instance type and are initialized.
    limits: AttachLimits,
    lowered: LoweredCatalogues,
    /// Whether a limit or the catalogue of a NodePool may have changed since `lowered` was made.
    is_stale: bool,
}

impl LaunchCatalogues {
    fn mark_stale(&mut self) {
        self.is_stale = true;
    }
}

impl ClusterState {
    /// Version; changes with everything that may change a decision.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Changes with everything that may make a removal possible that was not before, such as a pod that is gone.
    /// A pod that is bound to a node with other pods, for example, does not change it.
    #[must_use]
    pub fn removal_opportunity_version(&self) -> u64 {
        self.version - self.changes_without_opportunity
    }

    /// Number of pods that have left their nodes since this state began.
    #[must_use]
    pub fn pods_left(&self) -> u64 {
        self.pods_left
    }

    /// Whether a snapshot was accepted since the agent connected.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.synced.is_some()
    }

    /// When the last snapshot was accepted, if one was since the agent connected.
    #[must_use]
    pub fn synced_since(&self) -> Option<Timestamp> {
        self.synced
    }

    /// When the last snapshot was accepted, whether or not the agent is still connected.
    #[must_use]
    pub fn last_synced(&self) -> Option<Timestamp> {
        self.last_synced
    }

    /// Marks the state as outdated until the next snapshot: the agent disconnected.
    pub fn mark_unsynced(&mut self) {
        self.synced = None;
    }

    /// Assignments of pods that are not bound yet.
    #[must_use]
    pub fn assignments(&self) -> &Assignments {
        &self.assignments
    }

    /// Machines that are being replaced, by NodeClaim.
    #[must_use]
    pub fn replacements(&self) -> &BTreeMap<ClaimName, Replacement> {
        &self.replacements
    }

    /// Records a change of the controller that may change a decision.
    pub(super) fn mark_changed(&mut self) {
        self.version += 1;
    }

    /// All observed objects as one snapshot.
    #[must_use]
    pub fn to_snapshot(&self) -> ClusterSnapshot {
        let namespaces = self.namespaces.iter();
        ClusterSnapshot {
            pods: self.pods.iter().cloned().collect(),
            nodes: self.nodes.values().cloned().collect(),
            claims: self.claims.values().cloned().collect(),
            pools: self.pools.values().cloned().collect(),
            daemons: self.daemons.values().cloned().collect(),
            namespaces: namespaces
                .map(|(name, labels)| NamespaceRecord { name: name.clone(), labels: labels.clone() })
                .collect(),
            budgets: self.auxiliary.budgets().cloned().collect(),
            classes: self.auxiliary.classes().cloned().collect(),
            attach: self.auxiliary.attach_records().collect(),
            autoscalers: self.auxiliary.autoscalers().cloned().collect(),
            problems: self.problems().collect(),
        }
    }

    /// Objects that cannot be read or watched, by object.
    pub fn problems(&self) -> impl Iterator<Item = ProblemRecord> {
        self.auxiliary.problems()
    }

    /// Adds a decided NodeClaim. It counts as launching capacity until the cluster shows it or it
    /// is removed.
    pub fn assume_claim(&mut self, claim: ClaimRecord) {
        self.version += 1;
        if claim.is_launched() {
            self.claim_by_provider.insert(claim.provider_id.clone(), claim.name.clone());
        }
        self.assumed_claims.insert(claim.name.clone(), claim);
    }

    /// Sets the expected resources of an observed NodeClaim that is not launched yet.
    pub fn set_expected_resources(&mut self, claim: &ClaimName, expected: &ClaimRecord) {
        self.version += 1;
        if let Some(claim) = self.claims.get_mut(claim).filter(|claim| !claim.is_launched()) {
            claim.capacity = expected.capacity.clone();
            claim.allocatable = expected.allocatable.clone();
        }
    }

    /// Records the facts of a launched instance, ahead of the NodeClaim's status.
    pub fn record_launch(&mut self, claim: &ClaimName, facts: &LaunchedFacts) {
        self.version += 1;
        let found = self.claims.get_mut(claim).or_else(|| self.assumed_claims.get_mut(claim));
        let Some(claim) = found else { return };
        claim.provider_id = facts.provider_id.clone();
        claim.labels.extend(facts.labels.iter().map(|(key, value)| (key.clone(), value.clone())));
        claim.capacity = facts.capacity.clone();
        claim.allocatable = facts.allocatable.clone();
        self.claim_by_provider.insert(facts.provider_id.clone(), claim.name.clone());
    }

    /// Removes an assumed NodeClaim and its assignments. An observed one is kept.
    pub fn forget_claim(&mut self, name: &ClaimName) {
        self.version += 1;
        if let Some(claim) = self.assumed_claims.remove(name) {
            self.claim_by_provider.remove(&claim.provider_id);
            self.marked_for_deletion.remove(name);
        }
        self.assignments.remove_target(&Target::Claim(name.clone()));
    }

    /// Marks a NodeClaim for deletion: its capacity does not count any more, and its pods are
    /// planned again.
    pub fn mark_for_deletion(&mut self, claim: &ClaimName) {
        self.version += 1;
        // The pods keep the places that the replacement has found.
        let replaced = self.replacements.remove(claim);
        let known = self.marked_for_deletion.entry(claim.clone()).or_default();
        *known = replaced.or(*known);
        self.assignments.remove_target(&Target::Claim(claim.clone()));
        if let Some(node) = self.node_of_claim(claim).map(|node| node.name.clone()) {
            self.assignments.remove_target(&Target::Node(node));
        }
    }

    /// Cancels the deletion of a NodeClaim: its capacity counts again.
    pub fn unmark_for_deletion(&mut self, claim: &ClaimName) {
        self.version += 1;
        self.marked_for_deletion.remove(claim);
    }

    /// The replacement of the machine of `claim` that is under way, or has led to its removal.
    #[must_use]
    pub fn replacement_or_removal_of(&self, claim: &ClaimName) -> Option<Replacement> {
        let removed = || self.marked_for_deletion.get(claim).copied().flatten();
        self.replacements.get(claim).copied().or_else(removed)
    }

    /// Whether the NodeClaim is marked for deletion.
    #[must_use]
    pub fn is_marked_for_deletion(&self, claim: &ClaimName) -> bool {
        self.marked_for_deletion.contains_key(claim)
    }

    /// Whether the Node or its NodeClaim has a deletion timestamp or is marked for deletion.
    #[must_use]
    pub fn is_node_terminating(&self, node: &NodeName) -> bool {
        let Some(record) = self.nodes.get(node) else { return false };
        record.deleting
            || self
                .claim_of_node(record)
                .is_some_and(|claim| claim.deleting || self.is_marked_for_deletion(&claim.name))
    }

    /// The NodeClaim of that name, observed or assumed.
    #[must_use]
    pub fn claim(&self, name: &ClaimName) -> Option<&ClaimRecord> {
        self.claims.get(name).or_else(|| self.assumed_claims.get(name))
    }

    /// Whether the cluster shows this NodeClaim.
    #[must_use]
    pub fn is_claim_observed(&self, name: &ClaimName) -> bool {
        self.claims.contains_key(name)
    }

    /// Whether the cluster shows neither a Node nor a pod nor a NodeClaim.
    #[must_use]
    pub fn has_no_objects(&self) -> bool {
        self.nodes.is_empty() && self.pods.is_empty() && self.claims.is_empty()
    }

    /// Whether the cluster shows no Node, although the agent itself runs on one.
    #[must_use]
    pub fn has_no_nodes(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Observed NodeClaims, then assumed ones, each by name.
    pub fn claims(&self) -> impl Iterator<Item = &ClaimRecord> {
        self.claims.values().chain(self.assumed_claims.values())
    }

    #[must_use]
    pub fn node_of_claim(&self, claim: &ClaimName) -> Option<&NodeRecord> {
        self.node_of_machine(&self.claim(claim)?.provider_id)
    }

    #[must_use]
    pub fn node_of_machine(&self, provider_id: &ProviderId) -> Option<&NodeRecord> {
        self.nodes.get(self.node_by_provider.get(provider_id)?)
    }

    /// The NodeClaim of a Node, by provider id.
    #[must_use]
    pub fn claim_of_node(&self, node: &NodeRecord) -> Option<&ClaimRecord> {
        self.claim(self.claim_by_provider.get(&node.provider_id)?)
    }

    #[must_use]
    pub fn pod(&self, key: &PodKey) -> Option<&PodRecord> {
        self.pods.get(key)
    }

    /// Pods, by namespace and name.
    pub fn pods(&self) -> impl Iterator<Item = &PodRecord> {
        self.pods.iter()
    }

    /// Number of ready pods of the workload of `pod`.
    pub(super) fn ready_pods_with(&self, pod: &PodRecord) -> usize {
        self.pods.ready_with(pod)
    }

    /// Unschedulable pods (`PodRecord::is_unschedulable`) of schedulers that are planned for, by namespace and name.
    pub fn unplaced_pods(&self) -> impl Iterator<Item = &PodRecord> {
        let pods = self.pods.unplaced().filter_map(|key| self.pods.get(key));
        pods.filter(|pod| self.other_scheduler_of(pod).is_none())
    }

    /// Pods that another component nominated for a node, by namespace and name.
    pub fn nominated_pods(&self) -> impl Iterator<Item = &PodRecord> {
        self.pods.nominated().filter_map(|key| self.pods.get(key))
    }

    /// Number of non-terminal pods on `node`, without DaemonSet pods.
    #[must_use]
    pub fn non_daemon_pods_on(&self, node: &NodeName) -> usize {
        self.pods.non_daemon().get(node).copied().unwrap_or(0)
    }

    /// Number of such pods bound to Nodes that the cluster does not show.
    #[must_use]
    pub fn non_daemon_pods_on_missing_nodes(&self) -> usize {
        let missing = self.pods.non_daemon().iter().filter(|(node, _)| !self.nodes.contains_key(*node));
        missing.map(|(_, pods)| pods).sum()
    }

    /// NodeClaims with a deletion timestamp, or whose Node has one.
    #[must_use]
    pub fn claims_being_deleted(&self) -> BTreeSet<&ClaimName> {
        let nodes = self.deleting_nodes.iter().filter_map(|name| self.nodes.get(name));
        let of_nodes = nodes.filter_map(|node| self.claim_of_node(node)).map(|claim| &claim.name);
        self.deleting_claims.iter().chain(of_nodes).collect()
    }

    /// Number of pods that have not ended.
    #[must_use]
    pub fn live_pods(&self) -> usize {
        self.pods.live()
    }

    /// Number of [workload pods](PodRecord::is_workload) that are bound and not terminating, and of
    /// those not bound.
    #[must_use]
    pub fn workload_pods(&self) -> (usize, usize) {
        self.pods.workload()
    }

    #[must_use]
    pub fn pod_count(&self) -> usize {
        self.pods.len()
    }

    /// Number of observed Nodes, launched NodeClaims and NodePools.
    #[must_use]
    pub fn counts(&self) -> (usize, usize, usize) {
        let launched = self.claims.values().filter(|claim| claim.is_launched()).count();
        (self.nodes.len(), launched, self.pools.len())
    }

    /// The pods without a Node and those on `nodes`, by namespace and name.
    pub(super) fn pods_without_node_or_on<'s>(
        &'s self,
        nodes: impl Iterator<Item = &'s NodeName>,
    ) -> impl Iterator<Item = &'s PodRecord> {
        let on_nodes = nodes.flat_map(|node| self.pods.on_node(node));
        let keys: BTreeSet<&PodKey> = self.pods.unplaced().chain(on_nodes).collect();
        keys.into_iter().filter_map(|key| self.pods.get(key))
    }

    /// Non-terminal pods on `node`, by namespace and name.
    pub fn pods_on(&self, node: &NodeName) -> impl Iterator<Item = &PodRecord> {
        self.pods.on_node(node).filter_map(|key| self.pods.get(key))
    }

    /// Nodes, by name.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeRecord> {
        self.nodes.values()
    }

    #[must_use]
    pub fn node(&self, name: &NodeName) -> Option<&NodeRecord> {
        self.nodes.get(name)
    }

    /// NodePools, by name.
    pub fn pools(&self) -> impl Iterator<Item = &PoolRecord> {
        self.pools.values()
    }

    #[must_use]
    pub fn pool(&self, name: &PoolName) -> Option<&PoolRecord> {
        self.pools.get(name)
    }

    /// DaemonSets, by namespace and name.
    pub fn daemons(&self) -> impl Iterator<Item = &DaemonRecord> {
        self.daemons.values()
    }

    #[must_use]
    pub fn namespaces(&self) -> &BTreeMap<Text, Labels> {
        &self.namespaces
    }

    /// Nodes with a pod event since the last call.
    pub fn take_pod_events(&mut self) -> BTreeSet<NodeName> {
        std::mem::take(&mut self.pod_events)
    }

    /// When a pod other than a DaemonSet's was last bound to `node`, ended or was deleted there, or
    /// the node was initialized; before this process, the time in its NodeClaim.
    #[must_use]
    pub fn last_pod_event(&self, node: &NodeName) -> Option<Timestamp> {
        self.last_pod_event.get(node).copied()
    }

    /// The scheduler of a pod that is not planned because of it.
    #[must_use]
    pub fn other_scheduler_of<'p>(&self, pod: &'p PodRecord) -> Option<&'p Text> {
        self.auxiliary().schedulers().other(pod.other_scheduler.as_ref()?)
    }
}

/// EC2NodeClasses, and what new nodes need to join the cluster.
impl ClusterState {
    /// EC2NodeClasses, by name.
    pub fn classes(&self) -> impl Iterator<Item = &ClassRecord> {
        self.auxiliary().classes()
    }

    /// The EC2NodeClass of that name.
    #[must_use]
    pub fn class(&self, name: &Text) -> Option<&ClassRecord> {
        self.auxiliary().class(name)
    }

    /// What new nodes need to join the cluster, as its agent reported it last; empty before.
    #[must_use]
    pub fn facts(&self) -> &Arc<ClusterFacts> {
        self.auxiliary().facts()
    }

    /// Replaces the facts. They stay when a snapshot replaces all objects.
    pub fn set_facts(&mut self, facts: Arc<ClusterFacts>) {
        self.auxiliary_mut().set_facts(facts);
    }
}

/// Parts of the state that are written by the modules beside it, each of which keeps its part consistent.
impl ClusterState {
    pub(crate) fn assignments_mut(&mut self) -> &mut Assignments {
        &mut self.assignments
    }

    pub(crate) fn bookings(&self) -> &Bookings {
        &self.bookings
    }

    pub(crate) fn bookings_mut(&mut self) -> &mut Bookings {
        &mut self.bookings
    }

    pub(crate) fn replacements_mut(&mut self) -> &mut BTreeMap<ClaimName, Replacement> {
        &mut self.replacements
    }

    pub(crate) fn recent_moves(&self) -> &RecentMoves {
        &self.recent_moves
    }

    pub(crate) fn recent_moves_mut(&mut self) -> &mut RecentMoves {
        &mut self.recent_moves
    }

    pub(crate) fn auxiliary(&self) -> &AuxiliaryRecords {
        &self.auxiliary
    }

    /// Nodes with the taint of a removal, whoever set it.
    pub(crate) fn disrupted_nodes(&self) -> &BTreeSet<NodeName> {
        &self.disrupted_nodes
    }

    pub(crate) fn evidence(&self) -> &DriftEvidence {
        &self.evidence
    }

    pub(crate) fn evidence_mut(&mut self) -> &mut DriftEvidence {
        &mut self.evidence
    }

    pub(crate) fn auxiliary_mut(&mut self) -> &mut AuxiliaryRecords {
        &mut self.auxiliary
    }
}
