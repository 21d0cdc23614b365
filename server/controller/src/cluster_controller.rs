//! Controller of one cluster: its observed state, its machines, and the operations in progress.

use std::cell::Cell;
use std::sync::{Arc, MutexGuard};

use super::cost_records::CostRecords;
use super::disruption::{DecisionQueue, Disruption, Notices, ReplacementRecords};
use super::guardrails::{ClusterGuardrails, DisabledGuards};
use super::holds::Holds;
use super::lifecycle_counters::LifecycleCounter;
use super::node_class::NodeClassResolver;
use super::node_report::removed_nodes::RemovedNodes;
use super::nodeclaim::{GarbageCollector, NodeClaims, PendingRecovery};
use super::nomination::{NominationView, Nominator};
use super::pod_durations::PodDurationObserver;
use super::provisioning::{InterruptedOwners, PlanNumber, Provisioner};
use super::region_state::{LazyGuardrails, RegionState};
use super::search_allowance::SearchAllowance;
use super::status_reporter::StatusReporter;
use super::step_view::StepView;
use super::unavailable_offerings::UnavailableOfferings;
use super::{Effect, Finding, Instruction, InstructionId, Settings};
use crate::copy_on_write::CopyOnWrite;
use crate::disruption_allowance::DisruptionAllowance;
use cluster::ClusterState;
use model::{ClusterName, Text, Timestamp};

/// What a step of a cluster reads and changes outside of it, and its output.
pub(super) struct Context<'c> {
    pub cluster: ClusterName,
    pub settings: &'c Settings,
    pub disabled_guards: &'c DisabledGuards,
    pub offerings: &'c UnavailableOfferings,
    /// Locked from their first access until the step has counted what it decided.
    pub guardrails: LazyGuardrails<'c>,
    pub effects: &'c mut Vec<Effect>,
    pub now: Timestamp,
    region: &'c RegionState,
    locked: &'c Cell<bool>,
}

impl<'c> Context<'c> {
    /// The context of a step at `now`. The step sets `locked` when it locks the guardrails.
    pub fn new(
        cluster: ClusterName,
        region: &'c RegionState,
        locked: &'c Cell<bool>,
        effects: &'c mut Vec<Effect>,
        now: Timestamp,
    ) -> Self {
        Self {
            cluster,
            settings: region.settings(),
            disabled_guards: region.disabled_guards(),
            offerings: region.offerings(),
            guardrails: region.guardrails(locked, now),
            effects,
            now,
            region,
            locked,
        }
    }

    /// Lets other clusters access the guardrails again.
    pub fn release_guardrails(&mut self) {
        self.guardrails = self.region.guardrails(self.locked, self.now);
    }

    pub fn report_finding(&mut self, finding: Finding) {
        self.effects.push(Effect::ReportFinding { cluster: self.cluster.clone(), finding });
    }

    pub fn next_id(&self) -> u64 {
        self.region.next_number()
    }

    /// The allowance for searches of all clusters, which is locked for one access.
    pub fn searches(&self) -> MutexGuard<'c, SearchAllowance> {
        self.region.searches()
    }

    /// The allowance for plans of disruption of all clusters, which is locked for one access.
    pub fn disruption_plans(&self) -> MutexGuard<'c, DisruptionAllowance> {
        self.region.disruption_plans()
    }

    pub fn next_plan_number(&self) -> PlanNumber {
        self.region.next_plan_number()
    }
}

#[derive(Debug, Default)]
pub struct ClusterController {
    pub(crate) cluster: ClusterName,
    pub(crate) region: Arc<RegionState>,
    /// Version of the fleet's limits at the last step.
    pub(crate) limits_version: u64,
    /// Machines of this cluster as the guardrails count them.
    pub(crate) counted_machines: Option<usize>,
    /// Fingerprint of the provider ids that were published last.
    pub(crate) published_instances: Option<u64>,
    /// UID of the cluster; empty until its lease is acquired.
    pub(crate) uid: Text,
    pub(crate) connected: bool,
    /// Since when the agent has not been connected with an accepted snapshot, as long as that lasts.
    pub(crate) unsynced_since: Option<Timestamp>,
    /// Unfinished launches of the previous owner, until the first accepted snapshot.
    pub(crate) recovery: PendingRecovery,
    /// Last reported finding about missing NodeClaims.
    pub(crate) last_absence_finding: Option<Finding>,
    pub(crate) gc: GarbageCollector,
    pub(crate) state: CopyOnWrite<ClusterState>,
    /// Which pods are planned, and when.
    pub(crate) provisioner: Provisioner,
    /// Notices of the cloud.
    pub(crate) notices: Notices,
    /// Owners of pods on machines that the cloud interrupted lately.
    pub(crate) interrupted_owners: InterruptedOwners,
    pub(crate) guardrails: ClusterGuardrails,
    /// NodeClaims of this server and their instructions in flight.
    pub(crate) claims: NodeClaims,
    /// When Nodes are registered, and which pods are nominated for them.
    pub(crate) nominator: Nominator,
    /// Decisions that are not durable yet, and recent decisions.
    pub(crate) decisions: DecisionQueue,
    /// What the store has of the replacements under way.
    pub(crate) replacement_records: ReplacementRecords,
    pub(crate) holds: Holds,
    /// When the disruption methods run.
    pub(crate) disruption: Disruption,
    pub(crate) cost_records: CostRecords,
    /// What has become of machines, in numbers.
    pub(crate) lifecycle_counter: LifecycleCounter,
    pub(crate) pod_durations: PodDurationObserver,
    /// The last nodes that went.
    pub(crate) removed_nodes: RemovedNodes,
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
        Self { cluster, region, limits_version, ..Self::default() }
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
        self.region.limits_version() != self.limits_version
    }

    #[must_use]
    pub fn state(&self) -> &ClusterState {
        &self.state
    }

    /// Whether decisions are allowed: the agent is connected and the state synced.
    pub(crate) fn is_ready(&self) -> bool {
        self.connected && self.state.is_synced()
    }

    /// The nominator, and what it reads.
    pub(crate) fn nominator_and_view(&mut self, now: Timestamp) -> (&mut Nominator, NominationView<'_>) {
        (&mut self.nominator, NominationView { state: &self.state, claims: &self.claims, now })
    }

    /// What parts read.
    pub(crate) fn step_view(&self, now: Timestamp) -> StepView<'_> {
        StepView {
            cluster: &self.cluster,
            connected: self.connected,
            state: &self.state,
            claims: &self.claims,
            gc: &self.gc,
            guardrails: &self.guardrails,
            decisions: &self.decisions,
            disruption: &self.disruption,
            holds: &self.holds,
            cost_records: &self.cost_records,
            node_classes: &self.node_classes,
            region: &self.region,
            now,
        }
    }

    /// Lets the status reporter act on a view of the other parts.
    pub(crate) fn with_status_reporter<R>(
        &mut self,
        now: Timestamp,
        act: impl FnOnce(&mut StatusReporter, &StepView<'_>) -> R,
    ) -> R {
        let mut reporter = std::mem::take(&mut self.status_reporter);
        let result = act(&mut reporter, &self.step_view(now));
        self.status_reporter = reporter;
        result
    }

    /// Sends an instruction to the agent; one for a NodeClaim blocks further instructions for it
    /// until answered.
    pub(crate) fn instruct(&mut self, instruction: Instruction, ctx: &mut Context<'_>) {
        let id = InstructionId(ctx.next_id());
        if let Some(claim) = instruction.claim() {
            self.claims.record_instruction(id, claim);
        }
        let cluster = self.cluster.clone();
        ctx.effects.push(Effect::Instruct { cluster, id, instruction: Box::new(instruction) });
    }

    /// Whether statuses may be written: not in quarantine, and not in shadow mode.
    pub(crate) fn may_report_status(&self, ctx: &Context<'_>) -> bool {
        !self.guardrails.is_quarantined() && !ctx.settings.is_shadow(&self.cluster)
    }
}
