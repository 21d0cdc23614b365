//! The interface of disruption methods: what a method decides from, and what it selects.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use super::replacement_backoff::ReplacementBackoff;
pub(crate) use super::selection::{BlockedRepair, PlannedReplacement, Selection};
use super::selection::{MachineNames, SelectionFacts, SelectionInput};
use super::settings::RepairMode;
use crate::FeatureGates;
use crate::nodeclaim::DrainTerms;
use cluster::{ClaimRecord, ClusterState};
use model::removal::RemovalReason;
use model::{BudgetLimit, ClaimName, Millis, Text, Timestamp};

/// A disruption method (Karpenter: disruption methods).
pub(crate) trait Method: Debug + Sync {
    /// Why it removes nodes. This names its decisions, and says whether it is graceful or forceful.
    fn reason(&self) -> RemovalReason;

    /// What it selects from as of `view`.
    fn read(&self, view: &DisruptionView<'_>) -> SelectionInput;

    /// The machines that it removes as of `view`. It is called again before a graceful removal
    /// begins, which has to be selected then as well.
    fn select(&self, view: &DisruptionView<'_>) -> Selection {
        self.read(view).select()
    }

    /// Its input with `facts`, at the time of `view`.
    fn input(&self, view: &DisruptionView<'_>, facts: SelectionFacts) -> SelectionInput {
        SelectionInput { reason: self.reason(), now: view.now, later: None, facts }
    }

    /// How the Nodes are drained whose removal begins at the time of `view`.
    fn drain_terms(&self, _view: &DisruptionView<'_>) -> DrainTerms {
        // The agent's watch may lack pods: it has the API server list them before it drains.
        DrainTerms { only_if_empty: self.reason().requires_empty_node(), ..DrainTerms::default() }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct DisruptionView<'v> {
    pub state: &'v ClusterState,
    /// NodeClaims whose removal is decided and not durable. They are not selected again, and count
    /// against budgets.
    pub being_removed: BTreeSet<ClaimName>,
    /// NodeClaims that earlier methods of the pass replace. They count as those whose replacement has begun.
    pub being_replaced: BTreeSet<ClaimName>,
    /// The interruption notice that the cloud just sent.
    pub notice: Option<InterruptionNotice>,
    /// NodeClaims whose instances the cloud recommends to leave.
    pub recommended: BTreeSet<ClaimName>,
    /// NodeClaims of whose instances the cloud has scheduled maintenance, and since when that is known.
    pub maintenance: BTreeMap<ClaimName, Timestamp>,
    pub feature_gates: FeatureGates,
    pub backoff: ReplacementBackoff,
    /// Whether a node has to be initialized before pods are moved to it; off in guard-off tests only.
    pub waits_for_initialization: bool,
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
            being_replaced: BTreeSet::new(),
            notice: None,
            recommended: BTreeSet::new(),
            maintenance: BTreeMap::new(),
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

    /// The names of the machine of `claim`, with those of its Node and NodePool as far as they are observed.
    pub fn machine(&self, claim: &ClaimName) -> MachineNames {
        let node = self.state.node_of_claim(claim).map(|node| node.name.clone()).unwrap_or_default();
        let pool = self.state.claim(claim).map(|record| record.pool.clone()).unwrap_or_default();
        MachineNames { claim: claim.clone(), node, pool }
    }
}
