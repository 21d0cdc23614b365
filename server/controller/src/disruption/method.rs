//! The interface of disruption methods: what a method decides from, and what it selects.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use super::replacement_backoff::ReplacementBackoff;
use super::settings::RepairMode;
use crate::cluster::{ClaimRecord, ClusterState};
use crate::nodeclaim::DrainTerms;
use crate::{FeatureGates, MethodReason, Removal};
use model::{BudgetLimit, ClaimName, Millis, PoolName, Text, Timestamp};

/// A disruption method (Karpenter: disruption methods).
pub(crate) trait Method: Debug + Sync {
    /// Why it removes nodes. This names its decisions, and says whether it is graceful or forceful.
    fn reason(&self) -> MethodReason;

    /// The machines that it removes as of `view`. It is called again before a graceful removal
    /// begins, which has to be selected then as well.
    fn select(&self, view: &DisruptionView<'_>) -> Selection;

    /// How the Nodes are drained whose removal begins at the time of `view`.
    fn drain_terms(&self, view: &DisruptionView<'_>) -> DrainTerms;
}

/// What a method decides from.
#[derive(Debug, Clone)]
pub(crate) struct DisruptionView<'v> {
    /// The observed state.
    pub state: &'v ClusterState,
    /// NodeClaims whose removal is decided and not durable. They are not selected again, and count
    /// against budgets.
    pub being_removed: BTreeSet<ClaimName>,
    /// The interruption notice that the cloud just sent.
    pub notice: Option<InterruptionNotice>,
    /// NodeClaims whose instances the cloud recommends to leave.
    pub recommended: BTreeSet<ClaimName>,
    /// Features that are on.
    pub feature_gates: FeatureGates,
    /// Replacements that failed.
    pub backoff: ReplacementBackoff,
    /// Whether a node has to be initialized before pods are moved to it; off in guard-off tests only.
    pub waits_for_initialization: bool,
    /// How unhealthy nodes are removed.
    pub repair: RepairMode,
    /// `disruption.max-unavailable-nodes`: the budget of the cluster.
    pub max_unavailable_nodes: Option<BudgetLimit>,
    /// `disruption.move-interval`: consolidation moves no pod again within it.
    pub move_interval: Millis,
    pub now: Timestamp,
}

/// The cloud's notice that the instance of a NodeClaim ends or fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InterruptionNotice {
    pub claim: ClaimName,
    pub reason: Text,
    /// When pods are deleted regardless of PodDisruptionBudgets.
    pub deadline: Option<Timestamp>,
}

impl<'v> DisruptionView<'v> {
    /// A view without removals in progress, notice and budget of the cluster, and with the gates that are on by
    /// default.
    pub fn of(state: &'v ClusterState, now: Timestamp) -> Self {
        Self {
            state,
            being_removed: BTreeSet::new(),
            notice: None,
            recommended: BTreeSet::new(),
            feature_gates: FeatureGates::default(),
            repair: RepairMode::default(),
            max_unavailable_nodes: None,
            move_interval: Millis::ZERO,
            backoff: ReplacementBackoff::default(),
            waits_for_initialization: true,
            now,
        }
    }

    /// Whether the machine of `claim` leaves already, or its removal is decided.
    pub fn is_leaving(&self, claim: &ClaimRecord) -> bool {
        claim.deleting || self.state.is_marked_for_deletion(&claim.name) || self.being_removed.contains(&claim.name)
    }

    /// The removal of `claim`, with its Node if it has one.
    pub fn removal(&self, claim: &ClaimName, reason: impl Into<Text>) -> Removal {
        let node = self.state.node_of_claim(claim).map(|node| node.name.clone()).unwrap_or_default();
        Removal { claim: claim.clone(), node, reason: reason.into() }
    }
}

/// What a method selected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Selection {
    /// Machines that may be removed now.
    pub removals: Vec<Removal>,
    /// Machines that other capacity has to replace before they may be removed. One that is under way and
    /// neither here nor among `removals` stays.
    pub replacements: Vec<PlannedReplacement>,
    /// When the next machine may become removable.
    pub next_check: Option<Timestamp>,
    /// Number of machines that budgets hold back, by NodePool.
    pub held_by_budget: BTreeMap<PoolName, usize>,
    /// NodePools whose repairs are blocked.
    pub blocked_repairs: BTreeMap<PoolName, BlockedRepair>,
}

impl Selection {
    /// Has the method called again at `at`, unless it is called earlier.
    pub fn check_at(&mut self, at: Option<Timestamp>) {
        self.next_check = self.next_check.into_iter().chain(at).min();
    }
}

/// A machine to replace before it is removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedReplacement {
    /// Its removal.
    pub removal: Removal,
    /// Whether its pods are planned elsewhere now.
    pub moves_pods: bool,
}

/// A NodePool with too many unhealthy Nodes for a repair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockedRepair {
    /// Number of unhealthy Nodes.
    pub unhealthy: usize,
    /// Number of all its Nodes.
    pub nodes: usize,
}
